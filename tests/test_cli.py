"""The command line as a person uses it: exit status, output, one sentence on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

import separatrix as sx
from separatrix.cli import main
from separatrix.errors import InputError
from separatrix.optimum.objectives import Cost, parse_cost

pytestmark = pytest.mark.slow


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Done:
    """One command in this process; `test_help_and_version` starts real ones."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["separatrix", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(ended.value.code or 0, out.getvalue(), err.getvalue())


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """One command as a person starts it."""
    code = "from separatrix.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def refused(monkeypatch, capsys):
    """What a wrong call says, in this process; its status is 2."""

    def call(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["separatrix", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("predictions")
    rng = np.random.default_rng(0)
    n = 3_000
    y = rng.choice(["<=50K", ">50K"], n)
    sex = rng.choice(["Female", "Male"], n)
    p = np.clip(0.5 * rng.random(n) + 0.3 * (y == ">50K") + 0.2 * (sex == "Male"), 0, 1)
    frame = pl.DataFrame({"income": y, "sex": sex, "race": rng.choice(["a", "b"], n), "score": p, "q": 1 - p})
    frame = frame.with_columns(decision=pl.when(pl.col("score") > 0.5).then(pl.lit(">50K")).otherwise(pl.lit("<=50K")))
    frame.write_csv(folder / "predictions.csv")
    for component in range(3):
        frame[component::3].write_parquet(folder / f"component-{component}.parquet")
    return folder


def test_audit_of_numbers(tmp_path):
    """A numeric outcome, groups and then age; a pipeline stops at the lower bound."""
    rng = np.random.default_rng(0)
    y, e = rng.normal(size=(2, 2_000))
    sex, age = rng.choice(["f", "m"], 2_000), np.round(40 + 10 * e + rng.normal(size=2_000))
    frame = pl.DataFrame({"wage": y, "sex": sex, "age": age, "u": y + e + (sex == "m")})
    frame.write_csv(tmp_path / "wages.csv")
    asked = ["audit", tmp_path / "wages.csv", "--target", "wage", "--prediction", "u", "--regression"]
    page = tmp_path / "page.html"
    done = run(*asked, "--sensitive", "sex", "--html", page, "--fail-above", "violation_lower=0.001")
    assert done.returncode == 3
    assert done.stdout.startswith("Among people with the same outcome, predictions for sex=m")
    assert done.stderr.startswith("separatrix: violation_lower is ")
    assert "percentile" in page.read_text(encoding="utf-8")
    done = run(*asked, "--sensitive", "age", "--numeric-sensitive", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["violation_lower"] > 0.1
    done = run(*asked, "--sensitive", "sex", "--score")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_audit_of_a_csv_prints_a_table(folder):
    done = run(
        "audit", folder / "predictions.csv", "--target", "income", "--sensitive", "sex", "--prediction", "decision"
    )
    assert done.returncode == 0, done.stderr
    assert "violation v = I(U;Z|Y)" in done.stdout
    assert "Who is affected" in done.stdout
    assert done.stderr == ""


def test_audit_of_a_score_prints_its_gap_and_writes_a_page(folder):
    common = ("audit", folder / "predictions.csv", "--target", "income", "--sensitive", "sex", "--prediction", "score")
    done = run(*common, "--score", "--json", "--html", folder / "score.html")
    assert done.returncode == 0, done.stderr
    page = (folder / "score.html").read_text()
    assert "<svg" in page
    assert "largest equalized-odds gap" in page
    read = json.loads(done.stdout)
    assert read["violation_floor"] < read["violation"]
    assert 0.2 < read["gap"] < read["gap_upper"]


@pytest.mark.parametrize(
    ("more", "status", "what"),
    [
        (("--fail-above", "eo_gap=0.05", "--fail-above", "violation=5"), 3, "eo_gap is 0."),
        (("--fail-below", "impact_ratio=0.99"), 3, "below 0.99"),
        (("--fail-below", "impact_ratio=0"), 0, ""),
        (("--fail-above", "impact_ratio=0.8"), 2, "--fail-below"),
        (("--score", "--fail-above", "gap=0.9"), 0, ""),
        (("--score", "--fail-above", "eo_gap=0.05"), 2, "There are violation, "),
    ],
)
def test_fail_above_stops_a_pipeline_with_one_sentence(folder, more, status, what):
    column = "score" if "--score" in more else "decision"
    common = ("audit", folder / "predictions.csv", "--target", "income", "--sensitive", "sex", "--prediction", column)
    done = run(*common, *more)
    assert done.returncode == status, done.stderr
    assert what in done.stderr
    assert len(done.stderr.splitlines()) == (status > 0)
    assert ("equalized-odds gap" in done.stdout) == (status != 2)


def test_a_glob_of_parquet_files_equals_the_csv(folder):
    common = ("--target", "income", "--sensitive", "sex", "--sensitive", "race", "--prediction", "decision", "--json")
    whole, components = (
        run("audit", folder / "predictions.csv", *common),
        run("audit", folder / "component-*.parquet", *common),
    )
    a, b = json.loads(whole.stdout), json.loads(components.stdout)
    assert a["rows"] == b["rows"] == 3_000
    assert a["violation"] == pytest.approx(b["violation"], abs=1e-12)
    frame = pl.read_csv(folder / "predictions.csv")
    expected = sx.audit(frame, target="income", sensitive_features=["sex", "race"], prediction="decision")
    assert a["violation"] == pytest.approx(expected.violation, abs=1e-12)


def test_html_page_escapes_the_users_names(folder, tmp_path):
    frame = pl.read_csv(folder / "predictions.csv").with_columns(
        sex=pl.col("sex").replace("Male", "<script>alert(1)</script>")
    )
    frame.write_csv(tmp_path / "evil.csv")
    page = tmp_path / "page.html"
    done = run(
        "audit",
        tmp_path / "evil.csv",
        "--target",
        "income",
        "--sensitive",
        "sex",
        "--prediction",
        "decision",
        "--html",
        page,
    )
    assert done.returncode == 0, done.stderr
    written = page.read_text()
    assert "<script" not in written
    assert "&lt;script&gt;" in written
    assert "http" not in written  # opens offline
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.csv", "page.html"]  # nothing half-written


GOOD = ("--target", "income", "--sensitive", "sex", "--prediction", "decision")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv", *GOOD], "no file"),
        (
            ["{folder}/predictions.csv", "--target", "incone", "--sensitive", "sex", "--prediction", "decision"],
            "Did you mean 'income'",
        ),
        (["{folder}/predictions.csv", *GOOD, "--confidence", "95"], "0.95"),
        (["{folder}/predictions.csv", *GOOD, "--html", "{folder}/nowhere/page.html"], "no folder"),
        (["{folder}/notes.txt", *GOOD], "kind .txt"),
        (["{folder}/broken.parquet", *GOOD], "cannot be read"),
        (["{folder}/empty.csv", *GOOD], "no column|cannot be read|no rows"),
    ],
)
def test_bad_input_is_one_sentence_and_status_two(folder, arguments, message):
    (folder / "notes.txt").write_text("hello")
    (folder / "broken.parquet").write_bytes(b"PAR1 not really")
    (folder / "empty.csv").write_text("")
    done = run("audit", *(argument.format(folder=folder) for argument in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert any(component in done.stderr for component in message.split("|")), done.stderr


def test_help_and_version():
    assert "audit" in run("--help").stdout
    assert "--prediction" in run("audit", "--help").stdout
    assert process("--version").stdout.strip() == sx.__version__
    refused = process("audit")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    rng = np.random.default_rng(1)
    n = 500
    sex, age = rng.choice(["f", "m"], n), rng.normal(40, 10, n).round(1)
    hired = np.where(0.05 * (age - 40) + 0.7 * (sex == "m") + rng.normal(0, 1, n) > 0.3, "yes", "no")
    path = tmp_path_factory.mktemp("people") / "people.csv"
    pl.DataFrame({"age": age, "sex": sex, "hired": hired}).write_csv(path)
    return path


class Traced(NamedTuple):
    """A command that traced a file, where to, and how it ended."""

    command: tuple[object, ...]
    out: Path
    done: Done


@pytest.fixture(scope="module")
def traced_file(people, tmp_path_factory) -> Traced:
    out = tmp_path_factory.mktemp("traced") / "frontier"
    asked = ("trace", people, "--target", "hired", "--sensitive", "sex", "--out", out)
    asked += ("--folds", "3", "--jobs", "1", "--estimator", "logistic")
    return Traced(asked, out, run(*asked))


def test_trace_of_a_file_writes_a_frontier(traced_file):
    out, done = traced_file.out, traced_file.done
    assert done.returncode == 0, done.stderr
    assert "500 rows, 1 feature; labels no" in done.stdout
    assert "Of people with 'yes'" in done.stdout
    assert "What you could ship" in done.stdout
    stages = done.stderr.splitlines()  # one line per stage where there is no terminal
    assert any(line.startswith("Measuring what could be shipped … ") for line in stages)
    free = ("Report:", "All points:", "Next:")
    lines = [line for line in done.stdout.splitlines() if not line.startswith(free)]
    assert max(map(len, lines)) <= 100
    found = sx.Frontier.load(out)
    assert set(found.points["fold"]) == {0, 1, 2}
    rows = pl.read_csv(out / "frontier.csv")
    assert rows.height == sum(answer.kind != "choice" for answer in found.answers)


def test_the_command_that_a_trace_prints_next_ships(traced_file, tmp_path):
    printed = traced_file.done.stdout.splitlines()
    (command,) = (line for line in printed if line.startswith("Next: "))
    given = shlex.split(command.removeprefix("Next: separatrix "))
    assert run(*given[:-1], tmp_path / "model").returncode == 0


def test_a_report_is_the_page_that_the_trace_wrote(traced_file, tmp_path):
    page = tmp_path / "again.html"
    assert run("report", traced_file.out, "--out", page).returncode == 0
    assert page.read_text() == (traced_file.out / "report.html").read_text()


def test_the_same_trace_again_changes_nothing(traced_file):
    points = sx.Frontier.load(traced_file.out).points
    assert run(*traced_file.command).returncode == 0
    assert sx.Frontier.load(traced_file.out).points.equals(points)  # not even the training times


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv", "--out", "{out}"], "neither a file nor a dataset; the datasets are"),
        (["{people}", "--out", "{out}"], "Name the columns"),
        (["{people}", "--target", "hired", "--sensitive", "sexe", "--out", "{out}"], "no column 'sexe'"),
        (["adult", "--target", "income", "--out", "{out}"], "knows its columns"),
        (["adult", "--out", "{out}", "--method", "cni"], "no method 'cni'"),
        (["adult", "--out", "{out}", "--backend", "dask"], "address of a Dask scheduler"),
    ],
)
def test_a_bad_trace_is_one_sentence_and_status_two(people, tmp_path, refused, arguments, message):
    said = refused("trace", *(one.format(people=people, out=tmp_path / "f") for one in arguments))
    assert message in said


@pytest.mark.nightly
def test_benchmark_writes_tables_and_figures(tmp_path):
    done = run(
        "benchmark", "synthetic", "--quick", "--method", "erm", "--method", "uniform", "--out", tmp_path, "--jobs", "1"
    )
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"synthetic-operating_points.csv", "synthetic-randomized.md", "synthetic-envelopes.tex"} <= names
    assert "added" in done.stdout
    assert list((tmp_path / "figures").glob("*.png"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synthetic", "--folds", "1"), "--folds must be between 2 and the"),
        (("synthetc",), "There is no dataset 'synthetc'"),
        (("synthetic", "--method", "cmo"), "There is no method 'cmo'"),
    ],
)
def test_a_bad_benchmark_is_one_sentence_and_no_folder(tmp_path, refused, arguments, message):
    said = refused("benchmark", *arguments, "--out", tmp_path / "results")
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_listings_name_every_dataset_and_method():
    shown = run("datasets").stdout
    assert all(name in shown for name in sx.datasets.names())
    shown = run("methods").stdout
    assert all(name in shown for name in sx.methods.names())


def test_limit_of_files_takes_objectives_budgets_and_costs(folder):
    common = "limit", folder / "component-*.parquet", "--target", "income", "--sensitive", "sex"
    done = run(*common, "--score", "score", "--maximize", "accuracy", "--budget", "eo_gap", "--level", "0.01")
    assert done.returncode == 0, done.stderr
    assert "any binary decision, by EO gap" in done.stdout
    assert "0.01" in done.stdout
    asked = *common, "--score", "score", "--maximize", "accuracy", "--level", "0.01"
    done = run(*asked, "--criterion", "independence", "--budget", "parity_gap")
    assert "any binary decision, by parity gap" in done.stdout, done.stderr
    done = run(*asked, "--criterion", "independence", "--budget", "eo_gap")
    assert done.returncode == 2
    assert "belongs to separation" in done.stderr
    done = run(*common, "--score", "score", "--cost", "5", "--budget", "tpr_gap")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_costs_are_written_as_two_numbers():
    assert parse_cost("fp=1,fn=5") == Cost(1.0, 5.0)
    for wrong in ("5", "fp=1", "fp=a,fn=1", "fp=-1,fn=1", "fp=1,fn=2,x=3"):
        with pytest.raises(InputError):
            parse_cost(wrong)
