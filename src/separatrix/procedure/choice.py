r"""The choice: never worse than the simplest candidate that keeps the budget.

A budget is a limit, not a target. Let s be the simplest candidate that keeps it. A more involved
candidate c, solved for the smaller of what was asked and what s uses, replaces s only if it uses no
more of the budget *and* is better by more than the standard error of the paired difference,

.. math:: \bar d > \sqrt{\textstyle\sum_i w_i^2 (d_i - \bar d)^2} \big/ \textstyle\sum_i w_i,
          \qquad d_i = c_i - s_i,

where c_i and s_i are what the same unseen row i adds to the objective. Ties go to the simpler one.
If nothing keeps the budget, the rule that was solved for it ships.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.procedure.candidates import ORDER, Candidate
from separatrix.procedure.request import Request

__all__ = ["Choice", "Difference", "choose", "keeps", "paired_difference"]

_SAME = 1e-12  # rounding


class Difference(NamedTuple):
    """How much better one candidate is than another on the same rows, and its standard error."""

    value: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether it is better by more than its standard error."""
        return self.value > self.error + _SAME


@dataclass(frozen=True, eq=False)
class Choice:
    """What ships, and why.

    Args:
        candidate: what ships, solved for the budgets that it ships with.
        sentence: the first thing that a user reads.
        whole: what using the whole budget would buy, against what ships; None where it ships
            already, or where nothing could use more.
    """

    candidate: Candidate
    sentence: str
    whole: Difference | None = field(default=None)

    def __str__(self) -> str:
        return self.sentence


def choose(candidates: Sequence[Candidate], request: Request, group: str = "") -> Choice:
    """The candidate that ships, and the first sentence about it.

    Args:
        candidates: in any order; rules are solved for the budgets of the request.
        request: what was asked for.
        group: the name of the sensitive column, for the sentence.

    Raises:
        InfeasibleError: nothing keeps the budget, and no rule could be solved for it.
    """
    ordered = sorted(candidates, key=lambda one: one.place)
    possible = [one for one in ordered if one.possible]
    if not possible:
        raise _refusal(ordered)
    simplest = next((one for one in possible if keeps(one, request)), None)
    rules = [one for one in possible if one.solve is not None]
    if simplest is None:
        if not rules:
            raise _refusal(ordered)
        # the blind rule comes before the group rule; of rules solved for one budget the better one
        chosen = _best(rules[0], rules[1:])
    else:
        later = [one for one in possible if one.place > simplest.place]
        within = [one for one in later if one.solve is not None or keeps(one, request)]
        whole_best = _best(simplest, within)
        chosen = whole_best if request.use_whole_budget else _no_worse(simplest, later, request)
    bought = None
    if simplest is not None and chosen is not whole_best:
        found = paired_difference(whole_best, chosen)
        bought = found if found.clear else None
    sentence = _sentence(possible[0], simplest, chosen, request, bought, group)
    return Choice(chosen, sentence, bought)


def keeps(candidate: Candidate, request: Request) -> bool:
    """Whether unseen rows are expected to keep every budget; with a confidence, its bound."""
    if request.confidence is None:
        used = {name: candidate.promise[name].value for name in request.budgets}
    elif candidate.bound is not None:
        used = dict(candidate.bound)
    else:
        sure = request.confidence
        used = {name: candidate.promise[name].upper(sure) for name in request.budgets}
    return all(used[name] <= most + _SAME for name, most in request.budgets.items())


def paired_difference(a: Candidate, b: Candidate) -> Difference:
    """How much better a is than b in the objective, row by row.

    >>> a = Candidate("group rule", contributions=np.array([1.0, 1.0, 0.0, 1.0]))
    >>> b = Candidate("plain", contributions=np.array([1.0, 0.0, 0.0, 1.0]))
    >>> paired_difference(a, b).value
    0.25
    """
    if a.contributions is None or b.contributions is None:
        raise InputError(f"{a.name!r} and {b.name!r} need `contributions` of the same rows.")
    if a.contributions.shape != b.contributions.shape:
        raise InputError(
            f"{a.name!r} has {len(a.contributions):,} rows and {b.name!r} "
            f"{len(b.contributions):,}: they are compared on the same ones."
        )
    d = a.contributions - b.contributions
    w = np.ones(len(d)) if a.weight is None else a.weight
    mean = float(np.average(d, weights=w))
    return Difference(mean, float(np.sqrt((w**2 * (d - mean) ** 2).sum()) / w.sum()))


