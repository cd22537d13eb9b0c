r"""What a sample says about v and u: bias, interval and test, valid at and near v = 0 too.

Everything is read off one `CountTable` (its counts and second moments), never off the rows. Write W
for the total weight. The plug-in v̂ behaves like a quadratic form: with H the Hessian of n·v and Σ
the covariance of the counts,

.. math:: 2 W \hat v \;\approx\; \text{mean } 2 W v + 2 W b,
          \quad \text{variance } 4 W \sigma^2(v) + 2\, \mathrm{tr}((HΣ)^2)

where b is the bias and σ² the variance of the pointwise information g. At v = 0 the first-order
term σ² vanishes and the quadratic term rules; far from 0 it is the other way round. A scaled
noncentral χ² with these two moments serves both.

`paired_change` compares two predictions of the same rows: what both share cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtr, gammainc, gammaincc, gammaincinv, ndtri, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import (
    check_confidence,
    conditional_mutual_information,
    law,
    mutual_information,
    violation_gradient,
)
from separatrix.core.numerics import bisect
from separatrix.statistics.bias import biases

Array = NDArray[np.float64]
# fitted rows of a cell below which v̂ − bias is not trustworthy (`benchmarks.simulations`)
MIN_FITTED = 5.0
MIN_COUNTED = 1.0  # the same for the upper limit of hard labels, which counts the cells that occur
_HALVINGS = 50
_EXACT_ROWS = 1_000_000  # Patefield's algorithm keeps a table of log-factorials of this length


@dataclass(frozen=True)
class Noise:
    """The sampling error of v̂ in one table.

    Args:
        violation: the plug-in v̂ itself.
        bias: expected excess of the plug-in v̂ over v, in nats.
        null_bias: the same if v were 0; larger where some predictions never occur with some groups.
        seen_bias: the smaller of both, of the cells (y, z, u) that occur alone: a cell that is
            empty in the population has none, and one that is empty here may be such a cell.
        freedom: degrees of freedom of the quadratic form under v = 0; 0 where nothing can vary.
        variance: variance of the pointwise information of one row, σ².
        weight: effective number of rows, (Σ w)² / Σ w².
        fitted: smallest effective number of rows of a cell (y, z, u) if v were 0,
            n_yz P(u | y), over the groups and predictions that occur with the label.
    """

    violation: float
    bias: float
    null_bias: float
    seen_bias: float
    freedom: float
    variance: float
    weight: float
    fitted: float

    @property
    def varies(self) -> bool:
        """Whether v̂ can vary at all; not so with one prediction or one group in every label."""
        return self.freedom > 0 and self.null_bias > 0

    @property
    def estimable(self) -> bool:
        """Whether every cell is filled well enough for bias, interval and corrected v."""
        return self.varies and self.fitted >= MIN_FITTED


def noise(table: CountTable) -> Noise:
    r"""Bias and spread of the plug-in v̂, for hard, soft and weighted counts alike.

    The bias is :math:`\tfrac12 \mathrm{tr}(H Σ)/W` (the delta method), which for hard counts is
    Miller–Madow. Posteriors vary less than draws from them, so their Σ and their bias are smaller.
    In small cells the series behind the delta method is off by a fifth and more: each cell's ½ is
    replaced by the exact excess E[N log N] − λ log λ of a Poisson count with the cell's effective
    mean.
    """
    counts, total = table.counts, table.counts.sum()
    p = law(counts)
    v = float(conditional_mutual_information(p))
    null_bias, bias, fitted = biases(table, v, counts >= 0)
    seen_bias = min(biases(table, v, counts > 0)[:2])
    g = violation_gradient(p) - v  # centred before it is squared
    if table.moments is None:
        squares = (p * g**2).sum()
    else:
        squares = np.einsum("yzu,yzuw,yzw->", g, table.moments, g) / table.weight_squares.sum()
    return Noise(
        violation=v,
        bias=max(bias, 0.0),
        null_bias=max(null_bias, 0.0),
        seen_bias=max(seen_bias, 0.0),
        freedom=_freedom(table),
        variance=max(float(squares), 0.0),
        weight=float(total**2 / table.weight_squares.sum()),
        fitted=fitted,
    )


def corrected(table: CountTable, error: Noise | None = None) -> tuple[float, float]:
    """Bias-corrected (v, u); either may come out slightly negative, which keeps it unbiased.

    `error`, here and below, is `noise(table)` where the caller has it already.

    >>> rng = np.random.default_rng(0)
    >>> from separatrix.columns.counting import count_labels
    >>> rows = [rng.integers(0, 2, (3, 400)) for _ in range(300)]
    >>> draws = [count_labels(y, u, sensitive_features=z) for y, z, u in rows]
    >>> abs(float(np.mean([corrected(t)[0] for t in draws]))) < 3e-4    # truth 0, plug-in 0.0025
    True
    """
    error = error or noise(table)
    # u is the violation of a table in which the label takes the place of the group
    counts = table.counts.sum(1)[None]
    moments = None if table.moments is None else table.moments.sum(1)[None]
    merged = CountTable(counts, ("any",), table.labels, table.predictions, table.rows, moments)
    u = float(mutual_information(table.counts)) - noise(merged).bias
    return error.violation - error.bias, u


def ceiling(table: CountTable) -> float:
    """The largest v of any composition: log of the predictions, or of the groups with rows."""
    groups = int((table.counts.sum((0, 2)) > 0).sum())
    return float(np.log(min(table.counts.shape[2], groups)))


def interval(
    table: CountTable, confidence: float = 0.95, error: Noise | None = None
) -> tuple[float, float]:
    """Asymptotic interval for v by inverting tests; it holds its level at and near v = 0 too.

    The level is split between the two sides so that at v = 0, where no value can lie below, all of
    it guards the lower end: the interval excludes 0 just when the test rejects v = 0. Coverage is
    measured in `benchmarks/simulations/coverage.py`. Do not use it where the cells are too small
    (`Noise.estimable` is False): use `bounds.upper_bound` there.
    """
    check_confidence(confidence)
    error = error or noise(table)
    top = ceiling(table)
    if not error.varies:
        return 0.0, top
    level = 1.0 - confidence

    def below(x: float) -> bool:
        return _tails(x, error)[0] < level - _lower_share(x, error, level)

    cautious = _cautious(error)

    def inside(x: float) -> bool:
        return _tails(x, cautious)[1] > _lower_share(x, error, level)

    low = _last(below, 0.0, error.violation) if below(0.0) else 0.0
    start = max(error.violation - error.bias, 0.0)
    # the share moves with v: step back inside the interval
    while not inside(start) and start > low:
        start = low + (start - low) / 2 if start - low > 1e-15 else low
    return low, max(low, _last(inside, start, top)) if inside(start) else start


def upper_limit(table: CountTable, confidence: float = 0.95, error: Noise | None = None) -> float:
    """Large-sample upper limit of v, one-sided; where `has_limit`.

    The largest v under which a v̂ as low as the observed one has probability 1 − confidence. The
    bias that is subtracted, at every v, is the smallest that the cells can have: of those that
    occur, at v = 0 or at the data. Rows vary with their cells, so the limit is one for the
    population's composition.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> 0.0 < upper_limit(t) < 3e-4
    True
    """
    check_confidence(confidence)
    error = error or noise(table)
    top = ceiling(table)
    if not error.varies:
        return top
    cautious = _cautious(error)
    return _last(lambda x: _tails(x, cautious)[1] > 1.0 - confidence, 0.0, top)


def has_limit(table: CountTable, error: Noise) -> bool:
    """Whether the cells are filled well enough for `upper_limit`: posteriors leave no cell empty,
    so theirs must hold more.
    """
    least = MIN_COUNTED if table.moments is None else MIN_FITTED
    return error.varies and error.fitted >= least


def _cautious(error: Noise) -> Noise:
    """With the smallest bias, so that an upper end never subtracts too much."""
    least = min(error.bias, error.null_bias, error.seen_bias)
    least = max(least, 1e-9 * error.null_bias)  # v̂ varies, so its mean is not zero
    return replace(error, bias=least, null_bias=least)


def null_quantile(table: CountTable, confidence: float = 0.95) -> float:
    """The v̂ that groups with the same rates show at most, with this probability: χ² scaled."""
    check_confidence(confidence)
    error = noise(table)
    if not error.varies:
        return 0.0
    half = 0.5 * error.freedom
    return error.null_bias * float(gammaincinv(half, confidence)) / half


def lower_limit(table: CountTable, confidence: float = 0.95, error: Noise | None = None) -> float:
    """Large-sample lower limit of v, one-sided; for well-filled cells (`Noise.estimable`).

    The smallest v under which a v̂ as high as the observed one has probability 1 − confidence.
    """
    check_confidence(confidence)
    error = error or noise(table)

    def below(x: float) -> bool:
        return _tails(x, error)[0] < 1.0 - confidence

    return _last(below, 0.0, error.violation) if error.varies and below(0.0) else 0.0


def p_value(table: CountTable, random_state: int = 0, error: Noise | None = None) -> float:
    """Probability under v = 0 of a v̂ at least this large.

    Hard labels of weight one: Monte Carlo over tables with the observed margins in each label
    (Patefield's algorithm), so exact up to the number of draws and never below 1/(draws + 1).
    Posteriors, weights, and labels with over a million rows: the quadratic form's asymptotic law.
    """
    biggest = table.counts.sum((1, 2)).max()
    if table.moments is not None or biggest > _EXACT_ROWS:
        error = error or noise(table)
        if error.varies:
            return float(_tails(0.0, error)[0])
        # constant posteriors in well-filled cells: a difference above rounding is real
        real = error.fitted >= MIN_FITTED and error.violation > _rounding(table)
        return 1e-300 if real else 1.0
    from scipy.stats import random_table  # importing it takes longer than an audit

    draws = int(np.clip(2_000_000 // table.counts.size, 199, 9_999))  # seconds for large tables
    rng = np.random.default_rng(random_state)
    statistic, observed = np.zeros(draws), 0.0
    for counts in table.counts.astype(np.int64):
        counts = counts[np.ix_(counts.sum(1) > 0, counts.sum(0) > 0)]
        if min(counts.shape) > 1:
            sampled = random_table(counts.sum(1), counts.sum(0)).rvs(
                draws, method="patefield", random_state=rng
            )
            # the other terms of n·v depend on the margins only
            statistic += xlogy(sampled, sampled).sum((1, 2))
            observed += xlogy(counts, counts).sum()
    at_least = (statistic >= observed - 1e-9 * max(abs(observed), 1.0)).sum()
    return float((1 + at_least) / (1 + draws))


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at `low` ceases to hold; `high` where it always does."""
    return high if holds(high) else float(bisect(holds, low, high, _HALVINGS)[1])


def _moments(x: float, error: Noise) -> tuple[float, float]:
    """Mean and variance of 2 n v̂ when the true violation is x."""
    # near 0, σ² is proportional to v (2 v for hard counts); the observed ratio carries over
    ratio = error.variance / (2.0 * error.violation) if error.violation > 0 else 1.0
    estimate = max(error.violation - error.bias, 0.0)
    # the bias moves from its value at 0 to that at the estimate
    nearer = min(x / estimate, 1.0) if estimate > 0 else 0.0
    bias = error.null_bias + nearer * (error.bias - error.null_bias)
    quadratic = 2.0 * (2.0 * error.weight * error.null_bias) ** 2 / error.freedom
    return 2.0 * error.weight * (x + bias), 8.0 * error.weight * ratio * x + quadratic


def _tails(x: float, error: Noise) -> tuple[float, float]:
    """P(V̂ ≥ v̂) and P(V̂ ≤ v̂) when the true violation is x."""
    mean, variance = _moments(x, error)
    observed, d = 2.0 * error.weight * error.violation, error.freedom
    scale = mean / d * (1.0 - np.sqrt(max(1.0 - d * variance / (2.0 * mean**2), 0.0)))
    offset = mean / scale - d if scale > 0 else np.inf  # the variance is below rounding
    if 1e-9 * d < offset < 1e3:  # scale · χ²(d, offset) has this mean and variance
        below = float(chndtr(observed / scale, d, offset))
        return 1.0 - below, below
    # no offset, or so large that a gamma law is as good and stabler
    shape, scale = mean**2 / variance, variance / mean
    return float(gammaincc(shape, observed / scale)), float(gammainc(shape, observed / scale))


def _lower_share(x: float, error: Noise, level: float) -> float:
    """The part of the level for the upper end: 0 at x = 0, half once x is clear of the noise."""
    _, variance = _moments(x, error)
    clear = (2.0 * error.weight * x) ** 2 / variance
    return float(0.5 * level * -np.expm1(-0.5 * clear))


def _freedom(table: CountTable) -> float:
    r"""Degrees of freedom tr(HΣ)² / tr((HΣ)²) under v = 0.

    For hard counts this is Σ_y (groups − 1)(predictions − 1).

    With :math:`A_z = D^{-1/2} C_z D^{-1/2}`, C_z the covariance of group z's counts and D those of
    the whole label,

    .. math:: \mathrm{tr}(HΣ) = \sum_z (1/π_z - 1)\, \mathrm{tr} A_z, \quad
              \mathrm{tr}((HΣ)^2) = \sum_z (1/π_z - 1)^2 \|A_z\|^2
              + \sum_{z \ne z'} \langle A_z, A_{z'} \rangle
    """
    if table.moments is None:
        groups, used = ((table.counts.sum(axis) > 0).sum(1) for axis in (2, 1))
        return float((np.maximum(groups - 1, 0) * np.maximum(used - 1, 0)).sum())
    first = second = 0.0
    for counts, moments in zip(table.counts, table.moments, strict=True):
        seen, used = counts.sum(1) > 0, counts.sum(0) > 0
        if seen.sum() < 2 or used.sum() < 2:
            continue
        groups, of_label = counts[seen].sum(1), counts.sum(0)[used]
        s = moments[seen][:, used][:, :, used]
        mean = counts[seen][:, used] / groups[:, None]
        cross = s.sum(2)[:, :, None] * mean[:, None, :]
        covariance = s - cross - cross.swapaxes(1, 2)
        covariance += s.sum((1, 2))[:, None, None] * mean[:, :, None] * mean[:, None, :]
        # what the sums have left of a constant is rounding, not variation
        left = np.trace(covariance, axis1=1, axis2=2)
        covariance[left <= _rounding(table) * np.trace(s, axis1=1, axis2=2)] = 0.0
        a = covariance / np.sqrt(of_label[:, None] * of_label[None, :])
        flat = a.reshape(len(a), -1)
        gram = flat @ flat.T
        odds = groups.sum() / groups - 1.0
        first += (odds * np.trace(a, axis1=1, axis2=2)).sum()
        second += gram.sum() - np.trace(gram) + (odds**2 * np.diagonal(gram)).sum()
    return float(first**2 / second) if second > 0 else 0.0


def _rounding(table: CountTable) -> float:
    """Relative error of sums over the rows."""
    return float(np.finfo(np.float64).eps) * min(max(table.rows, 100), 1_000_000)


def paired_change(
    joint: Array, confidence: float = 0.95
) -> tuple[float, tuple[float, float], bool]:
    r"""v_a − v_b less its bias, its large-sample interval, and whether the cells allow one.

    With g the pointwise information of each prediction, the variance of the change is

    .. math:: \frac{\mathrm{Var}(g_a - g_b)}{n} + \frac{1}{2 n^2} \sum_y (K_Z - 1)
              \bigl[(K_a - 1) + (K_b - 1) - 2 φ_y^2\bigr],
              \quad φ_y^2 = \sum_{ab} \frac{p(a, b \mid y)^2}{p(a \mid y)\, p(b \mid y)} - 1

    The second term rules at v = 0. It falls to zero as the predictions become the same.

    Args:
        joint: rows of weight one with label y, group z and the predictions a and b, (y, z, a, b).
        confidence: of the interval.
    """
    check_confidence(confidence)
    n = float(joint.sum())
    margins = joint.sum(3), joint.sum(2)
    noises = [noise(_table(counts)) for counts in margins]
    known = all(one.estimable for one in noises)
    first, second = (one.violation - one.bias for one in noises)
    g_a, g_b = (violation_gradient(counts) for counts in margins)
    d = g_a[:, :, :, None] - g_b[:, :, None, :]
    d = d - (noises[0].violation - noises[1].violation)
    linear = float((joint / n * d**2).sum())
    pooled = joint.sum(1)
    a, b = pooled.sum(2), pooled.sum(1)
    outer = a[:, :, None] * b[:, None, :]
    both = np.divide(pooled**2, outer, out=np.zeros_like(pooled), where=outer > 0).sum((1, 2)) - 1.0
    groups = np.maximum((joint.sum((2, 3)) > 0).sum(1) - 1, 0)
    alone = np.maximum((a > 0).sum(1) - 1, 0) + np.maximum((b > 0).sum(1) - 1, 0)
    left = np.where(pooled.sum((1, 2)) > 0, alone - 2.0 * both, 0.0)
    quadratic = float((groups * np.maximum(left, 0.0)).sum()) / (2.0 * n)
    half = float(ndtri(0.5 * (1.0 + confidence))) * np.sqrt((linear + quadratic) / n)
    change = first - second
    return change, (change - half, change + half), known


def _table(counts: Array) -> CountTable:
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts, y, z, u, rows=round(float(counts.sum())))
