"""The finite-sample bound: never wrong more often than it says, at any size, and never vacuous by
accident.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, violation_ceiling
from separatrix.statistics.bounds import rate_intervals, upper_bound
from strategies import count_tables


def rows_of(rng, rates, n, kind):
    y, z = rng.integers(0, rates.shape[0], n), rng.integers(0, rates.shape[1], n)
    concentration = {"hard": 0.0, "soft": 3.0, "weighted": 3.0}[kind]
    if kind == "hard":
        return count_labels(
            y, (rates[y, z].cumsum(1) > rng.random((n, 1))).argmax(1), sensitive_features=z, labels=range(2)
        )
    q = rng.standard_gamma(rates[y, z] * concentration) + 1e-12
    q /= q.sum(1, keepdims=True)
    return count_posteriors(
        y, q, sensitive_features=z, labels=range(2), sample_weight=rng.random(n) if kind == "weighted" else None
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hard", "soft", "weighted"])
@pytest.mark.parametrize("n", [15, 60, 1_000])
def test_bound_fails_at_most_one_minus_confidence(kind, n):
    """Conditional on the observed composition of (Y, Z), as the docstring says."""
    rng = np.random.default_rng(0)
    rates = np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.3, 0.7], [0.05, 0.95]]])
    confidence, repetitions, failures = 0.6, 200, 0
    for _ in range(repetitions):
        table = rows_of(rng, rates, n, kind)
        composition = table.counts.sum(2)[:, : len(table.groups), None]
        truth = float(conditional_mutual_information(composition * rates[:, list(table.groups)]))
        failures += upper_bound(table, confidence) < truth - 1e-12
    assert failures / repetitions <= 1 - confidence


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hard", "soft", "weighted"])
def test_rate_intervals_hold_all_at_once(kind):
    rng = np.random.default_rng(1)
    rates = np.array([[[0.97, 0.03], [0.8, 0.2]], [[0.5, 0.5], [0.1, 0.9]]])
    confidence, repetitions, failures = 0.7, 200, 0
    for _ in range(repetitions):
        low, high = rate_intervals(rows_of(rng, rates, 300, kind), confidence)
        failures += not ((low <= rates) & (rates <= high)).all()
    assert failures / repetitions <= 1 - confidence


@given(count_tables())
def test_bound_is_above_the_plug_in_and_below_the_ceiling(counts):
    counts = np.round(counts * 3 + 0.4)
    table = CountTable(counts, *(tuple(range(k)) for k in counts.shape), rows=int(counts.sum()))
    bound = upper_bound(table)
    assert conditional_mutual_information(counts) - 1e-9 <= bound <= violation_ceiling(counts) + 1e-12


@pytest.mark.slow
@given(st.integers(0, 30), st.integers(1, 30))
def test_hard_intervals_are_clopper_pearson(k, extra):
    counts = np.array([[[float(extra), float(k)]]])
    table = CountTable(counts, (0,), (0,), (0, 1), rows=k + extra)
    low, high = rate_intervals(table, 0.9, simultaneous=False)
    exact = binomtest(k, k + extra).proportion_ci(0.9, method="exact")
    assert low[0, 0, 1] == pytest.approx(exact.low, abs=1e-9)
    assert high[0, 0, 1] == pytest.approx(exact.high, abs=1e-9)


def test_bound_closes_in_on_v_as_rows_come_in():
    rng = np.random.default_rng(0)
    rates = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.3, 0.7], [0.2, 0.8]]])
    gaps = []
    for n in (1_000, 30_000, 1_000_000):
        table = rows_of(rng, rates, n, "hard")
        gaps.append(upper_bound(table) - float(conditional_mutual_information(table.counts)))
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.0015


def test_the_reference_is_the_best_one():
    """No other common reference gives a smaller bound."""
    rng = np.random.default_rng(0)
    table = rows_of(rng, np.array([[[0.9, 0.1], [0.6, 0.4]], [[0.3, 0.7], [0.2, 0.8]]]), 500, "hard")
    low, high = rate_intervals(table)
    share = table.counts.sum(2) / table.counts.sum()
    bound = upper_bound(table)

    def value(q):
        q = q[:, None, :]
        terms = [p * np.log(np.where(p > 0, p, 1.0) / q) - p + q for p in (low, high)]
        return (share[:, :, None] * np.maximum(*terms)).sum()

    others = [value(rng.uniform(0.01, 1.0, (2, 2))) for _ in range(300)]
    plug_in = table.counts.sum(1) / table.counts.sum((1, 2))[:, None]
    assert bound <= min(*others, value(plug_in)) + 1e-12


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(3, 60))
def test_one_row_moves_the_violation_by_at_most_eight_log_n_over_n(seed: int, n: int) -> None:
    """The bounded difference behind the concentration proposition."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (n, 3))
    moved = rows.copy()
    moved[rng.integers(n)] = rng.integers(0, 3, 3)
    tables = np.zeros((2, 3, 3, 3))
    for table, own in zip(tables, (rows, moved), strict=True):
        np.add.at(table, tuple(own.T), 1.0)
    change = abs(np.diff(conditional_mutual_information(tables))[0])
    assert change <= 8 * np.log(n) / n + 1e-12


def test_the_violation_of_samples_stays_within_the_concentration_radius_of_its_mean() -> None:
    """Proposition "Bias and concentration of hard-count plug-in CMI", second part."""
    law = np.random.default_rng(3).dirichlet(np.ones(8)).reshape(2, 2, 2)
    n, error = 400, 0.1
    radius = 8.0 * np.log(n) * np.sqrt(np.log(2.0 / error) / (2.0 * n))
    samples = np.random.default_rng(4).multinomial(n, law.ravel(), 2_000).reshape(-1, 2, 2, 2)
    v = conditional_mutual_information(samples.astype(float))
    assert np.mean(np.abs(v - v.mean()) > radius) <= error
