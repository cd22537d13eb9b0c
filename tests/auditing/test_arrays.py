"""audit() and the two scores: agreement with plain formulas, bad input, other libraries, and a fuzz
of the entry points.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fairlearn.metrics import MetricFrame, make_derived_metric
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV

import separatrix as sx
from separatrix.auditing.ceilings import exceeded
from separatrix.errors import InputError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 3_000
    y = rng.integers(0, 2, n)
    z = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])
    score = np.clip(rng.beta(2, 2, n) * 0.5 + 0.3 * y + 0.1 * (z == "b"), 0, 1)
    return y, z, score, (score > 0.5).astype(int), rng.random(n) + 0.1


def test_an_audit_reports_what_the_formulas_say(rows):
    y, z, _, u, _ = rows
    a = sx.audit(y, u, sensitive_features=z)
    table = a.table.counts
    assert a.violation == float(sx.theory.conditional_mutual_information(table))
    assert a.utility == float(sx.theory.mutual_information(table))
    assert a.accuracy == pytest.approx((y == u).mean())
    rates = [[u[(y == label) & (z == group)].mean() for group in "abc"] for label in (0, 1)]
    assert a.eo_gap == pytest.approx(0.5 * (np.ptp(rates[0]) + np.ptp(rates[1])))
    assert a.auditor_bound == pytest.approx(np.sqrt(2 * a.violation))
    low, high = a.violation_interval
    assert low < a.violation_corrected < high < a.violation_upper
    assert a.p_value < 0.01
    assert a.estimable
    assert a.notes == ()


@pytest.mark.parametrize("first", ["labels", "fractions"])
@pytest.mark.parametrize("odd", [0.25, 1.5])
def test_one_column_of_numbers_that_are_no_labels_is_refused_in_any_order(first, odd):
    """Whether floats were labels was decided by the first 65,536 rows."""
    n = 70_000
    y, z = np.arange(n) % 2, np.arange(n) // 2 % 2
    u = y.astype(float)
    u[: n // 100] = odd
    u = u if first == "fractions" else u[::-1]
    with pytest.raises(InputError, match=rf"{odd}.*shape \(n, K\).*`audit_score`"):
        sx.audit(y, u, sensitive_features=z)


def test_floats_that_are_labels_are_labels(rows):
    y, z, _, u, _ = rows
    expected = sx.audit(y, u, sensitive_features=z)
    a = sx.audit(y, u.astype(float), sensitive_features=z)
    np.testing.assert_array_equal(a.table.counts, expected.table.counts)
    halves = sx.audit(y / 2, u / 2, sensitive_features=z)
    np.testing.assert_array_equal(halves.table.counts, expected.table.counts)


def test_a_rate_that_no_row_shows_is_unknown():
    """It was printed as a TPR gap of 0.000 [0.000, 0.000], and the bound on the gap left it out."""
    y, z = np.repeat([0, 0, 1], [300, 40, 30]), np.repeat([0, 1, 0], [300, 40, 30])
    u = np.random.default_rng(0).integers(0, 2, len(y))
    a = sx.audit(y, u, sensitive_features=z)
    gap = a.criteria["equal_opportunity"].gaps["tpr_gap"]
    assert gap.value is None
    assert gap.interval[1] > 0.5
    assert "TPR gap unknown" in str(a)
    assert a.eo_gap_upper > 0.25  # the half of label 1 alone
    assert json.loads(a.to_json())["criteria"]["equal_opportunity"]["gaps"]["tpr_gap"]["value"] is None
    for name in ("eo_gap", "tpr_gap"):
        with pytest.raises(InputError, match=rf"{name} cannot be judged: \(1, 1\) has no rows"):
            exceeded(a, {name: 0.9})
    assert exceeded(a, {"eo_gap_upper": 1.0}) == ""


@pytest.mark.parametrize("wrap", [list, np.asarray, pd.Series, pl.Series, lambda x: pa.chunked_array([pa.array(x)])])
def test_every_kind_of_column_gives_the_same_audit(rows, wrap):
    y, z, _, u, _ = rows
    a = sx.audit(wrap(y), wrap(u), sensitive_features=wrap(z))
    assert a.to_dict() == sx.audit(y, u, sensitive_features=z).to_dict()


def test_several_sensitive_columns_make_an_intersection(rows):
    y, z, _, u, _ = rows
    other = np.arange(len(y)) % 2
    frame = pd.DataFrame({"z": z, "other": other})
    a = sx.audit(y, u, sensitive_features=frame)
    joined = sx.audit(y, u, sensitive_features=[f"{p}{q}" for p, q in zip(z, other, strict=True)])
    assert a.violation == pytest.approx(joined.violation, abs=1e-14)
    assert a.table.groups[0] == ("a", 0)
    assert "z=a & other=0" in str(a)
    array = sx.audit(y, u, sensitive_features=frame.astype(str).to_numpy())
    assert array.violation == pytest.approx(a.violation)


def test_frames_of_an_audit_are_tidy_and_add_up(rows):
    y, z, _, u, _ = rows
    a = sx.audit(y, u, sensitive_features=z)
    assert a.by_label["violation"].sum() == pytest.approx(a.violation)
    assert a.by_group["violation"].sum() == pytest.approx(a.violation)
    assert a.by_group["rows"].sum() == len(y)
    assert len(a.cells) == 2 * 3 * 2
    assert ((a.cells["low"] <= a.cells["rate"]) & (a.cells["rate"] <= a.cells["high"])).all()
    assert (a.by_label["eo_gap"].mean()) == pytest.approx(a.eo_gap)
    accuracy = [(y == u)[z == group].mean() for group in "abc"]
    np.testing.assert_allclose(a.by_group["accuracy"], accuracy)


def test_json_is_plain_and_whole(rows):
    y, z, score, _, _ = rows
    a = sx.audit(y, np.column_stack([1 - score, score]), sensitive_features=z)
    read = json.loads(a.to_json())
    assert read["violation"] == a.violation
    assert read["violation_interval"] == list(a.violation_interval)
    assert set(read["cells"]) >= {"label", "group", "prediction", "rate", "low", "high"}


def test_empty_and_small_cells_are_named_and_no_group_is_dropped():
    y = np.array([0, 1] * 200 + [0] * 3)
    z = np.array(["a", "a", "b", "b"] * 100 + ["rare"] * 3)
    a = sx.audit(y, y, sensitive_features=z)
    assert a.table.groups == ("a", "b", "rare")
    assert len(a.by_group) == 3
    assert any("fewer than 5 rows: (0, rare)" in note for note in a.notes)
    assert any("without rows" in note and "(1, rare)" in note for note in a.notes)


@pytest.mark.slow
def test_sparse_data_fall_back_to_the_bound_and_say_so():
    rng = np.random.default_rng(0)
    y, z, u = rng.integers(0, 20, 515), rng.integers(0, 9, 515), rng.integers(0, 20, 515)
    a = sx.audit(y, u, sensitive_features=z)
    assert not a.estimable
    assert a.violation_interval == (0.0, a.violation_upper)
    assert "2,427 of 2,427 cells" in a.notes[0]
    assert "trust the certified bound" in a.notes[0]
    assert "no interval" in str(a)


def test_one_empty_corner_takes_the_interval_and_not_the_value():
    """What six almost empty cells of 80 can add by chance is a fiftieth of v."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 20_000))
    u = np.clip(rng.normal(10 + 2 * y + z, 3, 20_000), 0, 19).astype(int)
    a = sx.audit(y, u, sensitive_features=z)
    assert not a.estimable
    assert "so v itself can be read" in a.notes[0]
    assert "6 of 80 cells" in a.notes[0]


