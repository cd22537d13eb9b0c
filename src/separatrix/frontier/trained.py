"""The best trained point within budgets, and what it honestly promises.

What the folds say about the best of many points flatters it. Each fold reports the point that the
other folds would have chosen, and the difference is taken off the promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.measures import METRICS, table_measures
from separatrix.errors import InfeasibleError
from separatrix.frontier import trained_choice as choosing
from separatrix.frontier.measured import candidates_of, held_out_audit, trained_predictor
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained_points import Candidate, Option, Selection
from separatrix.procedure.request import Request
from separatrix.statistics.unseen import Estimate, unseen

__all__ = ["trained_point"]

Array = NDArray[np.float64]


def trained_point(
    frontier: Traced, question: Request, wanted: Sequence[str] | None, option: str | None
) -> list[OperatingPoint]:
    """The best of the trained points, if there are any."""
    candidates = candidates_of(frontier, wanted, blind=question.blind)
    if not candidates:
        return []
    selection = _chosen(candidates, question, option)
    tables = _mixed(selection.chosen)
    promise = _promise(selection.chosen)
    name = _aim_name(question)
    if name in promise:
        flattery = _flattery(candidates, selection, question, option)
        promise[name] = Estimate(promise[name].value - flattery, promise[name].error)
    point = OperatingPoint(
        question, f"trained: {selection.chosen}", promise, tables, frontier.labels,
        frontier.groups, lambda: trained_predictor(frontier, point, selection),
        selection=selection, audit=held_out_audit(frontier, tables, tables),
    )  # fmt: skip
    return [point]


def _chosen(candidates: Sequence[Candidate], question: Request, option: str | None) -> Selection:
    budgets = question.budgets
    return choosing.select(
        candidates, max_eo_gap=budgets.get("eo_gap"), max_violation=budgets.get("violation"),
        maximize=choosing.aim_of(question.maximize), option=option,
    )  # fmt: skip


def _aim_name(question: Request) -> str:
    return question.maximize if isinstance(question.maximize, str) else ""


def _promise(option: Option) -> dict[str, Estimate]:
    """Weighted means over the components of a revealed mixture."""
    measures = table_measures()
    each = [unseen(c.tables, c.tables, measures) for c in option.components]
    return {
        name: Estimate(
            float(sum(w * one[name].value for w, one in zip(option.weights, each, strict=True))),
            float(sum(w * one[name].error for w, one in zip(option.weights, each, strict=True))),
        )
        for name in measures
    }


def _flattery(
    candidates: Sequence[Candidate], selection: Selection, question: Request, option: str | None
) -> float:
    """By how much the best of many looks better than what the other folds would have chosen."""
    name, folds = _aim_name(question), len(candidates[0].tables)
    value = METRICS[name].of if name in METRICS else None
    if value is None or folds < 3:
        return 0.0
    told = []
    for k in range(folds):
        rest = np.arange(folds) != k
        others = [replace(c, tables=c.tables[rest], metrics={}) for c in candidates]
        try:
            chosen = _chosen(others, question, option).chosen
        except InfeasibleError:
            continue
        place = [next(i for i, o in enumerate(others) if o is c) for c in chosen.components]
        own = [float(value(candidates[i].tables[k])) for i in place]
        told.append(float(np.dot(chosen.weights, own)) - _at_fold(selection.chosen, value, k))
    return max(-float(np.mean(told)), 0.0) if told else 0.0


def _at_fold(option: Option, value: Any, k: int) -> float:
    own = [float(value(c.tables[k])) for c in option.components]
    return float(np.dot(option.weights, own))


def _mixed(option: Option) -> Array:
    """The tables of a mixture whose branch is not looked at."""
    parts = zip(option.weights, option.components, strict=True)
    return np.asarray(sum(w * c.tables for w, c in parts))
