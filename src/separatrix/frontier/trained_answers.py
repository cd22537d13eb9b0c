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
from separatrix.frontier.answers import BASE, Answer
from separatrix.frontier.constant import is_constant
from separatrix.frontier.measured import candidates_of, path_of
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import trained_point
from separatrix.frontier.trained_points import Candidate
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text
from separatrix.statistics.unseen import noise_floor, unseen

__all__ = ["Asked", "of_tables", "trained_answers"]

Array = NDArray[np.float64]
Asked = Sequence[tuple[str, str, float]]  # aim, budget, level
_USUAL = 0.05  # of the EO gap
_DECIDED = {"deterministic": "decided", "randomized": "drawn"}


def trained_answers(frontier: Traced, asked: Asked, blind: bool) -> Iterator[Answer]:
    """Every trained point with its promise, then the one that is chosen.

    Args:
        frontier: with the records of its trained paths.
        asked: the usual questions, the first aim's first.
        blind: only points that do not see the group; else only those that do.
    """
    inputs = "x" if blind else "xz"
    candidates = [c for c in candidates_of(frontier, blind=blind) if path_of(c)[1] == inputs]
    for one in candidates:
        yield _point(frontier, one, blind)
    if candidates:
        yield from _chosen(frontier, candidates, asked, blind)


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


def _point(frontier: Traced, one: Candidate, blind: bool) -> Answer:
    measures = table_measures()
    method, inputs = path_of(one)
    columns = frontier.columns
    here = (columns["method"] == method) & (columns["inputs"] == inputs)
    recipes = [str(r) for r in columns["recipe"][here] if r != BASE and " within " not in r]
    point = {"method": method, "inputs": inputs, "recipe": recipes[0]}
    promise = unseen(one.tables, one.tables, measures)
    return Answer(
        "trained",
        _words(one),
        blind=blind,
        promise={name: (found.value, found.error) for name, found in promise.items()},
        point=point | {"trade_off": one.trade_off, "policy": one.policy},
        **of_tables(frontier.labels, one.tables),
    )


def _chosen(
    frontier: Traced, candidates: Sequence[Candidate], asked: Asked, blind: bool
) -> Iterator[Answer]:
    """What the usual budget chooses, with what the choice flatters taken off; nothing if none."""
    levels = [one for one in asked if one[0] == asked[0][0]]
    aim, budget, level = min(
        [one for one in levels if one[2] >= _USUAL] or levels, key=lambda one: one[2]
    )
    question = Request(aim, {budget: level}, blind)
    names = sorted({path_of(c)[0] for c in candidates})
    try:
        (found,) = trained_point(frontier, question, names, None)
    except InfeasibleError:
        return
    assert found.selection is not None
    option = found.selection.chosen
    method = path_of(option.components[0])[0]
    name = _words(option.components[0])
    note = f"the trained point that {budget_text(question.budgets)} chooses"
    if len(option.components) > 1:
        name = f"{methods.style(method).label}, two points"
        branches = zip(option.weights, option.components, strict=True)
        drawn = " and ".join(f"{_words(c)}, for {w:.0%}" for w, c in branches)
        note = f"{note} draws {drawn} of the decisions"
    yield Answer(
        "chosen", name, aim, question.budgets, blind,
        {n: (x.value, x.error) for n, x in found.promise.items()}, point={"method": method},
        note=note, **of_tables(frontier.labels, found.tables),
    )  # fmt: skip


def _words(one: Candidate) -> str:
    """A trained point by its method's name, λ, and how it decides."""
    method, inputs = path_of(one)
    known = " without the group" if inputs == "x" else ""
    return f"{methods.style(method).label}{known} λ={one.trade_off:g}, {_DECIDED[one.policy]}"
