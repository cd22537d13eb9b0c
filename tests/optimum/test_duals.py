"""The dual for more than two labels: its bound holds for every rule, and the rule is near it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

import separatrix as sx
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.optimum.law import LabelLaw
from separatrix.optimum.multiclass.dual import LabelDual, tangent
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.roc.regions import roc_curve


def random_law(seed: int, labels: int, groups: int, atoms: int):
    """Posteriors, groups and weights of `atoms` rows."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(labels, 0.5), atoms)
    return p, np.arange(atoms) % groups, rng.dirichlet(np.ones(atoms))


def table_of(q: np.ndarray, p: np.ndarray, z: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.einsum("n,ny,nz,nu->yzu", w, p, np.eye(z.max() + 1)[z], q)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_no_rule_is_above_the_bound_and_free_kernels_find_no_more(seed):
    """Against gradient ascent over all kernels q(u | atom), penalised, from several starts."""
    p, z, w = random_law(seed, 3, 2, 10)
    gains = np.random.default_rng(seed).random((3, 3)) + np.eye(3)
    level = 0.01
    best = LabelDual(LabelLaw(p, z, w, 2), gains).point(level)
    assert best.violation <= level + 1e-12
    assert best.value <= best.upper

    def loss(x: np.ndarray) -> float:
        table = table_of(softmax(x.reshape(10, 3), axis=1), p, z, w)
        excess = max(float(conditional_mutual_information(table)) - level, 0.0)
        return 50.0 * excess - float((table.sum(1) * gains).sum())

    rng = np.random.default_rng(0)
    for _ in range(3):
        found = minimize(loss, rng.normal(size=30), method="L-BFGS-B", options={"maxiter": 60})
        table = table_of(softmax(found.x.reshape(10, 3), axis=1), p, z, w)
        if conditional_mutual_information(table) <= level:
            assert float((table.sum(1) * gains).sum()) <= best.upper + 1e-9
        assert -found.fun <= best.value + 2e-3


@pytest.mark.slow
def test_the_gap_between_bound_and_rule_is_small():
    for seed in range(2):
        p, z, w = random_law(seed, 4, 3, 40)
        dual = LabelDual(LabelLaw(p, z, w, 3), np.eye(4))
        for level in (0.05, 0.001):
            found = dual.point(level)
            assert found.violation <= level + 1e-12
            assert 0 <= found.upper - found.value < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_dual_is_convex_and_its_gradient_is_right(seed):
    p, z, w = random_law(seed, 3, 2, 9)
    dual, rng = LabelDual(LabelLaw(p, z, w, 2), np.eye(3)), np.random.default_rng(seed)
    tau = np.array([0.1, 0.2])
    first = dual._first._replace(log_base=np.log([0.5, 0.3, 0.2]))
    a, b = rng.normal(size=(2, len(first.x))) * 0.3
    b[-1] = a[-1]  # convex in ν for each price
    middle = dual._dual((a + b) / 2, first, 0.01, tau)[0]
    ends = [dual._dual(x, first, 0.01, tau)[0] for x in (a, b)]
    assert middle <= np.mean(ends) + 1e-12
    slope = dual._dual(a, first, 0.01, tau)[1]
    for way in rng.normal(size=(3, len(a))):
        up, down = (dual._dual(a + h * way, first, 0.01, tau)[0] for h in (1e-6, -1e-6))
        assert (up - down) / 2e-6 == pytest.approx(slope @ way, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_weak_duality_against_every_deterministic_rule(seed):
    """D_0 + βε is above the gain of all 3⁶ rules within the level, for any ν and β."""
    p, z, w = random_law(seed, 3, 2, 6)
    rng = np.random.default_rng(seed)
    gains = rng.random((3, 3)) + np.eye(3)
    tables = [table_of(np.eye(3)[list(rule)], p, z, w) for rule in itertools.product(range(3), repeat=6)]
    v = np.array([float(conditional_mutual_information(table)) for table in tables])
    gain = np.array([float((table.sum(1) * gains).sum()) for table in tables])
    dual = LabelDual(LabelLaw(p, z, w, 2), gains)
    for level in (0.001, 0.05, 0.2):
        most = gain[v <= level].max()
        assert dual.point(level).upper >= most - 1e-12
        for _ in range(5):
            state = dual._first._replace(x=rng.normal(size=len(dual._first.x)))
            assert dual.offset + dual.scale * dual._bound(state, level) >= most - 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_the_best_rule_for_the_tangent_has_at_least_the_same_utility(seed):
    """u is convex in the table, so each tangent climbs."""
    p, z, w = random_law(seed, 3, 2, 12)
    rng = np.random.default_rng(seed)
    reached = table_of(rng.dirichlet(np.ones(3), 12), p, z, w)
    for _ in range(5):
        q = np.eye(3)[(p @ tangent(reached)).argmax(1)]
        climbed = table_of(q, p, z, w)
        assert mutual_information(climbed) >= mutual_information(reached) - 1e-12
        reached = climbed


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "level"), [(0, 0.01), (1, 0.05), (2, 0.01)])
def test_utility_is_within_one_per_cent_of_ten_starts_of_free_kernels(seed, level):
    p, z, w = random_law(seed, 3, 2, 8)
    found = LabelDual(LabelLaw(p, z, w, 2), "utility").point(level)
    assert found.violation <= level + 1e-12
    assert found.value >= 0.99 * _free_kernels(p, z, w, level)


