r"""Candidates, from doing nothing upward, and the choice: never worse than the simplest.

A candidate knows what each unseen row adds to the objective, so that two of them are compared row
by row. With P(u | row) the distribution of its decision,

- accuracy: P(y | row); balanced accuracy: P(y | row) / (K P(Y = y));
- cost: minus the expected cost of the row's error;
- utility: :math:`\sum_u P(u \mid row) \log \frac{p(u, y)}{p(u) p(y)}`, the influence of the row on
  I(U; Y) up to a constant that all rows of a label share.

The mean over the rows is the objective itself.

A budget is a limit, not a target. Let s be the simplest candidate that keeps it. A more involved
candidate c, solved for the smaller of what was asked and what s uses, replaces s only if it uses no
more of the budget *and* is better by more than the standard error of the paired difference,

.. math:: \bar d > \sqrt{\textstyle\sum_i w_i^2 (d_i - \bar d)^2} \big/ \textstyle\sum_i w_i,
          \qquad d_i = c_i - s_i,

where c_i and s_i are what the same unseen row i adds to the objective. Ties go to the simpler one.
If nothing keeps the budget, the rule that was solved for it ships. With `use_whole_budget` the best within the budget
ships, by however little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.counts import CountTable
from separatrix.core.measures import METRICS, label_of
from separatrix.errors import InfeasibleError, require
from separatrix.optimum.objectives import Cost, objective_of
from separatrix.procedure.procedures import Decisions, Plain, Procedure, Rows
from separatrix.procedure.promise import Measured, Promise, PromiseTable, is_constant
from separatrix.procedure.request import Request
from separatrix.report.table import Table
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.gaps import eo_gap_bound

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
ORDER = ("plain", "without the group", "blind rule", "group rule", "separated score")
_SAME = 1e-12  # rounding
_ZERO = 5e-4  # three digits show 0.000
_BOUNDS: dict[str, Any] = {"eo_gap": eo_gap_bound, "violation": violation_bound}


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing that could ship.

    Args:
        name: one of `ORDER`, or the name of a trained path, which comes after them.
        promise: by metric; empty where the candidate is not possible.
        contributions: what each unseen row adds to the objective, (n,); larger is better. All
            candidates have the same rows in the same order.
        weight: of each row, (n,); None for one each.
        note: in words; "not possible: …" says why.
        coin: share of the rows whose decision a coin makes.
        bound: by budget, what it keeps with the confidence of the request; None to compute it from
            the promise.
        solve: budgets → the same candidate solved for other budgets; None where nothing is solved.
        refusal: the error that says why no rule could be solved, with the smallest budget that can.
        payload: what makes the predictor: of a rule what was `Measured`.
    """

    name: str
    promise: Mapping[str, Promise] = field(default_factory=dict)
    contributions: Array | None = field(default=None, repr=False)
    weight: Array | None = field(default=None, repr=False)
    note: str = ""
    coin: float = 0.0
    bound: Mapping[str, float] | None = None
    solve: Callable[[Mapping[str, float]], Candidate] | None = field(default=None, repr=False)
    refusal: InfeasibleError | None = field(default=None, repr=False)
    payload: Any = field(default=None, repr=False)

    @property
    def possible(self) -> bool:
        """Whether it could ship."""
        return bool(self.promise)

    @property
    def place(self) -> int:
        """How involved it is: its place in `ORDER`."""
        return ORDER.index(self.name) if self.name in ORDER else len(ORDER)

    @classmethod
    def impossible(cls, name: str, reason: str | InfeasibleError) -> Candidate:
        """A candidate that is listed with the reason why it cannot ship."""
        refusal = reason if isinstance(reason, InfeasibleError) else None
        return cls(name, note=f"not possible: {reason}", refusal=refusal)


