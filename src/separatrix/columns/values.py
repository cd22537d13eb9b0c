"""One column of anything as codes and levels: list, numpy, pandas, polars, pyarrow, masked.

Labels and groups keep their own values as levels (1 stays 1, True stays True, text stays text) and
must all be known. Errors about such a column are raised here: what was wrong, the value, its row,
and what to pass instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import Levels, in_order, listed, suggestion
from separatrix.errors import InputError

__all__ = [
    "MAX_LEVELS", "Coded", "Codes", "Levels", "as_array", "as_levels", "axis_of", "check_lengths",
    "check_levels", "code_levels", "encode", "in_order", "is_missing", "level_text", "listed",
    "objects", "one_column", "row_numbers", "suggestion",
]  # fmt: skip

Codes = NDArray[np.integer[Any]]
MAX_LEVELS = 1_000
_LOOK, _FEW = 4_096, 12  # rows that are looked at first, and how many levels may be few


@dataclass(frozen=True, eq=False)
class Coded:
    """A categorical column: `levels[codes[i]]` is the value of row i; code -1 is missing.

    >>> sex = as_levels(["m", "f", "m"], "sex")
    >>> sex.codes, sex.levels, sex.places(("f", "m", "x"), "sex")
    (array([1, 0, 1]), ('f', 'm'), array([1, 0, 1]))
    """

    codes: Codes
    levels: Levels

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Any]:
        """Codes, then levels: `codes, levels = as_levels(...)`."""
        return iter((self.codes, self.levels))

    def __getitem__(self, rows: Any) -> Coded:
        """The same column, only these rows (indices, a slice or a mask)."""
        return Coded(self.codes[rows], self.levels)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no value."""
        return np.asarray(self.codes < 0)

    def counts(self) -> NDArray[np.intp]:
        """Rows of each level, missing ones left out."""
        codes = self.codes if self.codes.dtype.kind == "u" else self.codes[self.codes >= 0]
        return np.bincount(codes, minlength=len(self.levels))

    def is_level(self, *levels: Hashable) -> NDArray[np.bool_]:
        """Which rows have one of these levels."""
        return np.isin(self.codes, [self.levels.index(level) for level in levels if level in self.levels])

    def values(self) -> NDArray[Any]:
        """The level of every row as an object; None where it is missing."""
        return objects([*self.levels, None])[self.codes]  # code -1 takes the last one

    def compact(self) -> Coded:
        """The same column with only the levels that occur."""
        seen = self.counts() > 0
        return self if seen.all() else self.renamed(self.levels, tuple(compress(self.levels, seen)))

    def renamed(self, names: Sequence[Hashable], levels: Levels) -> Coded:
        """The same rows where level i is now called `names[i]`; missing where that is not among `levels`."""
        position = {level: code for code, level in enumerate(levels)}
        codes = [position.get(name, -1) for name in names]
        return Coded(np.array([*codes, -1], dtype=np.intp)[self.codes], levels)  # code -1 takes the last one

    def with_missing_as(self, name: Hashable) -> Coded:
        """The same column, where rows without a value have a level of their own, the last one."""
        codes = np.where(self.missing, len(self.levels), self.codes)
        return Coded(codes.astype(np.intp), (*self.levels, name))

    def places(self, axis: Sequence[Hashable], name: str, otherwise: int = -1) -> NDArray[np.intp]:
        """Each row's position in `axis`, where 1, 1.0 and "1" are the same.

        A level that is not there has the position `otherwise`; without one it is an error.
        """
        # by level, and by its text: the first of those with the same one
        position = {_key(level): place for place, level in reversed([*enumerate(axis)])}
        position |= {level: place for place, level in enumerate(axis)}
        places = [position.get(level, position.get(_key(level), otherwise)) for level in self.levels]
        place = np.array(places, dtype=np.intp)
        if unknown := list(compress(self.levels, place < 0)):
            near = suggestion(unknown[0], axis)
            known = listed(tuple(axis))
            raise InputError(f"`{name}` holds {listed(unknown)}, which is not one of {known}. {near}".rstrip())
        return place[self.codes]


def _key(level: Hashable) -> Hashable:
    return ("text", *map(level_text, level if isinstance(level, tuple) else (level,)))


