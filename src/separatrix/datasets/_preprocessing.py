"""Raw columns to a float32 matrix: scaled numbers and dates, one-hot categories, bands.

Missing is a level of its own. A `Preprocessing` is fitted on training rows and then applied to any
raw rows by column name; it is plain JSON on disk. `refit` gives every cross-validation fold its own
statistics in the same layout, so that all folds have the same columns. A level that the fold's
training rows lack counts as unseen there; its column is idle, zero in every row, because no weight
behind it was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import (
    NOT_AVAILABLE,
    Values,
    as_category,
    as_days,
    as_numbers,
    number_text,
    raw_columns,
    take,
)
from separatrix.columns.values import Coded, check_lengths
from separatrix.errors import InputError

Matrix = NDArray[np.float32]
_LARGEST = 1e30  # of a number in float32, so that sums of it stay finite


@dataclass(frozen=True)
class Number:
    """A number: (x - mean) / scale, and a 0/1 column for missing if fitted rows had any.

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

    def numbers(self, values: Values) -> NDArray[np.float64]:
        """The column as numbers, NaN for missing."""
        return as_numbers(values, self.column)

    def fit(self, values: Values) -> Self:
        return replace(self, missing=bool(np.isnan(self.numbers(values)).any())).refit(values)

    def refit(self, values: Values) -> Self:
        x = self.numbers(values)
        known = x[~np.isnan(x)]
        idle = self.missing and len(known) == len(x)
        if not len(known):
            return replace(self, mean=0.0, scale=1.0, idle=idle)
        if np.abs(known).max() > _LARGEST:
            large = known[np.abs(known).argmax()]
            raise InputError(f"Column `{self.column}` holds {large:g}. Correct it, make it missing, or rescale it.")
        mean, spread = float(known.mean()), float(known.std())
        # the spread of a constant column is rounding; divided by it, any other value would blow up
        scale = spread if spread > 1e-12 * max(1.0, abs(mean)) else 1.0
        return replace(self, mean=mean, scale=scale, idle=idle)

    def fill(self, values: Values, out: Matrix) -> None:
        x = self.numbers(values)
        gone = np.isnan(x)
        scaled = np.where(gone, 0.0, (x - self.mean) / self.scale)
        if np.abs(scaled).max(initial=0.0) > _LARGEST:
            far = f"{x[np.abs(scaled).argmax()]:g}, too far from the mean of training, {self.mean:g}"
            raise InputError(f"Column `{self.column}` holds {far}. Correct it, or make it missing.")
        out[:, 0] = scaled
        if self.missing:
            out[:, 1] = gone & (not self.idle)


@dataclass(frozen=True)
class Date(Number):
    """A date or timestamp: the number of days since `first`, scaled like a `Number`.

    Args:
        first: the first date of the fitted rows, in days since 1970-01-01.

    >>> raw = {"when": ["2024-01-01", "2024-01-03"]}
    >>> fitted = Preprocessing((Date("when"),)).fit(raw)
    >>> fitted.transform({"when": ["2024-01-05"]})
    array([[3.]], dtype=float32)
    """

    first: float = 0.0

    def numbers(self, values: Values) -> NDArray[np.float64]:
        """Days since the first date."""
        return as_days(values, self.column) - self.first

    def fit(self, values: Values) -> Self:
        days = as_days(values, self.column)
        known = days[~np.isnan(days)]
        dated = replace(self, first=float(known.min()) if len(known) else 0.0)
        return super(Date, dated).fit(values)


