"""ERM: the reference point."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix import methods
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import auroc

pytest.importorskip("torch")

RECIPE = Recipe(hidden=(16,), epochs=30, min_steps=0, batch=128, learning_rate=3e-3, cosine=True)


def gaussian(n=4_000, seed=0) -> tuple[Sample, np.ndarray]:
    """Two Gaussians: the posterior is known, a logistic function of the sum of the features."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + (y - 0.5)[:, None]
    return Sample(X, y, z), 1 / (1 + np.exp(-X.sum(1)))


@pytest.mark.slow
def test_it_finds_the_posterior():
    (sample, _), (fresh, truth) = gaussian(), gaussian(seed=1)
    q = methods.fit("erm", sample, [Lane(0.0)], recipe=RECIPE).posteriors(fresh.X, fresh.z)
    assert np.abs(q[0, :, 1] - truth).mean() < 0.04
    assert auroc(q, fresh.y)[0] > 0.86


def test_the_trade_off_plays_no_part():
    sample, _ = gaussian(500)
    q = methods.fit("erm", sample, [Lane(0.0), Lane(0.9)], recipe=RECIPE).posteriors(sample.X, sample.z)
    np.testing.assert_array_equal(q[0], q[1])