def level_text(value: Any) -> str:
    """The text of one level: booleans in lower case, whole numbers without a point.

    >>> [level_text(value) for value in (True, 3, 3.0, 2.5, "3")]
    ['true', '3', '3', '2.5', '3']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)


def as_levels(values: Any, name: str, *, missing: bool = False) -> Coded:
    """Codes and levels of one column, in sorted order and only those that occur.

    Args:
        values: a list, an array, a series of any library, or a `Coded`.
        name: what to call it in an error.
        missing: code missing values (None, NaN, NA, masked) as -1; otherwise they are an error.
    """
    coded = encode(values, name, missing=missing).compact()
    if not missing:
        check_levels(coded.levels, name)
    return coded


def encode(values: Any, name: str, *, missing: bool = False) -> Coded:
    """`as_levels` at one pass: small non-negative integers are their own codes.

    The levels of an integer column may include some that do not occur.
    """
    if isinstance(values, Coded):
        if not missing:
            refuse_missing(values.missing, name)
        return values
    x = one_column(values, name, missing=missing)
    if x.dtype.kind == "b":
        return Coded(x.view(np.uint8), code_levels(x, 2))
    if x.dtype.kind in "iu":
        # below 256 exactly if every value is in 0 … 255
        bits = int(np.bitwise_or.reduce(x))  # 0 of no rows
        if 0 <= bits < 256:
            return Coded(x, code_levels(x, bits + 1))
        low, high = int(x.min()), int(x.max())
        if high - low < 65_536:
            return Coded((x - low).astype(np.uint16), tuple(range(low, high + 1)))
    if x.dtype.kind == "O":
        return _encode_objects(x, name, missing)
    check = {"f": np.isnan, "m": np.isnat, "M": np.isnat}.get(x.dtype.kind)
    gone = np.False_ if check is None else check(x)
    codes, levels = _encode_sortable(x[~gone] if gone.any() else x)
    if gone.any():
        known, codes = codes, np.full(len(x), -1, dtype=np.intp)
        codes[~gone] = known
    return Coded(codes, tuple(levels.tolist()))


def code_levels(column: NDArray[Any], count: int) -> Levels:
    """What the codes 0, 1, … of a column of small integers or booleans stand for."""
    return tuple(map(bool, range(count))) if column.dtype.kind == "b" else tuple(range(count))


def as_array(values: Any, name: str) -> NDArray[Any]:
    """A numpy array of a list, an array, a series or a frame of any library."""
    if isinstance(values, list | tuple) and {str} < set(map(type, values)):
        return objects(values)  # numpy would make texts of numbers and of NaN
    try:
        if isinstance(values, np.ndarray):
            x = _unmasked(values) if isinstance(values, np.ma.MaskedArray) else values
        else:
            known = nw.from_native(values, allow_series=True, pass_through=True)
            x = np.asarray(known.to_numpy()) if isinstance(known, nw.Series | nw.DataFrame) else np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` cannot be read as an array: {error}.") from error
    if isinstance(values, str):
        raise InputError(f"`{name}` must be one column of values, got the text {values!r}. Pass the column itself.")
    if x.ndim == 0:
        raise InputError(f"`{name}` must be one column of values, got shape (): {values!r}.")
    return x


def one_column(values: Any, name: str, *, missing: bool = False) -> NDArray[Any]:
    """A one-dimensional numpy column; without missing values unless they are allowed."""
    tuples = isinstance(values, list | tuple) and tuple in set(map(type, values))
    x = objects(values) if tuples else as_array(values, name)  # numpy would make a matrix
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1:
        raise InputError(f"`{name}` must be one column of values, got shape {x.shape}.")
    if x.dtype.kind == "f" and not np.isfinite([x.min(initial=0.0), x.max(initial=0.0)]).all():
        if not missing:
            refuse_missing(np.isnan(x), name)
        if (infinite := np.isinf(x)).any():
            raise InputError(f"`{name}` holds an infinite value in row {row_numbers(infinite)}; levels are finite.")
    if x.dtype.kind in "mM" and not missing:
        refuse_missing(np.isnat(x), name)
    if x.dtype.kind in "cV":
        raise InputError(f"`{name}` holds {x.dtype}, such as {x[:1].tolist()}; labels and groups are categories.")
    return x


def _unmasked(x: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """What is masked is missing: NaN among floats, else None."""
    gone, plain = np.ma.getmaskarray(x), np.asarray(x)
    if not gone.any():
        return plain
    if plain.dtype.kind == "f":
        return np.where(gone, np.nan, plain)
    known = plain.astype(object)
    known[gone] = None
    return known


def axis_of(levels: Any, name: str) -> Levels:
    """The levels that a caller listed: each once, none missing."""
    try:
        axis: Levels = () if isinstance(levels, str | bytes | Mapping) else tuple(levels)
        if not axis or len(set(axis)) < len(axis) or any(map(is_missing, axis)):
            raise TypeError
    except TypeError as error:
        raise InputError(f"`{name}` must list levels, each once and none missing, got {levels!r}.") from error
    return axis


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """A column of Python objects."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _encode_sortable(x: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
    """Codes of text, floats, dates. Few levels: compared one by one, much faster than a sort."""
    levels = np.unique(x[:_LOOK])
    while len(x) > _LOOK and len(levels) <= _FEW:
        codes = np.full(len(x), len(levels), dtype=np.uint8)
        for code, level in enumerate(levels):
            # faster than an assignment under a mask
            codes -= (x == level).view(np.uint8) * np.uint8(len(levels) - code)
        rest = codes == len(levels)
        if not rest.any():
            return codes, levels
        levels = np.union1d(levels, x[rest])  # and those that the first rows did not show
    levels, places = np.unique(x, return_inverse=True)
    return places, levels


