"""The paper's two policies, against brute force and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from separatrix.auditing.door import audit_score
from separatrix.columns.counting import count_labels, soft_counts
from separatrix.core import information
from separatrix.frontier.sweep import best_threshold, decide, evaluate, score_view


def objective(score, y, z, t, weight):
    """Accuracy − w · EO gap of the decision score > t, from the public tables."""
    table = count_labels(y, (score > t).astype(int), sensitive_features=z, labels=[0, 1]).counts
    return float(information.accuracy(table) - weight * information.eo_gap(table))


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=60),
    weight=st.sampled_from([0.0, 0.3, 1.0, 30.0]),
)
def test_the_threshold_is_the_best_of_all(rows, weight):
    score, y, z = (np.array([r[0] for r in rows]) / 20, np.array([r[1] for r in rows]), np.array([r[2] for r in rows]))
    found = best_threshold(score, y, z, 3, weight)
    values = [objective(score, y, z, t, weight) for t in np.r_[-1.0, np.unique(score) + 1e-9, 2.0]]
    assert objective(score, y, z, found, weight) == pytest.approx(max(values), abs=1e-9)


def test_of_equal_thresholds_the_one_closest_to_one_half():
    y, z = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert best_threshold(np.array([0.0, 0.0, 1.0, 1.0]), y, z, 2, 1.0) == 0.5
    flat = np.full(4, 0.3)  # every decision is as good as the other: one half of the rows are right
    assert best_threshold(flat, y, z, 2, 0.0) in (-0.7, 1.3)


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "groups"), [(2, 2), (2, 5), (4, 3)])
def test_tables_and_auroc_are_those_of_independent_readings(labels, groups):
    rng = np.random.default_rng(labels)
    n, m = 400, 3
    y, z = rng.integers(0, labels, n), rng.integers(0, groups, n)
    logits = rng.normal(size=(m, n, labels)) + 1.5 * np.eye(labels)[y]
    q = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    train, test = np.arange(0, n, 2), np.arange(1, n, 2)
    weights = [0.0, 0.5, 1.0]
    cuts = [np.nan] * m
    if labels == 2:
        cuts = [best_threshold(s, y[train], z[train], groups, w) for s, w in zip(q[:, train, 1], weights, strict=True)]
    found = evaluate(q[:, test], y[test], z[test], groups, cuts)
    for lane, scores in enumerate(found):
        np.testing.assert_allclose(
            scores["soft"], soft_counts(y[test], q[lane, test], sensitive_features=z[test])[:, :groups], atol=1e-9
        )
        if labels == 2:
            hard = (q[lane, test, 1] > cuts[lane]).astype(int)
            expected = roc_auc_score(y[test], q[lane, test, 1])
        else:
            hard = q[lane, test].argmax(1)
            expected = roc_auc_score(y[test], q[lane, test], multi_class="ovr", average="macro")
        table = count_labels(y[test], hard, sensitive_features=z[test], labels=range(labels)).counts
        np.testing.assert_array_equal(scores["hard"], table)
        assert scores["auroc"] == pytest.approx(expected, abs=1e-12)
        squares = np.zeros((labels, groups, labels))
        np.add.at(squares, (y[test], z[test]), q[lane, test] ** 2)
        np.testing.assert_allclose(scores["squares"], squares, atol=1e-9)
        if labels == 2:
            audit = audit_score(y[test], q[lane, test, 1], sensitive_features=z[test], bins=20)
            found_v = information.conditional_mutual_information(scores["ordered"])
            assert found_v == pytest.approx(audit.violation, abs=1e-12)
            assert scores["score_gap"] == pytest.approx(audit.gap, abs=1e-12)
        else:
            assert not {"ordered", "score_gap"} & set(scores)


def test_the_score_view_of_a_decision_is_that_of_the_decision():
    rng = np.random.default_rng(2)
    y, z, u = rng.integers(0, 2, (3, 300))
    ordered, gap = score_view(u.astype(float), y, z, 2)
    table = count_labels(y, u, sensitive_features=z).counts
    assert gap == pytest.approx(float(information.eo_gap(table)))
    assert information.conditional_mutual_information(ordered) == pytest.approx(
        float(information.conditional_mutual_information(table))
    )


def test_a_shrunk_score_is_as_far_from_separation_as_before():
    """Shrinking takes the EO gap of a draw to nothing; no yardstick of a score falls for it."""
    rng = np.random.default_rng(3)
    y, z = rng.integers(0, 2, (2, 2_000))
    score = np.clip(0.3 * y + 0.2 * z + 0.5 * rng.random(2_000), 0, 1)
    shrunk = 0.5 + 0.01 * (score - 0.5)
    q = np.stack([np.stack([1 - s, s], -1) for s in (score, shrunk)])
    first, second = evaluate(q, y, z, 2, [0.5, 0.5])
    assert information.eo_gap(second["soft"]) < 0.02 * information.eo_gap(first["soft"])
    np.testing.assert_array_equal(first["ordered"], second["ordered"])
    assert (first["score_gap"], first["auroc"]) == (second["score_gap"], second["auroc"])


def test_a_base_score_may_rank_instead_of_a_decision():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 100), rng.integers(0, 2, 100)
    base = np.clip(0.5 * rng.random(100) + 0.3 * y, 0, 1)
    score = np.stack([1 - base, base], -1)[None]
    decision = decide(score, [0.5])
    (with_base,) = evaluate(decision, y, z, 2, [0.5], ranking=score)
    assert with_base["auroc"] == pytest.approx(roc_auc_score(y, base))
    assert with_base["score_gap"] == score_view(base, y, z, 2)[1]
    assert with_base["hard"].sum() == 100
