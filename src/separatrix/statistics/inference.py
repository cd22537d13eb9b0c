r"""What a sample says about v: bias, interval and test, valid at and near v = 0 too.

Everything is read off one `CountTable` (its counts and second moments), never off the rows. Write W
for the total weight. The plug-in v̂ behaves like a quadratic form: with H the Hessian of n·v and Σ
the covariance of the counts,

.. math:: 2 W \hat v \;\approx\; \text{mean } 2 W v + 2 W b,
          \quad \text{variance } 4 W \sigma^2(v) + 2\, \mathrm{tr}((HΣ)^2)

where b is the bias and σ² the variance of the pointwise information g. At v = 0 the first-order
term σ² vanishes and the quadratic term rules; far from 0 it is the other way round. A scaled
noncentral χ² with these two moments serves both.

The bias is :math:`\tfrac12 \mathrm{tr}(H Σ)/W` (the delta method), which for hard counts is
Miller–Madow. Posteriors vary less than draws from them, so their Σ and their bias are smaller. In
small cells the series behind the delta method is off by a fifth and more: each cell's ½ is replaced
by the exact excess E[N log N] − λ log λ of a Poisson count with the cell's effective mean.

`paired_change` compares two predictions of the same rows: what both share cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import chndtr, gammainc, gammaincc, gammaincinv, gammaln, ndtri, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, law, violation_gradient
from separatrix.core.numerics import Array, Mask, bisect, quotient

# fitted rows of a cell below which v̂ − bias is not trustworthy (`benchmarks.simulations`)
MIN_FITTED = 5.0
MIN_COUNTED = 1.0  # the same for the upper limit of hard labels, which counts the cells that occur
MOST_EXCESS = 0.56  # what one cell can add to the mean of n v̂ (`_poisson_excess`)


@dataclass(frozen=True)
class Noise:
    """The sampling error of v̂ in one table, and the limits of v that follow from it.

    Args:
        violation: the plug-in v̂ itself.
        ceiling: the largest v of any composition.
        bias: expected excess of the plug-in v̂ over v, in nats.
        null_bias: the same if v were 0; larger where some predictions never occur with some groups.
        seen_bias: the smaller of both, of the cells (y, z, u) that occur alone: a cell that is
            empty in the population has none, and one that is empty here may be such a cell.
        freedom: degrees of freedom of the quadratic form under v = 0; 0 where nothing can vary.
        variance: variance of the pointwise information of one row, σ².
        weight: effective number of rows, (Σ w)² / Σ w².
        fitted: smallest effective number of rows of a cell (y, z, u) if v were 0,
            n_yz P(u | y), over the groups and predictions that occur with the label.
        hard: whether rows are hard labels of weight one.
    """

    violation: float
    ceiling: float
    bias: float
    null_bias: float
    seen_bias: float
    freedom: float
    variance: float
    weight: float
    fitted: float
    hard: bool = True

    @property
    def corrected(self) -> float:
        """v̂ less its bias; may come out slightly negative, which keeps it unbiased."""
        return self.violation - self.bias

    @property
    def varies(self) -> bool:
        """Whether v̂ can vary at all; not so with one prediction or one group in every label."""
        return self.freedom > 0 and self.null_bias > 0

    @property
    def estimable(self) -> bool:
        """Whether every cell is filled well enough for bias, interval and corrected v."""
        return self.varies and self.fitted >= MIN_FITTED

    @property
    def has_upper_limit(self) -> bool:
        """Whether the cells are filled well enough for `upper_limit`: posteriors leave no cell
        empty, so theirs must hold more.
        """
        return self.varies and self.fitted >= (MIN_COUNTED if self.hard else MIN_FITTED)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Asymptotic interval for v by inverting tests; it holds its level at and near v = 0 too.

        The level is split between the two sides so that at v = 0, where no value can lie below, all
        of it guards the lower end: the interval excludes 0 just when the test rejects v = 0.
        Coverage is measured in `benchmarks/simulations/coverage.py`. Do not use it where the cells
        are too small (`estimable` is False): use `bounds.upper_bound` there.
        """
        if not self.varies:
            return 0.0, self.ceiling
        level, cautious = 1.0 - confidence, self._cautious()

        def upper_share(x: float) -> float:  # of the level: 0 at x = 0, half once x is clear of the noise
            clear = (2.0 * self.weight * x) ** 2 / self._moments(x)[1]
            return float(0.5 * level * -np.expm1(-0.5 * clear))

        def inside(x: float) -> bool:
            return cautious.tails(x)[1] > upper_share(x)

        low = self._lower_end(lambda x: level - upper_share(x))
        start = max(self.corrected, 0.0)
        # the share moves with v: step back inside the interval
        while not inside(start) and start > low:
            start = low + (start - low) / 2 if start - low > 1e-15 else low
        return low, max(low, _last(inside, start, self.ceiling)) if inside(start) else start

    def upper_limit(self, confidence: float = 0.95) -> float:
        """Large-sample upper limit of v, one-sided; where `has_upper_limit`.

        The largest v under which a v̂ as low as the observed one has probability 1 − confidence. The
        bias that is subtracted, at every v, is the smallest that the cells can have: of those that
        occur, at v = 0 or at the data. Rows vary with their cells, so the limit is one for the
        population's composition.

        >>> from separatrix.columns.counting import count_labels
        >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
        >>> 0.0 < noise(count_labels(y, u, sensitive_features=z)).upper_limit() < 3e-4
        True
        """
        if not self.varies:
            return self.ceiling
        cautious = self._cautious()
        return _last(lambda x: cautious.tails(x)[1] > 1.0 - confidence, 0.0, self.ceiling)

    def lower_limit(self, confidence: float = 0.95) -> float:
        """Large-sample lower limit of v, one-sided; for well-filled cells (`estimable`).

        The smallest v under which a v̂ as high as the observed one has probability 1 − confidence.
        """
        return self._lower_end(lambda x: 1.0 - confidence) if self.varies else 0.0

    def null_quantile(self, confidence: float = 0.95) -> float:
        """The v̂ that groups with the same rates show at most, with this probability: χ² scaled."""
        half = 0.5 * self.freedom
        return self.null_bias * float(gammaincinv(half, confidence)) / half if self.varies else 0.0

    def tails(self, x: float) -> tuple[float, float]:
        """P(V̂ ≥ v̂) and P(V̂ ≤ v̂) when the true violation is x."""
        mean, variance = self._moments(x)
        observed, d = 2.0 * self.weight * self.violation, self.freedom
        scale = mean / d * (1.0 - np.sqrt(max(1.0 - d * variance / (2.0 * mean**2), 0.0)))
        offset = mean / scale - d if scale > 0 else np.inf  # the variance is below rounding
        if 1e-9 * d < offset < 1e3:  # scale · χ²(d, offset) has this mean and variance
            below = float(chndtr(observed / scale, d, offset))
            return 1.0 - below, below
        # no offset, or so large that a gamma law is as good and stabler
        shape, scale = mean**2 / variance, variance / mean
        return float(gammaincc(shape, observed / scale)), float(gammainc(shape, observed / scale))

    def _moments(self, x: float) -> tuple[float, float]:
        """Mean and variance of 2 n v̂ when the true violation is x."""
        # near 0, σ² is proportional to v (2 v for hard counts); the observed ratio carries over
        ratio = self.variance / (2.0 * self.violation) if self.violation > 0 else 1.0
        estimate = max(self.corrected, 0.0)
        # the bias moves from its value at 0 to that at the estimate
        nearer = min(x / estimate, 1.0) if estimate > 0 else 0.0
        bias = self.null_bias + nearer * (self.bias - self.null_bias)
        quadratic = 2.0 * (2.0 * self.weight * self.null_bias) ** 2 / self.freedom
        return 2.0 * self.weight * (x + bias), 8.0 * self.weight * ratio * x + quadratic

    def _cautious(self) -> Noise:
        """With the smallest bias, so that an upper end never subtracts too much."""
        # v̂ varies, so its mean is not zero
        least = max(min(self.bias, self.null_bias, self.seen_bias), 1e-9 * self.null_bias)
        return replace(self, bias=least, null_bias=least)

    def _lower_end(self, level: Callable[[float], float]) -> float:
        """The smallest v under which a v̂ this high has at least the probability `level(v)`."""

        def below(x: float) -> bool:
            return self.tails(x)[0] < level(x)

        return _last(below, 0.0, self.violation) if below(0.0) else 0.0


