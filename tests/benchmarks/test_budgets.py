"""The point for a budget: against a plain search, and what choosing on the reported folds adds."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.peers.yardsticks import nested

from separatrix.core.measures import recorded_metrics
from separatrix.frontier.results import CORRECTED, best, means

FOLDS, POINTS = 5, 12


def columns(used, goal):
    """Columns of one method: a row for each fold and λ, in an order that means nothing."""
    fold, point = np.meshgrid(np.arange(FOLDS), np.arange(POINTS), indexing="ij")
    order = np.random.default_rng(0).permutation(fold.size)
    size = fold.size
    fixed = {"dataset": "d", "method": "m", "inputs": "xz", "recipe": "default", "batch": 0, "seed": 0}
    fixed |= {"policy": "randomized", "status": "ok"}
    made = {name: np.array([value] * size) for name, value in fixed.items()}
    made |= {"fold": fold.ravel(), "trade_off": point.ravel().astype(float)}
    made |= {name: np.full(size, np.nan) for name in (*recorded_metrics(), *CORRECTED)}
    made |= {"eo_gap": used.ravel(), "accuracy": goal.ravel()}
    return {name: column[order] for name, column in made.items()}


def test_each_fold_is_chosen_by_the_others():
    rng = np.random.default_rng(1)
    used, goal = rng.random((2, FOLDS, POINTS))
    made = columns(used, goal)
    rows = nested(made, "eo_gap", 0.5, "accuracy")
    for k in range(FOLDS):
        others = [j for j in range(FOLDS) if j != k]
        within = [i for i in range(POINTS) if used[others, i].mean() <= 0.5]
        i = max(within, key=lambda i: goal[others, i].mean())
        (row,) = [r for r in rows if made["fold"][r] == k]
        assert made["trade_off"][row] == i


def test_a_fold_without_a_point_within_takes_the_closest():
    used = np.tile(np.linspace(0.1, 0.3, POINTS), (FOLDS, 1))
    used[0, 0] = 0.6  # the others' mean is too large then, but for fold 0
    made = columns(used, np.ones_like(used))
    rows = nested(made, "eo_gap", 0.1, "accuracy")
    assert sorted(made["trade_off"][rows].tolist()) == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert nested(columns(used, np.ones_like(used)), "eo_gap", 0.05, "accuracy") is None


def test_a_point_that_lost_a_fold_takes_no_part():
    used, goal = np.zeros((FOLDS, POINTS)), np.zeros((FOLDS, POINTS))
    goal[:, 3] = 1.0
    goal[2, 3] = np.nan
    made = columns(used, goal)
    assert 3.0 not in made["trade_off"][nested(made, "eo_gap", 0.1, "accuracy")]


@pytest.mark.slow
def test_choosing_on_the_reported_folds_flatters_and_nesting_does_not():
    """All points are equally good, so what the choice adds is its own bias."""
    rng = np.random.default_rng(2)
    plain, fair = [], []
    for _ in range(200):
        goal = 0.8 + 0.01 * rng.normal(size=(FOLDS, POINTS))
        made = columns(np.zeros_like(goal), goal)
        mean = means(made)
        plain.append(mean["accuracy"][best(mean, "eo_gap", 0.1, "accuracy")] - 0.8)
        fair.append(made["accuracy"][nested(made, "eo_gap", 0.1, "accuracy")].mean() - 0.8)
    error = 0.01 / np.sqrt(FOLDS * 200)
    assert abs(np.mean(fair)) < 4 * error
    assert np.mean(plain) > 15 * error  # about 1.6 standard errors of a mean of five folds


def test_a_metric_that_is_better_lower_is_minimised():
    rng = np.random.default_rng(4)
    used, goal = rng.random((2, FOLDS, POINTS))
    made = columns(used, goal) | {"eo_gap": np.zeros(FOLDS * POINTS)}
    made["violation"] = made["accuracy"]
    mean = means(made)
    assert mean["violation"][best(mean, "eo_gap", 0.1, "violation")] == pytest.approx(goal.mean(0).min())
