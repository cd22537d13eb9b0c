"""The audit of numbers: what it finds, what it says, what it refuses, and every way in."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.metrics import r2_score, root_mean_squared_error

import separatrix as sx
from separatrix.auditing import ceilings
from separatrix.errors import InputError


def people(n=4_000, seed=0, shift=0.6):
    """Wages, their predictions, sex and age; predictions of "m" are shifted up."""
    rng = np.random.default_rng(seed)
    y = rng.normal(10.0, 2.0, n)
    sex = np.where(rng.random(n) < 0.4, "f", "m")
    age = 20 + 3 * y + rng.normal(0.0, 8.0, n)
    u = y + rng.normal(0.0, 1.0, n) + shift * (sex == "m")
    return {"wage": y, "sex": sex, "age": age, "predicted": u}


@pytest.fixture(scope="module")
def rows():
    return people()


@pytest.fixture(scope="module")
def found(rows):
    return sx.audit_regression(rows["wage"], rows["predicted"], sensitive_features=rows["sex"])


def test_the_first_words_are_the_users(found):
    first = " ".join(str(found).split("\n\n")[0].split())
    assert first.startswith("Among people with the same outcome, predictions for m are typically")
    assert "percentile, for f at the" in first
    medians = found.ranks
    assert medians["f"][1] < 0.45 < 0.5 < medians["m"][1]
    assert "v = I(U;Z|Y)" in str(found)
    assert "No upper bound" in str(found)


def test_the_numbers_agree_with_each_other_and_with_scikit_learn(rows, found):
    low, high = found.violation_interval
    assert 0 < low < found.violation_at_resolution < high
    assert 0 < found.violation_lower < found.violation_at_resolution
    assert found.p_value < 1e-6
    assert found.distinct == 4_000
    assert found.r2 == pytest.approx(r2_score(rows["wage"], rows["predicted"]))
    assert found.rmse == pytest.approx(root_mean_squared_error(rows["wage"], rows["predicted"]))
    assert found.table.counts.sum() == 4_000
    shape = found.resolution
    assert found.table.counts.shape == (shape.bands, shape.groups, shape.ranks)


def test_every_view_shows_the_bound(found):
    read = json.loads(found.to_json())
    assert read["violation_lower"] == found.violation_lower
    assert read["resolution"]["bands"] == len(read["curves"]["f"]["median"])
    assert read["by_group"]["group"] == ["f", "m"]
    page = found.to_html()
    assert page.startswith("<!doctype html>")
    assert "percentile" in page
    assert "<polyline" in page
    assert not found._repr_html_().startswith("<!doctype")
    assert list(found.by_group["group"]) == ["f", "m"]


def test_the_plot_has_a_curve_for_each_group(found):
    ax = found.plot()
    assert [line.get_label() for line in ax.get_lines()][1:] == ["f", "m"]
    assert found.plot(ax) is ax


def test_names_of_groups_are_escaped():
    rows = people(500)
    sex = np.where(rows["sex"] == "f", "<script>", "m")
    page = sx.audit_regression(rows["wage"], rows["predicted"], sensitive_features=sex).to_html()
    assert "<script>" not in page


def test_frames_files_and_arrays_agree(rows, found, tmp_path):
    import pandas as pd

    frame = pd.DataFrame(rows)
    columns = {"target": "wage", "sensitive_features": "sex", "prediction": "predicted"}
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*(column.tolist() for column in rows.values()), strict=True))
    frame.to_parquet(tmp_path / "people.parquet")
    for other in (
        sx.audit_regression(frame, **columns),
        sx.audit_regression(tmp_path / "people.csv", **columns),
        sx.audit_regression(tmp_path / "people.parquet", **columns),
    ):
        assert other.to_dict() | {"sensitive_columns": []} == found.to_dict()


def test_a_continuous_attribute_is_shown_by_its_quarters(rows):
    a = sx.audit_regression(
        rows["wage"], rows["predicted"] + 0.03 * rows["age"], sensitive_features=rows["age"], numeric_sensitive=True
    )
    assert a.violation_lower > 0
    assert len(a.groups) == 4
    assert a.groups[0].startswith("below ")
    assert a.resolution.groups == a.resolution.ranks
    medians = [a.ranks[g][1] for g in a.groups]
    assert medians == sorted(medians)


def test_a_labelled_target_takes_a_continuous_attribute(rows):
    rich = np.where(rows["wage"] > 10, "yes", "no")
    score = rows["predicted"] + 0.05 * rows["age"]
    how = {"sensitive_features": rows["age"], "numeric_sensitive": True, "numeric_target": False}
    a = sx.audit_regression(rich, score, **how)
    assert (a.target, a.r2, a.rmse) == ("labels", None, None)
    assert a.outcome_dependence == a.rank_dependence == 0.0
    assert a.curves[a.groups[0]].outcome == ["no", "yes"]
    assert a.violation_lower > 0.01
    decided = np.where(score > np.median(score), "yes", "no")
    assert sx.audit_regression(rich, decided, **how).distinct == 2
    assert a.plot().get_xticklabels()[0].get_text() == "no"


def test_separated_predictions_are_not_blamed_for_the_outcome():
    """Z follows the outcome closely; bins of the outcome alone would report a violation."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=20_000)
    z = (rng.random(20_000) < 1 / (1 + np.exp(-3 * y))).astype(int)
    u = y + 0.1 * rng.normal(size=20_000)
    plain = np.searchsorted(np.quantile(y, [0.25, 0.5, 0.75]), y)
    binned = sx.audit(plain, np.searchsorted([-0.67, 0.0, 0.67], u), sensitive_features=z)
    assert binned.p_value < 0.002
    a = sx.audit_regression(y, u, sensitive_features=z)
    assert a.violation_lower < 1e-4
    assert a.p_value > 0.001


