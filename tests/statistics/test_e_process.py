"""The evidence against v ≤ budget: the optimum against a general solver, and Ville's inequality by
simulation.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import rel_entr, softmax

from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.statistics.e_process import (
    least_divergence,
    log_e_process,
    lower_bound,
    rate_sequences,
)


@st.composite
def tables(draw):
    shape = draw(st.sampled_from([(2, 2, 2), (1, 3, 2), (2, 2, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return (
        rng.multinomial(3_000, rng.dirichlet(np.full(np.prod(shape), 0.8)))
        .reshape(shape)
        .astype(float)
    )


@pytest.mark.slow
@settings(max_examples=15)
@given(tables(), st.sampled_from([0.05, 0.3, 0.8]))
def test_the_nearest_lawful_rates_are_those_of_a_general_solver(counts, part):
    v = float(conditional_mutual_information(counts))
    if v < 1e-4:
        return
    mass = counts.sum(-1, keepdims=True)
    observed = counts / np.maximum(mass, 1.0)

    def rates(x):
        return softmax(x.reshape(counts.shape), axis=-1)

    found = minimize(
        lambda x: (mass * rel_entr(observed, rates(x))).sum() / 100,
        np.log(0.5 * observed + 0.5 * observed.mean(1, keepdims=True) + 1e-6).ravel(),
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x: 100 * (part * v - conditional_mutual_information(mass * rates(x))),
            }
        ],
        method="SLSQP",
        options={"maxiter": 2_000, "ftol": 1e-12},
    )
    ours = least_divergence(counts, part * v)
    assert (
        ours <= 100 * found.fun + 1e-5 * abs(ours) + 1e-6
    )  # never above: that would be a false alarm
    if found.success and conditional_mutual_information(mass * rates(found.x)) <= part * v * (
        1 + 1e-6
    ):
        assert ours >= 100 * found.fun * (1 - 1e-3) - 1e-4


@given(tables())
def test_no_budget_is_the_likelihood_ratio_of_separation_and_a_lawful_table_has_none(counts):
    v = float(conditional_mutual_information(counts))
    assert least_divergence(counts, 0.0) == pytest.approx(counts.sum() * v)
    assert least_divergence(counts, v) == 0.0
    assert log_e_process(counts, v) <= 0.0


@pytest.mark.slow
@settings(max_examples=20)
@given(tables())
def test_evidence_falls_with_the_budget(counts):
    budgets = np.linspace(0.0, 1.2, 6) * float(conditional_mutual_information(counts))
    evidence = [log_e_process(counts, b) for b in budgets]
    assert all(a >= b - 1e-4 for a, b in pairwise(evidence))


def test_lower_bound_is_below_v_and_approaches_it():
    rates = np.array([[[0.3, 0.7], [0.2, 0.8]], [[0.6, 0.4], [0.9, 0.1]]]) / 4
    v = float(conditional_mutual_information(rates))
    bounds = [lower_bound(n * rates) for n in (100, 10_000, 1_000_000)]
    assert bounds == sorted(bounds)
    assert 0.94 * v < bounds[-1] < v


@pytest.mark.slow
def test_evidence_at_the_budget_stays_below_its_bound_for_ever():
    """Ville: at the least favourable law, v = budget, E reaches 20 in at most 5 % of streams,
    looked at after every batch.
    """
    rates = np.array([[[0.3, 0.7], [0.2, 0.8]], [[0.6, 0.4], [0.7, 0.3]]])
    shares = np.array([[0.3, 0.2], [0.3, 0.2]])
    budget = float(conditional_mutual_information(shares[:, :, None] * rates))
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(200):
        counts = np.zeros((2, 2, 2))
        for _ in range(60):
            counts += rng.multinomial((200 * shares).astype(int), rates)
            if log_e_process(counts, budget, np.log(20)) >= np.log(20):
                alarms += 1
                break
    assert alarms <= 0.05 * 200


@pytest.mark.slow
def test_rate_sequences_hold_at_all_times_together():
    rates = np.array([[[0.3, 0.7], [0.02, 0.98]], [[0.5, 0.5], [0.9, 0.1]]])
    rng, missed = np.random.default_rng(0), 0
    for _ in range(200):
        counts, hit = np.zeros((2, 2, 2)), False
        for _ in range(12):
            counts += rng.multinomial(np.full((2, 2), 50), rates)
            low, high = rate_sequences(counts)
            hit |= bool(((rates < low) | (rates > high)).any())
        missed += hit
    assert missed <= 0.05 * 200


def test_soft_counts_of_posteriors_give_less_evidence_than_their_draws_on_average():
    """The weighted mean inequality: what is proved for draws is conservative for the posteriors
    themselves.
    """
    rng = np.random.default_rng(1)
    q = rng.beta(2, 3, size=(2, 400))
    soft = np.array([[[x.sum(), (1 - x).sum()] for x in q]])
    assert log_e_process(soft, 0.0) <= np.mean(
        [
            log_e_process(np.array([[[d.sum(), (~d).sum()] for d in rng.random(q.shape) < q]]), 0.0)
            for _ in range(50)
        ]
    )


def test_a_negative_budget_is_refused():
    with pytest.raises(InputError, match="not negative, got -1"):
        least_divergence(np.ones((1, 2, 2)), -1)
