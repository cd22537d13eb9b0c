"""Groups: the levels of one sensitive column, or the combinations of several columns.

A group of one column is that column's level. A group of several columns is the tuple of their
levels, such as ('f', 'old'); `group_name` prints it as "f & old", and in JSON it is a list.
Several columns may be a frame, a mapping of names to columns, an (n, k) array or a list of k
columns. A list of tuples is a single column whose values are groups already.

A column of numbers with more than `FEW` distinct values makes no groups of its own: most would be
tiny. It is cut at its quartiles. The edges are values that occur, they are saved with the model
(`Grouping`), and every number falls into one bin, so new rows are binned in the same way.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from math import isfinite
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import is_number, raw_values
from separatrix.columns.frames import as_frame, named_columns
from separatrix.columns.values import (
    Coded,
    Levels,
    as_array,
    as_levels,
    check_lengths,
    check_levels,
    encode,
    level_text,
    refuse_missing,
)
from separatrix.core.numbers import one_of
from separatrix.errors import InputError

FEW = 12
_BINS = 4
MISSING = "(missing)"  # the group of rows without one, where they have their own
OTHER = "(other)"  # the group of rows whose own has too few rows; then the last one
_MOST_COLUMNS = 32  # more can only be rows that were passed as columns


def as_groups(values: Any, name: str = "sensitive_features") -> Coded:
    """The group of every row, from one or several columns.

    >>> as_groups([["f", "m", "f"], [1, 2, 2]]).levels          # a list of two columns
    (('f', 1), ('f', 2), ('m', 2))
    >>> as_groups([("f", 1), ("m", 2), ("f", 2)]).codes         # a list of three groups
    array([0, 2, 1])
    """
    if isinstance(values, Coded):
        return as_levels(values, name)
    return intersect({column: as_levels(x, column) for column, x in group_columns(values, name).items()})


def group_codes(values: Any, groups: Sequence[Hashable], n: int, name: str, otherwise: int = -1) -> NDArray[np.intp]:
    """Positions of the rows' groups in `groups`, one per row; an unknown group is an error."""
    codes = as_groups(values, name).places(groups, name, otherwise)
    if len(codes) != n:
        raise InputError(f"`{name}` must have one group per row, {n:,}, got {len(codes):,}.")
    return codes


def group_columns(values: Any, name: str = "sensitive_features") -> dict[str, Any]:
    """One or several columns by name; columns without a name are called after the argument."""
    if values is None:
        raise InputError(f"`{name}` is missing. Pass one group per row, as an array, a series or a frame.")
    if isinstance(values, Mapping):
        columns = {str(key): column for key, column in values.items()}
    elif (frame := as_frame(values, name)) is not None:
        table = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        columns = {column: table[column] for column in table.columns}
    elif isinstance(values, list | tuple) and values and all(map(_is_column, values)):
        columns = {_own_name(x, f"{name}{i}"): x for i, x in enumerate(values)}
        if len(columns) < len(values):
            raise InputError(f"Two columns of `{name}` have the same name. Rename one of them.")
        columns = {name: values[0]} if len(values) == 1 else columns
    elif isinstance(values, list | tuple):
        return {name: values}
    else:
        array = as_array(values, name)
        if array.ndim < 2 or array.shape[1] == 1:
            return {_own_name(values, name): values if array.ndim < 2 else array[:, 0]}
        if array.ndim > 2:
            raise InputError(f"`{name}` must be columns of groups, got shape {array.shape}.")
        columns = {f"{name}{i}": array[:, i] for i in range(array.shape[1])}
    if not columns:
        raise InputError(f"`{name}` has no columns. Pass at least one.")
    if len(columns) > _MOST_COLUMNS:
        raise InputError(
            f"`{name}` has {len(columns):,} columns, at most {_MOST_COLUMNS} make groups. Are they rows? Pass those as "
            "tuples, or an array of shape (n, k)."
        )
    return columns


def _is_column(value: Any) -> bool:
    """A list, an array or a series; a tuple is one value, and so is text."""
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | tuple | int | float | Mapping)


def _own_name(values: Any, default: str) -> str:
    known = nw.from_native(values, allow_series=True, pass_through=True)
    series_name = known.name if isinstance(known, nw.Series) else None
    return str(series_name) if series_name not in (None, "") else default


