"""A rule that keeps its budgets with a confidence: rows certify rules that did not see them.

Rules for shares of the budget are tried from the strictest on, until one fails: a fixed sequence of
tests needs no share of the error for each. The best of those that passed ships.

"large-sample": every fold's rows certify the fold's rule (`statistics.certificates`), and the same
procedure on all rows ships. "finite-sample": the rule of fold 0 ships, and the rows of fold 0,
which it did not see, certify it. The proof needs rows that no part of the rule saw; sharing the
error over the five folds' rules would cost more than their rows bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from separatrix.core.counts import CountTable
from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.base_models import JOINT, LABELS
from separatrix.frontier.operating_point import (
    CERTIFIED,
    OperatingPoint,
    held_out_table,
    procedure_predictor,
)
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained import objective_of_tables
from separatrix.optimum.margin import up
from separatrix.procedure.candidates import coin_share
from separatrix.procedure.measuring import Measured, Run
from separatrix.procedure.procedures import Decisions
from separatrix.procedure.request import Request
from separatrix.report.words import budget_text
from separatrix.statistics.certificates import (
    default_composition,
    folds_eo_gap_bound,
    folds_violation_bound,
    violation_bound,
)
from separatrix.statistics.certificates import promise as promise_text
from separatrix.statistics.gaps import eo_gap_bound

__all__ = ["CertifiedRule", "bounds_of", "certified", "passed", "rules_of"]

_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)  # of the budget, on the rows that the rule is fitted to


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


def certified(frontier: Traced, request: Request) -> OperatingPoint:
    """The best rule around the base model that keeps its budgets with the asked confidence.

    Raises:
        InfeasibleError: even the strictest rule is not proved to keep them; it says what is.
    """
    rules = rules_of(frontier, request)
    good = passed(rules, request)
    if not good:
        raise _refused(rules[0], request)
    value = objective_of_tables(request, frontier.groups)
    return _point(frontier, request, max(good, key=lambda rule: np.mean(value(rule.found.tables))))


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
                f"A confidence is for `max_eo_gap` and `max_violation`, not for {label_of(name)}. "
                "Leave it out."
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
        float("nan"),
    )


def _point(frontier: Traced, request: Request, rule: CertifiedRule) -> OperatingPoint:
    bounds, found = bounds_of(rule, request), rule.found
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
    point = OperatingPoint(
        request, f"decisions of the base model, certified by {by}", found.promise, found.tables,
        frontier.labels, frontier.groups,
        lambda: procedure_predictor(frontier, point, found, kind, k), (note,),
        coin=0.0 if found.laws is None else coin_share(found.laws), squares=found.squares,
    )  # fmt: skip
    return point
