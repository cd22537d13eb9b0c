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


def test_more_noisy_points_do_not_raise_what_counts_as_within_a_budget():
    """Copies of one point that only chance tells apart: the luckiest is chosen, and found out."""
    rng = np.random.default_rng(3)

    def value(points: int) -> tuple[float, float]:
        shape = (points, 5)
        x = np.abs(0.05 + 0.03 * rng.normal(size=shape))  # the same gap for all, seen with noise
        path = Path_(x, np.full(shape, 0.02), np.full(shape, 0.8), np.full(5, 0.5), gap=True)
        answers = nested(path, np.linspace(0, 0.1, 21), coin=True)
        asked = float(answers.y[4].mean())  # asked for 0.02, whatever is found
        return asked, float(answers.within([0.02], np.arange(5))[0])

    few, many = (np.mean([value(points) for _ in range(60)], axis=0) for points in (1, 60))
    assert many[0] > few[0] + 0.03  # luck pays where the chosen folds are believed
    assert many[1] < few[1] + 0.02


def test_shuffled_groups_have_no_violation_once_corrected():
    rng = np.random.default_rng(2)
    y, z = rng.integers(0, 2, (2, 4_000))
    q = np.clip(0.5 + 0.3 * (2 * y - 1) + 0.2 * rng.normal(size=(40, 4_000)), 0, 1)
    for x, floor, *_ in (
        of_decisions(np.round(q), y, z, "information"),
        of_scores(q, y, z, "scores"),
    ):
        assert np.all(x > 0)
        assert abs((x - floor).mean()) < 0.2 * x.mean()
    apart, by_chance, *_ = of_scores(q + 0.1 * z, y, z, "scores")
    assert np.all(apart - by_chance > 10 * by_chance)
