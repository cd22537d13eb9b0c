"""Records as tables for the terminal, CSV, Markdown and LaTeX.

`paths` lists the fold means of every trained point, `operating_points` the best of them within a
budget (the paper's "Compact Numerical Summary of Low-separation-violation Operating Points"),
`envelopes` the utility that revealed mixtures reach, `plane_table` what each method reaches in one
plane of `core.envelope`.

The paper takes the best mean over the folds among the points whose mean is within the budget
(`best`), and reports these same means: with many points and noisy folds that flatters. `nested`
chooses for each fold on the other folds, and reports the fold; the planes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable
from separatrix.core.envelope import (
    PLANES,
    Envelope,
    Secant,
    concave_envelope,
    expected_cost,
    hypervolume,
    majority_rate,
    secant,
    utility_fraction,
)  # fmt: skip
from separatrix.core.measures import METRICS, leading_metrics, recorded_metrics
from separatrix.frontier.results import CORRECTED, REFERENCES, Columns, each_path, means, select
from separatrix.frontier.store import ReferenceCurve
from separatrix.methods import POLICIES
from separatrix.report.table import Table
from separatrix.statistics.gaps import eo_gap_floor, gap_less_noise

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


def best(mean: Columns, constraint: str, budget: float, target: str) -> int | None:
    """The row with the best mean `target` whose mean `constraint` is in the budget, or None.

    Points that lost a fold take no part, since their means are over fewer rows.
    """
    fits = (mean[constraint] <= budget) & (mean["lost"] == 0) & ~np.isnan(mean[target])
    if not fits.any():
        return None
    return int(np.flatnonzero(fits)[np.argmax(_sign(target) * mean[target][fits])])


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
    used[folds, points], goal[folds, points] = columns[constraint], _sign(target) * columns[target]
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


def _sign(target: str) -> float:
    return -1.0 if target in METRICS and METRICS[target].lower_is_better else 1.0


def _codes(columns: Columns, *names: str) -> NDArray[np.intp]:
    """One number for each combination of values, in the order of their first row."""
    known: dict[Any, int] = {}
    keys = zip(*(columns[name].tolist() for name in names), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


def paths(columns: Columns, dataset: str, policy: str = "randomized") -> Table:
    """Fold means of every λ of every method on a dataset."""
    mean = means(select(columns, dataset=dataset, policy=policy))
    many = _many_labels(columns, dataset)
    metrics = [name for name in leading_metrics() if name != "eo_gap" or not many]
    rows = []
    for _, name, path in each_path(mean):
        for i, trade_off in enumerate(path["trade_off"].tolist()):
            cells = (pair(path, m, i) for m in metrics)
            counts = int(path["folds"][i]), int(path["lost"][i]) or None
            rows.append((name, trade_off, *cells, *counts))
    head = ("Method", "λ", *(METRICS[m].head for m in metrics), "Folds", "Lost")
    return Table(f"{dataset}: {policy} policy, mean ± sd over folds", head, tuple(rows))


def operating_points(columns: Columns, dataset: str, *, budgets: Sequence[float] | None = None) -> Table:
    """The paper's compact operating points: each method's best mean under each budget.

    For two labels budgets bound the EO gap of both policies; for more, as in the paper, the
    violation of the randomised one.

    Args:
        columns: of `tidy`.
        dataset: its name.
        budgets: upper bounds on the constraint's mean over folds; by default the paper's.

    Returns:
        One row per budget, target, policy and method with a point within the budget, best first.
    """
    many = _many_labels(columns, dataset)
    constraint = "violation" if many else "eo_gap"
    paths_of = list(each_path(means(select(columns, dataset=dataset))))
    rows: list[tuple[Any, ...]] = []
    for policy in POLICIES[:1] if many else POLICIES:
        for budget in budgets or BUDGETS["many" if many else "decisions"]:
            for target in ("accuracy", "auroc"):
                reached_by = []
                for series, name, path in paths_of:
                    points = select(path, policy=policy)
                    i = best(points, constraint, budget, target)
                    if i is None:
                        continue
                    λ = None if series.method in REFERENCES else float(points["trade_off"][i])
                    within = METRICS[constraint].head, budget, pair(points, constraint, i)
                    goal = METRICS[target].head, pair(points, target, i), int(points["folds"][i])
                    reached_by.append((name, policy, λ, *within, *goal))
                rows += sorted(reached_by, key=lambda row: -row[-2][0])
    head = (
        "Method", "Policy", "λ", "Constraint", "Budget", "Constraint value", "Metric",
        "Target value", "Folds",
    )  # fmt: skip
    return Table(f"{dataset}: best mean under a budget", head, tuple(rows))


def envelopes(
    columns: Columns, dataset: str, *, levels: Sequence[float] | None = None, limit: ReferenceCurve | None = None
) -> Table:
    """Each method's upper concave envelope (revealed mixtures) at some violations.

    Args:
        levels: violations v; by default a few between the strictest point and the least strict one.
        limit: a curve for the first row; each method's share of its hypervolume is the last column.
    """
    mean = means(select(columns, dataset=dataset, policy="randomized"))
    hulls = {
        name: concave_envelope(path["violation"], path["utility"])
        for _, name, path in each_path(mean)
        if not np.isnan(path["violation"]).all()
    }
    top = max((float(hull.violation[-1]) for hull in hulls.values()), default=0.0)
    usual = [float(f"{top * x:.1g}") for x in (0.02, 0.05, 0.1, 0.2, 0.5, 1)]
    wanted = tuple(usual if levels is None else levels)
    rows: list[tuple[Any, ...]] = [(name, *_at(hull, wanted)) for name, hull in hulls.items()]
    line = secant_price(mean)
    if line is not None:
        below = (float(line.at(v)) if v <= line.violation else None for v in wanted)
        rows.append((f"secant of the ERMs, {line.slope:.3g} u per v", *below))
    head = ("Method", *(f"{v:g}" for v in wanted))
    if limit is not None:
        best_possible = concave_envelope(limit.violation, limit.utility)
        shares = [utility_fraction(h.violation, h.utility, best_possible) for h in hulls.values()]
        rows = [(*row, share) for row, share in zip_longest(rows, shares)]
        rows.insert(0, ("limit of ERM's decisions", *_at(best_possible, wanted), 1.0))
        head = (*head, "Share of the limit")
    return Table(f"{dataset}: u of the randomized envelope at v ≤", head, tuple(rows))


def secant_price(mean: Columns) -> Secant | None:
    """The line through ERM (X) and ERM ([Z|X]): the local price of separation.

    None where one of them is not there, or the group adds no violation.
    """
    ends = []
    for inputs in ("x", "xz"):
        points = select(mean, method="erm", inputs=inputs, recipe="default", lost=0)
        if len(points["violation"]) != 1:
            return None
        ends.append((float(points["violation"][0]), float(points["utility"][0])))
    return secant(*ends) if ends[1][0] > ends[0][0] else None


def _at(hull: Envelope, levels: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(u) else float(u) for u in hull.at(np.array(levels))]


def pair(mean: Columns, metric: str, i: int) -> tuple[float, float]:
    """Mean and standard deviation over the folds."""
    return float(mean[metric][i]), float(mean[f"{metric}_sd"][i])


def _many_labels(columns: Columns, dataset: str) -> bool:
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
        corrected = float(gap_less_noise(used, floor_of_gaps(path, rows)))
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
    budgets = BUDGETS["many" if _many_labels(columns, dataset) else plane]
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
    tables = (_count_table(columns["counts"][i], columns["squares"][i]) for i in rows)
    return float(np.mean([eo_gap_floor(table) for table in tables]))


def judged(path: Columns, plane: str) -> Columns:
    """A path's rows in a plane: a score is the posterior, which the randomised policy has."""
    return select(path, policy="randomized") if PLANES[plane].score else path


def _count_table(counts: Array, squares: Array | None) -> CountTable:
    """With its second moments: two shares add up to one, so their squares give their product."""
    y, z, u = (tuple(range(size)) for size in counts.shape)
    moments = None
    if squares is not None and not np.array_equal(squares, counts):
        both = 0.5 * (counts.sum(-1) - squares.sum(-1))
        moments = np.stack([np.stack([squares[..., 0], both], -1), np.stack([both, squares[..., 1]], -1)], -2)
    return CountTable(counts, y, z, u, round(float(counts.sum())), moments)


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
