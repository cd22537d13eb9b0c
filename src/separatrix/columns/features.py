"""Raw feature columns: numbers (NaN missing), dates (NaT missing) or categories (code -1 missing).

The level of a category is a text; 1, 1.0 and "1" from a file, a frame or an array agree.

Dates are days since 1970-01-01. Text is read in ISO form only: 2024-03-31, 2024-03-31T17:05,
2024-03-31 17:05:59Z; 31/03/24 may be read in more than one way. Times with a zone are taken to UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from separatrix.columns.frames import as_frame, named_columns
from separatrix.columns.values import Coded, as_array, as_levels, is_missing, level_text, row_numbers
from separatrix.errors import InputError

Values = NDArray[Any] | Coded
Columns = Mapping[str, Values]
NOT_AVAILABLE = frozenset({"NA", "N/A", "NaN", "nan", "null", "NULL"})  # among numbers only
_DATES = "Column `{name}` holds dates or times ({what}). Turn it into categories such as month or weekday, or drop it."
_ISO = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"([T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?"
)
_OTHER = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?")
_START = datetime(1970, 1, 1)
_DAY = 86_400.0
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
        texts = list(map(str, values.levels))
        for text in texts:
            if not is_number(text) and text not in NOT_AVAILABLE:
                raise InputError(f"Column `{name}` must hold numbers, got {text!r}. Correct the value or drop its row.")
        parsed = [float(text) if is_number(text) else np.nan for text in texts]
        return np.array([*parsed, np.nan])[values.codes]  # code -1 takes the last one
    array = as_array(values, name)
    if array.dtype.kind in "OUST":
        return as_numbers(as_category(array, name), name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"Column `{name}` must hold numbers, got {array.dtype}. Convert it to numbers first.")
    numbers: NDArray[np.float64] = array.astype(np.float64)
    if (infinite := np.isinf(numbers)).any():
        raise InputError(f"Column `{name}` holds an infinite value in row {row_numbers(infinite)}. Make it NaN.")
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
            raise InputError(f"Column `{name}` must hold categories (text, integers, booleans), got {level!r}.")
    texts = list(map(level_text, coded.levels))
    plain = all(isinstance(level, int | float) for level in coded.levels)
    return coded.renamed(texts, tuple(texts if plain else sorted(set(texts))))  # numbers keep their own order


def raw_columns(data: Any, names: Sequence[str]) -> dict[str, Values]:
    """These columns of a mapping or a frame; an array's are called x0, x1, …"""
    array = np.asarray(data) if isinstance(data, list | np.ndarray) else None
    if array is not None and array.ndim == 2 and all(re.fullmatch(r"x\d+", column) for column in names):
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
    columns = raw_columns(X, names).items()
    return pd.DataFrame({name: x.values() if isinstance(x, Coded) else x for name, x in columns})


def as_matrix(X: Any, names: Sequence[str]) -> NDArray[np.float32]:
    """The columns of training as float32 (n, d): by name from a frame, by place from a matrix.

    >>> as_matrix({"age": [31, 44], "hours": [40.0, 20.0]}, ["hours", "age"])
    array([[40., 31.],
           [20., 44.]], dtype=float32)
    """
    if isinstance(X, Mapping) or as_frame(X, "X") is not None:
        if not names:
            raise InputError("`X` has names, but the matrix of training had none: pass a matrix of the same columns.")
        columns = raw_columns(X, names)
        return np.column_stack([as_numbers(columns[name], name) for name in names]).astype(np.float32)
    try:
        rows = as_array(X, "X").astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"`X` must hold numbers: {error}.") from error
    if rows.ndim != 2 or (names and rows.shape[1] != len(names)):
        raise InputError(f"`X` must be a matrix of the {len(names) or ''} columns of training, got shape {rows.shape}.")
    return rows