def _best(first: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The best in the objective; ties go to the simpler one."""
    best = first
    for one in others:
        if paired_difference(one, best).clear:
            best = one
    return best


def _no_worse(simplest: Candidate, later: Sequence[Candidate], request: Request) -> Candidate:
    """The simplest, or a more involved one that is better and in no budget worse."""
    chosen = simplest
    for one in later:
        rival = _solved_for(one, chosen, request.budgets)
        if rival is None or not _uses_no_more(rival, chosen, request):
            continue
        if paired_difference(rival, chosen).clear:
            chosen = rival
    return chosen


def _solved_for(
    candidate: Candidate, chosen: Candidate, budgets: Mapping[str, float]
) -> Candidate | None:
    """A rule for the smaller of what was asked and what the chosen one uses; None if none."""
    if candidate.solve is None:
        return candidate
    level = {name: min(most, chosen.promise[name].value) for name, most in budgets.items()}
    if level == dict(budgets):
        return candidate
    try:
        return candidate.solve(level)
    except InfeasibleError:  # these rows cannot promise as little as the simple one uses
        return None


def _uses_no_more(rival: Candidate, chosen: Candidate, request: Request) -> bool:
    return all(
        rival.promise[name].value <= chosen.promise[name].value + _SAME for name in request.budgets
    )


def _refusal(candidates: Sequence[Candidate]) -> InfeasibleError:
    for one in reversed(candidates):
        if one.refusal is not None:
            return one.refusal
    notes = "; ".join(f"{one.name}: {one.note}" for one in candidates if one.note)
    return InfeasibleError(
        f"No candidate keeps the budget, and no rule could be solved for it ({notes}).", {}, np.nan
    )


def _sentence(
    first: Candidate,
    simplest: Candidate | None,
    chosen: Candidate,
    request: Request,
    bought: Difference | None,
    group: str,
) -> str:
    """What ships, in the user's terms, beside simpler models; then what the whole budget would buy.

    Args:
        first, simplest: the first candidate, and the first that keeps the budget.
    """
    shown = [_said(chosen, name) for name in request.budgets]
    aim = [_said(chosen, request.aim)] if request.aim in chosen.promise else []
    if chosen.name == "plain":
        head = f"Your model already keeps the budget: {', '.join(shown)}."
        if not request.budgets:
            head = f"Your model as it is: {', '.join(aim)}."
    elif chosen.name == "without the group":
        head = f"Leave out {f'`{group}`' if group else 'the group'}: {', '.join(shown + aim)}."
    else:
        needed = request.budgets and (simplest is None or simplest.solve is not None)
        need = "You need a rule" if needed else "A rule is better"
        if chosen.place == len(ORDER):
            need = "Training for it is better"
        kind = {
            "group rule": f"thresholds by {group or 'group'}",
            "blind rule": "a rule without the group",
        }.get(chosen.name, chosen.name)
        words = {"plain": "your model", "without the group": f"without {group or 'the group'}"}
        beside = [
            f"{words[one.name]}: "
            + ", ".join(_said(one, name) for name in (*request.budgets, request.aim))
            for one in dict.fromkeys((first, simplest or first))
            if one.name in words and request.aim in one.promise
        ]
        was = f" ({'; '.join(beside)})" if beside else ""
        head = f"{need}: {kind}, {', '.join(shown + aim)}{was}."
    if bought is None:
        return head
    levels = " and ".join(f"{most:g}" for most in request.budgets.values())
    return (
        f"{head} Using the whole budget of {levels} would buy {bought.value:.4f} ± "
        f"{bought.error:.4f} of {label_of(request.aim)}."
    )


def _said(candidate: Candidate, metric: str) -> str:
    value = candidate.promise[metric].value
    digits = f"{value:.1e}" if 0 < value < 5e-4 else f"{value:.3f}"
    return f"{label_of(metric)} {digits}"
