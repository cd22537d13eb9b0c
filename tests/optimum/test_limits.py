"""The limit against brute force, against an independent global search, and the channels that
realise it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.optimize import differential_evolution

import separatrix as sx
from separatrix.columns.counting import soft_counts
from separatrix.core.information import (
    conditional_mutual_information,
    mutual_information,
    rates_utility,
    rates_violation,
)
from separatrix.errors import InputError
from separatrix.optimum.limit import Limit
from separatrix.optimum.roc.regions import Regions, roc_curve
from separatrix.optimum.rules import ThresholdChannel


def rows(seed: int, n: int = 3000, groups: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, groups, n), (rng.random(n) < 0.4).astype(int)
    return np.round(rng.normal(size=n) + y * (0.5 + 0.6 * z) + 0.3 * z, 1), y, z


def limit_of(s: ArrayLike, y: ArrayLike, z: ArrayLike, **options: Any) -> Any:
    return sx.limit(y, s, sensitive_features=z, **options)


def point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(y, q, sensitive_features=z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


def test_options_of_an_engine_are_refused_for_rows_in_memory():
    s, y, z = rows(0, 300)
    for options in ({"bins": "x"}, {"span": 3}):
        with pytest.raises(InputError, match=f"`{next(iter(options))}` is for lazy frames and files"):
            limit_of(s, y, z, **options)


def regions_of(best: Limit) -> Regions:
    return Regions([curve.rates[curve.hull] for curve in best.solver.curves], best.solver.mass.T)


def grid_search(regions: Regions, level: float, steps: int = 33) -> float:
    """Brute force for two groups: every pair of points of a grid in both regions."""
    axis = np.linspace(0.0, 1.0, steps)
    s, share = np.meshgrid(axis, axis, indexing="ij")
    cloud = []
    for chain in regions.chains:
        top = np.interp(s, chain[:, 0], chain[:, 1])
        points = np.stack([s, (1 - share) * s + share * top], axis=-1).reshape(-1, 2)
        cloud.append(np.concatenate([points, chain]))
    first, second = cloud
    best = 0.0
    for a in first:
        x = np.stack([np.broadcast_to(a, second.shape), second], axis=1)
        fits = rates_violation(x, regions.mass) <= level
        if fits.any():
            best = max(best, float(rates_utility(regions.mean(x[fits]), regions.prior).max()))
    return best


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_pair_of_rules_on_a_grid_is_above_the_upper_bound(seed: int) -> None:
    best = limit_of(*rows(seed), points=2)
    for level in (1e-3, 1e-2):
        solved = best.solver.curve(np.array([level]))
        found = grid_search(regions_of(best), level)
        assert found <= solved.upper[0] + 1e-9
        assert solved.upper[0] - solved.values[0] <= 1e-4
        assert solved.values[0] <= found + 0.01  # the grid is coarse, not blind
        assert rates_violation(solved.rates[0], best.solver.mass.T) <= level + 1e-12


def adult_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adult's empirical law: the score of a row is the share of its atom (x, z) above 50K."""
    data = sx.datasets.load("adult", features="paper")
    _, atom = np.unique(np.column_stack([data.X, data.z]), axis=0, return_inverse=True)
    return (np.bincount(atom, weights=data.y) / np.bincount(atom))[atom], data.y, data.z


@pytest.mark.nightly
@pytest.mark.parametrize(("source", "level"), [("simulated", 5e-3), ("adult", 1.5e-4), ("adult", 5e-3)])
def test_an_independent_global_search_finds_nothing_better(source: str, level: float) -> None:
    """Differential evolution over the groups' rates, penalised: it must not beat the certified
    bound.
    """
    best = limit_of(*(adult_rows() if source == "adult" else rows(5, groups=3)), points=2)
    regions = regions_of(best)
    k = len(regions.chains)

    def loss(w: np.ndarray) -> float:
        s, share = w[:k], w[k:]
        top = regions.height(s)[np.arange(k), np.arange(k)]
        x = np.stack([s, (1 - share) * s + share * top], axis=1)
        excess = max(float(rates_violation(x, regions.mass)) - level, 0.0)
        return 100.0 * excess - float(rates_utility((x * regions.share).sum(0), regions.prior))

    result = differential_evolution(loss, [(0, 1)] * (2 * k), seed=1, maxiter=80, tol=1e-10, popsize=16)
    solved = best.solver.curve(np.array([level]))
    assert -result.fun <= solved.upper[0] + 1e-4  # a penalty is not a constraint: it may trade a little v
    assert -result.fun >= solved.values[0] - 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 3])
