"""The best decisions of any classifier within a budget: what they keep."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import separatrix as sx
from separatrix.columns.counting import soft_counts
from separatrix.core.information import conditional_mutual_information, eo_gap, mutual_information
from separatrix.errors import InfeasibleError, InputError
from separatrix.estimators.frontier import FrontierClassifier
from separatrix.optimum.objectives import Cost

TREES = HistGradientBoostingClassifier(max_iter=5, random_state=0)


def known_failures(model):
    """scikit-learn's trees themselves bin a repeated row differently from a weighted one."""
    name = "check_sample_weight_equivalence_on_dense_data"
    return {name: "so for the trees alone"} if model.estimator is TREES else {}


@pytest.mark.filterwarnings("ignore:.*was fitted without `sensitive_features`:UserWarning")
@parametrize_with_checks(
    [FrontierClassifier(LogisticRegression(), cv=2), FrontierClassifier(TREES, cv=2)],
    expected_failed_checks=known_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def people(n=4_000, labels=2, seed=0):
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, 2, n), rng.integers(0, labels, n)
    shown = np.eye(labels)[y] * (1.0 + z)[:, None]
    return rng.normal(size=(n, labels)) + shown + 0.4 * z[:, None], y, z


def law(model, X, y, z):
    return soft_counts(y, model.predict_proba(X, sensitive_features=z), sensitive_features=z)


@pytest.mark.parametrize(
    ("budget", "measure"),
    [("max_eo_gap", eo_gap), ("max_violation", conditional_mutual_information)],
)
def test_without_a_margin_the_budget_is_kept_on_the_rows_of_the_rule(budget, measure):
    X, y, z = people()
    base = LogisticRegression().fit(X[:2000], y[:2000])
    held, yh, zh = X[2000:], y[2000:], z[2000:]
    found = []
    for level in (0.0, 0.004, 0.03):
        model = FrontierClassifier(base, cv="prefit", margin=0, **{budget: level})
        table = law(model.fit(held, yh, sensitive_features=zh), held, yh, zh)
        assert measure(table) <= level + 1e-6
        found.append(float(np.trace(table.sum(1))) / len(yh))
    assert found[0] <= found[1] <= found[2]


@pytest.mark.parametrize(
    "maximize",
    ["accuracy", "balanced_accuracy", "utility", Cost(false_positive=1, false_negative=5)],
)
def test_nothing_else_at_hand_is_better_for_the_objective(maximize):
    """The rule of each objective is best for its own, among the rules of all of them."""
    X, y, z = people()
    y = np.where(np.random.default_rng(1).random(len(y)) < 0.4, 0, y)  # unequal labels
    p = LogisticRegression().fit(X, y).predict_proba(X)
    own = ["accuracy", "balanced_accuracy", "utility", Cost(false_positive=1, false_negative=5)]

    def value(table):
        n = table.sum(1)  # (y, u)
        if maximize == "accuracy":
            return np.trace(n) / n.sum()
        if maximize == "balanced_accuracy":
            return (np.diag(n) / n.sum(1)).mean()
        if maximize == "utility":
            return float(mutual_information(table))
        return -(n[0, 1] + 5 * n[1, 0]) / n.sum()

    values = []
    for one in own:
        model = FrontierClassifier("precomputed", maximize=one, max_eo_gap=0.03, margin=0)
        values.append(value(law(model.fit(p, y, sensitive_features=z), p, y, z)))
    assert max(values) <= values[own.index(maximize)] + 1e-9


def test_cross_fitted_rules_beat_the_classifier_on_unseen_rows():
    X, y, z = people(8_000)
    train, test = slice(0, 4000), slice(4000, 8000)
    base = LogisticRegression().fit(X[train], y[train])
    model = FrontierClassifier(
        LogisticRegression(), maximize="utility", max_violation=0.002, margin=0
    )
    model.fit(X[train], y[train], sensitive_features=z[train])
    soft = soft_counts(y[test], base.predict_proba(X[test]), sensitive_features=z[test])
    ours = law(model, X[test], y[test], z[test])
    assert conditional_mutual_information(ours) < conditional_mutual_information(soft)
    assert mutual_information(ours) > mutual_information(soft)


def test_the_default_margin_promises_the_population_or_refuses():
    X, y, z = people(2_000)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.06).fit(
        X, y, sensitive_features=z
    )
    assert model.promise_.level < 0.06
    assert model.promise_.expected == pytest.approx(0.06, rel=0.01)
    with pytest.raises(InfeasibleError, match="Ask for that or more") as refused:
        clone(model).set_params(max_eo_gap=0.001).fit(X, y, sensitive_features=z)
    clone(model).set_params(max_eo_gap=refused.value.smallest["eo_gap"]).fit(X, y, z)


