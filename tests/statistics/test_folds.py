"""Bounds from all folds: what is bounded, and what the procedure on all rows shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.statistics.certificates import folds_eo_gap_bound, folds_violation_bound, side_by_side, violation_bound
from separatrix.statistics.gaps import eo_gap_bound
from separatrix.statistics.inference import noise


def table_of(counts) -> CountTable:
    counts = np.asarray(counts, dtype=float)
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts, y, z, u, rows=int(counts.sum()))


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_side_by_side_has_the_mean_violation_and_the_mean_gap(seed, folds):
    """v of the table with labels (k, y) is Σ n_k v_k / n; its EO gap the plain mean."""
    rng = np.random.default_rng(seed)
    tables = [table_of(rng.integers(1, 40, (2, 3, 2))) for _ in range(folds)]
    v = [float(conditional_mutual_information(t.counts)) for t in tables]
    whole = side_by_side(tables)
    assert conditional_mutual_information(whole.counts) == pytest.approx(
        np.average(v, weights=[t.rows for t in tables])
    )
    gaps = [float(eo_gap(t.counts)) for t in tables]
    assert eo_gap(whole.counts) == pytest.approx(np.mean(gaps))
    assert whole.rows == sum(t.rows for t in tables)


def test_errors_that_cancel_in_the_sum_do_not_cancel_side_by_side():
    """Two folds whose rules err in opposite directions: the added tables show v = 0."""
    apart = np.array([[[60, 40], [40, 60]], [[30, 70], [50, 50]]])
    tables = [table_of(20 * apart), table_of(20 * apart[:, ::-1])]
    assert conditional_mutual_information(CountTable.merge(tables).counts) < 1e-12
    truth = float(conditional_mutual_information(apart))
    assert folds_violation_bound(tables) > truth
    assert folds_eo_gap_bound(tables) > float(eo_gap(apart))


def test_five_folds_certify_less_than_one():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(30):
        draws = rng.multinomial(1_000, np.full(8, 1 / 8), size=5)
        tables = [table_of(counts.reshape(2, 2, 2)) for counts in draws]
        one = violation_bound(tables[0], guarantee="large-sample")
        gap = eo_gap_bound(tables[0], guarantee="large-sample")
        found.append([one, folds_violation_bound(tables), gap, folds_eo_gap_bound(tables)])
    one, five, gap, five_gap = np.median(found, axis=0)
    assert five < 0.7 * one
    assert five_gap < 0.9 * gap


def test_groups_that_are_alike_rarely_exceed_the_null_quantile():
    rng = np.random.default_rng(0)
    draws = rng.multinomial(2_000, np.full(12, 1 / 12), size=2_000).reshape(-1, 2, 3, 2)
    quantile = noise(table_of(draws[0])).null_quantile()
    above = np.mean(conditional_mutual_information(draws) > quantile)
    assert above == pytest.approx(0.05, abs=0.016)
