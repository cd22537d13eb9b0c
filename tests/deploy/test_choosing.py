"""From candidates to a point: budgets kept, pairs optimal, guarantees that hold over the choice,
honest refusals.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from separatrix import methods
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, eo_gap, mutual_information
from separatrix.errors import InfeasibleError, InputError, MissingExtraError
from separatrix.frontier.trained_choice import best_pair, select
from separatrix.frontier.trained_points import KINDS, Candidate
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.gaps import eo_gap_bound

NAMES = (0, 1)
SHARES = np.array([[0.3, 0.25], [0.25, 0.2]])


def rates(trade_off):
    """P(u | y, z) of a path from a useful, separating-by-group rule to one that tells nothing."""
    full = np.array([[[0.9, 0.1], [0.7, 0.3]], [[0.4, 0.6], [0.15, 0.85]]])
    return (1 - trade_off) * full + trade_off * np.array([0.6, 0.4])


def candidate(trade_off, policy="randomized", n=20_000, folds=5, path="cmi", rng=None, **options):
    p = SHARES[:, :, None] * rates(trade_off)
    counts = n * p if rng is None else rng.multinomial(n, p.ravel()).reshape(p.shape).astype(float)
    hold = CountTable(np.round(counts), NAMES, NAMES, NAMES, rows=n)
    tables = np.repeat(counts[None], folds, 0) / folds
    return Candidate(path, trade_off, policy, tables, held_out=(hold,), **options)


def path(policy="randomized", **options):
    return [candidate(t, policy, **options) for t in np.linspace(0, 1, 11)]


def test_by_fold_mean_the_best_within_the_budget_is_taken():
    points = path()
    v = [c.means["violation"] for c in points]
    chosen = select(points, max_violation=v[4] * 1.001, option="single").chosen
    assert chosen.components == (points[4],)
    assert chosen.price == pytest.approx(points[0].means["utility"] - points[4].means["utility"])
    assert chosen.bounds == {}


def test_three_offers_with_their_prices():
    found = select(path() + path("deterministic"), max_violation=0.004)
    assert tuple(found.options) == KINDS
    single, mixture = found.options["single"], found.options["mixture"]
    assert mixture.value >= single.value >= 0
    assert mixture.price <= single.price
    assert found.chosen is mixture
    assert mixture.means["violation"] == pytest.approx(0.004)
    assert sum(mixture.weights) == pytest.approx(1.0)
    text = str(found)
    assert "best u with v ≤ 0.004, by fold mean" in text
    assert all(kind in text for kind in KINDS)
    json.dumps(found.to_dict())


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


def test_both_budgets_are_kept_together():
    found = select(path(), max_violation=0.02, max_eo_gap=0.03)
    for option in found.options.values():
        assert option.means["eo_gap"] <= 0.03 + 1e-9
        assert option.means["violation"] <= 0.02 + 1e-9


def test_any_metric_can_be_maximised():
    points = [candidate(t, metrics={"auroc": [0.5 + t / 10] * 5}) for t in (0.0, 0.5, 1.0)]
    assert (
        select(points, max_violation=1.0, maximize="auroc", option="single")
        .chosen.components[0]
        .trade_off
        == 1.0
    )

    def caution(tables):
        return -conditional_mutual_information(tables)

    found = select(points, max_violation=1.0, maximize=caution, option="single")
    assert found.chosen.components[0].trade_off == 1.0
    assert found.maximize == "caution"


def test_infeasible_says_the_smallest_budget_and_its_cost():
    points = path()[:6]
    with pytest.raises(
        InfeasibleError, match=r"No candidate keeps v ≤ 1e-05\. The smallest .*λ=0.5"
    ) as error:
        select(points, max_violation=1e-5)
    assert error.value.smallest["max_violation"] == pytest.approx(points[5].means["violation"])
    assert error.value.value == pytest.approx(points[5].means["utility"])
    again = select(points, max_violation=error.value.smallest["max_violation"] * (1 + 1e-9))
    assert again.chosen.value == pytest.approx(error.value.value)
    with pytest.raises(InfeasibleError, match="More hold-out rows would lower that"):
        select([candidate(0.5, n=200)], max_violation=0.001, confidence=0.95)


@pytest.mark.parametrize("rule", ["sequence", "holm"])
def test_with_confidence_the_choice_is_more_cautious_and_reports_what_is_proved(rule):
    points = path()
    plain = select(points, max_violation=0.01, option="single").chosen
    sure = select(points, max_violation=0.01, option="single", confidence=0.95, rule=rule).chosen
    assert sure.components[0].trade_off >= plain.components[0].trade_off
    assert sure.bounds["violation"] <= 0.01
    assert violation_bound(*sure.components[0].held_out, 0.95) <= 0.01
    mixed = select(points, max_violation=0.01, option="mixture", confidence=0.95).chosen
    assert mixed.bounds["violation"] <= 0.01 + 1e-12


def test_the_sequence_stops_at_the_first_failure():
    """λ = 0.9 fails (few rows), so the harmless λ = 0.8 behind it is never tested."""
    points = [candidate(1.0), candidate(0.9, n=60), candidate(0.8)]
    found = select(points, max_violation=0.01, option="single", confidence=0.95)
    assert found.chosen.components[0].trade_off == 1.0
    by_holm = select(points, max_violation=0.01, option="single", confidence=0.95, rule="holm")
    assert by_holm.chosen.components[0].trade_off == 0.8


def test_the_sequence_starts_at_the_end_that_the_method_calls_strict():
    """λ of exponentiated gradient is the violation allowed: its small end is the strict one."""
    grid = np.linspace(0.05, 1.0, 6)
    points = [replace(candidate(1.0 - t), trade_off=t, strict="low") for t in grid]
    found = select(points, max_violation=0.01, option="single", confidence=0.95)
    assert found.chosen.components[0].held_out
    assert found.chosen.bounds["violation"] <= 0.01
    mirrored = [replace(point, trade_off=-point.trade_off, strict="high") for point in points]
    same = select(mirrored, max_violation=0.01, option="single", confidence=0.95)
    assert same.chosen.value == found.chosen.value
    wrong = [replace(point, strict="high") for point in points]
    with pytest.raises(InfeasibleError):  # the loosest point is tested first, and fails
        select(wrong, max_violation=0.01, option="single", confidence=0.95)


@pytest.mark.parametrize("name", methods.names())
def test_the_strict_end_is_declared_in_the_file(name):
    """Read without importing, it is what the method says."""
    try:
        method = methods.get(name)
    except MissingExtraError:
        pytest.skip("its extra is not installed")
    assert methods.strict_end(name) == method.strict
    assert method.strict == ("low" if name == "exponentiated_gradient" else "high")


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["max_violation", "max_eo_gap"])
@pytest.mark.parametrize("rule", ["sequence", pytest.param("holm", marks=pytest.mark.nightly)])
def test_the_guarantee_holds_over_the_choice_itself(budget, rule):
    """Budgets just below the truth of a candidate: the hardest case. At most 10 % of the choices
    may exceed them.
    """
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 6)
    measure = conditional_mutual_information if budget == "max_violation" else eo_gap
    truth = {t: float(measure(SHARES[:, :, None] * rates(t))) for t in grid}
    failures, repetitions = 0, 40
    for i in range(repetitions):
        limit = 0.999 * truth[grid[1 + i % 4]]
        points = [candidate(t, n=4_000, rng=rng) for t in grid]
        try:
            chosen = select(points, confidence=0.9, rule=rule, **{budget: limit}).chosen
        except InfeasibleError:
            continue
        failures += (
            sum(
                w * truth[p.trade_off]
                for p, w in zip(chosen.components, chosen.weights, strict=True)
            )
            > limit
        )
    assert failures <= 0.1 * repetitions


def test_folds_that_were_fitted_to_each_other_certify_for_large_samples_only():
    one = candidate(0.8)
    folds = replace(one, held_out=one.held_out * 2)
    how = {"max_violation": 0.01, "option": "single", "confidence": 0.95}
    assert select([folds], guarantee="large-sample", **how).chosen.bounds["violation"] <= 0.01
    with pytest.raises(InputError, match="fitted to each other's rows"):
        select([folds], **how)


def test_the_bound_of_the_eo_gap_is_above_it_and_closes_in():
    gaps = []
    for n in (300, 3_000, 3_000_000):
        (table,) = candidate(0.3, n=n).held_out
        assert eo_gap_bound(table) >= float(eo_gap(table.counts))
        gaps.append(eo_gap_bound(table) - float(eo_gap(table.counts)))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.005


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Pass a budget"),
        ({"max_violation": -1}, "not negative, got -1"),
        (
            {"max_violation": 0.1, "maximize": "fairness"},
            "one of violation, utility, eo_gap, accuracy, .* or a function, got 'fairness'",
        ),
        ({"max_violation": 0.1, "option": "both"}, "got 'both'"),
        ({"max_violation": 0.1, "rule": "luck"}, "got 'luck'"),
        ({"max_violation": 0.1, "confidence": 95}, "For 95 % pass 0.95"),
        ({"max_violation": 0.1, "maximize": lambda t: np.nan}, "not defined for any"),
    ],
)
def test_errors(options, message):
    with pytest.raises(InputError, match=message):
        select(path(), **options)
    with pytest.raises(InputError, match="empty"):
        select([], max_violation=0.1)
    bare = Candidate("cmi", 0.5, "randomized", path()[0].tables)
    with pytest.raises(InputError, match=r"rows that trained nothing, and cmi λ=0\.5 randomized"):
        select([bare], max_violation=1.0, confidence=0.9)
    assert mutual_information(bare.tables).shape == (5,)