@pytest.mark.slow
def test_cross_fitted_decisions_keep_the_asked_gap_in_the_population():
    """The whole way: features, cross-fitted members, rule, and a population of fresh rows."""
    fresh, gaps = people(60_000, seed=999), []
    for seed in range(12):
        model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.05)
        X, y, z = people(3_000, seed=seed)
        gaps.append(float(eo_gap(law(model.fit(X, y, sensitive_features=z), *fresh))))
    assert np.mean(gaps) < 0.052 + 2 * np.std(gaps) / np.sqrt(len(gaps))
    assert np.mean(gaps) > 0.03


def test_the_limit_bounds_the_rules_of_all_budgets():
    X, y, z = people(2_000)
    p = LogisticRegression().fit(X, y).predict_proba(X)
    model = FrontierClassifier("precomputed", max_eo_gap=0.05, margin=0).fit(p, y, z)
    limit = model.limit_
    assert limit.levels[0] == 0.0
    assert (np.diff(limit.values) >= 0).all()
    table = law(model, p, y, z)
    assert np.trace(table.sum(1)) / len(y) == pytest.approx(
        np.interp(0.05, limit.levels, limit.values), abs=0.002
    )
    assert (limit.upper >= limit.values).all()


def test_a_prediction_is_that_of_one_of_the_members_drawn_at_random():
    X, y, z = people(1_500)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.1, cv=3, ensemble=2).fit(X, y, z)
    members = model.crossfit_.posteriors(X[:50])
    rule = model.promise_.rule
    mean = np.mean([rule.predict_proba(s, sensitive_features=z[:50]) for s in members], axis=0)
    np.testing.assert_allclose(model.predict_proba(X[:50], z[:50]), mean)
    drawn = model.predict(X, sensitive_features=z, random_state=3)
    np.testing.assert_array_equal(drawn, model.predict(X, sensitive_features=z, random_state=3))
    assert (model.predict(X, z) != model.predict(X, z)).any()  # fresh coins at every call
    q = model.predict_proba(X, z)
    assert model.score(X, y, z) == pytest.approx(q[np.arange(len(y)), y].mean())
    assert (drawn == 1).mean() == pytest.approx(model.predict_proba(X, z)[:, 1].mean(), abs=0.03)


def test_one_column_of_probabilities_is_the_same_as_two():
    X, y, z = people()
    p = LogisticRegression().fit(X, y).predict_proba(X)
    a = FrontierClassifier("precomputed", max_eo_gap=0.05).fit(p, y, sensitive_features=z)
    b = FrontierClassifier("precomputed", max_eo_gap=0.05).fit(p[:, 1], y, sensitive_features=z)
    np.testing.assert_allclose(a.predict_proba(p, z), b.predict_proba(p[:, 1], z))
    with pytest.raises(InputError, match="holds 7"):
        a.predict_proba(p[:1], sensitive_features=[7])


def test_labels_and_groups_keep_their_names_and_several_columns_are_joined():
    X, y, z = people(1_500)
    names, frame = np.array(["no", "yes"])[y], pd.DataFrame(X, columns=["a", "b"])
    groups = pd.DataFrame({"sex": np.array(["f", "m"])[z], "old": X[:, 0] > 0.5})
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.4).fit(frame, names, groups)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_ == (("f", False), ("f", True), ("m", False), ("m", True))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert set(model.predict(frame, sensitive_features=groups)) <= {"no", "yes"}
    assert 0.5 < model.score(frame, names, sensitive_features=groups) < 1.0


@pytest.mark.slow
def test_three_labels_keep_the_budget_on_the_rows_or_by_default_in_the_population():
    X, y, z = people(2_000, labels=3)
    scorer = LogisticRegression().fit(X[:1_000], y[:1_000])
    p, y, z = scorer.predict_proba(X[1_000:]), y[1_000:], z[1_000:]
    plain = FrontierClassifier("precomputed", max_violation=0.02, margin=0).fit(p, y, z)
    assert conditional_mutual_information(law(plain, p, y, z)) <= 0.02 + 1e-9
    kept = FrontierClassifier("precomputed", max_violation=0.02).fit(p, y, z)
    assert 0.01 < kept.promise_.expected <= 0.02
    X, y, z = people(40_000, labels=3, seed=1)
    fresh = conditional_mutual_information(law(kept, scorer.predict_proba(X), y, z))
    assert 0.005 < fresh <= 0.022


