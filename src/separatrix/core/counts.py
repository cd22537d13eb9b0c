"""CountTable: the counts N[y, z, u] of labels, groups and predictions, with their names.

All that separatrix measures is read off this small table, so data of any size reduces to it once:
chunks, files and workers each make a table and the tables add. Predictions are hard labels or
posteriors; rows may carry weights.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.values import (
    Codes,
    Levels,
    check_lengths,
    check_levels,
    check_posteriors,
    check_weight,
    code_levels,
    compact,
    encode,
    in_order,
    listed,
    one_column,
    posterior_matrix,
)
from separatrix.core.crosstab import crosstab, crosstab_small
from separatrix.errors import InputError

__all__ = ["CountTable", "soft_counts"]

Array = NDArray[np.float64]
_CHUNK = 1 << 19  # rows sorted at a time


@dataclass(frozen=True, eq=False)
class CountTable:
    r"""Counts N[y, z, u] with their names, and the second moments that the sampling error needs.

    Args:
        counts: float64 array (y, z, u); sums of (weighted) posteriors, or of one-hot vectors for
            hard predictions.
        labels, groups, predictions: what the three axes stand for.
        rows: how many rows were counted, whatever they weigh.
        moments: :math:`S[y,z] = \sum_i w_i^2 q_i q_i^\top`, array (y, z, u, u). None for hard
            labels of weight one, where it is the diagonal matrix of the counts.

    >>> a = CountTable.from_labels([0, 1], ["f", "m"], [0, 0])
    >>> b = CountTable.from_labels([1, 1], ["f", "m"], [1, 1])
    >>> (a + b).counts[1]                       # label 1: groups down, predictions across
    array([[0., 1.],
           [1., 1.]])
    """

    counts: Array
    labels: Levels
    groups: Levels
    predictions: Levels
    rows: int
    moments: Array | None = None

    @classmethod
    def from_labels(
        cls,
        y: ArrayLike,
        z: ArrayLike,
        prediction: ArrayLike,
        *,
        labels: Sequence[Hashable] | None = None,
        sample_weight: ArrayLike | None = None,
        names: tuple[str, str, str] = ("y", "z", "prediction"),
    ) -> CountTable:
        """Count hard predictions. `labels` fixes the label axis; otherwise it is every label and
        prediction seen.
        """
        columns = [
            one_column(values, name) for values, name in zip((y, z, prediction), names, strict=True)
        ]
        n = check_lengths(dict(zip(names, columns, strict=True)))
        weight = None if sample_weight is None else check_weight(sample_weight, n)
        whole = all(column.dtype.kind in "biu" for column in columns)
        rows = crosstab_small(columns) if whole else None
        if rows is not None:
            coded = [
                (column, code_levels(column, k))
                for column, k in zip(columns, rows.shape, strict=True)
            ]
        else:
            with ThreadPoolExecutor(2) as pool:
                coded = list(pool.map(encode, columns, names))
            rows = crosstab([one for one, _ in coded], [len(levels) for _, levels in coded])
        codes = [one for one, _ in coded]
        counts = rows if weight is None else crosstab(codes, rows.shape, weight)
        # a level whose rows all weigh nothing is still a level
        seen = [np.flatnonzero(rows.sum(tuple({0, 1, 2} - {axis})) > 0) for axis in range(3)]
        y_levels, z_levels, u_levels = (
            tuple(levels[i] for i in index) for (_, levels), index in zip(coded, seen, strict=True)
        )
        axis = _label_axis(labels, y_levels, u_levels, names)
        moments = None
        if weight is not None:
            squares = crosstab(codes, rows.shape, weight**2)[np.ix_(*seen)]
            moments = _diagonal(
                _place(squares, (y_levels, z_levels, u_levels), (axis, z_levels, axis))
            )
        table = _place(
            counts[np.ix_(*seen)], (y_levels, z_levels, u_levels), (axis, z_levels, axis)
        )
        return cls(table, axis, z_levels, axis, rows=n, moments=moments)

    @classmethod
    def from_posteriors(
        cls,
        q: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        *,
        labels: Sequence[Hashable] | None = None,
        sample_weight: ArrayLike | None = None,
        names: tuple[str, str, str] = ("y", "z", "q"),
    ) -> CountTable:
        """Count posteriors q (n, K). The columns are the labels: `labels` in that order, or the
        sorted labels of y.
        """
        posterior = posterior_matrix(q, names[2])
        (y_codes, y_seen), (z_codes, groups) = compact(y, names[0]), compact(z, names[1])
        n = check_lengths({names[0]: y_codes, names[1]: z_codes, names[2]: posterior})
        axis = _posterior_axis(labels, y_seen, posterior.shape[1], names)
        y_codes = np.array([axis.index(level) for level in y_seen], dtype=np.uint16)[y_codes]
        weight = None if sample_weight is None else check_weight(sample_weight, n)
        counts, moments = _soft_sums(
            posterior, y_codes, z_codes, (len(axis), len(groups)), weight, names[2]
        )
        return cls(counts, axis, groups, axis, rows=n, moments=moments).simplest()

    def simplest(self) -> CountTable:
        """The same table; without moments if its posteriors are one-hot and weigh one, since then
        it counts hard labels.
        """
        hard = self.moments is not None and np.array_equal(self.moments, _diagonal(self.counts))
        return (
            replace(self, moments=None)
            if hard and (self.counts == np.round(self.counts)).all()
            else self
        )

    @property
    def second_moments(self) -> Array:
        """S[y, z, u, u'], also where it is the diagonal of the counts."""
        return _diagonal(self.counts) if self.moments is None else self.moments

    @property
    def weight_squares(self) -> Array:
        """Sum of the squared weights of each cell (y, z)."""
        return self.counts.sum(-1) if self.moments is None else self.moments.sum((-2, -1))

    def law(self) -> Array:
        """The empirical joint law of (Y, Z, U)."""
        return self.counts / self.counts.sum()

    def rename_groups(self, names: Mapping[Hashable, Hashable]) -> CountTable:
        """The same table with other names for its groups; those not in `names` keep theirs."""
        return replace(self, groups=tuple(names.get(group, group) for group in self.groups))

    def __add__(self, other: CountTable) -> CountTable:
        """The table of both sets of rows; the axes become the union of both."""
        if not isinstance(other, CountTable):
            return NotImplemented
        old = [(t.labels, t.groups, t.predictions) for t in (self, other)]
        new = tuple(_union(a, b) for a, b in zip(*old, strict=True))
        counts = _place(self.counts, old[0], new) + _place(other.counts, old[1], new)
        moments = None
        if self.moments is not None or other.moments is not None:
            a, b = (
                _place(t.second_moments, (*axes, axes[2]), (*new, new[2]))
                for t, axes in zip((self, other), old, strict=True)
            )
            moments = a + b
        labels, groups, predictions = new
        return CountTable(
            counts, labels, groups, predictions, rows=self.rows + other.rows, moments=moments
        )

    @staticmethod
    def merge(tables: Sequence[CountTable]) -> CountTable:
        """The table of all rows of all tables."""
        if not tables:
            raise InputError("`tables` is empty: pass at least one CountTable to merge.")
        return reduce(CountTable.__add__, tables)


def soft_counts(
    q: ArrayLike, y: ArrayLike, z: ArrayLike, sample_weight: ArrayLike | None = None
) -> Array:
    r"""Sum the posteriors of each (label, group): the table of the randomised policy.

    .. math:: N[y,z,u] = \sum_i w_i\, q_i(u)\, 1\{y_i = y, z_i = z\}

    Args:
        q: posteriors (n, K), rows summing to one.
        y, z: labels and groups. Non-negative integers are taken as codes (the label axis then has
            at least K places); anything else is coded in sorted order.

    Returns:
        Array (labels, groups, K).

    >>> soft_counts([[0.9, 0.1], [0.4, 0.6]], [0, 1], [0, 0])[:, 0]
    array([[0.9, 0.1],
           [0.4, 0.6]])
    """
    posterior = posterior_matrix(q, "q")
    (y_codes, _), (z_codes, _) = encode(y, "y"), encode(z, "z")
    n = check_lengths({"q": posterior, "y": y_codes, "z": z_codes})
    shape = (max(int(y_codes.max()) + 1, posterior.shape[1]), int(z_codes.max()) + 1)
    weight = None if sample_weight is None else check_weight(sample_weight, n)
    return _soft_sums(posterior, y_codes, z_codes, shape, weight, "q", want_moments=False)[0]


def _union(a: Levels, b: Levels) -> Levels:
    return a if set(b) <= set(a) else tuple(in_order(list(dict.fromkeys((*a, *b)))))


def _label_axis(
    labels: Sequence[Hashable] | None, y: Levels, u: Levels, names: tuple[str, str, str]
) -> Levels:
    if labels is None:
        for levels, name in ((y, names[0]), (u, names[2])):
            check_levels(levels, name)
        if not set(y) & set(u):
            raise InputError(
                f"No value of `{names[2]}` ({listed(u)}) is a value of `{names[0]}` ({listed(y)}). "
                "Predictions must be coded like the labels."
            )
        return _union(y, u)
    axis = tuple(labels)
    for levels, name in ((y, names[0]), (u, names[2])):
        unknown = [level for level in levels if level not in axis]
        if unknown:
            raise InputError(f"`{name}` holds {listed(unknown)}, not in `labels` ({listed(axis)}).")
    return axis


def _posterior_axis(
    labels: Sequence[Hashable] | None, y: Levels, columns: int, names: tuple[str, str, str]
) -> Levels:
    axis = y if labels is None else tuple(labels)
    unknown = [level for level in y if level not in axis]
    if unknown:
        raise InputError(f"`{names[0]}` holds {listed(unknown)}, not in `labels` ({listed(axis)}).")
    if len(axis) != columns:
        raise InputError(
            f"`{names[2]}` has {columns} columns for {len(axis)} labels ({listed(axis)}). "
            "Pass one column per label, and `labels=` if a label does not occur in the data."
        )
    return axis


def _place(table: Array, old: tuple[Levels, ...], new: tuple[Levels, ...]) -> Array:
    """The same table on longer or reordered axes."""
    if old == new:
        return table
    out = np.zeros([len(axis) for axis in new])
    out[
        np.ix_(
            *(
                [axis.index(level) for level in levels]
                for levels, axis in zip(old, new, strict=True)
            )
        )
    ] = table
    return out


def _diagonal(counts: Array) -> Array:
    out = np.zeros((*counts.shape, counts.shape[-1]))
    index = np.arange(counts.shape[-1])
    out[..., index, index] = counts
    return out


def _soft_sums(
    q: NDArray[Any],
    y: Codes,
    z: Codes,
    shape: tuple[int, int],
    weight: Array | None,
    name: str,
    want_moments: bool = True,
) -> tuple[Array, Array | None]:
    """Sums of w q and of w² q qᵀ in each cell (y, z): rows checked, sorted by cell, one product per
    cell and chunk.
    """
    k, cells = q.shape[1], shape[0] * shape[1]
    counts, moments = np.zeros((cells, k)), np.zeros((cells, k, k)) if want_moments else None
    narrow = (
        np.uint16 if cells <= 65_536 else np.intp
    )  # numpy sorts 16 bits by radix, ten times as fast
    for a in range(0, len(q), _CHUNK):
        rows = slice(a, a + _CHUNK)
        cell = (y[rows].astype(np.intp) * shape[1] + z[rows]).astype(narrow)
        order = np.argsort(cell, kind="stable")
        block = check_posteriors(q[rows], name, a)[order]
        if weight is not None:
            block *= weight[rows][order][:, None]
        ends = np.cumsum(np.bincount(cell, minlength=cells))
        for index, (start, stop) in enumerate(zip(np.r_[0, ends[:-1]], ends, strict=True)):
            if stop > start:
                counts[index] += np.ones(stop - start) @ block[start:stop]
                if moments is not None:
                    moments[index] += block[start:stop].T @ block[start:stop]
    return counts.reshape(*shape, k), None if moments is None else moments.reshape(*shape, k, k)
