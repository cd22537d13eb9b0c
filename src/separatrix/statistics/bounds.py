r"""Finite-sample upper bounds on v: they hold for any number of rows and any size of the cells.

Simultaneous intervals hold all rates P(u | y, z); the bound is the largest v of any rates in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, kl_div, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence, violation_ceiling
from separatrix.core.numerics import bisect
from separatrix.errors import InputError

__all__ = [
    "chernoff_end",
    "concentration_radius",
    "rate_intervals",
    "upper_bound",
    "worst_violation",
]

Array = NDArray[np.float64]
_STEPS = 60  # halvings of an interval of length one: down to the last bit that matters


def upper_bound(table: CountTable, confidence: float = 0.95) -> float:
    r"""Bound on v that fails with probability at most 1 − confidence, whatever the number of rows.

    With simultaneous intervals :math:`[l_u, h_u] \ni P(u \mid y, z)` and any reference
    :math:`Q_y > 0`,

    .. math:: v \le \sum_{y,z} p(y,z) \sum_u \max_{p \in \{l_u, h_u\}}
              \bigl[ p \log(p / Q_y(u)) - p + Q_y(u) \bigr]

    since v is the least mean divergence to a common reference and the bracket is convex in p. The
    bound is convex in each Q_y(u), so the best reference is found exactly. It is capped by H(Z | Y)
    and by log of the number of predictions.

    The composition p(y, z) is conditioned on: the bound is for the population with the observed
    shares of labels and groups, and rows are independent given (y, z). Weights are taken as fixed.
    A label seen with a single group has v = 0 by definition and takes no part.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> 0.0 < upper_bound(t) < 0.002
    True
    """
    low, high = rate_intervals(table, confidence)
    return worst_violation(table.counts, np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0))


def concentration_radius(n: int, confidence: float = 0.95) -> float:
    r"""How far the plug-in v of n rows can be from its own mean, with the given confidence.

    .. math:: |\hat v - E\,\hat v| \le 8 \log n \sqrt{\log(2/\delta) / (2n)}

    Second part of Proposition "Bias and concentration of hard-count plug-in CMI", without its lower
    bounds on the probabilities: replacing one of n ≥ 3 rows changes each of the four entropies of
    v = H(U,Y) + H(Z,Y) − H(U,Z,Y) − H(Y) by at most 2 log(n)/n, and McDiarmid's inequality follows.
    It says nothing about the bias (`information.miller_madow`), and `upper_bound` is far sharper.

    >>> round(concentration_radius(1_000_000), 3)
    0.15
    """
    check_confidence(confidence)
    if n < 3:
        raise InputError(f"`n` is the number of rows and must be at least 3, got {n}.")
    return float(8.0 * np.log(n) * np.sqrt(np.log(2.0 / (1.0 - confidence)) / (2.0 * n)))


def worst_violation(counts: Array, low: Array, high: Array) -> float:
    """The bound of `upper_bound` for intervals [low, high] that together hold all P(u | y, z)."""
    share = counts.sum(2)
    share = np.where((share > 0).sum(1, keepdims=True) > 1, share, 0.0) / counts.sum()
    best = _best_reference(low, high, share)
    worst = np.maximum(kl_div(low, best[:, None]), kl_div(high, best[:, None]))
    return float(min((share[:, :, None] * worst).sum(), violation_ceiling(counts)))


def rate_intervals(
    table: CountTable, confidence: float = 0.95, simultaneous: bool = True
) -> tuple[Array, Array]:
    """Finite-sample intervals for all P(u | y, z), each array (y, z, u); NaN in cells without rows.

    Hard labels of weight one: Clopper–Pearson. Posteriors of weight one: the intersection of the
    empirical Bernstein bound (Maurer and Pontil, 2009) and the Chernoff bound for means of
    variables in [0, 1], at half the error each. Weighted rows: Hoeffding at the effective number of
    rows. If simultaneous, the error is shared equally by all rates that are free; otherwise each
    interval holds on its own.
    """
    check_confidence(confidence)
    counts = table.counts
    mass = counts.sum(2, keepdims=True)
    # two rates that sum to one share one interval
    free = 1 if counts.shape[2] == 2 else counts.shape[2]
    shared = max(int((mass > 0).sum()) * free, 1) if simultaneous else 1
    error = (1.0 - confidence) / (2.0 * shared)  # one side of one rate
    seen = np.broadcast_to(mass > 0, counts.shape)
    n = np.where(seen, mass, 1.0)
    mean = np.clip(counts / n, 0.0, 1.0)
    if table.moments is None:
        low = np.where(
            counts > 0, betaincinv(np.maximum(counts, 1e-300), n - counts + 1.0, error), 0.0
        )
        high = np.where(
            counts < n, betaincinv(counts + 1.0, np.maximum(n - counts, 1e-300), 1.0 - error), 1.0
        )
    elif np.allclose(table.weight_squares, counts.sum(2)):
        squares = np.diagonal(table.moments, axis1=-2, axis2=-1)
        variance = np.maximum(squares - counts * mean, 0.0) / np.maximum(n - 1.0, 1.0)
        # half the error for Bernstein, whose two events share it
        log = np.log(2.0 / error) + np.log(2.0)
        wide = np.sqrt(2.0 * variance * log / n) + 7.0 * log / (3.0 * np.maximum(n - 1.0, 1.0))
        wide = np.where(n > 1, wide, 1.0)
        budget = np.log(2.0 / error) / n
        low = np.maximum(mean - wide, chernoff_end(mean, budget, 0.0))
        high = np.minimum(mean + wide, chernoff_end(mean, budget, 1.0))
    else:
        effective = n**2 / np.where(seen, table.weight_squares[:, :, None], 1.0)
        wide = np.sqrt(np.log(1.0 / error) / (2.0 * effective))
        low, high = mean - wide, mean + wide
    nothing = np.where(seen, 0.0, np.nan)
    return np.clip(low, 0.0, 1.0) + nothing, np.clip(high, 0.0, 1.0) + nothing


def chernoff_end(mean: Array, budget: Array, end: float) -> Array:
    """The end of {μ : kl(mean, μ) ≤ budget} towards 0 or 1, for means of variables in [0, 1]."""
    rest = xlogy(mean, mean) + xlogy(1.0 - mean, 1.0 - mean)

    def inside(mu: Array) -> NDArray[np.bool_]:
        return rest - xlogy(mean, mu) - xlogy(1.0 - mean, 1.0 - mu) <= budget

    # the outer end: rounding may only widen
    return bisect(inside, mean, np.full_like(mean, end), _STEPS)[1]


def _best_reference(low: Array, high: Array, share: Array) -> Array:
    """The Q[y, u] that minimises the bound: bisection on its derivative, which increases in Q."""
    weight = share[:, :, None]
    total = weight.sum(1)

    def falling(q: Array) -> NDArray[np.bool_]:
        worst = np.where(kl_div(high, q[:, None]) >= kl_div(low, q[:, None]), high, low)
        return np.asarray((weight * worst).sum(1) > q * total)  # derivative Σ w (1 − p/q) below 0

    shape = total.shape[:1] + low.shape[2:]
    return bisect(falling, np.full(shape, 1e-300), np.ones(shape), _STEPS)[1]
