"""What every user may rely on, through public names only: audit, limit, trace, select, estimators.

No test here knows a room. They state properties that hold whatever the inside looks like.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import separatrix as sx


def applicants(n, seed):
    """Features, labels and groups: the second feature favours one group."""
    rng = np.random.default_rng(seed)
    z = rng.choice(["f", "m"], n)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + np.outer(y, [0.8, 0.8]) + np.outer(z == "m", [0.0, 1.2])
    return X, np.where(y == 1, "yes", "no"), z


@pytest.fixture(scope="module")
def train():
    return applicants(1_500, 0)


@pytest.fixture(scope="module")
def fresh():
    return applicants(20_000, 1)


@pytest.fixture(scope="module")
def model(train):
    X, y, z = train
    budgeted = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, cv=3, random_state=0)
    return budgeted.fit(X, y, sensitive_features=z)


@pytest.fixture(scope="module")
def frontier(train, tmp_path_factory):
    X, y, z = train
    return sx.trace(
        X, y, sensitive_features=z, estimator="logistic", method=[], cv=3, random_state=0,
        out=tmp_path_factory.mktemp("traced") / "frontier", progress=False,
    )  # fmt: skip


def gap(X, y, z, decide):
    """The equalized-odds gap of a distribution of decisions."""
    return sx.audit(y, decide(X, sensitive_features=z), sensitive_features=z).eo_gap


# audits


def test_an_audit_reads_lists_arrays_and_series_alike(train):
    pandas = pytest.importorskip("pandas")
    X, y, z = train
    u = np.where(X[:, 1] > 1.0, "yes", "no")
    audits = [sx.audit(wrap(y), wrap(u), sensitive_features=wrap(z)) for wrap in (np.asarray, list, pandas.Series)]
    assert len({(a.violation, a.utility, a.eo_gap, a.p_value) for a in audits}) == 1


def test_an_audit_does_not_depend_on_names_or_order(train):
    X, y, z = train
    u = np.where(X[:, 1] > 1.0, "yes", "no")
    plain = sx.audit(y, u, sensitive_features=z)
    order = np.random.default_rng(0).permutation(len(y))
    renamed = np.where(z == "f", "z-last", "a-first")
    other = sx.audit(y[order], u[order], sensitive_features=renamed[order])
    assert other.violation == pytest.approx(plain.violation, rel=1e-12)
    assert other.eo_gap == pytest.approx(plain.eo_gap, rel=1e-12)


def test_an_audit_prints_and_is_plain_data(train):
    X, y, z = train
    a = sx.audit(y, np.where(X[:, 1] > 1.0, "yes", "no"), sensitive_features=z)
    assert json.loads(a.to_json())["eo_gap"] == pytest.approx(a.eo_gap)
    assert "f" in str(a)
    assert a._repr_html_().lstrip().startswith("<")


def test_decisions_that_ignore_the_group_have_no_violation():
    y = np.repeat([0, 1], 400)
    z = np.tile([0, 1], 400)
    u = np.tile([0, 0, 1, 1], 200)  # every pair (y, z) has the same rate
    a = sx.audit(y, u, sensitive_features=z)
    assert (a.violation, a.eo_gap) == (pytest.approx(0.0, abs=1e-12),) * 2


def test_a_score_and_any_rising_function_of_it_have_one_audit(train):
    X, y, z = train
    audits = [sx.audit_score(y, f(X[:, 0]), sensitive_features=z) for f in (np.asarray, np.arctan)]
    assert audits[0].auroc == audits[1].auroc
    assert audits[0].gap == audits[1].gap


# limit


@pytest.mark.parametrize("budget", ["eo_gap", "violation"])
def test_a_limit_rises_with_the_level_and_its_rule_keeps_it(train, budget):
    X, y, z = train
    s = X.sum(1)
    best = sx.limit(y, s, sensitive_features=z, maximize="accuracy", budget=budget, levels=[0.0, 0.01, 0.1])
    assert (np.diff(best.values) >= 0).all()
    assert (best.upper >= best.values).all()
    for level, value in zip(best.levels, best.values, strict=True):
        law = best.rule(level).predict_proba(s, sensitive_features=z)
        np.testing.assert_allclose(law.sum(1), 1.0, atol=1e-12)
        a = sx.audit(y, law, sensitive_features=z)
        assert getattr(a, budget) <= level + 1e-8
        assert a.accuracy == pytest.approx(value, abs=1e-8)


# estimators


def test_a_classifier_keeps_its_budget_on_fresh_rows_and_beats_a_constant(model, fresh):
    X, y, z = fresh
    assert gap(X, y, z, model.predict_proba) < 0.05 + 0.05  # 1,500 rows: a standard error of 0.02
    law = model.predict_proba(X, sensitive_features=z)
    right = law[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert right.mean() > 0.65
    np.testing.assert_allclose(law.sum(1), 1.0, atol=1e-12)


def test_a_larger_budget_is_not_less_accurate(train, fresh):
    X, y, z = train
    new, truth, group = fresh
    accuracy = []
    for budget in (0.0, 1.0):
        tight = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=budget, cv=3, random_state=0)
        try:
            tight.fit(X, y, sensitive_features=z)
        except sx.InfeasibleError:
            continue  # these rows cannot promise so small a budget, and it says so
        law = tight.predict_proba(new, sensitive_features=group)
        accuracy.append(law[np.arange(len(new)), np.searchsorted(tight.classes_, truth)].mean())
    assert accuracy == sorted(accuracy)


def test_a_clone_fitted_again_is_the_same_model(model, train):
    X, y, z = train
    again = clone(model).fit(X, y, sensitive_features=z)
    law = model.predict_proba(X, sensitive_features=z)
    np.testing.assert_array_equal(again.predict_proba(X, sensitive_features=z), law)


def test_predictions_are_labels_and_repeat_with_a_seed(model, fresh):
    X, _, z = (part[:300] for part in fresh)
    u = model.predict(X, sensitive_features=z, random_state=3)
    assert set(u) <= set(model.classes_)
    np.testing.assert_array_equal(u, model.predict(X, sensitive_features=z, random_state=3))


# trace and select


@pytest.mark.slow
def test_a_trace_answers_and_what_ships_is_within_its_budget(frontier, fresh):
    X, y, z = fresh
    point = frontier.select(max_eo_gap=0.1, maximize="accuracy")
    assert gap(X, y, z, point.predictor.predict_proba) < 0.1 + 0.05
    assert str(frontier)


def test_a_saved_predictor_predicts_the_same_bits(frontier, fresh, tmp_path):
    X, _, z = (part[:200] for part in fresh)
    point = frontier.select(max_eo_gap=0.1, maximize="accuracy")
    point.save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    assert isinstance(loaded, sx.Predictor)
    np.testing.assert_array_equal(
        loaded.predict_proba(X, sensitive_features=z), point.predictor.predict_proba(X, sensitive_features=z)
    )


def test_a_budget_that_nothing_keeps_is_refused_with_the_smallest_that_can_be_kept(frontier):
    with pytest.raises(sx.InfeasibleError, match="0"):
        frontier.select(max_eo_gap=0.0, maximize="accuracy", confidence=0.999)


# errors


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: sx.audit([0, 1], [0, 1, 1], sensitive_features=[0, 1]), "3"),
        (lambda: sx.audit([0, 1], [0, 1], sensitive_features=[0, 1], confidence=2), "2"),
        (lambda: sx.audit_score([0, 1, 2], [0.1, 0.2, 0.3], sensitive_features=[0, 1, 0]), "3"),
        (lambda: sx.limit([0, 1] * 9, [0.1, 0.9] * 9, sensitive_features=[0, 1] * 9, budget="luck"), "luck"),
        (lambda: sx.datasets.load("no such data"), "no such data"),
    ],
)
def test_bad_input_is_a_separatrix_error_that_shows_the_value(call, word):
    with pytest.raises(sx.SeparatrixError) as caught:
        call()
    assert word in str(caught.value)


def test_data_sets_and_methods_are_listed():
    assert {"adult", "compas", "synthetic"} <= set(sx.datasets.names())
    assert {"cmi", "erm"} <= set(sx.methods.names())
