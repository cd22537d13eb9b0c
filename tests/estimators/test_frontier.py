"""FrontierClassifier: the simplest decisions that keep a budget, one model, few coins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import separatrix as sx
from separatrix.columns.counting import soft_counts
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.errors import InfeasibleError, InputError
from separatrix.estimators.frontier import FrontierClassifier
from separatrix.optimum.objectives import Cost

pytestmark = pytest.mark.slow  # a trace or a cross-fit each


def people(n=4_000, labels=2, seed=0):
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, 2, n), rng.integers(0, labels, n)
    shown = np.eye(labels)[y] * (1.0 + z)[:, None]
    return rng.normal(size=(n, labels)) + shown + 0.4 * z[:, None], y, z


def law(model, X, y, z):
    return soft_counts(y, model.predict_proba(X, sensitive_features=z), sensitive_features=z)


class Counting(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


def cancer():
    """Breast cancer with a made group that feature 0 tells a little about."""
    X, y = load_breast_cancer(return_X_y=True)
    noise = np.random.default_rng(0).normal(size=len(y))
    z = (StandardScaler().fit_transform(X)[:, 0] + 2 * noise > 0).astype(int)
    return StandardScaler().fit_transform(X)[:, :8], y, z


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("table", ["cancer", "simulated"])
def test_what_ships_is_not_worse_than_a_plain_model_that_keeps_the_budget(table, seed):
    """On held-out rows, on neither axis, by more than one standard error of the plain model."""
    X, y, z = cancer() if table == "cancer" else people(3_000, seed=seed)
    rest = np.random.default_rng(seed).random(len(y)) < 0.5
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.25, cv=3, random_state=seed)
    model.fit(X[rest], y[rest], sensitive_features=z[rest])
    plain = LogisticRegression().fit(X[rest], y[rest])
    new, label, group = X[~rest], y[~rest], z[~rest]
    assert model.candidates_["plain"].promise["eo_gap"].value <= 0.25
    ours, theirs = law(model, new, label, group), plain.predict(new)
    audit = sx.audit(label, theirs, sensitive_features=group)
    lost = (theirs == label).mean() - np.trace(ours.sum(1)) / len(label)
    assert lost <= np.sqrt(audit.accuracy * (1 - audit.accuracy) / len(label))
    low, high = audit.eo_gap_interval
    assert float(eo_gap(ours)) <= audit.eo_gap + (high - low) / 3.92
    if model.choice_ == "plain":
        q = model.predict_proba(new, sensitive_features=group)
        assert set(np.unique(q)) == {0.0, 1.0}  # nobody meets a coin
        np.testing.assert_array_equal(model.predict(new), theirs)


def test_cv_plus_one_fits_per_base_model():
    X, y, z = people(300)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(sex=z)
    for rows, given in ((X, {"sensitive_features": z}), (frame, {})):
        Counting.fits = 0
        columns = None if given else "sex"
        model = FrontierClassifier(Counting(), max_eo_gap=0.2, cv=3, sensitive_columns=columns, random_state=0)
        assert model.fit(rows, y, **given) is model
        assert Counting.fits == 8
    model.with_budget(max_eo_gap=0.4)
    assert Counting.fits == 8


def test_leaving_out_the_column_ships_where_that_is_enough():
    rng = np.random.default_rng(2)
    z, x = rng.integers(0, 2, 3_000), rng.normal(size=3_000)
    y = (x + 0.3 * z + rng.logistic(size=3_000) > 0.4).astype(int)
    frame = pd.DataFrame({"x": x, "sex": np.array(["f", "m"])[z]})
    base = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), lambda f: [c for c in f.columns if c == "sex"]), remainder="passthrough"
        ),
        LogisticRegression(),
    )
    model = FrontierClassifier(base, max_eo_gap=0.05, sensitive_columns="sex", random_state=0)
    model.fit(frame, y)
    assert model.choice_ == "without the group"
    assert model.sentence_.startswith("Leave out `sex`")
    assert model.candidates_["plain"].promise["eo_gap"].value > 0.1
    same = model.predict(frame)
    np.testing.assert_array_equal(model.predict(frame.assign(sex="unknown")), same)
    # a matrix whose second column recodes the group
    rows = np.column_stack([x, z])
    coded = FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, random_state=0)
    coded.fit(rows, y, sensitive_features=frame["sex"])
    assert coded.choice_ == "without the group"
    assert coded.predict(rows).shape == (3_000,)


def test_a_pipeline_that_needs_the_column_is_listed_as_not_possible():
    X, y, z = people(900)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(sex=np.array(["f", "m"])[z])
    base = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough"), LogisticRegression()
    )
    model = FrontierClassifier(base, max_eo_gap=0.1, sensitive_columns="sex", random_state=0)
    model.fit(frame, y)
    without = model.candidates_["without the group"]
    assert without.note.startswith("not possible: the classifier cannot be fitted without `sex`")
    assert not without.possible
    with pytest.raises(InputError, match="`sex`"):  # nor can a rule that must not read it
        clone(model).set_params(blind=True).fit(frame, y)


def test_a_budget_that_binds_brings_a_rule_and_is_kept_or_refused():
    X, y, z = people(3_000)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.06, cv=3, random_state=0)
    model.fit(X, y, sensitive_features=z)
    assert model.choice_ == "group rule"
    assert model.promise_["eo_gap"].value < 0.12
    fresh = people(40_000, seed=9)
    assert float(eo_gap(law(model, *fresh))) < 0.09
    table = model.thresholds_
    assert set(table["group"]) == {"0", "1"}
    named = clone(model).fit(X, y, sensitive_features=np.array(["f", "m"])[z])
    assert set(named.thresholds_["group"]) == {"f", "m"}
    assert table["coin_share"].between(0, 1).all()
    named = clone(model).fit(X, y, sensitive_features=np.array(["f", "m"])[z])
    assert set(named.thresholds_["group"]) == {"f", "m"}
    with pytest.raises(InputError, match="between 0 and 1, got 5"):
        model.with_budget(max_eo_gap=5)
    wide = model.with_budget(max_eo_gap=0.5)
    assert (wide.choice_, model.choice_) == ("plain", "group rule")
    assert wide.thresholds_["threshold"].tolist() == [0.5]
    with pytest.raises(InfeasibleError, match="Ask for that or more"):
        model.with_budget(max_eo_gap=0.0001)
    with pytest.raises(InputError, match="cv"):
        model.with_budget(cv=3)


def test_a_confidence_never_makes_a_budget_easier():
    """What can be promised with it is at least what can be promised on average."""
    X, y, z = people(600)
    smallest = []
    for confidence in (None, 0.95):
        model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.0, confidence=confidence)
        with pytest.raises(InfeasibleError) as refused:
            model.set_params(random_state=0).fit(X, y, sensitive_features=z)
        smallest.append(refused.value.smallest["eo_gap"])
    assert smallest[0] < smallest[1]


def test_the_whole_budget_is_used_on_request():
    X, y, z = people(4_000)
    z = np.where(np.random.default_rng(1).random(4_000) < 0.7, 1 - z, z)
    options = {"max_eo_gap": 0.15, "cv": 3, "random_state": 0}
    simple = FrontierClassifier(LogisticRegression(), **options).fit(X, y, sensitive_features=z)
    whole = simple.with_budget(max_eo_gap=0.15, use_whole_budget=True)
    assert simple.promise_["eo_gap"].value <= whole.promise_["eo_gap"].value + 1e-9
    assert whole.promise_["accuracy"].value >= simple.promise_["accuracy"].value - 1e-9


def test_coins_repeat_by_the_own_seed_and_by_identity():
    X, y, z = people(2_000)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.06, cv=2, random_state=4)
    model.fit(X, y, sensitive_features=z)
    np.testing.assert_array_equal(model.predict(X, z), model.predict(X, z))
    fresh = model.predict(X, z, random_state=None) != model.predict(X, z, random_state=None)
    q = model.predict_proba(X, z)
    assert fresh.any()
    assert not fresh[q.max(1) == 1.0].any()
    ids, salt = np.arange(len(y)), "a secret of the operator"
    drawn = model.predict(X, z, ids=ids, salt=salt)
    back = model.predict(X[::-1], z[::-1], ids=ids[::-1], salt=salt)
    np.testing.assert_array_equal(drawn, back[::-1])
    assert model.score(X, y, z) == pytest.approx(q[np.arange(len(y)), y].mean())


def test_a_cost_moves_the_one_threshold_and_any_budget_has_a_name():
    X, y, z = people(1_500)
    model = FrontierClassifier(
        LogisticRegression(), maximize=Cost(1, 4), budgets={"fpr_gap": 0.9}, cv=2, random_state=0
    ).fit(X, y, sensitive_features=z)
    assert model.choice_ == "plain"
    assert model.thresholds_["threshold"].tolist() == [0.2]
    assert model.promise_["fpr_gap"].value <= 0.9
    assert model.promise_["cost"].value > 0


def test_one_column_of_probabilities_is_the_same_as_two():
    X, y, z = people()
    p = LogisticRegression().fit(X, y).predict_proba(X)
    budgeted = FrontierClassifier("precomputed", max_eo_gap=0.05, random_state=0)
    a, b = (clone(budgeted).fit(q, y, sensitive_features=z) for q in (p, p[:, 1]))
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


@pytest.mark.nightly
def test_three_labels_keep_the_budget_in_the_population():
    X, y, z = people(2_000, labels=3)
    scorer = LogisticRegression().fit(X[:1_000], y[:1_000])
    p, y, z = scorer.predict_proba(X[1_000:]), y[1_000:], z[1_000:]
    kept = FrontierClassifier("precomputed", max_violation=0.02, random_state=0).fit(p, y, z)
    X, y, z = people(40_000, labels=3, seed=1)
    fresh = conditional_mutual_information(law(kept, scorer.predict_proba(X), y, z))
    assert fresh <= 0.022


def test_a_weight_of_zero_is_no_row():
    X, y, z = people(3_000)
    w = np.r_[np.zeros(1_000), np.full(2_000, 2.0)]
    budgeted = FrontierClassifier(LogisticRegression(C=1e6), max_eo_gap=0.1, random_state=0, cv=2)
    a = clone(budgeted).fit(X, y, z, sample_weight=w)
    b = clone(budgeted).fit(X[1_000:], y[1_000:], z[1_000:])
    np.testing.assert_allclose(a.predict_proba(X, z), b.predict_proba(X, z), atol=0.02)


def test_without_groups_it_warns_and_is_the_plain_classifier():
    X, y, _ = people(500)
    with pytest.warns(UserWarning, match="it is the plain classifier and keeps no budget"):
        model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.01).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert set(np.unique(model.predict_proba(X))) == {0.0, 1.0}


def test_the_default_model_takes_frames_with_text_and_missing_values():
    X, y, z = people(600)
    frame = pd.DataFrame({"a": X[:, 0], "job": np.array(["cook", "nurse", None])[(X[:, 1] > 0) + z]})
    frame.loc[::7, "a"] = np.nan
    for rows in (frame, frame[["a"]].to_numpy()):
        model = FrontierClassifier(max_eo_gap=0.4, cv=2).fit(rows, y, sensitive_features=z)
        assert model.predict_proba(rows[:5], sensitive_features=z[:5]).shape == (5, 2)


def test_groups_are_routed_through_pipelines_searches_and_cross_validation():
    X, y, z = people(300)
    with sklearn.config_context(enable_metadata_routing=True):
        model = FrontierClassifier(LogisticRegression(), cv=2)
        model.set_fit_request(sensitive_features=True).set_predict_request(sensitive_features=True)
        model.set_score_request(sensitive_features=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, y, sensitive_features=z)
        assert pipe.predict(X, sensitive_features=z).shape == (300,)
        search = GridSearchCV(pipe, {"frontierclassifier__max_eo_gap": [None, 0.5]}, cv=2)
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
        ({"budgets": {"gap": 0.2}}, "'gap'"),
        ({"maximize": "auroc"}, "SeparatedScorer"),
        ({"sensitive_columns": "sex"}, "'sex'"),
    ],
)
def test_errors(options, message):
    X, y, z = people(200)
    given = {} if "sensitive_columns" in options else {"sensitive_features": z}
    with pytest.raises(InputError, match=message):
        FrontierClassifier(LogisticRegression(), **options).fit(X, y, **given)


def test_errors_about_groups():
    X, y, z = people(600)
    with pytest.raises(InputError, match="one group per row, 600, got 3"):
        FrontierClassifier(LogisticRegression()).fit(X, y, sensitive_features=["f", "m", "f"])
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.1, use_whole_budget=True)
    model.fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="needs the group of every row"):
        model.predict(X)
    with pytest.raises(InputError, match="one group per row, 600, got 3"):
        model.predict(X, sensitive_features=z[:3])


def test_the_public_name_is_this_class():
    assert sx.FrontierClassifier is FrontierClassifier


def test_ages_are_cut_and_new_ones_find_their_group():
    rng = np.random.default_rng(0)
    age, X = rng.integers(18, 80, 900), rng.normal(size=(900, 2))
    y = (X[:, 0] + 0.02 * (age - 40) + rng.logistic(size=900) > 0).astype(int)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.3, cv=3, use_whole_budget=True, random_state=0)
    with pytest.warns(UserWarning, match=r"cut at quantiles \(sensitive_features: below \d+"):
        model.fit(X, y, sensitive_features=age)
    assert len(model.groups_) == 4
    q = model.predict_proba(X, sensitive_features=age)
    names = [model.groups_[code] for code in model.grouping_.codes_of(age, 900)]
    np.testing.assert_array_equal(q, model.predict_proba(X, sensitive_features=names))
    assert model.predict_proba(X[:2], sensitive_features=[1, 130]).shape == (2, 2)


def test_the_smallest_budget_of_a_refusal_succeeds_on_few_rows():
    """The strictest rule is one rule, whatever levels were measured for the budget asked first."""
    rng = np.random.default_rng(100)
    z = rng.choice(3, 500, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(500, 2)) + np.outer(z, [0, 0.8])
    y = (X.sum(1) + rng.logistic(size=500) > 0.4).astype(int)
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.02, cv=3, random_state=0)
    with pytest.raises(InfeasibleError) as refused:
        model.fit(X, y, sensitive_features=z)
    smallest = refused.value.smallest["eo_gap"]
    model.set_params(max_eo_gap=smallest).fit(X, y, sensitive_features=z)
    assert model.promise_["eo_gap"].value <= smallest + 1e-12


def test_rows_without_weight_move_no_quartile_of_a_sensitive_number():
    X, y, _ = people(400)
    age = np.r_[np.random.default_rng(1).integers(18, 66, 300), np.full(100, 90)]
    weight = np.r_[np.ones(300), np.zeros(100)]
    weighted = FrontierClassifier(LogisticRegression(), cv=3, random_state=0)
    with pytest.warns(UserWarning, match="are cut at quantiles"):
        weighted.fit(X, y, sensitive_features=age, sample_weight=weight)
    with pytest.warns(UserWarning, match="are cut at quantiles"):
        fewer = clone(weighted).fit(X[:300], y[:300], sensitive_features=age[:300])
    assert weighted.groups_ == fewer.groups_


def test_a_decision_that_is_the_same_for_everybody_is_refused_with_the_smallest_budget_that_decides():
    """Eight groups of 30 people, and one positive in ten: only a constant keeps an EO gap of 0.05."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 8, 240)
    y, z = (rng.random(240) < 0.1).astype(int), np.char.add("g", group.astype(str))
    X = rng.normal(size=(240, 2)) + y[:, None] + 0.3 * rng.normal(size=8)[group][:, None]
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, cv=2, random_state=0)
    with pytest.raises(InfeasibleError, match="the same for everybody: always '0'") as refused:
        model.fit(X, y, sensitive_features=z)
    assert f"The smallest that decides is EO gap ≤ {refused.value.smallest['eo_gap']:g}" in str(refused.value)
    model.set_params(max_eo_gap=refused.value.smallest["eo_gap"]).fit(X, y, sensitive_features=z)
    assert model.choice_ == "group rule"