class CandidateTable(Collection[Candidate]):
    """All candidates, simplest first; prints as a table, also in a notebook.

    Args:
        candidates: in any order.
        metrics: the columns: what is maximised, then the budgets.
        chosen: the name of the one that ships.
    """

    def __init__(self, candidates: Iterable[Candidate], metrics: Sequence[str], chosen: str = "") -> None:
        self.candidates = tuple(sorted(candidates, key=lambda candidate: candidate.place))
        self.metrics, self.chosen = tuple(metrics), chosen

    def __getitem__(self, key: int | str) -> Candidate:
        """A candidate by its name or its place."""
        if not isinstance(key, str):
            return self.candidates[key]
        named = {candidate.name: candidate for candidate in self.candidates}
        if key not in named:
            raise KeyError(f"There is no candidate {key!r}; there are {', '.join(map(repr, named))}.")
        return named[key]

    def __contains__(self, candidate: object) -> bool:
        return candidate in self.candidates

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def to_frame(self) -> Any:
        """One row per candidate: its name, value and error of each metric, coin, note."""
        rows = []
        for candidate in self.candidates:
            row: dict[str, Any] = {"candidate": candidate.name, "ships": candidate.name == self.chosen}
            for metric in self.metrics:
                promise = candidate.promise.get(metric, Promise(*[np.nan] * 4))
                row |= {metric: promise.value, f"{metric}_error": promise.error}
            rows.append(row | {"coin": candidate.coin if candidate.possible else np.nan, "note": candidate.note})
        return require("pandas", "pandas", "`to_frame`").DataFrame(rows)

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (zip(row, widths, strict=True) for row in cells)
        return "\n".join("  ".join(f"{x:<{w}}" for x, w in line).rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<CandidateTable: {', '.join(candidate.name for candidate in self.candidates)}>"

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return Table("", tuple(head), tuple(map(tuple, body))).html()

    def _cells(self) -> list[list[str]]:
        cells = [["candidate", *map(label_of, self.metrics), "by coin", ""]]
        for candidate in self.candidates:
            values = [str(candidate.promise[m]) if m in candidate.promise else "" for m in self.metrics]
            coin = f"{100 * candidate.coin:.1f} %" if candidate.possible else ""
            note = "ships" if candidate.name == self.chosen else ""
            cells.append([candidate.name, *values, coin, "; ".join(filter(None, (note, candidate.note)))])
        return cells


def candidates(
    reasons: Mapping[str, str], measure: Callable[[str, Procedure], Measured], rows: Rows, request: Request
) -> list[Candidate]:
    """What could ship for a request of decisions, simplest first, each with its promise.

    Args:
        reasons: by the name of a candidate, why it is not possible; "" where it is.
        measure: a candidate's name and its procedure → what it shows around the candidate's model.
        rows: labels, groups and weights.
        request: with budgets for the rules, if there are any.
    """
    aim: Any = request.maximize

    def solve(name: str, budgets: Mapping[str, float]) -> Candidate:
        rule = Decisions(aim, budgets, request.blind, confidence=request.confidence)
        return replace(_measured(name, measure(name, rule), rows, request), solve=partial(solve, name))

    def candidate(name: str, reason: str) -> Candidate:
        if reason:
            return Candidate.impossible(name, reason)
        if name in ("plain", "without the group"):
            return _measured(name, measure(name, Plain(aim)), rows, request)
        try:
            return solve(name, request.budgets)
        except InfeasibleError as error:
            return Candidate.impossible(name, error)

    return [candidate(name, reason) for name, reason in reasons.items()]


def _measured(name: str, measured: Measured, rows: Rows, request: Request) -> Candidate:
    aim: Any = request.maximize
    assert measured.laws is not None
    return Candidate(
        name,
        PromiseTable(measured.promise),
        contributions(measured.laws, rows.y, rows.z, aim, rows.groups, rows.weight),
        rows.weight,
        coin=coin_share(measured.laws, rows.weight),
        bound=None if request.confidence is None else _bound(measured, rows, request),
        payload=measured,
    )


def _bound(measured: Measured, rows: Rows, request: Request) -> dict[str, float] | None:
    """A bound of the confidence on what the budgets are used, where there is one."""
    if isinstance(measured.procedure, Decisions) and rows.share == 1.0:
        return {min(request.budgets): measured.rule.expected}  # the margin's quantile is what is kept
    if not set(request.budgets) <= set(_BOUNDS):
        return None
    counts = measured.tables.sum(0)
    table = CountTable(counts, rows.labels, rows.groups, rows.labels, round(counts.sum()))
    return {name: _BOUNDS[name](table, request.confidence, guarantee=request.guarantee) for name in request.budgets}


def contributions(
    law: Array, y: Codes, z: Codes, maximize: str | Cost, groups: Levels, weight: Array | None = None
) -> Array:
    """What each row adds to the objective, (n,); their weighted mean is the objective.

    Args:
        law: P(U = u | row), (n, K).
        y, z: codes of the labels and groups.
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost` (then minus the cost).
        groups: their names, for costs by group.
        weight: of each row.

    >>> law, y, z = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.array([0, 0])
    >>> contributions(law, y, z, "accuracy", ("a",)).tolist()
    [0.9, 0.6]
    """
    w = np.ones(len(y)) if weight is None else weight
    right = law[np.arange(len(y)), y]
    if isinstance(maximize, Cost):
        cost = maximize.per_group(groups)[z]
        return -np.asarray(np.where(y == 0, cost[:, 0] * law[:, 1], cost[:, 1] * law[:, 0]))
    name = objective_of(maximize).name
    if name == "accuracy":
        return right
    prior = np.bincount(y, w, law.shape[1]) / w.sum()
    if name == "balanced_accuracy":
        return np.asarray(right / (np.count_nonzero(prior) * prior[y]))
    joint = np.stack([np.bincount(y, w * column, len(prior)) for column in law.T], 1) / w.sum()
    outer = prior[:, None] * joint.sum(0)
    pointwise = np.log(np.divide(joint, outer, out=np.ones_like(joint), where=joint > 0))
    return np.asarray((law * pointwise[y]).sum(1))


def coin_share(law: Array, weight: Array | None = None) -> float:
    """The share of rows whose decision is neither certain nor impossible.

    >>> coin_share(np.array([[1.0, 0.0], [0.3, 0.7]]))
    0.5
    """
    likeliest = reduce(np.maximum, law.T)  # column by column: `max(1)` takes seven times as long
    return float(np.average(likeliest < 1.0 - 1e-9, weights=weight))


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
    """

    candidate: Candidate
    sentence: str


def choose(candidates: Sequence[Candidate], request: Request, group: str = "") -> Choice:
    """The candidate that ships, and the first sentence about it.

    Args:
        candidates: in any order; rules are solved for the budgets of the request.
        request: what was asked for.
        group: the name of the sensitive column, for the sentence.

    Raises:
        InfeasibleError: nothing keeps the budget, and no rule could be solved for it.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.place)
    possible = [candidate for candidate in ordered if candidate.possible]
    if not possible:
        raise _refusal(ordered)
    simplest = next((candidate for candidate in possible if keeps(candidate, request)), None)
    if simplest is None:
        rules = [candidate for candidate in possible if candidate.solve is not None]
        if not rules:
            raise _refusal(ordered)
        # the blind rule comes before the group rule; of rules solved for one budget the better one
        chosen = _best(rules[0], rules[1:])
    else:
        later = [candidate for candidate in possible if candidate.place > simplest.place]
        within = [candidate for candidate in later if candidate.solve is not None or keeps(candidate, request)]
        whole_best = _best(simplest, within, clearly=not request.use_whole_budget)
        chosen = whole_best if request.use_whole_budget else _no_worse(simplest, later, request)
    bought = None
    if simplest is not None and chosen is not whole_best:
        lead = paired_difference(whole_best, chosen)
        bought = lead if lead.clear else None
    sentence = _sentence(possible[0], simplest, chosen, request, bought, group)
    return Choice(chosen, sentence)


