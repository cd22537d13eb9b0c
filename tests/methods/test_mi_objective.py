"""Walking the information plane itself: more u at less v than sampling calibrated posteriors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from separatrix import methods
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import auroc, tables

torch = pytest.importorskip("torch")

RECIPE = Recipe(hidden=(32, 32), epochs=15, min_steps=0, batch=128, learning_rate=3e-3, cosine=True, running=0.9)


def leaking(n=3_000, seed=0) -> Sample:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    y = np.where(rng.random(n) < 0.4, z, rng.integers(0, 2, n))
    return Sample(np.column_stack([y + rng.normal(size=n), z + 0.3 * rng.normal(size=n)]), y, z)


def measure(name: str, trade_offs: list[float]):
    fresh = leaking(6_000, 99)
    q = methods.fit(name, leaking(), [Lane(t) for t in trade_offs], recipe=RECIPE).posteriors(fresh.X, fresh.z)
    table = tables(q, fresh.y, fresh.z, 2, 2)
    return conditional_mutual_information(table), mutual_information(table), auroc(q, fresh.y), q


@pytest.mark.nightly
def test_it_gets_more_information_through_at_a_smaller_violation():
    v, u, _, _ = measure("mi_objective", [0.4, 0.6])
    v_cmi, u_cmi, _, _ = measure("cmi", [0.2])
    assert v.max() < v_cmi[0]
    assert u.min() > 1.5 * u_cmi[0]


def test_labels_are_not_swapped():
    """I(U;Y) alone cannot tell a label from the other: ten seeds, none comes out upside down."""
    fresh = leaking(2_000, 7)
    fitted = methods.fit("mi_objective", leaking(1_500), [Lane(0.2, seed=s) for s in range(10)], recipe=RECIPE)
    assert (auroc(fitted.posteriors(fresh.X, fresh.z), fresh.y) > 0.7).all()


@pytest.mark.slow
def test_logits_stay_within_bounds():
    sample = leaking(1_500)
    fitted = methods.fit("mi_objective", sample, [Lane(0.0)], recipe=replace(RECIPE, epochs=60))
    q = fitted.posteriors(sample.X, sample.z)[0].astype(float)
    margin = np.log(q.max(1)) - np.log(q.min(1).clip(1e-300))
    assert fitted.status == ("ok",)
    assert margin.max() < 60  # ±15 and a few steps of momentum; unbounded it passes 100


def test_a_whole_trade_off_is_a_constant():
    v, u, _, q = measure("mi_objective", [1.0])
    assert v[0] < 1e-4
    assert u[0] < 0.05
    np.testing.assert_allclose(q.sum(-1), 1, atol=1e-5)
