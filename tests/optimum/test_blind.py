"""Decisions without the group: the optimum of the law, the budget on the rows, the promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from separatrix.core.information import accuracy, conditional_mutual_information, eo_gap, rates_violation
from separatrix.core.measures import BUDGETS
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.law import BlindLaw
from separatrix.optimum.multiclass.column_generation import ColumnSolver
from separatrix.optimum.objectives import Cost, Value
from separatrix.optimum.population import blind_limit, necessary_trade_off, u_x
from separatrix.optimum.promised import BlindPromises
from separatrix.optimum.rules import BlindRule, check_joint

DIFFERENCES = ("eo_gap", "eo_max", "tpr_gap", "fpr_gap")


def random_law(seed, atoms=None, groups=None, labels=2):
    rng = np.random.default_rng(seed)
    shape = (atoms or rng.integers(2, 25), labels, groups or rng.integers(2, 5))
    p = rng.gamma(rng.choice([0.2, 0.5, 2.0]), 1.0, shape) + 1e-6
    return p / p.sum()


def over_all_atoms(p, value, budget, level):
    """The linear programme over P(U=1 | x) of every atom: an independent answer."""
    atoms, _, groups = p.shape
    mass, widths = p.sum(0), np.array(BUDGETS[budget].widths)
    rows, right = [], []
    for y in np.flatnonzero(widths.max(0) > 0):
        for z in range(groups):
            for sign, bound in ((1, 2 + y), (-1, y)):
                row = np.zeros(atoms + 4)
                row[:atoms], row[atoms + bound] = sign * p[:, y, z] / mass[y, z], -sign
                rows.append(row)
                right.append(0.0)
    for width in widths:
        rows.append(np.r_[np.zeros(atoms), -width, width])
        right.append(level)
    gain = np.einsum("xyz,zy->x", p, value.price)
    found = linprog(np.r_[-gain, np.zeros(4)], np.array(rows), right, bounds=(0, 1))
    return value.constant - found.fun


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    budget=st.sampled_from(DIFFERENCES),
    maximize=st.sampled_from(["accuracy", "balanced_accuracy", Cost(1, 4)]),
    level=st.sampled_from([0.0, 0.02, 0.2]),
)
def test_the_optimum_of_a_law_is_that_of_the_programme_over_all_atoms(seed, budget, maximize, level):
    p = random_law(seed)
    found = blind_limit(p, maximize, budget, levels=[level])
    value = Value.from_objective(maximize, p.sum(0).T, range(p.shape[2]))
    assert found.values[0] == pytest.approx(over_all_atoms(p, value, budget, level), abs=2e-6)
    assert found.upper[0] >= found.values[0] - 1e-12
    rates = found.rates[0, ..., 1].T
    assert BUDGETS[budget].measure(rates, p.sum(0).T) <= level + 1e-7


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    maximize=st.sampled_from(["accuracy", "utility"]),
    level=st.sampled_from([0.0, 1e-3, 0.02]),
)
def test_the_certificate_holds_and_no_random_rule_within_the_violation_is_better(seed, maximize, level):
    p = random_law(seed, atoms=10)
    found, mass = blind_limit(p, maximize, levels=[level]), p.sum(0)
    assert 0 <= found.gap < 2e-5
    assert rates_violation(found.rates[0, ..., 1].T, mass.T) <= level + 1e-8
    value = Value.from_objective(maximize, mass.T, range(p.shape[2]))
    rng = np.random.default_rng(seed)
    rules = np.concatenate([rng.random((3000, 10)), rng.integers(0, 2, (3000, 10))])
    rules = rng.random((6000, 1)) ** 3 * (rules - 0.5) + 0.5  # from a constant to anything
    rates = np.einsum("rx,xyz->rzy", rules, p) / mass.T
    within = rates_violation(rates, mass.T) <= level
    assert (value(rates[within]) <= found.upper[0] + 1e-9).all()


def test_the_violation_budget_agrees_with_a_general_solver():
    p = random_law(3, atoms=6, groups=2)
    mass, value = p.sum(0), Value.from_objective("accuracy", p.sum(0).T, (0, 1))

    def rates(rule):
        return np.einsum("x,xyz->zy", rule, p) / mass.T

    best = max(
        (
            minimize(
                lambda r: -float(value(rates(r))),
                start,
                bounds=[(0, 1)] * 6,
                constraints={"type": "ineq", "fun": lambda r: 0.01 - rates_violation(rates(r), mass.T)},
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 500},
            )
            for start in (np.full(6, 0.5), np.linspace(0.4, 0.6, 6))
        ),
        key=lambda found: -found.fun,
    )
    assert blind_limit(p, "accuracy", levels=[0.01]).values[0] == pytest.approx(-best.fun, abs=1e-5)


def test_without_a_budget_it_is_the_best_rule_of_x_and_with_separated_features_nothing_is_lost():
    p = random_law(5, atoms=12)
    assert blind_limit(p, levels=[10.0]).values[0] == pytest.approx(u_x(p), abs=2e-5)
    rng = np.random.default_rng(1)
    of_yz, of_x = rng.dirichlet(np.ones(6)).reshape(2, 3), rng.dirichlet(np.ones(7), size=2)
    separated = of_x.T[:, :, None] * of_yz
    assert blind_limit(separated, levels=[0.0]).values[0] == pytest.approx(u_x(separated), abs=2e-5)


def test_the_trade_off_says_what_the_assumption_misses():
    p = random_law(8, atoms=6, groups=2)
    found = necessary_trade_off(p)
    assert found.u_blind == pytest.approx(blind_limit(p, levels=[0.0]).values[0])
    assert found.u_blind < found.u_x
    assert f"v = 0 allows u = {found.u_blind:.4g}" in found.conclusion


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["eo_gap", "eo_max", "violation"])
def test_three_labels_the_same_prices_bound_every_rule(budget):
    p = random_law(11, atoms=6, groups=2, labels=3)
    found = blind_limit(p, "accuracy", budget, levels=[0.0, 0.01, 5.0])
    assert (np.diff(found.values) > 0).all()
    assert found.gap < 1e-5
    assert found.values[-1] == pytest.approx(p.sum(2).max(1).sum(), abs=1e-6)
    tables = found.rates * p.sum(0)[..., None]
    used = {"eo_gap": eo_gap, "violation": conditional_mutual_information}.get(budget, eo_gap)
    assert (used(tables) <= found.levels + 1e-7).all()
    q = p / p.sum((1, 2), keepdims=True)
    decided = np.einsum("x,xu->xu", p.sum((1, 2)), found.rule(0.01).predict_proba(q))
    assert np.einsum("xu,xyz->yzu", decided, q) == pytest.approx(tables[1], abs=1e-9)
    assert accuracy(tables[1]) == pytest.approx(found.values[1], abs=1e-7)


def test_the_utility_of_three_labels_is_refused():
    with pytest.raises(InputError, match="must be 'accuracy' or 'balanced_accuracy'"):
        blind_limit(random_law(0, labels=3), levels=[0.0])


# rows of a law whose rates are known exactly

BASE, SHARE = np.array([0.35, 0.2, 0.3]), np.array([0.5, 0.3, 0.2])
CENTRE = np.array([[[0.0, 0.0], [0.4, 0.9], [0.0, 1.2]], [[1.8, 0.3], [1.6, 1.2], [1.8, 1.5]]])


def joint_of(x):
    density = np.exp(-0.5 * ((x[:, None, None] - CENTRE) ** 2).sum(-1))
    q = density * np.stack([(1 - BASE) * SHARE, BASE * SHARE])
    return q / q.sum((1, 2), keepdims=True)


def draw(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=SHARE)
    y = (rng.random(n) < BASE[z]).astype(np.intp)
    return joint_of(rng.normal(size=(n, 2)) + CENTRE[y, z]), y, z, np.ones(n), ("a", "b", "c")


POPULATION = draw(50_000, 10**6)


def population_gap(rule):
    q, y, z, *_ = POPULATION
    decided = rule.predict_proba(q)[:, 1]
    rates = [[decided[(y == k) & (z == g)].mean() for g in range(3)] for k in (0, 1)]
    return 0.5 * np.ptp(rates, axis=1).sum()


@pytest.mark.slow
def test_the_promise_is_kept_in_the_population_and_without_a_margin_it_is_not():
    kept, plain = [], []
    for seed in range(7):
        best = BlindPromises(*draw(4_000, seed))
        kept.append(population_gap(best.rule(0.05).rule))
        plain.append(population_gap(best.rule(0.05, promised=False).rule))
    error = np.std(kept) / np.sqrt(7)
    assert np.mean(kept) < 0.05 + 0.003 + 2 * error
    assert np.mean(kept) > 0.03  # not by being far too strict
    assert np.mean(plain) > 0.05 + 0.005


@pytest.mark.slow
@pytest.mark.parametrize("budget", [name for name in BUDGETS if name != "predictive_gap"])
@pytest.mark.parametrize("maximize", ["accuracy", Cost({"a": 1, "b": 2, "c": 1}, 3)])
def test_on_the_rows_the_labels_own_rates_keep_the_budget(budget, maximize):
    rows = draw(1_500, 4)
    asked = 0.004 if BUDGETS[budget].widths is None else 0.06
    rule = BlindPromises(*rows, maximize=maximize, budget=budget).rule(asked, promised=False).rule
    decided, y, z = rule.predict_proba(rows[0])[:, 1], rows[1], rows[2]
    rates = np.array([[decided[(y == k) & (z == g)].mean() for k in (0, 1)] for g in range(3)])
    mass = np.array([[((y == k) & (z == g)).mean() for k in (0, 1)] for g in range(3)])
    assert BUDGETS[budget].measure(rates, mass) <= asked + 1e-6


def test_a_wrong_q_costs_value_and_never_the_budget():
    q, y, z, w, groups = draw(3_000, 5)
    wrong = np.random.default_rng(0).dirichlet(np.ones(6), size=3_000).reshape(q.shape)
    good, bad = (BlindPromises(one, y, z, w, groups).point(0.02) for one in (q, wrong))
    assert good.value > bad.value + 0.02
    for one in (good, bad):
        assert BUDGETS["eo_gap"].measure(one.rates[..., 1].T, np.ones((3, 2))) <= 0.02 + 1e-7


@pytest.mark.slow
def test_where_q_is_the_law_the_rows_differ_from_the_certificate_by_sampling_error():
    apart = []
    for seed in range(6):
        q, y, z, w, groups = draw(5_000, seed)
        law = ColumnSolver(BlindLaw(q, w), groups, "accuracy", "eo_gap").point(0.03)
        assert law.value <= law.upper <= law.value + 1e-5
        apart.append(BlindPromises(q, y, z, w, groups).point(0.03).value - law.value)
    assert abs(np.mean(apart)) < 3 * np.std(apart, ddof=1) / np.sqrt(6)


def test_what_is_refused_names_the_smallest_and_asking_for_that_succeeds():
    best = BlindPromises(*draw(600, 0), maximize="balanced_accuracy")
    with pytest.raises(InfeasibleError, match=r"no rule can promise EO gap ≤ 0\.001") as refused:
        best.rule(0.001)
    smallest = refused.value.smallest["eo_gap"]
    found = best.rule(smallest)
    assert found.expected <= smallest
    with pytest.raises(InfeasibleError):
        best.rule(0.99 * smallest)


def test_weights_are_rows_seen_several_times():
    q, y, z, _, groups = draw(500, 7)
    times = np.random.default_rng(0).integers(1, 4, 500)
    repeated = (np.repeat(one, times, axis=0) for one in (q, y, z))
    a = BlindPromises(q, y, z, times.astype(float), groups).point(0.05)
    b = BlindPromises(*repeated, np.ones(times.sum()), groups).point(0.05)
    assert a.value == pytest.approx(b.value, abs=1e-6)


def test_missing_cells_take_no_part():
    q, y, z, w, groups = draw(2_000, 8)
    kept = ~((y == 1) & (z == 2))
    found = BlindPromises(q[kept], y[kept], z[kept], w[kept], groups).point(0.02)
    rates = found.rates[..., 1]
    assert 0.5 * (np.ptp(rates[0]) + np.ptp(rates[1, :2])) <= 0.02 + 1e-7


def test_arrays_and_back_and_only_numbers():
    rows = draw(1_000, 9)
    rule = BlindPromises(*rows).rule(0.05, promised=False).rule
    again = BlindRule.from_arrays((), rule.arrays())
    assert all(isinstance(one, np.ndarray) for one in rule.arrays().values())
    np.testing.assert_array_equal(again.predict_proba(rows[0]), rule.predict_proba(rows[0]))


@pytest.mark.parametrize(
    ("q", "message"),
    [(np.ones((3, 2)), "must have the shape"), (np.full((2, 2, 2), 0.3), "the sum 1"), ([[["a"]]], "must be numbers")],
)
def test_what_is_not_a_joint_law_is_an_error(q, message):
    with pytest.raises(InputError, match=message):
        check_joint(q)


def test_columns_serve_every_level_and_the_curve_rises():
    p = random_law(21, atoms=15)
    of_x = p.sum((1, 2))
    law = BlindLaw(p / of_x[:, None, None], of_x)
    columns = ColumnSolver(law, tuple(range(p.shape[2])), "accuracy", "eo_gap")
    curve = [columns.point(level).value for level in (0.0, 0.01, 0.05, 0.3)]
    assert (np.diff(curve) >= -1e-9).all()
