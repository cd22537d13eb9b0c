"""`Dataset` (what a file declares), `Data` (the rows), `Card` (what was read and dropped), and the
cross-validation folds of rows, stratified on (label, group), the same for every method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.draws import check_seed
from separatrix.columns.features import Columns
from separatrix.columns.groups import Grouping, as_groups, group_name, to_plain
from separatrix.columns.values import Coded, as_levels, check_lengths, encode
from separatrix.core.numerics import stratified_folds
from separatrix.datasets._files import File, find
from separatrix.datasets._preprocessing import Preprocessing
from separatrix.errors import InputError


@dataclass(frozen=True)
class Card:
    """Where the rows come from, under which licence, and what was done to them.

    Args:
        read_from: the files that were read and the sha256 of their content.
        dropped: what was left out, and why, one sentence each.
        notes: what a reader of a result must know.
        counts: rows, features, and rows of each label and group; filled in by `Data`.
    """

    name: str
    title: str
    source: str
    licence: str
    citation: str
    read_from: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Dataset:
    """What a file of this folder declares, without reading any data.

    Args:
        rows, features, labels, groups: sizes of what `read()` returns without options.
        read: reads it; its keyword arguments are the options of `load`.
        files: what must be there for `read()` without options.
        instead: says what else would do in place of `files` and is here, or None.
    """

    title: str
    source: str
    licence: str
    citation: str
    rows: int
    features: int
    labels: int
    groups: int
    read: Callable[..., Data]
    files: tuple[File, ...] = ()
    instead: Callable[[], str | None] | None = None

    def where(self) -> str | None:
        """Where its files are, or None if one is not here."""
        places = [find(file) for file in self.files]
        if None in places:
            return None if self.instead is None else self.instead()
        return ", ".join(dict.fromkeys(place for place in places if place)) or "generated"

    def card(
        self, name: str, read_from: Mapping[str, str], dropped: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> Card:
        """The card of one reading."""
        about = (name, self.title, self.source, self.licence, self.citation)
        return Card(*about, read_from, dropped, notes)


@dataclass(frozen=True, eq=False)
class Truth:
    """The law behind a synthetic sample.

    Args:
        law: p[x, y, z] of a finite law, None for a continuous one.
        posterior: P(Y = k | x, z) of each row, (n, K).
        posterior_x: P(Y = k | x) of each row, (n, K).
        x: the value of X of each row as a code of `law`'s first axis, None for a continuous law.
    """

    posterior: NDArray[np.float64]
    posterior_x: NDArray[np.float64]
    law: NDArray[np.float64] | None = None
    x: NDArray[np.intp] | None = None


@dataclass(frozen=True, eq=False)
class Data:
    """Rows ready for training: X, y, z and their names.

    Args:
        y, z: codes 0 … K-1 and 0 … G-1 of `labels` and `groups`.
        columns: the raw columns that `preprocessing` reads.
        preprocessing: fitted on all rows; None where X needs none.
        matrix: X itself where there is no preprocessing; may be a memory-map.
        matrix_names: its columns' names.
        truth: the law behind it, where that is known.
        target: the raw column that y was read from, where there is one.
        grouping: finds the group of new raw rows, where z follows from raw columns.
        units: who each row is about, where several rows may be about one person.
    """

    y: NDArray[np.intp]
    z: NDArray[np.intp]
    labels: tuple[Hashable, ...]
    groups: tuple[Hashable, ...]
    card: Card
    columns: Columns = field(default_factory=dict, repr=False)
    preprocessing: Preprocessing | None = field(default=None, repr=False)
    matrix: NDArray[np.float32] | None = field(default=None, repr=False)
    matrix_names: tuple[str, ...] = field(default=(), repr=False)
    truth: Truth | None = field(default=None, repr=False)
    target: str | None = None
    grouping: Grouping | None = None
    units: NDArray[np.intp] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for codes, levels, name in ((self.y, self.labels, "y"), (self.z, self.groups, "z")):
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(levels):
                got = f"{codes.min()} … {codes.max()}"
                raise InputError(f"`{name}` must hold codes 0 … {len(levels) - 1}, got {got}.")
        if (self.preprocessing is None) == (self.matrix is None):
            raise InputError("Data have either raw columns with their preprocessing or a matrix.")
        sizes = self.cells
        of_label = dict(zip(map(str, self.labels), sizes.sum(1).tolist(), strict=True))
        of_group = dict(zip(map(group_name, self.groups), sizes.sum(0).tolist(), strict=True))
        counts = {"rows": len(self), "features": len(self.features), "labels": of_label}
        counts["groups"] = of_group
        object.__setattr__(self, "card", replace(self.card, counts=counts))

    @staticmethod
    def from_columns(y: Coded, z: Coded, columns: Columns, plan: Preprocessing, card: Card, **more: Any) -> Data:
        """Labels, groups and raw columns, with `plan` fitted to all rows; `more` as in `Data`."""
        codes = y.codes.astype(np.intp), z.codes.astype(np.intp)
        return Data(*codes, y.levels, z.levels, card, columns, plan.fit(columns), **more)

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the rows themselves, features, labels and groups; never of a path."""
        digest = hashlib.sha256(repr((self.labels, self.groups, self.features)).encode())
        for array in (self.y.astype(np.int64), self.z.astype(np.int64), self.X):
            digest.update(repr((array.shape, array.dtype.str)).encode())
            for start in range(0, len(array), 1 << 16):
                digest.update(np.ascontiguousarray(array[start : start + (1 << 16)]).data)
        return digest.hexdigest()[:32]

    def describe(self) -> dict[str, Any]:
        """What a reader of results must know of these rows, as plain JSON."""
        return {
            "labels": [to_plain(label) for label in self.labels],
            "groups": [to_plain(group) for group in self.groups],
            "cells": self.cells.tolist(),
            "rows": len(self),
            "features": list(self.features),
            "target": self.target,
            "sensitive": None if self.grouping is None else list(self.grouping.columns),
            "card": self.card.to_dict(),
        }

    @cached_property
    def X(self) -> NDArray[np.float32]:
        """The features, scaled or one-hot with statistics of all rows; in a fold use `prepared`."""
        if self.matrix is not None:
            return self.matrix
        assert self.preprocessing is not None
        return self.preprocessing.transform(self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of X's columns."""
        return self.matrix_names if self.preprocessing is None else self.preprocessing.names

    @property
    def cells(self) -> NDArray[np.intp]:
        """Rows of each (label, group)."""
        shape = (len(self.labels), len(self.groups))
        return np.bincount(self.y * shape[1] + self.z, minlength=shape[0] * shape[1]).reshape(shape)

    @property
    def group_sizes(self) -> dict[Hashable, int]:
        """Rows of each group."""
        return dict(zip(self.groups, self.cells.sum(0).tolist(), strict=True))

    def prepared(self, rows: NDArray[Any]) -> tuple[NDArray[np.float32], Preprocessing | None]:
        """All rows of X with statistics of the training rows `rows`, and that preprocessing."""
        if self.preprocessing is None:
            return self.X, None
        fitted = self.preprocessing.refit(self.columns, rows)
        return (self.X if fitted == self.preprocessing else fitted.transform(self.columns)), fitted


def folds(
    y: ArrayLike, z: ArrayLike, n_folds: int = 5, random_state: int = 0, units: ArrayLike | None = None
) -> NDArray[np.intp]:
    """The fold of each row, stratified on the cells (y, z).

    The folds' sizes differ by at most one, a cell's rows are spread as evenly as whole rows allow,
    and a cell with at least `n_folds` rows is in every fold.

    Args:
        y, z: labels and groups.
        n_folds: how many, at least two.
        random_state: seed of the shuffle; the same seed gives the same folds.
        units: who each row is about: all rows of a unit are in one fold, stratified by the first.

    Returns:
        Integers 0 … n_folds - 1. Fold k tests on `fold == k` and trains on `fold != k`.

    >>> folds(["no", "no", "no", "yes", "yes", "yes"], ["f", "f", "m", "f", "m", "m"], n_folds=2)
    array([1, 0, 1, 0, 0, 1])
    """
    (y_codes, _), (z_codes, groups) = as_levels(y, "y"), as_groups(z, "z")
    check_lengths({"y": y_codes, "z": z_codes})
    who = None
    if units is not None:
        who = encode(units, "units").codes
        check_lengths({"y": y_codes, "units": who})
    cell = y_codes.astype(np.intp) * len(groups) + z_codes
    return stratified_folds(cell, n_folds, check_seed(random_state), who)