def keeps(candidate: Candidate, request: Request) -> bool:
    """Whether unseen rows are expected to keep every budget; with a confidence, its bound."""
    sure, promise, bound = request.confidence, candidate.promise, candidate.bound

    def used(name: str) -> float:
        if sure is None:
            return promise[name].value
        return promise[name].upper(sure) if bound is None else bound[name]

    return all(used(name) <= most + _SAME for name, most in request.budgets.items())


def paired_difference(a: Candidate, b: Candidate) -> Difference:
    """How much better a is than b in the objective, row by row.

    >>> a = Candidate("group rule", contributions=np.array([1.0, 1.0, 0.0, 1.0]))
    >>> b = Candidate("plain", contributions=np.array([1.0, 0.0, 0.0, 1.0]))
    >>> paired_difference(a, b).value
    0.25
    """
    d = np.asarray(a.contributions) - np.asarray(b.contributions)
    w = np.ones(len(d)) if a.weight is None else a.weight
    mean = float(np.average(d, weights=w))
    return Difference(mean, float(np.sqrt((w**2 * (d - mean) ** 2).sum()) / w.sum()))


def _best(first: Candidate, others: Sequence[Candidate], clearly: bool = True) -> Candidate:
    """The best in the objective, `clearly` by more than the standard error; ties go to the simpler one."""
    best = first
    for candidate in others:
        lead = paired_difference(candidate, best)
        if lead.clear if clearly else lead.value > _SAME:
            best = candidate
    return best


