"""CountTable: the counts N[y, z, u] of labels, groups and predictions, with their names.

All that separatrix measures is read off this small table, so data of any size reduces to it once:
chunks, files and workers each make a table and the tables add. `columns.counting` makes tables of
raw columns; here are only numbers and the names of the axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce

import numpy as np

from separatrix.core.numbers import as_floats, one_number
from separatrix.core.numerics import Array, effective_rows
from separatrix.errors import InputError

Levels = tuple[Hashable, ...]  # the names that an axis stands for


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
        scale: what the weights were divided by. Tables of weighted parts add up to that of the
            whole, whatever the largest weight of each part is.

    >>> a = CountTable(np.ones((2, 1, 2)), (0, 1), ("f",), (0, 1), rows=4)
    >>> b = CountTable(np.ones((2, 1, 2)), (0, 1), ("m",), (0, 1), rows=4)
    >>> (a + b).groups, (a + b).rows
    (('f', 'm'), 8)
    """

    counts: Array
    labels: Levels
    groups: Levels
    predictions: Levels
    rows: int
    moments: Array | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        counts = as_floats(self.counts, "counts")
        axes = self.labels, self.groups, self.predictions
        for name, axis in zip(("labels", "groups", "predictions"), axes, strict=True):
            _check_axis(axis, name)
        shape = tuple(map(len, axes))
        if counts.shape != shape:
            raise InputError(f"`counts` has the shape {counts.shape}, but the names of its axes make {shape}.")
        if not np.isfinite(counts).all() or (counts < 0).any():
            raise InputError("`counts` must be finite and not negative.")
        rows = one_number(self.rows, "rows")
        if not (rows >= 0 and rows.is_integer()):
            raise InputError(f"`rows` must be a whole number, not negative, got {self.rows!r}.")
        if self.moments is not None and np.shape(self.moments) != (*shape, shape[2]):
            raise InputError(f"`moments` has the shape {np.shape(self.moments)}, not {(*shape, shape[2])}.")
        if not 0.0 < one_number(self.scale, "scale") < np.inf:
            raise InputError(f"`scale` must be a positive number, got {self.scale!r}.")
        object.__setattr__(self, "counts", counts)

    @classmethod
    def numbered(cls, counts: Array, moments: Array | None = None) -> CountTable:
        """A table whose labels, groups and predictions are called 0, 1, 2, …"""
        labels, groups, predictions = (tuple(range(k)) for k in counts.shape)
        return cls(counts, labels, groups, predictions, round(float(counts.sum())), moments)

    def simplest(self) -> CountTable:
        """The same table; without moments if its posteriors are one-hot and weigh one, since then
        it counts hard labels.
        """
        counts = self.counts
        hard = self.moments is not None and np.array_equal(self.moments, diagonal(counts))
        return replace(self, moments=None) if hard and (counts == np.round(counts)).all() else self

    @property
    def second_moments(self) -> Array:
        """S[y, z, u, u'], also where it is the diagonal of the counts."""
        return diagonal(self.counts) if self.moments is None else self.moments

    @property
    def weight_squares(self) -> Array:
        """Sum of the squared weights of each cell (y, z)."""
        return self.counts.sum(-1) if self.moments is None else self.moments.sum((-2, -1))

    @property
    def weighted(self) -> bool:
        """Whether some rows do not weigh one."""
        return not np.allclose(self.weight_squares, self.counts.sum(-1))

    @property
    def effective_rows(self) -> Array:
        r"""(Σ w)² / Σ w² of each cell (y, z): as many rows of weight one have the same variance."""
        return np.asarray(effective_rows(self.counts.sum(-1), self.weight_squares))

    @property
    def effective_size(self) -> float:
        """The effective rows of the whole table."""
        return float(effective_rows(self.counts.sum(), self.weight_squares.sum()))

    def law(self) -> Array:
        """The empirical joint distribution of (Y, Z, U)."""
        return self.counts / self.counts.sum()

    def __add__(self, other: CountTable) -> CountTable:
        """The table of both sets of rows; the axes become the union of both."""
        if not isinstance(other, CountTable):
            return NotImplemented
        old = [(t.labels, t.groups, t.predictions) for t in (self, other)]
        new = tuple(union(a, b) for a, b in zip(*old, strict=True))
        scale = max(self.scale, other.scale)
        parts = [(t, t.scale / scale, axes) for t, axes in zip((self, other), old, strict=True)]
        counts, moments = np.sum([size * place(t.counts, axes, new) for t, size, axes in parts], axis=0), None
        if self.moments is not None or other.moments is not None or self.scale != other.scale:
            pairs = [(size**2, t.second_moments, (*axes, axes[2])) for t, size, axes in parts]
            moments = np.sum([square * place(s, axes, (*new, new[2])) for square, s, axes in pairs], axis=0)
        labels, groups, predictions = new
        return CountTable(counts, labels, groups, predictions, self.rows + other.rows, moments, scale)

    @staticmethod
    def merge(tables: Sequence[CountTable]) -> CountTable:
        """The table of all rows of all tables."""
        if not tables:
            raise InputError("`tables` is empty: pass at least one CountTable to merge.")
        return reduce(CountTable.__add__, tables)


def place(table: Array, old: Sequence[Levels], new: Sequence[Levels]) -> Array:
    """The same table on longer or reordered axes."""
    if tuple(old) == tuple(new):
        return table
    out = np.zeros([len(axis) for axis in new])
    places = [[axis.index(level) for level in levels] for levels, axis in zip(old, new, strict=True)]
    out[np.ix_(*places)] = table
    return out


def diagonal(counts: Array) -> Array:
    """Second moments of one-hot rows: the counts on a diagonal."""
    return np.asarray(counts[..., None] * np.eye(counts.shape[-1]))


def _check_axis(levels: object, name: str) -> None:
    """Refuse an axis that is not a tuple of different names."""
    try:
        good = isinstance(levels, tuple) and len(set(levels)) == len(levels)
    except TypeError:  # a list among them
        good = False
    if not good:
        raise InputError(f"`{name}` must be a tuple of different names, got {levels!r}.")


def in_order(levels: Sequence[Hashable]) -> list[Hashable]:
    """The levels sorted; of kinds that do not compare by kind, then by value."""
    try:
        return sorted(levels)  # type: ignore[type-var]
    except (TypeError, ValueError):  # 1 and "1", say
        return sorted(levels, key=lambda level: (type(level).__name__, repr(level)))


def listed(levels: Sequence[Hashable]) -> str:
    """The first five, for a sentence.

    >>> listed(("f", "m"))
    "'f', 'm'"
    """
    return ", ".join(repr(level) for level in levels[:5]) + (", …" if len(levels) > 5 else "")


def suggestion(word: object, known: Iterable[object]) -> str:
    """The names that come close to a misspelt one, as a question; empty where none does.

    >>> suggestion("Yes", ("no", "yes")), suggestion("gender", ("sex", "age"))
    ("Did you mean 'yes'?", '')
    """
    by_text = {str(name).lower(): name for name in reversed(list(known))}
    near = get_close_matches(str(word).lower(), by_text, n=3, cutoff=0.7)
    return f"Did you mean {' or '.join(repr(by_text[text]) for text in near)}?" if near else ""


def union(a: Levels, b: Levels) -> Levels:
    """`a` if it holds `b`, else both in order."""
    return a if set(b) <= set(a) else tuple(in_order(list(dict.fromkeys((*a, *b)))))
