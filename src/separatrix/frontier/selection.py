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
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable
from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT
from separatrix.frontier.operating_point import CERTIFIED, OperatingPoint, with_warnings
from separatrix.frontier.results import held_out_table
from separatrix.frontier.trained import Trained, held_out_law, objective_of_tables, trained, trained_points
from separatrix.optimum.margin import up
from separatrix.optimum.objectives import Cost
from separatrix.procedure.candidates import Candidate, Choice, candidates, choose, coin_share, contributions
from separatrix.procedure.procedures import Decisions, Procedure, Scoring
from separatrix.procedure.promise import Measured, PromiseTable, is_constant, same_for_all
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text, constant_text
from separatrix.statistics.certificates import (
    default_composition,
    folds_eo_gap_bound,
    folds_violation_bound,
    violation_bound,
)
from separatrix.statistics.certificates import promise as promise_text
from separatrix.statistics.gaps import eo_gap_bound

if TYPE_CHECKING:
    from separatrix.frontier.frontier import Frontier

POSTPROCESSING = "postprocessing"
_KINDS = {  # the scores that a candidate reads
    "plain": LABELS, "without the group": WITHOUT, "blind rule": JOINT, "group rule": LABELS
}  # fmt: skip
_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # of the budget, on the rows that the rule is fitted to
Array = NDArray[np.float64]


