"""Scores without the group: a larger β buys less violation, and the same row has the same score."""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx
from separatrix.errors import InputError
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores

MEANS = np.array([[[0.0, 0.0], [0.3, 2.0]], [[2.0, 1.0], [2.6, 3.0]]])


def draw(n, seed):
    """Two features: one for the label, shifted with the group, and one that tells the group."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, (2, n))
    x = rng.normal(size=(n, 2)) + MEANS[y, z]
    q = np.exp(-0.5 * ((x[:, None, None] - MEANS) ** 2).sum(-1))
    return q / q.sum((1, 2), keepdims=True), y, z


@pytest.fixture(scope="module")
def path():
    q, y, z = draw(3_000, 0)
    return blind_scores(q, y, z, np.ones(len(y)), penalties=(0.0, 10.0))


@pytest.mark.slow
def test_on_unseen_rows_a_larger_penalty_has_less_violation_and_a_smaller_auroc(path):
    q, y, z = draw(20_000, 1)
    found = [sx.audit_score(y, one.transform(q), sensitive_features=z) for one in path]
    v, auroc = [one.violation for one in found], [one.auroc for one in found]
    assert v[1] < 0.2 * v[0]
    assert found[1].gap < 0.5 * found[0].gap
    assert auroc[0] > auroc[1] > 0.85
    plain = sx.audit_score(y, q[:, 1].sum(1), sensitive_features=z)
    assert plain.auroc - 0.005 < auroc[0] <= plain.auroc + 1e-3  # 40 numbers from 3,000 rows


@pytest.mark.slow
def test_it_is_calibrated_to_the_label(path):
    q, y, _ = draw(40_000, 2)
    s = path[1].transform(q)
    cell = np.minimum((np.argsort(np.argsort(s)) * 10) // len(s), 9)
    for k in range(10):
        assert y[cell == k].mean() == pytest.approx(s[cell == k].mean(), abs=0.04)


@pytest.mark.slow
def test_arrays_and_back(path):
    q = draw(200, 3)[0]
    again = BlindScore.from_arrays((), path[1].arrays())
    np.testing.assert_array_equal(again.transform(q), path[1].transform(q))


def test_errors():
    q, y, z = draw(50, 4)
    with pytest.raises(InputError, match="for two labels, `q` has 1"):
        blind_scores(q[:, :1] / q[:, :1].sum((1, 2), keepdims=True), y, z, np.ones(50))
    with pytest.raises(InputError, match="at least 0"):
        blind_scores(q, y, z, np.ones(50), penalties=[-1.0])
