r"""What unseen rows will show: an estimate and its standard error, from the tables of outer folds.

Fold k has a procedure of its own and measures it on its test rows: a table N_k[y, z, u] of expected
decisions. The rates r_k = N_k / n_k have a sampling error, which is drawn anew: r* = r + error, and
the cells' sizes too. For a metric m(N) and F folds let m̄ be the mean of m(N_k).

- The estimate of accuracy, cost and AUROC is m̄. The utility, and what of independence and
  sufficiency the tables show, grows with noise by as much as a second helping of the same noise
  adds: 2 m̄ − E m(N*). The violation loses what groups that are alike would show with this noise
  (`_Noise.violation`). The largest gap of noisy rates is far above that of the true ones; it is
  taken to be ρ times what was seen, with the ρ for which the seen deviations, shrunk by ρ and then
  disturbed by the error, show m̄ on average.
- The error has two parts: the test rows' sampling error of m̄, and what the procedure of one fold
  differs from another's beyond that, τ, since one such procedure ships:
  :math:`\text{error}^2 = \operatorname{Var}(\bar m^*) + τ^2 (1 + 1/F) (F - 1) / (F - 3)`, the last
  factor since τ is estimated from F values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import eo_gap
from separatrix.core.ordered import largest_gap

__all__ = ["Estimate", "noise_floor", "unseen"]

Array = NDArray[np.float64]
Measure = Callable[[Array], Array]
_DRAWS = 200
GAPS = ("eo_gap", "gap", "tpr_gap")  # 0 where groups have the same rates given the label
TWICE = ("utility", "independence", "sufficiency", "parity_gap", "predictive_gap")


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.2g}"


def unseen(
    tables: Array,
    squares: Array,
    measures: Mapping[str, Measure],
    random_state: int = 0,
) -> dict[str, Estimate]:
    """Estimate and standard error of each metric on rows that no part of the procedure saw.

    Args:
        tables: expected counts N[y, z, u] of each fold's test rows, (F, y, z, u).
        squares: sums of the squared probabilities of the same rows, as `tables`: Σ q²; or
            (F, y, z, u, u), Σ q qᵀ, where a row has several u that are neighbours: a score.
        measures: functions of tables (..., y, z, u), by name. Those in `GAPS` are corrected as
            gaps, "violation" and those in `TWICE` as said above, all others are taken to be linear.
        random_state: seed of the draws.

    >>> table = np.array([[[[80.0, 20.0], [75.0, 25.0]], [[30.0, 70.0], [35.0, 65.0]]]] * 5)
    >>> share = {"yes": lambda N: N[..., 1].sum((-1, -2)) / N.sum((-1, -2, -3))}
    >>> unseen(table, table, share)["yes"].value
    0.45
    """
    noise = _Noise(tables, squares, np.random.default_rng(random_state))
    drawn = noise.drawn(1.0)
    found = {}
    for name, measure in measures.items():
        with np.errstate(invalid="ignore"):  # a draw without a label has no AUROC
            seen, again = measure(tables), measure(drawn)
        value, error = float(seen.mean()), _error(seen, again)
        if name in GAPS:
            value, error = _undisturbed(noise, measure, value, error)
        elif name == "violation":
            value = max(value - noise.violation(measure), 0.0)
        elif name in TWICE:
            value = max(2.0 * value - float(again.mean()), 0.0)
        found[name] = Estimate(value, error)
    return found


def noise_floor(tables: Array, squares: Array, random_state: int = 0) -> float:
    """The EO gap that as many rows show on average where the groups' rates are the same.

    Args:
        tables, squares: as in `unseen`; the folds are put together.
    """
    whole = tables.sum(0, keepdims=True), squares.sum(0, keepdims=True)
    measure = largest_gap if tables.shape[-1] > tables.shape[-3] else eo_gap
    noise = _Noise(*whole, np.random.default_rng(random_state))
    return float(measure(noise.drawn(0.0)).mean())


class _Noise:
    """Tables with their sampling error drawn anew; the same draws at every scale."""

    def __init__(self, tables: Array, squares: Array, rng: np.random.Generator) -> None:
        rows = tables.sum(-1, keepdims=True)
        known = np.where(rows > 0, rows, 1.0)
        self.rates = tables / known
        mean = tables.sum(-2, keepdims=True) / np.maximum(tables.sum((-1, -2), keepdims=True), 1e-9)
        self.mean = np.where(rows > 0, mean, self.rates)
        self.cells = rows[..., 0]
        normal = rng.standard_normal((_DRAWS, *tables.shape))
        self.covariance: Array | None = None
        if squares.ndim > tables.ndim:
            self.covariance = _covariance(tables, squares)
            self.disturbance = _correlated(normal, self.covariance)
        else:
            if tables.shape[-1] == 2:  # one rate, one error
                normal[..., 0] = -normal[..., 1]
            variance = np.clip(squares / known - self.rates**2, 0.0, None)
            # a rate of 0 or 1 is uncertain too: by half a row
            error = np.sqrt(np.maximum(variance, 0.5 / known) / known) * (rows > 0)
            self.disturbance = error * normal
        folds = rows.reshape(len(rows), -1)
        total = folds.sum(1)
        sizes = np.stack(
            [
                rng.multinomial(round(n), cell / n, size=_DRAWS)
                for n, cell in zip(total, folds, strict=True)
            ],
            axis=1,
        )
        self.rows = sizes.reshape(_DRAWS, *rows.shape).astype(np.float64)

    def drawn(self, scale: float) -> Array:
        """Tables (draws, F, y, z, u); the groups' deviations from their mean are scaled first."""
        rates = self.mean + scale * (self.rates - self.mean) + self.disturbance
        rates = np.clip(rates, 0.0, 1.0)
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
        ratio = np.divide(variance, self.mean, out=np.zeros_like(variance), where=self.mean > 0)
        return float(0.5 * (share * (1.0 - within) * ratio.sum(-1)).sum((-1, -2)).mean())