@dataclass(frozen=True)
class Category:
    """A category: one 0/1 column per level; rare levels are joined as "(other)".

    Args:
        column: its name in the raw rows.
        levels: the levels with a column, in order; learnt by `fit` where empty.
        cap: how many levels `fit` gives a column: the most frequent ones.
        min_rows: the rows of a level that `fit` gives a column.
        other, missing: whether there are columns for the joined rare levels and for missing.
        idle: levels (also "(other)", "(missing)") that the fitted rows lack; they count as unseen.

    An unseen level counts as "(other)" if the fitted rows had that, else its columns are zero.
    """

    column: str
    levels: tuple[str, ...] = ()
    cap: int = 50
    other: bool = False
    missing: bool = False
    idle: tuple[str, ...] = ()
    min_rows: int = 1

    @property
    def _places(self) -> tuple[str, ...]:
        more = ("(other)",) * self.other + ("(missing)",) * self.missing
        return (*self.levels, *more)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={level}" for level in self._places)

    def coded(self, values: Values) -> Coded:
        """The column as codes of levels, -1 for missing."""
        return as_category(values, self.column)

    def fit(self, values: Values) -> Self:
        x = self.coded(values)
        counts = x.counts()
        levels, other = self.levels, self.other
        if not levels:
            often = np.flatnonzero(counts >= max(self.min_rows, 1))
            ranked = sorted(often, key=lambda code: (-counts[code], x.levels[code]))[: self.cap]
            levels = tuple(str(x.levels[code]) for code in sorted(ranked))
            other = len(ranked) < int(np.count_nonzero(counts))
        missing = self.missing or bool((x.codes < 0).any())
        return replace(self, levels=levels, other=other, missing=missing).refit(values)

    def refit(self, values: Values) -> Self:
        x = self.coded(values)
        seen = {level for level, count in zip(x.levels, x.counts(), strict=True) if count}
        if seen - set(self.levels):
            seen.add("(other)")
        if (x.codes < 0).any():
            seen.add("(missing)")
        return replace(self, idle=tuple(level for level in self._places if level not in seen))

    def fill(self, values: Values, out: Matrix) -> None:
        x = self.coded(values)
        place = {level: index for index, level in enumerate(self._places) if level not in self.idle}
        unseen = place.get("(other)", -1)
        gone = place.get("(missing)", unseen)
        index = []
        for level in map(str, x.levels):  # text may write 1 as 1.0 and a missing value as NA
            otherwise = gone if level in NOT_AVAILABLE else unseen
            index.append(place.get(level, place.get(number_text(level), otherwise)))
        index.append(gone)  # for code -1
        column = np.array(index)[x.codes]
        rows = np.flatnonzero(column >= 0)
        out[:] = 0
        out[rows, column[rows]] = 1


@dataclass(frozen=True)
class Band(Category):
    """A number in bands, its levels: one 0/1 column for each, edges[i-1] ≤ x < edges[i]."""

    edges: tuple[float, ...] = ()

    def coded(self, values: Values) -> Coded:
        """The band of each number."""
        x = as_numbers(values, self.column)
        return Coded(np.where(np.isnan(x), -1, np.searchsorted(self.edges, x, "right")), self.levels)

    def fit(self, values: Values) -> Self:
        if len(self.levels) != len(self.edges) + 1:
            raise InputError(f"`levels` of `{self.column}` must be {len(self.edges) + 1}, its edges plus one.")
        return super().fit(values)


Feature = Number | Date | Category | Band
_KINDS: dict[str, Any] = {"number": Number, "date": Date, "category": Category, "band": Band}


@dataclass(frozen=True)
class Preprocessing:
    """A fitted map from raw rows to a matrix.

    >>> raw = {"age": [20.0, 40.0, None], "job": ["cook", "nurse", "cook"]}
    >>> fitted = Preprocessing((Number("age"), Category("job"))).fit(raw)
    >>> fitted.names
    ('age', 'age=(missing)', 'job=cook', 'job=nurse')
    >>> fitted.transform({"job": ["pilot", "nurse"], "age": [30, 50]})  # unseen job: zeros
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

    def fit(self, data: Any) -> Preprocessing:
        """Learn layout (levels, missing columns) and statistics from all rows."""
        columns = raw_columns(data, self.columns)
        return Preprocessing(tuple(feature.fit(columns[feature.column]) for feature in self.features))

    def refit(self, data: Any, rows: NDArray[Any]) -> Preprocessing:
        """Learn the statistics from these rows and keep the layout."""
        columns = take(raw_columns(data, self.columns), rows)
        return Preprocessing(tuple(feature.refit(columns[feature.column]) for feature in self.features))

    def transform(self, data: Any) -> Matrix:
        """The matrix of raw rows (a dataframe or mapping); other columns are ignored."""
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
        return {"version": 1, "features": [{"kind": kinds[type(f)], **asdict(f)} for f in self.features]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preprocessing:
        """The inverse of `to_dict`, from JSON."""
        if (version := data.get("version")) != 1:
            raise InputError(f"This preprocessing has version {version!r}; only 1 can be read.")
        features = []
        for entry in data["features"]:
            fields = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
            kind = fields.pop("kind")
            if kind not in _KINDS:
                raise InputError(f"Unknown kind of feature {kind!r}; known are {', '.join(_KINDS)}.")
            features.append(_KINDS[kind](**fields))
        return cls(tuple(features))
