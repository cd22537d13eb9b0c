"""The exponent bound: checked against all tables of a small law, not only by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.statistics import bounds
from separatrix.statistics.certificates import promise, simulated_failure, violation_bound
from separatrix.statistics.exponent import Limits, exponent_bound, limits, normal_bound, rate


def table_of(counts) -> CountTable:
    counts = np.asarray(counts, dtype=float)
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts, y, z, u, rows=int(counts.sum()))


def exact(table: CountTable, rates: np.ndarray) -> Limits:
    """The limits at the truth, for the rates P(u = 1 | z) of one label."""
    known = limits(table, None)
    share = table.counts[0].sum(1) / table.counts.sum()
    pooled = float(share @ rates)
    return Limits(np.array([min(pooled, 1 - pooled)]), known.cell, known.share, known.label, known.rows)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 9), st.integers(2, 9), st.integers(0, 20), st.integers(0, 20),
    st.floats(0.05, 0.95),
)  # fmt: skip
def test_a_low_plug_in_is_as_rare_as_the_exponent_says(n0, n1, p0, p1, part):
    """P(v̂ ≤ a) ≤ exp(−n rate(a, v)): the sum over all tables, at the true rates p/20."""
    p0, p1 = p0 / 20, p1 / 20
    rates = np.array([p0, p1])
    n = np.array([n0, n1])
    truth = float(conditional_mutual_information((n[:, None] * np.c_[1 - rates, rates])[None]))
    if truth < 1e-9:
        return
    a, below = part * truth, 0.0
    for k in product(range(n0 + 1), range(n1 + 1)):
        counts = np.c_[n - k, k][None].astype(float)
        if float(conditional_mutual_information(counts)) <= a:
            below += float(np.prod(binom.pmf(k, n, rates)))
    known = exact(table_of(np.c_[n, 0 * n][None]), rates)
    assert below <= np.exp(-n.sum() * rate(a, truth, n.sum(), known)) + 1e-9


@pytest.mark.slow
def test_the_bound_for_the_population_holds_over_all_tables():
    """Every table of 9 rows with one label, its probability, and whether the bound fails."""
    n, confidence = 9, 0.4
    cuts = [(*c, n - sum(c)) for c in product(range(n + 1), repeat=3) if sum(c) <= n]
    tables = [np.array(cut).reshape(1, 2, 2) for cut in cuts]
    tables = [t for t in tables if t[0].sum(1).min() > 0]  # an empty cell is taken to be empty
    found = np.array([exponent_bound(table_of(t), confidence, "population") for t in tables])
    for share, p in product([0.5, 0.2, 0.05], [(0.5, 0.9), (0.1, 0.6), (0.02, 0.5)]):
        law = np.array([1 - share, share])[:, None] * np.c_[1 - np.array(p), p]
        truth = float(conditional_mutual_information(law[None]))
        probability = multinomial.pmf(np.array([t.ravel() for t in tables]), n, law.ravel())
        assert probability[found < truth - 1e-9].sum() <= 1 - confidence


def test_near_separation_it_is_the_root_form():
    """√v ≤ √v̂ + √(log(1/δ)/n), up to the share of the error that the limits take."""
    rng = np.random.default_rng(0)
    n = 200_000
    table = table_of(rng.multinomial(n, np.full(18 * 2, 1 / 36)).reshape(2, 9, 2))
    v = float(conditional_mutual_information(table.counts))
    root = (np.sqrt(v) + np.sqrt(np.log(20) / n)) ** 2
    assert root <= exponent_bound(table) <= 1.05 * root
    assert exponent_bound(table) <= exponent_bound(table, composition="population") <= 1.1 * root


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rows"), [((2, 2, 2), 1_500), ((2, 5, 2), 3_000)])
def test_rows_that_certify_a_small_violation(shape, rows):
    """The bounds by intervals needed 3,931 and 9,272 rows for v ≤ 0.005."""
    rng = np.random.default_rng(1)
    draws = rng.multinomial(rows, np.full(np.prod(shape), 1 / np.prod(shape)), size=15)
    found = [exponent_bound(table_of(c.reshape(shape))) for c in draws]
    assert np.median(found) < 0.0052
    assert np.median([bounds.upper_bound(table_of(c.reshape(shape))) for c in draws]) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("composition", ["observed", "population"])
def test_posteriors_keep_the_promise(composition):
    from separatrix.columns.counting import count_posteriors

    rng, failed = np.random.default_rng(0), 0
    rates = np.array([[0.2, 0.45], [0.7, 0.7]])
    for _ in range(60):
        y, z = rng.integers(0, 2, 150), rng.integers(0, 2, 150)
        p = rates[y, z]
        q = np.where(rng.random(150) < 0.8, (rng.random(150) < p).astype(float), p)
        table = count_posteriors(y, np.c_[1 - q, q], sensitive_features=z)
        people = np.full((2, 2), 0.25) if composition == "population" else table.counts.sum(2)
        law = people[:, :, None] * np.stack([1 - rates, rates], -1)
        failed += exponent_bound(table, 0.5, composition) < conditional_mutual_information(law)
    assert failed / 60 <= 0.5


@pytest.mark.slow
def test_a_small_group_does_not_break_the_promise_for_the_population():
    """U = Z in a group of 1 %: the observed composition missed the population's v in most draws."""
    rng, failed, missed = np.random.default_rng(0), 0, 0
    w = np.array([[0.495, 0.005], [0.495, 0.005]])
    rates = np.zeros((2, 2, 2))
    rates[:, 0, 0] = rates[:, 1, 1] = 1.0
    law = w[:, :, None] * rates
    truth = float(conditional_mutual_information(law))
    for counts in rng.multinomial(2_000, law.ravel(), size=30).reshape(-1, 2, 2, 2):
        table = table_of(counts)
        missed += violation_bound(table, composition="observed") < truth
        failed += violation_bound(table) < truth
        failed += violation_bound(table, guarantee="large-sample") < truth
    assert failed == 0
    assert missed > 10


@pytest.mark.slow
def test_large_sample_limits_are_lower_and_simulated():
    rng = np.random.default_rng(0)
    table = table_of(rng.multinomial(1_500, np.full(8, 1 / 8)).reshape(2, 2, 2))
    assert violation_bound(table, guarantee="large-sample") < normal_bound(table)
    assert normal_bound(table) < violation_bound(table, composition="observed")
    assert simulated_failure(table, draws=60) < 0.15


def test_a_promise_that_does_not_exist_is_refused():
    table = table_of(np.full((2, 2, 2), 9))
    with pytest.raises(InputError, match="large-sample"):
        violation_bound(table, guarantee="sure")
    with pytest.raises(InputError, match="observed"):
        violation_bound(table, composition="mine")
    assert "population" in promise("large-sample", "population")


def test_weighted_rows_have_no_finite_bound_for_the_population():
    counts = np.full((2, 2, 2), 9.0)
    moments = 2 * counts[..., None] * np.eye(2)
    table = CountTable(counts, (0, 1), (0, 1), (0, 1), 72, moments)
    with pytest.raises(InputError, match="composition='observed'"):
        violation_bound(table)
    assert 0 < violation_bound(table, guarantee="large-sample") < np.log(2)


def test_a_label_with_one_group_does_not_count():
    assert exponent_bound(table_of([[[30, 20], [0, 0]], [[10, 40], [0, 0]]])) == 0.0
