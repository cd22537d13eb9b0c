r"""What unseen rows will show: estimate, standard error and range, from the tables of outer folds.

Fold k has a procedure of its own and measures it on its test rows: a table N_k[y, z, u] of expected
decisions. Pooled, N = Σ N_k, the rates r = N / n have a sampling error that is drawn anew:
r* = r + error, and the cells' sizes too.

Accuracy, cost and AUROC are linear: the estimate is the mean of m(N_k). Gaps and information grow
with noise, by β = E m(N*) − m(N). How much of it the population will show depends on the procedure:

- A rule that is not fitted to the groups has fixed rates. The pooled rates are these and a noise
  that the population does not have: the estimate is m(N) − β (1 − exp(−m(N) / β)), which is m(N) −
  β where that is far from 0, and never negative.
- A rule that is fitted to make groups alike has the noise of its fit. The noise of fold k and of
  the rows that its rule was fitted to cancel in the pooled rates, to first order, but one rule
  ships and its noise stays: the estimate is m(N) + β.

The folds tell which: the groups' rates vary between folds by their sampling error in the first case
and by (F / (F − 1))² of that in the second. t between 0 and 1 says where the procedure stands. It
is pulled towards ½, since few folds tell little, and the estimate is m(N) + (2t − 1) β. In both
cases the spread of m(N*) is the standard error, and its quantiles, read forwards or backwards, are
the range. A score is not pooled, since its levels differ between folds: of the mean of m(N_k) the
noise of the test rows is taken off, which is independent of that of the fit.

A linear metric has the sampling error of its mean, and what the procedure of one fold differs from
another's beyond that, τ, since one such procedure ships: error² = Var(m̄*) + τ² (1 + 1/F).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from separatrix.core.information import eo_gap
from separatrix.core.measures import METRICS
from separatrix.core.numerics import Array, quotient
from separatrix.core.score_tables import IN_BINS

Measure = Callable[[Array], Array]
_DRAWS = 400
_WIDER = 1.2  # the spread of draws around rates that are estimates themselves; see the simulations
_TAIL = 0.0125  # on each side of the range of a gap
_RANGE = 2.2  # standard errors of a linear metric: τ is known from few folds
_PRIOR = 0.25  # variance of t before the folds are seen: 0 or 1, equally likely


class Promise(NamedTuple):
    """What rows that no part of a model saw are expected to show of one metric.

    Args:
        value: the estimate; of a gap or an information without the bias of noisy rates.
        error: its standard error.
        low, high: a range that covers 95 %.

    >>> promise = Promise.normal(0.03, 0.02).within("eo_gap")
    >>> promise.value, promise.low, round(promise.high, 3)
    (0.03, 0.0, 0.069)
    """

    value: float
    error: float
    low: float
    high: float

    @classmethod
    def normal(cls, value: float, error: float) -> Promise:
        """With the range of a normal law."""
        return cls(value, error, value - 1.96 * error, value + 1.96 * error)

    def within(self, metric: str) -> Promise:
        """The same, its range cut to what the metric can be."""
        unit = METRICS[metric].unit if metric in METRICS else ""
        low = self.low if unit == "cost" else max(self.low, 0.0)
        return self._replace(low=low, high=self.high if unit else min(self.high, 1.0))

    def with_expected(self, expected: float) -> Promise:
        """The mean of this estimate and of the one that resamples gave of the same rule.

        Both are noisy, in different ways, and their mean is nearer to the truth than each.
        """
        if not np.isfinite(expected):
            return self
        value = 0.5 * (self.value + expected)
        # the range of the folds alone may lie below what resamples expect
        high = max(self.high, value + 2.0 * self.error)
        return Promise(value, self.error, min(self.low, value), high)

    def complement(self) -> Promise:
        """Of 1 − the metric."""
        return Promise(1.0 - self.value, self.error, 1.0 - self.high, 1.0 - self.low)

    def upper(self, confidence: float) -> float:
        """What the metric exceeds with probability 1 − confidence, by a normal approximation."""
        return self.value + float(ndtri(confidence)) * self.error

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.2g}"


def unseen(
    tables: Array, squares: Array, measures: Mapping[str, Measure], random_state: int = 0, *, fixed: bool = False
) -> dict[str, Promise]:
    """Estimate and standard error of each metric on rows that no part of the procedure saw.

    Args:
        tables: expected counts N[y, z, u] of each fold's test rows, (F, y, z, u).
        squares: sums of the squared probabilities of the same rows, as `tables`: Σ q²; or
            (F, y, z, u, u), Σ q qᵀ, where a row has several u that are neighbours: a score.
        measures: functions of tables (..., y, z, u), by name. Gaps and informations are corrected
            as said above, all others are taken to be linear.
        random_state: seed of the draws.
        fixed: whether the procedure is known not to be fitted to the groups; else the folds tell.

    >>> table = np.array([[[[80.0, 20.0], [75.0, 25.0]], [[30.0, 70.0], [35.0, 65.0]]]] * 5)
    >>> share = {"yes": lambda N: N[..., 1].sum((-1, -2)) / N.sum((-1, -2, -3))}
    >>> unseen(table, table, share)["yes"].value
    0.45
    """
    rng = np.random.default_rng(random_state)
    is_score = squares.ndim > tables.ndim
    folds = _Noise(tables, squares, rng)
    noise = folds if is_score else _Noise(tables.sum(0)[None], squares.sum(0)[None], rng)
    fitted = 0.0 if is_score or fixed else _fitted(tables, squares)
    drawn, of_folds = noise.drawn(1.0), folds.drawn(1.0)
    promises = {}
    for name, measure in measures.items():
        with np.errstate(invalid="ignore"):  # a draw without a label has no AUROC
            entry = METRICS.get(name)  # noise adds to an information, and to a distance between groups
            if entry is None or not (entry.nats or (entry.criterion and entry.lower_is_better)):
                promises[name] = _linear(measure(tables), measure(of_folds), cautious=is_score)
                continue
            if is_score:
                promises[name] = _of_score(folds, measure, entry.nats)
                continue
            seen, again = float(measure(noise.tables).mean()), measure(drawn).mean(1)
        growth = noise.violation(measure) if name == "violation" else float(again.mean()) - seen
        promises[name] = _noisy(seen, max(growth, 0.0), again - again.mean(), fitted)
    if "impact_gap" in promises:
        promises["impact_ratio"] = promises["impact_gap"].complement()
    return promises


def noise_floor(tables: Array, squares: Array, random_state: int = 0) -> float:
    """The EO gap that as many rows show on average where the groups' rates are the same.

    Args:
        tables, squares: as in `unseen`; the folds are put together.
    """
    measure = IN_BINS["eo_gap"] if tables.shape[-1] > tables.shape[-3] else eo_gap
    noise = _Noise(tables.sum(0)[None], squares.sum(0)[None], np.random.default_rng(random_state))
    return float(measure(noise.drawn(0.0)).mean())


class _Noise:
    """Tables with their sampling error drawn anew; the same draws at every scale."""

    def __init__(self, tables: Array, squares: Array, rng: np.random.Generator) -> None:
        self.tables = tables
        rows = tables.sum(-1, keepdims=True)
        known = np.where(rows > 0, rows, 1.0)
        self.rates = tables / known
        mean = tables.sum(-2, keepdims=True) / np.maximum(tables.sum((-1, -2), keepdims=True), 1e-9)
        self.mean, self.cells = np.where(rows > 0, mean, self.rates), rows[..., 0]
        normal = rng.standard_normal((_DRAWS, *tables.shape))
        self.covariance: Array | None = None
        if squares.ndim > tables.ndim:
            self.covariance = _covariance(tables, squares)
            values, vectors = np.linalg.eigh(self.covariance)
            factor = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
            self.disturbance = (factor @ np.moveaxis(normal, 0, -1)).transpose(-1, *range(tables.ndim))
        else:
            if tables.shape[-1] == 2:  # one rate, one error
                normal[..., 0] = -normal[..., 1]
            variance = np.clip(squares / known - self.rates**2, 0.0, None)
            # a rate of 0 or 1 is uncertain too: by half a row
            error = np.sqrt(np.maximum(variance, 0.5 / known) / known) * (rows > 0)
            self.disturbance = error * normal
        folds = [rng.multinomial(round(fold.sum()), fold.ravel() / fold.sum(), size=_DRAWS) for fold in rows]
        self.rows = np.stack(folds, axis=1).reshape(_DRAWS, *rows.shape).astype(np.float64)

    def drawn(self, scale: float) -> Array:
        """Tables (draws, F, y, z, u); the groups' deviations from their mean are scaled first."""
        rates = np.clip(self.mean + scale * (self.rates - self.mean) + self.disturbance, 0.0, 1.0)
        total = rates.sum(-1, keepdims=True)
        return np.asarray(self.rows * rates / np.where(total > 0, total, 1.0))

    def violation(self, measure: Measure) -> float:
        r"""The mean violation of groups that are alike.

        With the covariances C_yz of the rates it is known to second order, and needs no draws,
        which many small rates would have to be clipped for:
        :math:`\tfrac12 \sum_{yz} p_{yz} (1 - p_{z|y}) \sum_u C_{yz}(u, u) / r_y(u)`.
        """
        if self.covariance is None:
            return float(measure(self.drawn(0.0)).mean())
        share = self.cells / self.cells.sum((-1, -2), keepdims=True)
        within = self.cells / np.maximum(self.cells.sum(-1, keepdims=True), 1.0)
        variance = np.diagonal(self.covariance, axis1=-2, axis2=-1)
        ratio = quotient(variance, self.mean).sum(-1)
        return float(0.5 * (share * (1.0 - within) * ratio).sum((-1, -2)).mean())


