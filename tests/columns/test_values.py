"""One column of anything: the same codes and levels from every library, one sentence otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from separatrix.columns.values import as_levels
from separatrix.errors import InputError

TEXT = ["b", "a", "b", "c"]
NUMBERS = [3, 1, 3, 2]
MAKERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "objects": lambda x: np.array(x, dtype=object),
    "masked": lambda x: np.ma.array(x),
    "pandas": pd.Series,
    "categorical": lambda x: pd.Series(x, dtype="category"),
    "polars": pl.Series,
    "arrow": pa.chunked_array,
    "arrow array": pa.array,
    "column": lambda x: np.array(x)[:, None],
}


@pytest.mark.parametrize("values", [TEXT, NUMBERS, [True, False, True, True], [0.5, 2.0, 0.5, 1.0]])
@pytest.mark.parametrize("maker", MAKERS)
def test_every_library_gives_the_same_codes_and_levels(maker, values):
    if maker == "arrow":
        values = [values]
    coded = as_levels(MAKERS[maker](values), "y")
    values = values[0] if maker == "arrow" else values
    assert coded.levels == tuple(sorted(set(values)))
    assert [type(level) for level in coded.levels] == [type(x) for x in sorted(set(values))]
    assert [coded.levels[code] for code in coded.codes] == values


@pytest.mark.parametrize("kind", ["Int64", "Int8", "UInt16", "int64[pyarrow]"])
def test_nullable_integers_are_integers(kind):
    assert as_levels(pd.Series(NUMBERS, dtype=kind), "y").levels == (1, 2, 3)


@pytest.mark.parametrize("kind", ["string", "string[pyarrow]", "object", "category"])
def test_text_types_of_pandas_agree(kind):
    coded = as_levels(pd.Series(TEXT, dtype=kind), "y")
    assert coded.levels == ("a", "b", "c")
    np.testing.assert_array_equal(coded.codes, [1, 0, 1, 2])


MISSING = {
    "None": ["a", None, "b"],
    "NaN among text": ["a", float("nan"), "b"],
    "NaN": np.array([1.0, np.nan, 2.0]),
    "Int64": pd.Series([1, None, 2], dtype="Int64"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "string": pd.Series(["a", None, "b"], dtype="string"),
    "category": pd.Series(["a", None, "b"], dtype="category"),
    "polars": pl.Series(["a", None, "b"]),
    "polars integers": pl.Series([1, None, 2]),
    "arrow": pa.chunked_array([["a", None, "b"]]),
    "masked": np.ma.array([1, 5, 2], mask=[0, 1, 0]),
    "NaT": np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="M8[D]"),
    "a tuple that holds one": [("f", 1), ("f", None), ("m", 1)],
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_refused_or_coded(kind):
    with pytest.raises(InputError, match=r"`y` has 1 missing value \(row 1\)"):
        as_levels(MISSING[kind], "y")
    coded = as_levels(MISSING[kind], "y", missing=True)
    np.testing.assert_array_equal(coded.codes, [0, -1, 1] if kind != "boolean" else [1, -1, 0])


def test_positions_are_found_by_value_and_then_by_text():
    coded = as_levels([1.0, 2.0], "z")
    np.testing.assert_array_equal(coded.places((2, 1), "z"), [1, 0])
    np.testing.assert_array_equal(coded.places(("1", "2"), "z"), [0, 1])
    np.testing.assert_array_equal(as_levels([1, "1"], "z").places(("1", 1), "z"), [1, 0])
    with pytest.raises(InputError, match=r"`z` holds 2\.0, which is not one of 1, 3"):
        coded.places((1, 3), "z")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((2, 2)), "must be one column"),
        ([1j, 2j], "complex"),
        ([[1], [1, 2]], "cannot be read"),
        ([{}, {}], "cannot be levels"),
        ([np.inf, 1.0], "infinite value in row 0"),
        (np.arange(2_000), "2,000 distinct values"),
        (3, "must be one column"),
    ],
)
def test_what_is_no_column_is_one_sentence(values, message):
    with pytest.raises(InputError, match=message):
        as_levels(values, "y")
