"""The bias of the plug-in v̂ of a table of counts, also where its cells are small."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from separatrix.core.counts import CountTable

__all__ = ["biases", "null_bias"]

Array = NDArray[np.float64]


def null_bias(table: CountTable) -> float:
    """The mean of v̂ if v were 0, in nats.

    >>> counts = np.full((1, 2, 2), 250.0)
    >>> round(null_bias(CountTable(counts, (0,), (0, 1), (0, 1), rows=1_000)), 4)
    0.0005
    """
    return max(_bias(table, 0.0, table.counts >= 0)[0], 0.0)


def biases(table: CountTable, v: float, cells: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Bias of v̂ at v = 0 and at the data, from these cells; the smallest fitted cell."""
    null_bias, fitted = _bias(table, 0.0, cells)
    bias = null_bias
    # the cell means are shrunk towards separation by the share of v̂ that is bias
    for _ in range(3):
        signal = max(v - bias, 0.0) / v if v > 0 else 0.0
        bias, _ = _bias(table, signal, cells)
    return null_bias, bias, fitted


def _bias(table: CountTable, signal: float, cells: NDArray[np.bool_]) -> tuple[float, float]:
    """Bias of v̂ and the smallest fitted cell; `signal` 0 is separation, 1 the data."""
    counts, total = table.counts, table.counts.sum()
    squares = counts  # Σ w² q_u²
    if table.moments is not None:
        squares = np.diagonal(table.moments, axis1=-2, axis2=-1)
    weights = table.weight_squares
    of_label = counts.sum((1, 2), keepdims=True)
    share = _ratio(counts.sum(2, keepdims=True), of_label)
    fitted = share * counts.sum(1, keepdims=True)
    means = signal * counts + (1.0 - signal) * fitted
    spread = signal * squares + (1.0 - signal) * share * squares.sum(1, keepdims=True)
    scale, pooled = _ratio(spread, means), _ratio(squares.sum(1), counts.sum(1))
    bias = (
        _excess(means, scale)[cells].sum()
        - _excess(counts.sum(1), pooled).sum()
        - _excess(counts.sum(2), _ratio(weights, counts.sum(2))).sum()
        + _excess(counts.sum((1, 2)), _ratio(weights.sum(1), counts.sum((1, 2)))).sum()
    ) / total
    several = (counts.sum(2) > 0).sum(1) > 1  # a label with one group cannot violate separation
    support = (fitted > 0) & several[:, None, None]
    rows = fitted * total / weights.sum()  # weights cost effective rows
    return float(bias), float(rows[support].min()) if support.any() else 0.0


def _excess(mean: Array, scale: Array) -> Array:
    """E[X log X] − m log m for X = scale · Poisson(m / scale)."""
    return scale * _poisson_excess(_ratio(mean, scale))


def _ratio(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape)), where=b > 0)


def _poisson_excess(mean: Array) -> Array:
    """E[N log N] − λ log λ of a Poisson count: 0 at λ = 0, at most 0.56, ½ + 1/(12 λ) far out."""
    at, value = _poisson_grid()
    inside = np.interp(np.log(np.clip(mean, 1e-12, 50.0)), at, value)
    far = np.maximum(mean, 50.0)
    beyond = 0.5 + (1.0 + 1.0 / far) / (12.0 * far)
    return np.where(mean > 50.0, beyond, np.where(mean > 0, inside, 0.0))


@lru_cache(maxsize=1)
def _poisson_grid() -> tuple[Array, Array]:
    mean, count = np.geomspace(1e-12, 51.0, 2_000), np.arange(2, 200)
    probability = np.exp(count * np.log(mean)[:, None] - mean[:, None] - gammaln(count + 1.0))
    value = probability @ xlogy(count, count) - xlogy(mean, mean)
    return np.log(mean), value
