"""Delimited text to columns."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.columns import text as _csv
from separatrix.columns.text import read_csv
from separatrix.columns.values import Coded
from separatrix.errors import DataError


def values(column: object) -> list[object]:
    if isinstance(column, Coded):
        return [None if code < 0 else column.levels[code] for code in column.codes]
    assert isinstance(column, np.ndarray)
    return [None if np.isnan(x) else x for x in column]


@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(-1e9, 1e9),
            st.none() | st.text("abc ,;\"'é0", min_size=1, max_size=6).map(str.strip).filter(bool),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([1, 3, 100]),
)
def test_what_csv_writes_is_read_back(rows: list[tuple[float | None, str | None]], chunk: int) -> None:
    """Quotes, delimiters inside values, missing values; whatever the chunk of rows."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("x", "t"), *(("" if x is None else repr(x), t or "") for x, t in rows)])
    stream.seek(0)
    before, _csv._CHUNK = _csv._CHUNK, chunk
    try:
        columns = read_csv(stream, source="test")
    finally:
        _csv._CHUNK = before
    assert values(columns["x"]) == [x for x, _ in rows]
    if not all(t is None or set(t) <= {"0"} for _, t in rows):  # "0" alone is a number
        assert values(columns["t"]) == [t for _, t in rows]


def test_types_are_decided_by_all_values() -> None:
    text = ["a,b,c,d,e", "1,007,x,1e3,", "2,008,5,-.5,", "NA,009,6,3.,"]
    columns = read_csv(text, source="test")
    assert values(columns["a"]) == [1, 2, None]
    assert values(columns["b"]) == ["007", "008", "009"]  # leading zeros: codes
    assert values(columns["c"]) == ["x", "5", "6"]
    assert values(columns["d"]) == [1000, -0.5, 3]
    assert values(columns["e"]) == [None, None, None]


def test_only_the_wanted_columns_are_kept() -> None:
    assert list(read_csv(["a,b,c", "1,2,3"], source="test", only=["c", "a"])) == ["c", "a"]


def test_names_stand_as_they_are_and_a_byte_order_mark_is_dropped() -> None:
    header = ["a", "b ", "", ".1", "a.1"]
    assert list(read_csv(["\ufeffa,b ,,,a", "1,2,3,4,5"], source="test")) == header


def test_blank_lines_are_skipped() -> None:
    assert values(read_csv(["a,b", "", "1,2", "", "3,4", ""], source="test")["a"]) == [1, 3]


def test_a_short_row_is_an_error() -> None:
    with pytest.raises(DataError, match=r"rows.csv, near line 3: a row has 1 field \(3\), the header 2"):
        read_csv(["a,b", "1,2", "3"], source="rows.csv")


def test_a_missing_column_is_an_error() -> None:
    with pytest.raises(DataError, match=r"rows\.csv has no column 'age'. There are 'a', 'b'."):
        read_csv(["a,b", "1,2"], source="rows.csv", only=["age"])


def test_an_empty_file_is_an_error() -> None:
    with pytest.raises(DataError, match=r"rows\.csv is empty"):
        read_csv([], source="rows.csv")
