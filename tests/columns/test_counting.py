"""Counting: agreement with a plain loop, additivity, and every kind of column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.columns import counting
from separatrix.columns.counting import count_labels, count_posteriors, count_scores, soft_counts
from separatrix.columns.values import encode
from separatrix.core.counts import CountTable
from separatrix.errors import InputError


def by_loop(y, z, u, w, table):
    out = np.zeros_like(table.counts)
    for a, b, c, d in zip(y, z, u, w, strict=True):
        out[table.labels.index(a), table.groups.index(b), table.predictions.index(c)] += d
    return out


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_hard_counts_equal_a_plain_loop(n, labels, groups, seed, weighted):
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, labels, n), rng.integers(-3, groups, n)
    u = np.where(rng.random(n) < 0.5, y, rng.integers(0, labels, n))
    u[0] = y[0]
    w = rng.random(n) + 0.1 if weighted else np.ones(n)
    table = count_labels(y, u, sensitive_features=z, sample_weight=w if weighted else None)
    w = w / w.max()
    np.testing.assert_allclose(table.counts, by_loop(y.tolist(), z.tolist(), u.tolist(), w, table), atol=1e-12)
    np.testing.assert_allclose(
        np.diagonal(table.second_moments, axis1=-2, axis2=-1), by_loop(y.tolist(), z.tolist(), u.tolist(), w**2, table)
    )


@pytest.mark.parametrize("shape", [(2, 3, 2), (5, 4, 5), (20, 9, 20), (50, 60, 50)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_every_width_of_code_counts_the_same(shape, dtype):
    """Tables of up to 16, 256, 65,536 and more cells are counted in different ways, and rows in
    several chunks.
    """
    rng = np.random.default_rng(0)
    n = (1 << 20) + 77 if shape[0] <= 5 else 3_000
    y, z, u = (rng.integers(0, k, n).astype(dtype) for k in shape)
    expected = np.bincount(np.ravel_multi_index((y, z, u), shape), minlength=int(np.prod(shape))).reshape(shape)
    table = count_labels(y, u, sensitive_features=z, labels=range(shape[0]))
    np.testing.assert_array_equal(table.counts, expected[:, list(table.groups)])


@pytest.mark.slow
@given(st.integers(2, 40), st.integers(1, 4), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_soft_counts_equal_a_plain_loop(n, groups, k, seed):
    rng = np.random.default_rng(seed)
    q, y, z, w = (
        rng.dirichlet(np.ones(k), size=n),
        rng.integers(0, k, n),
        rng.integers(0, groups, n),
        rng.random(n) + 0.1,
    )
    table = count_posteriors(y, q, sensitive_features=z, labels=range(k), sample_weight=w)
    w = w / w.max()
    first, second = np.zeros((k, groups, k)), np.zeros((k, groups, k, k))
    for i in range(n):
        first[y[i], z[i]] += w[i] * q[i]
        second[y[i], z[i]] += w[i] ** 2 * np.outer(q[i], q[i])
    seen = list(table.groups)
    np.testing.assert_allclose(table.counts, first[:, seen], atol=1e-12)
    np.testing.assert_allclose(table.moments, second[:, seen], atol=1e-12)
    unweighted = soft_counts(y, q, sensitive_features=z)
    np.testing.assert_allclose(unweighted.sum(), n)
    np.testing.assert_allclose(unweighted, soft_counts(y, q, sensitive_features=z, sample_weight=np.full(n, 3.0)))


def test_the_axes_of_soft_counts_are_as_long_as_the_codes():
    q = np.eye(3)
    assert soft_counts([0, 1, 2], q, sensitive_features=[0, 1, 2]).shape == (3, 3, 3)
    assert soft_counts([0, 1, 1], q, sensitive_features=[0, 0, 4]).shape == (3, 5, 3)
    assert soft_counts(["a", "b", "c"], q, sensitive_features=["x", "y", "y"]).shape == (3, 2, 3)


@pytest.mark.slow
@given(st.integers(4, 60), st.integers(0, 2**32 - 1), st.booleans())
def test_tables_of_chunks_add_to_the_table_of_all_rows(n, seed, soft):
    """Chunks may miss labels and groups; the sum has the union of the axes."""
    rng = np.random.default_rng(seed)
    y, z, cut = rng.integers(0, 3, n), rng.choice(list("abc"), n), int(rng.integers(1, n))
    if soft:
        q = rng.dirichlet(np.ones(3), size=n)
        parts = [
            count_posteriors(y[s], q[s], sensitive_features=z[s], labels=range(3)) for s in (slice(cut), slice(cut, n))
        ]
        whole = count_posteriors(y, q, sensitive_features=z, labels=range(3))
    else:
        parts = [count_labels(y[s], y[s], sensitive_features=z[s]) for s in (slice(cut), slice(cut, n))]
        whole = count_labels(y, y, sensitive_features=z)
    for merged in (parts[0] + parts[1], CountTable.merge(parts[::-1])):
        assert merged.groups == whole.groups
        assert merged.labels == whole.labels
        assert merged.rows == n
        np.testing.assert_allclose(merged.counts, whole.counts, atol=1e-12)
        np.testing.assert_allclose(merged.second_moments, whole.second_moments, atol=1e-12)


def test_one_hot_posteriors_are_hard_labels():
    rng = np.random.default_rng(0)
    y, z, u = rng.integers(0, 3, (3, 200))
    soft = count_posteriors(y, np.eye(3)[u], sensitive_features=z)
    hard = count_labels(y, u, sensitive_features=z)
    assert soft.moments is None
    np.testing.assert_array_equal(soft.counts, hard.counts)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "b", "a"]),
        ["a", "b", "a"],
        np.array(["a", "b", "a"], dtype=object),
        np.array([True, False, True]),
        np.array([1.5, 2.5, 1.5]),
        np.array([10**12, -5, 10**12]),
        [("x", 1), ("y", 2), ("x", 1)],
        np.array(["2020-01-01", "2020-01-02", "2020-01-01"], dtype="datetime64[D]"),
    ],
)
def test_every_kind_of_column_becomes_levels(values):
    column = values
    if isinstance(values, list) and isinstance(values[0], tuple):
        column = np.empty(3, dtype=object)
        column[:] = values
    table = count_labels([0, 1, 0], [0, 1, 0], sensitive_features=column)
    assert len(table.groups) == 2
    assert sorted(table.counts.sum((0, 2)).tolist()) == [1, 2]


@pytest.mark.parametrize(
    ("missing", "rows"),
    [
        (np.array(["a", None, "b", None], dtype=object), "2 missing values .rows 1, 3"),
        (np.array([1.0, np.nan, 2.0, 3.0]), "1 missing value .row 1"),
        (np.ma.array([1, 2, 3, 4], mask=[0, 0, 0, 1]), "row 3"),
        (np.array(["2020-01-01", "NaT", "2020-01-01", "2020-01-02"], dtype="datetime64[D]"), "row 1"),
    ],
)
def test_missing_values_are_counted_and_located(missing, rows):
    with pytest.raises(InputError, match=rows):
        count_labels([0, 1, 0, 1], [0, 1, 0, 1], sensitive_features=missing, names=("y", "sex", "u"))


def test_inputs_are_left_untouched():
    rng = np.random.default_rng(0)
    q, y, z, w = (rng.dirichlet(np.ones(2), size=50), rng.integers(0, 2, 50), rng.integers(0, 2, 50), rng.random(50))
    before = [x.copy() for x in (q, y, z, w)]
    count_posteriors(y, q, sensitive_features=z, sample_weight=w)
    count_labels(y, y, sensitive_features=z, sample_weight=w)
    for x, kept in zip((q, y, z, w), before, strict=True):
        np.testing.assert_array_equal(x, kept)


@pytest.mark.slow
@given(st.integers(1, 9_000), st.integers(1, 20), st.integers(0, 2**32 - 1), st.booleans())
def test_text_and_floats_are_coded_like_a_sort_would(n, levels, seed, sorted_):
    """A few levels are compared one by one, also those that the first rows do not show."""
    rng = np.random.default_rng(seed)
    for kind in ("<U5", "S3", "f8", "datetime64[D]"):
        x = rng.integers(0, levels, n).astype(kind)
        x = np.sort(x) if sorted_ else x
        codes, found = encode(x, "x")
        expected, at = np.unique(x, return_inverse=True)
        assert found == tuple(expected.tolist())
        np.testing.assert_array_equal(codes, at)


@pytest.mark.parametrize("value", [1.5, 0.7, np.nan])
def test_a_bad_posterior_is_named_by_its_row_of_all(value, monkeypatch):
    """Posteriors are checked chunk by chunk, so that an audit needs no copy of them."""
    monkeypatch.setattr(counting, "_CHUNK", 100)
    q = np.full((1_000, 2), 0.5)
    q[250, 0] = value
    with pytest.raises(InputError, match="row 250"):
        count_posteriors(np.arange(1_000) % 2, q, sensitive_features=np.arange(1_000) % 3)


@pytest.mark.parametrize("kind", ["labels", "posteriors", "scores"])
def test_tables_of_weighted_parts_add_up_to_that_of_the_whole(kind):
    """Each part was divided by its own largest weight: v was .0088 whole and .0509 merged."""
    rng = np.random.default_rng(0)
    n = 600
    y, z, u = rng.integers(0, 2, (3, n))
    q = rng.random(n)
    weight = np.where(np.arange(n) < n // 2, 0.1, 7.0) * rng.random(n)

    def count(rows):
        how = {"sensitive_features": z[rows], "sample_weight": weight[rows]}
        if kind == "scores":
            return count_scores(y[rows], q[rows], **how)
        if kind == "labels":
            return count_labels(y[rows], u[rows], **how)
        return count_posteriors(y[rows], np.column_stack([1 - q, q])[rows], **how)

    whole, merged = count(slice(None)), count(slice(n // 2)) + count(slice(n // 2, None))
    if kind == "scores":
        np.testing.assert_allclose(merged.totals, whole.totals)
    else:
        np.testing.assert_allclose(merged.counts, whole.counts)
        np.testing.assert_allclose(merged.second_moments, whole.second_moments)
    assert merged.scale == pytest.approx(whole.scale)
