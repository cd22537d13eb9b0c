"""The rows of a stream, and its tests: one of all rows, and overlapping ones that started later.

Old rows hide a change. So a new test starts every 100 rows. The test that starts at row 100 k, with
2^a the largest power of two that divides k, lives for 6 · 100 · 2^a rows: for a change at any row
and any number n of rows that its proof takes, there is a test that starts at most n / 5 rows
later and lives long enough. About three tests of each a are alive, so memory is constant.

The clock is the worker's own rows. A test is named by (a, r), its place among the tests of a; a
merged test has the rows of all workers since their own start of that name. Once any worker has
ended it, it is gone: its rows only ever grow, as Ville's inequality needs.

The shares of the error: all rows have three quarters. The r-th test of each of the 15 a has the
share :math:`1/\\log(r - 1 + e) - 1/\\log(r + e)` of a fifteenth of the rest; these sum to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.groups import as_groups, intersect
from separatrix.columns.scores import check_posteriors
from separatrix.columns.values import Coded, as_array, as_levels, check_lengths, listed
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

Array = NDArray[np.float64]
SPACING = 100  # rows
_LEVELS, _LIFE = 15, 6
ALL_ROWS = 0.75


def share_of(index: int | NDArray[np.int64]) -> Array:
    """Share of the error of the tests of one a that the r-th has.

    >>> bool(0.99 > share_of(np.arange(1, 10**6)).sum() > 0.92)      # and 1 in the end
    True
    """
    r = np.asarray(index, dtype=np.float64)
    before, after = np.log(r - 1.0 + np.e), np.log(r + np.e)
    return np.asarray(np.log1p(1.0 / (r - 1.0 + np.e)) / (before * after))


@dataclass(eq=False)
class Starts:
    """The tests that are alive; the first is that of all rows, of level −1.

    Args:
        tables: counts (s, y, z, u).
        rows: rows of each test.
        level, index: its name (a, r).
        clock: rows of this worker so far.
        horizon: the most rows that a test may live for; None for no limit.
    """

    tables: Array
    rows: NDArray[np.int64]
    level: NDArray[np.int64]
    index: NDArray[np.int64]
    clock: int = 0
    horizon: int | None = None

    @classmethod
    def without_rows(cls, shape: tuple[int, ...], horizon: int | None) -> Starts:
        """Only the test of all rows, without any."""
        zero = np.zeros(1, dtype=np.int64)
        return cls(np.zeros((1, *shape)), zero, zero - 1, zero + 1, 0, horizon)

    @property
    def shares(self) -> Array:
        """Share of the error of each test."""
        later = (1.0 - ALL_ROWS) / _LEVELS * share_of(self.index)
        return np.where(self.level < 0, ALL_ROWS, later)

    @property
    def begun(self) -> NDArray[np.int64]:
        """The worker's row after which each test started."""
        return np.where(self.level < 0, 0, SPACING * _place(self.level, self.index))

    def add(self, counts: Array, rows: int) -> None:
        """Rows whose order is unknown: tests that they pass start behind them."""
        if not rows:
            return
        self.tables = self.tables + counts
        self.rows = self.rows + rows
        old, self.clock = self.clock // SPACING, self.clock + rows
        new = self.clock // SPACING
        if new > old:
            self._open(old, new)
            self._end()

    def until_next(self) -> int:
        """Rows until the next test starts."""
        return SPACING - self.clock % SPACING

    def _open(self, old: int, new: int) -> None:
        """The last test of each level that starts at a place in (old, new]."""
        a = np.arange(_LEVELS)
        k, largest = new >> a, a == _LEVELS - 1
        k -= np.where(largest, 0, 1 - k % 2)  # odd: even ones belong to a larger a
        begun = (k << a > old) & (k > 0)
        level, index = a[begun], np.where(largest, k, (k + 1) // 2)[begun]
        more = np.zeros((len(level), *self.tables.shape[1:]))
        self.tables = np.concatenate([self.tables, more])
        self.rows = np.append(self.rows, np.zeros(len(level), dtype=np.int64))
        self.level, self.index = np.append(self.level, level), np.append(self.index, index)

    def _end(self) -> None:
        age = self.clock - self.begun
        life = _LIFE * SPACING * (1 << np.maximum(self.level, 0))
        if self.horizon is not None:
            life = np.minimum(life, self.horizon)
        alive = (age < life) | (self.level < 0)
        if not alive.all():
            self.tables, self.rows = self.tables[alive], self.rows[alive]
            self.level, self.index = self.level[alive], self.index[alive]

    def usable(self) -> NDArray[np.bool_]:
        """Tests with rows, none of them twice, within the horizon."""
        fresh = self.rows > 0
        fresh[1:] &= self.rows[1:] < self.rows[0]
        if self.horizon is not None:
            fresh[0] &= self.clock <= self.horizon
        return fresh

    @staticmethod
    def merge(parts: Sequence[Starts]) -> Starts:
        """The tests of all workers; those that one of them has ended are gone."""
        first = parts[0]
        names = np.concatenate([np.stack([starts.level, starts.index, starts.begun], 1) for starts in parts])
        named, place, holders = np.unique(names, axis=0, return_inverse=True, return_counts=True)  # level −1 first
        tables, rows = np.zeros((len(named), *first.tables.shape[1:])), np.zeros(len(named), dtype=np.int64)
        np.add.at(tables, place.ravel(), np.concatenate([starts.tables for starts in parts]))
        np.add.at(rows, place.ravel(), np.concatenate([starts.rows for starts in parts]))
        level, index, begun = named.T
        shared = holders == sum(starts.clock >= begun for starts in parts)
        clock = max(starts.clock for starts in parts)
        merged = Starts(tables[shared], rows[shared], level[shared], index[shared], clock, first.horizon)
        merged._end()
        return merged

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        names = ("tables", "rows", "level", "index")
        return {name: getattr(self, name).tolist() for name in names} | {"clock": self.clock, "horizon": self.horizon}

    @classmethod
    def from_dict(cls, data: dict[str, Any], shape: tuple[int, ...]) -> Starts:
        """The inverse of `to_dict`, for tables of a shape; tests that cannot be are refused."""
        s, clock = len(data["rows"]), int(data["clock"])
        rows, level, index = (np.asarray(data[name]) for name in ("rows", "level", "index"))
        for column in (rows, level, index):
            if column.shape != (s,) or column.dtype.kind != "i" or (column < -1).any():
                raise InputError("The tests of this monitor have bad numbers of rows or names.")
        names = set(zip(level.tolist(), index.tolist(), strict=True))
        named = (level[1:] >= 0).all() and (level < _LEVELS).all() and (index >= 1).all()
        if level[0] != -1 or not named or len(names) < s or clock < 0:
            raise ValueError("tests that no monitor has")
        tables = counts_of(data["tables"], (s, *shape))
        rows, level, index = (column.astype(np.int64) for column in (rows, level, index))
        return cls(tables, rows, level, index, clock, data["horizon"])


def counts_of(values: Any, shape: tuple[int, ...]) -> Array:
    """Counts of a state that was read."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"The counts of this monitor have bad values or shape {array.shape}, not {shape}.")
    return array


def _place(level: NDArray[np.int64], index: Any) -> NDArray[np.int64]:
    """k of the test (a, r)."""
    odd = np.where(level == _LEVELS - 1, index, 2 * np.asarray(index) - 1)
    return np.asarray(odd * (1 << np.maximum(level, 0)))


def row_blocks(
    reference: CountTable, y: Any, u: Any, z: Any, branch: ArrayLike | None, first: int
) -> Iterator[tuple[int, Array]]:
    """Rows and counts (y, z, u) of the first rows of a batch, and of the others in blocks.

    A value that the reference does not know is an error before anything is counted.
    """
    at_y = as_levels(y, "y_true").places(reference.labels, "y_true")
    at_z = as_groups(z).places(reference.groups, "sensitive_features")
    if not isinstance(u, Coded) and as_array(u, "y_pred").ndim == 2:
        predicted: NDArray[Any] = check_posteriors(as_array(u, "y_pred"), "y_pred")
        if predicted.shape[1] != len(reference.predictions):
            columns, known = predicted.shape[1], listed(reference.predictions)
            raise InputError(f"`y_pred` has {columns} columns, the reference the predictions {known}.")
    else:
        decided = as_levels(u, "y_pred")
        if branch is not None:
            decided = intersect({"branch": as_levels(branch, "branch"), "y_pred": decided})
        predicted = decided.places(reference.predictions, "y_pred")
    check_lengths({"y_true": at_y, "sensitive_features": at_z, "y_pred": predicted})
    if not len(at_y):
        return
    labels, groups, predictions = shape = reference.counts.shape
    block = np.maximum(np.arange(len(at_y)) - first, -1) // SPACING + 1
    cells, count = labels * groups, int(block[-1]) + 1
    fused = block * cells + at_y * groups + at_z
    if predicted.ndim == 1:
        counts = np.bincount(fused * predictions + predicted, minlength=count * cells * predictions)
    else:
        sums = [np.bincount(fused, weights=q, minlength=count * cells) for q in predicted.T]
        counts = np.stack(sums, -1)
    yield from zip(np.bincount(block).tolist(), counts.astype(np.float64).reshape(count, *shape), strict=True)


def placed_counts(reference: CountTable, batch: CountTable) -> Array:
    """The counts of a table on the axes of a reference; a level that it lacks is an error."""
    if batch.moments is not None and not np.allclose(batch.weight_squares, batch.counts.sum(2)):
        raise InputError("The batch has weighted rows. The evidence of a stream is for rows of weight one.")
    for name in ("labels", "groups", "predictions"):
        axis = getattr(reference, name)
        if unknown := [level for level in getattr(batch, name) if level not in axis]:
            known = f"which the reference does not know ({listed(axis)})"
            raise InputError(f"`{name}` holds {listed(unknown)}, {known}. A new level needs a new monitor.")
    empty = replace(reference, counts=np.zeros_like(reference.counts), rows=0, moments=None)
    return (empty + batch).counts