def noise(table: CountTable) -> Noise:
    """Bias and spread of the plug-in v̂, for hard, soft and weighted counts alike.

    >>> rng = np.random.default_rng(0)
    >>> from separatrix.columns.counting import count_labels
    >>> rows = [rng.integers(0, 2, (3, 400)) for _ in range(300)]
    >>> draws = [count_labels(y, u, sensitive_features=z) for y, z, u in rows]
    >>> abs(float(np.mean([noise(t).corrected for t in draws]))) < 3e-4    # truth 0, plug-in 0.0025
    True
    """
    counts, squares, weights = table.counts, table.counts, table.weight_squares
    p = law(counts)
    v = np.asarray(conditional_mutual_information(p))
    g = violation_gradient(p) - v  # centred before it is squared
    if table.moments is None:
        variance = (p * g**2).sum()
    else:
        squares = np.diagonal(table.moments, axis1=-2, axis2=-1)
        variance = np.einsum("yzu,yzuw,yzw->", g, table.moments, g) / weights.sum()
    biases = [_biases(counts, squares, weights, v, cells) for cells in (counts >= 0, counts > 0)]
    (null_bias, bias), seen_biases = np.maximum(biases, 0.0).tolist()
    fitted = fitted_rows(table)
    return Noise(
        violation=float(v),
        ceiling=ceiling(table),
        bias=bias,
        null_bias=null_bias,
        seen_bias=min(seen_biases),
        freedom=_freedom(table),
        variance=max(float(variance), 0.0),
        weight=table.effective_size,
        fitted=float(fitted.min()) if fitted.size else 0.0,
        hard=table.moments is None,
    )


