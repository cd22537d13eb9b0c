"""The audit of a score: its numbers, its inputs, and what it shows."""

from __future__ import annotations

import json
import re

import dask.dataframe as dd
import duckdb
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from separatrix import audit, audit_score
from separatrix.auditing import tables
from separatrix.auditing.scores import ScoreAudit
from separatrix.auditing.tables import count_score_rows
from separatrix.columns.counting import count_scores
from separatrix.core.information import conditional_mutual_information
from separatrix.core.score_tables import ScoreTable
from separatrix.errors import InputError

mpl.use("agg")

ENGINES = {
    "pandas": lambda f: f,
    "polars": pl.from_pandas,
    "polars lazy": lambda f: pl.from_pandas(f).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "duckdb": duckdb.from_df,
    "dask": lambda f: dd.from_pandas(f, npartitions=3),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 3_000
    y, sex = rng.choice(["bad", "good"], n), rng.choice(["f", "m"], n)
    logit = rng.normal(size=n) + 1.5 * (y == "good") + 0.6 * (sex == "m") - 2
    race = rng.choice(["a", "b"], n)
    return pd.DataFrame({"y": y, "sex": sex, "race": race, "p": 1 / (1 + np.exp(-logit)), "w": rng.random(n)})


@pytest.fixture(scope="module")
def of_arrays(frame) -> ScoreAudit:
    return audit_score(frame["y"], frame["p"], sensitive_features=frame["sex"])


def test_every_number_is_the_one_that_it_says(frame, of_arrays):
    a, y = of_arrays, (frame["y"] == "good").to_numpy().astype(int)
    z, p = (frame["sex"] == "m").to_numpy().astype(int), frame["p"].to_numpy()
    counts = np.zeros((2, 2, 20))
    np.add.at(counts, (y, z, np.digitize(p, np.quantile(p, np.arange(1, 20) / 20))), 1)
    assert a.violation == pytest.approx(float(conditional_mutual_information(counts)), abs=1e-12)
    assert a.auroc == pytest.approx(roc_auc_score(y, p))
    assert a.auroc_by_group["f"] == pytest.approx(roc_auc_score(y[z == 0], p[z == 0]))
    decision = audit(y, (p > a.gap_at).astype(int), sensitive_features=z)
    assert a.gap == pytest.approx(decision.eo_gap)
    for group, (fpr, tpr) in a.rates.items():
        one = z == (group == "m")
        assert fpr == pytest.approx((p[one & (y == 0)] > a.gap_at).mean())
        assert tpr == pytest.approx((p[one & (y == 1)] > a.gap_at).mean())
    assert a.violation_interval[0] < a.violation_corrected < a.violation_interval[1]
    assert a.violation_floor < a.violation < a.violation_upper
    assert a.gap_floor < a.gap < a.gap_upper
    assert a.p_value < 0.001


def test_curves_are_points_of_scikit_learns_roc_curve(frame, of_arrays):
    for group, curve in of_arrays.curves.items():
        rows = frame[frame["sex"] == group]
        fpr, tpr, at = roc_curve(rows["y"] == "good", rows["p"], drop_intermediate=False)
        points = set(zip(fpr.round(9), tpr.round(9), strict=True))
        assert set(zip(np.round(curve.fpr, 9), np.round(curve.tpr, 9), strict=True)) <= points
        assert (curve.fpr[0], curve.tpr[0], curve.threshold[0]) == (1, 1, None)
        assert (curve.fpr[-1], curve.tpr[-1]) == (0, 0)
        assert len(at) > len(curve.fpr) / 2


def same(a: ScoreTable, b: ScoreTable) -> None:
    assert (a.labels, a.groups, a.rows) == (b.labels, b.groups, b.rows)
    for name in ("atom", "cell", "weight", "squares"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [None, "w"])
def test_every_engine_counts_what_the_arrays_count(frame, engine, weight):
    """Told apart, and in bins: then it is the score rounded down to the bins."""
    table = ENGINES[engine](frame)
    w = None if weight is None else frame[weight]
    both = count_score_rows(table, y="y", z=["sex", "race"], score="p", weight=weight)
    groups = frame[["sex", "race"]]
    arrays = count_scores(frame["y"], frame["p"], sensitive_features=groups, sample_weight=w)
    same(both, arrays)
    np.testing.assert_array_equal(both.values, arrays.values)
    binned = count_score_rows(table, y="y", z="sex", score="p", weight=weight, in_memory=0)
    rounded = np.floor(frame["p"] * tables._BINS)
    arrays = count_scores(frame["y"], rounded, sensitive_features=frame["sex"], sample_weight=w)
    same(binned, arrays._merged())
    assert not binned.exact


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_frame_gives_the_audit_of_its_arrays(frame, weight):
    a = audit_score(
        frame["y"],
        frame["p"],
        sensitive_features=frame[["sex", "race"]],
        sample_weight=None if weight is None else frame[weight],
    )
    b = audit_score(
        duckdb.from_df(frame), target="y", sensitive_features=["sex", "race"], prediction="p", sample_weight=weight
    )
    assert a.to_dict() == b.to_dict()
    assert ("f", "b") in b.auroc_by_group


def test_the_audit_of_a_histogram_is_near_that_of_the_scores(frame, of_arrays):
    b = ScoreAudit.from_table(count_score_rows(frame, y="y", z="sex", score="p", in_memory=0))
    for name in ("gap", "gap_upper", "violation", "violation_floor", "auroc"):
        assert getattr(of_arrays, name) == pytest.approx(getattr(b, name), abs=2e-3), name
    assert b.gap_upper >= of_arrays.gap_upper - 1e-12


@pytest.mark.slow
def test_scores_that_are_no_probabilities_are_counted_between_their_ends(frame):
    logit = np.log(frame["p"] / (1 - frame["p"]))
    table = count_score_rows(frame.assign(p=logit), y="y", z="sex", score="p", in_memory=0)
    a = audit_score(frame["y"], frame["p"], sensitive_features=frame["sex"])
    assert ScoreAudit.from_table(table).auroc == pytest.approx(a.auroc, abs=1e-4)
    assert ScoreAudit.from_table(table).gap == pytest.approx(a.gap, abs=0.003)


def test_parts_of_a_frame_add_up_to_its_audit(frame, of_arrays):
    tables = [count_score_rows(frame[i::3], y="y", z="sex", score="p") for i in range(3)]
    added = ScoreAudit.from_table(tables[0] + tables[1] + tables[2])
    assert added.to_dict() | {"sensitive_columns": ["sex"]} == of_arrays.to_dict()


@pytest.mark.slow
def test_files_give_the_audit_of_their_arrays(frame, of_arrays, tmp_path):
    for i in range(2):
        frame[i::2].to_parquet(tmp_path / f"part-{i}.parquet")
    frame.to_csv(tmp_path / "all.csv", index=False)
    for path in ("part-*.parquet", "all.csv"):
        a = audit_score(tmp_path / path, target="y", sensitive_features="sex", prediction="p")
        by_name = audit_score(tmp_path / path, "p", target="y", sensitive_features="sex")
        assert by_name.to_dict() == a.to_dict()
        assert a.to_dict() == of_arrays.to_dict()


def test_text_names_the_threshold_and_every_group(of_arrays):
    text = str(of_arrays)
    assert f"{of_arrays.gap:.4f}" in text
    assert f"{of_arrays.gap_at:.4g}" in text
    assert f"{of_arrays.violation_floor:.4f}" in text
    assert re.search(r"f +\S+ rows +FPR 0\.\d+ +TPR 0\.\d+ +AUROC 0\.\d+", text)
    assert max(map(len, text.splitlines())) <= 100


def test_html_escapes_names_and_draws_a_curve_per_group(frame):
    sex = frame["sex"].map({"f": "<script>x</script>", "m": "m"})
    html = audit_score(frame["y"], frame["p"], sensitive_features=sex)._repr_html_()
    assert "<script>" not in html
    assert html.count("<svg") == 2
    assert not re.search(r"\bnan\b|None", html)


@pytest.mark.slow
def test_the_picture_draws_every_groups_curve(of_arrays):
    ax = of_arrays.plot()
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [f"sex={g} ({x:.3f})" for g, x in of_arrays.auroc_by_group.items()]
    assert len(ax.lines) == 1 + 2 * 2
    assert of_arrays.plot(ax) is ax
    mpl.pyplot.close(ax.figure)


def test_json_has_no_nan_where_a_group_lacks_a_label(frame):
    y = np.where(frame["sex"] == "m", "bad", frame["y"])
    a = audit_score(y, frame["p"], sensitive_features=frame["sex"])
    read = json.loads(a.to_json())
    assert read["auroc_by_group"]["m"] is None
    assert read["rates"]["m"]["tpr"] is None
    assert "not defined" in str(a)
    assert a._repr_html_()
    assert a.plot()
    assert any("without rows" in note for note in a.notes)


def test_few_atoms_merge_bins_and_a_constant_score_shows_nothing(frame):
    few = audit_score(frame["y"], np.round(frame["p"], 1), sensitive_features=frame["sex"])
    assert few.bins < 11
    assert "instead of 20" in few.notes[0]
    none = audit_score(frame["y"], np.ones(len(frame)), sensitive_features=frame["sex"])
    assert (none.gap, none.auroc, none.p_value) == (0, 0.5, 1)
    assert none.violation < 1e-15
    assert "same score" in str(none)


def test_a_separated_draw_of_a_group_dependent_score_is_caught():
    """The posterior's draw can be separated while its thresholds are not: only scores show it."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 20_000))
    spread = np.where(z == 1, 0.3, 0.1) * rng.choice([-1, 1], 20_000)
    p = np.clip(0.35 + 0.3 * y + spread, 0, 1)  # the same mean in both groups, given the label
    assert audit(y, np.column_stack([1 - p, p]), sensitive_features=z).violation < 1e-3
    assert audit_score(y, p, sensitive_features=z).gap > 0.4


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"y_true": [0, 1, 2] * 100}, "one label against the rest"),
        ({"y_true": [1] * 300}, "only one label"),
        ({"sensitive_features": ["f"] * 300}, "only one group"),
        ({"bins": 1}, "`bins` must be a whole number"),
        ({"bins": 2.5}, "`bins` must be a whole number"),
        ({"confidence": 95}, "pass 0.95"),
        ({"sample_weight": [-1.0] * 300}, "not negative"),
        ({"sensitive_features": None}, "is missing"),
        ({"score": pd.Series([None] * 300, dtype="Float64")}, "300 missing values"),
    ],
)
def test_bad_input_is_one_sentence(change, what):
    rng = np.random.default_rng(0)
    good = {"y_true": rng.integers(0, 2, 300), "score": rng.random(300), "sensitive_features": rng.integers(0, 2, 300)}
    with pytest.raises(InputError, match=what):
        audit_score(**(good | change))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"prediction": "sexy"}, "Did you mean 'sex'"),
        ({"prediction": "race"}, "must hold numbers"),
        ({"prediction": "w", "sensitive_features": "w"}, "two things at once"),
        ({"sensitive_features": []}, "at least one column"),
    ],
)
def test_bad_columns_are_one_sentence(frame, change, what):
    with pytest.raises(InputError, match=what):
        audit_score(frame, **({"target": "y", "sensitive_features": "sex", "prediction": "p"} | change))


@pytest.mark.parametrize("rows", [0, 10**6])
def test_a_missing_score_in_a_frame_is_named(frame, rows):
    holes = frame.assign(p=frame["p"].where(frame.index > 1))
    for table in (pl.from_pandas(holes), holes):
        with pytest.raises(InputError, match=r"p.* 2 missing"):
            count_score_rows(table, y="y", z="sex", score="p", in_memory=rows)