def test_gaps_of_one_kind_are_those_of_the_rates():
    rng = np.random.default_rng(5)
    y, u, z = rng.integers(0, 2, 900), rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    a = sx.audit(y, u, sensitive_features=z)
    fpr, tpr = ([u[(y == k) & (z == g)].mean() for g in range(3)] for k in range(2))
    share = [u[z == g].mean() for g in range(3)]
    assert (a.fpr_gap, a.tpr_gap) == pytest.approx((np.ptp(fpr), np.ptp(tpr)))
    assert a.eo_max == pytest.approx(max(a.fpr_gap, a.tpr_gap))
    assert a.parity_gap == pytest.approx(np.ptp(share))
    assert a.impact_ratio == pytest.approx(min(share) / max(share))
    only = sx.audit([0, 0, 1, 1], [0, 1, 1, 1], sensitive_features=["f", "m", "f", "f"])
    assert np.isnan(only.tpr_gap)
    assert json.loads(only.to_json())["tpr_gap"] is None
    three = sx.audit(rng.integers(0, 3, 90), rng.integers(0, 3, 90), sensitive_features=z[:90])
    with pytest.raises(InputError, match=r"two labels, but there are 3"):
        _ = three.tpr_gap


def test_a_comparison_sees_a_real_drop_and_no_other(rows):
    y, z, _, u, _ = rows
    before = sx.audit(y, np.where(z == "a", 0, u), sensitive_features=z)
    after = sx.audit(y, u, sensitive_features=z)
    drop = sx.compare(after, before)
    assert drop.interval[1] < 0
    assert "lower" in str(drop)
    same = sx.compare(after, after)
    assert same.interval[0] < 0 < same.interval[1]
    assert "no clear difference" in str(same)
    with pytest.raises(InputError, match="Audit"):
        sx.compare(after, 3)