def without_missing(columns: Mapping[str, Any], groups: Sequence[str], choice: str) -> dict[str, Any]:
    """A table whose rows without a group are left out ("drop"), or are a group of their own ("own").

    >>> table = {"sex": ["f", None, "m"], "y": [0, 1, 1]}
    >>> without_missing(table, ["sex"], "own")["sex"].levels, without_missing(table, ["sex"], "drop")["y"]
    (('f', 'm', '(missing)'), array([0, 1]))
    """
    one_of(choice, "missing_groups", "drop", "own")
    coded = {name: as_levels(columns[name], name, missing=True) for name in groups}
    if choice == "own":
        named = {name: column for name, column in coded.items() if column.missing.any()}
        return {**columns, **{name: column.with_missing_as(MISSING) for name, column in named.items()}}
    known = ~np.any([column.missing for column in coded.values()], axis=0)
    if not known.any():
        raise InputError(f"No row has a group in {' & '.join(groups)}.")
    return {name: x[known] if isinstance(x, Coded) else as_array(x, name)[known] for name, x in columns.items()}


def intersect(parts: Mapping[str, Coded]) -> Coded:
    """The combinations of several coded columns that occur; one column is itself."""
    check_lengths(parts)
    coded = list(parts.values())
    if len(coded) == 1:
        return coded[0]
    shape = tuple(len(column.levels) for column in coded)
    cells, codes = np.unique(np.ravel_multi_index([column.codes for column in coded], shape), return_inverse=True)
    places = np.transpose(np.unravel_index(cells, shape)).tolist()
    levels = tuple(tuple(column.levels[i] for column, i in zip(coded, place, strict=True)) for place in places)
    check_levels(levels, " & ".join(parts))
    return Coded(codes.astype(np.intp), levels)


def group_name(group: Hashable, columns: Sequence[str] = ()) -> str:
    """A group in print, with the columns' names where they are known and not the argument's own.

    >>> group_name(("f", 3)), group_name("f", ["sex"]), group_name(("f", 3), ["sex", "ward"])
    ('f & 3', 'sex=f', 'sex=f & ward=3')
    """
    levels = group if isinstance(group, tuple) else (group,)
    if len(columns) != len(levels) or columns[0].startswith("sensitive_features"):
        return " & ".join(map(str, levels))
    return " & ".join(f"{column}={level}" for column, level in zip(columns, levels, strict=True))


def to_plain(value: Any) -> Any:
    """Levels and what is told of them as JSON has it.

    A tuple becomes a list, a number that is not finite null, and what JSON does not know text.
    """
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return list(map(to_plain, value))
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def from_plain(level: Any) -> Any:
    """The inverse of `to_plain`.

    >>> from_plain(to_plain(("f", np.int64(3))))
    ('f', 3)
    """
    return tuple(map(from_plain, level)) if isinstance(level, list) else level


def edges_of(columns: Mapping[str, Any], categorical: Sequence[str] = ()) -> dict[str, tuple[float, ...]]:
    """The edges of those sensitive columns that must be put into bins.

    >>> edges_of({"age": list(range(18, 66)), "race": [1, 2, 3] * 16})
    {'age': (30.0, 42.0, 54.0)}
    """
    edges = {}
    for name, values in columns.items():
        few = name in categorical or len(encode(values, name, missing=True).compact().levels) <= FEW
        numbers = None if few else numbers_of(values, name)
        if numbers is not None and len(np.unique(numbers[~np.isnan(numbers)])) > FEW:
            edges[name] = quantile_edges(numbers)
    return edges


def numbers_of(values: Any, name: str) -> NDArray[np.float64] | None:
    """A column of numbers as such; None for text, booleans, dates and tuples."""
    if isinstance(values, Coded):
        return None
    if isinstance(values, list | tuple) and any(isinstance(value, tuple | bool) for value in values):
        return None
    raw = raw_values(values, name)
    if isinstance(raw, Coded) or raw.dtype.kind != "f":
        return None
    return np.where(np.isinf(raw), np.nan, raw)  # infinite ones are refused later


def quantile_edges(x: NDArray[np.float64]) -> tuple[float, ...]:
    """Inner edges of about four bins with as many rows each; NaN is left out.

    >>> quantile_edges(np.arange(18.0, 66.0))
    (30.0, 42.0, 54.0)
    >>> quantile_edges(np.array([0.0] * 90 + [1.0, 2.0, 3.0]))
    (1.0,)
    """
    known = np.sort(x[~np.isnan(x)])
    cuts = np.quantile(known, np.arange(1, _BINS) / _BINS, method="higher")
    edges = np.unique(cuts[cuts > known[0]])
    if not len(edges):  # one value has most of the rows: it against the rest
        edges = known[known > known[0]][:1]
    return tuple(edges.tolist())


