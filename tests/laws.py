"""Small laws for the tests of the methods, and what a policy reaches on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.core import information
from separatrix.methods import Fitted, Lane, Recipe, Sample
from separatrix.nn.networks import tables

# short; the learning rate falls to zero, so that the end is where the objective pulls and not where
# a step ended
RECIPE = Recipe(hidden=(16, 16), epochs=25, min_steps=0, batch=256, learning_rate=5e-3, cosine=True)


def leaking(n: int = 3000, n_labels: int = 2, n_groups: int = 2, seed: int = 0) -> Sample:
    """Y ⟂ Z; the first column says Y; the second says more about Y but mixes it with Z, which X
    alone cannot undo.

    ERM on X leaks Z given Y. Reading the first column alone does not. Since Y ⟂ Z, independence and
    separation are the same aim here.
    """
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, n_labels, n), rng.integers(0, n_groups, n)
    signal = 1.5 * (y - (n_labels - 1) / 2) + rng.normal(size=n)
    mixed = 2.0 * (y - (n_labels - 1) / 2) + 1.5 * (z - (n_groups - 1) / 2) + 0.5 * rng.normal(size=n)
    return Sample(np.stack([signal, mixed, rng.normal(size=n)], 1), y, z, n_labels, n_groups)


def dependent(n: int = 3000, seed: int = 0) -> Sample:
    """Y = Z for nine of ten, and X ⟂ Z | Y: every predictor from X is separated, none but a
    constant is independent.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    z = np.where(rng.random(n) < 0.9, y, 1 - y)
    X = 2.0 * (y - 0.5)[:, None] + rng.normal(size=(n, 2))
    return Sample(X, y, z)


class Reached(NamedTuple):
    """What each λ reaches on the training rows."""

    v: NDArray[np.float64]
    u: NDArray[np.float64]
    q: NDArray[np.floating]
    fitted: Fitted


def reach(name: str, sample: Sample, trade_offs: Sequence[float], recipe: Recipe = RECIPE, z: bool = False) -> Reached:
    """Train `name` on all rows, without the group as an input unless `z`, and measure the
    randomised policies.
    """
    fitted = methods.fit(name, sample, [Lane(t) for t in trade_offs], recipe=recipe, use_sensitive=z)
    q = fitted.posteriors(sample.X, sample.z)
    counts = tables(q, sample.y, sample.z, sample.n_labels, sample.n_groups)
    return Reached(
        information.conditional_mutual_information(counts), information.mutual_information(counts), q, fitted
    )


def group_rates(q: NDArray[np.floating], sample: Sample) -> NDArray[np.float64]:
    """P(U = 1 | y, z) of one lane, (n_labels, n_groups)."""
    counts = tables(q[None], sample.y, sample.z, sample.n_labels, sample.n_groups)[0]
    return counts[:, :, 1] / counts.sum(2)
