r"""Finite-sample bounds that hold at every threshold of a score at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from separatrix.core.information import check_confidence
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable

__all__ = ["gap_bound", "mean_radius", "rate_radius", "shared_budget"]

Array = NDArray[np.float64]
# ∫ min(1, 2 exp(−2x²)) dx: the most that √n sup|F̂ − F| is on average
_MEAN_DEVIATION = 0.8883
_TRIES = 4  # prices of the shared budget, where there are more than two groups


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
