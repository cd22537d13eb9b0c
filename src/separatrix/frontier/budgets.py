"""The point of a path for a budget: chosen on the folds that report it, or on the others.

The paper takes the best mean over the folds among the points whose mean is within the budget, and
reports these same means: with many points and noisy folds that flatters. `nested` chooses for each
fold on the other folds, and reports the fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.measures import METRICS
from separatrix.frontier.tidy import Columns

__all__ = ["Chosen", "best", "nested"]

Array = NDArray[np.float64]


class Chosen(NamedTuple):
    """What was chosen for a budget.

    Args:
        rows: of the columns, one for each fold (and seed).
        within: for each, whether a point was within the budget on the other folds; where none was,
            the one that came closest stands.
    """

    rows: NDArray[np.intp]
    within: NDArray[np.bool_]

    def mean(self, values: NDArray[Any]) -> float:
        """Mean over the folds of a column."""
        return float(np.mean(values[self.rows].astype(np.float64)))


def best(mean: Columns, constraint: str, budget: float, target: str) -> int | None:
    """The row with the best mean `target` whose mean `constraint` is in the budget, or None.

    Points that lost a fold take no part, since their means are over fewer rows.
    """
    fits = (mean[constraint] <= budget) & (mean["lost"] == 0) & ~np.isnan(mean[target])
    if not fits.any():
        return None
    return int(np.flatnonzero(fits)[np.argmax(_sign(target) * mean[target][fits])])


def nested(columns: Columns, constraint: str, budget: float, target: str) -> Chosen | None:
    """For each fold the point that is best within the budget on the other folds.

    Args:
        columns: of `tidy`, the rows of one method: a point is a (policy, λ).
        constraint, target: columns; a `target` that a budget could bound is minimised.

    Returns:
        None with less than two folds, or where no fold finds a point within the budget.
    """
    folds, points = _codes(columns, "fold", "seed"), _codes(columns, "policy", "trade_off")
    shape = folds.max(initial=-1) + 1, points.max(initial=-1) + 1
    if shape[0] < 2:
        return None
    row = np.full(shape, -1)
    row[folds, points] = np.arange(len(folds))
    used, goal = np.full(shape, np.nan), np.full(shape, np.nan)
    used[folds, points], goal[folds, points] = columns[constraint], _sign(target) * columns[target]
    whole = ~(np.isnan(used) | np.isnan(goal)).any(0)
    if not whole.any():
        return None
    row, used, goal = row[:, whole], used[:, whole], goal[:, whole]
    spent, gained = (_of_others(x) for x in (used, goal))
    fits = spent <= budget
    within = np.asarray(fits.any(1))
    if not within.any():
        return None
    at = np.where(within, np.where(fits, gained, -np.inf).argmax(1), spent.argmin(1))
    return Chosen(row[np.arange(len(row)), at], within)


def _of_others(values: Array) -> Array:
    """For each fold the mean over all other folds, array (fold, point)."""
    return (values.sum(0) - values) / (len(values) - 1)


def _sign(target: str) -> float:
    metric = METRICS.get(target)
    return -1.0 if metric is not None and metric.lower_is_better else 1.0


def _codes(columns: Columns, *names: str) -> NDArray[np.intp]:
    """One number for each combination of values, in the order of their first row."""
    known: dict[Any, int] = {}
    keys = zip(*(columns[name].tolist() for name in names), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)
