r"""ScoreTable: how often each score occurs with each label and group, sorted by the score.

All that the audit of a score measures is read off this table. An *atom* is a distinct score, or one
bin of a fine histogram; the table lists the (atom, label, group) that occur, in rising order of the
score, so rows in memory and histograms of an engine take the same way. Tables of parts add.
Notation: s score, y label, z group, cell = (y, z).

The largest gap over all thresholds is exact. With :math:`R_{yz}(t) = P(S > t \mid y, z)` the gap of
the decision :math:`1\{S > t\}` is

.. math:: g(t) = \frac{1}{2} \sum_y \max_{z, z'} \bigl( R_{yz}(t) - R_{yz'}(t) \bigr)

for two labels, the same number as `information.eo_gap` of that decision.

Of a score whose levels are in order there are also tables N[y, z, level]. With the pooled rates R_y
of the levels,

.. math:: \mathrm{AUROC} = \sum_i R_{1i} \Bigl(\sum_{l<i} R_{0l} + \tfrac12 R_{0i}\Bigr).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import Levels, union
from separatrix.core.information import conditional_mutual_information
from separatrix.core.numerics import Array, midpoints

BINS = 20  # of the levels of a score
_ROWS, _BINS = 2_048, 4_096  # entries in a coarse bin, and the most bins


class Binned(NamedTuple):
    """Counts and sums of squared weights (y, z, bin), the first entry of each bin, and the largest
    score of each bin.
    """

    counts: Array
    squares: Array
    starts: NDArray[np.intp]
    values: Array


class ScoreHistogram(NamedTuple):
    """Rows, or their weights, with each label, group and bin, as an engine counts them.

    Args:
        counts: array (labels, groups, bins).
        edges: array (bins + 1,), rising; bin b holds edges[b] ≤ score < edges[b+1], the last bin
            its upper edge too.
        labels, groups: names of the first two axes, sorted.
        rows: how many have a positive weight.
        squares: the counts of the squared weights; None where rows weigh one.
        scale: the largest weight.
    """

    counts: Array
    edges: Array
    labels: Levels
    groups: Levels
    rows: int
    squares: Array | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The score's joint counts with label and group, one entry per (atom, label, group) or row.

    Args:
        values: the atoms' scores, rising; for the bin [a, b) of a histogram the last float below b,
            so that `S > value` is the same decision for rows and for bins.
        atom: the atom of each entry, never falling.
        cell: label · groups + group, of each entry.
        weight: total weight of each entry; None where every entry is one row of weight one.
        squares: sum of squared weights of each entry; None where all rows weigh one.
        labels, groups: their names, in order.
        rows: how many rows of positive weight were counted.
        exact: whether an atom is one score; False where it is a bin, inside which scores differ.
        scale: what the weights were divided by, so that tables of weighted parts add up.

    >>> y, z, names = np.array([0, 1]), np.array([0, 1]), ((0, 1), ("f", "m"))
    >>> a = ScoreTable.from_codes(np.array([0.1, 0.7]), y, z, *names)
    >>> b = ScoreTable.from_codes(np.array([0.1, 0.9]), y, 1 - z, *names)
    >>> (a + b).values, (a + b).rows
    (array([0.1, 0.7, 0.9]), 4)
    """

    values: Array
    atom: NDArray[np.integer[Any]]
    cell: NDArray[np.integer[Any]]
    weight: Array | None
    squares: Array | None
    labels: Levels
    groups: Levels
    rows: int
    exact: bool = True
    scale: float = 1.0

    @classmethod
    def from_codes(
        cls,
        score: NDArray[Any],
        y: NDArray[np.integer[Any]],
        z: NDArray[np.integer[Any]],
        labels: Levels,
        groups: Levels,
        weight: Array | None = None,
        scale: float = 1.0,
    ) -> ScoreTable:
        """Sort rows by their score, once. Rows of weight zero do not count as rows.

        Args:
            score: finite numbers, one per row.
            y, z: codes of `labels` and `groups`.
            weight: not negative, the largest is one; None where all rows weigh one.
            scale: what the weights were divided by.
        """
        s = score
        # numpy sorts 8 and 16 bits by radix, ten times as fast
        cell: NDArray[np.integer[Any]] = y.astype(np.min_scalar_type(len(labels) * len(groups) - 1))
        cell *= len(groups)
        cell += z.astype(cell.dtype)
        if weight is not None:
            positive = weight > 0
            s, cell, weight = s[positive], cell[positive], weight[positive]
            weight = None if (weight == 1.0).all() else weight
        order = np.argsort(s)
        s, cell = s[order], cell[order]
        new = np.concatenate([[True], s[1:] != s[:-1]])
        # half the memory for row numbers wherever they fit
        number: Any = np.int32 if len(s) < 2**31 else np.int64
        atom: NDArray[np.integer[Any]] = np.cumsum(new, dtype=number) - 1
        w = None if weight is None else weight[order]
        squares = None if w is None else w * w
        table = cls(s[new].astype(np.float64), atom, cell, w, squares, labels, groups, len(s), scale=scale)
        return table._merged() if len(table.values) * 2 < len(s) else table

    @classmethod
    def from_histogram(cls, histogram: ScoreHistogram) -> ScoreTable:
        """The table of a fine histogram; its weights are divided by the largest."""
        counts, edges, labels, groups, rows, squares, scale = histogram
        flat = counts.reshape(-1, counts.shape[-1]).T / scale
        bins, cell = np.nonzero(flat > 0)
        used, atom = np.unique(bins, return_inverse=True)
        square = None if squares is None else (squares.reshape(flat.T.shape).T / scale**2)[bins, cell]
        values = np.nextafter(edges[1:], -np.inf)[used]
        return cls(values, atom, cell, flat[bins, cell], square, labels, groups, rows, False, scale)

    @property
    def shape(self) -> tuple[int, int]:
        """How many labels and groups."""
        return len(self.labels), len(self.groups)

    @cached_property
    def totals(self) -> tuple[Array, Array]:
        """Weight and sum of squared weights of each cell (y, z)."""
        mass = self._by_cell(self.weight)
        return mass, mass if self.squares is None else self._by_cell(self.squares)

    def _by_cell(self, weight: Array | None) -> Array:
        size = len(self.labels) * len(self.groups)
        return np.bincount(self.cell, weight, minlength=size).astype(np.float64).reshape(self.shape)

    def binned(self, bins: int) -> Binned:
        r"""Counts in `bins` quantile bins of all rows; equal scores stay together, so bins may
        merge.

        Bin i begins at the first atom that is not below the quantile i / bins, as with
        `np.digitize(s, np.quantile(s, q))`. Only the order of the scores matters.
        """
        mass, squares = self.totals
        unit = squares.sum() / mass.sum()  # one for rows of weight one
        target = (mass.sum() - unit) * np.linspace(0.0, 1.0, bins + 1)[1:-1] + unit
        target -= 1e-12 * mass.sum()  # a quantile that is a row may be rounded up beyond it
        if self.weight is None:
            first = np.ceil(target).astype(np.intp) - 1
        else:
            first = np.searchsorted(np.cumsum(self.weight), target)
        first = np.clip(first, 0, len(self.atom) - 1)
        starts = np.unique(np.r_[0, np.searchsorted(self.atom, self.atom[first])]).astype(np.intp)
        size, stops = mass.size, np.r_[starts[1:], len(self.atom)]
        code = np.repeat(np.arange(len(starts)) * size, stops - starts)
        code += self.cell
        shape = len(starts), *self.shape

        def counted(weight: Array | None) -> Array:
            flat = np.bincount(code, weight, minlength=len(starts) * size)
            return np.moveaxis(flat.astype(np.float64).reshape(shape), 0, 2)

        counts = counted(self.weight)
        spread = counts if self.squares is None else counted(self.squares)
        return Binned(counts, spread, starts, self.values[self.atom[stops - 1]])

    def auroc(self) -> tuple[float, dict[Hashable, float]]:
        r"""Area under the ROC curve for the last label, of all rows and of each group.

        .. math:: P(S_1 > S_0) + \tfrac12 P(S_1 = S_0)

        NaN for a group without one of the labels.
        """
        positive = self.cell >= len(self.groups)
        group = self.cell % self.cell.dtype.type(len(self.groups))
        areas = []
        for rows in (slice(None), *(group == z for z in range(len(self.groups)))):
            level = np.cumsum(np.diff(self.atom[rows], prepend=0) > 0)
            areas.append(auroc(level, positive[rows], None if self.weight is None else self.weight[rows]))
        return areas[0], dict(zip(self.groups, areas[1:], strict=True))

    def __add__(self, other: ScoreTable) -> ScoreTable:
        """The table of both sets of rows."""
        if not isinstance(other, ScoreTable):
            return NotImplemented
        labels, groups = union(self.labels, other.labels), union(self.groups, other.groups)
        values = np.union1d(self.values, other.values)
        pair = (self, other)
        atom = np.concatenate([np.searchsorted(values, t.values)[t.atom] for t in pair])
        cell = np.concatenate([t._cells_in(labels, groups) for t in pair])
        order = np.argsort(atom, kind="stable")
        scale = max(self.scale, other.scale)
        even = self.scale == other.scale and all(t.squares is None for t in pair)
        weight = np.concatenate([t._weights(scale) for t in pair])[order]
        squares = None if even else np.concatenate([t._squares(scale) for t in pair])[order]
        rows, exact = self.rows + other.rows, self.exact and other.exact
        return ScoreTable(
            values, atom[order], cell[order], weight, squares, labels, groups, rows, exact, scale
        )._merged()

    def _weights(self, scale: float) -> Array:
        weight = np.ones(len(self.atom)) if self.weight is None else self.weight
        return weight * (self.scale / scale)

    def _squares(self, scale: float) -> Array:
        if self.squares is None:
            return self._weights(scale) * (self.scale / scale)
        return self.squares * (self.scale / scale) ** 2

    def _cells_in(self, labels: Levels, groups: Levels) -> NDArray[np.integer[Any]]:
        y = np.array([labels.index(label) for label in self.labels])
        z = np.array([groups.index(group) for group in self.groups])
        to = (y[:, None] * len(groups) + z).reshape(-1)
        return to.astype(np.min_scalar_type(len(labels) * len(groups) - 1))[self.cell]

    def _merged(self) -> ScoreTable:
        """The same table with one entry per atom and cell that occur."""
        size = len(self.labels) * len(self.groups)
        key = self.atom.astype(np.int64) * size + self.cell
        if len(self.values) * size <= 4 * len(key):
            there = np.flatnonzero(np.bincount(key, minlength=len(self.values) * size))
            position = np.empty(len(self.values) * size, dtype=np.intp)
            position[there] = np.arange(len(there))
            inverse = position[key]
        else:
            there, inverse = np.unique(key, return_inverse=True)
        weight = np.bincount(inverse, self.weight, minlength=len(there)).astype(np.float64)
        squares = None if self.squares is None else np.bincount(inverse, self.squares).astype(np.float64)
        atom, cell = there // size, (there % size).astype(np.min_scalar_type(size - 1))
        return replace(self, atom=atom, cell=cell, weight=weight, squares=squares)