def ceiling(table: CountTable) -> float:
    """The largest v of any composition: log of the predictions, or of the groups with rows."""
    groups = int((table.counts.sum((0, 2)) > 0).sum())
    return float(np.log(min(table.counts.shape[2], groups)))


def corrected_utility(table: CountTable) -> float:
    """u less its bias: the v of a table in which the label takes the place of the group."""
    moments = None if table.moments is None else table.moments.sum(1)[None]
    return noise(CountTable.numbered(table.counts.sum(1)[None], moments)).corrected


def corrected_tables(counts: Array, squares: Array) -> tuple[Array, Array]:
    """Bias-corrected (v, u) of many tables of rows of weight one; a little below 0 at times.

    Args:
        counts: (..., y, z, u), leading axes independent.
        squares: Σ q_u² of each cell; the counts themselves for hard labels.

    >>> N = np.random.default_rng(0).multinomial(400, [0.125] * 8, 2_000).reshape(-1, 2, 2, 2)
    >>> v, u = corrected_tables(N.astype(float), N.astype(float))    # truth 0, plug-in 0.0025
    >>> bool(abs(v.mean()) < 1e-4), bool(abs(u.mean()) < 1e-4)
    (True, True)
    """

    def corrected(n: Array, s: Array) -> Array:
        plain = conditional_mutual_information(n)
        return np.asarray(plain - np.maximum(_biases(n, s, n.sum(-1), plain, n >= 0)[1], 0.0))

    # u is the violation of a table in which the label takes the place of the group
    return corrected(counts, squares), corrected(*(x.sum(-2)[..., None, :, :] for x in (counts, squares)))


def fitted_rows(table: CountTable) -> Array:
    """Effective rows n_yz P(u | y) of each cell that groups with the same rates could fill.

    >>> fitted_rows(CountTable(np.array([[[8.0, 2.0], [9.0, 1.0]]]), (0,), (0, 1), (0, 1), 20))
    array([8.5, 1.5, 8.5, 1.5])
    """
    counts = table.counts
    share = quotient(counts.sum(-1, keepdims=True), counts.sum((-2, -1), keepdims=True))
    fitted = share * counts.sum(-2, keepdims=True)
    several = (counts.sum(-1) > 0).sum(-1) > 1  # a label with one group cannot violate separation
    rows = fitted * (counts.sum() / table.weight_squares.sum())  # weights cost rows
    return np.asarray(rows[(fitted > 0) & several[:, None, None]])


def _biases(counts: Array, squares: Array, weights: Array, v: Array, cells: Mask) -> tuple[Array, Array]:
    """Bias of v̂ at v = 0 and at the data, from these cells."""
    null_bias = bias = _bias(counts, squares, weights, np.zeros(()), cells)
    # the cell means are shrunk towards separation by the share of v̂ that is bias
    for _ in range(3):
        bias = _bias(counts, squares, weights, quotient(np.maximum(v - bias, 0.0), v), cells)
    return null_bias, bias


