"""What all commands share: JSON, the standard input, silence."""

from __future__ import annotations

import json
import logging
import re
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from separatrix.cli import app, main
from separatrix.cli.app import answer
from separatrix.io import LOG, Stages, interactive

COLUMNS = ["--target", "y", "--sensitive", "z"]


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
    arguments = [*COLUMNS, "--prediction", "u", "--json"]
    from_file, from_stdin = (run("audit", file, *arguments), run("audit", "-", *arguments, given=table))
    assert from_stdin.exit_code == 0, from_stdin.output
    assert json.loads(from_stdin.stdout) == json.loads(from_file.stdout)


def test_an_empty_standard_input_is_one_sentence():
    done = run("audit", "-", *COLUMNS, "--prediction", "u", given="")
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
    arguments = ["audit", "-", *COLUMNS, "--prediction", "u"]
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("audit t.csv --target y --sensitive z", "Missing option '--prediction'. See `separatrix audit --help`."),
        ("report", "Missing argument"),
        ("datasets --x", "No such option"),
        ("methods foo", "(foo). See `separatrix methods --help`."),
        ("nope", "No such command 'nope'"),
        ("limit t.csv --target y --sensitive z --score s --level much", "--level"),
        ("trace synthetic --folds 1 --out f", "--folds must be between 3 and"),
        ("benchmark synthetic --jobs 0 --out f", "--jobs must be a number of processes"),
        ("predict none t.csv --out o.csv", "There is no folder 'none'. Pass one that"),
        ("trace t.cvs --target y --sensitive z --out f", "Did you mean 't.csv'?"),
        ("trace adlut --out f", "Did you mean 'adult'?"),
        ("select f --max-eo-gap 0.1 --maximize accurracy --out m", "got 'accurracy'. Did you mean 'accuracy'"),
        ("audit t.csv --target y --sensitive z --prediction u --fail-above eogap=1", "Did you mean 'eo_gap'?"),
        ("monitor t.csv", "'t.csv' cannot be read as the state of a Monitor"),
    ],
)
def test_a_wrong_call_is_one_sentence_in_the_words_of_the_command_line(
    arguments, sentence, table, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table)
    monkeypatch.setattr(sys, "argv", ["separatrix", *arguments.split()])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--fail-above", "eo_gap=0"], 3)], ids=["done", "above"])
def test_the_status_of_a_command_is_that_of_the_process(more, status, table, tmp_path, monkeypatch):
    file = tmp_path / "t.csv"
    file.write_text(table)
    arguments = ["separatrix", "--quiet", "audit", str(file), *COLUMNS, "--prediction", "u", *more]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code or 0) == status


def test_an_audit_of_predictions_without_the_outcome_names_the_option_that_copies_it(tmp_path, monkeypatch, capsys):
    (tmp_path / "decisions.csv").write_text("decision,decided_by_coin,score\nyes,True,0.7\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["audit", "decisions.csv", "--target", "hired", "--sensitive", "sex", "--prediction", "decision"]
    monkeypatch.setattr(sys, "argv", ["separatrix", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert "`separatrix predict --keep` copies" in capsys.readouterr().err


def test_rows_without_a_group_are_left_out_or_a_group(tmp_path):
    rows = [f"{'' if i % 5 == 0 else 'fm'[i % 2]},{i % 3 == 0},{i % 4 == 0}" for i in range(200)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["sex,y,u", *rows]))
    common = ("audit", file, "--target", "y", "--sensitive", "sex", "--prediction", "u")
    refused = str(run(*common).exception)
    assert "`sex` has 40 missing values" in refused
    assert "Pass --missing-groups drop or own." in refused
    left, own = (json.loads(run(*common, "--json", "--missing-groups", choice).stdout) for choice in ("drop", "own"))
    assert (left["rows"], left["groups"]) == (160, ["f", "m"])
    assert (own["rows"], own["groups"]) == (200, ["f", "m", "(missing)"])


def test_commands_are_listed_in_the_order_of_their_use():
    listed = re.findall(r"(?m)^\W*(audit|trace|select|predict|benchmark)\b", run("--help").stdout)
    assert listed == ["audit", "trace", "select", "predict", "benchmark"]


REFUSED = [
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--folds", "2"],
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--unit", "z"],
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--min-level-rows", "0"],
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--positive", "7"],
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--unit", "s", "--method", "cmi"],
    ["trace", "table.csv", *COLUMNS, "--out", "f", "--drop", "u", "--keep", "ss"],
    ["audit", "table.csv", *COLUMNS, "--prediction", "s"],
    ["audit", "table.csv", *COLUMNS, "--prediction", "u", "--confidence", "2"],
    ["limit", "table.csv", *COLUMNS, "--score", "s", "--budget", "none"],
]


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda one: " ".join(one[5:]))
def test_a_refusal_names_options_that_the_command_has(arguments, table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(table)
    monkeypatch.setattr(sys, "argv", ["separatrix", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2, said
    command = typer.main.get_command(app).commands[arguments[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", said)) <= known, said
    names = {parameter.name for parameter in command.params}
    assert not set(re.findall(r"`([a-z_]+)`", said)) & (names | {"cv", "groups"}), said