def test_costs_for_which_one_label_is_the_best_decision_are_no_refusal():
    """With features that say nothing and an error that costs fifty times the other, no budget decides."""
    rng = np.random.default_rng(0)
    X, y, z = rng.normal(size=(600, 2)), rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    cost = sx.Cost(false_positive=1, false_negative=50)
    model = FrontierClassifier(LogisticRegression(), maximize=cost, max_eo_gap=0.05, cv=3, random_state=0)
    model.fit(X, y, sensitive_features=z)
    assert set(model.predict(X, sensitive_features=z)) == {1}
    assert "It hardly decides: 100.0% of all get '1'" in model.sentence_


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_the_smallest_budget_that_decides_decides_when_it_is_asked_for(seed):
    """Nine in ten have label 1, and the rule does not see the group: what was named was refused four times over."""
    rng = np.random.default_rng(seed)
    z = (rng.random(1_500) < 0.85).astype(int)
    y = (rng.random(1_500) < np.where(z == 1, 0.92, 0.72)).astype(int)
    X = rng.normal(size=(1_500, 2)) + 0.8 * y[:, None] + 0.5 * z[:, None]
    model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.02, blind=True, cv=3, random_state=0)
    with pytest.raises(InfeasibleError) as refused:
        model.fit(X, y, sensitive_features=z)
    model.set_params(max_eo_gap=refused.value.smallest["eo_gap"]).fit(X, y, sensitive_features=z)
    assert model.choice_ == "blind rule"
