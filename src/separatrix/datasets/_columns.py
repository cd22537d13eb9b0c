"""Raw columns: numbers with NaN for missing, or codes with their levels and -1 for missing.

Everything that a dataset or a user's frame holds becomes one of these two before it is scaled or
one-hot encoded. The level of a category is a text, the same one from a CSV file, a dataframe or an
array: 1, 1.0 and "1" agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError

__all__ = [
    "Coded",
    "Columns",
    "Values",
    "as_coded",
    "as_numbers",
    "from_codes",
    "level_text",
    "parsed",
    "raw_columns",
    "take",
]

_NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # 007 is a code, not a number


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
        name: Coded(values.codes[rows], values.levels)
        if isinstance(values, Coded)
        else values[rows]
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
        numbers = parsed(values.levels)
        if numbers is None:
            text = next(level for level in values.levels if not _NUMBER.fullmatch(level))
            raise InputError(
                f"Column `{name}` must hold numbers, got {text!r}. Correct the value or drop its "
                f"row."
            )
        return np.append(numbers, np.nan)[values.codes]  # code -1 takes the last one
    array = np.asarray(values)
    if array.dtype.kind == "O" or array.dtype.kind in "UST":
        return as_numbers(as_coded(array, name), name)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Column `{name}` must hold numbers, got {array.dtype}. Convert it to numbers first."
        )
    numbers = array.astype(np.float64)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise InputError(
            f"Column `{name}` holds an infinite value in row {row:,}. Replace it, or make it "
            f"missing (NaN)."
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
        raise InputError(
            f"Column `{name}` must hold categories (text, integers, booleans), got {array.dtype}."
        )
    places: defaultdict[Any, int] = defaultdict()
    places.default_factory = places.__len__
    try:
        codes = np.fromiter(
            map(places.__getitem__, array.tolist()), dtype=np.int32, count=len(array)
        )
    except TypeError as error:
        raise InputError(
            f"Column `{name}` holds values that cannot be categories ({error})."
        ) from error
    return from_codes(
        codes.astype(np.int32),
        [None if _is_missing(value) else level_text(value) for value in places],
    )


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT or a library's NA: none of them equals itself."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def from_codes(codes: NDArray[np.int32], texts: Sequence[str | None]) -> Coded:
    """Levels in sorted order, each once; None is missing."""
    levels = sorted({text for text in texts if text is not None})
    place = {text: code for code, text in enumerate(levels)}
    renumber = np.array([-1 if text is None else place[text] for text in texts], dtype=np.int32)
    return Coded(renumber[codes] if len(renumber) else codes, tuple(levels))


def parsed(levels: Sequence[str]) -> NDArray[np.float64] | None:
    """The levels as numbers, if all of them are."""
    if not all(map(_NUMBER.fullmatch, levels)):
        return None
    return np.array(list(map(float, levels)), dtype=np.float64)


def raw_columns(data: Any, names: Sequence[str]) -> Columns:
    """These columns of a mapping or of anything that narwhals takes."""
    if isinstance(data, Mapping):
        _check_present(names, list(data))
        return {name: _own(data[name], name) for name in names}
    frame = nw.from_native(data, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise InputError(
            f"Raw rows must be a dataframe or a mapping of column name to values, got "
            f"{type(data).__name__}. "
            "The columns are found by name, so an array will not do."
        )
    _check_present(names, frame.collect_schema().names())
    frame = frame.select(list(names))
    table = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: series_values(table[name]) for name in names}


def series_values(series: nw.Series[Any]) -> Values:
    """One column of a dataframe, encoded by the dataframe's own engine."""
    kind = series.dtype
    if kind.is_numeric():
        return _own(series.cast(nw.Float64).to_numpy(), series.name)
    if kind.is_temporal():
        raise InputError(
            f"Column `{series.name}` holds dates or times ({kind}). Turn it into numbers or "
            f"categories that mean "
            "something for the prediction (days since an event, month, weekday), or drop it."
        )
    if kind.is_nested() or kind == nw.Binary:
        raise InputError(
            f"Column `{series.name}` holds {kind}, neither numbers nor categories. Unpack or drop "
            f"it."
        )
    known = ~series.is_null().to_numpy()
    if not known.any():
        return np.full(len(known), np.nan)
    text = series.filter(~series.is_null())
    text = text if kind in (nw.Boolean, nw.Object) else text.cast(nw.String)
    distinct = text.unique().to_list()
    found = as_coded(
        np.array([*distinct, None], dtype=object)[:-1], series.name
    )  # None: never an array of texts
    codes = np.full(len(known), -1, dtype=np.int32)
    places = text.replace_strict(
        distinct, list(range(len(distinct))), return_dtype=nw.Int32
    ).to_numpy()
    codes[known] = found.codes[places]
    return Coded(codes, found.levels)


def _own(values: Any, name: str) -> Values:
    """Plain values: numbers where all are numbers (None is missing), else categories."""
    if isinstance(values, Coded):
        return values
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"Column `{name}` must be one value per row, got shape {array.shape}.")
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.tolist()}
        if kinds <= {int, float, type(None)} and kinds != {type(None)}:
            array = np.array(
                [np.nan if value is None else value for value in array.tolist()], dtype=np.float64
            )
    if array.dtype.kind in "fiu":
        return array.astype(np.float64)
    return as_coded(array, name)


def _check_present(names: Sequence[str], here: Sequence[str]) -> None:
    absent = [name for name in names if name not in here]
    if absent:
        raise InputError(
            f"The rows lack the column{'s' * (len(absent) > 1)} {', '.join(map(repr, absent[:5]))} "
            f"that the preprocessing was fitted on; they have {', '.join(map(str, here[:10]))}."
        )
