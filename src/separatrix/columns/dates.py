"""Dates and timestamps as numbers: days since 1970-01-01, NaN for missing.

Text is read in ISO form only: 2024-03-31, 2024-03-31T17:05, 2024-03-31 17:05:59Z; 31/03/24 may be
read in more than one way. Times with a zone are taken to UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Coded, as_array, is_missing
from separatrix.errors import InputError

__all__ = ["as_days", "date_text", "date_values", "is_date_text", "looks_like_dates"]

_ISO = re.compile(
    r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
    r"([T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}))?)?"
)
_OTHER = re.compile(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?")
_START = datetime(1970, 1, 1)
_DAY = 86_400.0


def looks_like_dates(values: Any, gone: frozenset[str]) -> str | None:
    """ "iso" or "other" where all texts are dates of that form, else None."""
    if not isinstance(values, Coded):
        return "iso" if values.dtype.kind == "M" else None
    texts = [str(level).strip() for level in values.levels if str(level).strip() not in gone]
    if not texts:
        return None
    if all(map(is_date_text, texts)):
        return "iso"
    return "other" if all(_ISO.fullmatch(t) or _OTHER.fullmatch(t) for t in texts) else None


def is_date_text(text: str) -> bool:
    """Whether a text is a date in ISO form that exists."""
    return _days(text) is not None


def as_days(values: Any, name: str, gone: frozenset[str]) -> NDArray[np.float64]:
    """Days since 1970-01-01 of dates or of ISO texts; texts in `gone` are missing."""
    if not isinstance(values, Coded):
        if values.dtype.kind == "f" and np.isnan(values).all():  # nothing is known: of any kind
            return np.asarray(values, dtype=np.float64)
        if values.dtype.kind != "M":
            raise InputError(f"Column `{name}` must hold dates, got {values.dtype}.")
        days = values.astype("M8[us]").astype(np.int64) / (1e6 * _DAY)
        return np.where(np.isnat(values), np.nan, days)
    found = []
    for level in map(str, values.levels):
        day = _days(level)
        if day is None and level.strip() not in gone:
            raise InputError(
                f"Column `{name}` must hold dates in ISO form such as 2024-03-31, got {level!r}. "
                "Correct the value or drop its row."
            )
        found.append(np.nan if day is None else day)
    return np.array([*found, np.nan])[values.codes]  # code -1 takes the last one


def date_values(values: Any) -> NDArray[np.datetime64] | None:
    """A column of dates of any library as datetime64[us]; None if it is no such column."""
    series = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        if series.dtype not in (nw.Date, nw.Datetime):
            return None if series.dtype != nw.Object else date_values(series.to_numpy())
        known = np.asarray((~series.is_null()).to_numpy(), dtype=bool)
        out = np.full(len(known), np.datetime64("NaT"), dtype="M8[us]")
        stamps = series.drop_nulls().dt.timestamp("us").to_numpy()
        out[known] = np.asarray(stamps, dtype=np.int64).astype("M8[us]")
        return out
    try:
        array = as_array(values, "dates")
    except InputError:  # whoever reads the column as something else says so, with its name
        return None
    if array.dtype.kind == "M":
        return array.astype("M8[us]")
    if array.dtype.kind != "O" or array.ndim != 1:
        return None
    items = array.tolist()
    gone = [is_missing(one) for one in items]
    real = [one for one, absent in zip(items, gone, strict=True) if not absent]
    if not real or not all(isinstance(one, date) for one in real):
        return None
    moments = [None if absent else _naive(one) for one, absent in zip(items, gone, strict=True)]
    return np.array(moments, dtype="M8[us]")


def date_text(day: float) -> str:
    """The date of a number of days.

    >>> date_text(19_812.5)
    '2024-03-30'
    """
    return str(np.datetime64(int(np.floor(day)), "D"))


def _naive(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    aware = value.tzinfo is not None
    return value.astimezone(UTC).replace(tzinfo=None) if aware else value


def _days(text: str) -> float | None:
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, rest = found.groups()
    iso = f"{year}-{month:0>2}-{day:0>2}{(rest or '').replace(',', '.').rstrip()}"
    try:
        return (_naive(datetime.fromisoformat(iso)) - _START).total_seconds() / _DAY
    except ValueError:  # 2023-02-30
        return None