def _no_worse(simplest: Candidate, later: Sequence[Candidate], request: Request) -> Candidate:
    """The simplest, or a more involved one that decides, is better and in no budget worse."""
    chosen = simplest
    for candidate in later:
        rival = candidate
        level = {k: min(most, chosen.promise[k].value) for k, most in request.budgets.items()}
        if candidate.solve is not None and level != dict(request.budgets):
            try:
                rival = candidate.solve(level)
            except InfeasibleError:  # these rows cannot promise as little as the simple one uses
                continue
        used = [rival.promise[k].value - chosen.promise[k].value for k in level]
        decides = rival.payload is None or is_constant(rival.payload.tables) is None
        if decides and max(used, default=0.0) <= _SAME and paired_difference(rival, chosen).clear:
            chosen = rival
    return chosen


def _refusal(candidates: Sequence[Candidate]) -> InfeasibleError:
    notes = "; ".join(f"{candidate.name}: {candidate.note}" for candidate in candidates if candidate.note)
    unsolved = InfeasibleError(f"No candidate keeps the budget, and no rule could be solved for it ({notes}).", {})
    return next((c.refusal for c in reversed(candidates) if c.refusal is not None), unsolved)


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
        kind = {"group rule": f"thresholds by {group or 'group'}", "blind rule": "a rule without the group"}.get(
            chosen.name, chosen.name
        )
        words = {"plain": "your model", "without the group": f"without {group or 'the group'}"}
        beside = [
            f"{words[candidate.name]}: " + ", ".join(_said(candidate, name) for name in (*request.budgets, request.aim))
            for candidate in dict.fromkeys((first, simplest or first))
            if candidate.name in words and request.aim in candidate.promise
        ]
        was = f" ({'; '.join(beside)})" if beside else ""
        head = f"{need}: {kind}, {', '.join(shown + aim)}{was}."
    if bought is None:
        return head
    levels = " and ".join(f"{most:g}" for most in request.budgets.values())
    more = f"{bought.value:.4f} ± {bought.error:.4f} of {label_of(request.aim)}"
    return f"{head} Using the whole budget of {levels} would buy {more}."


def _said(candidate: Candidate, metric: str) -> str:
    value, error = candidate.promise[metric][:2]
    digits = f"{value:.3f}"
    if value < _ZERO:  # a small v is a number; a gap of none is one that these rows cannot see
        if not METRICS[metric].unit and error > 0:
            digits = f"below {2 * error:.2g}"
        elif value > 0:
            digits = f"{value:.1e}"
    return f"{label_of(metric)} {digits}"