def test_the_channel_has_the_violation_and_utility_of_the_curve(groups: int) -> None:
    s, y, z = rows(7, groups=groups)
    best = limit_of(s, y, z, points=20)
    assert best.gap <= 1e-4
    for level in (0.0, 1e-4, 3e-3, float(best.violation[-1])):
        q = best.rule(level).predict_proba(s, sensitive_features=z)
        solved = best.solver.curve(np.array([level]))
        assert point(q, y, z) == pytest.approx(
            (rates_violation(solved.rates[0], best.solver.mass.T), solved.values[0]), abs=1e-9
        )
        assert point(q, y, z)[0] <= level + 1e-9


@pytest.mark.slow
def test_exact_separation_is_exact_and_curves_are_in_order() -> None:
    s, y, z = rows(3)
    best = limit_of(s, y, z, points=30)
    v, u = point(best.rule(0.0).predict_proba(s, sensitive_features=z), y, z)
    assert v < 1e-12
    assert u == pytest.approx(best.utility[0])
    assert (np.diff(best.utility) >= 0).all()
    assert (best.upper >= best.utility).all()
    assert (best.envelope().at(best.levels) >= best.values - 1e-12).all()


def test_a_revealed_mixture_is_the_average_of_its_parts() -> None:
    s, y, z = rows(4)
    best = limit_of(s, y, z, points=15)
    first, second, weight = best.revealed(0.004)
    parts = [point(c.predict_proba(s, sensitive_features=z), y, z) for c in (first, second)]
    v, u = (1 - weight) * np.array(parts[0]) + weight * np.array(parts[1])
    assert v <= 0.004 + 1e-9
    assert u == pytest.approx(float(best.envelope().at(0.004)), abs=1e-9)


@pytest.mark.slow
def test_a_score_that_orders_alike_has_the_same_limit_and_weights_count_rows() -> None:
    s, y, z = rows(8, n=500)
    a = limit_of(s, y, z, points=5)
    b = limit_of(np.exp(s), y, z, points=5)
    assert a.utility == pytest.approx(b.utility, abs=1e-12)
    twice = np.r_[np.arange(500), np.arange(100)]
    weight = np.ones(500)
    weight[:100] = 2
    c = limit_of(s[twice], y[twice], z[twice], points=5)
    d = limit_of(s, y, z, points=5, sample_weight=weight)
    assert c.utility == pytest.approx(d.utility, abs=1e-9)


def test_a_group_without_one_label_and_a_perfect_score() -> None:
    s, y, z = rows(9, n=400)
    y = np.where(z == 1, 1, y)
    best = limit_of(s, y, z, points=6)
    v, _ = point(best.rule(0.0).predict_proba(s, sensitive_features=z), y, z)
    assert v < 1e-12
    perfect = limit_of(np.array([0.0, 1.0, 0.0, 1.0]), [0, 1, 0, 1], [0, 0, 1, 1], points=4)
    assert perfect.utility[-1] == pytest.approx(np.log(2))
    assert perfect.violation.tolist() == [0.0]


def test_planes_hold_for_every_predictor() -> None:
    """The certificate: no rates, whatever they are, lie beyond any plane, tight or not."""
    rng = np.random.default_rng(0)
    s, y, z = rows(10)
    regions = regions_of(limit_of(s, y, z, points=2))
    kappa = rng.normal(size=(50, 1, 2)) * 3 * np.ones((1, 2, 1))
    sloppy = rng.uniform(0.01, 0.99, (50, 2, 2))
    s = rng.random((400, 2))
    x = np.stack([s, s + rng.random((400, 2)) * (regions.height(s) - s)], axis=-1)
    value = np.einsum("nzy,mzy->nm", x, regions.mass * kappa)
    value -= rates_violation(x, regions.mass)[:, None]
    assert (value <= regions.bound(kappa, sloppy) + 1e-12).all()


