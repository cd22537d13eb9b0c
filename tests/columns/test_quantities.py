"""Columns of anything as numbers, labels and groups, by what the caller said they are."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.columns.scores import quantities
from separatrix.columns.values import as_levels


def columns():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y = [1, 2, 3, 4]
    return [
        y,
        np.array(y, dtype=np.float32),
        pandas.Series(y, dtype="Int64"),
        polars.Series("y", y),
        as_levels(list(map(str, y)), "y"),  # text of a CSV file
    ]


@pytest.mark.parametrize("place", range(5))
def test_numbers_of_every_kind_are_the_same_numbers(place):
    y = columns()[place]
    rows = quantities(y, y, sensitive_features=y, sensitive="continuous")
    for column in (rows.y, rows.u, rows.z):
        assert column.dtype == np.float64
        assert column.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_labels_become_codes_in_their_order():
    rows = quantities(["no", "yes", "no"], ["yes", "yes", "no"], sensitive_features=[1, 2, 2], target="labels")
    assert (rows.labels, rows.y.tolist(), rows.u.tolist()) == (("no", "yes"), [0, 1, 0], [1, 1, 0])


def test_quarters_have_readable_edges_and_cover_all_rows():
    age = np.random.default_rng(0).normal(40.0, 12.0, 1_000)
    rows = quantities(age, age, sensitive_features=age, sensitive="continuous")
    assert all(len(level) < 30 for level in rows.group.levels)
    assert rows.group.counts().min() > 240


@pytest.mark.parametrize("z", [[0.0] * 99 + [1e-9], [1e300, 1e300 * (1 + 1e-15)] * 50])
def test_values_that_hardly_differ_still_make_two_groups(z):
    rows = quantities(np.arange(100), np.arange(100), sensitive_features=z, sensitive="continuous")
    assert len(rows.group.levels) == 2


def test_rows_of_weight_zero_are_left_out_with_their_levels():
    rows = quantities(
        ["a", "b", "c", "b"], [1, 2, 3, 4], sensitive_features=["f", "m", "x", "f"],
        sample_weight=[2.0, 1.0, 0.0, 1.0], target="labels",
    )  # fmt: skip
    assert (rows.labels, rows.group.levels) == (("a", "b"), ("f", "m"))
    assert rows.weight.tolist() == [1.0, 0.5, 0.5]