def _covariance(tables: Array, moments: Array) -> Array:
    """Of the rates of each cell, (..., u, u), by n rows and one that has the label's mean."""
    rows = tables.sum(-1)[..., None, None]
    known = np.where(rows > 0, rows, 1.0)
    products = moments - tables[..., :, None] * tables[..., None, :] / known
    free = np.maximum(rows - 1.0, 0.0).sum(-3, keepdims=True)
    mean = products.sum(-3, keepdims=True) / np.maximum(free, 1.0)
    return np.asarray((products + mean) / known**2 * (rows > 0))


def _correlated(normal: Array, covariance: Array) -> Array:
    """Draws (draws, ..., u) with these covariances, from independent ones."""
    values, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray((factor @ np.moveaxis(normal, 0, -1)).transpose(-1, *range(normal.ndim - 1)))


def _undisturbed(noise: _Noise, measure: Measure, mean: float, error: float) -> tuple[float, float]:
    """The mean gap with the disturbance taken out, and its error, both read off one curve.

    The curve is ρ ↦ the mean disturbed gap, which rises; the gap without disturbance is ρ times
    what the tables show.
    """
    scale = np.linspace(0.0, 1.0, 9)
    shown = np.maximum.accumulate([float(measure(noise.drawn(s)).mean()) for s in scale])

    def without(gap: float) -> float:
        return float(np.interp(gap, shown, scale * mean)) + max(gap - float(shown[-1]), 0.0)

    value = without(mean)
    # the curve is flat at ρ = 0: a mean gap below all of it speaks for no gap as much as its foot
    above = without(max(mean, float(shown[0])) + error) - value
    return value, max(above, value - without(mean - error), error)


def _error(seen: Array, again: Array) -> float:
    """Sampling error of the mean over folds, and the spread of the procedures."""
    folds = len(seen)
    again = again[np.isfinite(again).all(1)]
    sampling = float(again.mean(1).var())
    between = float(seen.var(ddof=1)) if folds > 1 else 0.0
    excess = max(between - float(again.var(0).mean()), 0.0)
    wide = (folds - 1.0) / (folds - 3.0) if folds > 3 else 2.0  # τ is known from few folds: Student
    return float(np.sqrt(sampling + excess * (1.0 + 1.0 / folds) * wide))
