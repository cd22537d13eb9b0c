"""A choice that keeps its budgets with a confidence: rows certify rules that did not see them.

The rules around the base model are tried from the strictest on; trained points likewise along their
paths. Where there are both, each family has half of the error.

"large-sample": every fold's rows certify the fold's rule (`statistics.folds`), and the same
procedure on all rows ships. "finite-sample": the rule of fold 0 ships, and the rows of fold 0,
which it did not see, certify it. The proof needs rows that no part of the rule saw; sharing the
error over the five folds' rules would cost more than their rows bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.measures import label_of, table_measures
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier import base_scores as bases
from separatrix.frontier import trained_choice as choosing
from separatrix.frontier.measured import (
    CERTIFIED,
    candidates_of,
    held_out_table,
    procedure_predictor,
    trained_predictor,
)
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.traced import Traced
from separatrix.frontier.trained_points import Candidate, Selection
from separatrix.procedure.measuring import Measured, measured, measured_fold
from separatrix.procedure.request import Request
from separatrix.procedure.rule_fits import Decisions
from separatrix.statistics.certificates import promise as promise_text
from separatrix.statistics.unseen import Estimate

__all__ = ["certified", "rules_of"]

Array = NDArray[np.float64]
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.1, 0.0)  # of the budget, on the rows that the rule is fitted to
_PATH = "postprocessing"


def certified(
    frontier: Traced,
    question: Request,
    wanted: Sequence[str] | None,
    option: str | None,
    rule: str,
) -> OperatingPoint:
    """The best point that keeps its budgets with the asked confidence."""
    families: list[tuple[list[Candidate], dict[float, Measured]]] = []
    if question.solvable and option is None and (wanted is None or _PATH in wanted):
        families.append(rules_of(frontier, question))
    others = None if wanted is None else [name for name in wanted if name != _PATH]
    if others != []:
        folds: Sequence[int] = range(int(frontier.manifest["folds"]))
        trained = candidates_of(
            frontier, others, fold=CERTIFIED if question.one_fold else ALL_ROWS,
            certify=(CERTIFIED,) if question.one_fold else folds, blind=question.blind,
        )  # fmt: skip
        families += [(trained, {})] if trained else []
    if not families:
        raise InputError(f"There is nothing here that could be certified for: {question}.")
    assert question.confidence is not None
    sure = 1.0 - (1.0 - question.confidence) / len(families)
    found, refusals = [], []
    for candidates, rules in families:
        try:
            chosen = choosing.select(
                candidates, max_eo_gap=question.budgets.get("eo_gap"),
                max_violation=question.budgets.get("violation"),
                maximize=choosing.aim_of(question.maximize), confidence=sure, rule=rule,
                option="single" if rules else option, guarantee=question.guarantee,
            )  # fmt: skip
            found.append((chosen, rules))
        except InfeasibleError as error:
            refusals.append(error)
    if not found:
        raise min(refusals, key=lambda error: max(error.smallest.values(), default=np.inf))
    selection, rules = max(found, key=lambda one: one[0].chosen.value)
    return _point(frontier, question, selection, rules)


def rules_of(frontier: Traced, question: Request) -> tuple[list[Candidate], dict[float, Measured]]:
    """Rules at shares of the budget, with the counts of the rows that certify them."""
    nested = frontier.joint if question.blind else frontier.nested
    names = frontier.rows["y"], frontier.rows["z"], frontier.labels, frontier.groups
    aim: Any = question.maximize
    candidates, rules = [], {}
    for share in _SHARES:
        budgets = {name: share * most for name, most in question.budgets.items()}
        run = Decisions(aim, budgets, blind=question.blind, margin=0.0)
        if question.one_fold:
            one = measured_fold(run, nested, CERTIFIED, *names)
        else:
            one = measured(run, nested, *names)
        held = tuple(
            held_out_table(frontier, *fold) for fold in zip(one.tables, one.squares, strict=True)
        )
        path = (_PATH, "x" if question.blind else "xz")
        candidates.append(
            Candidate(path, share, "randomized", one.tables, held_out=held, strict="low")
        )
        rules[share] = one
    return candidates, rules


def _point(
    frontier: Traced, question: Request, selection: Selection, rules: dict[float, Measured]
) -> OperatingPoint:
    option = selection.chosen
    tables = np.asarray(
        sum(w * c.tables for w, c in zip(option.weights, option.components, strict=True))
    )
    # of the procedure on all rows only the budgets are certified: its own bounds fail more often
    told = option.bounds if question.one_fold else question.budgets
    bounds = ", ".join(f"{label_of(n)} at most {told[n]:.4g}" for n in option.bounds)
    measures = table_measures()
    by = "the rows of fold 0" if question.one_fold else "every fold's rows, unseen by its rule"
    if rules:
        found = rules[option.components[0].trade_off]
        promise = found.promise
        name = f"decisions of the base model, certified by {by}"
    else:
        promise = {
            n: Estimate(float(of(tables).mean()), float("nan")) for n, of in measures.items()
        }
        name = f"trained: {option}"
    what = promise_text(question.guarantee, "population")
    note = f"With confidence {question.confidence:g}: {bounds} ({what})."
    if not question.one_fold:
        note += " It takes the procedure on all rows to be as separated as on its folds."

    def build() -> Any:
        k = CERTIFIED if question.one_fold else None
        if rules:
            return procedure_predictor(
                frontier, point, found, bases.JOINT if question.blind else bases.LABELS, k
            )
        return trained_predictor(frontier, point, selection, ALL_ROWS if k is None else k)

    point = OperatingPoint(
        question, name, promise, tables, frontier.labels, frontier.groups, build, (note,), coin=1.0,
        selection=None if rules else replace(selection, confidence=question.confidence),
    )  # fmt: skip
    return point
