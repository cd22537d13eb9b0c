"""The bias of the plug-in v̂ of a table of counts, also where its cells are small."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information

Array = NDArray[np.float64]
MOST_EXCESS = 0.56  # what one cell can add to the mean of n v̂ (`_poisson_excess`)


def null_bias(table: CountTable) -> float:
    """The mean of v̂ if v were 0, in nats.

    >>> counts = np.full((1, 2, 2), 250.0)
    >>> round(null_bias(CountTable(counts, (0,), (0, 1), (0, 1), rows=1_000)), 4)
    0.0005
    """
    bias = _bias(table.counts, *_squares(table), np.zeros(()), table.counts >= 0)[0]
    return max(float(bias), 0.0)


def biases(table: CountTable, v: float, cells: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Bias of v̂ at v = 0 and at the data, from these cells; the smallest fitted cell."""
    found = _at_the_data(table.counts, *_squares(table), np.asarray(v), cells)
    null_bias, bias, fitted = map(float, found)
    return null_bias, bias, fitted


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
    found = []
    # u is the violation of a table in which the label takes the place of the group
    merged = [x.sum(-2)[..., None, :, :] for x in (counts, squares)]
    for n, s in ((counts, squares), merged):
        plain = conditional_mutual_information(n)
        bias = _at_the_data(n, s, n.sum(-1), plain, n >= 0)[1]
        found.append(plain - np.maximum(bias, 0.0))
    return found[0], found[1]


def _squares(table: CountTable) -> tuple[Array, Array]:
    """Σ w² q_u² of each cell (y, z, u), and Σ w² of each cell (y, z)."""
    if table.moments is None:
        return table.counts, table.weight_squares
    return np.diagonal(table.moments, axis1=-2, axis2=-1), table.weight_squares


def _at_the_data(
    counts: Array, squares: Array, weights: Array, v: Array, cells: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    null_bias, fitted = _bias(counts, squares, weights, np.zeros(()), cells)
    bias = null_bias
    # the cell means are shrunk towards separation by the share of v̂ that is bias
    for _ in range(3):
        signal = _ratio(np.maximum(v - bias, 0.0), v)
        bias, _ = _bias(counts, squares, weights, signal, cells)
    return null_bias, bias, fitted


def _bias(
    counts: Array, squares: Array, weights: Array, signal: Array, cells: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Bias of v̂ and the smallest fitted cell; `signal` 0 is separation, 1 the data.

    Args:
        counts, squares, cells: (..., y, z, u); squares are Σ w² q_u².
        weights: (..., y, z), Σ w².
        signal: (...).
    """
    total, part = counts.sum((-3, -2, -1)), signal[..., None, None, None]
    of_label = counts.sum((-2, -1), keepdims=True)
    share = _ratio(counts.sum(-1, keepdims=True), of_label)
    fitted = share * counts.sum(-2, keepdims=True)
    means = part * counts + (1.0 - part) * fitted
    spread = part * squares + (1.0 - part) * share * squares.sum(-2, keepdims=True)
    scale, pooled = _ratio(spread, means), _ratio(squares.sum(-2), counts.sum(-2))
    bias = (
        np.where(cells, _excess(means, scale), 0.0).sum((-3, -2, -1))
        - _excess(counts.sum(-2), pooled).sum((-2, -1))
        - _excess(counts.sum(-1), _ratio(weights, counts.sum(-1))).sum((-2, -1))
        + _excess(counts.sum((-2, -1)), _ratio(weights.sum(-1), counts.sum((-2, -1)))).sum(-1)
    ) / total
    least = _supported(counts, weights).min((-3, -2, -1))
    return bias, np.where(np.isfinite(least), least, 0.0)


def fitted_rows(table: CountTable) -> Array:
    """Effective rows n_yz P(u | y) of each cell that groups with the same rates could fill.

    >>> fitted_rows(CountTable(np.array([[[8.0, 2.0], [9.0, 1.0]]]), (0,), (0, 1), (0, 1), 20))
    array([8.5, 1.5, 8.5, 1.5])
    """
    rows = _supported(table.counts, table.weight_squares)
    return np.asarray(rows[np.isfinite(rows)])


def _supported(counts: Array, weights: Array) -> Array:
    """The same (..., y, z, u); infinite where a cell cannot be filled."""
    share = _ratio(counts.sum(-1, keepdims=True), counts.sum((-2, -1), keepdims=True))
    fitted = share * counts.sum(-2, keepdims=True)
    several = (counts.sum(-1) > 0).sum(-1) > 1  # a label with one group cannot violate separation
    effective = counts.sum((-3, -2, -1)) / weights.sum((-2, -1))  # weights cost rows
    rows = fitted * effective[..., None, None, None]
    return np.where((fitted > 0) & several[..., None, None], rows, np.inf)


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
