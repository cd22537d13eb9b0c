"""Records as tables for the terminal, CSV, Markdown and LaTeX.

`paths` lists the fold means of every trained point, `operating_points` the best of them under a
budget (the paper's "Compact Numerical Summary of Low-separation-violation Operating Points"),
`envelopes` the utility that revealed mixtures reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from separatrix.core.envelope import Envelope, Secant, concave_envelope, secant, utility_fraction
from separatrix.core.measures import METRICS, leading_metrics
from separatrix.frontier.budgets import best
from separatrix.frontier.series import REFERENCES, Series, legend_names, series
from separatrix.frontier.sweep.store import ReferenceCurve
from separatrix.frontier.tidy import Columns, means, select
from separatrix.methods import POLICIES
from separatrix.report.table import Table

__all__ = ["envelopes", "method_envelope", "operating_points", "paths", "secant_price"]

EO_GAPS = (0.01, 0.02, 0.05)  # the paper's budgets for two labels
VIOLATIONS = (0.0025, 0.005, 0.01)  # and for more


def paths(columns: Columns, dataset: str, policy: str = "randomized") -> Table:
    """Fold means of every λ of every method on a dataset."""
    mean = means(select(columns, dataset=dataset, policy=policy))
    metrics = [
        name for name in leading_metrics() if name != "eo_gap" or not _many_labels(columns, dataset)
    ]
    rows = []
    for own, name in _named(mean):
        part = select(mean, **own._asdict())
        for i in range(len(part["trade_off"])):
            cells = [(float(part[m][i]), float(part[f"{m}_sd"][i])) for m in metrics]
            lost = int(part["lost"][i]) or None
            rows.append((name, float(part["trade_off"][i]), *cells, int(part["folds"][i]), lost))
    head = ("Method", "λ", *(METRICS[m].head for m in metrics), "Folds", "Lost")
    return Table(f"{dataset}: {policy} policy, mean ± sd over folds", head, tuple(rows))


def operating_points(
    columns: Columns,
    dataset: str,
    *,
    constraint: str | None = None,
    budgets: Sequence[float] | None = None,
    targets: Sequence[str] = ("accuracy", "auroc"),
    policies: Sequence[str] | None = None,
) -> Table:
    """The paper's compact operating points: each method's best mean under each budget.

    Args:
        columns: of `frontier.tidy`.
        dataset: its name.
        constraint: by default the paper's: "eo_gap" for two labels, "violation" for more.
        budgets: upper bounds on the constraint's mean over folds; by default the paper's.
        targets: metrics to maximise.
        policies: by default both for two labels, the randomised one for more, as in the paper.

    Returns:
        One row per budget, target, policy and method with a point within the budget, best first.
    """
    many = _many_labels(columns, dataset)
    constraint = constraint or ("violation" if many else "eo_gap")
    budgets = budgets or (VIOLATIONS if many else EO_GAPS)
    policies = policies or (POLICIES[:1] if many else POLICIES)
    mean = means(select(columns, dataset=dataset))
    rows: list[tuple[Any, ...]] = []
    for policy in policies:
        for budget in budgets:
            for target in targets:
                part = []
                for s, name in _named(mean):
                    own = select(mean, policy=policy, **s._asdict())
                    i = best(own, constraint, budget, target)
                    if i is not None:
                        row = _operating_row(own, i, constraint, budget, target)
                        part.append((own[target][i], (name, *row)))
                rows += [row for _, row in sorted(part, key=lambda pair: -pair[0])]
    head = (
        "Method", "Policy", "λ", "Constraint", "Budget", "Constraint value", "Metric",
        "Target value", "Folds",
    )  # fmt: skip
    return Table(f"{dataset}: best mean under a budget", head, tuple(rows))


def envelopes(
    columns: Columns,
    dataset: str,
    *,
    policy: str = "randomized",
    levels: Sequence[float] | None = None,
    limit: ReferenceCurve | None = None,
) -> Table:
    """Each method's upper concave envelope (revealed mixtures) at some violations.

    Args:
        levels: violations v; by default a few between the strictest point and the least strict one.
        limit: a curve for the first row; each method's share of its hypervolume is the last column.
    """
    mean = means(select(columns, dataset=dataset, policy=policy))
    hulls = {name: method_envelope(select(mean, **s._asdict())) for s, name in _named(mean)}
    found = {name: hull for name, hull in hulls.items() if hull is not None}
    top = max((float(hull.violation[-1]) for hull in found.values()), default=0.0)
    usual = [float(f"{top * x:.1g}") for x in (0.02, 0.05, 0.1, 0.2, 0.5, 1)]
    wanted = tuple(usual if levels is None else levels)
    rows: list[tuple[Any, ...]] = [(name, *_at(hull, wanted)) for name, hull in found.items()]
    line = secant_price(mean)
    if line is not None:
        below = (float(line.at(v)) if v <= line.violation else None for v in wanted)
        rows.append((f"secant of the ERMs, {line.slope:.3g} u per v", *below))
    head = ("Method", *(f"{v:g}" for v in wanted))
    if limit is not None:
        best_possible = concave_envelope(limit.violation, limit.utility)
        shares = [utility_fraction(h.violation, h.utility, best_possible) for h in found.values()]
        rows = [(*row, share) for row, share in zip_longest(rows, shares)]
        rows.insert(0, ("limit of ERM's decisions", *_at(best_possible, wanted), 1.0))
        head = (*head, "Share of the limit")
    return Table(f"{dataset}: u of the {policy} envelope at v ≤", head, tuple(rows))


def secant_price(mean: Columns) -> Secant | None:
    """The line through ERM (X) and ERM ([Z|X]): the local price of separation.

    None where one of them is not there, or the group adds no violation.
    """
    ends = []
    for inputs in ("x", "xz"):
        own = select(mean, method="erm", inputs=inputs, recipe="default", lost=0)
        if len(own["violation"]) != 1:
            return None
        ends.append((float(own["violation"][0]), float(own["utility"][0])))
    return secant(*ends) if ends[1][0] > ends[0][0] else None


def method_envelope(mean: Columns) -> Envelope | None:
    """Envelope of a series' fold means; None if every point is lost."""
    good = ~np.isnan(mean["violation"])
    return concave_envelope(mean["violation"], mean["utility"]) if good.any() else None


def _named(mean: Columns) -> list[tuple[Series, str]]:
    found = series(mean)
    return list(zip(found, legend_names(found), strict=True))


def _at(hull: Envelope, levels: Sequence[float]) -> list[float | None]:
    return [None if np.isnan(u) else float(u) for u in hull.at(np.array(levels))]


def _operating_row(
    mean: Columns, i: int, constraint: str, budget: float, target: str
) -> tuple[Any, ...]:
    trade_off = None if mean["method"][i] in REFERENCES else float(mean["trade_off"][i])
    pairs = [(float(mean[m][i]), float(mean[f"{m}_sd"][i])) for m in (constraint, target)]
    constrained = METRICS[constraint].head, budget, pairs[0]
    maximised = METRICS[target].head, pairs[1], int(mean["folds"][i])
    return str(mean["policy"][i]), trade_off, *constrained, *maximised


def _many_labels(columns: Columns, dataset: str) -> bool:
    of = select(columns, dataset=dataset)["counts"] if "counts" in columns else ()
    shapes = {table.shape for table in of if table is not None}
    return any(shape[0] > 2 for shape in shapes)
