r"""The equalized-odds gap: a certified bound, an interval, and what shuffled groups would show.

The gap is a mean over labels of the largest distance between two groups,
:math:`\frac{1}{K}\sum_y \max_{z,z'} \mathrm{TV}_y(z, z')`. It depends on the rates P(u | y, z)
only, so the composition of the rows does not matter. Labels and groups without any row take no
part. A cell (y, z) without rows, of a label and a group that do occur, has an unknown rate: the
estimate leaves it out, and the bound lets it be anything from 0 to 1.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from scipy.special import ndtri

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_rates, eo_gap
from separatrix.core.numerics import Array, Mask, effective_rows
from separatrix.statistics.bounds import clopper_pearson, rate_intervals
from separatrix.statistics.shuffling import shuffled_tables

_LIMITS_SHARE = 0.02  # of the error, for the limits of the rates in the variances
_TRIES = 48  # prices of variance in the largest limit over tuples
_DRAWS = 400
_CELLS = 40_000_000  # numbers drawn at most


def eo_gap_bound(
    table: CountTable, confidence: float = 0.95, guarantee: str = "finite-sample", groups: Mask | None = None
) -> float:
    r"""Upper bound on the equalized-odds gap that does not pay for the number of groups.

    The pair of groups that is truly farthest apart in each label is a fixed tuple t, unknown but
    not random. The gap is the linear function :math:`\frac1K\sum_y (p_{y a_y} - p_{y b_y})` of its
    rates, and has an upper limit U_t with error δ. So the largest U_t over all tuples fails with
    probability at most δ.

    "finite-sample": by the moment generating functions of the rates,

    .. math:: U_t = \hat g_t + \sqrt{2 \log(1/δ) \sum_{c \in t} \frac{s_c^2}{K^2 n_c}}

    with s² = p(1 − p) where the tail points to the nearer end of [0, 1], Kearns and Saul's (1998)
    constant where it does not, each at its worst in a limit of p that has a small part of the
    error; s² = 1/4 for more than two predictions and for weighted rows, with the effective number
    of rows. "large-sample": the ends of one-sided Clopper–Pearson limits, added in quadrature;
    normal ends for posteriors and weighted rows. A rate without rows is the worst in [0, 1].

    Args:
        table: the counts.
        confidence: of the bound.
        guarantee: "finite-sample" or "large-sample".
        groups: which groups exist, where the table is a part of another; by default those with
            rows in it.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> 0.01 < eo_gap_bound(t, guarantee="large-sample") < eo_gap_bound(t) < 0.03
    True
    """
    above, below = _variances(table, confidence, guarantee)
    counts = table.counts
    seen = counts.sum(2) > 0
    labels = int(seen.any(1).sum())
    rates = conditional_rates(counts)
    unseen = unseen_cells(counts, groups)
    if counts.shape[2] == 2:  # an unseen rate is 0 or 1
        high, low = (np.where(unseen, end, rates[..., 1]) for end in (1.0, 0.0))
        distance = high[:, :, None] - low[:, None]
    else:  # total variation; all unseen rows may get what the other group never does
        distance = np.stack([0.5 * np.abs(rates - rates[:, [z]]).sum(-1) for z in range(rates.shape[1])], 2)
        distance = np.where(unseen[:, :, None] | unseen[:, None], 1.0, distance)
    above, below = np.where(unseen, 0.0, above), np.where(unseen, 0.0, below)
    there = seen | unseen
    pairs = there[:, :, None] & there[:, None] & ~np.eye(seen.shape[1], dtype=bool)
    alone = ~pairs.any((1, 2))  # a label without rows, or a single group: nothing to compare
    distance = np.where(pairs, distance, -np.inf)
    variance = np.where(pairs, above[:, :, None] + below[:, None], 0.0)
    distance[alone], variance[alone] = 0.0, 0.0
    most = variance.max((1, 2)).sum()
    if most <= 0:
        return float(min(max(distance.max((1, 2)).sum() / labels, 0.0), 1.0))
    # √V ≤ κ V + 1/(4κ) for every κ, and then each label has its own largest pair
    best = 1.0
    for price in 0.5 / np.sqrt(most * np.geomspace(1e-4, 1.0, _TRIES)):
        largest = (distance + price * variance).max((1, 2)).sum() + 0.25 / price
        best = min(best, float(largest) / labels)
    return max(best, float(eo_gap(counts)))


def eo_gap_interval(
    table: CountTable, confidence: float = 0.95, random_state: int = 0, groups: Mask | None = None
) -> tuple[float, float]:
    r"""Large-sample interval of the equalized-odds gap.

    The gap is a seminorm, so that :math:`\hat g - g(\hat p - p) \le g(p)`: the lower end is ĝ less
    the upper quantile of the gap of the noise p̂ − p. The noise of a rate has the distribution whose
    quantiles are the Clopper–Pearson limits of its cell, so that a cell of few rows is not taken to
    be free of noise. The upper end is `eo_gap_bound`, with `groups` as there. Each end has half of
    the error.
    """
    half = 0.5 * (1.0 + confidence)
    gap = float(eo_gap(table.counts))
    noise = _mean_gap(table, random_state, shuffled=False)
    low = max(gap - float(np.quantile(noise, half)), 0.0)
    return low, eo_gap_bound(table, half, "large-sample", groups)


def eo_gap_floor(table: CountTable, random_state: int = 0) -> float:
    """The gap that groups shuffled within labels would show on average: a smaller one is noise.

    Hard labels of weight one are shuffled (`shuffled_tables`). For posteriors and weighted rows the
    table does not hold the rows: the group means are drawn from the normal law that shuffling tends
    to.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 2_000))
    >>> 0.01 < eo_gap_floor(count_labels(y, u, sensitive_features=z)) < 0.03
    True
    """
    return float(_mean_gap(table, random_state, shuffled=True).mean())


def _variances(table: CountTable, confidence: float, guarantee: str) -> tuple[Array, Array]:
    """Squared half-widths of each rate (y, z), as the farther group and as the nearer one."""
    counts, mass = table.counts, table.counts.sum(2)
    seen = mass > 0
    effective = np.where(seen, table.effective_rows, 1.0)
    error = 1.0 - confidence
    if guarantee == "large-sample":
        two = counts.shape[2] == 2
        if two and table.moments is None:
            n, k = np.where(seen, mass, 1.0), counts[:, :, 1]
            low, high = clopper_pearson(k, n, error)
            return np.maximum(high - k / n, 0.0) ** 2, np.maximum(k / n - low, 0.0) ** 2
        variance = _spread(table)[..., 1, 1] if two else 0.25
        return (max(float(ndtri(confidence)), 0.0) ** 2 * variance / effective,) * 2
    cells = 2 * int(seen.any(1).sum())  # of one tuple
    above, below = np.full((2, *mass.shape), 0.25)
    share = 0.0
    if counts.shape[2] == 2 and not table.weighted:
        share = _LIMITS_SHARE
        low, high = rate_intervals(table, 1.0 - share * error / cells, simultaneous=False)
        low, high = np.nan_to_num(low[..., 1]), np.nan_to_num(high[..., 1], nan=1.0)
        above, below = _proxy(low, high), _proxy(1.0 - high, 1.0 - low)
    scale = -2.0 * np.log((1.0 - share) * error) / effective
    return scale * above, scale * below


def _proxy(low: Array, high: Array) -> Array:
    """Largest variance proxy of a Bernoulli variable's lower tail, for a rate in [low, high].

    p (1 − p) for p ≤ 1/2 (tilting downwards lowers the variance), and Kearns and Saul's
    (1 − 2p) / (2 log((1 − p)/p)) beyond, which falls from 1/4 to 0.
    """
    p = np.clip(low, 0.5 + 1e-6, 1.0 - 1e-12)
    beyond = (1.0 - 2.0 * p) / (2.0 * np.log((1.0 - p) / p))
    top = np.where(low <= 0.5 + 1e-6, 0.25, beyond)
    return np.where(high <= 0.5, high * (1.0 - high), top)


def _mean_gap(table: CountTable, random_state: int, shuffled: bool) -> Array:
    """Draws of the gap: of shuffled groups, or of the noise of the rates."""
    rng, draws = np.random.default_rng(random_state), int(np.clip(_CELLS // table.counts.size, 50, _DRAWS))
    total = np.zeros(draws)
    for y, counts in enumerate(table.counts):
        seen, used = counts.sum(1) > 0, counts.sum(0) > 0
        if len(used) == 2 and not shuffled:
            used[:] = True  # a rate of 0 or 1 is uncertain too
        if seen.sum() < 2 or used.sum() < 2:
            continue
        cells = counts[np.ix_(seen, used)]
        if table.moments is not None:
            moments = table.moments[y][np.ix_(seen, used, used)]
            total += _widest(_normal_rates(cells, moments, draws, rng, shuffled))
        elif shuffled:
            drawn = shuffled_tables(cells[None], draws, random_state + y)[:, 0]
            total += _widest(drawn / drawn.sum(-1, keepdims=True))
        else:
            total += _widest_noise(cells, draws, rng)
    return total / (table.counts.sum((1, 2)) > 0).sum()


def _widest_noise(counts: Array, draws: int, rng: np.random.Generator) -> Array:
    r"""Draws of the largest distance between two groups in the noise of their rates.

    k of n rows: the lower Clopper–Pearson limits are quantiles of Beta(k, n − k + 1), the upper
    ones of Beta(k + 1, n − k). Both are ratios of the same gamma variables and of one more each.
    With more than two predictions: Dirichlet(k + 1).
    """
    rates = counts / counts.sum(1, keepdims=True)
    if counts.shape[1] > 2:
        drawn = rng.standard_gamma(counts + 1.0, (draws, *counts.shape))
        return _widest(drawn / drawn.sum(-1, keepdims=True) - rates)
    success, failure = np.moveaxis(rng.standard_gamma(counts[:, ::-1], (draws, *counts.shape)), -1, 0)
    extra, other = rng.standard_exponential((2, *success.shape))
    high = (success + extra) / (success + extra + failure) - rates[:, 1]
    low = success / (success + other + failure) - rates[:, 1]
    return high.max(1) - low.min(1)


def unseen_cells(counts: Array, groups: Mask | None = None) -> Mask:
    """Which cells (y, z) have no rows although their label and their group have some.

    >>> unseen_cells(np.array([[[3.0, 1.0], [2.0, 2.0]], [[1.0, 1.0], [0.0, 0.0]]])).tolist()
    [[False, False], [False, True]]
    """
    seen = counts.sum(2) > 0
    return ~seen & seen.any(1, keepdims=True) & (seen.any(0) if groups is None else groups)


def _widest(rates: Array) -> Array:
    """Largest total variation between two groups of each draw; array (draws, z, u)."""
    if rates.shape[2] == 2:
        return np.ptp(rates[..., 1], axis=1)
    apart = (np.abs(rates[:, k:] - rates[:, :-k]).sum(-1).max(1) for k in range(1, rates.shape[1]))
    return 0.5 * reduce(np.maximum, apart, np.zeros(len(rates)))


def _normal_rates(counts: Array, moments: Array, draws: int, rng: np.random.Generator, shuffled: bool) -> Array:
    """Normal draws of the group means of posteriors, less what they are centred on."""
    mass, k = counts.sum(1), counts.shape[1]
    effective = effective_rows(mass, moments.sum((1, 2)))
    if shuffled:  # every group has the label's covariance
        covariance = _covariance(counts.sum(0), moments.sum(0))[None].repeat(len(counts), 0)
    else:  # and one more row of variance 1/4: a single row does not show that the others are like it
        covariance = np.stack(list(map(_covariance, counts, moments)))
        covariance += (np.eye(k) - 1.0 / k) / (2.0 * effective[:, None, None])
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    normal = rng.normal(size=(draws, *counts.shape))
    noise = np.einsum("zuk,dzk->dzu", root, normal) / np.sqrt(effective)[:, None]
    if shuffled:  # the label's own mean does not move
        noise -= (noise * (mass / mass.sum())[:, None]).sum(1, keepdims=True)
    return noise


def _covariance(counts: Array, moments: Array) -> Array:
    """Covariance of one row's posterior, of weights Σ w q and Σ w² q qᵀ."""
    mean, squares = counts / counts.sum(), moments.sum()
    cross = np.outer(moments.sum(1), mean)
    return (moments - cross - cross.T + squares * np.outer(mean, mean)) / squares


def _spread(table: CountTable) -> Array:
    """Covariance of one row's posterior in each cell (y, z), unbiased."""
    assert table.moments is not None
    out, rows = np.zeros(table.moments.shape), table.effective_rows
    for y, z in np.argwhere(table.weight_squares > 0):
        n = rows[y, z]
        out[y, z] = _covariance(table.counts[y, z], table.moments[y, z]) * n / max(n - 1.0, 0.5)
    return out