def _covariance(tables: Array, moments: Array) -> Array:
    """Of the rates of each cell, (..., u, u), by n rows and one that has the label's mean."""
    rows = tables.sum(-1)[..., None, None]
    known = np.where(rows > 0, rows, 1.0)
    products = moments - tables[..., :, None] * tables[..., None, :] / known
    free = np.maximum(rows - 1.0, 0.0).sum(-3, keepdims=True)
    mean = products.sum(-3, keepdims=True) / np.maximum(free, 1.0)
    return np.asarray((products + mean) / known**2 * (rows > 0))


def _fitted(tables: Array, squares: Array) -> float:
    """t: 0 for a procedure with fixed rates, 1 for one that is fitted to make the groups alike."""
    folds = len(tables)
    if folds < 2:
        return 0.0
    rows = tables.sum(-1, keepdims=True)
    known = np.maximum(rows, 1e-9)
    total = np.maximum(rows.sum(0), 1e-9)
    variance = np.maximum((squares - tables**2 / known).sum(0) / total, 0.5 / total)
    # against the fold's mean of the label: that the operating point moves says nothing of groups
    share = rows / np.maximum(rows.sum(-2, keepdims=True), 1e-9)
    apart = tables / known
    apart = apart - (share * apart).sum(-2, keepdims=True)
    moved = (rows * (apart - (rows * apart).sum(0) / total) ** 2).sum(0) / variance
    free = ((folds - 1.0) * (1.0 - share.mean(0)) * np.ones_like(moved)).sum()
    if free <= 0:
        return 0.0  # one group
    top = (folds / (folds - 1.0)) ** 2 - 1.0
    estimate = (moved.sum() / free - 1.0) / top
    # the labels that one row may get depend on each other: they count as one
    error = 2.0 / ((folds - 1.0) * tables.shape[1] * (tables.shape[2] - 1.0)) / top**2
    return float(np.clip(0.5 + _PRIOR / (_PRIOR + error) * (estimate - 0.5), 0.0, 1.0))


