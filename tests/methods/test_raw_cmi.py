"""The ablation: without gradient norms the same λ does much less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from separatrix import methods
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import tables

torch = pytest.importorskip("torch")

RECIPE = Recipe(hidden=(16, 16), epochs=10, min_steps=0, batch=128, learning_rate=3e-3)


def test_the_range_of_trade_offs_is_squeezed_towards_one():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 2_000)
    y = np.where(rng.random(2_000) < 0.5, z, rng.integers(0, 2, 2_000))
    sample = Sample(np.column_stack([y + rng.normal(size=2_000), z]), y, z)

    def violation(name):
        q = methods.fit(name, sample, [Lane(0.0), Lane(0.3), Lane(0.98)], recipe=RECIPE).posteriors(sample.X, z)
        return conditional_mutual_information(tables(q, y, z, 2, 2))

    raw, balanced = violation("raw_cmi"), violation("cmi")
    assert balanced[1] < 0.1 * balanced[0]
    assert raw[1] > 0.5 * raw[0]
    assert raw[2] < 0.1 * raw[0]


def test_the_gradient_is_that_of_the_plain_sum():
    from separatrix.nn import SeparationLoss
    from separatrix.nn.stack import train

    rng = np.random.default_rng(1)
    sample = Sample(rng.normal(size=(64, 3)), rng.integers(0, 2, 64), rng.integers(0, 2, 64))
    seen = {}

    def recording(batch, trade_off):
        from separatrix.methods.raw_cmi import loss

        value = loss(batch, trade_off)
        (seen["ours"],) = torch.autograd.grad(value.sum(), batch.logits, retain_graph=True)
        logits = batch.logits[0].detach().requires_grad_()
        plain = SeparationLoss(0.3, 2, 2, normalise=False)(logits, batch.y[0], batch.z[0])
        (seen["plain"],) = torch.autograd.grad(plain, logits)
        return value

    train(sample, [Lane(0.3)], methods.Options(Recipe(epochs=1, min_steps=0)), recording)
    torch.testing.assert_close(seen["ours"][0], seen["plain"], rtol=1e-5, atol=1e-8)


def test_another_scale_of_the_penalty_is_another_trade_off():
    """With c the two terms have the ratio λ c / (1 − λ); so they have at c = 1 and λ'."""
    rng = np.random.default_rng(1)
    sample = Sample(rng.normal(size=(300, 3)), rng.integers(0, 2, 300), rng.integers(0, 2, 300))
    scaled, plain = (
        methods.fit("raw_cmi", sample, [Lane(λ)], recipe=replace(RECIPE, penalty_scale=c))
        for λ, c in ((0.5, 9.0), (0.9, 1.0))
    )
    np.testing.assert_allclose(scaled.posteriors(sample.X, sample.z), plain.posteriors(sample.X, sample.z), atol=1e-3)
    with pytest.raises(InputError, match="`penalty_scale` must be positive, got 0"):
        replace(RECIPE, penalty_scale=0.0)
