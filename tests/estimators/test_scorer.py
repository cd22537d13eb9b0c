"""The cross-fitted separated score: separated on unseen rows, whatever made the scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from separatrix import datasets
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.estimators.scorer import SeparatedScorer
from separatrix.optimum.scores.separate import separate


def sample(n, seed, groups=2, atoms=None):
    """Rows whose score is better in the second group; with `atoms` X has few distinct values."""
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, groups, n), (rng.random(n) < 0.3).astype(int)
    x = rng.normal(size=n) + y * (0.8 + 0.8 * z) + 0.4 * z
    if atoms:
        x = np.clip(np.round(x * atoms / 8), -atoms, atoms)
    return np.column_stack([x, z]), y, z


def violation(q, y, z):
    table = np.zeros((2, z.max() + 1, q.shape[1]))
    np.add.at(table, (y, z), q)
    return float(conditional_mutual_information(table))


@pytest.mark.slow
def test_unseen_rows_are_separated_and_the_raw_score_is_not():
    X, y, z = sample(6000, 0)
    new, label, group = sample(60_000, 1)
    model = SeparatedScorer(LogisticRegression()).fit(X, y, sensitive_features=z)
    q = model.level_proba(new, group)
    np.testing.assert_allclose(q.sum(1), 1.0)
    raw = model.crossfit_.posteriors(new)[0][:, 1]
    bins = np.searchsorted(np.quantile(raw, np.linspace(0, 1, 21)[1:-1]), raw)
    assert violation(q, label, group) < 0.2 * violation(np.eye(20)[bins], label, group)
    drawn = model.decision_function(new, group, random_state=3)
    assert set(drawn.tolist()) <= set(model.score_.levels.tolist())
    assert roc_auc_score(label, drawn) == pytest.approx(model.score_.auroc, abs=0.015)


@pytest.mark.nightly
def test_one_kernel_and_drawn_members_keep_separation_best():
    """Own kernels see a fifth of the rows; the mean of the members has another law."""
    found = []
    new, label, group = sample(60_000, 99, atoms=10)
    for seed in range(4):
        X, y, z = sample(3000, seed, atoms=10)
        trees = DecisionTreeClassifier(max_leaf_nodes=12, random_state=0)
        model = SeparatedScorer(trees).fit(X, y, sensitive_features=z)
        parts = [p[:, 1] for p in model.crossfit_.posteriors(new)]
        ours = model.level_proba(new, group)
        mean = model.score_.level_proba(np.mean(parts, axis=0), sensitive_features=group)
        own = 0.0
        fold = datasets.folds(y, z, 5, 0)
        for k, part in enumerate(parts):
            rows = fold == k
            kernel = separate(
                y[rows],
                model.crossfit_.scores[rows, 1],
                sensitive_features=z[rows],
                borrow=True,
                levels=10,
            )
            own += violation(kernel.level_proba(part, sensitive_features=group), label, group) / 5
        found.append([violation(q, label, group) for q in (ours, mean)] + [own])
    ours, mean, own = np.mean(found, axis=0)
    assert ours < 0.5 * mean
    assert ours < 0.5 * own


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


def test_a_penalty_trades_violation_for_auroc():
    X, y, z = sample(4000, 0)
    exact, loose = (
        SeparatedScorer(LogisticRegression(), penalty=p, cv=3)
        .fit(X, y, sensitive_features=z)
        .score_
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
    weighted = SeparatedScorer(LogisticRegression()).fit(X, y, z, sample_weight=weight)
    plain = SeparatedScorer(LogisticRegression()).fit(X[:1000], y[:1000], z[:1000])
    np.testing.assert_allclose(weighted.level_proba(X, z), plain.level_proba(X, z), atol=1e-9)


def test_bad_input_is_refused_with_advice():
    X, y, z = sample(100, 0)
    with pytest.raises(InputError, match="sensitive_features"):
        SeparatedScorer().fit(X, y)
    with pytest.raises(InputError, match="two labels"):
        SeparatedScorer().fit(X, np.arange(100) % 3, sensitive_features=z)
    model = SeparatedScorer(LogisticRegression()).fit(X, y, sensitive_features=z)
    with pytest.raises(InputError, match="not one of"):
        model.level_proba(X[:1], ["other"])