def ask(
    frontier: Frontier, question: Request, *, method: str | Sequence[str] | None = None, allow_constant: bool = False
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
    base = frontier.manifest["base"]["bases"][-1]
    wanted = None if method is None else [method] if isinstance(method, str) else list(method)
    rules = question.solvable and (wanted is None or POSTPROCESSING in wanted)
    if question.confidence is not None or question.maximize == "auroc":
        if not rules:
            raise InputError(
                "A score and a `confidence` are for the rule around the base model, not for "
                "trained points: leave `method` out, or pass 'postprocessing'."
            )
        if question.confidence:
            point = _certified(frontier, question)
        else:
            kind = JOINT if question.blind else LABELS
            score = frontier.measured(kind, _procedure(question))
            point = OperatingPoint(frontier, question, f"a separated score of the base model ({base})", score, kind)
    elif rules:
        choice = choice_of(frontier, candidates_for(frontier, question, wanted), question, allow_constant)
        payload, name = choice.candidate.payload, choice.candidate.name
        if isinstance(payload, Trained):
            point = OperatingPoint(frontier, question, name, payload, sentence=choice.sentence)
        else:
            point = OperatingPoint(frontier, question, f"{name} ({base})", payload, _KINDS[name], choice.sentence)
    else:
        if question.criterion != "separation":
            raise InputError(
                f"Trained points are chosen for separation, not for {question.criterion}: leave `method` out."
            )
        points = trained_points(frontier, wanted, blind=question.blind)
        if not points:
            raise InputError(f"There is no trained point for: {question}. Trace with `method`, as 'cmi'.")
        best = trained(points, question, frontier.groups)
        point = OperatingPoint(frontier, question, f"trained: {best}", best)
    return _checked(frontier, point, allow_constant)


def candidates_for(frontier: Frontier, request: Request, method: Sequence[str] | None = None) -> list[Candidate]:
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
    possible = candidates(
        {name: frontier.impossible if name == "without the group" else "" for name in names},
        lambda name, procedure: frontier.measured(_KINDS[name], procedure),
        frontier.table,
        request,
    )
    others = None if method is None else [recipe for recipe in method if recipe != POSTPROCESSING]
    if request.criterion == "separation" and others != [] and (others or frontier.results.saved):
        possible += trained_candidate(frontier, request, others)
    return possible


def choice_of(
    frontier: Frontier, possible: Sequence[Candidate], request: Request, allow_constant: bool = False
) -> Choice:
    """What ships, of the candidates for a request of decisions.

    A candidate that is the same for everybody keeps every budget and decides nothing: it is out
    where another decides, unless it is allowed.
    """
    deciding = [
        candidate for candidate in possible if not candidate.possible or is_constant(candidate.payload.tables) is None
    ]
    if not allow_constant and any(candidate.possible for candidate in deciding):
        possible = deciding
    named = frontier.sensitive != ("sensitive_features",)  # an array has no name of its own
    return choose(possible, request, " and ".join(frontier.sensitive) if named else "")


def _procedure(question: Request) -> Procedure:
    aim: Any = question.maximize
    if aim == "auroc":
        return Scoring(question.budgets, blind=question.blind)
    return Decisions(aim, question.budgets, blind=question.blind)


def trained_candidate(frontier: Frontier, request: Request, method: Sequence[str] | None = None) -> list[Candidate]:
    """The best of the trained points as a candidate, row by row as the others; none without points."""
    points = trained_points(frontier, method, blind=request.blind)

    def solve(budgets: Mapping[str, float]) -> Candidate:
        mixture = trained(points, replace(request, budgets=budgets), frontier.groups)
        law, aim = held_out_law(frontier, mixture), request.maximize
        assert isinstance(aim, str | Cost)
        each = contributions(law, frontier.rows["y"], frontier.rows["z"], aim, frontier.groups)
        return Candidate(
            f"trained: {mixture}",
            PromiseTable(mixture.promise),
            each - mixture.flattery,
            coin=coin_share(law),
            solve=solve,
            payload=mixture,
        )

    try:
        return [solve(request.budgets)] if points else []
    except InfeasibleError as error:
        return [Candidate.impossible("trained", str(error))]


@dataclass(frozen=True, eq=False)
class CertifiedRule:
    """A rule, and the rows that certify it.

    Args:
        request: with budgets and a confidence.
        share: of the budget on the rows that it was fitted to.
        measured: the rule, measured.
        held_out: counts of rows that it did not see: one table, or one of each fold's rule.
    """

    request: Request
    share: float
    measured: Measured
    held_out: tuple[CountTable, ...] = field(repr=False)

    @cached_property
    def bounds(self) -> dict[str, float]:
        """Upper bounds of what is budgeted in the population, each with the whole confidence.

        All budgets are kept or the rule fails, so the bounds need not hold together.
        """
        return {name: self._bound(name) for name in self.request.budgets}

    def _bound(self, name: str) -> float:
        sure, guarantee = self.request.confidence, self.request.guarantee
        assert sure is not None
        if name not in ("eo_gap", "violation"):
            raise InputError(
                f"A confidence is for `max_eo_gap` and `max_violation`, not for {label_of(name)}. Leave it out."
            )
        if not self.request.one_fold:
            return float((folds_eo_gap_bound if name == "eo_gap" else folds_violation_bound)(self.held_out, sure))
        (table,) = self.held_out
        if name == "eo_gap":
            return float(eo_gap_bound(table, sure, guarantee))
        composition = default_composition(table, guarantee)
        return float(violation_bound(table, sure, guarantee=guarantee, composition=composition))

    @property
    def passes(self) -> bool:
        """Whether it keeps every budget with the confidence."""
        return all(self.bounds[name] <= most for name, most in self.request.budgets.items())


def _certified(frontier: Frontier, request: Request) -> OperatingPoint:
    """The best rule around the base model that keeps its budgets with the asked confidence.

    Raises:
        InfeasibleError: even the strictest rule is not proved to keep them; it says what is.
    """
    rules = rules_of(frontier, request)
    good = passed(rules)
    if not good:
        raise _refused(rules[0].bounds, request)
    value = objective_of_tables(request, frontier.groups)
    rule = max(good, key=lambda rule: np.mean(value(rule.measured.tables)))
    # of the procedure on all rows only the budgets are certified: its own bounds fail more often
    bounds = rule.bounds if request.one_fold else request.budgets
    proved = ", ".join(f"{label_of(name)} at most {bounds[name]:.4g}" for name in request.budgets)
    what = promise_text(request.guarantee, "population")
    note = f"With confidence {request.confidence:g}: {proved} ({what})."
    by = "the rows of fold 0"
    if not request.one_fold:
        by = "every fold's rows, unseen by its rule"
        note += " It takes the procedure on all rows to be as separated as on its folds."
    kind = JOINT if request.blind else LABELS
    name, k = f"decisions of the base model, certified by {by}", CERTIFIED if request.one_fold else None
    return OperatingPoint(frontier, request, name, rule.measured, kind, notes=(note,), fold=k)


def rules_of(frontier: Frontier, request: Request) -> list[CertifiedRule]:
    """Rules at shares of the budget, strictest first, with the rows that certify them."""
    kind = JOINT if request.blind else LABELS
    aim: Any = request.maximize
    rules = []
    for share in _SHARES:
        budgets = {name: share * most for name, most in request.budgets.items()}
        procedure = Decisions(aim, budgets, blind=request.blind, margin=0.0)
        run = frontier.run(kind, procedure)
        measured = run.measured_fold(CERTIFIED) if request.one_fold else run.measured()
        folds = zip(measured.tables, measured.squares, strict=True)
        held_out = tuple(held_out_table(frontier.labels, frontier.groups, *fold) for fold in folds)
        rules.append(CertifiedRule(request, share, measured, held_out))
    return rules


def passed(rules: Sequence[CertifiedRule]) -> list[CertifiedRule]:
    """The rules up to the first that does not keep its budgets with the confidence."""
    return list(takewhile(lambda rule: rule.passes, rules))


def _refused(smallest: dict[str, float], request: Request) -> InfeasibleError:
    needed = budget_text({name: float(up(most)) for name, most in smallest.items()})
    other = "set `guarantee` to large-sample, " if request.guarantee == "finite-sample" else ""
    return InfeasibleError(
        f"These rows cannot certify {budget_text(request.budgets)} with confidence "
        f"{request.confidence:g}: the strictest rule is proved to keep {needed}. Ask for that or "
        f"more, bring more rows, {other}or leave `confidence` out.",
        smallest,
    )


def _checked(frontier: Frontier, point: OperatingPoint, allow_constant: bool) -> OperatingPoint:
    """Refuse a decision that is the same for everybody; say what else must be said."""
    if point.measured.eased:
        note = (
            f"In {point.measured.eased} of the {len(point.tables)} outer folds, which have fewer rows, "
            f"{budget_text(point.question.budgets)} could not be promised and the smallest budget that "
            "could was taken: the promise describes slightly looser rules."
        )
        point = replace(point, notes=(*point.notes, note))
    label = None if point.is_score else is_constant(point.decided)
    if label is None:
        return with_warnings(point)
    share = float(point.tables[:, label].sum() / point.tables.sum())
    only = constant_text(frontier.labels[label], share)
    if allow_constant:
        return replace(point, notes=(*point.notes, f"This decision is {only}."))
    kind, smallest = JOINT if point.question.blind else LABELS, dict[str, float]()
    if point.question.solvable:
        smallest = frontier.run(kind, _procedure(point.question)).smallest_that_decides()
    or_pass = ", or pass allow_constant=True (--allow-constant) to ship it"
    raise same_for_all(point.question, only, share, smallest, or_pass)
