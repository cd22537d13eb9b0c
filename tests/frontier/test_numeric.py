"""A numeric target: what is measured is what ships, from arrays, frames and files."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import separatrix as sx
from people import paid
from separatrix.cli import app
from separatrix.core.conditional_cmi import rank_violation
from separatrix.errors import DataError, InfeasibleError, InputError
from separatrix.frontier.numeric import NumericFrontier, NumericPoint
from separatrix.statistics.unseen import Promise

pytestmark = pytest.mark.slow  # a trace or a cross-fit each


@pytest.fixture(scope="module")
def frontier(traced_pay):
    return traced_pay


def test_less_violation_for_more_penalty(frontier):
    means = dict(frontier.means)
    assert means[None]["violation"].value > 0.03
    assert means[1000.0]["violation"].value < 0.015
    assert means[0.0]["r2"].value > means[1000.0]["r2"].value > 0.5
    assert len(frontier.points) == 3 * (1 + 10)
    assert "given sex" in str(frontier)
    v = f"v = {means[None]['violation'].value:.4f} ± "
    assert re.search(f"{v}[0-9.]+ nats about sex", " ".join(str(frontier).split()))


@pytest.mark.nightly
def test_the_promise_is_what_unseen_rows_show(frontier):
    point = frontier.select(max_violation=0.02)
    d = paid(1, 20_000)
    u = point.predictor.predict(d)
    r2 = 1 - np.mean((d["pay"] - u) ** 2) / d["pay"].var()
    v = rank_violation(d["pay"].to_numpy(), u, (d["sex"] == "m").to_numpy().astype(int), 2)
    assert abs(r2 - point.promise["r2"].value) < 3 * point.promise["r2"].error + 0.02
    assert v < 0.025
    assert "on unseen rows R²" in str(point)
    assert point.to_dict()["promise"]["r2"] == list(point.promise["r2"])
    loose = frontier.select()
    assert loose.penalty == 0.0
    assert loose.promise["r2"].value >= point.promise["r2"].value


def test_what_ships_is_saved_loaded_and_carded(frontier, tmp_path):
    predictor = frontier.select(max_violation=0.05).predictor
    d = paid(2, 200)
    predictor.save(tmp_path / "model")
    again = sx.load(tmp_path / "model")
    assert (again.predict(d) == predictor.predict(d)).all()
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "R²: " in card
    assert "max violation: 0.05" in card
    with pytest.raises(InputError, match="holds 'x', which is not one of 'f', 'm'"):
        again.predict(d.assign(sex="x"))


def test_a_frontier_is_saved_loaded_and_shown(frontier, tmp_path):
    frontier.save(tmp_path / "copy")
    again = sx.Frontier.load(tmp_path / "copy")
    assert isinstance(again, NumericFrontier)
    assert again.means == frontier.means
    page = again.report(tmp_path / "r.html").read_text()
    assert "<svg" in page
    assert "prefers-color-scheme: dark" in page
    assert 'http-equiv="Content-Security-Policy"' in page
    assert "http://" not in page.split("<body>")[0]
    again.plot(tmp_path / "p.png")
    ax = again.plot()
    assert again.plot(ax=ax) is ax
    assert max(map(len, str(again).splitlines())) <= 100
    assert (tmp_path / "p.png").stat().st_size > 1000
    (tmp_path / "copy" / "frontier.json").write_text("{}")
    with pytest.raises(DataError, match="checksum does not match"):
        sx.Frontier.load(tmp_path / "copy")
    (tmp_path / "copy" / "checksums.json").unlink()
    with pytest.raises(DataError, match=r"frontier\.json is damaged"):
        sx.Frontier.load(tmp_path / "copy")


def test_a_trace_that_did_not_end_says_so(frontier, tmp_path):
    place = frontier.save(tmp_path / "half")
    manifest = json.loads((place / "frontier.json").read_text())
    (place / "frontier.json").write_text(json.dumps(manifest | {"points": []}))
    (place / "checksums.json").unlink()  # it is written last
    with pytest.raises(DataError, match="its trace did not end"):
        print(sx.Frontier.load(place))


@pytest.mark.slow
def test_a_file_from_trace_to_predictions(tmp_path):
    d = paid(4, 400)
    d.to_csv(tmp_path / "d.csv", index=False)
    run = CliRunner().invoke
    common = ["--target", "pay", "--sensitive", "age", "--regression", "--continuous-sensitive"]
    more = ["--estimator", "linear", "--folds", "3", "--jobs", "1", "--out", str(tmp_path / "f")]
    done = run(app, ["trace", str(tmp_path / "d.csv"), *common, *more])
    assert done.exit_code == 0, done.output
    assert "pay given age" in done.output
    assert (tmp_path / "f" / "report.html").is_file()
    model = str(tmp_path / "m")
    _, *command = shlex.split(done.output.split("Next: ")[1])
    assert run(app, [*command[:-1], model]).exit_code == 0  # what is printed succeeds
    done = run(app, ["select", str(tmp_path / "f"), "--max-violation", "0.5", "--out", model])
    assert done.exit_code == 0, done.output
    done = run(app, ["trace", str(tmp_path / "d.csv"), *common, *more[:-1], str(tmp_path / "d.csv")])
    assert "`out` must be a folder, and " in str(done.exception)
    done = run(app, ["trace", str(tmp_path / "d.csv"), *common, *more[:-1], str(tmp_path / "d.csv" / "below")])
    assert "d.csv' is a file" in str(done.exception)
    for wrong in (["--criterion", "independence"], ["--backend", "dask"]):
        done = run(app, ["trace", str(tmp_path / "d.csv"), *common, *more, *wrong])
        assert "--regression takes --target" in str(done.exception)
    for wrong in (["--maximize", "auroc"], ["--max-violation", "-1"]):
        done = run(app, ["select", str(tmp_path / "f"), *wrong, "--out", model])
        assert isinstance(done.exception, InputError)
    out = tmp_path / "p.csv"
    done = run(app, ["predict", model, str(tmp_path / "d.csv"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    found = pd.read_csv(out)
    assert list(found.columns) == ["prediction"]
    assert found["prediction"].nunique() <= 16
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["groups"] == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task": "number"}, "`task` must be None for labels or 'regression', got 'number'"),
        ({"blind": True}, "are for labels, not for numbers"),
        ({"criterion": "independence"}, "are for labels, not for numbers"),
        ({"levels": 1}, "`levels` must be a whole number from 2 on, got 1"),
        ({"task": None, "sensitive": "continuous"}, "for labels use `theory.align`"),
        ({"estimator": "forest"}, "There is no regressor 'forest'"),
        ({"cv": 2}, "`cv` must be between 3 and the 60 rows, got 2"),
        ({"sensitive": "continuous"}, "must hold numbers, got"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    d = paid(5, 60)
    asked = {"task": "regression", "sensitive_features": d["sex"], **change}
    with pytest.raises(InputError, match=sentence):
        sx.trace(d[["test"]], d["pay"], **asked)


def test_a_numeric_target_that_is_not_said_is_told(tmp_path):
    d = paid(6, 200)
    with pytest.raises(InputError, match='Pass task="regression"'):
        sx.trace(d[["test"]], d["pay"], sensitive_features=d["sex"])


@pytest.mark.parametrize(("r2", "said"), [(-0.01, True), (0.019, True), (0.021, False)])
def test_a_regressor_without_signal_is_told(r2, said):
    """R² within two errors of 0: the mean outcome predicts as well."""
    error = Promise.normal(1.0, 0.01)
    promise = {"r2": Promise.normal(r2, 0.01), "rmse": error, "violation": error}
    point = NumericPoint(None, 0.5, 0.0, promise, 0)
    assert ("! No signal: R² " in str(point)) == said
    assert point.to_dict()["notes"] == list(point.notes)


@pytest.mark.parametrize("asked", [0.0, 0.01, 0.02, 0.05])
def test_no_point_is_promised_above_its_budget(frontier, asked):
    """A point was shipped for .01 whose promise said .0139; labels are refused there."""
    try:
        point = frontier.select(max_violation=asked)
    except InfeasibleError as error:
        smallest = error.smallest["violation"]
        assert smallest > asked
        point, asked = frontier.select(max_violation=smallest), smallest
    assert point.promise["violation"].value <= asked
    assert point.max_violation == asked
    best = frontier.select().promise["r2"]
    assert point.promise["r2"].value <= best.value + best.error


def test_a_killed_numeric_trace_goes_on_and_other_rows_are_refused(tmp_path):
    d, out = paid(7, 300), tmp_path / "f"
    asked = {"sensitive_features": d["sex"], "task": "regression", "estimator": "linear"}
    first = sx.trace(d[["test"]], d["pay"], out=out, cv=3, **asked)
    fits = {path: path.stat().st_mtime_ns for path in (out / "base").iterdir()}
    again = sx.trace(d[["test"]], d["pay"], out=out, cv=3, **asked)
    assert {path: path.stat().st_mtime_ns for path in (out / "base").iterdir()} == fits
    assert again.means == first.means
    for change in ({"y": d["pay"] + 1}, {"cv": 4}, {"estimator": "trees"}):
        rows = {"y": d["pay"], "cv": 3, **asked, **change}
        with pytest.raises(InputError, match="remove that one"):
            sx.trace(d[["test"]], out=out, **rows)
