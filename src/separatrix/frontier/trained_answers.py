"""The trained points of a trace as answers, and the one that the usual budget would choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.columns.values import Levels
from separatrix.core.information import conditional_rates
from separatrix.core.measures import table_measures
from separatrix.errors import InfeasibleError
from separatrix.frontier.answers import Answer
from separatrix.frontier.constant import is_constant
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import TrainedPoint, trained, trained_points
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text
from separatrix.statistics.unseen import noise_floor, unseen

__all__ = ["Asked", "of_tables", "trained_answers"]

Array = NDArray[np.float64]
Asked = Sequence[tuple[str, str, float]]  # aim, budget, level
_USUAL = 0.05  # of the EO gap


def trained_answers(frontier: Traced, asked: Asked, blind: bool) -> Iterator[Answer]:
    """Every trained point with its promise, then the one that is chosen.

    Args:
        frontier: with the records of its trained paths.
        asked: the usual questions, the first aim's first.
        blind: only points that do not see the group; else only those that do.
    """
    inputs = "x" if blind else "xz"
    points = [one for one in trained_points(frontier, blind=blind) if one.key.inputs == inputs]
    for one in points:
        yield _point(frontier, one, blind)
    if points:
        yield from _chosen(frontier, points, asked, blind)


def of_tables(labels: Levels, tables: Array, squares: Array | None = None) -> dict[str, Any]:
    """Noise floor, rates and the label that everybody gets, of decisions in all folds."""
    rates = conditional_rates(tables.sum(0))
    shown = rates[..., 1] if rates.shape[-1] == 2 else np.einsum("yzy->yz", rates)
    label = is_constant(tables)
    return {
        "floor": noise_floor(tables, tables if squares is None else squares),
        "rates": [[None if np.isnan(r) else float(r) for r in row] for row in shown],
        "always": None if label is None else str(labels[label]),
    }


def _point(frontier: Traced, one: TrainedPoint, blind: bool) -> Answer:
    measures = table_measures()
    promise = unseen(one.tables, one.tables, measures)
    return Answer(
        "trained",
        str(one),
        blind=blind,
        promise={name: (found.value, found.error) for name, found in promise.items()},
        point=one.key._asdict(),
        **of_tables(frontier.labels, one.tables),
    )


def _chosen(
    frontier: Traced, points: Sequence[TrainedPoint], asked: Asked, blind: bool
) -> Iterator[Answer]:
    """What the usual budget chooses, with what the choice flatters taken off; nothing if none."""
    levels = [one for one in asked if one[0] == asked[0][0]]
    aim, budget, level = min(
        [one for one in levels if one[2] >= _USUAL] or levels, key=lambda one: one[2]
    )
    request = Request(aim, {budget: level}, blind)
    try:
        found = trained(points, request, frontier.groups)
    except InfeasibleError:
        return
    mixture = found.mixture
    name, method = str(mixture), mixture.points[0].key.method
    note = f"the trained point that {budget_text(request.budgets)} chooses"
    if len(mixture.points) > 1:
        name = f"{methods.style(method).label}, two points"
        branches = zip(mixture.weights, mixture.points, strict=True)
        drawn = " and ".join(f"{point}, for {w:.0%}" for w, point in branches)
        note = f"{note} draws {drawn} of the decisions"
    yield Answer(
        "chosen", name, aim, request.budgets, blind,
        {n: (x.value, x.error) for n, x in found.promise.items()}, point={"method": method},
        note=note, **of_tables(frontier.labels, mixture.tables),
    )  # fmt: skip
