"""Stacked evaluation against scikit-learn and the count tables, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.errors import InputError
from separatrix.nn.networks import auroc, hard, tables


def stack(m=4, n=300, k=3, seed=0, ties=True):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(k), (m, n))
    if ties:
        q = np.round(q, 1)
        q /= q.sum(-1, keepdims=True)
    return q, rng.integers(0, k, n), rng.integers(0, 2, n)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("ties", [True, False])
def test_auroc_equals_scikit_learn(k, ties):
    q, y, _ = stack(k=k, ties=ties)
    for lane, area in zip(q, auroc(q, y), strict=True):
        expected = (
            roc_auc_score(y, lane[:, 1])
            if k == 2
            else np.mean([roc_auc_score(y == label, lane[:, label]) for label in range(k)])
        )
        assert area == pytest.approx(expected, abs=1e-12)


def test_auroc_leaves_out_absent_labels_and_marks_diverged_lanes():
    q, y, _ = stack(k=3)
    q[2, 5] = np.nan
    area = auroc(q, np.where(y == 2, 1, y))
    assert np.isnan(area[2])
    assert np.isfinite(area[[0, 1, 3]]).all()
    with pytest.raises(InputError, match="at least two labels"):
        auroc(q, np.zeros_like(y))


def test_tables_equal_the_count_tables():
    q, y, z = stack()
    for lane, table in zip(q, tables(q, y, z, 3, 2), strict=True):
        np.testing.assert_allclose(table, count_posteriors(y, lane, sensitive_features=z).counts, atol=1e-10)
    for lane, table in zip(q, tables(hard(q), y, z, 3, 2), strict=True):
        np.testing.assert_array_equal(table, count_labels(y, lane.argmax(1), sensitive_features=z).counts)
