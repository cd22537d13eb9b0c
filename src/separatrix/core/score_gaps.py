r"""Metrics of a score over all its thresholds: the largest equalized-odds gap, and the AUROC.

The largest gap is exact, from a `ScoreTable`.

With :math:`R_{yz}(t) = P(S > t \mid y, z)` the gap of the decision :math:`1\{S > t\}` is

.. math:: g(t) = \frac{1}{2} \sum_y \max_{z, z'} \bigl( R_{yz}(t) - R_{yz'}(t) \bigr)

for two labels, the same number as `information.eo_gap` of that decision.

Of a score whose levels are in order there are also tables N[y, z, level]. With the pooled rates R_y
of the levels,

.. math:: \mathrm{AUROC} = \sum_i R_{1i} \Bigl(\sum_{l<i} R_{0l} + \tfrac12 R_{0i}\Bigr).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import conditional_mutual_information
from separatrix.core.score_tables import Binned, ScoreTable

Array = NDArray[np.float64]
BINS = 20  # of the levels of a score
_ROWS, _BINS = 2_048, 4_096  # entries in a coarse bin, and the most bins


def largest_gap(
    table: ScoreTable, radius: Array | None = None, *, inside: bool = False, clipped: bool = True
) -> tuple[float, float]:
    r"""The largest gap over all thresholds and the threshold where it is.

    All rates fall with the threshold. Inside a quantile bin with the rates R at its lower and R' at
    its upper end, the gap is therefore at most the spread of (R, R'). Bins are opened in the order
    of this bound until none can hold a larger gap, so few rows are looked at, and the maximum is
    exact.

    Args:
        radius: (y, z); replaces R by R ± radius: the largest gap that rates within this distance
            can have at some threshold. A cell without rows then has any rate, unless its group
            has no rows at all.
        clipped: whether R ± radius is clipped to [0, 1].
        inside: also bound the gap at thresholds inside an atom, where atoms are bins.

    Returns:
        (gap, threshold t of the decision S > t).

    >>> y, z = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> t = ScoreTable.from_codes(np.array([0.1, 0.6, 0.4, 0.9]), y, z, (0, 1), ("f", "m"))
    >>> largest_gap(t)
    (1.0, 0.4)
    """
    coarse = table.binned(int(np.clip(len(table.atom) // _ROWS, 1, _BINS)))
    width = np.zeros(table.shape) if radius is None else radius
    if radius is not None:  # an infinite radius marks rates that may be anything in [0, 1]
        mass = coarse.counts.sum(-1)
        width = np.where((mass <= 0) & (mass.sum(0) > 0), np.inf, radius)
    rates = tail_rates(coarse.counts)
    before = _before(rates, np.where(np.isnan(rates[..., 0]), np.nan, 1.0))
    ends = _mean_spread(rates, rates, width, clipped)
    best, at = float(ends.max()), float(coarse.values[ends.argmax()])
    ceiling = _mean_spread(before, rates, width, clipped)
    stops = np.r_[coarse.starts[1:], len(table.atom)]
    for j in np.argsort(-ceiling, kind="stable"):
        if ceiling[j] <= best + 1e-15:
            break
        after, values = _opened(table, coarse, int(j), int(stops[j]), before[..., j])
        upper = _before(after, before[..., j]) if inside else after
        gaps = _mean_spread(upper, after, width, clipped)
        if gaps.size and gaps.max() > best:
            best, at = float(gaps.max()), float(values[gaps.argmax()])
    return best, at


def tail_rates(counts: Array) -> Array:
    """P(S > upper end of the bin | y, z) from counts (..., y, z, bin); NaN in cells without
    rows.
    """
    mass = counts.sum(-1, keepdims=True)
    below = np.cumsum(counts, axis=-1)
    rate = np.divide(mass - below, mass, out=np.full(counts.shape, np.nan), where=mass > 0)
    return np.clip(rate, 0.0, 1.0)


def gap_curve(counts: Array) -> Array:
    """The gap at the upper end of every bin, array (..., bin), from counts (..., y, z, bin)."""
    rates = tail_rates(counts)
    return _mean_spread(rates, rates, np.zeros(counts.shape[-3:-1]), clipped=True)


def _opened(
    table: ScoreTable, coarse: Binned, j: int, stop: int, before: Array
) -> tuple[Array, Array]:
    """Rates (y, z, atom) after each atom of bin j, and the atoms' scores."""
    rows = slice(int(coarse.starts[j]), stop)
    cell, atom = table.cell[rows], table.atom[rows]
    last = np.flatnonzero(np.r_[atom[1:] != atom[:-1], True])
    one_hot = np.zeros((before.size, len(cell)))
    one_hot[cell, np.arange(len(cell))] = 1.0 if table.weight is None else table.weight[rows]
    mass = coarse.counts.sum(-1).reshape(-1, 1)
    below = np.cumsum(one_hot, axis=1)[:, last] / np.where(mass > 0, mass, 1.0)
    rates = np.clip(before.reshape(-1, 1) - below, 0.0, 1.0)
    return rates.reshape(*before.shape, -1), table.values[atom[last]]


def _before(rates: Array, start: Array) -> Array:
    """The rates below each place: those of the place before, and `start` for the first."""
    return np.concatenate([start[..., None], rates[..., :-1]], axis=-1)


def _mean_spread(upper: Array, lower: Array, width: Array, clipped: bool) -> Array:
    """Mean over the labels of max over z ≠ z' of upper_z − lower_z', arrays (..., y, z, k)."""
    high, low = upper + width[..., None], lower - width[..., None]
    if clipped:
        high, low = np.minimum(high, 1.0), np.maximum(low, 0.0)
    gone = np.isnan(upper)
    high, low = np.where(gone, -np.inf, high), np.where(gone, np.inf, low)
    unknown = np.broadcast_to(np.isinf(width)[..., None], gone.shape)
    high, low = np.where(unknown, 1.0, high), np.where(unknown, 0.0, low)
    top, bottom = high.argmax(-2)[..., None, :], low.argmin(-2)[..., None, :]
    first, least = high.max(-2), low.min(-2)
    apart = first - least
    if high.shape[-2] > 1:
        second = _without(high, top, -np.inf).max(-2)
        other = _without(low, bottom, np.inf).min(-2)
        apart = np.where(
            (top == bottom)[..., 0, :], np.maximum(second - least, first - other), apart
        )
    else:
        apart = np.zeros_like(apart)
    return np.maximum(apart, 0.0).mean(-2)


def _without(x: Array, index: NDArray[Any], filler: float) -> Array:
    out = x.copy()
    np.put_along_axis(out, index, filler, -2)
    return out


def area(tables: Array) -> Array:
    """AUROC of tables (..., 2, z, level) for two labels, ties counted half.

    >>> float(area(np.array([[[8.0, 2.0]], [[2.0, 8.0]]])))
    0.8
    """
    mass = tables.sum(-2)
    rates = mass / mass.sum(-1, keepdims=True)
    below = np.cumsum(rates[..., 0, :], axis=-1) - 0.5 * rates[..., 0, :]
    return np.asarray((rates[..., 1, :] * below).sum(-1))


def merged(columns: Array, mass: Array, bins: int) -> Array:
    """Neighbouring levels joined into at most `bins` of about equal mass, array (..., bins).

    Args:
        columns: (..., level), in order.
        mass: of each level, which says where to cut.

    >>> merged(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([0.25, 0.25, 0.25, 0.25]), 2)
    array([[3., 7.]])
    """
    return np.asarray(np.add.reduceat(columns, _starts(mass, bins), axis=-1))


def _starts(mass: Array, bins: int) -> NDArray[np.intp]:
    """The first level of each bin."""
    if len(mass) <= bins:
        return np.arange(len(mass))
    middle = np.cumsum(mass) - 0.5 * mass
    place = np.minimum((middle / mass.sum() * bins).astype(np.intp), bins - 1)
    return np.flatnonzero(np.r_[True, np.diff(place) > 0])


AREA: dict[str, Callable[[Array], Array]] = {"auroc": area}
# of tables that are merged into few bins first: noise adds up over many
IN_BINS: dict[str, Callable[[Array], Array]] = {
    "violation": conditional_mutual_information,
    "eo_gap": lambda tables: gap_curve(tables).max(-1),
}


def in_bins(tables: Array, moments: Array) -> tuple[Array, Array]:
    """Both in at most 20 bins; the cuts are those of all tables together.

    Args:
        tables: (..., y, z, level).
        moments: (..., y, z, level, level), sums of products q qᵀ of the rows.
    """
    starts = _starts(tables.reshape(-1, tables.shape[-1]).sum(0), BINS)
    half = np.add.reduceat(moments, starts, axis=-1)
    return np.add.reduceat(tables, starts, axis=-1), np.add.reduceat(half, starts, axis=-2)
