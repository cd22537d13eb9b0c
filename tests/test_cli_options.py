"""What all commands share: JSON, the standard input, silence."""

from __future__ import annotations

import json
import logging
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from separatrix.cli import app
from separatrix.cli.app import answer
from separatrix.io import LOG, Stages, interactive

COLUMNS = ["--y", "y", "--z", "z"]


@pytest.fixture
def table() -> str:
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 400))
    s = np.clip(0.5 * y + 0.5 * rng.random(400), 0, 1).round(3)
    lines = [f"{a},{'fm'[b]},{c},{int(c > 0.7)}" for a, b, c in zip(y, z, s, strict=True)]
    return "\n".join(["y,z,s,u", *lines]) + "\n"


@pytest.fixture(autouse=True)
def _loud_again():
    yield
    LOG.setLevel(logging.NOTSET)


def run(*arguments: object, given: str | None = None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=given)


def test_every_command_has_json():
    group = typer.main.get_command(app)
    without = [
        name for name, command in group.commands.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    ]  # fmt: skip
    assert without == []


def test_the_standard_input_is_the_same_as_a_file(table, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text(table)
    arguments = [*COLUMNS, "--pred", "u", "--json"]
    from_file, from_stdin = (
        run("audit", file, *arguments),
        run("audit", "-", *arguments, given=table),
    )
    assert from_stdin.exit_code == 0, from_stdin.output
    assert json.loads(from_stdin.stdout) == json.loads(from_file.stdout)


def test_an_empty_standard_input_is_one_sentence():
    done = run("audit", "-", *COLUMNS, "--pred", "u", given="")
    assert "standard input is empty" in str(done.exception)


def test_limit_as_json_is_the_curve(table):
    done = run("limit", "-", *COLUMNS, "--score", "s", "--level", "0.01", "--json", given=table)
    found = json.loads(done.stdout)
    assert found["levels"] == [0.01]
    assert found["values"][0] <= found["upper"][0] + 1e-9


@pytest.mark.parametrize("command", ["datasets", "methods"])
def test_listings_as_json_have_a_name_each(command):
    rows = json.loads(run(command, "--json").stdout)
    assert {"adult", "cmi"} & {row["name"] for row in rows}


def test_quiet_prints_nothing_and_the_status_says_it(table):
    arguments = ["audit", "-", *COLUMNS, "--pred", "u"]
    assert run("--quiet", *arguments, given=table).output == ""
    failed = run("--quiet", *arguments, "--fail-above", "eo_gap=0", given=table)
    assert failed.exit_code == 3
    assert run(*arguments, given=table).stdout  # the next one speaks again


def test_quiet_hides_bars_and_stages(capsys):
    LOG.setLevel(logging.ERROR)
    assert not interactive()
    with Stages(show=True).stage("training"):
        pass
    assert capsys.readouterr().err == ""


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="separatrix"), Stages(show=False).stage("training"):
        pass
    assert caplog.messages == ["training"]


def test_json_has_no_nan(capsys):
    answer("", {"v": float("nan"), "path": np.float64(0.5), "rows": np.arange(2)}, True)
    assert json.loads(capsys.readouterr().out) == {"v": None, "path": 0.5, "rows": [0, 1]}


def test_completion_is_offered():
    assert re.search("install-completion", run("--help").stdout)