def _bias(counts: Array, squares: Array, weights: Array, signal: Array, cells: Mask) -> Array:
    """Bias of v̂; `signal` 0 is separation, 1 the data.

    Args:
        counts, squares, cells: (..., y, z, u); squares are Σ w² q_u².
        weights: (..., y, z), Σ w².
        signal: (...).
    """
    signal = signal[..., None, None, None]
    share = quotient(counts.sum(-1, keepdims=True), counts.sum((-2, -1), keepdims=True))
    means = signal * counts + (1.0 - signal) * share * counts.sum(-2, keepdims=True)
    spread = signal * squares + (1.0 - signal) * share * squares.sum(-2, keepdims=True)
    excess = (
        np.where(cells, _excess(means, spread), 0.0).sum((-3, -2, -1))
        - _excess(counts.sum(-2), squares.sum(-2)).sum((-2, -1))
        - _excess(counts.sum(-1), weights).sum((-2, -1))
        + _excess(counts.sum((-2, -1)), weights.sum(-1)).sum(-1)
    )
    return np.asarray(excess / counts.sum((-3, -2, -1)))


def _excess(mean: Array, squares: Array) -> Array:
    """E[X log X] − m log m of a sum X of this mean and of these squared weights: a scaled Poisson count."""
    scale = quotient(squares, mean)
    return scale * _poisson_excess(quotient(mean, scale))


def _poisson_excess(mean: Array) -> Array:
    """E[N log N] − λ log λ of a Poisson count: 0 at λ = 0, at most 0.56, ½ + 1/(12 λ) far out."""
    inside = np.interp(np.log(np.clip(mean, 1e-12, 50.0)), *_poisson_grid())
    far = np.maximum(mean, 50.0)
    return np.where(mean > 50.0, 0.5 + (1.0 + 1.0 / far) / (12.0 * far), np.where(mean > 0, inside, 0.0))


@lru_cache(maxsize=1)
def _poisson_grid() -> tuple[Array, Array]:
    mean, count = np.geomspace(1e-12, 51.0, 2_000), np.arange(2, 200)
    probability = np.exp(count * np.log(mean)[:, None] - mean[:, None] - gammaln(count + 1.0))
    value = probability @ xlogy(count, count) - xlogy(mean, mean)
    return np.log(mean), value


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at `low` ceases to hold; `high` where it always does."""
    return high if holds(high) else float(bisect(holds, low, high, 50)[1])


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
        groups, used = (np.maximum((table.counts.sum(axis) > 0).sum(1) - 1, 0) for axis in (2, 1))
        return float((groups * used).sum())
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
        covariance[left <= rounding(table) * np.trace(s, axis1=1, axis2=2)] = 0.0
        a = covariance / np.sqrt(of_label[:, None] * of_label[None, :])
        gram = a.reshape(len(a), -1) @ a.reshape(len(a), -1).T
        odds = groups.sum() / groups - 1.0
        first += (odds * np.trace(a, axis1=1, axis2=2)).sum()
        second += gram.sum() - np.trace(gram) + (odds**2 * np.diagonal(gram)).sum()
    return float(first**2 / second) if second > 0 else 0.0


def rounding(table: CountTable) -> float:
    """Relative error of sums over the rows."""
    return float(np.finfo(np.float64).eps) * min(max(table.rows, 100), 1_000_000)


def paired_change(joint: Array, confidence: float = 0.95) -> tuple[float, tuple[float, float], bool]:
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
    n = float(joint.sum())
    margins = joint.sum(3), joint.sum(2)
    first, second = (noise(CountTable.numbered(counts)) for counts in margins)
    g_a, g_b = map(violation_gradient, margins)
    d = g_a[:, :, :, None] - g_b[:, :, None, :] - (first.violation - second.violation)
    linear = float((joint / n * d**2).sum())
    pooled = joint.sum(1)
    a, b = pooled.sum(2), pooled.sum(1)
    both = quotient(pooled**2, a[:, :, None] * b[:, None, :]).sum((1, 2)) - 1.0
    groups = np.maximum((joint.sum((2, 3)) > 0).sum(1) - 1, 0)
    alone = np.maximum((a > 0).sum(1) - 1, 0) + np.maximum((b > 0).sum(1) - 1, 0)
    left = np.where(pooled.sum((1, 2)) > 0, alone - 2.0 * both, 0.0)
    quadratic = float((groups * np.maximum(left, 0.0)).sum()) / (2.0 * n)
    half = float(ndtri(0.5 * (1.0 + confidence))) * np.sqrt((linear + quadratic) / n)
    change = first.corrected - second.corrected
    return change, (change - half, change + half), first.estimable and second.estimable
