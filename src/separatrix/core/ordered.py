r"""Metrics of a score whose levels are in order, as functions of tables N[y, z, level].

The levels rise; a decision takes those above a threshold. With the pooled rates R_y of the levels,

.. math:: \mathrm{AUROC} = \sum_i R_{1i} \Bigl(\sum_{l<i} R_{0l} + \tfrac12 R_{0i}\Bigr).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import conditional_mutual_information
from separatrix.core.score_gaps import gap_curve

__all__ = ["AREA", "BINS", "IN_BINS", "area", "in_bins", "largest_gap", "merged"]

Array = NDArray[np.float64]
BINS = 20


def area(tables: Array) -> Array:
    """AUROC of tables (..., 2, z, level) for two labels, ties counted half.

    >>> float(area(np.array([[[8.0, 2.0]], [[2.0, 8.0]]])))
    0.8
    """
    mass = tables.sum(-2)
    rates = mass / mass.sum(-1, keepdims=True)
    below = np.cumsum(rates[..., 0, :], axis=-1) - 0.5 * rates[..., 0, :]
    return np.asarray((rates[..., 1, :] * below).sum(-1))


def largest_gap(tables: Array) -> Array:
    """The largest EO gap over the thresholds between levels, of tables (..., y, z, level)."""
    return np.asarray(gap_curve(tables).max(-1))


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
    "eo_gap": largest_gap,
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
