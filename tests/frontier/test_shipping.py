"""The whole way: trace, select, save, predict; in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import separatrix as sx
from people import applicants
from separatrix.cli import main
from separatrix.errors import InputError
from separatrix.frontier.operating_point import with_warnings
from separatrix.procedure.promise import is_constant
from separatrix.statistics.unseen import Promise

pytestmark = pytest.mark.slow

pytest.importorskip("torch")


def columns(n=60, seed=51):
    return {name: values.to_numpy() for name, values in applicants(n, seed).items()}


def test_a_trained_point_reads_raw_rows_and_is_the_same_after_loading(traced, tmp_path):
    point = traced.select(max_eo_gap=0.5, method="cmi")
    (chosen,) = point.mixture.points
    rows = columns()
    q = point.predictor.predict_proba(rows)
    without = {k: rows[k] for k in ("age", "job")}
    np.testing.assert_allclose(point.predictor.predict_proba(without, rows["sex"]), q)
    model = traced.model("cmi", chosen.key.trade_off)
    expected = model.branches[0].base.model.posteriors(
        model.preprocessing.transform(rows), np.array(["f", "m"]).searchsorted(rows["sex"])
    )[0]
    (branch,) = point.predictor.branches
    if not point.predictor.randomized:
        expected = np.eye(2)[(expected[:, 1] > branch.rule.threshold).astype(int)]
    np.testing.assert_allclose(q, expected, atol=1e-6)
    point.predictor.save(tmp_path / "model")
    again = sx.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(rows, random_state=1), point.predictor.predict(rows, random_state=1))
    assert again.about["audit"]["rows"] == len(traced.rows["y"])
    watched = sx.Monitor(again)  # the budget that it was selected for
    assert (watched.measure, watched.budget, watched.reference.groups) == ("eo_gap", 0.5, again.groups)


def test_a_decided_point_has_the_threshold_of_the_model_that_ships(traced):
    """Not one taken from the folds."""
    point = traced.select(max_eo_gap=1.0, method="cmi")
    (branch,) = point.predictor.branches
    final = traced.results.final["cmi", "xz", "default", branch.base.trade_off]
    assert branch.rule.threshold == final
    assert not point.predictor.randomized


def test_a_confidence_ships_the_rule_that_did_not_see_the_rows_that_certify_it(traced):
    point = traced.select(max_violation=0.4, confidence=0.9)
    whole = traced.select(max_violation=0.4, confidence=0.9, guarantee="large-sample")
    assert whole.predictor.about["trained on"] == "all rows"
    assert "which certify it" in point.predictor.about["trained on"]
    assert "nan" not in str(point)
    with pytest.raises(InputError, match="leave `method` out"):
        traced.select(max_violation=0.4, confidence=0.9, method="cmi")


@pytest.mark.parametrize("guarantee", ["finite-sample", "large-sample"])
def test_what_a_refused_confidence_names_can_be_asked_for(traced, guarantee):
    with pytest.raises(sx.InfeasibleError) as refused:
        traced.select(max_eo_gap=1e-3, confidence=0.9, guarantee=guarantee)
    least = float(str(refused.value).split("EO gap ≤ ")[-1].split(". Ask")[0])
    point = traced.select(max_eo_gap=least, confidence=0.9, guarantee=guarantee, allow_constant=True)
    assert point.predictor is not None
    assert ("large-sample" in str(refused.value)) == (guarantee == "finite-sample")


def test_only_points_of_a_method_and_refusals(traced):
    assert traced.select(max_violation=1.0, method="cmi").mixture is not None
    assert traced.select(max_violation=1.0, method="postprocessing").mixture is None
    with pytest.raises(InputError, match="no trained point of erm"):
        traced.select(max_violation=1.0, method="erm")
    with pytest.raises(sx.InfeasibleError) as refused:
        traced.select(max_eo_gap=1e-6, method="postprocessing")
    smallest = refused.value.smallest["eo_gap"]
    point = traced.select(max_eo_gap=smallest, method="postprocessing", allow_constant=True)
    assert point.promise["eo_gap"].error > 0


@pytest.fixture(scope="module")
def nothing_learnt():
    """A trace of rows whose features say nothing about the label."""
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    y = np.where(rng.random(400) < 0.1, "yes", "no")
    return sx.trace(X, y, sensitive_features=z, estimator="logistic", method=[], cv=3)


def test_a_constant_is_refused_named_and_shipped_only_if_allowed(nothing_learnt):
    found = nothing_learnt
    assert found.shippable.sentence().startswith("The plain model says 'no' for everybody")
    assert "--allow-constant" in found.shippable.command(str(found.folder))
    with pytest.raises(sx.InfeasibleError, match="always 'no'"):
        found.select(max_eo_gap=1.0)
    point = found.select(max_eo_gap=1.0, allow_constant=True)
    assert is_constant(point.tables) == 0
    assert any("always 'no'" in note for note in point.notes)
    assert "always 'no'" in str(point)


def test_a_promise_above_its_budget_is_said(traced):
    point = traced.select(max_eo_gap=0.1, method="postprocessing")
    worse = replace(point, promise=dict(point.promise) | {"eo_gap": Promise.normal(0.2, 0.01)})
    assert "EO gap 0.2000 ± 0.01, more than the 0.1 asked" in str(with_warnings(worse))


def run(*arguments):
    command = [sys.executable, "-c", "from separatrix.cli import main; main()"]
    given = [*command, *map(str, arguments)]
    return subprocess.run(given, capture_output=True, text=True, timeout=300)


def test_select_and_predict_on_the_command_line(traced, tmp_path):
    asked = ("--max-eo-gap", 0.1, "--cost", "fp=1,fn=2", "--method", "postprocessing")
    done = run("select", traced.folder, *asked, "--out", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("You need a rule: thresholds by sex")
    assert "Smallest cost per row with EO gap ≤ 0.1: group rule" in done.stdout
    assert "always 'no'" in done.stdout
    assert f"Next: separatrix predict {tmp_path / 'model'} FILE" in done.stdout
    choice = json.loads((tmp_path / "model" / "manifest.json").read_text())["about"]["choice"]
    cost, error, *_ = choice["promise"]["cost"]
    assert f"cost per row      {cost:.4f} ± {error:.2g}" in done.stdout
    rows = columns(300, 52) | {"person": np.arange(300)}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    (tmp_path / "secret").write_text("kept by the operator alone\n")
    common = ("--id", "person", "--salt-file", tmp_path / "secret")
    done = run("predict", tmp_path / "model", tmp_path / "rows.csv", *common, "--out", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
    assert "300 predictions" in done.stdout
    read = pl.read_csv(tmp_path / "out.csv")
    labels = sx.load(tmp_path / "model").predict(rows, ids=rows["person"], salt="kept by the operator alone")
    assert read["decision"].to_list() == labels.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["select", "{frontier}", "--out", "{folder}/m"], "Pass a budget"),
        (["select", "{frontier}", "--max-eo-gap", "1e-9", "--out", "{folder}/m"], "Ask for that"),
        (["select", "{frontier}", "--max-eo-gap", "1", "--blind", "--out", "{folder}/m"], "blind"),
        (
            ["select", "{frontier}", "--max-eo-gap", "1", "--cost", "5", "--out", "{folder}/m"],
            "fp=1,fn=5",
        ),
        (
            ["select", "{frontier}", "--max-eo-gap", "1", "--maximize", "x", "--out", "{folder}/m"],
            "must be one of",
        ),
        (["select", "{folder}", "--max-violation", "1", "--out", "{folder}/m"], "frontier"),
        (
            ["predict", "{folder}", "{folder}/x.csv", "--out", "{folder}/o.csv"],
            "not a saved predictor",
        ),
        (
            ["predict", "{folder}", "x.csv", "--salt-file", "{folder}/none", "--out", "o.csv"],
            "cannot be read",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_status_two(traced, tmp_path, monkeypatch, capsys, arguments, message):
    filled = [argument.format(frontier=traced.folder, folder=tmp_path) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["separatrix", *filled])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert len(told.splitlines()) == 1
    assert message in told
    assert not (tmp_path / "m").exists()
