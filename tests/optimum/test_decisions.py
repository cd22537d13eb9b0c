"""Decisions for any objective and budget against plain programmes over atoms; certificates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from separatrix.core.information import rates_utility, rates_violation
from separatrix.core.measures import BUDGETS, OBJECTIVES
from separatrix.errors import InputError
from separatrix.optimum.objectives import Cost, Value
from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.roc.regions import RocCurve, lower_curve, roc_curve

LINEAR = ("accuracy", "balanced_accuracy", Cost(1, 5), "per group")
GAPS = ("eo_gap", "eo_max", "tpr_gap", "fpr_gap")


def random_law(seed: int, groups: int, atoms: int = 5, empty: bool = False):
    """P(y, z, atom), array (groups, 2, atoms); with `empty` one group lacks a label."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(2 * groups * atoms, 0.6)).reshape(groups, 2, atoms)
    if empty:
        law[0, 1] = 0.0
        law /= law.sum()
    return law


def curves_of(law: np.ndarray) -> tuple[tuple[RocCurve, ...], np.ndarray]:
    """ROC curves of the score P(Y=1 | atom, z)."""
    return tuple(roc_curve(p[1] / p.sum(0), p[1], p[0]) for p in law), law.sum(-1)


def costs_of(maximize, groups: int):
    if maximize != "per group":
        return maximize
    rng = np.random.default_rng(groups)
    return Cost(
        dict(enumerate(rng.uniform(0.2, 3.0, groups).tolist())), dict(enumerate(rng.uniform(0.2, 3.0, groups).tolist()))
    )


def programme_over_atoms(law: np.ndarray, maximize, budget: str, level: float) -> float:
    """The best over all randomised rules q(z, atom), rates compared in pairs: no hulls, no ROC."""
    k, _, m = law.shape
    mass = law.sum(-1)
    value = Value.from_objective(maximize, mass, range(k))
    rate = np.zeros((k, 2, k, m))  # rate[z, y] · q = P(U=1 | y, z)
    for z in range(k):
        for y in range(2):
            if mass[z, y] > 0:
                rate[z, y, z] = law[z, y] / mass[z, y]
    widths = np.array(BUDGETS[budget].widths)
    rows = []
    for y in range(2):
        here = [z for z in range(k) if mass[z, y] > 0]
        for a in here:
            for b in here:
                gap = np.zeros(k * m + 2)
                gap[: k * m], gap[k * m + y] = (rate[a, y] - rate[b, y]).ravel(), -1.0
                rows.append((gap, 0.0))
    for width in widths:
        rows.append((np.r_[np.zeros(k * m), width], level))
    goal = np.r_[np.einsum("zy,zyij->ij", mass * value.price, rate).ravel(), 0.0, 0.0]
    found = linprog(-goal, np.array([r for r, _ in rows]), [b for _, b in rows], bounds=(0, 1))
    return value.constant - found.fun


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000), groups=st.integers(2, 4), empty=st.booleans(),
    budget=st.sampled_from(GAPS), maximize=st.sampled_from(LINEAR),
    level=st.sampled_from([0.0, 1e-6, 0.02, 0.1, 0.4]),
)  # fmt: skip
def test_linear_objectives_under_gap_budgets_equal_the_programme_over_atoms(
    seed, groups, empty, budget, maximize, level
):
    law = random_law(seed, groups, empty=empty)
    maximize = costs_of(maximize, groups)
    curves, mass = curves_of(law)
    best = RocSolver(curves, mass, maximize, budget).curve(np.array([level]))
    assert best.values[0] == pytest.approx(programme_over_atoms(law, maximize, budget, level), abs=2e-7)
    assert 0 <= best.upper[0] - best.values[0] < 2e-7
    assert BUDGETS[budget].measure(best.rates[0], mass) <= level + 1e-12


def convex_programme(law: np.ndarray, maximize, level: float) -> float:
    """The best rule with v ≤ level by a general solver over q(z, atom), from several starts."""
    k, _, m = law.shape
    mass = law.sum(-1)
    value = Value.from_objective(maximize, mass, range(k))
    given_yz = law / mass[:, :, None]

    def rates(q: np.ndarray) -> np.ndarray:
        return np.einsum("zya,za->zy", given_yz, q.reshape(k, m))

    def v(q: np.ndarray) -> float:
        return float(rates_violation(rates(q), mass))

    best = -np.inf
    for start in (0.5, 0.1, 0.9):
        found = minimize(
            lambda q: -float(value(rates(q))), np.full(k * m, start), bounds=[(0, 1)] * (k * m),
            constraints={"type": "ineq", "fun": lambda q: 50 * (level - v(q))},
            method="SLSQP", options={"maxiter": 400, "ftol": 1e-12},
        )  # fmt: skip
        if v(found.x) <= level * (1 + 1e-6):
            best = max(best, -found.fun)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("maximize", LINEAR, ids=str)
