"""The geometry of the (v, u) plane: theorems as properties, and every degenerate case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from separatrix.core.envelope import concave_envelope, hypervolume, pareto, secant, staircase, utility_fraction
from separatrix.errors import InputError

coordinates = st.one_of(
    st.floats(0.0, 1.0, allow_subnormal=False), st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0]), st.just(float("nan"))
)
points = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*(arrays(np.float64, n, elements=coordinates) for _ in range(2)))
)


def _finite(v: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.flatnonzero(~(np.isnan(v) | np.isnan(u)))


@pytest.mark.slow
@given(points)
def test_pareto_set_is_what_no_point_beats(vu: tuple[np.ndarray, np.ndarray]) -> None:
    v, u = vu
    kept = set(pareto(v, u).tolist())
    for i in _finite(v, u):
        adversaries = _finite(v, u)
        beaten = (
            (v[adversaries] <= v[i]) & (u[adversaries] >= u[i]) & ((v[adversaries] < v[i]) | (u[adversaries] > u[i]))
        ).any()
        twin = ((v[adversaries] == v[i]) & (u[adversaries] == u[i]) & (adversaries < i)).any()
        assert (i in kept) == (not beaten and not twin)


@pytest.mark.slow
@given(points, st.floats(0.0, 1.0))
def test_envelope_is_the_best_mixture_of_two_points(vu: tuple[np.ndarray, np.ndarray], level: float) -> None:
    """Theorem "Randomized frontier equals the concave closure", against all pairs of points."""
    v, u = vu
    alive = _finite(v, u)
    if not len(alive):
        with pytest.raises(InputError, match="no points"):
            concave_envelope(v, u)
        return
    envelope = concave_envelope(v, u)
    best = -np.inf
    for i in alive:
        for j in alive:
            if v[i] <= level < v[j]:
                weight = (level - v[i]) / (v[j] - v[i])
                best = max(best, (1 - weight) * u[i] + weight * u[j])
            if v[i] <= level:
                best = max(best, u[i])
    if np.isinf(best):
        assert np.isnan(envelope.at(level))
        with pytest.raises(InputError, match="smallest"):
            envelope.mixture(level)
    else:
        assert float(envelope.at(level)) == pytest.approx(best, abs=1e-12)
        mixture = envelope.mixture(level)
        w = mixture.weight
        assert 0.0 <= w <= 1.0
        assert (1 - w) * v[mixture.first] + w * v[mixture.second] <= level + 1e-12
        assert (1 - w) * u[mixture.first] + w * u[mixture.second] == pytest.approx(best, abs=1e-12)


@given(points)
def test_marginal_price_of_separation_never_falls_as_v_falls(vu: tuple[np.ndarray, np.ndarray]) -> None:
    v, u = vu
    if len(_finite(v, u)):
        price = concave_envelope(v, u).price()
        assert (price > 0).all()
        assert (np.diff(price) <= 1e-9 * price[:-1]).all()


@given(points, st.lists(st.floats(0.0, 1.2), min_size=2, max_size=8))
def test_deterministic_frontier_is_non_decreasing(vu: tuple[np.ndarray, np.ndarray], levels: list[float]) -> None:
    """Proposition "Deterministic frontier is non-decreasing", and the staircase is the maximum that
    it claims.
    """
    v, u = vu
    x = np.sort(levels)
    stairs = staircase(v, u, x)
    alive = _finite(v, u)
    for level, value in zip(x, stairs, strict=True):
        below = alive[v[alive] <= level]
        assert np.isnan(value) if not len(below) else value == u[below].max()
    assert (np.diff(stairs[~np.isnan(stairs)]) >= 0).all()


@given(points)
def test_hypervolume_agrees_with_moocore(vu: tuple[np.ndarray, np.ndarray]) -> None:
    moocore = pytest.importorskip("moocore")
    v, u = vu
    alive = _finite(v, u)
    expected = moocore.hypervolume(np.c_[v[alive], -u[alive]], ref=[0.8, 0.0]) if len(alive) else 0.0
    assert hypervolume(v, u, 0.8) == pytest.approx(expected, abs=1e-12)


@given(points)
def test_envelope_holds_more_than_the_staircase_and_more_points_never_hurt(vu: tuple[np.ndarray, np.ndarray]) -> None:
    v, u = vu
    if len(_finite(v, u)):
        whole = concave_envelope(v, u).hypervolume(0.9)
        assert whole >= hypervolume(v, u, 0.9) - 1e-12
        part = hypervolume(v[: len(v) // 2], u[: len(v) // 2], 0.9)
        assert hypervolume(v, u, 0.9) >= part - 1e-12


def test_one_point() -> None:
    e = concave_envelope([0.2], [0.5])
    assert e.at([0.1, 0.2, 0.9]).tolist()[1:] == [0.5, 0.5]
    assert np.isnan(e.at(0.1))
    assert len(e.price()) == 0
    assert e.hypervolume(0.4) == pytest.approx(0.1)
    assert e.hypervolume(0.1) == 0.0


def test_share_of_the_limit_is_one_for_the_limit_and_counts_the_constant_predictor() -> None:
    limit = concave_envelope([0.0, 0.1, 0.4], [0.1, 0.3, 0.4])
    assert utility_fraction([0.0, 0.1, 0.4], [0.1, 0.3, 0.4], limit) == pytest.approx(1.0)
    assert utility_fraction([0.4], [0.4], limit) == pytest.approx(0.08 / 0.125)
    with pytest.raises(InputError, match="no area"):
        utility_fraction([0.1], [0.1], concave_envelope([0.0], [0.0]))


@given(st.floats(0.05, 5.0), st.floats(0.01, 0.4), st.floats(0.05, 0.5), st.floats(0.0, 1.0))
def test_secant_extrapolates_a_concave_frontier_from_above(power: float, v0: float, step: float, part: float) -> None:
    """Section 2.3: left of the X-only point the secant bounds any concave frontier through both
    reference points.
    """
    frontier = lambda v: v ** (1.0 / (1.0 + power))  # noqa: E731
    line = secant((v0, frontier(v0)), (v0 + step, frontier(v0 + step)))
    strict = part * v0
    assert float(line.at(strict)) >= frontier(strict) - 1e-12


@pytest.mark.parametrize(
    "call",
    [
        lambda: pareto([0.1, 0.2], [0.1]),
        lambda: pareto([[0.1]], [[0.1]]),
        lambda: concave_envelope([np.inf], [0.1]),
        lambda: concave_envelope([], []),
        lambda: hypervolume([0.1], [0.1], v_max=0.0),
        lambda: hypervolume([0.1], [0.1], v_max=np.inf),
        lambda: concave_envelope([0.1], [0.1]).at(np.nan),
    ],
)
def test_wrong_input_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()
