"""The evidence against v ≤ budget: an e-value by enumeration, convex, certified, and Ville's
inequality by simulation.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from scipy.stats import multinomial

from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.statistics.e_process import (
    Alternatives,
    ViolationEvidence,
    _least,
    log_e_process,
    lower_bound,
    rate_sequences,
)

SHAPES = st.sampled_from([(2, 2, 2), (1, 3, 2), (2, 2, 3), (2, 4, 3)])


@st.composite
def tables(draw, rows=3_000):
    shape = draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    law = rng.dirichlet(np.full(np.prod(shape), 0.8))
    return rng.multinomial(rows, law).reshape(shape).astype(float)


def compositions(n, k):
    """All counts of n rows over k predictions."""
    return [c for c in product(range(n + 1), repeat=k) if sum(c) == n]


def probability(mass, rates, counts):
    cells = zip(mass, rates, counts, strict=True)
    return np.prod([multinomial(n, q).pmf(c) for n, q, c in cells])


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize(("mass", "predictions"), [((3, 4), 2), ((2, 3), 3), ((3, 2, 2), 2)])
def test_every_bet_has_mean_one_under_its_own_rates(k, mass, predictions):
    """By enumeration: the mean of M_y(p) over all tables that p can give is exactly one."""
    rng = np.random.default_rng(k)
    shape = (1, len(mass), predictions)
    bets = Alternatives.from_reference(rng.integers(1, 50, shape).astype(float), 0.005)
    for _ in range(3):
        p = rng.dirichlet(np.ones(predictions), size=shape[:2])
        mean = 0.0
        for counts in product(*(compositions(n, predictions) for n in mass)):
            law = probability(mass, p[0], counts)
            mean += law * np.exp(bets.log_mixture(k, np.array([counts], dtype=float), p)[0])
        assert mean == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.0, 0.02])
def test_the_evidence_is_an_e_value_under_every_null_by_enumeration(budget):
    """Σ P(N) E(N) ≤ 1 for rates on the edge of the budget and inside it."""
    mass = (5, 4)
    bets = Alternatives.from_reference(np.full((1, 2, 2), 10.0), 0.02)
    outcomes = [np.array([c], dtype=float) for c in product(*(compositions(n, 2) for n in mass))]
    evidence = [np.exp(log_e_process(n, budget, bets)) for n in outcomes]
    for rate in (0.1, 0.5):
        for apart in (0.0, 0.5, 1.0):
            gap = apart * _apart(rate, mass, budget)
            p = [rate - gap, rate + gap]
            law = [probability(mass, [[1 - q, q] for q in p], n[0]) for n in outcomes]
            assert np.dot(law, evidence) <= 1.0 + 1e-12


def _apart(rate, mass, budget):
    low, high = 0.0, min(rate, 1 - rate)
    for _ in range(50):
        gap = 0.5 * (low + high)
        rates = np.array([[[1 - q, q] for q in (rate - gap, rate + gap)]])
        beyond = conditional_mutual_information(np.array(mass)[None, :, None] * rates) > budget
        low, high = (low, gap) if beyond else (gap, high)
    return low


@given(tables(400), st.integers(0, 2), st.integers(0, 1_000), st.booleans())
def test_the_bets_are_log_convex_in_the_rates(counts, k, seed, soft):
    """On a random segment the value in the middle is at most the mean of the ends."""
    rng = np.random.default_rng(seed)
    if soft:  # posteriors: cells with any number of rows from one on
        counts = np.where(counts > 0, counts + rng.random(counts.shape), 0.0)
    bets = Alternatives.from_reference(counts + 1, 0.005)
    a, b = rng.dirichlet(np.full(counts.shape[2], 0.7), size=(2, *counts.shape[:2])) + 1e-9
    ends = [bets.log_mixture(k, counts, p) for p in (a, b)]
    middle = bets.log_mixture(k, counts, 0.5 * (a + b))
    assert (middle <= 0.5 * (ends[0] + ends[1]) + 1e-8 * np.abs(ends[0])).all()


@given(tables(400), st.integers(0, 2), st.integers(0, 1_000))
def test_derivatives_of_the_bets_are_those_of_differences(counts, k, seed):
    rng = np.random.default_rng(seed)
    bets = Alternatives.from_reference(counts + 1, 0.005)
    p = 0.9 * rng.dirichlet(np.ones(counts.shape[2]), size=counts.shape[:2]) + 0.02
    way, h = rng.normal(size=p.shape), 1e-6
    here, up, down = (bets.bet(k, counts, p + s * h * way) for s in (0, 1, -1))
    _, gradient, hessian = here
    slope = (gradient * way).sum((1, 2))
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), slope, rtol=1e-4, atol=1e-3)
    flat = way.reshape(len(p), -1)
    bend = np.einsum("yij,yj->yi", hessian, flat)
    change = (up[1] - down[1]).reshape(len(p), -1) / (2 * h)
    np.testing.assert_allclose(change, bend, rtol=1e-3, atol=1e-4 * np.abs(bend).max() + 1e-3)


@pytest.mark.slow
@settings(max_examples=8)
@given(tables(), st.sampled_from([0.1, 0.5]), st.integers(0, 2))
def test_the_infimum_is_that_of_a_general_solver(counts, part, k):
    v = float(conditional_mutual_information(counts))
    if v < 1e-3:
        return
    mass, budget = counts.sum(-1, keepdims=True), part * v
    bets = Alternatives.from_reference(counts + 1, budget)

    def rates(x):
        return softmax(x.reshape(counts.shape), axis=-1)

    def spare(x):
        return 100 * (budget - conditional_mutual_information(mass * rates(x)))

    pooled = counts.sum(1, keepdims=True) / counts.sum((1, 2), keepdims=True)
    start = np.broadcast_to(pooled, counts.shape) + 1e-3
    found = minimize(
        lambda x: bets.log_mixture(k, counts, rates(x)).sum() / 100,
        np.log(start / start.sum(-1, keepdims=True)).ravel(),
        constraints=[{"type": "ineq", "fun": spare}],
        method="SLSQP",
        options={"maxiter": 1_000, "ftol": 1e-11},
    )
    start = start / start.sum(-1, keepdims=True)
    ours = _least(bets, k, counts, budget, start)
    if spare(found.x) >= -1e-6:
        # never above: that would be a false alarm
        assert ours <= 100 * found.fun + 1e-4 * abs(ours) + 1e-3
        if found.success:
            assert ours >= 100 * found.fun * (1 - 5e-3) - 0.1


def test_no_budget_is_the_infimum_over_rates_that_all_groups_share():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(2_000, [0.2, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1]).reshape(2, 2, 2)
    counts = counts.astype(float)
    bets = Alternatives.from_reference(counts, 0.005)
    direct = -np.inf
    for k, share in enumerate(bets.shares):

        def at(q, y, k=k):
            p = np.broadcast_to(np.array([1 - q, q]), counts.shape)
            return bets.log_mixture(k, counts, p)[y]

        best = [minimize_scalar(at, bounds=(0.01, 0.99), method="bounded", args=(y,)).fun for y in (0, 1)]
        direct = np.logaddexp(direct, share + sum(best))
    assert direct - 0.1 <= log_e_process(counts, 0.0, bets) <= direct + 1e-3


@pytest.mark.slow
@settings(max_examples=12)
@given(tables(800))
def test_the_ceiling_is_above_the_evidence_and_below_the_likelihood_ratio(counts):
    v = float(conditional_mutual_information(counts))
    bets = Alternatives.from_reference(counts + 1, 0.005)
    ceiling = float(ViolationEvidence(0.3 * v, bets).ceiling(counts[None])[0])
    assert log_e_process(counts, 0.3 * v, bets) <= ceiling + 1e-9
    assert ceiling <= counts.sum() * v + 1e-6
    assert log_e_process(counts, v, bets) <= 0.0


@pytest.mark.slow
@settings(max_examples=6)
@given(tables())
def test_evidence_falls_with_the_budget(counts):
    budgets = np.linspace(0.0, 1.2, 6) * float(conditional_mutual_information(counts))
    bets = Alternatives.from_reference(counts + 1, 0.005)
    evidence = [log_e_process(counts, b, bets) for b in budgets]
    assert all(a >= b - 0.05 for a, b in pairwise(evidence))


@pytest.mark.slow
def test_lower_bound_is_below_v_and_approaches_it():
    rates = np.array([[[0.3, 0.7], [0.2, 0.8]], [[0.6, 0.4], [0.9, 0.1]]]) / 4
    v = float(conditional_mutual_information(rates))
    bounds = [lower_bound(n * rates) for n in (100, 10_000, 1_000_000)]
    assert bounds == sorted(bounds)
    assert 0.94 * v < bounds[-1] < v


@pytest.mark.slow
def test_evidence_at_the_budget_stays_below_its_bound_for_ever():
    """Ville: at the least favourable law, v = budget, E reaches 10 in at most 10 % of streams,
    looked at after every batch.
    """
    rates = np.array([[[0.3, 0.7], [0.2, 0.8]], [[0.6, 0.4], [0.7, 0.3]]])
    shares = np.array([[0.3, 0.2], [0.3, 0.2]])
    budget = float(conditional_mutual_information(shares[:, :, None] * rates))
    bets = Alternatives.from_reference(100 * shares[:, :, None] * rates, budget)
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(40):
        counts = np.zeros((2, 2, 2))
        for _ in range(30):
            counts += rng.multinomial((200 * shares).astype(int), rates)
            if log_e_process(counts, budget, bets, np.log(10)) >= np.log(10):
                alarms += 1
                break
    assert alarms <= 0.1 * 40


@pytest.mark.slow
def test_rate_sequences_hold_at_all_times_together():
    rates = np.array([[[0.3, 0.7], [0.02, 0.98]], [[0.5, 0.5], [0.9, 0.1]]])
    rng, missed = np.random.default_rng(0), 0
    for _ in range(100):
        counts, hit = np.zeros((2, 2, 2)), False
        for _ in range(12):
            counts += rng.multinomial(np.full((2, 2), 50), rates)
            low, high = rate_sequences(counts)
            hit |= bool(((rates < low) | (rates > high)).any())
        missed += hit
    assert missed <= 0.05 * 100


@pytest.mark.parametrize("k", [0, 1, 2])
def test_posteriors_win_no_more_than_their_draws_on_average(k):
    """The weighted mean inequality, for the bets against fixed rates p."""
    rng = np.random.default_rng(1)
    q = rng.beta(2, 3, size=(2, 60))
    p = np.array([[[0.4, 0.6], [0.45, 0.55]]])
    bets = Alternatives.from_reference(np.full((1, 2, 2), 50.0), 0.005)
    soft = np.array([[[x.sum(), (1 - x).sum()] for x in q]])
    draws = rng.random((4_000, *q.shape)) < q
    hard = np.stack([draws.sum(-1), (~draws).sum(-1)], -1)[:, None].astype(float)
    mean = np.exp(bets.log_mixture(k, hard, np.broadcast_to(p, hard.shape))).mean()
    assert np.exp(bets.log_mixture(k, soft, p)[0]) <= 1.05 * mean


def test_a_fraction_of_a_row_leaves_the_bet_around_p_out():
    """It is not log-convex there; without it the mean is only smaller."""
    bets = Alternatives.from_reference(np.full((1, 2, 2), 50.0), 0.005)
    p = np.full((1, 2, 2), 0.5)
    broken, whole = np.array([[[0.5, 9.5], [5, 5]]]), np.array([[[1.0, 9], [5, 5]]])
    assert bets.bet(0, broken, p)[2].shape == (1, 4, 4)
    assert bets._terms(0, broken, p)[0, 1] == -np.inf
    assert np.isfinite(bets._terms(0, whole, p)[0, 1])
    assert np.isfinite(log_e_process(broken, 0.0))


def test_a_negative_budget_is_refused():
    with pytest.raises(InputError, match="not negative, got -1"):
        log_e_process(np.ones((1, 2, 2)), -1)


def test_a_label_whose_prediction_never_varies_costs_next_to_nothing():
    """The infimum is on the boundary there, and the certificate is still sharp."""
    told = np.array([[[192.0, 168], [155, 1_479]]])
    with_silent = np.concatenate([np.array([[[372.0, 0], [1_634, 0]]]), told])
    bets = Alternatives.from_reference(with_silent, 0.01)
    n = with_silent.sum()
    alone = log_e_process(told, 0.01 * n / told.sum(), Alternatives.from_reference(told, 0.01))
    assert log_e_process(with_silent, 0.01, bets) >= alone - 5.0
    ceiling = float(ViolationEvidence(0.01, bets).ceiling(with_silent[None])[0])
    assert log_e_process(with_silent, 0.01, bets) >= ceiling - 2.0


def test_intervals_that_hold_in_all_cells_at_once_are_wider_than_those_of_one_cell():
    one = np.array([[[300.0, 700.0]]])
    low, high = rate_sequences(one)
    for labels, groups in ((1, 2), (2, 2), (3, 5)):
        many = np.broadcast_to(one, (labels, groups, 2))
        lower, higher = rate_sequences(many)
        assert (lower < low).all()
        assert (higher > high).all()
        low, high = lower[:1, :1], higher[:1, :1]
