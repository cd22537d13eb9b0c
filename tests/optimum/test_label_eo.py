"""Equalized-odds budgets for more than two labels: exact on small laws, and certified."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

import separatrix as sx
from separatrix.columns.counting import soft_counts
from separatrix.errors import InputError
from separatrix.optimum.rules import HardMixture


def law(seed: int, n: int = 24, labels: int = 3, groups: int = 2):
    rng = np.random.default_rng(seed)
    z = np.arange(n) % groups
    p = rng.dirichlet(np.ones(labels), n) * (1.0 + z[:, None] * np.eye(labels)[0])
    p /= p.sum(1, keepdims=True)
    return p, np.arange(n) % labels, z


def soft_rates(p, q, z):
    """P(u | y, z) of a rule on the law of the posteriors."""
    table = np.einsum("ny,nz,nu->yzu", p, np.eye(z.max() + 1)[z], q)
    return table / table.sum(-1, keepdims=True)


def gaps(rates):
    """The largest total variation between two groups, of each label."""
    pairs = list(combinations(range(rates.shape[1]), 2))
    return np.max([np.abs(rates[:, a] - rates[:, b]).sum(-1) / 2 for a, b in pairs], axis=0)


def programme(p, z, level, worst):
    """The best accuracy over all rules q[row, u], by one linear programme over the rows."""
    n, k = p.shape
    groups = z.max() + 1
    pairs = [(y, a, b) for y in range(k) for a, b in combinations(range(groups), 2)]
    share = [p * (z == g)[:, None] / p[z == g].sum(0) for g in range(groups)]  # [row, y]
    size = n * k + len(pairs) * k + k
    rows, limits = [], []
    for i, (y, a, b) in enumerate(pairs):
        for u in range(k):
            one = np.zeros(size)
            one[np.arange(n) * k + u] = share[a][:, y] - share[b][:, y]
            one[n * k + i * k + u] = -1.0
            rows.append(one)
            limits.append(0.0)
        total = np.zeros(size)
        total[n * k + i * k : n * k + (i + 1) * k] = 1.0
        total[n * k + len(pairs) * k + y] = -1.0
        rows.append(total)
        limits.append(0.0)
    for own in np.eye(k) if worst else [np.full(k, 1.0 / k)]:
        rows.append(np.r_[np.zeros(size - k), own])
        limits.append(level)
    equal = np.kron(np.eye(n), np.ones(k))
    equal = np.hstack([equal, np.zeros((n, size - n * k))])
    gain = np.r_[p.ravel() / n, np.zeros(size - n * k)]
    found = linprog(-gain, np.array(rows), limits, equal, np.ones(n))
    return -found.fun


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "groups"), [("eo_gap", 2), ("eo_gap", 3), ("eo_max", 2)])
@pytest.mark.parametrize("level", [0.0, 0.05, 0.2])
def test_the_limit_is_that_of_all_rules(budget, groups, level):
    """Against one linear programme over every rule q[row, u]."""
    p, y, z = law(groups, groups=groups)
    best = sx.limit(y, p, sensitive_features=z, maximize="accuracy", budget=budget, levels=[level])
    exact = programme(p, z, level, budget == "eo_max")
    assert best.values[0] == pytest.approx(exact, abs=3e-6)
    assert best.upper[0] >= exact - 1e-9
    assert best.gap < 3e-6


def test_the_rule_keeps_the_budget_and_has_the_value():
    p, y, z = law(5, n=60, groups=3)
    best = sx.limit(y, p, sensitive_features=z, maximize="accuracy", budget="eo_gap", levels=[0.03])
    q = best.rule(0.03).predict_proba(p, sensitive_features=z)
    assert gaps(soft_rates(p, q, z)).mean() <= 0.03 + 1e-9
    assert (p * q).sum(1).mean() == pytest.approx(best.values[0], abs=1e-9)


@pytest.mark.slow
def test_the_curve_rises_to_the_plain_argmax():
    p, y, z = law(7, n=90)
    best = sx.limit(y, p, sensitive_features=z, maximize="accuracy", budget="eo_max", points=5)
    assert (np.diff(best.values) >= -1e-9).all()
    assert best.values[-1] == pytest.approx(p.max(1).mean(), abs=1e-6)


def test_a_mixture_survives_its_arrays():
    p, y, z = law(8)
    rule = sx.limit(y, p, sensitive_features=z, maximize="accuracy", budget="eo_gap", levels=[0.02]).rule(0.02)
    again = HardMixture.from_arrays(rule.groups, rule.arrays())
    q = rule.predict_proba(p, sensitive_features=z)
    np.testing.assert_array_equal(q, again.predict_proba(p, sensitive_features=z))
    assert soft_counts(y, q, sensitive_features=z).sum() == pytest.approx(len(y))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"budget": "tpr_gap", "maximize": "accuracy"}, "needs two labels"),
        ({"budget": "eo_gap", "maximize": "utility"}, "goes with 'violation'"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(arguments, sentence):
    p, y, z = law(9)
    with pytest.raises(InputError, match=sentence):
        sx.limit(y, p, sensitive_features=z, **arguments)


def test_too_many_differences_are_refused():
    rng = np.random.default_rng(0)
    p, z = rng.dirichlet(np.ones(6), 400), rng.integers(0, 8, 400)
    with pytest.raises(InputError, match="too many"):
        sx.limit(rng.integers(0, 6, 400), p, sensitive_features=z, maximize="accuracy", budget="eo_gap")
