"""`select` ships the simplest candidate that keeps the budget, unless another is better."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import separatrix as sx
from separatrix.errors import InputError
from separatrix.frontier.rows import as_data, split_table

pytestmark = pytest.mark.slow  # a trace or a cross-fit each


def people(n, seed, effect):
    """Two features; the group shifts the outcome by `effect`, and no feature tells the group."""
    rng = np.random.default_rng(seed)
    z = rng.choice(["f", "m"], n)
    X = rng.normal(size=(n, 2))
    logit = 2.0 * X[:, 0] + X[:, 1] + effect * (np.where(z == "m", 0.5, -0.5))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no"), z


def traced(effect, **options):
    X, y, z = people(1_200, 0, effect)
    asked = {"estimator": "logistic", "cv": 3, "progress": False} | options
    return sx.trace(X, y, sensitive_features={"sex": z}, **asked)


@pytest.fixture(scope="module")
def mild():
    return traced(0.0, max_eo_gap=0.1)


@pytest.fixture(scope="module")
def strong():
    return traced(2.0, max_eo_gap=0.15)


def test_where_the_plain_model_keeps_the_budget_it_ships_and_nobody_meets_a_coin(mild):
    point = mild.select(max_eo_gap=0.1)
    assert point.sentence.startswith("Your model already keeps the budget")
    assert not point.predictor.randomized
    X, y, z = people(4_000, 1, 0.0)
    law = point.predictor.predict_proba(X, z)
    assert set(np.unique(law)) == {0.0, 1.0}
    assert sx.audit(y, law, sensitive_features=z).eo_gap < 0.1


def test_a_model_without_the_group_needs_no_group_to_predict(strong):
    plain, without, *_ = strong.candidates
    assert (plain.name, without.name) == ("plain", "without the group")
    assert plain.promise["eo_gap"].value > without.promise["eo_gap"].value
    level = 0.5 * (plain.promise["eo_gap"].value + without.promise["eo_gap"].value)
    point = strong.select(max_eo_gap=level)
    assert "Leave out `sex`" in point.sentence or "A rule is better" in point.sentence
    if "Leave out" in point.sentence:
        assert not point.predictor.uses_groups


def test_what_ships_has_no_larger_gap_than_the_simplest_that_keeps_the_budget(strong):
    table = strong.candidates
    level = table["plain"].promise["eo_gap"].value + 0.05
    point = strong.select(max_eo_gap=level)  # doing nothing keeps it
    assert point.promise["eo_gap"].value <= table["plain"].promise["eo_gap"].value + 1e-12
    assert point.promise["accuracy"].value >= table["plain"].promise["accuracy"].value - 1e-12


def test_every_trace_lists_both_base_models_and_the_first_sentence(mild):
    kinds = [(a.kind, a.blind) for a in mild.answers]
    assert ("plain", False) in kinds
    assert ("plain", True) in kinds
    assert str(mild).startswith("Your model already keeps the budget")
    assert not any(a.kind == "trained" for a in mild.answers)


def test_one_folder_has_one_base_model(mild):
    with pytest.raises(InputError, match="another base model"):
        traced(0.0, max_eo_gap=0.1, estimator="trees", out=mild.folder)


def test_labels_are_not_traced_into_the_folder_of_a_numeric_target(tmp_path):
    X, _, z = people(200, 0, 0.0)
    out = tmp_path / "frontier"
    sx.trace(X, X[:, 0], sensitive_features=z, task="regression", estimator="linear", cv=3,
             out=out, progress=False)  # fmt: skip
    with pytest.raises(InputError, match="frontier of numbers"):
        traced(0.0, out=out)


def test_a_table_by_its_columns_is_the_same_as_its_parts(tmp_path):
    """Frame, mapping and file."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 90), "sex": rng.choice(["f", "m"], 90)})
    frame["paid"] = rng.choice(["no", "yes"], 90)
    frame.to_csv(tmp_path / "people.csv", index=False)
    parts = as_data(frame[["age", "sex"]], frame["paid"], frame["sex"])
    for table in (frame, dict(frame.items()), tmp_path / "people.csv"):
        found = as_data(*split_table(table, "paid", "sex"))
        assert (found.features, found.labels, found.groups) == (
            parts.features, parts.labels, parts.groups,
        )  # fmt: skip
        for one, other in ((found.X, parts.X), (found.y, parts.y), (found.z, parts.z)):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match="not both"):
        sx.trace(frame, frame["paid"], target="paid", sensitive_features="sex")
    with pytest.raises(InputError, match=r"'payd'.*'paid'"):
        sx.trace(frame, target="payd", sensitive_features="sex")


def test_the_table_shows_what_ships_with_its_own_numbers(strong):
    found = strong.candidates
    promised = strong.select(max_eo_gap=0.15).promise
    for metric in ("eo_gap", "accuracy"):
        shown = found[found.chosen].promise[metric].value
        assert shown == pytest.approx(promised[metric].value)
