"""The cross-fitted separated score: separated on unseen rows, whatever made the scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.estimators.scorer import SeparatedScorer

pytestmark = pytest.mark.slow  # a trace or a cross-fit each


def sample(n, seed, groups=2):
    """Rows whose score is better in the second group."""
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, groups, n), (rng.random(n) < 0.3).astype(int)
    x = rng.normal(size=n) + y * (0.8 + 0.8 * z) + 0.4 * z
    return np.column_stack([x, z]), y, z


def violation(q, y, z):
    table = np.zeros((2, z.max() + 1, q.shape[1]))
    np.add.at(table, (y, z), q)
    return float(conditional_mutual_information(table))


@pytest.mark.slow
def test_unseen_rows_are_separated_and_the_raw_score_is_not():
    X, y, z = sample(6000, 0)
    new, label, group = sample(60_000, 1)
    model = SeparatedScorer(LogisticRegression(), penalty=None).fit(X, y, sensitive_features=z)
    q = model.level_proba(new, group)
    np.testing.assert_allclose(q.sum(1), 1.0)
    raw = model.crossfit_.model.predict_proba(new)[:, 1]
    bins = np.searchsorted(np.quantile(raw, np.linspace(0, 1, 21)[1:-1]), raw)
    assert violation(q, label, group) < 0.2 * violation(np.eye(20)[bins], label, group)
    drawn = model.decision_function(new, group, random_state=3)
    assert set(drawn.tolist()) <= set(model.score_.levels.tolist())
    assert roc_auc_score(label, drawn) == pytest.approx(model.score_.auroc, abs=0.015)


def test_draws_repeat_by_seed_and_by_identity():
    X, y, z = sample(1500, 0, groups=3)
    model = SeparatedScorer(LogisticRegression(), cv=3).fit(X, y, sensitive_features=z)
    first, again, other = (model.decision_function(X, z, random_state=r) for r in (1, 1, 2))
    assert (model.decision_function(X, z) != model.decision_function(X, z)).any()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    ids, salt = np.arange(len(y)), "a secret of the operator"
    drawn = model.decision_function(X, z, ids=ids, salt=salt)
    back = model.decision_function(X[::-1], z[::-1], ids=ids[::-1], salt=salt)
    np.testing.assert_array_equal(drawn, back[::-1])


@pytest.mark.parametrize(("better", "ships"), [(0.0, "raw"), (0.8, "separated")])
def test_auto_keeps_the_raw_score_only_where_groups_cannot_be_told_apart(better, ships):
    rng = np.random.default_rng(5)
    z, y = rng.integers(0, 2, (2, 3000))
    scores = 1 / (1 + np.exp(-rng.normal(size=3000) - y * (1.5 + better * z) + 0.7))
    options = {"estimator": "precomputed", "cv": "prefit"}
    model = SeparatedScorer(**options).fit(scores, y, sensitive_features=z)
    exact = SeparatedScorer(penalty=None, **options).fit(scores, y, sensitive_features=z)
    assert (model.penalty_ == "raw") == (ships == "raw")
    assert model.score_.auroc > exact.score_.auroc
    tried = {name: p for name, _, p in model.penalty_choice_.candidates}
    assert (tried["raw"] > 0.05) == (ships == "raw")
    assert 0.01 < model.penalty_choice_.chance_gap < 0.06
    new = model.decision_function(scores[:9], sensitive_features=z[:9], random_state=0)
    assert set(new) <= set(model.score_.levels)


def test_too_few_rows_to_tell_anything_are_separated_exactly():
    X, y, z = sample(60, 0)
    model = SeparatedScorer(LogisticRegression(), cv=2).fit(X, y, sensitive_features=z)
    assert model.penalty_ is None


def test_a_penalty_trades_violation_for_auroc():
    X, y, z = sample(4000, 0)
    exact, loose = (
        SeparatedScorer(LogisticRegression(), penalty=p, cv=3).fit(X, y, sensitive_features=z).score_
        for p in (None, 1.0)
    )
    assert loose.auroc > exact.auroc + 0.005
    assert loose.violation > exact.violation


def test_default_trees_take_text_and_names_of_groups():
    pandas = pytest.importorskip("pandas")
    X, y, z = sample(900, 0)
    frame = pandas.DataFrame({"x": X[:, 0], "town": np.where(X[:, 0] > 1, "here", "there")})
    names = np.array(["f", "m"])[z]
    model = SeparatedScorer(cv=2).fit(frame, np.array(["no", "yes"])[y], sensitive_features=names)
    assert model.score_.labels == ("no", "yes")
    assert model.groups_ == ("f", "m")
    assert model.level_proba(frame[:5], names[:5]).shape == (5, len(model.score_.levels))


def test_rows_of_weight_zero_are_no_rows():
    X, y, z = sample(1200, 0)
    weight = np.r_[np.ones(1000), np.zeros(200)]
    scorer = SeparatedScorer(LogisticRegression(), penalty=None, random_state=0)
    weighted = clone(scorer).fit(X, y, z, sample_weight=weight)
    plain = clone(scorer).fit(X[:1000], y[:1000], z[:1000])
    np.testing.assert_allclose(weighted.level_proba(X, z), plain.level_proba(X, z), atol=1e-9)


def test_the_group_may_be_a_column_and_the_score_is_the_mean_auroc():
    X, y, z = sample(1500, 0)
    model = SeparatedScorer(LogisticRegression(), sensitive_columns=1, cv=3, random_state=0)
    model.fit(X, y)
    drawn = [roc_auc_score(y, model.predict_proba(X, random_state=r)[:, 1]) for r in range(20)]
    assert model.score(X, y) == pytest.approx(np.mean(drawn), abs=0.01)
    np.testing.assert_array_equal(model.decision_function(X), model.decision_function(X))
    with pytest.raises(InputError, match="sensitive_columns"):
        model.decision_function(X, z)


def test_bad_input_is_refused_with_advice():
    X, y, z = sample(100, 0)
    with pytest.raises(InputError, match="sensitive_features"):
        SeparatedScorer().fit(X, y)
    with pytest.raises(InputError, match="two labels"):
        SeparatedScorer().fit(X, np.arange(100) % 3, sensitive_features=z)
    model = SeparatedScorer(LogisticRegression()).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="not one of"):
        model.level_proba(X[:1], ["other"])