def _encode_objects(x: NDArray[Any], name: str, missing: bool) -> Coded:
    """Codes of Python objects: one hash per row, and sorting only of the distinct values."""
    try:
        levels = list(dict.fromkeys(x.tolist()))
    except TypeError as error:
        raise InputError(f"`{name}` holds values that cannot be levels ({error}). Pass strings or integers.") from error
    known = [level for level in levels if not is_missing(level)]
    if not missing and len(known) < len(levels):
        refuse_missing(np.fromiter(map(is_missing, x), dtype=bool, count=len(x)), name)
    # half precision would overflow where it is compared with the others
    known = [level.item() if isinstance(level, np.floating) else level for level in known]
    for level in known:
        if isinstance(level, complex) or (isinstance(level, float) and np.isinf(level)):
            raise InputError(f"`{name}` holds {level!r}; labels and groups are categories or finite numbers.")
    known = in_order(known)
    position = {level: code for code, level in enumerate(known)}
    codes = (position.get(value, -1) for value in x.tolist())  # what is missing is not there
    return Coded(np.fromiter(codes, dtype=np.intp, count=len(x)), tuple(known))


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or a library's NA, none of which equals itself; or a tuple that holds one."""
    if value is None or isinstance(value, tuple):
        return value is None or any(map(is_missing, value))
    same = value == value
    return not (same if isinstance(same, bool | np.bool_) else type(same).__name__ != "NAType")


def refuse_missing(missing: NDArray[np.bool_], name: str) -> None:
    """Refuse a column with missing values, with the rows where they are."""
    if missing.any():
        count = int(missing.sum())
        raise InputError(
            f"`{name}` has {count:,} missing value{'s' * (count > 1)} (row{'s' * (count > 1)} {row_numbers(missing)}). "
            'Drop those rows or give missing its own level: `column.fillna("missing")`.'
        )


def check_levels(levels: Sequence[Hashable], name: str) -> None:
    """Refuse a column with more levels than a table can hold, most often an identifier."""
    if len(levels) > MAX_LEVELS:
        raise InputError(
            f"`{name}` has {len(levels):,} distinct values (such as {levels[0]!r}, {levels[1]!r}); at most "
            f"{MAX_LEVELS:,} make sense. Is it an identifier or a score? Pass a categorical column, or bin it."
        )


def check_lengths(columns: Mapping[str, Any]) -> int:
    """The common number of rows, at least one."""
    for name, column in columns.items():
        if not hasattr(column, "__len__") or getattr(column, "shape", None) == ():
            raise InputError(f"`{name}` must be one column of values, got {column!r}.")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"`{name}` {length:,}" for name, length in list(lengths.items())[:6])
        raise InputError(f"All columns need the same number of rows, got {sizes}.")
    n = next(iter(lengths.values()))
    if n == 0:
        names = ", ".join(f"`{name}`" for name in list(lengths)[:6])
        raise InputError(f"There are no rows: {names} are empty.")
    return n


def row_numbers(bad: NDArray[np.bool_], first: int = 0) -> str:
    """The first three of these rows, for a sentence."""
    rows = np.flatnonzero(bad) + first
    return ", ".join(f"{row:,}" for row in rows[:3]) + (", …" if len(rows) > 3 else "")
