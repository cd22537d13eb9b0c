"""Ask a frontier for a point: the simplest candidate that is not worse than the others.

Candidates go from doing nothing upward: the base model as it is, the same model without the group's
columns, a rule around its scores (`procedure.choice` has the choice). Each is run on every outer
fold, which gives its promise, and on all rows, which is what ships. Trained points are chosen along
their paths, for separation; one of them is taken where it is better than the chosen candidate by
more than the error of the comparison. What the folds say about the best of many trained points
flatters it: each fold reports the point that the other folds would have chosen, and the difference
is taken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.crossfit.nested import NestedScores
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.base_scores import JOINT, LABELS, WITHOUT
from separatrix.frontier.certified import certified
from separatrix.frontier.constant import is_constant, with_warnings
from separatrix.frontier.measured import held_out_audit, procedure_predictor
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import trained_point
from separatrix.optimum.objectives import Cost
from separatrix.procedure.candidates import Candidate, coin_share, contributions
from separatrix.procedure.choice import Choice, choose
from separatrix.procedure.measuring import Measured, measured
from separatrix.procedure.plain_fits import Plain
from separatrix.procedure.promise import PromiseTable
from separatrix.procedure.request import Request
from separatrix.procedure.rule_fits import Decisions, Procedure
from separatrix.procedure.score_fits import Scoring
from separatrix.report.words import budget_text, constant_text, majority

__all__ = ["POSTPROCESSING", "ask", "candidates_for", "choice_for", "solved"]

POSTPROCESSING = "postprocessing"
Array = NDArray[np.float64]


def ask(
    frontier: Traced,
    question: Request,
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
            points.append(_solved_point(frontier, question, wanted is not None, allow_constant))
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


def solved(frontier: Traced, procedure: Procedure, kind: str = LABELS) -> Measured:
    """A procedure around the base model, run on every outer fold and on all rows.

    Args:
        frontier: what was traced.
        procedure: what to run.
        kind: whose scores it reads, of `frontier.base_scores`.
    """
    asked = f"{kind} {procedure}"
    if asked not in frontier.measurements:
        y, z = frontier.rows["y"], frontier.rows["z"]
        names = frontier.labels, frontier.groups
        frontier.measurements[asked] = measured(procedure, _nested(frontier, kind), y, z, *names)
    found: Measured = frontier.measurements[asked]
    return found


def candidates_for(
    frontier: Traced, request: Request, *, rules_only: bool = False
) -> list[Candidate]:
    """What could ship for a request of decisions, each with its promise, simplest first."""
    found = []
    plain = Plain(maximize=request.maximize)  # type: ignore[arg-type]
    if not rules_only and (not request.blind or not frontier.sees_groups):
        found.append(_candidate(frontier, request, "plain", plain, LABELS))
    if not rules_only and frontier.sees_groups:
        found.append(_candidate(frontier, request, "without the group", plain, WITHOUT))
    name, kind = ("blind rule", JOINT) if request.blind else ("group rule", LABELS)

    def solve(budgets: Mapping[str, float]) -> Candidate:
        own = replace(request, budgets=budgets)
        return replace(_candidate(frontier, own, name, _procedure(own), kind), solve=solve)

    try:
        found.append(solve(request.budgets))
    except InfeasibleError as error:
        found.append(Candidate.impossible(name, error))
    return found


def _group_column(frontier: Traced) -> str:
    """The name of the sensitive column, where the groups came from columns."""
    named = () if frontier.grouping is None else frontier.grouping.columns
    return "" if named == ("sensitive_features",) else " and ".join(named)


def choice_for(
    frontier: Traced, request: Request, rules_only: bool = False, allow_constant: bool = False
) -> Choice:
    """What ships for a request of decisions.

    A candidate that is the same for everybody keeps every budget and decides nothing: it is out
    where another decides, unless it is allowed.
    """
    candidates = candidates_for(frontier, request, rules_only=rules_only)
    deciding = [one for one in candidates if not one.possible or not _is_constant(one)]
    if not allow_constant and any(one.possible for one in deciding):
        candidates = deciding
    return choose(candidates, request, _group_column(frontier))


def _candidate(
    frontier: Traced, request: Request, name: str, procedure: Procedure, kind: str
) -> Candidate:
    found = solved(frontier, procedure, kind)
    assert found.laws is not None
    y, z, aim = frontier.rows["y"], frontier.rows["z"], request.maximize
    assert isinstance(aim, str | Cost)
    return Candidate(
        name,
        PromiseTable.from_estimates(found.promise),
        contributions(found.laws, y, z, aim, frontier.groups),
        coin=coin_share(found.laws),
        payload=(found, kind),
    )


def _nested(frontier: Traced, kind: str) -> NestedScores:
    if kind == JOINT:
        return frontier.joint
    return frontier.without if kind == WITHOUT else frontier.nested


def _procedure(question: Request) -> Procedure:
    aim: Any = question.maximize
    if aim == "auroc":
        return Scoring(question.budgets, blind=question.blind)
    return Decisions(aim, question.budgets, blind=question.blind)


def _solved_point(
    frontier: Traced, question: Request, rules_only: bool, allow_constant: bool
) -> OperatingPoint:
    """The score that was asked for, or the candidate that the choice takes."""
    base = frontier.manifest["base"]["bases"][-1]
    kind = JOINT if question.blind else LABELS
    if question.maximize == "auroc":
        found = solved(frontier, _procedure(question), kind)
        name, sentence = f"a separated score of the base model ({base})", ""
    else:
        choice = choice_for(frontier, question, rules_only, allow_constant)
        found, kind = choice.candidate.payload
        name, sentence = f"{choice.candidate.name} ({base})", choice.sentence
    notes = []
    if found.eased:
        notes.append(
            f"In {found.eased} of the {len(found.tables)} outer folds, which have fewer rows, "
            f"{budget_text(question.budgets)} could not be promised and the smallest budget that "
            "could was taken: the promise describes slightly looser rules."
        )
    audit = None if found.is_score else held_out_audit(frontier, found.tables, found.squares)
    point = OperatingPoint(
        question, name, found.promise, found.tables, frontier.labels, frontier.groups,
        lambda: procedure_predictor(frontier, point, found, kind), tuple(notes), audit=audit,
        shipped=None if found.is_score else _shipped(frontier, found.procedure, kind, found.rule),
        squares=found.squares, sentence=sentence,
        coin=0.0 if found.laws is None else coin_share(found.laws),
    )  # fmt: skip
    return point


def _is_constant(candidate: Candidate) -> bool:
    found, _ = candidate.payload
    return is_constant(found.tables) is not None


def _shipped(
    frontier: Traced, procedure: Procedure, kind: str, rule: Any = None
) -> NDArray[np.float64]:
    """Counts (1, y, z, u) of the rule that ships, on the honest scores of all rows."""
    scores = _nested(frontier, kind).honest
    y, z = frontier.rows["y"], frontier.rows["z"]
    if rule is None:
        rule = procedure.fit(scores, y, z, frontier.groups)
    law = procedure.law(rule, scores, z)
    return soft_sums(law, y, z, (len(frontier.labels), len(frontier.groups)))[0][None]


def _best(points: Sequence[OperatingPoint], question: Request) -> OperatingPoint:
    """The first, unless a trained point is no worse in any budget and better by more than the
    error of both.
    """
    first, *rest = points
    for other in rest:
        name = question.aim
        if name not in first.promise or name not in other.promise:
            continue
        a, b = other.promise[name], first.promise[name]
        used = {n: most if question.use_whole_budget else min(most, first.promise[n].value)
                for n, most in question.budgets.items()}  # fmt: skip
        if any(other.promise[n].value > most + 1e-12 for n, most in used.items()):
            continue
        if question.better(a.value, b.value) > np.hypot(a.error, b.error):
            first = other
    return first


def _ratio(error: InfeasibleError, question: Request) -> float:
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


def _smallest_that_decides(frontier: Traced, question: Request) -> dict[str, float]:
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


def _constant_at(frontier: Traced, question: Request, factor: float) -> bool:
    budgets = {name: most * factor for name, most in question.budgets.items()}
    try:
        run = _procedure(replace(question, budgets=budgets))
        decided = _shipped(frontier, run, JOINT if question.blind else LABELS)
    except InfeasibleError:
        return True
    return is_constant(decided) is not None