def test_a_digit_far_behind_the_point_hides_from_every_audit():
    """v = log 2, since the last digits are the group; no rank sees them: no upper bound exists."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=5_000)
    z = rng.integers(0, 2, 5_000)
    u = np.round(y + rng.normal(size=5_000), 6) + 1e-9 * z
    assert (np.round(1e9 * (u - np.round(u, 6))) == z).all()
    assert sx.audit_regression(y, u, sensitive_features=z).violation_lower < 0.005


def test_groups_with_few_rows_are_joined_and_named(rows):
    sex = rows["sex"].copy()
    sex[:9] = "x"
    a = sx.audit_regression(rows["wage"], rows["predicted"], sensitive_features=sex)
    assert any("few rows" in note and "x" in note for note in a.notes)
    assert a.violation_lower > 0
    assert a.ranks["x"][0] == 9


def test_constant_predictions_say_nothing():
    rows = people(1_000)
    a = sx.audit_regression(rows["wage"], np.zeros(1_000), sensitive_features=rows["sex"])
    assert (a.violation_lower, a.p_value, a.distinct) == (0.0, 1.0, 1)
    assert "equal" in a.notes[0]
    json.loads(a.to_json())


def test_weights_count_rows_and_zero_leaves_one_out(rows):
    kept = np.arange(4_000) % 4 > 0
    names = ("wage", "predicted", "sex")
    y, u, z = (rows[name] for name in names)
    a = sx.audit_regression(y, u, sensitive_features=z, sample_weight=kept.astype(float))
    b = sx.audit_regression(y[kept], u[kept], sensitive_features=z[kept])
    assert a.rows == b.rows == kept.sum()
    assert a.violation_lower == pytest.approx(b.violation_lower, rel=1e-3)
    assert a.r2 == pytest.approx(b.r2)
    assert "weighted" in a.notes[-1]


@pytest.mark.parametrize("scale", [1e-250, 1e306])
def test_only_order_counts_for_the_bound(rows, found, scale):
    a = sx.audit_regression(scale * rows["wage"], scale * rows["predicted"], sensitive_features=rows["sex"])
    assert a.violation_lower == pytest.approx(found.violation_lower, rel=1e-9)
    assert a.r2 == pytest.approx(found.r2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": "number"}, "`y_pred` belongs to arrays"),
        ({"numeric_target": "number"}, "`numeric_target` must be True or False, got 'number'"),
        ({"numeric_target": False}, "have `audit`"),
        ({"numeric_sensitive": True}, "numbers"),
        ({"sensitive_features": np.zeros(40)}, "only one group"),
        ({"y_true": np.ones(40)}, "`y_true` has one value only"),
        ({"y_true": ["a"] * 40}, "numbers"),
        ({"y_true": [np.nan] + [1.0] * 39}, "1 missing value"),
        ({"y_pred": np.ones((40, 2))}, "must be one column"),
        ({"y_pred": np.ones(39)}, "same number of rows"),
        ({"y_pred": [np.inf] + [1.0] * 39}, "infinite"),
        ({"confidence": 2}, "confidence"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change, sentence):
    good = {"y_true": np.arange(40.0), "y_pred": np.arange(40.0) ** 2, "sensitive_features": ["f", "m"] * 20}
    with pytest.raises(InputError, match=sentence):
        sx.audit_regression(**(good | change))


def test_two_continuous_attributes_are_refused(rows):
    both = {"age": rows["age"], "wage": rows["wage"]}
    with pytest.raises(InputError, match="2 columns"):
        sx.audit_regression(rows["wage"], rows["predicted"], sensitive_features=both, numeric_sensitive=True)


def test_labels_that_look_like_numbers_are_told_about(rows):
    """What a column means is said: the error names the word to say."""
    with pytest.raises(InputError, match="audit_regression"):
        sx.audit(np.round(rows["wage"]), rows["predicted"], sensitive_features=rows["sex"])


def test_groups_that_look_like_numbers_are_told_about(rows):
    rich = (rows["wage"] > 10).astype(int)
    years = np.round(rows["age"]).astype(int)
    a = sx.audit(rich, (rows["predicted"] > 10).astype(int), sensitive_features=years)
    assert any("numeric_sensitive=True" in note for note in a.notes)
    few = sx.audit(rich, rich, sensitive_features=years % 5)
    assert not any("quantity" in note for note in few.notes)


def test_ceilings_read_the_bound(found):
    names = ceilings.CONTINUOUS_NAMES
    asked = ceilings.parse_ceilings(["violation_lower=0.001"], names)
    assert "violation_lower is" in ceilings.exceeded(found, asked)
    assert ceilings.exceeded(found, {"violation_lower": 1.0}) == ""


def test_random_state_repeats_the_audit():
    rows = people(800)
    u = np.round(rows["predicted"])  # ties
    how = {"sensitive_features": rows["sex"]}
    a, b, c = (sx.audit_regression(rows["wage"], u, random_state=k, **how) for k in (0, 0, 1))
    assert a.to_dict() == b.to_dict()
    assert a.violation_at_resolution != c.violation_at_resolution
