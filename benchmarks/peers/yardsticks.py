"""Our yardsticks: what a method reaches in a plane of a budget and an objective, from its records.

`PLANES` are the planes; docs/evidence/how_we_measured.md says in words what each of them is good
for. The paper takes the best mean over the folds among the points whose mean is within the budget,
which flatters: `nested` chooses for each fold on the other folds, and reports the fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core import information
from separatrix.core.envelope import hypervolume
from separatrix.core.measures import METRICS, recorded_metrics
from separatrix.errors import InputError
from separatrix.frontier.results import CORRECTED, Columns, each_path, held_out_table, means, select, sign
from separatrix.report.table import Table
from separatrix.statistics.gaps import eo_gap_floor

Array = NDArray[np.float64]
COST = (1.0, 5.0)  # of a false positive and of a false negative, where a cost is shown
BUDGETS = {  # "many" are the paper's budgets of v for more than two labels
    "information": (0.0001, 0.001, 0.01),
    "decisions": (0.01, 0.02, 0.05),
    "scores": (0.002, 0.005),
    "many": (0.0025, 0.005, 0.01),
}
SCORE_GAPS = (0.1, 0.2)  # budgets of the largest gap over thresholds
# in 20 bins a fold of 6,500 rows shows v = 0.003 without any: budgets bound the corrected value
BOUNDED = {"information": "violation", "decisions": "eo_gap", "scores": "score_violation_corrected"}


@dataclass(frozen=True)
class Plane:
    """Methods are compared by the area above the reference point (most, least) of a plane.

    Args:
        budget, objective: metrics; the smaller the first and the larger the second, the better.
        most: budgets up to here count.
        most_of_many: the same for more than two labels, whose v is of another size.
        least: what counts as nothing; None for the majority rate, which a constant reaches.
        score: whether it judges scores, for two labels, or decisions.
    """

    budget: str
    objective: str
    most: float
    most_of_many: float | None = None
    least: float | None = 0.0
    score: bool = False


PLANES: dict[str, Plane] = {
    "information": Plane("violation", "utility", most=0.02, most_of_many=0.1),
    "decisions": Plane("eo_gap", "accuracy", most=0.1, least=None),
    "scores": Plane("score_violation", "auroc", most=0.02, least=0.5, score=True),
}


def majority_rate(tables: Array) -> Array:
    """The accuracy of always saying the most frequent label: what any rule must beat.

    >>> float(majority_rate(np.array([[[60.0, 15.0]], [[5.0, 20.0]]])))
    0.75
    """
    labels = np.asarray(tables, dtype=np.float64).sum((-2, -1))
    return np.asarray(labels.max(-1) / labels.sum(-1))


def expected_cost(tables: Array, false_positive: float = 1.0, false_negative: float = 1.0) -> Array:
    """The mean cost of a row's error, of tables (..., y, z, u) for two labels.

    >>> float(expected_cost(np.array([[[60.0, 15.0]], [[5.0, 20.0]]]), 1, 5))
    0.4
    """
    p = information.law(tables).sum(-2)
    if p.shape[-2:] != (2, 2):
        raise InputError(f"A cost needs two labels and two decisions, got {p.shape[-2:]}.")
    return np.asarray(false_positive * p[..., 0, 1] + false_negative * p[..., 1, 0])


def nested(columns: Columns, constraint: str, budget: float, target: str) -> NDArray[np.intp] | None:
    """For each fold (and seed) the row of the point that is best within the budget on the others.

    Where no point is within it on the other folds, the one that came closest stands.

    Args:
        columns: of `tidy`, the rows of one method: a point is a (policy, λ).
        constraint, target: columns; a `target` that a budget could bound is minimised.

    Returns:
        None with less than two folds, or where no fold finds a point within the budget.
    """
    folds, points = _codes(columns, "fold", "seed"), _codes(columns, "policy", "trade_off")
    shape = folds.max(initial=-1) + 1, points.max(initial=-1) + 1
    row, used, goal = np.full(shape, -1), np.full(shape, np.nan), np.full(shape, np.nan)
    row[folds, points] = np.arange(len(folds))
    used[folds, points], goal[folds, points] = columns[constraint], sign(target) * columns[target]
    whole = ~(np.isnan(used) | np.isnan(goal)).any(0)
    if shape[0] < 2 or not whole.any():
        return None
    # for each fold the mean over all other folds
    spent, gained = ((x.sum(0) - x)[:, whole] / (shape[0] - 1) for x in (used, goal))
    fits = spent <= budget
    if not fits.any():
        return None
    point = np.where(fits.any(1), np.where(fits, gained, -np.inf).argmax(1), spent.argmin(1))
    return row[:, whole][np.arange(shape[0]), point]


def _codes(columns: Columns, *names: str) -> NDArray[np.intp]:
    """One number for each combination of values, in the order of their first row."""
    known: dict[Any, int] = {}
    keys = zip(*(columns[name].tolist() for name in names), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


def many_labels(columns: Columns, dataset: str) -> bool:
    """Whether a dataset has more than two labels."""
    tables = select(columns, dataset=dataset)["counts"]
    return any(table is not None and table.shape[0] > 2 for table in tables)


class Reached(NamedTuple):
    """What a method reaches within a budget, means over the folds.

    Args:
        target: the objective, of (v, u) less its bias.
        used: the budget's metric as it is.
        corrected: the same less its noise.
        rows: of the path, one for each fold.
    """

    target: float
    used: float
    corrected: float
    rows: NDArray[np.intp]


def reached(path: Columns, plane: str, budget: float) -> Reached | None:
    """What a path reaches in a plane within a budget, or None.

    What stands for a budget was chosen on the other folds, among the λ and, for decisions, both
    policies.
    """
    kind, path = PLANES[plane], judged(path, plane)
    rows = nested(path, BOUNDED[plane], budget, kind.objective)
    if rows is None:
        return None
    own = {name: float(path[name][rows].mean()) for name in (*recorded_metrics(), *CORRECTED)}
    used = own[kind.budget]
    if plane == "decisions":
        # without what noise adds: squares of independent errors add
        corrected = float(np.sqrt(max(used**2 - float(floor_of_gaps(path, rows)) ** 2, 0.0)))
    else:
        corrected = own[f"{kind.budget}_corrected"]
    target = own.get(f"{kind.objective}_corrected", np.nan)
    if np.isnan(target):  # not corrected, or records without squares
        target = own[kind.objective]
    return Reached(target, used, corrected, rows)


def area(path: Columns, plane: str) -> float:
    """Hypervolume over `most`: the objective above `least`, averaged over the budgets."""
    kind, path = PLANES[plane], judged(path, plane)
    tables = [table for table in path["counts"] if table is not None]
    if not tables:
        return float("nan")
    least = kind.least
    if least is None:
        least = float(np.mean([majority_rate(table) for table in tables]))
    many = tables[0].shape[0] > 2
    most = kind.most_of_many if many and kind.most_of_many is not None else kind.most
    mean = select(means(path), lost=0)
    used, goal = mean[BOUNDED[plane]], mean[kind.objective]
    good = ~(np.isnan(used) | np.isnan(goal))
    if not good.any():
        return 0.0
    return hypervolume(np.maximum(used[good], 0.0), goal[good] - least, most) / most


def plane_table(columns: Columns, dataset: str, plane: str) -> Table:
    """One row for each method: what it reaches within each budget, and its area.

    Beside the objective stand what it used of the budget, as it is and less its noise. The area is
    what the fold means reach above `least`, averaged over the budgets up to `most`.
    """
    kind = PLANES[plane]
    budgets = BUDGETS["many" if many_labels(columns, dataset) else plane]
    others = _OTHER_CELLS.get(plane, {})
    here = select(columns, dataset=dataset, status="ok")
    rows: list[tuple[Any, ...]] = []
    for _, name, path in each_path(here):
        cells: list[Any] = []
        for result in (reached(path, plane, budget) for budget in budgets):
            used = "" if result is None else f"({small(result.used)}; {small(result.corrected)})"
            cells.append(None if result is None else f"{result.target:.4f} {used}")
        rows.append((name, *cells, *(cell(path) for cell in others.values()), area(path, plane)))
    rows.sort(key=lambda row: -float(row[-1]))
    budget_name = METRICS[kind.budget].label
    head = ("Method", *(f"{budget_name} ≤ {budget:g}" for budget in budgets), *others, "Area")
    title = f"{dataset}: {METRICS[kind.objective].label} within a budget of {budget_name}"
    if plane == "decisions":
        title += f"; majority rate {majority_rate(np.sum(list(here['counts']), 0)):.4f}"
    return Table(title, head, tuple(rows))


def floor_of_gaps(columns: Columns, rows: NDArray[np.intp]) -> float:
    """Mean over rows of the EO gap that shuffled groups would show."""
    floors = []
    for counts, squares in zip(columns["counts"][rows], columns["squares"][rows], strict=True):
        labels, groups = (tuple(range(size)) for size in counts.shape[:2])
        floors.append(eo_gap_floor(held_out_table(labels, groups, counts, squares)))
    return float(np.mean(floors))


def judged(path: Columns, plane: str) -> Columns:
    """A path's rows in a plane: a score is the posterior, which the randomised policy has."""
    return select(path, policy="randomized") if PLANES[plane].score else path


def _cost(path: Columns) -> float | None:
    cost = np.array([expected_cost(table, *COST) for table in path["counts"]])
    rows = nested(path | {"gain": -cost}, "eo_gap", 0.05, "gain")
    return None if rows is None else float(cost[rows].mean())


def _by_gap(most: float, path: Columns) -> str | None:
    path = judged(path, "scores")
    rows = nested(path, "score_gap", most, "auroc")
    if rows is None:
        return None
    return f"{path['auroc'][rows].mean():.4f} ({small(path['score_gap'][rows].mean())})"


_OTHER_CELLS: dict[str, dict[str, Callable[[Columns], Any]]] = {
    "decisions": {"Cost at EO gap ≤ 0.05": _cost},
    "scores": {f"Largest gap ≤ {most:g}": partial(_by_gap, most) for most in SCORE_GAPS},
}


def small(x: float) -> str:
    """A small number in few letters.

    >>> small(0.0123456), small(1.24e-4), small(5e-17)
    ('0.0123', '1.2e-04', '0')
    """
    if abs(x) < 1e-9:  # rounding
        return "0"
    return f"{x:.4f}" if abs(x) >= 5e-3 else f"{x:.1e}"
