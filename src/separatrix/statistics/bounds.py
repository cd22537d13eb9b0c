"""Limits of rates, and the finite-sample bounds that follow from them at any size of the cells.

On v: simultaneous intervals hold all rates P(u | y, z); the bound is the largest v of any rates in
them. On the largest gap of a score: they hold at every threshold at once. Last, the intervals of
the accuracy of decisions and of the area under a score's ROC curve.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, expit, gammainccinv, kl_div, logit, ndtri, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import accuracy, violation_ceiling
from separatrix.core.numerics import Array, Mask, bisect, effective_rows, midpoints, quotient
from separatrix.core.score_tables import ScoreTable, largest_gap

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


def worst_violation(counts: Array, low: Array, high: Array) -> float:
    """The bound of `upper_bound` for intervals [low, high] that together hold all P(u | y, z)."""
    share = counts.sum(2)
    share = np.where((share > 0).sum(1, keepdims=True) > 1, share, 0.0) / counts.sum()
    best = _best_reference(low, high, share)
    worst = np.maximum(kl_div(low, best[:, None]), kl_div(high, best[:, None]))
    return float(min((share[:, :, None] * worst).sum(), violation_ceiling(counts)))


def rate_intervals(table: CountTable, confidence: float = 0.95, simultaneous: bool = True) -> tuple[Array, Array]:
    """Finite-sample intervals for all P(u | y, z), each array (y, z, u); NaN in cells without rows.

    Hard labels of weight one: Clopper–Pearson. Posteriors of weight one: the intersection of the
    empirical Bernstein bound (Maurer and Pontil, 2009) and the Chernoff bound for means of
    variables in [0, 1], at half the error each. Weighted rows: Hoeffding at the effective number of
    rows. If simultaneous, the error is shared equally by all rates that are free; otherwise each
    interval holds on its own.
    """
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
    elif not table.weighted:
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
        wide = np.sqrt(np.log(1.0 / error) / (2.0 * np.maximum(table.effective_rows, 1.0)))[:, :, None]
        low, high = mean - wide, mean + wide
    nothing = np.where(seen, 0.0, np.nan)
    return np.clip(low, 0.0, 1.0) + nothing, np.clip(high, 0.0, 1.0) + nothing


def clopper_pearson(count: Array, n: Array, error: float) -> tuple[Array, Array]:
    """Exact limits of the rates of `count` in `n` rows, each of which fails with this error.

    >>> [round(float(end), 3) for end in clopper_pearson(np.array(0.0), np.array(10.0), 0.05)]
    [0.0, 0.259]
    """
    low = betaincinv(np.maximum(count, 1e-300), n - count + 1.0, error)
    high = betaincinv(count + 1.0, np.maximum(n - count, 1e-300), 1.0 - error)
    return np.where(count > 0, low, 0.0), np.where(count < n, high, 1.0)


def chernoff_end(mean: Array, budget: Array, end: float) -> Array:
    """The end of {μ : kl(mean, μ) ≤ budget} towards 0 or 1, for means of variables in [0, 1]."""
    rest = xlogy(mean, mean) + xlogy(1.0 - mean, 1.0 - mean)

    def inside(mu: Array) -> Mask:
        return rest - xlogy(mean, mu) - xlogy(1.0 - mean, 1.0 - mu) <= budget

    # the outer end: rounding may only widen
    return bisect(inside, mean, np.full_like(mean, end))[1]


def _best_reference(low: Array, high: Array, share: Array) -> Array:
    """The Q[y, u] that minimises the bound: bisection on its derivative, which increases in Q."""
    weight = share[:, :, None]
    total = weight.sum(1)

    def falling(q: Array) -> Mask:
        worst = np.where(kl_div(high, q[:, None]) >= kl_div(low, q[:, None]), high, low)
        return np.asarray((weight * worst).sum(1) > q * total)  # derivative Σ w (1 − p/q) below 0

    ones = np.ones_like(low[:, 0])
    return bisect(falling, 1e-300 * ones, ones)[1]


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
    mass, squares = table.totals
    rows = 0 if table.squares is None else table.rows
    inverse = quotient(squares, mass**2)  # 1 / n
    cells, error, inside = int((mass > 0).sum()), 1.0 - confidence, not table.exact
    budget = shared_budget(cells, error, rows > 0)
    # from a factor of 4 on sharing the error is narrower, and clipped rates make it so earlier
    if budget >= 3.0 * np.log((2.0 if rows == 0 else 1.0) * cells / error):
        radius = rate_radius(inverse, rows, confidence)
        return min(largest_gap(table, radius, inside=inside)[0], 1.0)
    rising = np.sort(np.where(mass > 0, inverse, np.inf), axis=1)[:, :2]
    least, most = rising[np.isfinite(rising)].sum(), np.sort(inverse, axis=1)[:, -2:].sum()
    prices = np.geomspace(least, max(most, least), 1 if table.shape[1] < 3 else _TRIES)
    bound = 1.0
    for price in np.sqrt(prices / (8.0 * budget)):
        radius = inverse / (8.0 * price) + mean_radius(inverse, rows)
        gap, _ = largest_gap(table, radius, inside=inside, clipped=False)
        bound = min(bound, float(gap + 0.5 * price * budget))
    return bound


def shared_budget(cells: int, error: float, weighted: bool) -> float:
    r"""The r with :math:`P(\sum_i 2 n_i D_i^2 > r) \le` error; of weighted rows D less its
    `mean_radius`.
    """
    return (0.0 if weighted else cells * np.log(2.0)) + float(gammainccinv(cells, error))


def rate_radius(inverse: Array, rows: int, confidence: float) -> Array:
    r"""How far the empirical P(S > t | y, z) of any cell can be from the truth at any t, with the
    error δ = 1 − confidence shared over the m cells with rows.

    .. math:: ε_{yz} = \sqrt{\log(2 m / δ) / (2 n_{yz})}

    for rows of weight one; for weights `mean_radius` plus :math:`\sqrt{\log(m / δ) / (2 n_{yz})}`
    (McDiarmid's inequality: one row moves the supremum by at most w/Σw), with the effective rows
    :math:`n = (\sum w)^2 / \sum w^2`.

    Args:
        inverse: 1 / n of each cell (y, z); 0 where it has no rows.
        rows: number of rows, where they have weights; 0 where all weigh one.
    """
    seen = inverse > 0
    cells = int(seen.sum()) * (2 if rows == 0 else 1)
    radius = np.sqrt(np.log(cells / (1.0 - confidence)) / 2.0 * inverse)
    return np.where(seen, np.minimum(radius + mean_radius(inverse, rows), 1.0), 1.0)


def mean_radius(inverse: Array, rows: int) -> Array:
    r"""A bound on the mean of sup|F̂ − F| of weighted rows; 0 for rows of weight one, where the
    Dvoretzky–Kiefer–Wolfowitz inequality holds the mean already.

    .. math:: c \sqrt{h / n}, \qquad h = \tfrac54 + \tfrac14 \log(\text{rows})

    Sort the weights downwards and write the weighted sum as a mixture of plain sums of k rows
    (Abel), each at most :math:`c \sqrt k` on average; Cauchy–Schwarz leaves
    :math:`\sum_k (\sqrt k - \sqrt{k-1})^2 \le h`.

    Args:
        inverse: 1 / n of each cell, n the effective rows.
        rows: number of rows; 0 where all weigh one.
    """
    if rows == 0:
        return np.zeros_like(inverse)
    return _MEAN_DEVIATION * np.sqrt((1.25 + 0.25 * np.log(rows)) * inverse)


def accuracy_interval(table: CountTable, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the accuracy: Clopper–Pearson for hard labels of weight one, which holds for any
    number of rows; Wilson with the effective number of rows otherwise, for large samples.

    >>> t = CountTable(np.array([[[8.0, 2.0]], [[1.0, 9.0]]]), (0, 1), ("f",), (0, 1), rows=20)
    >>> [round(end, 3) for end in accuracy_interval(t)]
    [0.621, 0.968]
    """
    mean = float(accuracy(table.counts))
    tail, total = 0.5 * (1.0 - confidence), float(table.counts.sum())
    if table.moments is None:
        low, high = clopper_pearson(np.einsum("yzy->", table.counts), np.asarray(total), tail)
        return float(low), float(high)
    # Σ w² (q_y − mean)² of all rows
    labels = np.arange(len(table.labels))
    of_label = table.moments.sum(1)
    right = of_label[labels, labels, labels]
    cross = of_label.sum(2)[labels, labels]
    spread = float((right - 2.0 * mean * cross).sum() + mean**2 * of_label.sum())
    variance = max(spread, 0.0) / total**2
    if variance <= 0.0:
        return mean, mean
    n, z = mean * (1.0 - mean) / variance, float(ndtri(1.0 - tail))
    centre = (mean + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    half = z * np.sqrt(variance + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def auroc_interval(table: ScoreTable, confidence: float = 0.95) -> tuple[float, float]:
    r"""Large-sample interval of the AUROC of all rows (DeLong, DeLong and Clarke-Pearson, 1988).

    .. math:: \mathrm{Var} = \frac{\mathrm{Var}(F_0(S_1))}{n_1} + \frac{\mathrm{Var}(F_1(S_0))}{n_0}

    F is the other label's distribution function, ties counted half. The ends are symmetric in the
    log odds of the area. Where one order is perfect the variance is 0, and the ends are those of a
    Clopper–Pearson interval for the rarer label's rows.
    """
    positive = table.cell >= len(table.groups)
    weight = np.ones(len(table.atom)) if table.weight is None else table.weight
    squares = weight if table.squares is None else table.squares
    size = len(table.values)
    up, down = (np.bincount(table.atom[entries], weight[entries], size) for entries in (positive, ~positive))
    if up.sum() <= 0 or down.sum() <= 0:
        return 0.0, 1.0
    below, above = midpoints(down) / down.sum(), 1.0 - midpoints(up) / up.sum()
    area = float((up * below).sum() / up.sum())
    variance, rows = 0.0, []
    for entries, place, total in ((positive, below, up.sum()), (~positive, above, down.sum())):
        variance += float((squares[entries] * (place[table.atom[entries]] - area) ** 2).sum()) / total**2
        rows.append(float(effective_rows(total, squares[entries].sum())))
    tail = 0.5 * (1.0 - confidence)
    if not 0.0 < area < 1.0 or variance <= 0.0:
        edge = tail ** (1.0 / max(min(rows), 1.0))
        return (edge, 1.0) if area > 0.5 else (0.0, 1.0 - edge) if area < 0.5 else (0.5, 0.5)
    half = float(ndtri(1.0 - tail)) * np.sqrt(variance) / (area * (1.0 - area))
    return float(expit(logit(area) - half)), float(expit(logit(area) + half))