def bin_labels(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of the bins.

    >>> bin_labels((28.0, 41.5))
    ('below 28', '28 to below 41.5', '41.5 or more')
    """
    texts = list(map(level_text, edges))
    middle = (f"{low} to below {high}" for low, high in pairwise(texts))
    return (f"below {texts[0]}", *middle, f"{texts[-1]} or more")


def binned(values: Any, edges: Sequence[float], name: str) -> Coded:
    """The bin of each row, codes in the order of the bins; a bin's name is taken as well.

    >>> binned(["41", 17, None, "28 to below 41.5"], (28.0, 41.5), "age").codes
    array([ 1,  0, -1,  1])
    """
    labels = bin_labels(edges)
    coded = as_levels(values, name, missing=True)
    names = list(coded.levels)
    for i, level in enumerate(names):
        if level not in labels:
            text = level_text(level)
            if isinstance(level, bool) or not is_number(text):
                raise InputError(f"`{name}` holds {level!r}; its groups are made of numbers: {', '.join(labels)}.")
            names[i] = labels[int(np.searchsorted(edges, float(text), "right"))]
    return coded.renamed(names, labels)


@dataclass(frozen=True)
class Grouping:
    """The groups of a trained model, found again in new rows by column name; plain JSON on disk.

    Args:
        columns: the sensitive columns.
        groups: the groups in the order of their codes; tuples for several columns.
        edges: inner edges of the columns of numbers that were put into bins.
        missing: whether rows without a value are a group of their own, "(missing)".
        other: whether the last group is "(other)", for rows of any other group.

    >>> grouping = Grouping(("sex", "member"), (("f", False), ("f", True), ("m", True)))
    >>> grouping.codes({"member": [True, True, False], "sex": ["m", "f", "f"]})
    array([2, 1, 0])
    >>> Grouping(("age",), ("below 40", "40 or more"), {"age": (40.0,)}).codes({"age": [17, 40]})
    array([0, 1])
    """

    columns: tuple[str, ...]
    groups: Levels
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: bool = False
    other: bool = False

    @property
    def _otherwise(self) -> int:
        """The place of an unknown group; -1 where it is an error."""
        return len(self.groups) - 1 if self.other else -1

    def merged(self, z: Coded, min_rows: int) -> tuple[Coded, Grouping]:
        """Groups of fewer rows joined as "(other)", and the grouping that finds them again."""
        rare = z.counts() < min_rows
        if not rare.any():
            return z, replace(self, groups=z.levels)
        last = OTHER if len(self.columns) == 1 else (OTHER,) * len(self.columns)
        groups = (*compress(z.levels, ~rare), last)
        names = [last if few else level for level, few in zip(z.levels, rare, strict=True)]
        return z.renamed(names, groups), replace(self, groups=groups, other=True)

    def codes(self, data: Any) -> NDArray[np.intp]:
        """The group's code of each row of a frame or a mapping; an unknown group is an error."""
        return self._codes(named_columns(data, self.columns, "X"))

    def codes_of(self, values: Any, n: int, name: str = "sensitive_features") -> NDArray[np.intp]:
        """The same from the sensitive columns alone, by name or in the order of `columns`."""
        given = group_columns(values, name)
        if len(given) == 1 < len(self.columns):  # tuples: groups already
            return group_codes(values, self.groups, n, name, self._otherwise)
        if len(given) != len(self.columns):
            raise InputError(f"`{name}` must be the columns {', '.join(self.columns)}, got {len(given)} columns.")
        named = set(given) == set(self.columns)
        columns = given if named else dict(zip(self.columns, given.values(), strict=True))
        codes = self._codes({column: columns[column] for column in self.columns})
        if len(codes) != n:
            raise InputError(f"`{name}` must have one group per row, {n:,}, got {len(codes):,}.")
        return codes

    def _codes(self, columns: Mapping[str, Any]) -> NDArray[np.intp]:
        parts = {column: self.part(values, column) for column, values in columns.items()}
        return intersect(parts).places(self.groups, " & ".join(self.columns), self._otherwise)

    def part(self, values: Any, column: str) -> Coded:
        """One sensitive column as levels: binned, and with missing values as asked."""
        edges = self.edges.get(column)
        coded = as_levels(values, column, missing=self.missing) if edges is None else binned(values, edges, column)
        if not coded.missing.any():
            return coded
        if not self.missing:
            refuse_missing(coded.missing, column)
        return coded.with_missing_as(MISSING)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {"columns": list(self.columns)}
        plain["groups"] = [to_plain(group) for group in self.groups]
        if self.edges:
            plain["edges"] = {column: list(edges) for column, edges in self.edges.items()}
        return plain | {flag: True for flag in ("missing", "other") if getattr(self, flag)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Grouping:
        """The inverse of `to_dict`, from JSON."""
        edges = {column: tuple(map(float, e)) for column, e in data.get("edges", {}).items()}
        groups = tuple(map(from_plain, data["groups"]))
        flags = (bool(data.get(flag, False)) for flag in ("missing", "other"))
        return cls(tuple(data["columns"]), groups, edges, *flags)
