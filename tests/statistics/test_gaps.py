"""The equalized-odds gap: its bound over all tables, its interval and its floor by real rows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.counts import CountTable
from separatrix.core.information import eo_gap
from separatrix.statistics.gaps import eo_gap_bound, eo_gap_floor, eo_gap_interval


def binary(rows, hits) -> CountTable:
    rows, hits = np.asarray(rows, float), np.asarray(hits, float)
    counts = np.stack([rows - hits, hits], -1)
    y, z = (tuple(range(k)) for k in rows.shape)
    return CountTable(counts, y, z, (0, 1), rows=int(rows.sum()))


@pytest.mark.slow
def test_the_finite_bound_holds_over_all_tables():
    """Two labels, two groups, four rows each: the whole law of the table."""
    n, confidence = 4, 0.5
    hits = np.array(list(product(range(n + 1), repeat=4))).reshape(-1, 2, 2)
    found = np.array([eo_gap_bound(binary(np.full((2, 2), n), k), confidence) for k in hits])
    for rates in ([0.3, 0.8, 0.5, 0.5], [0.0, 0.4, 1.0, 0.6], [0.1, 0.1, 0.9, 0.2]):
        p = np.array(rates).reshape(2, 2)
        truth = float(eo_gap(np.stack([1 - p, p], -1)))
        probability = binom.pmf(hits, n, p).prod((1, 2))
        assert probability[found < truth - 1e-12].sum() <= 1 - confidence


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["finite-sample", "large-sample"])
@pytest.mark.parametrize(
    "rates",
    [[[0.02, 0.07], [0.98, 0.93]], [[0.0, 0.05], [1.0, 0.95]], [[0.5] * 8 + [0.56]] * 2],
    ids=["low", "zero", "nine groups"],
)
def test_the_bound_fails_no_more_often_than_it_says(guarantee, rates):
    rng, rates = np.random.default_rng(0), np.array(rates)
    truth = float(eo_gap(np.stack([1 - rates, rates], -1)))
    rows = np.full(rates.shape, 150)
    failed = [eo_gap_bound(binary(rows, rng.binomial(rows, rates)), 0.9, guarantee) < truth for _ in range(300)]
    assert np.mean(failed) <= 0.1


@pytest.mark.parametrize(("groups", "rows"), [(2, 5_000), (9, 54_000)])
def test_rows_that_certify_a_small_gap(groups, rows):
    """Intervals for all groups at once needed 14,248 and 143,752 rows for a gap of 0.05."""
    rng = np.random.default_rng(0)
    n = np.full((2, groups), rows // (2 * groups))
    tables = [binary(n, rng.binomial(n, 0.5)) for _ in range(11)]
    assert np.median([eo_gap_bound(t) for t in tables]) < 0.051


@pytest.mark.slow
def test_a_bound_is_at_least_the_gap_and_at_most_one():
    rng = np.random.default_rng(0)
    for _ in range(30):
        shape = tuple(rng.integers(1, 4, 3) + 1)
        counts = rng.poisson(rng.choice([0.3, 3.0, 40.0]), shape).astype(float)
        counts[0, 0, 0] += 1
        table = CountTable(counts, *(tuple(range(k)) for k in shape), rows=int(counts.sum()))
        for guarantee in ("finite-sample", "large-sample"):
            assert float(eo_gap(counts)) - 1e-12 <= eo_gap_bound(table, 0.9, guarantee) <= 1.0
        low, high = eo_gap_interval(table)
        assert 0.0 <= low <= float(eo_gap(counts)) <= high + 1e-12
        assert 0.0 <= eo_gap_floor(table) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hard", "soft", "weighted"])
def test_the_floor_is_that_of_real_shuffles(kind):
    """Permuting the rows' groups within labels, row by row."""
    rng = np.random.default_rng(0)
    n = 600
    y, z = rng.integers(0, 2, n), rng.choice(3, n, p=[0.6, 0.3, 0.1])
    u = np.where(rng.random(n) < 0.3, z == 1, y).astype(int)
    q = np.clip(0.5 * u + 0.5 * rng.random(n), 0, 1)
    w = rng.random(n) + 0.1 if kind == "weighted" else None

    def count(groups):
        if kind == "hard":
            return count_labels(y, u, sensitive_features=groups)
        return count_posteriors(y, np.c_[1 - q, q], sensitive_features=groups, sample_weight=w)

    shuffled = []
    for _ in range(150):
        groups = z.copy()
        for label in (0, 1):
            here = np.flatnonzero(y == label)
            groups[here] = groups[rng.permutation(here)]
        shuffled.append(float(eo_gap(count(groups).counts)))
    assert eo_gap_floor(count(z)) == pytest.approx(np.mean(shuffled), rel=0.1)


@pytest.mark.slow
def test_the_interval_covers_the_gap():
    rng, covered = np.random.default_rng(0), 0
    rates = np.array([[0.2, 0.3, 0.25], [0.6, 0.6, 0.7]])
    truth = float(eo_gap(np.stack([1 - rates, rates], -1)))
    rows = np.array([[200, 150, 60], [150, 200, 60]])
    for i in range(200):
        low, high = eo_gap_interval(binary(rows, rng.binomial(rows, rates)), 0.9, i)
        covered += low <= truth <= high
    assert covered >= 0.9 * 200 - 8


def _failures(label_share, group_share, rates, draws):
    """How often the bounds and the interval's lower end miss the gap of a law of 600 rows."""
    rng = np.random.default_rng(1)
    cells = np.outer([1 - label_share, label_share], [1 - group_share, group_share])
    law = np.stack([cells * (1 - rates), cells * rates], -1)
    truth = float(eo_gap(law))
    failed = np.zeros(3)
    for i, drawn in enumerate(rng.multinomial(600, law.ravel(), draws)):
        table = CountTable(drawn.reshape(law.shape).astype(float), (0, 1), (0, 1), (0, 1), 600)
        failed += [
            eo_gap_bound(table) < truth,
            eo_gap_bound(table, guarantee="large-sample") < truth,
            eo_gap_interval(table, 0.95, i)[0] > truth + 1e-12,
        ]
    return failed / draws


def test_bounds_hold_where_a_cell_often_has_no_rows():
    """Label 3 %, group 3 %, 600 rows: the certified bound failed in more than half."""
    certified, large, _ = _failures(0.03, 0.03, np.array([[0.1, 0.2], [0.2, 0.9]]), 100)
    assert certified <= 0.05
    assert large <= 0.07


def test_the_lower_end_knows_that_a_cell_of_few_rows_is_noisy():
    """A group of 1 %: the interval excluded the truth in 43 %."""
    assert _failures(0.3, 0.01, np.array([[0.3, 0.2], [0.6, 0.6]]), 100)[2] <= 0.05


@pytest.mark.parametrize("guarantee", ["finite-sample", "large-sample"])
def test_the_bound_does_not_depend_on_which_prediction_is_called_positive(guarantee):
    """The farther group's rate errs upwards and the nearer one's downwards: each tail has its own
    variance, and exchanging the predictions exchanges the tails.
    """
    table = binary([[200, 150], [80, 60]], [[4, 30], [70, 58]])
    exchanged = binary([[200, 150], [80, 60]], [[196, 120], [10, 2]])
    bound = eo_gap_bound(table, guarantee=guarantee)
    assert bound == pytest.approx(eo_gap_bound(exchanged, guarantee=guarantee), rel=1e-9)