def raw_values(values: Any, name: str) -> Values:
    """Numbers where all are numbers (None is missing), dates, durations in days, or categories."""
    if isinstance(values, Coded):
        return values
    try:
        series = nw.from_native(values, allow_series=True, pass_through=True)
    except NarwhalsError as error:
        raise InputError(f"Column `{name}` must be one column of values: {error}.") from error
    if isinstance(series, nw.Series):
        kind = series.dtype
        if kind in (nw.Date, nw.Datetime):
            stamps = series.drop_nulls().dt.timestamp("us").to_numpy()
            dates = np.full(len(series), np.datetime64("NaT"), dtype="M8[us]")
            dates[(~series.is_null()).to_numpy()] = np.asarray(stamps, dtype=np.int64)
            return dates
        if kind.is_temporal() and kind != nw.Duration:
            raise InputError(_DATES.format(name=name, what=kind))
        if kind.is_nested() or kind == nw.Binary:
            raise InputError(f"Column `{name}` holds {kind}, neither numbers nor categories. Unpack or drop it.")
        if kind.is_numeric():
            return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    array = as_array(values, name)
    if array.ndim != 1:
        raise InputError(f"Column `{name}` must be one value per row, got shape {array.shape}.")
    if array.dtype.kind == "O":
        kinds = set(map(type, array.tolist()))
        if kinds <= {int, float, type(None)}:  # None becomes NaN
            array = array.astype(np.float64)
        elif any(issubclass(kind, date) for kind in kinds):
            moments = [None if is_missing(item) else item for item in array.tolist()]
            if any(moments) and all(isinstance(moment, date | None) for moment in moments):
                array = np.array([moment and _naive(moment) for moment in moments], dtype="M8[us]")
    if array.dtype.kind == "M":
        return array.astype("M8[us]")
    if array.dtype.kind == "m":
        return np.asarray(array.astype("m8[ns]") / np.timedelta64(1, "D"), dtype=np.float64)
    return array.astype(np.float64) if array.dtype.kind in "fiu" else as_category(array, name)


def looks_like_dates(values: Values) -> str | None:
    """ "iso" or "other" where all texts are dates of that form, else None."""
    if not isinstance(values, Coded):
        return "iso" if values.dtype.kind == "M" else None
    texts = {str(level).strip() for level in values.levels} - NOT_AVAILABLE
    if texts and all(_days(text) is not None for text in texts):
        return "iso"
    dates = (_ISO.fullmatch(text) or _OTHER.fullmatch(text) for text in texts)
    return "other" if texts and all(dates) else None


def as_days(values: Values, name: str) -> NDArray[np.float64]:
    """Days since 1970-01-01 of dates or of ISO texts, NaN for missing."""
    if not isinstance(values, Coded):
        if values.dtype.kind == "f" and np.isnan(values).all():  # nothing is known: of any kind
            return np.asarray(values, dtype=np.float64)
        if values.dtype.kind != "M":
            raise InputError(f"Column `{name}` must hold dates, got {values.dtype}.")
        return np.where(np.isnat(values), np.nan, values.astype("M8[us]").astype(np.int64) / (1e6 * _DAY))
    day_of = [_days(str(level)) for level in values.levels]
    for level, day in zip(values.levels, day_of, strict=True):
        if day is None and str(level).strip() not in NOT_AVAILABLE | {""}:
            raise InputError(f"Column `{name}` must hold dates in ISO form (2024-03-31), got {level!r}. Drop its row.")
    return np.array([*day_of, None], dtype=np.float64)[values.codes]  # code -1 takes the last one


def date_text(day: float) -> str:
    """The date of a number of days.

    >>> date_text(19_812.5)
    '2024-03-30'
    """
    return str(np.datetime64(int(np.floor(day)), "D"))


def _naive(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _days(text: str) -> float | None:
    """Days since 1970-01-01 of a date in ISO form that exists; None of any other text."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, rest = match.groups()
    iso = f"{year}-{month:0>2}-{day:0>2}{(rest or '').replace(',', '.').rstrip()}"
    try:
        return (_naive(datetime.fromisoformat(iso)) - _START).total_seconds() / _DAY
    except ValueError:  # 2023-02-30
        return None