def _free_kernels(p, z, w, level):
    """Gradient ascent of u − βv over all q(u | atom) from ten starts, β by bisection."""
    n, best = len(p), 0.0

    def loss(x, beta):
        q = softmax(x.reshape(n, 3), axis=1)
        table = np.maximum(table_of(q, p, z, w), 1e-15)
        rate = np.log(table / table.sum(2, keepdims=True))
        common = np.log(table.sum(1) / table.sum((1, 2))[:, None])
        slope = tangent(table)[:, None] - beta * (rate - common[:, None])
        each = np.einsum("ny,ynu->nu", w[:, None] * p, slope[:, z])
        value = mutual_information(table) - beta * conditional_mutual_information(table)
        return -float(value), -(q * (each - (q * each).sum(1, keepdims=True))).ravel()

    for start in range(10):
        x = np.random.default_rng(start).normal(size=3 * n) * 2
        low, high = -3.0, 6.0
        for _ in range(12):
            beta = np.exp((low + high) / 2)
            x = minimize(loss, x, args=(beta,), jac=True, method="L-BFGS-B").x
            table = table_of(softmax(x.reshape(n, 3), axis=1), p, z, w)
            if conditional_mutual_information(table) <= level:
                best, high = max(best, float(mutual_information(table))), (low + high) / 2
            else:
                low = (low + high) / 2
    return best


def test_two_labels_agree_with_the_exact_limit():
    p, z, w = random_law(3, 2, 2, 16)
    dual = LabelDual(LabelLaw(p, z, w, 2), np.eye(2))
    curves = tuple(roc_curve(p[z == g, 1], (w * p[:, 1])[z == g], (w * p[:, 0])[z == g]) for g in (0, 1))
    mass = np.array([w[z == g] @ p[z == g] for g in (0, 1)])
    levels = np.array([1e-3, 1e-2])
    exact = RocSolver(curves, mass, "accuracy", "violation").curve(levels)
    for level, value in zip(levels, exact.values, strict=True):
        found = dual.point(float(level))
        assert found.upper >= value - 1e-6
        assert found.value == pytest.approx(value, abs=1e-3)


def test_the_limit_for_three_labels_gives_rules_within_the_budget_and_refuses_what_it_cannot():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y, z = np.array([rng.choice(3, p=row) for row in p]), rng.integers(0, 2, 300)
    best = sx.limit(y, p, sensitive_features=z, maximize="accuracy", levels=[0.001, 0.002])
    assert (np.diff(best.upper) >= 0).all()
    assert best.gap < 1e-3
    q = best.rule(0.0015).predict_proba(p, sensitive_features=z)
    table = table_of(q, p, z, np.full(300, 1 / 300))
    assert conditional_mutual_information(table) <= 0.0015 + 1e-9
    gain = np.trace(table.sum(1))
    assert best.values[0] - 1e-3 <= gain <= best.upper[1] + 1e-9
    assert "3 labels" in str(best)
    for options, words in (
        ({"maximize": "accuracy", "budget": "tpr_gap"}, "needs two labels"),
        ({"maximize": np.eye(2)}, "matrix"),
        ({"maximize": Cost(1, 1)}, "matrix"),
        ({"maximize": "accuracy", "levels": [0.0]}, "at least 1e-06"),
    ):
        with pytest.raises(InputError, match=words):
            sx.limit(y, p, sensitive_features=z, **options)
