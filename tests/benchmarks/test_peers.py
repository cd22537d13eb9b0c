"""The comparison with the peers: the mathematics of its choices."""

from dataclasses import replace

import numpy as np
from benchmarks.peers.measure import Path_, best_coin, nested, of_decisions, of_scores


def test_the_coin_is_the_best_of_all_mixtures_within_the_budget():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = np.r_[0.0, rng.random(6)], rng.random(7)
        budget = rng.random()
        i, j, w = best_coin(x, y, budget)
        assert w * x[i] + (1 - w) * x[j] <= budget + 1e-9
        weights = rng.dirichlet(np.full(7, 0.2), 4_000)  # coins between any of the points
        within = weights[weights @ x <= budget]
        assert w * y[i] + (1 - w) * y[j] >= (within @ y).max() - 1e-9


def _path(rng: np.random.Generator) -> Path_:
    shape = (6, 5)
    x = np.sort(rng.random(shape), axis=0)
    return Path_(x, np.zeros(shape), 0.5 + 0.4 * x + 0.05 * rng.random(shape), np.full(5, 0.5))


def test_the_fold_that_reports_has_no_say_in_the_choice():
    """Rows of a fold may change what it reports, never which point it reports."""
    path = _path(np.random.default_rng(1))
    for k in range(5):
        better = path.y.copy()
        better[0, k] += 10.0  # on this fold the first point would be the choice by far
        before, after = (nested(one, (0.9,), coin=False) for one in (path, replace(path, y=better)))
        assert after.y[0, k] == before.y[0, k]


def test_luck_in_passing_a_budget_is_found_out():
    """Copies of one rule that only chance tells apart: more of them reach more, and find more."""
    rng = np.random.default_rng(3)

    def asked(points: int, budget: float = 0.02) -> tuple[float, float]:
        shape = (points, 5)
        x = np.abs(0.05 + 0.03 * rng.normal(size=shape))  # the same gap for all, seen with noise
        path = Path_(x, np.full(shape, 0.02), np.full(shape, 0.8), np.full(5, 0.5), gap=True)
        answers = nested(path, [budget], coin=True)
        return float(answers.y.mean()), float(answers.found(np.arange(5))[0])

    one, many = (np.mean([asked(points) for _ in range(60)], axis=0) for points in (1, 60))
    assert many[0] > one[0] + 0.03
    assert many[1] > one[1] + 0.01


def test_shuffled_groups_have_no_violation_once_corrected():
    rng = np.random.default_rng(2)
    y, z = rng.integers(0, 2, (2, 4_000))
    q = np.clip(0.5 + 0.3 * (2 * y - 1) + 0.2 * rng.normal(size=(40, 4_000)), 0, 1)
    for x, floor, *_ in (of_decisions(np.round(q), y, z, "information"), of_scores(q, y, z, "scores")):
        assert np.all(x > 0)
        assert abs((x - floor).mean()) < 0.2 * x.mean()
    apart, by_chance, *_ = of_scores(q + 0.1 * z, y, z, "scores")
    assert np.all(apart - by_chance > 10 * by_chance)