@pytest.mark.nightly
def test_a_comparison_holds_its_level_on_the_same_rows():
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(50):
        y, z = rng.integers(0, 2, (2, 600))
        u, w = (
            np.where(rng.random(600) < 0.15, z, y) for _ in range(2)
        )  # equally far from separation, on the same rows
        low, high = sx.compare(sx.audit(y, u, sensitive_features=z), sx.audit(y, w, sensitive_features=z)).interval
        wrong += not low <= 0 <= high
    assert wrong / 50 <= 0.05


def test_scores_work_in_fairlearn(rows):
    y, z, _, u, _ = rows
    frame = MetricFrame(
        metrics={"v": sx.metrics.violation_score, "u": sx.metrics.utility_score},
        y_true=y,
        y_pred=u,
        sensitive_features=z,
        sample_params={"v": {"sensitive_features": z}},
    )
    assert frame.overall["v"] == pytest.approx(sx.audit(y, u, sensitive_features=z).violation)
    assert (frame.by_group["v"] == 0).all()  # one group alone cannot violate separation
    spread = make_derived_metric(metric=sx.metrics.utility_score, transform="difference")(y, u, sensitive_features=z)
    assert spread == pytest.approx(np.ptp([sx.metrics.utility_score(y[z == g], u[z == g]) for g in "abc"]))


def test_scores_work_as_scikit_learn_scorers(rows):
    y, z, score, _, _ = rows
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(sx.metrics.violation_score, greater_is_better=False).set_score_request(
            sensitive_features=True
        )
        search = GridSearchCV(LogisticRegression(), {"C": [1e-6, 1.0]}, scoring=scorer, cv=3)
        search.fit(score[:, None], y, sensitive_features=z)
    assert search.cv_results_["mean_test_score"].max() <= 0
    assert search.best_params_["C"] == 1e-6  # the constant model says nothing about anyone


