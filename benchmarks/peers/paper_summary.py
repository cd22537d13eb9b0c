"""The short tables of the results page: headline methods, what choosing was worth, fresh folds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.peers.yardsticks import BOUNDED, BUDGETS, PLANES, judged, majority_rate, reached, small
from separatrix.core.measures import METRICS
from separatrix.frontier.results import Columns, Results, Series, best, each_path, legend_names, means, select, series
from separatrix.report.table import Table


def paths(*names: str) -> list[Series]:
    """Paths by short names: "cmi", "cmi:paper" for a recipe, "erm@x" without the group."""
    found = []
    for name in names:
        method, _, recipe = name.removesuffix("@x").partition(":")
        found.append(Series(method, "x" if name.endswith("@x") else "xz", recipe or "default"))
    return found


HEADLINE = paths(
    "erm", "erm@x", "cmi:paper", "cmi", "cmi:score", "cmi_boosting", "cmi_boosting:score",
    "cmi_boosting@x", "cmi_boosting:score@x", "postprocessing", "threshold_optimizer",
)  # fmt: skip
SHOWN = {"decisions": 0.02, "scores": 0.005, "information": 0.001}


def summaries(found: dict[str, Results], again: list[dict[str, Results]]) -> dict[str, Table]:
    """The tables of the page by name."""
    tables = {"cost": cost(found)} | {plane: headline(found, plane) for plane in SHOWN}
    tables["choosing"] = worth_of_choosing(found)
    return tables | ({"seeds": repetitions([found, *again])} if again else {})


def cost(found: dict[str, Results]) -> Table:
    """Accuracy without a budget, within two, and of saying always the same."""
    rows = []
    for dataset, results in found.items():
        if results.labels(dataset) > 2:
            continue
        columns = select(results.columns, dataset=dataset, status="ok")
        free = select(columns, **paths("erm")[0]._asdict(), policy="deterministic")
        always = majority_rate(np.sum(list(columns["counts"]), 0))
        rows.append((
            dataset,
            f"{free['accuracy'].mean():.4f} ({small(free['eo_gap'].mean())})",
            *(_best(columns, "decisions", budget, keeps=True) for budget in (0.05, 0.02)),
            f"{always:.4f}",
        ))  # fmt: skip
    head = ("Accuracy (EO gap)", "ERM with the group", "EO gap ≤ 0.05", "EO gap ≤ 0.02")
    title = "The best of all methods whose found gap is within the budget, and its name"
    return Table(title, (*head, "always the majority"), tuple(rows))


def headline(found: dict[str, Results], plane: str) -> Table:
    """What the main methods reach within one budget, a column for each dataset."""
    kind = PLANES[plane]
    names = [d for d, r in found.items() if r.labels(d) == 2]
    rows = []
    for own, name in zip(HEADLINE, legend_names(HEADLINE), strict=True):
        cells = [_cell(found[d], d, own, plane, SHOWN[plane]) for d in names]
        if any(cell is not None for cell in cells):
            rows.append((name, *cells))
    of = {d: select(found[d].columns, dataset=d, status="ok") for d in names}
    others = [_best(of[d], plane, SHOWN[plane], but=HEADLINE) for d in names]
    if any(other is not None for other in others):
        rows.append(("best of the others", *others))
    objective, budget = METRICS[kind.objective].head, METRICS[kind.budget].label
    return Table(
        f"{objective} at {budget} ≤ {SHOWN[plane]:g}, and the {budget} found, chosen on the other folds",
        ("Method", *names),
        tuple(rows),
    )


def worth_of_choosing(found: dict[str, Results]) -> Table:
    """What the best mean under a budget is above what the other folds choose."""
    rows = []
    for dataset, results in found.items():
        columns = select(results.columns, dataset=dataset, status="ok")
        many = results.labels(dataset) > 2
        if len(set(columns["fold"].tolist())) < 2:
            continue
        for plane in ("information",) if many else SHOWN:
            budgets = BUDGETS["many" if many else plane]
            gains = [
                gain
                for own in series(columns)
                for budget in budgets
                if (gain := flattery(columns, own, plane, budget)) is not None
            ]
            if gains:
                goal = METRICS[PLANES[plane].objective].label
                mean, top = float(np.mean(gains)), float(np.max(gains))
                rows.append((dataset, goal, len(gains), mean, float(np.median(gains)), top))
    head = ("Dataset", "Objective", "Cells", "Mean", "Median", "Largest")
    return Table("Best mean under a budget, less what the other folds choose", head, tuple(rows))


def flattery(columns: Columns, own: Series, plane: str, budget: float) -> float | None:
    """How much better the paper's way of choosing looks, for one method and budget."""
    kind = PLANES[plane]
    part = select(columns, **own._asdict())
    found = reached(part, plane, budget)
    rows = judged(part, plane)
    mean = means(rows)
    i = best(mean, BOUNDED[plane], budget, kind.objective)
    if found is None or i is None or len(mean["trade_off"]) < 2:
        return None
    return float(mean[kind.objective][i] - rows[kind.objective][found.rows].mean())


def repetitions(runs: list[dict[str, Results]]) -> Table:
    """The same cells with other assignments of rows to folds; seed 0 saw the settings chosen."""
    seeds = [_seed(run) for run in runs]
    rows = []
    for dataset in dict.fromkeys(name for run in runs for name in run):
        if any(run[dataset].labels(dataset) > 2 for run in runs if dataset in run):
            continue
        for plane, budget in SHOWN.items():
            for own, name in zip(HEADLINE, legend_names(HEADLINE), strict=True):
                cells = [_cell(run[dataset], dataset, own, plane, budget) if dataset in run else None for run in runs]
                if sum(cell is not None for cell in cells) > 1:
                    goal = METRICS[PLANES[plane].objective].label
                    within = f"{METRICS[PLANES[plane].budget].label} ≤ {budget:g}"
                    rows.append((dataset, f"{goal} at {within}", name, *cells))
    head = ("Dataset", "Cell", "Method", *(f"seed {seed}" for seed in seeds))
    return Table("Other folds", head, tuple(rows))


def _seed(run: dict[str, Results]) -> int:
    return int(next(iter(run.values())).columns["seed"][0])


def _cell(results: Results, dataset: str, own: Series, plane: str, budget: float) -> str | None:
    columns = select(results.columns, dataset=dataset, status="ok")
    if own not in series(columns):
        return None
    found = reached(select(columns, **own._asdict()), plane, budget)
    return None if found is None else f"{found.target:.4f} ({small(found.used)})"


def _best(
    columns: Columns, plane: str, budget: float, *, but: Sequence[Series] = (), keeps: bool = False
) -> str | None:
    """The best of the methods, by what the other folds choose.

    Args:
        columns: of one dataset.
        but: methods that take no part.
        keeps: only what keeps the budget on the folds that report it.
    """
    found = {n: reached(path, plane, budget) for s, n, path in each_path(columns) if s not in but}
    good = {name: one for name, one in found.items() if one and not (keeps and one.used > budget)}
    if not good:
        return None
    top = max(good, key=lambda name: good[name].target)
    return f"{top} {good[top].target:.4f} ({small(good[top].used)})"
