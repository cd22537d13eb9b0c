"""Raw columns to a float32 matrix: numbers scaled, categories one-hot, numbers in bands; missing is
a level of its own.

A `Preprocessing` is fitted on training rows only and then applied to any raw rows by column name,
where it was trained or in the deployed predictor; it is plain JSON on disk. `refit` gives every
cross-validation fold its own statistics in the same layout, so that all folds have the same
columns: a level that the fold's training rows do not hold is treated as the deployed predictor
treats an unseen level, and its column is idle: zero in every row, because the weights behind it
were never trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import (
    NOT_AVAILABLE,
    Values,
    as_category,
    as_numbers,
    number_text,
    raw_columns,
    take,
)
from separatrix.columns.values import check_lengths
from separatrix.errors import InputError

__all__ = ["Band", "Category", "Feature", "Number", "Preprocessing"]

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Number:
    """A number: (x - mean) / scale, with a 0/1 column for missing where the fitted rows had missing
    values.

    A missing value takes the mean, so it adds nothing but its own column.
    """

    column: str
    missing: bool = False
    mean: float = 0.0
    scale: float = 1.0
    idle: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column, f"{self.column}=(missing)") if self.missing else (self.column,)

    def fit(self, values: Values) -> Number:
        return replace(self, missing=bool(np.isnan(as_numbers(values, self.column)).any())).refit(
            values
        )

    def refit(self, values: Values) -> Number:
        x = as_numbers(values, self.column)
        known = x[~np.isnan(x)]
        idle = self.missing and len(known) == len(x)
        if not len(known):
            return replace(self, mean=0.0, scale=1.0, idle=idle)
        mean, spread = float(known.mean()), float(known.std())
        # A constant column has only rounding for a spread; dividing by that would blow up the first
        # other value.
        scale = spread if spread > 1e-12 * max(1.0, abs(mean)) else 1.0
        return replace(self, mean=mean, scale=scale, idle=idle)

    def fill(self, values: Values, out: Matrix) -> None:
        x = as_numbers(values, self.column)
        gone = np.isnan(x)
        out[:, 0] = np.where(gone, 0.0, (x - self.mean) / self.scale)
        if self.missing:
            out[:, 1] = gone & (not self.idle)


@dataclass(frozen=True)
class Category:
    """A category: one 0/1 column per level, the rarer levels beyond `cap` joined as "(other)",
    missing a level.

    Args:
        column: its name in the raw rows.
        levels: the levels with a column, in order; learnt by `fit` where empty.
        cap: how many levels `fit` gives a column: the most frequent ones.
        other, missing: whether there are columns for the joined rarer levels and for missing
            values.
        idle: levels, "(other)" and "(missing)" among them, that the fitted rows did not hold; they
            count as unseen.

    An unseen level is "(other)" where the fitted rows had such; otherwise the row has zeros.
    """

    column: str
    levels: tuple[str, ...] = ()
    cap: int = 50
    other: bool = False
    missing: bool = False
    idle: tuple[str, ...] = ()

    @property
    def _places(self) -> tuple[str, ...]:
        return (
            *self.levels,
            *(["(other)"] if self.other else []),
            *(["(missing)"] if self.missing else []),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={level}" for level in self._places)

    def fit(self, values: Values) -> Category:
        x = as_category(values, self.column)
        counts = x.counts()
        levels, other = self.levels, self.other
        if not levels:
            ranked = sorted(
                np.flatnonzero(counts), key=lambda code: (-counts[code], x.levels[code])
            )
            levels = tuple(str(x.levels[code]) for code in sorted(ranked[: self.cap]))
            other = len(ranked) > self.cap
        missing = self.missing or bool((x.codes < 0).any())
        return replace(self, levels=levels, other=other, missing=missing).refit(x)

    def refit(self, values: Values) -> Category:
        x = as_category(values, self.column)
        here = {level for level, count in zip(x.levels, x.counts(), strict=True) if count}
        if here - set(self.levels):
            here.add("(other)")
        if (x.codes < 0).any():
            here.add("(missing)")
        return replace(self, idle=tuple(level for level in self._places if level not in here))

    def fill(self, values: Values, out: Matrix) -> None:
        x = as_category(values, self.column)
        place = {level: index for index, level in enumerate(self._places) if level not in self.idle}
        unseen = place.get("(other)", -1)
        gone = place.get("(missing)", unseen)
        # One entry per level of the data, and the last one for code -1. Rows that come as text may
        # write 1 as 1.0 and a missing value as NA.
        index = [
            place.get(
                level, place.get(number_text(level), gone if level in NOT_AVAILABLE else unseen)
            )
            for level in map(str, x.levels)
        ]
        index.append(gone)
        _one_hot(np.array(index)[x.codes], out)


@dataclass(frozen=True)
class Band:
    """A number in bands: one 0/1 column per band, band i for edges[i-1] ≤ x < edges[i]; missing is
    its own band.
    """

    column: str
    edges: tuple[float, ...]
    bands: tuple[str, ...]
    missing: bool = False
    idle: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            f"{self.column}={band}"
            for band in (*self.bands, *(["(missing)"] if self.missing else []))
        )

    def _index(self, values: Values) -> NDArray[np.intp]:
        x = as_numbers(values, self.column)
        return np.where(
            np.isnan(x),
            len(self.bands) if self.missing else -1,
            np.searchsorted(self.edges, x, "right"),
        )

    def fit(self, values: Values) -> Band:
        if len(self.bands) != len(self.edges) + 1:
            raise InputError(
                f"`bands` of `{self.column}` must be {len(self.edges) + 1}, one more than its "
                f"edges."
            )
        missing = self.missing or bool(np.isnan(as_numbers(values, self.column)).any())
        return replace(self, missing=missing).refit(values)

    def refit(self, values: Values) -> Band:
        here = np.bincount(self._index(values) + 1, minlength=len(self.names) + 1)[1:]
        return replace(self, idle=tuple(np.flatnonzero(here == 0).tolist()))

    def fill(self, values: Values, out: Matrix) -> None:
        index = self._index(values)
        index[np.isin(index, self.idle)] = -1
        _one_hot(index, out)


def _one_hot(index: NDArray[np.intp], out: Matrix) -> None:
    """A one in column `index` of each row; none where it is -1."""
    rows = np.flatnonzero(index >= 0)
    out[:] = 0
    out[rows, index[rows]] = 1


Feature = Number | Category | Band
_KINDS: dict[str, Any] = {"number": Number, "category": Category, "band": Band}


@dataclass(frozen=True)
class Preprocessing:
    """A fitted map from raw rows to a matrix.

    >>> raw = {"age": [20.0, 40.0, None], "job": ["cook", "nurse", "cook"]}
    >>> fitted = Preprocessing((Number("age"), Category("job"))).fit(raw)
    >>> fitted.names
    ('age', 'age=(missing)', 'job=cook', 'job=nurse')
    >>> fitted.transform({"job": ["pilot", "nurse"], "age": [30, 50]})          # a job that was not seen: zeros
    array([[0., 0., 0., 0.],
           [2., 0., 0., 1.]], dtype=float32)
    >>> Preprocessing.from_dict(fitted.to_dict()) == fitted
    True
    """

    features: tuple[Feature, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that rows must have."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(name for feature in self.features for name in feature.names)

    def fit(self, data: Any, rows: NDArray[Any] | None = None) -> Preprocessing:
        """Learn layout (levels, missing columns) and statistics from these rows of raw data, or
        from all.
        """
        return self._fitted(data, rows, "fit")

    def refit(self, data: Any, rows: NDArray[Any] | None = None) -> Preprocessing:
        """Learn the statistics from these rows and keep the layout."""
        return self._fitted(data, rows, "refit")

    def _fitted(self, data: Any, rows: NDArray[Any] | None, how: str) -> Preprocessing:
        columns = raw_columns(data, self.columns)
        columns = columns if rows is None else take(columns, rows)
        return Preprocessing(
            tuple(getattr(feature, how)(columns[feature.column]) for feature in self.features)
        )

    def transform(self, data: Any) -> Matrix:
        """The matrix of raw rows: a dataframe or a mapping of columns; other columns than ours are
        ignored.
        """
        columns = raw_columns(data, self.columns)
        n = len(next(iter(columns.values()), ()))
        if any(map(len, columns.values())):
            check_lengths(columns)
        out = np.empty((n, len(self.names)), dtype=np.float32)
        start = 0
        for feature in self.features:
            width = len(feature.names)
            feature.fill(columns[feature.column], out[:, start : start + width])
            start += width
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        kinds = {kind: name for name, kind in _KINDS.items()}
        return {
            "version": 1,
            "features": [{"kind": kinds[type(f)], **asdict(f)} for f in self.features],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocessing:
        """The inverse of `to_dict`, from JSON."""
        if data.get("version") != 1:
            raise InputError(
                f"This preprocessing has version {data.get('version')!r}; this separatrix reads "
                f"version 1."
            )
        features = []
        for entry in data["features"]:
            fields = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in entry.items()
            }
            kind = fields.pop("kind")
            if kind not in _KINDS:
                raise InputError(
                    f"Unknown kind of feature {kind!r}; known are {', '.join(_KINDS)}."
                )
            features.append(_KINDS[kind](**fields))
        return cls(tuple(features))
