"""Ask a frontier for a point: the simplest candidate that is not worse than the others.

Candidates go from doing nothing upward: the base model as it is, the same model without the group's
columns, a rule around its scores, trained points where some were traced (the choice is in
`procedure.candidates`). Each is run on every outer fold, which gives its promise, and on all rows,
which is what ships.

With a confidence, rows certify rules that did not see them. Rules for shares of the budget are
tried from the strictest on, until one fails: a fixed sequence of tests needs no share of the error
for each. The best of those that passed ships. "large-sample": every fold's rows certify the fold's
rule (`statistics.certificates`), and the same procedure on all rows ships. "finite-sample": the
rule of fold 0 ships, and the rows of fold 0, which it did not see, certify it. The proof needs rows
that no part of the rule saw; sharing the error over the five folds' rules would cost more than
their rows bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.core.counts import CountTable
from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT
from separatrix.frontier.operating_point import (
    CERTIFIED,
    OperatingPoint,
    held_out_audit,
    held_out_table,
    procedure_predictor,
    trained_predictor,
    with_warnings,
)
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import (
    Trained,
    TrainedPoint,
    held_out_law,
    objective_of_tables,
    trained,
    trained_points,
)
from separatrix.optimum.margin import up
from separatrix.optimum.objectives import Cost
from separatrix.procedure.candidates import Candidate, Choice, candidates, choose, coin_share, contributions
from separatrix.procedure.procedures import Decisions, Procedure, Scoring
from separatrix.procedure.promise import Measured, PromiseTable, Run
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text, constant_text, is_constant, majority
from separatrix.statistics.certificates import (
    default_composition,
    folds_eo_gap_bound,
    folds_violation_bound,
    violation_bound,
)
from separatrix.statistics.certificates import promise as promise_text
from separatrix.statistics.gaps import eo_gap_bound

POSTPROCESSING = "postprocessing"
_KINDS = {  # the scores that a candidate reads
    "plain": LABELS, "without the group": WITHOUT, "blind rule": JOINT, "group rule": LABELS
}  # fmt: skip
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # of the budget, on the rows that the rule is fitted to
Array = NDArray[np.float64]


def ask(
    frontier: Traced, question: Request, *, method: str | Sequence[str] | None = None, allow_constant: bool = False
) -> OperatingPoint:
    """The best point for a question.

    Args:
        frontier: what was traced.
        question: aim and budgets.
        method: only points of this method, or of these, as "cmi" or with a recipe, as "cmi:score";
            "postprocessing" for solved rules only.
        allow_constant: also ship a decision that is the same for everybody.

    Raises:
        InfeasibleError: nothing keeps the budgets; it says the smallest that succeed.
    """
    wanted = None if method is None else [method] if isinstance(method, str) else list(method)
    rules = question.solvable and (wanted is None or POSTPROCESSING in wanted)
    if question.confidence is not None or question.maximize == "auroc":
        if not rules:
            raise InputError(
                "A score and a `confidence` are for the rule around the base model, not for "
                "trained points: leave `method` out, or pass 'postprocessing'."
            )
        point = _certified(frontier, question) if question.confidence else _score(frontier, question)
    elif rules:
        choice = choice_for(frontier, question, wanted, allow_constant)
        point = _point(frontier, question, choice.candidate, choice.sentence)
    else:
        if question.criterion != "separation":
            raise InputError(
                f"Trained points are chosen for separation, not for {question.criterion}: leave `method` out."
            )
        points = trained_points(frontier, wanted, blind=question.blind)
        if not points:
            raise InputError(f"There is no trained point for: {question}. Trace with `method`, as 'cmi'.")
        found = trained(points, question, frontier.groups)
        point = _trained_point(frontier, question, found)
    return _checked(frontier, point, allow_constant)


def candidates_for(frontier: Traced, request: Request, method: Sequence[str] | None = None) -> list[Candidate]:
    """What could ship for a request of decisions, each with its promise, simplest first.

    Args:
        frontier: what was traced.
        request: of decisions, that can be solved.
        method: with names, only the rule and trained points of these; else all.
    """
    names = [] if method is not None else ["plain", "without the group"]
    if request.blind and frontier.reads_group:
        names = names[1:]
    elif not frontier.reads_group:
        names = names[:1]
    names.append("blind rule" if request.blind else "group rule")
    found = candidates(
        {name: frontier.impossible if name == "without the group" else "" for name in names},
        lambda name, procedure: frontier.measured(_KINDS[name], procedure),
        frontier.table,
        request,
    )
    others = None if method is None else [one for one in method if one != POSTPROCESSING]
    if request.criterion == "separation" and others != [] and (others or frontier.results.saved):
        points = trained_points(frontier, others, blind=request.blind)
        if points:
            found.append(_trained_candidate(frontier, request, points))
    return found


def choice_for(
    frontier: Traced, request: Request, method: Sequence[str] | None = None, allow_constant: bool = False
) -> Choice:
    """What ships for a request of decisions.

    A candidate that is the same for everybody keeps every budget and decides nothing: it is out
    where another decides, unless it is allowed.
    """
    possible = candidates_for(frontier, request, method)
    deciding = [one for one in possible if not one.possible or not _is_constant(one)]
    if not allow_constant and any(one.possible for one in deciding):
        possible = deciding
    return choose(possible, request, _group_column(frontier))


def _group_column(frontier: Traced) -> str:
    """The name of the sensitive column, where the groups came from columns."""
    named = () if frontier.grouping is None else frontier.grouping.columns
    return "" if named == ("sensitive_features",) else " and ".join(named)


def _procedure(question: Request) -> Procedure:
    aim: Any = question.maximize
    if aim == "auroc":
        return Scoring(question.budgets, blind=question.blind)
    return Decisions(aim, question.budgets, blind=question.blind)


def _trained_candidate(frontier: Traced, request: Request, points: Sequence[TrainedPoint]) -> Candidate:
    """The best of the trained points as a candidate, row by row as the others."""

    def solve(budgets: Mapping[str, float]) -> Candidate:
        found = trained(points, replace(request, budgets=budgets), frontier.groups)
        law, aim = held_out_law(frontier, found.mixture), request.maximize
        assert isinstance(aim, str | Cost)
        each = contributions(law, frontier.rows["y"], frontier.rows["z"], aim, frontier.groups)
        return Candidate(
            f"trained: {found.mixture}",
            PromiseTable(found.promise),
            each - found.flattery,
            coin=coin_share(law),
            solve=solve,
            payload=found,
        )

    try:
        return solve(request.budgets)
    except InfeasibleError as error:
        return Candidate.impossible("trained", str(error))


def _score(frontier: Traced, question: Request) -> OperatingPoint:
    """The score that was asked for."""
    kind = JOINT if question.blind else LABELS
    found = frontier.measured(kind, _procedure(question))
    name = f"a separated score of the base model ({frontier.manifest['base']['bases'][-1]})"
    return _solved_point(frontier, question, found, kind, name)


@dataclass(frozen=True, eq=False)
class CertifiedRule:
    """A rule, and the rows that certify it.

    Args:
        share: of the budget on the rows that it was fitted to.
        found: the rule, measured.
        held_out: counts of rows that it did not see: one table, or one of each fold's rule.
    """

    share: float
    found: Measured
    held_out: tuple[CountTable, ...] = field(repr=False)


def _certified(frontier: Traced, request: Request) -> OperatingPoint:
    """The best rule around the base model that keeps its budgets with the asked confidence.

    Raises:
        InfeasibleError: even the strictest rule is not proved to keep them; it says what is.
    """
    rules = rules_of(frontier, request)
    good = passed(rules, request)
    if not good:
        raise _refused(rules[0], request)
    value = objective_of_tables(request, frontier.groups)
    rule = max(good, key=lambda rule: np.mean(value(rule.found.tables)))
    bounds = bounds_of(rule, request)
    # of the procedure on all rows only the budgets are certified: its own bounds fail more often
    told = bounds if request.one_fold else request.budgets
    proved = ", ".join(f"{label_of(name)} at most {told[name]:.4g}" for name in bounds)
    what = promise_text(request.guarantee, "population")
    note = f"With confidence {request.confidence:g}: {proved} ({what})."
    by, k = "the rows of fold 0", CERTIFIED if request.one_fold else None
    if not request.one_fold:
        by = "every fold's rows, unseen by its rule"
        note += " It takes the procedure on all rows to be as separated as on its folds."
    kind = JOINT if request.blind else LABELS
    name = f"decisions of the base model, certified by {by}"
    return _solved_point(frontier, request, rule.found, kind, name, certificate=note, k=k)


def rules_of(frontier: Traced, request: Request) -> list[CertifiedRule]:
    """Rules at shares of the budget, strictest first, with the rows that certify them."""
    nested = frontier.scores(JOINT if request.blind else LABELS)
    aim: Any = request.maximize
    rules = []
    for share in _SHARES:
        budgets = {name: share * most for name, most in request.budgets.items()}
        procedure = Decisions(aim, budgets, blind=request.blind, margin=0.0)
        run = Run(procedure, nested, frontier.table)
        found = run.measured_fold(CERTIFIED) if request.one_fold else run.measured()
        folds = zip(found.tables, found.squares, strict=True)
        held_out = tuple(held_out_table(frontier, *fold) for fold in folds)
        rules.append(CertifiedRule(share, found, held_out))
    return rules


def passed(rules: Sequence[CertifiedRule], request: Request) -> list[CertifiedRule]:
    """The rules that keep every budget with the confidence, up to the first that does not."""
    good = []
    for rule in rules:
        bounds = bounds_of(rule, request)
        if any(bounds[name] > most for name, most in request.budgets.items()):
            break
        good.append(rule)
    return good


def bounds_of(rule: CertifiedRule, request: Request) -> dict[str, float]:
    """Upper bounds of what is budgeted in the population, each with the whole confidence.

    All budgets are kept or the rule fails, so the bounds need not hold together.
    """
    tables, sure = rule.held_out, request.confidence
    assert sure is not None
    if request.one_fold:
        (table,) = tables
        how = {"composition": default_composition(table, request.guarantee)}
        bounds: dict[str, Any] = {
            "eo_gap": partial(eo_gap_bound, table, sure, request.guarantee),
            "violation": partial(violation_bound, table, sure, guarantee=request.guarantee, **how),
        }
    else:
        bounds = {
            "eo_gap": partial(folds_eo_gap_bound, tables, sure),
            "violation": partial(folds_violation_bound, tables, sure),
        }
    for name in request.budgets:
        if name not in bounds:
            raise InputError(
                f"A confidence is for `max_eo_gap` and `max_violation`, not for {label_of(name)}. Leave it out."
            )
    return {name: float(bounds[name]()) for name in request.budgets}


def _refused(strictest: CertifiedRule, request: Request) -> InfeasibleError:
    smallest = bounds_of(strictest, request)
    needed = budget_text({name: float(up(most)) for name, most in smallest.items()})
    other = "set `guarantee` to large-sample, " if request.guarantee == "finite-sample" else ""
    return InfeasibleError(
        f"These rows cannot certify {budget_text(request.budgets)} with confidence "
        f"{request.confidence:g}: the strictest rule is proved to keep {needed}. Ask for that or "
        f"more, bring more rows, {other}or leave `confidence` out.",
        smallest,
    )


def _point(frontier: Traced, question: Request, candidate: Candidate, sentence: str) -> OperatingPoint:
    """The candidate that the choice took."""
    if isinstance(candidate.payload, Trained):
        return _trained_point(frontier, question, candidate.payload, sentence)
    found, kind = candidate.payload, _KINDS[candidate.name]
    name = f"{candidate.name} ({frontier.manifest['base']['bases'][-1]})"
    return _solved_point(frontier, question, found, kind, name, sentence)


def _solved_point(
    frontier: Traced,
    question: Request,
    found: Measured,
    kind: str,
    name: str,
    sentence: str = "",
    *,
    certificate: str = "",
    k: int | None = None,
) -> OperatingPoint:
    """A rule around the base model: of all rows, or of the outer fold k that certifies it."""
    notes = [certificate] if certificate else []
    if found.eased:
        notes.append(
            f"In {found.eased} of the {len(found.tables)} outer folds, which have fewer rows, "
            f"{budget_text(question.budgets)} could not be promised and the smallest budget that "
            "could was taken: the promise describes slightly looser rules."
        )
    audit = shipped = None
    if not found.is_score and not certificate:
        audit = held_out_audit(frontier, found.tables, found.squares)
        shipped = _shipped(frontier, found.procedure, found.rule, kind)
    point = OperatingPoint(
        question, name, found.promise, found.tables, frontier.labels, frontier.groups,
        lambda: procedure_predictor(frontier, point, found, kind, k), tuple(notes), audit=audit,
        shipped=shipped, sentence=sentence,
        coin=0.0 if found.laws is None else coin_share(found.laws),
    )  # fmt: skip
    return point


def _trained_point(frontier: Traced, question: Request, found: Trained, sentence: str = "") -> OperatingPoint:
    tables = found.mixture.tables
    point = OperatingPoint(
        question, f"trained: {found.mixture}", found.promise, tables, frontier.labels,
        frontier.groups, lambda: trained_predictor(frontier, point, found.mixture),
        mixture=found.mixture, audit=held_out_audit(frontier, tables, tables), sentence=sentence,
        coin=coin_share(held_out_law(frontier, found.mixture)),
    )  # fmt: skip
    return point


def _is_constant(candidate: Candidate) -> bool:
    if isinstance(candidate.payload, Trained):
        return is_constant(candidate.payload.mixture.tables) is not None
    return is_constant(candidate.payload.tables) is not None


def _shipped(frontier: Traced, procedure: Procedure, rule: Any, kind: str) -> Array:
    """Counts (1, y, z, u) of the rule that ships, on the honest scores of all rows."""
    rows, (_, scores) = frontier.table, frontier.scores(kind).training(None)
    law = procedure.law(rule, scores, rows.z)
    return soft_sums(law, rows.y, rows.z, rows.cells)[0][None]


def _checked(frontier: Traced, point: OperatingPoint, allow_constant: bool) -> OperatingPoint:
    """Refuse a decision that is the same for everybody; say what else must be said."""
    if frontier.grouping is not None:
        point = replace(point, columns=frontier.grouping.columns)
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
    procedure, kind = _procedure(question), JOINT if question.blind else LABELS
    solve = procedure.solver(frontier.scores(kind).training(None)[1], frontier.table)

    def budgets(factor: float) -> dict[str, float]:
        return {name: most * factor for name, most in question.budgets.items()}

    def constant(factor: float) -> bool:
        try:
            rule = solve(budgets(factor), None)
        except InfeasibleError:
            return True
        return is_constant(_shipped(frontier, procedure, rule, kind)) is not None

    low, high = 1.0, None
    for factor in (2.0, 4.0, 8.0, 16.0, 64.0, 256.0):
        if not constant(factor):
            high = factor
            break
        low = factor
    if high is None:
        return {}
    for _ in range(5):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if constant(middle) else (low, middle)
    return budgets(high)