GOOD = {"y_true": [0, 1, 0, 1], "y_pred": [0, 1, 1, 1], "sensitive_features": ["a", "a", "b", "b"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_pred": [0, 1, 1]}, "`y_pred` 3"),
        ({"y_true": [0, 1, None, 1]}, "`y_true` has 1 missing value .row 2"),
        ({"y_true": [0.0, 1.0, np.nan, 1.0]}, "row 2"),
        ({"sensitive_features": ["a", None, "b", None]}, "`sensitive_features` has 2 missing values .rows 1, 3"),
        ({"sensitive_features": pd.Series(["a", None, "b", "b"])}, "row 1"),
        ({"sensitive_features": None}, "missing"),
        ({"y_pred": [0.2, np.nan, 0.3, 0.4]}, r"missing value \(row 1\)"),
        ({"y_pred": [[0.5, 0.5], [1.2, -0.2], [0, 1], [0, 1]]}, "1.2 in row 1"),
        ({"y_pred": [[0.5, 0.5], [0.5, 0.6], [0, 1], [0, 1]]}, "1.1 in row 1"),
        ({"y_pred": [[0.5, 0.5], [np.inf, 0.6], [0, 1], [0, 1]]}, "inf in row 1"),
        ({"y_pred": [[0.2, 0.3, 0.5]] * 4}, "3 columns for 2 labels"),
        ({"y_pred": ["x", "y", "x", "y"]}, "No value of `y_pred`"),
        ({"y_pred": [0, 1, 2, 1], "labels": [0, 1]}, "holds 2, not in `labels`"),
        ({"y_true": [0, 1, 2, 1], "y_pred": [0.1, 0.2, 0.3, 0.4]}, "no label of `y_true`"),
        ({"sensitive_features": ["a"] * 4}, "only one group .'a'."),
        ({"y_true": [1] * 4}, "only one label"),
        ({"y_true": [], "y_pred": [], "sensitive_features": []}, "no rows"),
        ({"sample_weight": [1, 1, -1, 1]}, "-1.0 in row 2"),
        ({"sample_weight": [0, 0, 0, 0]}, "zero in every row"),
        ({"sample_weight": [1, 1]}, "one value per row"),
        ({"confidence": 95}, "0.95"),
        ({"y_true": np.ones((2, 2, 2))}, "one column"),
        ({"sensitive_features": [{}, {}, {}, {}]}, "cannot be levels"),
        ({"y_true": [0j, 1j, 0j, 1j]}, "complex"),
    ],
)
def test_bad_input_gets_one_clear_sentence(change, message):
    arguments = {**GOOD, **change}
    with pytest.raises(InputError, match=message) as caught:
        sx.audit(arguments.pop("y_true"), arguments.pop("y_pred"), **arguments)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_an_identifier_as_a_group_is_refused():
    n = 10_000
    y = np.arange(n) % 2
    for identifier in (np.arange(n), np.array([f"person {i}" for i in range(n)])):
        with pytest.raises(InputError, match="10,000 distinct values"):
            sx.audit(y, y, sensitive_features=identifier)


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    return not isinstance(value, float) or np.isfinite(value)


@pytest.mark.nightly
@given(
    st.integers(2, 40), st.integers(2, 4), st.integers(2, 4), st.integers(0, 2**32 - 1), st.booleans(), st.booleans()
)
def test_fuzz_valid_rows_always_give_finite_numbers(n, labels, groups, seed, soft, weighted):
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, labels, n), rng.integers(0, groups, n)
    y[:2], z[:2] = (0, 1), (0, 1)
    u = rng.dirichlet(np.full(labels, 0.3), size=n) if soft else rng.integers(0, labels, n)
    w = rng.gamma(0.05, size=n) * 10.0 ** rng.integers(-200, 200) + 1e-300 if weighted else None
    a = sx.audit(y, u, sensitive_features=z, sample_weight=w, labels=range(labels))
    assert finite(a.to_dict())
    low, high = a.violation_interval
    assert 0 <= low <= high <= np.log(groups) + 1e-9
    assert 0 < a.p_value <= 1
    assert a._repr_html_()


def test_a_comparison_is_no_label_of_one_and_two() -> None:
    """True equals 1 in Python: `y_pred > 1` for the labels 1 and 2 would be the complement."""
    rng = np.random.default_rng(0)
    y, z = rng.integers(1, 3, 200), rng.integers(0, 2, 200)
    with pytest.raises(InputError, match=r"True and False.*np\.where"):
        sx.audit(y, y > 1, sensitive_features=z)
    assert sx.audit(y - 1, y > 1, sensitive_features=z).accuracy == 1.0
    assert sx.audit(y > 1, y - 1, sensitive_features=z).accuracy == 1.0
