"""V = F(U | Y): uniform whatever y is, and with y it says all that U says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from separatrix.core.conditional_cmi import block_parts, conditional_rank, outcome_blocks
from separatrix.core.crosstab import crosstab
from separatrix.core.information import conditional_mutual_information

VALUES = st.lists(st.integers(-5, 40), min_size=1, max_size=200)


@given(VALUES, st.integers(2, 30))
def test_blocks_are_neighbours_and_never_part_equal_values(values, rows):
    y = np.array(values, dtype=np.float64)
    block = outcome_blocks(y, rows)
    order = np.argsort(y, kind="stable")
    steps, rises = np.diff(block[order]), np.diff(y[order])
    assert set(steps) <= {0, 1}
    assert block.min() == 0
    assert (rises[steps == 1] > 0).all()
    for value, count in zip(*np.unique(y, return_counts=True), strict=True):
        if 2 * count >= max(rows, 3):  # an atom
            assert (y[block == block[y == value][0]] == value).all()


def test_blocks_of_a_continuous_column_have_about_the_asked_rows():
    y = np.random.default_rng(0).standard_cauchy(10_007)
    assert set(np.bincount(outcome_blocks(y))) <= {200, 201, 202}
    assert set(np.bincount(outcome_blocks(y, 50))) <= {49, 50, 51}


@given(VALUES, st.integers(1, 6))
def test_parts_rise_with_the_outcome_inside_a_block(values, parts):
    y = np.array(values, dtype=np.float64)
    block = outcome_blocks(y, 20)
    part = block_parts(y, block, parts)
    assert part.min() >= 0
    assert part.max() < parts
    order = np.argsort(y, kind="stable")
    same = np.diff(block[order]) == 0
    assert (np.diff(part[order])[same] >= 0).all()
    assert len(set(zip(y, part, strict=True))) == len(set(y))  # one part for equal values


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=2, max_size=300))
def test_given_y_the_rank_has_the_order_of_u_and_is_uniform(rows):
    """V is uniform for every y, and (V, Y) determines U."""
    y, u = np.array(rows, dtype=np.float64).T
    block = np.unique(y, return_inverse=True)[1]
    rank = conditional_rank(u, y, block=block)
    for one in range(block.max() + 1):
        own = np.sort(rank[block == one])
        m = len(own)
        assert ((own >= np.arange(m) / m) & (own <= (np.arange(m) + 1) / m)).all()
        assert (np.diff(u[block == one][np.argsort(rank[block == one])]) >= 0).all()


def test_the_rank_keeps_the_violation():
    """I(V; Z | Y) = I(U; Z | Y), exactly where the rates of U are multiples of the bins of V."""
    counts = np.array([[[30, 20, 50], [70, 80, 50]], [[10, 60, 20], [30, 20, 60]]])
    y, z, u = (np.repeat(at, counts.ravel()) for at in np.indices(counts.shape).reshape(3, -1))
    rank = conditional_rank(u.astype(float), y.astype(float))
    ties_apart = crosstab([y, z, (rank * 10).astype(int)], [2, 2, 10]).astype(float)
    # inside one value of U the rank is chance: its bins have the same law in both groups
    edges = np.stack([np.cumsum(counts.sum(1)[k])[:-1] / counts[k].sum() for k in (0, 1)])
    level = (rank[:, None] > edges[y]).sum(1)
    kept = crosstab([y, z, level], [2, 2, 3])
    truth = conditional_mutual_information(counts)
    assert (kept == counts).all()
    assert conditional_mutual_information(ties_apart) >= truth - 1e-12


@pytest.mark.parametrize("noise", ["normal", "cauchy", "heteroscedastic", "close"])
def test_the_rank_is_near_the_true_one(noise):
    """Also where U is nearly a function of y (R² = 0.997), and under tails without moments."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=20_000)
    scale = {"heteroscedastic": np.exp(y), "close": 0.055}.get(noise, 1.0)
    e = rng.standard_cauchy(20_000) if noise == "cauchy" else rng.normal(size=20_000)
    truth = 0.5 + np.arctan(e) / np.pi if noise == "cauchy" else ndtr(e)
    rank = conditional_rank(y + scale * e, y)
    # the error of a rank in a block of m = 282 rows alone is 1 / √(6 m) = 0.024
    assert np.sqrt(np.mean((rank - truth) ** 2)) < 0.04
    assert abs(np.corrcoef(rank, y)[0, 1]) < 0.01


def test_only_order_counts():
    rng = np.random.default_rng(2)
    y, e = rng.normal(size=(2, 5_000))
    rank = conditional_rank(y + e, y)
    assert np.array_equal(conditional_rank(np.exp(y + e), y**3), rank)


def test_ties_are_broken_by_chance_and_not_by_the_outcome():
    """A score with two values: taking out a line in y would order the tied rows by y."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=20_000)
    u = (y + rng.normal(size=20_000) > 0).astype(float)
    part = block_parts(y, outcome_blocks(y), 2)
    rank = conditional_rank(u, y)
    assert abs(np.corrcoef(rank[u == 1], part[u == 1])[0, 1]) < 0.03


def test_a_row_of_weight_three_is_three_rows():
    """The mass below each quantile is the same as if the rows were repeated."""
    rng = np.random.default_rng(4)
    u, y = rng.normal(size=400), np.repeat([0.0, 1.0], 200)
    w = rng.integers(0, 4, 400)
    rank = conditional_rank(u, y, weight=w.astype(float))
    for one in (0.0, 1.0):
        own = y == one
        order = np.argsort(u[own])
        ends = np.cumsum(w[own][order]) / w[own].sum()
        inside = rank[own][order]
        assert (inside <= ends + 1e-12).all()
        assert (inside >= np.append(0.0, ends[:-1]) - 1e-12).all()


def test_constants_are_ranked_by_chance():
    y = np.zeros(1_000)
    rank = conditional_rank(y, y)
    assert np.histogram(rank, 4, (0.0, 1.0))[0].tolist() == [250] * 4
    assert np.array_equal(rank, conditional_rank(y, y))
    assert not np.array_equal(rank, conditional_rank(y, y, random_state=1))
