"""The asked budget is kept in the population, or refused with the smallest that can be promised."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.simulations.distributions import DISTRIBUTIONS
from scipy.special import expit
from scipy.stats import norm

from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.promised import Promises

pytestmark = pytest.mark.slow  # a trace or a cross-fit each

BASE, APART = np.array([0.35, 0.2, 0.25, 0.3]), np.array([2.6, 1.6, 2.0, 2.2])
SHARE = np.array([0.5, 0.25, 0.15, 0.1])


def draw(n, seed):
    """Four groups, normal log odds whose separation differs: the rates are known exactly."""
    rng = np.random.default_rng(seed)
    z = rng.choice(4, n, p=SHARE)
    y = (rng.random(n) < BASE[z]).astype(int)
    x = np.log(BASE / (1 - BASE))[z] + (y - 0.5) * APART[z] + rng.normal(size=n) * np.sqrt(APART[z])
    s = expit(x)
    return np.stack([1 - s, s], 1), y, z, np.ones(n), tuple(range(4))


def promised_rule(*rows, asked, maximize="accuracy", budget="eo_gap", **options):
    return Promises(*rows, maximize=maximize, budget=budget).rule(asked, **options)


def population_gap(rule):
    rates = np.zeros((4, 2))
    for g in range(4):
        cut = np.log(rule.thresholds[g]) - np.log1p(-rule.thresholds[g])
        for k in range(2):
            mean = np.log(BASE[g] / (1 - BASE[g])) + (k - 0.5) * APART[g]
            above = norm.sf(cut, mean, np.sqrt(APART[g]))
            rates[g, k] = rule.levels[g] @ np.diff(above, prepend=0.0)
    return 0.5 * np.ptp(rates, axis=0).sum()


@pytest.mark.nightly
def test_the_mean_population_gap_is_the_asked_one_and_without_a_margin_it_is_not():
    asked, kept, plain = 0.05, [], []
    for seed in range(24):
        rows = draw(6_000, seed)
        kept.append(population_gap(promised_rule(*rows, asked=asked).rule))
        plain.append(population_gap(promised_rule(*rows, asked=asked, promised=False).rule))
    error = np.std(kept) / np.sqrt(len(kept))
    assert np.mean(kept) < asked + 0.002 + 2 * error
    assert np.mean(kept) > 0.6 * asked  # not by being far too strict
    assert np.mean(plain) > asked + 0.008


@pytest.mark.nightly
def test_a_confidence_keeps_the_budget_that_often():
    gaps = [population_gap(promised_rule(*draw(10_000, seed), asked=0.06, confidence=0.9).rule) for seed in range(20)]
    assert np.mean(np.array(gaps) <= 0.06) >= 0.7  # 0.9 less three standard errors


@pytest.mark.parametrize("budget", ["eo_gap", pytest.param("violation", marks=pytest.mark.nightly), "parity_gap"])
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_what_is_refused_names_the_smallest_and_asking_for_that_succeeds(budget, confidence):
    best = Promises(*draw(1_000, 0), budget=budget)
    with pytest.raises(InfeasibleError, match=r"no rule can promise .* ≤ 0\.0001") as refused:
        best.rule(0.0001, confidence=confidence)
    smallest = refused.value.smallest[budget]
    found = best.rule(smallest, confidence=confidence)
    assert found.expected <= smallest == found.smallest
    with pytest.raises(InfeasibleError):
        best.rule(0.999 * smallest, confidence=confidence)


@pytest.mark.nightly
def test_a_group_with_a_weak_score_does_not_break_the_budget():
    """Its hull stands on corners that were lucky on the rows: a formula for noise misses that."""
    asked, gaps = 0.1, []
    distribution = DISTRIBUTIONS["weak group"]
    for seed in range(20):
        scores, y, z = distribution.sample((900, seed))
        rule = promised_rule(scores, y, z, np.ones(len(y)), (0, 1, 2), asked=asked).rule
        gaps.append(0.5 * np.ptp(distribution.rates(rule), axis=0).sum())
    assert np.mean(gaps) < asked + 2 * np.std(gaps) / np.sqrt(len(gaps))


def test_six_rows_a_cell_promise_little():
    y, z = np.tile([0, 1], 12), np.repeat([0, 1], 12)
    s = np.where(y == 1, 0.8, 0.2) + np.linspace(0, 0.01, 24)  # separates the labels on these rows
    best = Promises(np.stack([1 - s, s], 1), y, z, np.ones(24), (0, 1))
    with pytest.raises(InfeasibleError) as refused:
        best.rule(0.05)
    assert refused.value.smallest["eo_gap"] > 0.07


def test_asking_again_gives_what_a_first_question_gives():
    rows = draw(3_000, 4)
    several = Promises(*rows)
    several.rule(0.2), several.rule(0.07, confidence=0.8)
    again, fresh = several.rule(0.1), Promises(*rows).rule(0.1)
    assert again.level == pytest.approx(fresh.level, rel=0.02)
    assert again.expected <= 0.1


def test_more_rows_allow_more_of_the_budget():
    levels = [promised_rule(*draw(n, 1), asked=0.08).level for n in (3_000, 30_000)]
    assert levels[0] < levels[1] < 0.08


@pytest.mark.parametrize("budget", ["eo_gap", "violation", "tpr_gap", "fpr_gap", "eo_max"])
def test_the_expectation_is_at_most_what_was_asked_and_close_to_it(budget):
    asked = 0.003 if budget == "violation" else 0.07
    found = promised_rule(*draw(6_000, 2), asked=asked, budget=budget)
    assert 0.95 * asked < found.expected <= asked
    assert found.level <= asked


def test_without_a_promise_the_rows_themselves_keep_the_budget():
    rows = draw(3_000, 3)
    plain = promised_rule(*rows, asked=0.05, promised=False)
    assert plain.level == 0.05
    assert np.isnan(plain.expected)
    q, y, z = plain.rule.predict_proba(rows[0], sensitive_features=rows[2])[:, 1], rows[1], rows[2]
    rates = np.array([[q[(y == k) & (z == g)].mean() for k in (0, 1)] for g in range(4)])
    assert 0.5 * np.ptp(rates, axis=0).sum() <= 0.05 + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asked": 0.05, "budget": "parity"}, "`budget` must be one of"),
        ({"asked": 0.05, "maximize": "profit"}, "`maximize` must be one of"),
    ],
)
def test_errors(options, message):
    with pytest.raises(InputError, match=message):
        promised_rule(*draw(300, 0), **options)
