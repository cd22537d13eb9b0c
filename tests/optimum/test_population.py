"""Section 2 of the paper on known laws: each numbered result, and laws on which it must fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.optimum.population import (
    budgets,
    exact_frontier,
    frozen,
    necessary_trade_off,
    overlap_gap,
    predictor_point,
    separated_features,
    u_x,
)

seeds = st.integers(0, 2**32 - 1)


def random_law(rng: np.random.Generator, x: int, y: int, z: int, sparse: float = 0.0) -> np.ndarray:
    p = rng.gamma(0.7, 1.0, (x, y, z)) * (rng.random((x, y, z)) >= sparse)
    p.flat[rng.integers(p.size)] += 0.5
    return p / p.sum()


def separated_law(rng: np.random.Generator, x: int, y: int, z: int) -> np.ndarray:
    """X ⟂ Z | Y with overlap: p(y,z) p(x|y)."""
    of_yz = rng.dirichlet(np.ones(y * z)).reshape(y, z) + 0.01
    of_x = rng.dirichlet(np.ones(x), y)  # p(x | y)
    return np.einsum("yz,yx->xyz", of_yz / of_yz.sum(), of_x)


def brute_force(p: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(v, u) of every f: X×Z → U, one by one, straight from the definition."""
    x, _, z = p.shape
    points = [
        predictor_point(p, np.array(f).reshape(x, z), n_outputs=k) for f in itertools.product(range(k), repeat=x * z)
    ]
    return tuple(np.array(points).T)


@given(seeds, st.sampled_from([(2, 2, 2), (3, 2, 2), (2, 2, 3), (2, 3, 2), (1, 3, 3)]), st.sampled_from([0.0, 0.3]))
@settings(max_examples=20)
def test_exact_frontier_is_that_of_all_deterministic_predictors(seed: int, shape: tuple, sparse: float) -> None:
    """U*_det is the staircase of brute force, and U*_rand its concave closure."""
    p = random_law(np.random.default_rng(seed), *shape, sparse)
    if p.sum((0, 2)).min() <= 0:
        return
    v, u = brute_force(p, shape[1])
    f = exact_frontier(p, points=2)
    for level in np.r_[0.0, np.quantile(v, [0.1, 0.5, 0.9]), v.max()]:
        assert float(f.at(level + 1e-11)) == pytest.approx(u[v <= level + 1e-11].max(), abs=1e-9)
    assert f.u_xz == pytest.approx(u.max(), abs=1e-12)
    for predictor, point_v, point_u in zip(f.predictors, f.violation, f.utility, strict=True):
        assert predictor_point(p, predictor) == pytest.approx((point_v, point_u), abs=1e-11)
    weight = np.random.default_rng(seed).dirichlet(np.ones(len(v)))
    assert float(f.envelope().at(weight @ v)) >= weight @ u - 1e-9  # Step 4: no mixture of all of them is above


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 6, 9, 10, 13])
def test_private_curve_beats_every_deterministic_predictor_and_is_certified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = exact_frontier(random_law(rng, 3, 2, 2, 0.2 * (seed % 2)), points=8)
    private = f.private
    assert (private.upper - private.utility).max() <= 1e-4
    inside = f.violation <= private.levels[-1]
    level = np.searchsorted(private.levels, f.violation[inside] - 1e-12)  # the next laxer level bounds them
    assert (f.utility[inside] <= private.upper[level] + 1e-9).all()
    assert f.u_xz == pytest.approx(private.utility[-1], abs=1e-9)


@pytest.mark.nightly
def test_necessary_trade_off_on_a_thousand_separated_laws() -> None:
    """Theorem "Necessary trade-off beyond u*_X": with X ⟂ Z | Y and overlap the best v = 0 utility
    equals u*_X.
    """
    rng = np.random.default_rng(0)
    strict = 0
    for _ in range(1000):
        p = separated_law(rng, 3, 2, 2)
        f = exact_frontier(p, points=2)
        assert float(f.at(1e-10)) == pytest.approx(f.u_x, abs=1e-9)
        assert f.private.utility[0] == pytest.approx(f.u_x, abs=1e-9)  # a private coin does not help either
        above = f.utility > f.u_x + 1e-9
        assert (f.violation[above] > 0).all()
        strict += bool(above.any())
    assert strict > 500  # the statement is not empty: for many laws Z helps


def test_necessary_trade_off_for_three_labels_and_three_groups() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        f = exact_frontier(separated_law(rng, 2, 3, 3))
        assert float(f.at(1e-10)) == pytest.approx(f.u_x, abs=1e-9)


def test_trade_off_can_fail_without_overlap() -> None:
    """The paper's counter-example Y = Z: U = Y separates, and its utility exceeds u*_X."""
    p = np.zeros((2, 2, 2))
    p[:, 0, 0], p[:, 1, 1] = [0.3, 0.2], [0.2, 0.3]
    f = exact_frontier(p)
    assert f.violation[-1] == 0.0
    assert float(f.at(0.0)) == pytest.approx(np.log(2))
    assert f.u_x < 0.05
    result = necessary_trade_off(p)
    assert not result.applies
    assert result.missing_overlap == pytest.approx(0.5)
    assert "overlap fails" in result.conclusion