def test_concave_hull_of_a_roc_curve_dominates_it() -> None:
    rng = np.random.default_rng(1)
    curve = roc_curve(np.round(rng.random(300), 2), rng.random(300), rng.random(300))
    chain = curve.rates[curve.hull]
    assert (np.interp(curve.rates[:, 0], chain[:, 0], chain[:, 1]) >= curve.rates[:, 1] - 1e-12).all()
    slope = np.diff(chain[:, 1]) / np.maximum(np.diff(chain[:, 0]), 1e-300)
    assert (np.diff(slope) <= 1e-9 * np.abs(slope[:-1])).all()


@pytest.mark.slow
def test_three_labels_trace_a_path_down_to_separation() -> None:
    """On the law of the posteriors; u has no bound, and the limit says so."""
    rng = np.random.default_rng(2)
    p, z = rng.dirichlet(np.full(3, 0.5), 600), rng.integers(0, 2, 600)
    p[z == 1] = p[z == 1] ** 2 / (p[z == 1] ** 2).sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((600, 1))).sum(1)
    best = limit_of(p, y, z, levels=[1e-5, 1e-3, 0.01])
    assert (best.violation <= best.levels).all()
    assert (np.diff(best.utility) > 0).all()
    assert best.utility[0] > 0.2
    assert np.isnan(best.gap)
    assert "not known" in str(best)
    q = best.rule(0.01).predict_proba(p, sensitive_features=z)
    table = np.einsum("ny,nz,nu->yzu", p, np.eye(2)[z], q)
    assert conditional_mutual_information(table) <= 0.01 + 1e-9


def test_channels_survive_their_arrays_and_refuse_unknown_groups() -> None:
    s, y, z = rows(6)
    channel = limit_of(s, y, z, points=4).rule(1e-3)
    again = ThresholdChannel.from_arrays(channel.groups, channel.arrays())
    assert np.array_equal(again.predict_proba(s, sensitive_features=z), channel.predict_proba(s, sensitive_features=z))
    with pytest.raises(InputError, match="is not one of"):
        channel.predict_proba([0.1], sensitive_features=[5])


def test_the_summary_is_printable() -> None:
    text = str(limit_of(*rows(0), points=6))
    assert "certified within" in text
    assert "v at most" in text


@pytest.mark.parametrize(
    "call",
    [
        lambda: limit_of([0.1, 0.2], [0, 1], [0]),
        lambda: limit_of([0.1, np.nan], [0, 1], [0, 1]),
        lambda: limit_of([0.1, 0.2], [1, 1], [0, 1]),
        lambda: limit_of([[0.1, 0.2, 0.7]] * 2, [0, 1], [0, 1]),
        lambda: limit_of([[0.5, 0.5]] * 3, [0, 1, 2], [0, 1, 1]),
        lambda: limit_of([0.1, 0.2], [0, 1], [0, 1], points=1),
        lambda: limit_of([0.1, 0.2], [0, 1], [0, 1]).rule(-1.0),
    ],
)
def test_wrong_input_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()


def test_levels_beyond_the_most_useful_rule_cost_nothing() -> None:
    best = limit_of(*rows(0), points=4)
    beyond = best.solution(10.0)
    assert beyond.value == pytest.approx(best.utility[-1])
    assert beyond.upper == pytest.approx(beyond.value)


def test_a_column_stands_for_one_thing():
    table = {"y": [0, 1] * 9, "z": [0, 0, 1] * 6, "s": [0.1, 0.9] * 9, "w": [1.0] * 18}
    for groups, twice in ((["z", "w"], "w"), (["z", "z"], "z"), ("y", "y")):
        asked = {"target": "y", "sensitive_features": groups, "sample_weight": "w"}
        with pytest.raises(InputError, match=f"'{twice}' stands for two things"):
            sx.limit(table, **asked, score="s")
        with pytest.raises(InputError, match=f"'{twice}' stands for two things"):
            sx.audit_score(table, **asked, prediction="s")
