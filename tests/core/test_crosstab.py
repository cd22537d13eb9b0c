"""Counting combinations of codes: both ways agree with adding one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.core import crosstab as room
from separatrix.core.crosstab import crosstab, crosstab_small
from separatrix.errors import InputError


def one_by_one(columns, shape, weight=1.0):
    out = np.zeros(shape)
    np.add.at(out, tuple(columns), weight)
    return out


@pytest.mark.slow
@given(st.integers(1, 300), st.tuples(*[st.integers(1, 6)] * 3), st.integers(0, 2**32 - 1), st.sampled_from("bBhilL?"))
def test_the_table_equals_adding_one_row_at_a_time(n, shape, seed, kind):
    rng = np.random.default_rng(seed)
    shape = tuple(min(k, 2) for k in shape) if kind == "?" else shape
    columns = [rng.integers(0, k, n).astype(kind) for k in shape]
    codes = [column.astype(int) for column in columns]
    np.testing.assert_array_equal(crosstab(columns, shape), one_by_one(codes, shape))
    small = crosstab_small(columns)
    if small is not None:
        np.testing.assert_array_equal(small, one_by_one(codes, small.shape))
    weight = rng.random(n)
    np.testing.assert_allclose(crosstab(columns, shape, weight), one_by_one(codes, shape, weight))


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1_000, 5_000])
def test_levels_that_come_late_widen_the_table(rows, monkeypatch):
    """Chunks, blocks and threads each see other levels: as with sorted data."""
    monkeypatch.setattr(room, "_CHUNK", 256)
    monkeypatch.setattr(room, "_SPAN", 256)
    monkeypatch.setattr(room, "_BLOCK", 64)
    columns = [np.sort(np.arange(rows) % k) for k in (2, 5, 3)]
    np.testing.assert_array_equal(
        crosstab_small(columns), one_by_one(columns, [1 << int(c.max()).bit_length() for c in columns])
    )


@pytest.mark.parametrize("value", [-1, 256, 2**40])
def test_codes_that_are_not_small_are_left_to_others(value):
    column = np.zeros(1_000, dtype=np.int64)
    column[-1] = value
    assert crosstab_small([np.zeros(1_000, int), column, np.zeros(1_000, int)]) is None


def test_a_table_of_too_many_cells_is_refused():
    with pytest.raises(InputError, match="identifier"):
        crosstab([np.zeros(3, int)] * 3, (1_000, 1_000, 1_000))