def auroc(level: NDArray[Any], positive: NDArray[np.bool_], weight: Array | None = None) -> float:
    """Area under the ROC curve of rows whose scores are the levels 0, 1, …; NaN without one of the labels.

    >>> auroc(np.array([0, 1, 1]), np.array([False, True, False]))
    0.75
    """
    size = int(level.max(initial=0)) + 1
    sides = [
        np.bincount(level[side], None if weight is None else weight[side], size).astype(np.float64)
        for side in (~positive, positive)
    ]
    return float(area(np.array(sides)[:, None])) if all(side.any() for side in sides) else float("nan")


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
    best, threshold = float(ends.max()), float(coarse.values[ends.argmax()])
    ceiling = _mean_spread(before, rates, width, clipped)
    stops = np.r_[coarse.starts[1:], len(table.atom)]
    for j in np.argsort(-ceiling, kind="stable"):
        if ceiling[j] <= best + 1e-15:
            break
        after, values = _opened(table, coarse, int(j), int(stops[j]), before[..., j])
        upper = _before(after, before[..., j]) if inside else after
        gaps = _mean_spread(upper, after, width, clipped)
        if gaps.size and gaps.max() > best:
            best, threshold = float(gaps.max()), float(values[gaps.argmax()])
    return best, threshold


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


