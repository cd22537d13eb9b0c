"""Ask a frontier for a point: the rule is solved for exactly what was asked.

For decisions and scores around the base model the procedure is run on all rows for the asked budget
and objective, and its promise comes from running it on every outer fold. Trained points are chosen
along their paths, for separation; one of them is taken where it is better than the solved rule by
more than the error of the comparison. What the folds say about the best of many trained points
flatters it: each fold reports the point that the other folds would have chosen, and the difference
is taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.deploy.certifying import certified
from separatrix.deploy.constants import is_constant, with_warnings
from separatrix.deploy.frontiers import held_out_audit, procedure_predictor
from separatrix.deploy.operating import OperatingPoint
from separatrix.deploy.questions import Question
from separatrix.deploy.trained import trained_point
from separatrix.deploy.words import budget_text, constant_text, majority
from separatrix.errors import InfeasibleError, InputError
from separatrix.estimators.measuring import Measured, measured
from separatrix.estimators.procedures import Decisions, Procedure
from separatrix.estimators.scoring import Scoring
from separatrix.runs.traced import Traced

__all__ = ["POSTPROCESSING", "ask", "solved"]

POSTPROCESSING = "postprocessing"
Array = NDArray[np.float64]


def ask(
    frontier: Traced,
    question: Question,
    *,
    method: str | Sequence[str] | None = None,
    option: str | None = None,
    rule: str = "sequence",
    allow_constant: bool = False,
) -> OperatingPoint:
    """The best point for a question.

    Args:
        frontier: what was traced.
        question: aim and budgets.
        method: only points of this method, or of these; "postprocessing" for solved rules only.
        option: only this kind of trained point: "deterministic", "single" or "mixture".
        rule: "sequence" or "holm", with a confidence.
        allow_constant: also ship a decision that is the same for everybody.

    Raises:
        InfeasibleError: nothing keeps the budgets; it says the smallest that succeed.
    """
    wanted = None if method is None else [method] if isinstance(method, str) else list(method)
    if question.confidence is not None:
        point = certified(frontier, question, wanted, option, rule)
        return _checked(frontier, point, allow_constant)
    refusals: list[InfeasibleError] = []
    points = []
    if question.solvable and option is None and (wanted is None or POSTPROCESSING in wanted):
        try:
            points.append(_solved_point(frontier, question))
        except InfeasibleError as error:
            refusals.append(error)
    others = None if wanted is None else [name for name in wanted if name != POSTPROCESSING]
    if question.maximize != "auroc" and others != [] and question.criterion == "separation":
        try:
            points += trained_point(frontier, question, others, option)
        except InfeasibleError as error:
            refusals.append(error)
    if not points:
        if not refusals:
            raise InputError(
                f"There is no point for {question} here"
                + (f" of {', '.join(wanted)}." if wanted else ".")
            )
        raise min(refusals, key=lambda error: _ratio(error, question))
    return _checked(frontier, _best(points, question), allow_constant)


def solved(frontier: Traced, procedure: Procedure, blind: bool = False) -> Measured:
    """A procedure around the base model, run on every outer fold and on all rows."""
    nested = frontier.joint if blind else frontier.nested
    y, z = frontier.rows["y"], frontier.rows["z"]
    return measured(procedure, nested, y, z, frontier.labels, frontier.groups)


def _procedure(question: Question) -> Procedure:
    aim: Any = question.maximize
    if aim == "auroc":
        return Scoring(question.budgets, blind=question.blind)
    return Decisions(aim, question.budgets, blind=question.blind)


def _solved_point(frontier: Traced, question: Question) -> OperatingPoint:
    aim = question.maximize
    found = solved(frontier, _procedure(question), question.blind)
    notes = []
    if found.eased:
        notes.append(
            f"In {found.eased} of the {len(found.tables)} outer folds, which have fewer rows, "
            f"{budget_text(question.budgets)} could not be promised and the smallest budget that "
            "could was taken: the promise is of somewhat looser rules."
        )
    audit = None if aim == "auroc" else held_out_audit(frontier, found.tables, found.squares)
    base = frontier.manifest["base"]["bases"][-1]
    what = "a separated score" if aim == "auroc" else "decisions"
    name = f"{what} of the base model ({base})"
    point = OperatingPoint(
        question, name, found.promise, found.tables, frontier.labels, frontier.groups,
        lambda: procedure_predictor(frontier, point, found), tuple(notes), audit=audit,
        shipped=None if aim == "auroc" else _shipped(frontier, question, found.rule),
        squares=found.squares,
    )  # fmt: skip
    return point


def _shipped(frontier: Traced, question: Question, rule: Any = None) -> NDArray[np.float64]:
    """Counts (1, y, z, u) of the rule that ships, on the honest scores of all rows."""
    scores = (frontier.joint if question.blind else frontier.nested).honest
    y, z, procedure = frontier.rows["y"], frontier.rows["z"], _procedure(question)
    if rule is None:
        rule = procedure.fit(scores, y, z, frontier.groups)
    law = procedure.law(rule, scores, z)
    return soft_sums(law, y, z, (len(frontier.labels), len(frontier.groups)))[0][None]


def _best(points: Sequence[OperatingPoint], question: Question) -> OperatingPoint:
    """The solved rule, unless a trained point is better by more than the error of both."""
    first, *rest = points
    for other in rest:
        name = question.aim
        if name not in first.promise or name not in other.promise:
            continue
        a, b = other.promise[name], first.promise[name]
        if question.better(a.value, b.value) > np.hypot(a.error, b.error):
            first = other
    return first


def _ratio(error: InfeasibleError, question: Question) -> float:
    """How far the smallest budgets are from what was asked."""
    return max(
        (error.smallest.get(f"max_{n}", error.smallest.get(n, np.inf)) / max(most, 1e-12))
        for n, most in question.budgets.items()
    )


def _checked(frontier: Traced, point: OperatingPoint, allow_constant: bool) -> OperatingPoint:
    """Refuse a decision that is the same for everybody; say what else must be said."""
    label = None if point.is_score else is_constant(point.decided)
    if label is None:
        return with_warnings(point)
    share = majority(point.tables, point.labels)[1]
    only = constant_text(point.labels[label], share)
    if allow_constant:
        return replace(point, notes=(*point.notes, f"This decision is {only}."))
    smallest = _smallest_that_decides(frontier, point.question)
    from_here = f" The smallest that decides is {budget_text(smallest)}." if smallest else ""
    raise InfeasibleError(
        f"{point.question}: the best decision is {only}. Ask for a larger budget, or pass "
        f"allow_constant=True (--allow-constant) to ship it.{from_here}",
        smallest,
        share,
    )


def _smallest_that_decides(frontier: Traced, question: Question) -> dict[str, float]:
    """Budgets, in the proportion asked for, at which a decision is no longer the same for all."""
    if not question.solvable:
        return {}
    low, high = 1.0, None
    for factor in (2.0, 4.0, 8.0, 16.0, 64.0, 256.0):
        if not _constant_at(frontier, question, factor):
            high = factor
            break
        low = factor
    if high is None:
        return {}
    for _ in range(5):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _constant_at(frontier, question, middle) else (low, middle)
    return {name: most * high for name, most in question.budgets.items()}


def _constant_at(frontier: Traced, question: Question, factor: float) -> bool:
    budgets = {name: most * factor for name, most in question.budgets.items()}
    try:
        decided = _shipped(frontier, replace(question, budgets=budgets))
    except InfeasibleError:
        return True
    return is_constant(decided) is not None
