r"""ScoreTable: how often each score occurs with each label and group, sorted by the score.

All that the audit of a score measures is read off this table. An *atom* is a distinct score, or one
bin of a fine histogram; the table lists the (atom, label, group) that occur, in rising order of the
score, so rows in memory and histograms of an engine take the same way. Tables of parts add.
Notation: s score, y label, z group, cell = (y, z).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.core.counts import Levels, union

Array = NDArray[np.float64]


class Binned(NamedTuple):
    """Counts and sums of squared weights (y, z, bin), the first entry of each bin, and the largest
    score of each bin.
    """

    counts: Array
    squares: Array
    starts: NDArray[np.intp]
    values: Array


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
            here = weight > 0
            s, cell, weight = s[here], cell[here], weight[here]
            weight = None if (weight == 1.0).all() else weight
        order = np.argsort(s)
        s, cell = s[order], cell[order]
        new = np.concatenate([[True], s[1:] != s[:-1]])
        # half the memory for row numbers wherever they fit
        number: Any = np.int32 if len(s) < 2**31 else np.int64
        atom: NDArray[np.integer[Any]] = np.cumsum(new, dtype=number) - 1
        w = None if weight is None else weight[order]
        squares = None if w is None else w * w
        values = s[new].astype(np.float64)
        table = cls(values, atom, cell, w, squares, labels, groups, len(s), scale=scale)
        return table._merged() if len(table.values) * 2 < len(s) else table

    @classmethod
    def from_histogram(
        cls,
        counts: ArrayLike,
        edges: ArrayLike,
        labels: Levels,
        groups: Levels,
        *,
        squares: ArrayLike | None = None,
        rows: int | None = None,
        scale: float = 1.0,
    ) -> ScoreTable:
        """A fine histogram N[y, z, bin] with its edges (bins + 1), as an engine counts it.

        Args:
            counts: weight of the rows in each label, group and bin [edges[b], edges[b + 1]).
            squares: the same of the squared weights; None where rows weigh one.
            rows: how many rows, where they do not weigh one.
            scale: the largest weight, by which all are divided.
        """
        n, at = np.asarray(counts, dtype=np.float64) / scale, np.asarray(edges, dtype=np.float64)
        cells, bins = len(labels) * len(groups), n.shape[-1]
        flat = n.reshape(cells, bins).T
        atom, cell = np.nonzero(flat > 0)
        used, atom = np.unique(atom, return_inverse=True)
        at = np.nextafter(at[1:], -np.inf)
        square = None
        if squares is not None:
            square = np.asarray(squares, dtype=np.float64).reshape(cells, bins) / scale**2
            square = square.T[used[atom], cell]
        weight = flat[used[atom], cell]
        total = round(float(weight.sum())) if rows is None else rows
        return cls(at[used], atom, cell, weight, square, labels, groups, total, False, scale)

    @property
    def shape(self) -> tuple[int, int]:
        """How many labels and groups."""
        return len(self.labels), len(self.groups)

    @cached_property
    def totals(self) -> tuple[Array, Array]:
        """Weight and sum of squared weights of each cell (y, z)."""
        size = len(self.labels) * len(self.groups)
        mass = np.bincount(self.cell, self.weight, minlength=size).astype(np.float64)
        if self.squares is None:
            return mass.reshape(self.shape), mass.reshape(self.shape)
        squares = np.bincount(self.cell, self.squares, minlength=size).astype(np.float64)
        return mass.reshape(self.shape), squares.reshape(self.shape)

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
        groups = len(self.groups)
        positive = self.cell >= groups
        whole = _area(self.atom, positive, self.weight)
        order = np.argsort(self.cell % self.cell.dtype.type(groups), kind="stable")
        atom, positive = self.atom[order], positive[order]
        weight = None if self.weight is None else self.weight[order]
        ends = np.cumsum(np.bincount(self.cell, minlength=2 * groups).reshape(2, -1).sum(0))
        parts = [slice(a, b) for a, b in zip(np.r_[0, ends[:-1]], ends, strict=True)]
        by_group = {
            group: _area(atom[part], positive[part], None if weight is None else weight[part])
            for group, part in zip(self.groups, parts, strict=True)
        }
        return whole, by_group

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
        alike = self.scale == other.scale
        plain = alike and all(t.weight is None for t in pair)
        even = alike and all(t.squares is None for t in pair)
        weight = None if plain else np.concatenate([t._weights(scale) for t in pair])[order]
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
        squares = None
        if self.squares is not None:
            squares = np.bincount(inverse, self.squares).astype(np.float64)
        atom, cell = there // size, (there % size).astype(np.min_scalar_type(size - 1))
        return replace(self, atom=atom, cell=cell, weight=weight, squares=squares)


def _area(atom: NDArray[Any], positive: NDArray[np.bool_], weight: Array | None) -> float:
    """Area under the ROC curve of entries in rising order."""
    if not len(atom):
        return float("nan")
    ends = np.append(np.flatnonzero(atom[1:] != atom[:-1]), len(atom) - 1)
    mass = 1.0 if weight is None else weight
    up = np.cumsum(np.where(positive, mass, 0.0))[ends]
    down = np.cumsum(np.where(positive, 0.0, mass))[ends]
    both = up[-1] * down[-1]
    below = np.r_[0.0, down[:-1]]
    wins = (np.diff(up, prepend=0.0) * (below + down)).sum()
    return float(wins / (2.0 * both)) if both > 0 else float("nan")