def _opened(table: ScoreTable, coarse: Binned, j: int, stop: int, before: Array) -> tuple[Array, Array]:
    """Rates (y, z, atom) after each atom of bin j, and the atoms' scores."""
    rows = slice(int(coarse.starts[j]), stop)
    cell, atom = table.cell[rows], table.atom[rows]
    last = np.flatnonzero(np.r_[atom[1:] != atom[:-1], True])
    one_hot = np.zeros((before.size, len(cell)))
    one_hot[cell, np.arange(len(cell))] = 1.0 if table.weight is None else table.weight[rows]
    mass = coarse.counts.sum(-1).reshape(-1, 1)
    below = np.cumsum(one_hot, axis=1)[:, last] / np.where(mass > 0, mass, 1.0)
    return np.clip(before.reshape(-1, 1) - below, 0.0, 1.0).reshape(*before.shape, -1), table.values[atom[last]]


def _before(rates: Array, start: Array) -> Array:
    """The rates below each place: those of the place before, and `start` for the first."""
    return np.concatenate([start[..., None], rates[..., :-1]], axis=-1)


def _mean_spread(upper: Array, lower: Array, width: Array, clipped: bool) -> Array:
    """Mean over the labels of max over z ≠ z' of upper_z − lower_z', arrays (..., y, z, k)."""
    high, low = upper + width[..., None], lower - width[..., None]
    if clipped:
        high, low = np.minimum(high, 1.0), np.maximum(low, 0.0)
    unknown, empty = np.isinf(width)[..., None], np.isnan(upper)
    high = np.where(unknown, 1.0, np.where(empty, -np.inf, high))
    low = np.where(unknown, 0.0, np.where(empty, np.inf, low))
    apart = np.zeros((*high.shape[:-2], high.shape[-1]))
    for shift in range(1, high.shape[-2]):  # each ordered pair of different groups
        apart = np.maximum(apart, (high - np.roll(low, shift, -2)).max(-2))
    return np.asarray(apart.mean(-2))


def area(tables: Array) -> Array:
    """AUROC of tables (..., 2, z, level) for two labels, ties counted half.

    >>> float(area(np.array([[[8.0, 2.0]], [[2.0, 8.0]]])))
    0.8
    """
    mass = tables.sum(-2)
    rates = mass / mass.sum(-1, keepdims=True)
    return np.asarray((rates[..., 1, :] * midpoints(rates[..., 0, :])).sum(-1))


def area_slope(rates: Array) -> Array:
    """What the AUROC gains from more of each rate R[y, level] of two labels, ties counted half: array (2, level).

    The positives above the level for a negative, the negatives below it for a positive.

    >>> area_slope(np.array([[0.8, 0.2], [0.2, 0.8]])).round(1)
    array([[0.9, 0.4],
           [0.4, 0.9]])
    """
    return np.stack([1.0 - np.cumsum(rates[1]) + 0.5 * rates[1], midpoints(rates[0])])


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
    place = np.minimum((midpoints(mass) / mass.sum() * bins).astype(np.intp), bins - 1)
    return np.flatnonzero(np.r_[True, np.diff(place) > 0])


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
