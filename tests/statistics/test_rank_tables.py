"""The propositions behind the audit of numbers, each on laws where both sides can be computed."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.core.conditional_cmi import conditional_rank, outcome_blocks
from separatrix.core.information import conditional_mutual_information as cmi
from separatrix.statistics import inference
from separatrix.statistics.rank_tables import RankTable, Resolution, _shuffled_form, resolution_of

SEEDS = st.integers(0, 2**32 - 1)


def random_law(rng, y=6, z=3, u=4):
    """p[y, z, u], far from separation."""
    return rng.dirichlet(np.full(y * z * u, 0.7)).reshape(y, z, u)


def joined(p, to, axis):
    """The law in which the levels of an axis are joined."""
    out = np.zeros([max(to) + 1 if i == axis else k for i, k in enumerate(p.shape)])
    np.add.at(np.moveaxis(out, axis, 0), to, np.moveaxis(p, axis, 0))
    return out


def rank_channel(p_u, bins):
    """P(bin of V | u) of the conditional rank with ties broken by chance, (u, bins)."""
    ends = np.append(0.0, np.cumsum(p_u))
    edges = np.linspace(0.0, 1.0, bins + 1)
    inside = np.minimum(ends[1:, None], edges[1:]) - np.maximum(ends[:-1, None], edges[:-1])
    return np.maximum(inside, 0.0) / np.maximum(p_u, 1e-300)[:, None]


def ranked(p, bins):
    """The law of (Y, Z, bin of V) with V = F(U | Y)."""
    of_u = p.sum(1) / p.sum((1, 2))[:, None]
    return np.stack([p[y] @ rank_channel(of_u[y], bins) for y in range(len(p))])


@given(SEEDS)
def test_joining_predictions_or_groups_lowers_the_violation(seed):
    p = random_law(np.random.default_rng(seed))
    assert cmi(joined(p, [0, 0, 1, 1], 2)) <= cmi(p) + 1e-12
    assert cmi(joined(p, [0, 1, 1], 1)) <= cmi(p) + 1e-12


@given(SEEDS)
def test_bins_of_the_outcome_change_the_violation_by_a_known_difference(seed):
    """v − v_B = I(Y; Z | U, B) − I(Y; Z | B), which has either sign."""
    p, band = random_law(np.random.default_rng(seed)), [0, 0, 0, 1, 1, 1]
    given_band = np.stack([p[:3], p[3:]])  # (b, y, z, u)
    of_u_and_band = given_band.transpose(0, 3, 2, 1).reshape(8, 3, 3)  # labels (b, u)
    of_band = given_band.sum(3).transpose(0, 2, 1)
    difference = cmi(of_u_and_band) - cmi(of_band)
    assert cmi(p) - cmi(joined(p, band, 0)) == pytest.approx(difference, abs=1e-12)


def test_bins_of_the_outcome_can_invent_a_violation():
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[1, 1, 1] = 0.5  # group and prediction follow the outcome
    assert cmi(p) == pytest.approx(0.0, abs=1e-15)
    assert cmi(p.sum(0, keepdims=True)) == pytest.approx(np.log(2))


@given(SEEDS, st.integers(1, 7))
def test_ranks_in_any_bins_and_bands_say_no_more_than_the_violation(seed, bins):
    """I(V; Z | B) ≤ v, and finer bins or bands say more."""
    p = random_law(np.random.default_rng(seed))
    coarse, fine = ranked(p, bins), ranked(p, 3 * bins)
    band = [0, 0, 0, 1, 1, 1]
    assert cmi(joined(coarse, band, 0)) <= cmi(joined(fine, band, 0)) + 1e-12
    assert cmi(joined(fine, band, 0)) <= cmi(fine) + 1e-12
    assert cmi(fine) <= cmi(p) + 1e-12


def test_fine_bins_of_ranks_keep_the_violation():
    p = random_law(np.random.default_rng(0))
    assert cmi(ranked(p, 3_000)) == pytest.approx(cmi(p), rel=0.01)


@given(SEEDS)
def test_any_estimated_rank_bounds_the_violation_after_the_smaller_term(seed):
    """v ≥ I(V̂; Z | C) − min{I(V̂; Y | C), I(Y; Z | C)} for every channel V̂ of (U, Y)."""
    rng = np.random.default_rng(seed)
    p = random_law(rng)
    channel = rng.dirichlet(np.full(3, 0.4), size=(6, 4))
    q = np.einsum("yzu,yuk->yzk", p, channel).reshape(2, 3, 3, 3)  # (c, y, z, k)
    seen = cmi(q.sum(1))
    ranks_about_outcome = cmi(q.sum(2))
    outcome_about_group = cmi(q.sum(3))
    assert cmi(p) >= seen - min(ranks_about_outcome, outcome_about_group) - 1e-12


def shuffles(blocks):
    """All ways of shuffling the groups inside the stretches: tables (stretch, group, rank)."""
    every = [set(permutations(z)) for z, _ in blocks]
    for chosen in product(*every):
        table = np.zeros((len(blocks), 2, 3))
        for s, (z, (_, k)) in enumerate(zip(chosen, blocks, strict=True)):
            np.add.at(table[s], (list(z), list(k)), 1.0)
        yield table


def test_the_statistic_has_its_degrees_of_freedom_as_mean_over_all_shuffles():
    """E[Tᵀ Cov⁻¹ T] = rank of Cov, exactly, when the groups are shuffled inside stretches."""
    blocks = [((0, 0, 1, 1, 1), (0, 1, 1, 2, 2)), ((0, 1, 1, 0), (2, 0, 1, 0)), ((1,), (1,))]
    found = [_shuffled_form(t, t.sum(2)) for t in shuffles(blocks)]
    assert {freedom for _, freedom in found} == {2}
    assert np.mean([statistic for statistic, _ in found]) == pytest.approx(2.0)


def made(n, seed, shift=0.0, weight=None, groups=2):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    z = rng.integers(0, groups, n) if shift else (rng.random(n) < 1 / (1 + np.exp(-2 * y)))
    z = z.astype(int)
    u = y + 0.5 * (rng.normal(size=n) + shift * z)
    block = outcome_blocks(y)
    w = None if weight is None else weight(z)
    rank = conditional_rank(u, y, block=block, weight=w, random_state=seed)
    shape = resolution_of(n, np.bincount(z))
    return RankTable(y, block, rank, z, shape, w, (True, False))


def test_the_terms_are_near_zero_where_blocks_are_fine_and_large_where_they_are_not():
    fine = made(20_000, 0)
    assert abs(fine.outcome_dependence) < 3e-3
    assert abs(fine.rank_dependence) < 3e-3
    y = (np.arange(4_000) + 0.5) / 4_000
    block = outcome_blocks(y, 400)  # ten
    turns = (np.floor(40 * y) % 2).astype(int)  # four in each block
    rough = RankTable(y, block, (10 * y) % 1.0, turns, Resolution(2, 2, 4))
    assert rough.outcome_dependence == pytest.approx(np.log(2), abs=0.02)
    assert rough.rank_dependence == pytest.approx(np.log(4), abs=0.03)


def test_groups_with_few_rows_in_a_band_join_a_larger_one():
    rng = np.random.default_rng(1)
    n = 6_000
    y = rng.normal(size=n)
    z = np.where(rng.random(n) < 0.004, 2, rng.integers(0, 2, n))
    table = RankTable(y, outcome_blocks(y), rng.random(n), z, resolution_of(n, np.bincount(z)))
    assert (table.counted != 2).all()
    assert inference.noise(table.table).estimable
    assert table.table.counts.sum() == n


@pytest.mark.parametrize("n", [2, 3, 10, 40])
def test_few_rows_say_nothing_and_break_nothing(n):
    y = np.arange(n, dtype=float)
    z = np.arange(n) % 2
    rank = conditional_rank(y[::-1].copy(), y)
    table = RankTable(y, outcome_blocks(y), rank, z, resolution_of(n, np.bincount(z)))
    assert table.violation_lower() >= 0.0
    assert 0.0 <= table.p_value() <= 1.0


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_equal_weights_change_nothing(scale):
    plain = made(3_000, 2, shift=0.5)
    same = made(3_000, 2, shift=0.5, weight=lambda z: np.full(len(z), scale))
    assert same.violation_lower() == pytest.approx(plain.violation_lower(), rel=1e-3)
    assert same.p_value() == pytest.approx(plain.p_value(), rel=1e-6)


@pytest.mark.nightly
def test_level_and_bound_hold_under_separation_also_with_weights():
    """At v = 0 the test rejects in about 5 %, and the bound is above 0 in at most that."""
    for weight in (None, lambda z: np.where(z == 1, 3.0, 1.0)):
        tables = [made(2_000, seed, weight=weight) for seed in range(200)]
        rejected = np.mean([t.p_value() < 0.05 for t in tables])
        wrong = np.mean([t.violation_lower() > 0 for t in tables])
        assert rejected <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
        assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_the_bound_comes_near_the_violation_as_rows_grow():
    """U | Y, Z normal, equal groups 0.8 apart: v by quadrature."""
    x = np.linspace(-9.0, 10.0, 20_001)
    f = np.exp(-0.5 * (x - np.array([[0.0], [0.8]])) ** 2) / np.sqrt(2 * np.pi)
    v = float(0.5 * (f * np.log(f / f.mean(0))).sum() * (x[1] - x[0]))
    found = [made(n, 6, shift=0.8).violation_lower() for n in (1_000, 10_000, 100_000)]
    assert max(found) < v
    assert found[0] > 0.4 * v
    assert found[2] > 0.9 * v