def test_conclusions_name_the_assumption_that_fails() -> None:
    rng = np.random.default_rng(2)
    strict = np.einsum("yz,yx->xyz", [[0.4, 0.1], [0.1, 0.4]], [[0.6, 0.4], [0.4, 0.6]])  # Z tells much about Y
    holds = necessary_trade_off(strict)
    assert holds.applies
    assert holds.conclusion.startswith("strict trade-off")
    assert holds.price == pytest.approx(holds.u_xz - holds.u_x)
    dependent = necessary_trade_off(random_law(rng, 3, 2, 2))
    assert not dependent.applies
    assert dependent.dependence > 0
    assert "X ⟂ Z | Y fails" in dependent.conclusion
    assert np.isnan(dependent.price)
    useless = np.einsum("yz,yx->xyz", np.full((2, 2), 0.25), [[0.8, 0.2], [0.2, 0.8]])
    assert necessary_trade_off(useless).conclusion.startswith("no trade-off")


@given(seeds)
@settings(max_examples=15)
def test_conditional_law_matching(seed: int) -> None:
    """Lemma "Conditional law matching": freezing Z in a v = 0 predictor keeps its law with Y, in
    every group.
    """
    rng = np.random.default_rng(seed)
    p = separated_law(rng, 3, 2, 3)
    f = exact_frontier(p, points=2)
    for predictor in f.predictors[f.violation == 0.0]:
        law = np.einsum("xyz,xzu->yu", p, np.eye(2)[predictor])
        for z0 in range(3):
            assert np.allclose(np.einsum("xyz,xzu->yu", p, frozen(p, predictor, z0)), law, atol=1e-6)
    lax = f.predictors[-1]
    if f.violation[-1] > 1e-3:  # and it fails where separation does
        law = np.einsum("xyz,xzu->yu", p, np.eye(2)[lax])
        laws = [np.einsum("xyz,xzu->yu", p, frozen(p, lax, z0)) for z0 in range(3)]
        assert max(np.abs(other - law).max() for other in laws) > 1e-6


@given(seeds, st.integers(2, 4))
def test_budget_identity(seed: int, k: int) -> None:
    """Lemma "Budget identity": u + v = I(U;(Y,Z)) within the budgets, for randomised predictors
    too.
    """
    rng = np.random.default_rng(seed)
    p = random_law(rng, 3, 3, 2, 0.2)
    q = rng.dirichlet(np.ones(k), (3, 2))
    b = budgets(p)
    table = np.einsum("xyz,xzu->yzu", p, q)
    v, u = predictor_point(p, q)
    assert u + v == pytest.approx(float(mutual_information(table.reshape(6, 1, k))), abs=1e-10)
    assert b.total == pytest.approx(b.utility + b.separation, abs=1e-10)
    assert u <= b.utility + 1e-10
    assert v <= b.separation + 1e-10
    everything = np.eye(6)[np.arange(6).reshape(3, 2)]  # U = (X, Z) exhausts both budgets
    assert predictor_point(p, everything) == pytest.approx((b.separation, b.utility), abs=1e-10)


def test_checks_of_the_assumptions_are_amounts() -> None:
    rng = np.random.default_rng(3)
    p = random_law(rng, 3, 2, 2)
    assert separated_features(p) == pytest.approx(float(conditional_mutual_information(p.transpose(1, 2, 0))))
    assert separated_features(separated_law(rng, 4, 3, 2)) == pytest.approx(0.0, abs=1e-12)
    assert overlap_gap(p) == 0.0
    p[:, 1, 0] = 0
    q = p / p.sum()
    assert overlap_gap(p) == pytest.approx(q.sum((0, 2))[1] * q.sum((0, 1))[0])


@given(seeds)
def test_best_predictor_of_x_is_a_threshold(seed: int) -> None:
    p = random_law(np.random.default_rng(seed), 5, 2, 2, 0.2)
    by_hand = max(
        float(mutual_information(np.einsum("xyz,xu->yu", p, np.eye(2)[list(f)])[:, None]))
        for f in itertools.product(range(2), repeat=5)
    )
    assert u_x(p) == pytest.approx(by_hand, abs=1e-12)


@pytest.mark.slow
def test_large_binary_laws_go_to_the_certified_solver() -> None:
    p = random_law(np.random.default_rng(5), 20, 2, 3)
    f = exact_frontier(p, points=10)
    assert not f.deterministic
    assert f.predictors is None
    assert f.u_xz == pytest.approx(necessary_trade_off(p).u_xz, abs=1e-9)
    assert f.violation[0] == 0.0
    assert (f.private.upper - f.private.utility).max() <= 1e-4


@pytest.mark.nightly
def test_a_private_coin_can_beat_every_revealed_mixture() -> None:
    """Why both curves are shown: without a coin only constants separate here."""
    p = np.zeros((2, 2, 2))
    p[:, :, 0] = [[0.24, 0.01], [0.01, 0.24]]
    p[:, :, 1] = [[0.15, 0.10], [0.10, 0.15]]
    f = exact_frontier(p)
    assert float(f.at(0.0)) == pytest.approx(0.0, abs=1e-12)
    assert f.private.utility[0] > 0.015


@pytest.mark.parametrize(
    "call",
    [
        lambda: exact_frontier(np.ones((2, 2))),
        lambda: exact_frontier(-np.ones((2, 2, 2))),
        lambda: exact_frontier(np.zeros((2, 2, 2))),
        lambda: exact_frontier("law"),
        lambda: exact_frontier(np.ones((2, 2, 2)), n_outputs=1),
        lambda: exact_frontier(np.ones((9, 3, 3))),
        lambda: u_x(np.ones((30, 3, 2))),
        lambda: predictor_point(np.ones((2, 2, 2)), [0, 1]),
        lambda: predictor_point(np.ones((2, 2, 2)), np.full((2, 2, 2), 0.7)),
        lambda: frozen(np.ones((2, 2, 2)), [[0, 1], [0, 1]], z0=2),
    ],
)
def test_wrong_input_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()