@pytest.mark.parametrize(("seed", "groups"), [(1, 2), (2, 3)])
def test_linear_objectives_under_a_violation_equal_a_general_convex_solver(seed, groups, maximize):
    law = random_law(seed, groups, atoms=4)
    maximize = costs_of(maximize, groups)
    curves, mass = curves_of(law)
    levels = np.array([1e-3, 1e-2])
    best = RocSolver(curves, mass, maximize, "violation").curve(levels)
    for j, level in enumerate(levels):
        other = convex_programme(law, maximize, level)
        assert best.upper[j] >= other - 1e-6
        assert best.values[j] == pytest.approx(other, abs=1e-4)


@pytest.mark.nightly
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000), groups=st.integers(2, 6), empty=st.booleans(),
    maximize=st.sampled_from(LINEAR),
)  # fmt: skip
def test_the_dual_of_a_linear_objective_under_a_violation_is_tight(seed, groups, empty, maximize):
    """Weak duality and a closed gap: within 1e-6 at every level, from 1e-7 nats to no limit."""
    curves, mass = curves_of(random_law(seed, groups, atoms=8, empty=empty))
    levels = np.array([0.0, 1e-7, 1e-5, 1e-3, 1e-2, 5e-2, 1.0])
    best = RocSolver(curves, mass, costs_of(maximize, groups), "violation").curve(levels)
    assert ((best.upper - best.values) >= 0).all()
    assert (best.upper - best.values).max() < 2e-6
    assert (rates_violation(best.rates, mass) <= levels + 1e-12).all()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), groups=st.integers(2, 4), budget=st.sampled_from(GAPS))
def test_utility_under_a_gap_budget_is_certified_and_no_random_rule_beats_it(seed, groups, budget):
    curves, mass = curves_of(random_law(seed, groups))
    levels = np.array([0.0, 0.03, 0.2])
    best = RocSolver(curves, mass, "utility", budget).curve(levels)
    assert ((best.upper - best.values) >= 0).all()
    assert (best.upper - best.values).max() < 1e-5
    used = BUDGETS[budget].measure(best.rates, mass)
    assert (used <= levels + 1e-12).all()
    rng = np.random.default_rng(seed)
    pick = [c.rates[c.hull][rng.integers(0, len(c.hull), 4000)] for c in curves]
    mix = rng.random((4000, 1))
    tried = np.stack([mix * p + (1 - mix) * best.rates[1][z] for z, p in enumerate(pick)], axis=1)
    u, spent = (Value.from_objective("utility", mass, ())(tried), BUDGETS[budget].measure(tried, mass))
    assert u[spent <= levels[1]].max(initial=0.0) <= best.upper[1] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("maximize", ["utility", "accuracy", "balanced_accuracy", Cost(2, 1)], ids=str)
def test_more_budget_is_never_worse_and_all_of_it_is_the_free_optimum(maximize, budget):
    law = random_law(5, 3)
    curves, mass = curves_of(law)
    solver = RocSolver(curves, mass, maximize, budget)
    least = solver.least
    levels = np.array([least, 1e-3, 0.01, 0.1, 1.0])
    if budget == "predictive_gap" and maximize == "utility":  # slow
        levels = levels[::2]
    levels = levels[levels >= least]
    best = solver.curve(levels)
    assert (np.diff(best.values) >= 0).all()
    assert (np.diff(best.upper) >= -1e-12).all()
    if maximize == "accuracy":
        close = 1e-4 if budget == "predictive_gap" else 1e-9  # of its branch and bound
        assert best.values[-1] == pytest.approx(law.max(1).sum(), abs=close)


def test_exact_separation_is_the_best_separated_rule():
    curves, mass = curves_of(random_law(6, 3))
    same = lower_curve([curve.rates[curve.hull] for curve in curves])  # rates that all groups reach
    expected = same[rates_utility(same, mass.sum(0)).argmax()]
    for budget in ("violation", "eo_gap", "eo_max"):
        found = RocSolver(curves, mass, "utility", budget).curve(np.zeros(1))
        np.testing.assert_allclose(found.rates[0], np.broadcast_to(expected, (3, 2)), atol=1e-12)


def test_names_that_are_not_there_and_costs_that_say_nothing_are_refused():
    curves, mass = curves_of(random_law(7, 2))
    with pytest.raises(InputError, match="'violation', 'eo_gap'"):
        RocSolver(curves, mass, budget="eo")
    with pytest.raises(InputError, match="'utility', 'accuracy', 'balanced_accuracy' or Cost"):
        RocSolver(curves, mass, "auc")
    with pytest.raises(InputError, match="at least one cost above 0"):
        Cost(0, 0)
    with pytest.raises(InputError, match="finite cost of at least 0"):
        Cost(-1, 1)
    with pytest.raises(InputError, match="no cost for 'b'"):
        RocSolver(curves, mass, Cost({"a": 1}, 1), groups=("a", "b"))
    assert set(OBJECTIVES) == {"utility", "accuracy", "balanced_accuracy", "cost"}
