"""The whole way: trace, select, save, predict; in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import separatrix as sx
from people import people
from separatrix.cli import main
from separatrix.errors import InputError

pytestmark = pytest.mark.slow

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def frontier(tmp_path_factory):
    rows = people(900, seed=50)
    X = pl.DataFrame({name: rows[name] for name in ("age", "job")})
    return sx.trace(
        X,
        rows["pay"],
        sensitive_features=pl.Series("sex", rows["sex"]),
        trade_offs=(0.0, 0.6, 0.95),
        cv=2,
        references=False,
        out=tmp_path_factory.mktemp("frontier"),
        progress=False,
    )


def test_fold_means_are_those_of_the_frontier_and_the_predictor_reads_raw_rows(frontier, tmp_path):
    point = frontier.select(max_violation=0.02, maximize="auroc", option="single")
    chosen = point.selection.chosen.components[0]
    mean = frontier.means
    here = (
        (mean["trade_off"] == chosen.trade_off)
        & (mean["policy"] == "randomized")
        & (mean["method"] == "cmi")
    )
    assert point.violation == pytest.approx(float(mean["violation"][here][0]))
    assert point.metrics["auroc"] == pytest.approx(float(mean["auroc"][here][0]))
    rows = people(50, seed=51)
    q = point.predictor.predict_proba(rows)
    np.testing.assert_allclose(
        point.predictor.predict_proba({k: rows[k] for k in ("age", "job")}, rows["sex"]), q
    )
    model = frontier.model("cmi", chosen.trade_off)
    expected = model.components[0].fitted.posteriors(
        model.preprocessing.transform(rows), np.array(["f", "m"]).searchsorted(rows["sex"])
    )[0]
    np.testing.assert_allclose(q, expected, atol=1e-6)
    point.predictor.save(tmp_path / "model")
    again = sx.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict(rows, random_state=1), point.predictor.predict(rows, random_state=1)
    )
    assert again.about["audit"]["branch 0"]["rows"] == 900


def test_a_deterministic_offer_uses_the_folds_thresholds(frontier):
    point = frontier.select(max_eo_gap=1.0, option="deterministic")
    component = point.predictor.components[0]
    columns = frontier.columns
    mine = (columns["trade_off"] == component.trade_off) & (columns["policy"] == "deterministic")
    assert component.threshold == pytest.approx(float(np.median(columns["threshold"][mine])))
    assert not point.predictor.randomized


@pytest.mark.parametrize("option", ["deterministic", "single", "mixture"])
def test_with_confidence_the_shipped_model_did_not_see_the_rows_that_certify_it(frontier, option):
    point = frontier.select(max_violation=0.3, confidence=0.9, option=option)
    fold = frontier.rows["fold"] == 0
    rows = {name: values[fold] for name, values in people(900, seed=50).items()}
    for component, candidate in zip(
        point.predictor.components, point.selection.chosen.components, strict=True
    ):
        from dataclasses import replace

        table = replace(point.predictor, components=(component,), weights=(1.0,)).counts(
            rows, rows["pay"]
        )
        np.testing.assert_allclose(table.counts, candidate.hold_out.counts, atol=0.01)
    assert point.predictor.preprocessing == frontier.preprocessing(0)
    assert "which certify it" in point.predictor.about["trained on"]


def test_only_points_of_a_method_and_refusals(frontier):
    assert frontier.select(max_violation=1.0, method="cmi").violation >= 0
    with pytest.raises(InputError, match="no trained point to choose from of erm"):
        frontier.select(max_violation=1.0, method="erm")
    with pytest.raises(sx.InfeasibleError, match="The smallest that one keeps"):
        frontier.select(max_violation=1e-12)


def test_a_matrix_in_a_matrix_out(tmp_path):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    y = (X[:, 0] + z + rng.normal(size=400) > 0.5).astype(int)
    options = {
        "trade_offs": (0.9,),
        "cv": 2,
        "references": False,
        "progress": False,
        "out": tmp_path / "frontier",
    }
    found = sx.trace(X, y, sensitive_features=z, **options)
    predictor = found.select(max_violation=1.0).predictor
    assert predictor.predict_proba(X[:7], sensitive_features=z[:7]).shape == (7, 2)
    assert set(predictor.predict(X, sensitive_features=z, random_state=0)) <= {0, 1}


def run(*arguments):
    command = [
        sys.executable,
        "-c",
        "from separatrix.cli import main; main()",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_select_and_predict_on_the_command_line(frontier, tmp_path):
    done = run(
        "select",
        frontier.folder,
        "--max-violation",
        0.02,
        "--maximize",
        "auroc",
        "--out",
        tmp_path / "model",
    )
    assert done.returncode == 0, done.stderr
    assert "Best auroc with violation ≤ 0.02, by fold mean" in done.stdout
    assert "price" in done.stdout
    assert (
        json.loads((tmp_path / "model" / "manifest.json").read_text())["about"]["choice"][
            "maximize"
        ]
        == "auroc"
    )
    rows = people(300, seed=52) | {"person": np.arange(300)}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    (tmp_path / "secret").write_text("kept by the operator alone\n")
    common = ("--id", "person", "--salt-file", tmp_path / "secret")
    done = run(
        "predict", tmp_path / "model", tmp_path / "rows.csv", *common, "--out", tmp_path / "out.csv"
    )
    assert done.returncode == 0, done.stderr
    assert "300 predictions" in done.stdout
    read = pl.read_csv(tmp_path / "out.csv")
    labels = sx.load(tmp_path / "model").predict(
        rows, ids=rows["person"], salt="kept by the operator alone"
    )
    assert read["prediction"].to_list() == labels.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["select", "{frontier}", "--out", "{folder}/m"], "Pass a budget"),
        (
            ["select", "{frontier}", "--max-violation", "1e-12", "--out", "{folder}/m"],
            "The smallest that one keeps",
        ),
        (
            [
                "select",
                "{frontier}",
                "--max-violation",
                "1",
                "--maximize",
                "x",
                "--out",
                "{folder}/m",
            ],
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
)
def test_bad_input_is_one_sentence_and_status_two(
    frontier, tmp_path, monkeypatch, capsys, arguments, message
):
    filled = [argument.format(frontier=frontier.folder, folder=tmp_path) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["separatrix", *filled])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert len(told.splitlines()) == 1
    assert message in told
    assert not (tmp_path / "m").exists()
