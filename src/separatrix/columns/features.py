"""Raw feature columns: numbers (NaN missing), dates (NaT missing) or categories (code -1 missing).

The level of a category is a text; 1, 1.0 and "1" from a file, a frame or an array agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from separatrix.columns.dates import date_values
from separatrix.columns.frames import as_frame, named_columns
from separatrix.columns.values import Coded, as_array, as_levels, level_text, row_numbers
from separatrix.errors import InputError

__all__ = [
    "NOT_AVAILABLE", "Columns", "Values", "as_category", "as_matrix", "as_named_frame",
    "as_numbers", "is_number", "number_text", "raw_columns", "raw_values", "take",
]  # fmt: skip

Values = NDArray[Any] | Coded
Columns = Mapping[str, Values]
NOT_AVAILABLE = frozenset({"NA", "N/A", "NaN", "nan", "null", "NULL"})  # among numbers only
_DATES = (
    "Column `{name}` holds dates or times ({what}), which are no categories. Turn it into some "
    "that mean something for the prediction (month, weekday, hour), or drop it."
)
_NUMBER = re.compile(r"[+-]?(?!0\d)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")  # 007 is a code, not a number


def is_number(text: str) -> bool:
    """Whether a text is a number; leading zeros make it a code."""
    return _NUMBER.fullmatch(text) is not None


def number_text(text: str) -> str:
    """The text of a level that may be a number: "1.0" is "1"."""
    return level_text(float(text)) if is_number(text) else text


def take(columns: Columns, rows: NDArray[Any]) -> dict[str, Values]:
    """The same columns, only these rows (indices or a mask)."""
    return {name: values[rows] for name, values in columns.items()}


def as_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """A column as float64 with NaN for missing; text other than numbers is refused."""
    if isinstance(values, Coded):
        parsed = []
        for level in map(str, values.levels):
            if not is_number(level) and level not in NOT_AVAILABLE:
                raise InputError(
                    f"Column `{name}` must hold numbers, got {level!r}. Correct the value or drop "
                    "its row."
                )
            parsed.append(float(level) if is_number(level) else np.nan)
        return np.array([*parsed, np.nan])[values.codes]  # code -1 takes the last one
    array = as_array(values, name)
    if array.dtype.kind in "OUST":
        return as_numbers(as_category(array, name), name)
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"Column `{name}` must hold numbers, got {array.dtype}. Convert it to numbers first."
        )
    numbers: NDArray[np.float64] = array.astype(np.float64)
    if np.isinf(numbers).any():
        raise InputError(
            f"Column `{name}` holds an infinite value in row {row_numbers(np.isinf(numbers))}. "
            "Replace it, or make it missing (NaN)."
        )
    return numbers


def as_category(values: Any, name: str) -> Coded:
    """A column as codes and texts; None, NaN and the like become -1."""
    coded = as_levels(values, name, missing=True)
    if all(type(level) is str for level in coded.levels):
        return coded
    for level in coded.levels:
        if not isinstance(level, str | int | float | bytes):
            if isinstance(level, date):
                raise InputError(_DATES.format(name=name, what=repr(level)))
            raise InputError(
                f"Column `{name}` must hold categories (text, integers, booleans), got {level!r}."
            )
    texts = list(map(level_text, coded.levels))
    plain = all(isinstance(level, int | float) for level in coded.levels)
    levels = texts if plain else sorted(set(texts))  # numbers keep their own order
    place = {text: code for code, text in enumerate(levels)}
    renumber = np.array([*(place[text] for text in texts), -1], dtype=np.int32)
    return Coded(renumber[coded.codes], tuple(levels))


def raw_columns(data: Any, names: Sequence[str]) -> dict[str, Values]:
    """These columns of a mapping or a frame; an array's are called x0, x1, …"""
    array = np.asarray(data) if isinstance(data, list | np.ndarray) else None
    if array is not None and array.ndim == 2 and all(re.fullmatch(r"x\d+", own) for own in names):
        data = {f"x{i}": array[:, i] for i in range(array.shape[1])}
    return {name: raw_values(x, name) for name, x in named_columns(data, names, "X").items()}


def as_named_frame(X: Any, names: Sequence[str]) -> Any:
    """These columns as a pandas frame, for a classifier that reads its columns by name.

    A pandas frame keeps its types; other frames, mappings and files become columns of numbers and
    text.
    """
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        named_columns(X, names, "X")  # names what is missing
        return X[list(names)]
    columns = raw_columns(X, names)
    return pd.DataFrame({name: _plain_values(columns[name]) for name in names})


def _plain_values(values: Values) -> NDArray[Any]:
    """Text instead of codes; missing is None."""
    if not isinstance(values, Coded):
        return values
    levels = np.array([*values.levels, None], dtype=object)
    return np.asarray(levels[values.codes])


def as_matrix(X: Any, names: Sequence[str]) -> NDArray[np.float32]:
    """The columns of training as float32 (n, d): by name from a frame, by place from a matrix.

    >>> as_matrix({"age": [31, 44], "hours": [40.0, 20.0]}, ["hours", "age"])
    array([[40., 31.],
           [20., 44.]], dtype=float32)
    """
    if isinstance(X, Mapping) or as_frame(X, "X") is not None:
        if not names:
            raise InputError(
                "`X` has names, but the matrix of training had none: pass a matrix with its "
                "columns in the same order."
            )
        columns = raw_columns(X, names)
        numbers = [as_numbers(columns[name], name) for name in names]
        return np.column_stack(numbers).astype(np.float32)
    try:
        rows = as_array(X, "X").astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"`X` must hold numbers: {error}.") from error
    if rows.ndim != 2 or (names and rows.shape[1] != len(names)):
        raise InputError(
            f"`X` must have one row per person and the {len(names) or ''} columns of training, got "
            f"shape {rows.shape}."
        )
    return rows


def raw_values(values: Any, name: str) -> Values:
    """Numbers where all are numbers (None is missing), dates, durations in days, or categories."""
    if isinstance(values, Coded):
        return values
    try:
        if (dates := date_values(values)) is not None:
            return dates
        series = nw.from_native(values, allow_series=True, pass_through=True)
    except NarwhalsError as error:
        raise InputError(f"Column `{name}` must be one column of values: {error}.") from error
    if isinstance(series, nw.Series):
        kind = series.dtype
        if kind == nw.Duration:
            return _in_days(np.asarray(series.to_numpy()))
        if kind.is_temporal():
            raise InputError(_DATES.format(name=name, what=kind))
        if kind.is_nested() or kind == nw.Binary:
            raise InputError(
                f"Column `{name}` holds {kind}, neither numbers nor categories. Unpack or drop it."
            )
        if kind.is_numeric():
            return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"Column `{name}` must be one value per row, got shape {array.shape}.")
    if array.dtype.kind == "m":
        return _in_days(array)
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.tolist()}
        if kinds <= {int, float, type(None)}:  # None becomes NaN
            array = array.astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind in "fiu" else as_category(array, name)


def _in_days(durations: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(durations.astype("m8[ns]") / np.timedelta64(1, "D"), dtype=np.float64)
