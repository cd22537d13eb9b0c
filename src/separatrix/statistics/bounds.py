"""Finite-sample upper bounds: they hold for any number of rows and any size of the cells.

On v: simultaneous intervals hold all rates P(u | y, z); the bound is the largest v of any rates in
them. On the largest gap of a score: they hold at every threshold at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, kl_div, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence, violation_ceiling
from separatrix.core.numerics import bisect
from separatrix.core.score_tables import ScoreTable, largest_gap
from separatrix.errors import InputError
from separatrix.statistics.proportions import clopper_pearson

Array = NDArray[np.float64]
_STEPS = 60  # halvings of an interval of length one: down to the last bit that matters
# ∫ min(1, 2 exp(−2x²)) dx: the most that √n sup|F̂ − F| is on average
_MEAN_DEVIATION = 0.8883
_TRIES = 4  # prices of the shared budget, where there are more than two groups


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
        low, high = clopper_pearson(counts, n, error)
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


def gap_bound(table: ScoreTable, confidence: float = 0.95) -> float:
    r"""Upper bound on the largest gap over all thresholds; fails with probability at most
    1 − confidence = δ.

    Let :math:`D_i = \sup_t |\hat R_i(t) - R_i(t)|` for the m cells i = (y, z). By the
    Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant, :math:`2 n_i D_i^2` is at most
    log 2 plus an exponential variable, and cells are independent. Hence, with the gamma quantile,

    .. math:: \sum_i 2 n_i D_i^2 \le r = m \log 2 + Γ_m^{-1}(1 - δ)

    and the gap, in which each label has a pair of cells, exceeds the empirical one by at most

    .. math:: \tfrac12 \sum_{i \in \text{pairs}} D_i \le \frac{κ r}{2} + \sum_i \frac{1}{16 κ n_i}
        \quad\text{for every } κ > 0,

    which is :math:`\sqrt{r \sum_i 1/(8 n_i)}` at the best κ. With many cells (m alone decides) it
    is better to share the error instead: :math:`D_i \le ε_i` of `rate_radius` for all cells.

    Rows are independent given label and group; weights are taken as fixed (`mean_radius`). A cell
    without rows may have any rate, unless its group has no rows at all. Where atoms are bins,
    thresholds inside a bin are covered too: the rates there lie between those at its ends.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 20_000))
    >>> t = ScoreTable.from_codes(rng.random(20_000), y, z, (0, 1), (0, 1))
    >>> 0.03 < gap_bound(t) < 0.06       # truth: 0
    True

    References:
        P. Massart (1990), The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality.
    """
    check_confidence(confidence)
    mass, squares = table.totals
    rows = 0 if table.squares is None else table.rows
    seen = mass > 0
    cells, error = int(seen.sum()), 1.0 - confidence
    budget, inside = shared_budget(cells, error, rows > 0), not table.exact
    # from a factor of 4 on sharing the error is narrower, and clipped rates make it so earlier
    if budget >= 3.0 * np.log((2.0 if rows == 0 else 1.0) * cells / error):
        radius = rate_radius(mass, squares, rows, confidence)
        return min(largest_gap(table, radius, inside=inside)[0], 1.0)
    one = np.where(seen, squares / np.where(seen, mass, 1.0) ** 2, np.nan)  # 1 / n
    ordered = np.sort(np.where(seen, one, np.inf), axis=1)
    pairs = [ordered[:, :2], np.sort(np.nan_to_num(one, nan=0.0), axis=1)[:, -2:]]
    least, most = (np.where(np.isfinite(pair), pair, 0.0).sum() for pair in pairs)
    prices = np.geomspace(least, max(most, least), 1 if table.shape[1] < 3 else _TRIES)
    found = [1.0]
    for price in np.sqrt(prices / (8.0 * budget)):
        radius = np.nan_to_num(one) / (8.0 * price) + mean_radius(np.nan_to_num(one), rows)
        gap, _ = largest_gap(table, radius, inside=inside, clipped=False)
        found.append(gap + 0.5 * price * budget)
    return float(min(found))


def shared_budget(cells: int, error: float, weighted: bool) -> float:
    r"""The r with :math:`P(\sum_i 2 n_i D_i^2 > r) \le` error; of weighted rows D less its
    `mean_radius`.
    """
    return (0.0 if weighted else cells * np.log(2.0)) + float(gammainccinv(cells, error))


def rate_radius(mass: Array, squares: Array, rows: int, confidence: float) -> Array:
    r"""How far the empirical P(S > t | y, z) of any cell can be from the truth at any t, with the
    error δ = 1 − confidence shared over the m cells with rows.

    .. math:: ε_{yz} = \sqrt{\log(2 m / δ) / (2 n_{yz})}

    for rows of weight one; for weights `mean_radius` plus :math:`\sqrt{\log(m / δ) / (2 n_{yz})}`
    (McDiarmid's inequality: one row moves the supremum by at most w/Σw), with the effective rows
    :math:`n = (\sum w)^2 / \sum w^2`.

    Args:
        mass, squares: sums of the weights and of their squares, (y, z).
        rows: number of rows, where they have weights; 0 where all weigh one.
    """
    error, seen = 1.0 - confidence, mass > 0
    one = np.where(seen, squares / np.where(seen, mass, 1.0) ** 2, 1.0)
    cells = int(seen.sum()) * (2 if rows == 0 else 1)
    radius = np.sqrt(np.log(cells / error) / 2.0 * one) + mean_radius(one, rows)
    return np.where(seen, np.minimum(radius, 1.0), 1.0)


def mean_radius(one: Array, rows: int) -> Array:
    r"""A bound on the mean of sup|F̂ − F| of weighted rows; 0 for rows of weight one, where the
    Dvoretzky–Kiefer–Wolfowitz inequality holds the mean already.

    .. math:: c \sqrt{h / n}, \qquad h = \tfrac54 + \tfrac14 \log(\text{rows})

    Sort the weights downwards and write the weighted sum as a mixture of plain sums of k rows
    (Abel), each at most :math:`c \sqrt k` on average; Cauchy–Schwarz leaves
    :math:`\sum_k (\sqrt k - \sqrt{k-1})^2 \le h`.

    Args:
        one: 1 / n of each cell, n the effective rows.
        rows: number of rows; 0 where all weigh one.
    """
    if rows == 0:
        return np.zeros_like(one)
    return _MEAN_DEVIATION * np.sqrt((1.25 + 0.25 * np.log(rows)) * one)