def test_a_weight_of_zero_is_no_row_and_weights_count():
    X, y, z = people(3_000)
    w = np.r_[np.zeros(1_000), np.full(2_000, 2.0)]
    options = {"estimator": LogisticRegression(C=1e6), "max_eo_gap": 0.1}
    a = FrontierClassifier(**options).fit(X, y, z, sample_weight=w)
    b = FrontierClassifier(**options).fit(X[1_000:], y[1_000:], z[1_000:])
    np.testing.assert_allclose(a.predict_proba(X, z), b.predict_proba(X, z), atol=0.02)
    assert a.promise_.level == pytest.approx(b.promise_.level, rel=0.05)


def test_without_groups_it_warns_and_is_the_plain_classifier():
    X, y, _ = people(500)
    with pytest.warns(UserWarning, match="it is the plain classifier and keeps no budget"):
        model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.01).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_the_default_model_takes_frames_with_text_and_missing_values():
    X, y, z = people(600)
    frame = pd.DataFrame(
        {"a": X[:, 0], "job": np.array(["cook", "nurse", None])[(X[:, 1] > 0) + z]}
    )
    frame.loc[::7, "a"] = np.nan
    for rows in (frame, frame[["a"]].to_numpy()):
        model = FrontierClassifier(max_eo_gap=0.3, cv=2).fit(rows, y, sensitive_features=z)
        assert model.predict_proba(rows[:5], sensitive_features=z[:5]).shape == (5, 2)


def test_groups_are_routed_through_pipelines_searches_and_cross_validation():
    X, y, z = people(1_200)
    with sklearn.config_context(enable_metadata_routing=True):
        model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.2, cv=2)
        model.set_fit_request(sensitive_features=True).set_predict_request(sensitive_features=True)
        model.set_score_request(sensitive_features=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, y, sensitive_features=z)
        assert pipe.predict(X, sensitive_features=z).shape == (1_200,)
        search = GridSearchCV(pipe, {"frontierclassifier__max_eo_gap": [0.2, 0.3]}, cv=2)
        search.fit(X, y, sensitive_features=z)
        assert search.best_score_ > 0.5
        done = cross_validate(pipe, X, y, cv=2, params={"sensitive_features": z})
        assert np.isfinite(done["test_score"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_eo_gap": 0.1, "max_violation": 0.1}, "One budget at a time"),
        ({"max_eo_gap": -1}, "at least 0, got -1"),
        ({"max_eo_gap": 0.1, "maximize": "profit"}, "`maximize` must be one of"),
        ({"max_eo_gap": 0.1, "cv": 1}, "at least 2"),
        ({"max_eo_gap": 0.1, "margin": 0.2}, "got 0.2"),
    ],
)
def test_errors(options, message):
    X, y, z = people(200)
    with pytest.raises(InputError, match=message):
        FrontierClassifier(LogisticRegression(), **options).fit(X, y, sensitive_features=z)


def test_errors_about_groups():
    X, y, z = people(400)
    with pytest.raises(InputError, match="one group per row, 400, got 3"):
        FrontierClassifier(LogisticRegression()).fit(X, y, sensitive_features=["f", "m", "f"])
    model = FrontierClassifier(LogisticRegression()).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="needs the group of every row"):
        model.predict(X)
    with pytest.raises(InputError, match="one group per row, 400, got 3"):
        model.predict(X, sensitive_features=z[:3])


def test_the_public_name_is_this_class():
    assert sx.FrontierClassifier is FrontierClassifier


def test_ages_are_cut_and_new_ones_find_their_group():
    rng = np.random.default_rng(0)
    age, X = rng.integers(18, 80, 600), rng.normal(size=(600, 2))
    y = (X[:, 0] + 0.02 * (age - 40) + rng.logistic(size=600) > 0).astype(int)
    model = FrontierClassifier(LogisticRegression(), maximize="accuracy", margin=0, cv=3)
    with pytest.warns(UserWarning, match=r"cut at quantiles \(sensitive_features: below \d+"):
        model.fit(X, y, sensitive_features=age)
    assert len(model.groups_) == 4
    q = model.predict_proba(X, sensitive_features=age)
    names = [model.groups_[code] for code in model.grouping_.codes_of(age, 600)]
    np.testing.assert_array_equal(q, model.predict_proba(X, sensitive_features=names))
    assert model.predict_proba(X[:2], sensitive_features=[1, 130]).shape == (2, 2)
