"""Trained points: the best mixture within budgets, honest promises, honest refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import separatrix as sx
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.selection import CertifiedRule, passed
from separatrix.frontier.store import PointKey
from separatrix.frontier.trained import TrainedPoint, best_mixture, best_pair, trained
from separatrix.procedure.request import Request
from separatrix.statistics.gaps import eo_gap_bound

NAMES = (0, 1)
SHARES = np.array([[0.3, 0.25], [0.25, 0.2]])


def rates(trade_off):
    """P(u | y, z) of a path from a useful, separating-by-group rule to one that tells nothing."""
    full = np.array([[[0.9, 0.1], [0.7, 0.3]], [[0.4, 0.6], [0.15, 0.85]]])
    return (1 - trade_off) * full + trade_off * np.array([0.6, 0.4])


def point(trade_off, policy="randomized", n=20_000, folds=5, recipe="default", rng=None):
    p = SHARES[:, :, None] * rates(trade_off)
    draws = np.array([n / folds * p] * folds)
    if rng is not None:
        draws = rng.multinomial(n // folds, p.ravel(), folds).reshape(draws.shape)
    return TrainedPoint(PointKey("cmi", "xz", recipe, trade_off, policy), draws.astype(float))


def path(**options):
    return [point(t, **options) for t in np.linspace(0, 1, 11)]


@given(st.integers(0, 10_000), st.integers(1, 2), st.integers(1, 9))
def test_the_best_pair_is_the_linear_programme_of_one_budget(seed, n_budgets, m):
    """With one budget two points are enough (the envelope); with two, no mixture of two beats the
    programme.
    """
    rng = np.random.default_rng(seed)
    values, limits = rng.random(m), rng.random((m, n_budgets))
    budget = rng.uniform(0.1, 0.9, n_budgets)
    exact = linprog(-values, A_ub=limits.T, b_ub=budget, A_eq=np.ones((1, m)), b_eq=[1.0])
    found = best_pair(values, limits, budget)
    if found is None:
        assert n_budgets == 2 or not exact.success
        return
    i, j, w = found
    assert 0 <= w <= 1
    assert (w * limits[i] + (1 - w) * limits[j] <= budget + 1e-9).all()
    value = w * values[i] + (1 - w) * values[j]
    assert value <= -exact.fun + 1e-9
    if n_budgets == 1:
        assert value == pytest.approx(-exact.fun, abs=1e-9)


def test_a_mixture_keeps_every_budget_and_one_point_is_enough_on_the_budget():
    points = path()
    both = Request("utility", {"violation": 0.02, "eo_gap": 0.03})
    mixture = best_mixture(points, both, NAMES)
    assert mixture.in_folds(eo_gap).mean() <= 0.03 + 1e-9
    assert mixture.in_folds(conditional_mutual_information).mean() <= 0.02 + 1e-9
    assert sum(mixture.weights) == pytest.approx(1.0)
    here = points[4].mean(conditional_mutual_information)
    assert best_mixture(points, Request("utility", {"violation": here}), NAMES).points == (points[4],)


def test_costs_are_an_objective_and_promised():
    """A dear false negative, and the trained points' promise of it."""
    cost = sx.Cost(false_positive=1, false_negative=5)
    request = Request(cost, {"eo_gap": 0.1})
    found = trained(path(), request, NAMES)
    tables = found.tables
    shown = (tables[:, 0, :, 1].sum() + 5 * tables[:, 1, :, 0].sum()) / tables.sum()
    assert found.promise["cost"].value == pytest.approx(shown, abs=1e-9)
    assert all(np.isfinite(one.error) for one in found.promise.values())


def test_a_function_of_tables_can_be_maximised():
    def caution(tables):
        return -conditional_mutual_information(tables)

    mixture = best_mixture(path(), Request(caution, {"violation": 1.0}), NAMES)
    assert mixture.points[0].key.trade_off == 1.0
    with pytest.raises(InputError, match="not defined for any"):
        best_mixture(path(), Request(lambda tables: np.nan, {"violation": 1.0}), NAMES)


def test_the_best_of_many_equal_points_promises_less_than_it_shows():
    rng = np.random.default_rng(0)
    points = [replace(point(0.5, n=500, rng=rng), key=PointKey("cmi", "xz", "default", i / 20, "x"))
              for i in range(20)]  # fmt: skip
    found = trained(points, Request("accuracy", {"eo_gap": 1.0}), NAMES)
    assert found.flattery > 0
    shown = found.in_folds(lambda t: np.einsum("fyzy->f", t) / t.sum((1, 2, 3))).mean()
    assert found.promise["accuracy"].value < shown


def test_infeasible_says_the_smallest_budget():
    points = path()[:6]
    with pytest.raises(InfeasibleError, match=r"keeps v ≤ 1e-05\. .*λ=0\.5") as error:
        best_mixture(points, Request("utility", {"violation": 1e-5}), NAMES)
    smallest = error.value.smallest["violation"]
    assert smallest == pytest.approx(points[5].mean(conditional_mutual_information))
    best_mixture(points, Request("utility", {"violation": smallest * (1 + 1e-9)}), NAMES)


def rule(request, share, trade_off, n):
    counts = np.round(n * SHARES[:, :, None] * rates(trade_off))
    return CertifiedRule(request, share, None, (CountTable(counts, NAMES, NAMES, NAMES, rows=n),))


@pytest.mark.parametrize("guarantee", ["finite-sample", "large-sample"])
def test_the_sequence_stops_at_the_first_rule_that_is_not_certified(guarantee):
    """The second rule has few rows and fails, so the harmless third is never tested."""
    request = Request("accuracy", {"violation": 0.01}, confidence=0.95, guarantee=guarantee)
    rules = [rule(request, *one) for one in ((0.0, 1.0, 20_000), (0.5, 0.9, 60), (1.0, 0.9, 20_000))]
    assert passed(rules) == rules[:1]
    for one in passed(rules):
        assert one.bounds["violation"] <= 0.01


def test_a_confidence_is_for_two_budgets():
    request = Request("accuracy", {"parity_gap": 0.1}, confidence=0.95)
    with pytest.raises(InputError, match="`max_eo_gap` and `max_violation`, not for parity gap"):
        _ = rule(request, 1.0, 0.9, 1_000).bounds


def test_the_bound_of_the_eo_gap_is_above_it_and_closes_in():
    gaps = []
    for n in (300, 3_000, 3_000_000):
        (table,) = rule(None, 1.0, 0.3, n).held_out
        assert eo_gap_bound(table) >= float(eo_gap(table.counts))
        gaps.append(eo_gap_bound(table) - float(eo_gap(table.counts)))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.005
