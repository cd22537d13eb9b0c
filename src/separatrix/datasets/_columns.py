"""Raw columns: numbers with NaN for missing, or codes with their levels and -1 for missing.

Everything that a dataset or a user's frame holds becomes one of these two before it is scaled or one-hot encoded. The
level of a category is a text, the same one from a CSV file, a dataframe or an array: 1, 1.0 and "1" agree.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import DataError, InputError

__all__ = ["MISSING_TEXT", "Coded", "Columns", "Values", "as_coded", "as_numbers", "level_text", "read_csv", "take"]

MISSING_TEXT = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})
_NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # 007 is a code, not a number
_CHUNK = 100_000  # rows of text in memory at a time


@dataclass(frozen=True, eq=False)
class Coded:
    """A categorical column: `levels[codes[i]]` is the value of row i; code -1 is missing."""

    codes: NDArray[np.int32]
    levels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def counts(self) -> NDArray[np.intp]:
        """Rows of each level, missing ones left out."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))

    def is_level(self, *levels: str) -> NDArray[np.bool_]:
        """Which rows have one of these levels."""
        wanted = [self.levels.index(level) for level in levels if level in self.levels]
        return np.isin(self.codes, wanted)


Values = NDArray[np.float64] | Coded
Columns = Mapping[str, Values]


def take(columns: Columns, rows: NDArray[Any]) -> dict[str, Values]:
    """The same columns, only these rows (indices or a mask)."""
    return {
        name: Coded(values.codes[rows], values.levels) if isinstance(values, Coded) else values[rows]
        for name, values in columns.items()
    }


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


def as_numbers(values: Values | Any, name: str) -> NDArray[np.float64]:
    """A column as float64 with NaN for missing; text is refused."""
    if isinstance(values, Coded):
        numbers = _numbers(values.levels)
        if numbers is None:
            text = next(level for level in values.levels if not _NUMBER.fullmatch(level))
            raise InputError(f"Column `{name}` must hold numbers, got {text!r}. Correct the value or drop its row.")
        return np.append(numbers, np.nan)[values.codes]  # code -1 takes the last one
    array = np.asarray(values)
    if array.dtype.kind == "O" or array.dtype.kind in "UST":
        return as_numbers(as_coded(array, name), name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"Column `{name}` must hold numbers, got {array.dtype}. Convert it to numbers first.")
    numbers = array.astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise InputError(
            f"Column `{name}` holds an infinite value in row {row:,}. Replace it, or make it missing (NaN)."
        )
    return numbers


def as_coded(values: Values | Any, name: str) -> Coded:
    """A column as codes and levels; None, NaN and the like become -1."""
    if isinstance(values, Coded):
        return values
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"Column `{name}` must be one value per row, got shape {array.shape}.")
    if array.dtype.kind in "fiub":
        distinct, codes = np.unique(array, return_inverse=True)
        if array.dtype.kind == "f" and len(distinct) and np.isnan(distinct[-1]):
            codes = np.where(codes == len(distinct) - 1, -1, codes)
            distinct = distinct[:-1]
        return Coded(codes.astype(np.int32), tuple(map(level_text, distinct.tolist())))
    if array.dtype.kind not in "OUST":
        raise InputError(f"Column `{name}` must hold categories (text, integers, booleans), got {array.dtype}.")
    places: defaultdict[Any, int] = defaultdict()
    places.default_factory = places.__len__
    try:
        codes = np.fromiter(map(places.__getitem__, array.tolist()), dtype=np.int32, count=len(array))
    except TypeError as error:
        raise InputError(f"Column `{name}` holds values that cannot be categories ({error}).") from error
    return _coded(codes.astype(np.int32), [None if _is_missing(value) else level_text(value) for value in places])


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT or a library's NA: none of them equals itself."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _coded(codes: NDArray[np.int32], texts: Sequence[str | None]) -> Coded:
    """Levels in sorted order, each once; None is missing."""
    levels = sorted({text for text in texts if text is not None})
    place = {text: code for code, text in enumerate(levels)}
    renumber = np.array([-1 if text is None else place[text] for text in texts], dtype=np.int32)
    return Coded(renumber[codes] if len(renumber) else codes, tuple(levels))


def _numbers(levels: Sequence[str]) -> NDArray[np.float64] | None:
    """The levels as numbers, if all of them are."""
    if not all(map(_NUMBER.fullmatch, levels)):
        return None
    return np.array(list(map(float, levels)), dtype=np.float64)


def read_csv(
    lines: Iterable[str],
    *,
    source: str,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    missing: frozenset[str] = MISSING_TEXT,
) -> dict[str, Values]:
    """Columns of delimited text: numbers where every value is one, else categories. One pass, chunks of rows.

    Args:
        lines: the text, line by line.
        source: what to call it in an error.
        header: the names, where the first line does not hold them.
        only: the columns to keep; the others never leave this function.
        missing: texts that stand for a missing value.

    Raises:
        DataError: a column of `only` is not there, or a row has another number of fields than the header.

    >>> read_csv(["age,job", "41,cook", "NA,nurse"], source="example")["age"]
    array([41., nan])
    """
    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    names = _distinct(next(rows, []) if header is None else header)
    wanted = names if only is None else list(only)
    absent = [name for name in wanted if name not in names]
    if absent or not names:
        raise DataError(
            f"{source} has no column {absent[0]!r}: its columns are {', '.join(names[:20])}. Is it the right file?"
            if absent
            else f"{source} is empty."
        )
    index = {name: names.index(name) for name in wanted}
    places: dict[str, defaultdict[str, int]] = {name: defaultdict() for name in wanted}
    codes: dict[str, list[NDArray[np.int32]]] = {name: [] for name in wanted}
    for place in places.values():
        place.default_factory = place.__len__
    try:
        while block := list(islice(rows, _CHUNK)):
            chunk = [row for row in block if row]  # blank lines
            if not chunk:
                continue
            if set(map(len, chunk)) != {len(names)}:
                bad = next(row for row in chunk if len(row) != len(names))
                raise DataError(
                    f"{source}, near line {rows.line_num:,}: a row has {len(bad)} fields ({', '.join(bad)[:60]}), the "
                    f"header {len(names)}. The file is truncated or damaged, or its delimiter is not {delimiter!r}."
                )
            table = list(zip(*chunk, strict=True))
            for name in wanted:
                column = map(places[name].__getitem__, table[index[name]])
                codes[name].append(np.fromiter(column, dtype=np.int32, count=len(chunk)))
    except csv.Error as error:
        raise DataError(f"{source}, line {rows.line_num:,}: {error}.") from error
    return {
        name: _typed(np.concatenate(codes[name] or [np.empty(0, np.int32)]), places[name], missing) for name in wanted
    }


def _typed(codes: NDArray[np.int32], places: Mapping[str, int], missing: frozenset[str]) -> Values:
    texts = [None if text.strip() in missing else text.strip() for text in places]
    numbers = _numbers([text for text in texts if text is not None])
    if numbers is None or not len(numbers):
        return _coded(codes, texts)
    values = np.full(len(texts), np.nan)
    values[[place for place, text in enumerate(texts) if text is not None]] = numbers
    return values[codes]


def _distinct(names: Iterable[str]) -> list[str]:
    """Column names, a repeated one with a number behind it, as pandas writes them."""
    seen: dict[str, int] = {}
    out = []
    for name in (name.strip().removeprefix("\ufeff") for name in names):
        out.append(f"{name}.{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return out
