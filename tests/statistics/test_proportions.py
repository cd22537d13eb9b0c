"""Intervals of accuracy and AUROC against independent formulas and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from separatrix.columns.counting import count_labels, count_posteriors, count_scores
from separatrix.statistics.bounds import accuracy_interval, auroc_interval


def test_accuracy_of_hard_labels_is_clopper_pearson():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 300))
    for right in (0.0, 0.7, 1.0):
        u = np.where(rng.random(300) < right, y, 1 - y)
        expected = binomtest(int((u == y).sum()), 300).proportion_ci(method="exact")
        found = accuracy_interval(count_labels(y, u, sensitive_features=z))
        assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_cover_what_they_say(weighted):
    rng = np.random.default_rng(0)
    area, accuracy, n = norm.cdf(np.sqrt(0.5)), 2 / 3, 250
    inside = np.zeros(2)
    for _ in range(200):
        y, z = rng.integers(0, 2, (2, n))
        w = rng.random(n) if weighted else None
        t = count_scores(y, rng.normal(size=n) + y, sensitive_features=z, sample_weight=w)
        low, high = auroc_interval(t)
        inside[0] += low <= area <= high
        own = rng.beta(2, 1, n)
        p = np.where(y == 1, own, 1 - own)
        t = count_posteriors(y, np.c_[1 - p, p], sensitive_features=z, sample_weight=w)
        low, high = accuracy_interval(t)
        inside[1] += low <= accuracy <= high
    assert (inside / 200 > 0.9).all()
    assert (inside / 200 < 0.995).all()


def test_perfect_and_useless_scores_have_an_interval():
    y, z = np.tile([0, 1], 40), np.repeat([0, 1], 40)
    low, high = auroc_interval(count_scores(y, y, sensitive_features=z))
    assert 0.85 < low < high == 1.0
    assert auroc_interval(count_scores(y, 0 * y, sensitive_features=z)) == (0.5, 0.5)
