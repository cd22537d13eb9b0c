"""The yardsticks of a benchmark as tables: one for each plane of `core.planes.PLANES`.

What stands for a budget was chosen on the other folds (`frontier.budgets.nested`), among the λ and,
for decisions, both policies. Beside it stand what it used of the budget, as it is and less its
noise. The last column is the area of the plane: what the fold means reach above `least`, averaged
over the budgets up to `most`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable
from separatrix.core.envelope import hypervolume
from separatrix.core.measures import METRICS
from separatrix.core.planes import PLANES, expected_cost, majority_rate
from separatrix.frontier.budgets import Chosen, nested
from separatrix.frontier.series import Series, legend_names, series
from separatrix.frontier.tidy import Columns, means, select
from separatrix.report.table import Table
from separatrix.statistics.gaps import eo_gap_floor, gap_less_noise

__all__ = [
    "BOUNDED",
    "BUDGETS",
    "BUDGETS_OF_MANY",
    "COST",
    "Reached",
    "area",
    "floor_of_gaps",
    "plane_table",
    "reached",
    "small",
]

Array = NDArray[np.float64]
COST = (1.0, 5.0)  # of a false positive and of a false negative, where a cost is shown
BUDGETS = {
    "information": (0.0001, 0.001, 0.01),
    "decisions": (0.01, 0.02, 0.05),
    "scores": (0.002, 0.005),
}
SCORE_GAPS = (0.1, 0.2)  # budgets of the largest gap over thresholds
BUDGETS_OF_MANY = (0.0025, 0.005, 0.01)  # the paper's for more than two labels
# in 20 bins a fold of 6,500 rows shows v = 0.003 without any: budgets bound the corrected value
BOUNDED = {
    "information": "violation",
    "decisions": "eo_gap",
    "scores": "score_violation_corrected",
}


class Reached(NamedTuple):
    """What a method reaches within a budget, means over the folds.

    Args:
        target: the objective, of (v, u) less its bias.
        used: the budget's metric as it is.
        corrected: the same less its noise.
        chosen: the rows.
    """

    target: float
    used: float
    corrected: float
    chosen: Chosen


def reached(columns: Columns, own: Series, plane: str, budget: float) -> Reached | None:
    """What a method reaches on the dataset of these columns, or None."""
    kind = PLANES[plane]
    part = select(columns, **own._asdict())
    if kind.score:
        part = select(part, policy="randomized")
    chosen = nested(part, BOUNDED[plane], budget, kind.objective)
    if chosen is None:
        return None
    used = chosen.mean(part[kind.budget])
    if plane == "decisions":
        corrected = float(gap_less_noise(used, floor_of_gaps(part, chosen.rows)))
    else:
        corrected = chosen.mean(part[f"{kind.budget}_corrected"])
    goal = "utility_corrected" if kind.objective == "utility" else kind.objective
    target = chosen.mean(part[goal])
    if np.isnan(target):  # records without squares
        target = chosen.mean(part[kind.objective])
    return Reached(target, used, corrected, chosen)


def area(columns: Columns, own: Series, plane: str) -> float:
    """Hypervolume over `most`: the objective above `least`, averaged over the budgets."""
    kind = PLANES[plane]
    part = select(columns, **own._asdict())
    if kind.score:
        part = select(part, policy="randomized")
    tables = [table for table in part["counts"] if table is not None]
    if not tables:
        return float("nan")
    least = kind.least
    if least is None:
        least = float(np.mean([majority_rate(table) for table in tables]))
    many = tables[0].shape[0] > 2
    most = kind.most_of_many if many and kind.most_of_many is not None else kind.most
    mean = select(means(part), lost=0)
    used, goal = mean[BOUNDED[plane]], mean[kind.objective]
    good = ~(np.isnan(used) | np.isnan(goal))
    if not good.any():
        return 0.0
    return hypervolume(np.maximum(used[good], 0.0), goal[good] - least, most) / most


def plane_table(columns: Columns, dataset: str, plane: str) -> Table:
    """One row for each method: what it reaches within each budget, and its area."""
    kind = PLANES[plane]
    here = select(columns, dataset=dataset, status="ok")
    many = any(table.shape[0] > 2 for table in here["counts"])
    budgets = BUDGETS_OF_MANY if many and plane == "information" else BUDGETS[plane]
    found = series(here)
    rows: list[tuple[Any, ...]] = []
    for own, name in zip(found, legend_names(found), strict=True):
        cells: list[Any] = [_cell(reached(here, own, plane, budget)) for budget in budgets]
        cells += [_cost(here, own)] if plane == "decisions" else []
        cells += [_by_gap(here, own, most) for most in SCORE_GAPS if plane == "scores"]
        rows.append((name, *cells, area(here, own, plane)))
    rows.sort(key=lambda row: -float(row[-1]))
    budget_name = METRICS[kind.budget].label
    head = ["Method", *(f"{budget_name} ≤ {budget:g}" for budget in budgets)]
    head += ["Cost at EO gap ≤ 0.05"] if plane == "decisions" else []
    head += [f"Largest gap ≤ {most:g}" for most in SCORE_GAPS if plane == "scores"]
    title = f"{dataset}: {METRICS[kind.objective].label} within a budget of {budget_name}"
    if plane == "decisions":
        title += f"; majority rate {majority_rate(np.sum(list(here['counts']), 0)):.4f}"
    return Table(title, (*head, "Area"), tuple(rows))


def floor_of_gaps(columns: Columns, rows: NDArray[np.intp]) -> float:
    """Mean over rows of the EO gap that shuffled groups would show."""
    tables = (_count_table(columns["counts"][i], columns["squares"][i]) for i in rows)
    return float(np.mean([eo_gap_floor(table) for table in tables]))


def _count_table(counts: Array, squares: Array | None) -> CountTable:
    """With its second moments: two shares add up to one, so their squares give their product."""
    y, z, u = (tuple(range(size)) for size in counts.shape)
    moments = None
    if squares is not None and not np.array_equal(squares, counts):
        both = 0.5 * (counts.sum(-1) - squares.sum(-1))
        moments = np.stack(
            [np.stack([squares[..., 0], both], -1), np.stack([both, squares[..., 1]], -1)], -2
        )
    return CountTable(counts, y, z, u, round(float(counts.sum())), moments)


def _cell(found: Reached | None) -> str | None:
    if found is None:
        return None
    return f"{found.target:.4f} ({small(found.used)}; {small(found.corrected)})"


def _cost(columns: Columns, own: Series) -> float | None:
    part = select(columns, **own._asdict())
    part = part | {"cost": np.array([-expected_cost(table, *COST) for table in part["counts"]])}
    chosen = nested(part, "eo_gap", 0.05, "cost")
    return None if chosen is None else -chosen.mean(part["cost"])


def _by_gap(columns: Columns, own: Series, most: float) -> str | None:
    part = select(columns, policy="randomized", **own._asdict())
    chosen = nested(part, "score_gap", most, "auroc")
    if chosen is None:
        return None
    return f"{chosen.mean(part['auroc']):.4f} ({small(chosen.mean(part['score_gap']))})"


def small(x: float) -> str:
    """A small number in few letters.

    >>> small(0.0123456), small(1.24e-4), small(5e-17)
    ('0.0123', '1.2e-04', '0')
    """
    if abs(x) < 1e-9:  # rounding
        return "0"
    return f"{x:.4f}" if abs(x) >= 5e-3 else f"{x:.1e}"
