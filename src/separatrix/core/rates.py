"""Utility and violation of a binary decision, as functions of its rates.

The rates are x[z, y] = P(U=1 | Y=y, Z=z) and the mass is P(Y=y, Z=z), arrays (..., groups, 2).
Units are nats and 0 log 0 = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

__all__ = ["rates_utility", "rates_violation", "relative_entropy", "selection_rates"]

Array = NDArray[np.float64]


def rates_utility(mean: Array, prior: Array) -> Array:
    """u of the overall rates x̄ (..., 2): convex in x̄, rising in x̄₁ and falling in x̄₀ above the
    diagonal.
    """
    mean = np.clip(
        mean, 0.0, 1.0
    )  # a sum of shares may round to just above one, where the entropy is not defined
    return np.maximum(
        _binary_entropy(np.minimum(mean @ prior, 1.0)) - _binary_entropy(mean) @ prior, 0.0
    )


def rates_violation(x: Array, mass: Array) -> Array:
    """v of the rates x (..., groups, 2): convex in x."""
    mean = (x * mass).sum(-2, keepdims=True) / mass.sum(-2, keepdims=True)
    return np.maximum(
        (mass * (relative_entropy(x, mean) + relative_entropy(1.0 - x, 1.0 - mean))).sum((-2, -1)),
        0.0,
    )


def selection_rates(x: Array, mass: Array) -> Array:
    """P(U=1 | z) of the rates x (..., groups, 2) where P(Y=y, Z=z) is `mass`: (..., groups, 1)."""
    weight = mass.sum(-1, keepdims=True)
    return np.asarray((x * mass).sum(-1, keepdims=True) / np.where(weight > 0, weight, 1.0))


def relative_entropy(x: Array, m: Array) -> Array:
    """x log(x/m) − x + m, with 0 log 0 = 0 and without cancellation for x close to m."""
    ratio = np.divide(x, m, out=np.ones_like(x), where=m > 0)
    with np.errstate(divide="ignore"):
        logarithm = np.where(
            ratio > 0.5,
            np.log1p(np.divide(x - m, m, out=np.zeros_like(x), where=m > 0)),
            np.log(ratio),
        )
    return np.where(x > 0, x * np.where(x > 0, logarithm, 0.0), 0.0) - x + m


def _binary_entropy(x: Array) -> Array:
    return entr(x) + entr(1.0 - x)