def _noisy(seen: float, growth: float, deviations: Array, fitted: float) -> Promise:
    """A metric that grows with noise: m(N) + (2t − 1) β."""
    # what is taken off never reaches what was seen: rates that differ have no gap of zero
    change = growth if fitted > 0.5 or growth <= 0.0 else -growth * np.expm1(-seen / growth)
    value = float(seen + (2.0 * fitted - 1.0) * change)
    unsure = (1.0 - abs(2.0 * fitted - 1.0)) * growth
    error = float(np.hypot(deviations.std(), unsure))
    down, up = _WIDER * np.quantile(deviations, [_TAIL, 1.0 - _TAIL])
    ends = [value]
    if fitted < 1.0:  # the population is the rows less their noise
        ends += [seen - growth - up, seen - growth - down, seen]
    if fitted > 0.0:  # the population is the rows and a noise more
        ends += [seen + growth + down, seen + growth + up]
    return Promise(value, error, max(float(min(ends)), 0.0), float(max(ends)))


def _of_score(noise: _Noise, measure: Measure, nats: bool) -> Promise:
    """The mean over folds of a metric that grows with noise, without the noise of the test rows.

    The noise is taken off a gap by the curve of what ρ times the groups' differences would show.
    """
    seen, again = measure(noise.tables), measure(noise.drawn(1.0))
    mean = _linear(seen, again, cautious=True)
    if nats:
        value, error = max(mean.value - noise.violation(measure), 0.0), mean.error
    else:
        scale = np.linspace(0.0, 1.0, 9)
        shown = np.maximum.accumulate([float(measure(noise.drawn(s)).mean()) for s in scale])

        def without(gap: float) -> float:
            return float(np.interp(gap, shown, scale * mean.value)) + max(gap - shown[-1], 0.0)

        value = without(mean.value)
        # the curve is flat at ρ = 0: a gap below all of it speaks for none as much as its foot
        above = without(max(mean.value, float(shown[0])) + mean.error) - value
        error = max(above, value - without(mean.value - mean.error), mean.error)
    return Promise(value, error, max(value - _RANGE * error, 0.0), value + _RANGE * error)


def _linear(seen: Array, again: Array, *, cautious: bool) -> Promise:
    """A metric whose mean over folds is what unseen rows show.

    Few folds show a spread by chance: what one standard error of it explains is no difference.
    A cautious reading takes the spread as it is, and wider by Student's law.
    """
    folds = len(seen)
    again = again[np.isfinite(again).all(1)]
    sampling = float(again.mean(1).var())
    between = float(seen.var(ddof=1)) if folds > 1 else 0.0
    chance = 1.0 if cautious else 1.0 + np.sqrt(2.0 / max(folds - 1.0, 1.0))
    wider = (folds - 1.0) / max(folds - 3.0, 1.0) if cautious else 1.0
    excess = max(between - chance * float(again.var(0).mean()), 0.0) * wider
    value, error = float(seen.mean()), float(np.sqrt(sampling + excess * (1.0 + 1.0 / folds)))
    return Promise(value, error, value - _RANGE * error, value + _RANGE * error)
