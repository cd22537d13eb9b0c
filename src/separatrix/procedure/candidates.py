r"""Candidates: everything that could ship, from doing nothing upward, each with its promise.

A candidate knows what each unseen row adds to the objective, so that two of them are compared row
by row. With P(u | row) the distribution of its decision,

- accuracy: P(y | row); balanced accuracy: P(y | row) / (K P(Y = y));
- cost: minus the expected cost of the row's error;
- utility: :math:`\sum_u P(u \mid row) \log \frac{p(u, y)}{p(u) p(y)}`, the influence of the row on
  I(U; Y) up to a constant that all rows of a label share.

The mean over the rows is the objective itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.counts import CountTable
from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError
from separatrix.optimum.objectives import Cost, objective_of
from separatrix.procedure.measuring import Measured
from separatrix.procedure.procedures import Decisions, Plain, Procedure, Rows
from separatrix.procedure.promise import Promise, PromiseTable
from separatrix.procedure.request import Request
from separatrix.report.table import Table
from separatrix.statistics.certificates import eo_gap_bound, violation_bound

__all__ = ["ORDER", "Candidate", "CandidateTable", "candidates", "coin_share", "contributions"]

Array = NDArray[np.float64]
ORDER = ("plain", "without the group", "blind rule", "group rule", "separated score")
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


class CandidateTable(Sequence[Candidate]):
    """All candidates, simplest first; prints as a table, also in a notebook.

    Args:
        candidates: in any order.
        metrics: the columns: what is maximised, then the budgets.
        chosen: the name of the one that ships.
    """

    def __init__(
        self, candidates: Sequence[Candidate], metrics: Sequence[str], chosen: str = ""
    ) -> None:
        self.candidates = tuple(sorted(candidates, key=lambda one: one.place))
        self.metrics, self.chosen = tuple(metrics), chosen

    @overload
    def __getitem__(self, key: int | str) -> Candidate: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, key: int | str | slice) -> Candidate | Sequence[Candidate]:
        """A candidate by its name or its place."""
        if not isinstance(key, str):
            return self.candidates[key]
        for one in self.candidates:
            if one.name == key:
                return one
        names = ", ".join(repr(one.name) for one in self.candidates)
        raise KeyError(f"There is no candidate {key!r}; there are {names}.")

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def rows(self) -> list[dict[str, Any]]:
        """One plain row per candidate: its name, value and error of each metric, coin, note."""
        out = []
        for one in self.candidates:
            row: dict[str, Any] = {"candidate": one.name, "ships": one.name == self.chosen}
            for metric in self.metrics:
                found = one.promise.get(metric)
                row[metric] = np.nan if found is None else found.value
                row[f"{metric}_error"] = np.nan if found is None else found.error
            out.append(row | {"coin": one.coin if one.possible else np.nan, "note": one.note})
        return out

    def to_frame(self) -> Any:
        """The rows as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        return "\n".join("  ".join(cells).rstrip() for cells in _aligned(self._cells()))

    def __repr__(self) -> str:
        return f"<CandidateTable: {', '.join(one.name for one in self.candidates)}>"

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return Table("", tuple(head), tuple(map(tuple, body))).html()

    def _cells(self) -> list[list[str]]:
        cells = [["candidate", *map(label_of, self.metrics), "by coin", ""]]
        for one in self.candidates:
            values = [str(one.promise[m]) if m in one.promise else "" for m in self.metrics]
            coin = f"{100 * one.coin:.1f} %" if one.possible else ""
            note = "ships" if one.name == self.chosen else ""
            cells.append([one.name, *values, coin, "; ".join(filter(None, (note, one.note)))])
        return cells


def candidates(
    reasons: Mapping[str, str],
    measure: Callable[[str, Procedure], Measured],
    rows: Rows,
    request: Request,
) -> list[Candidate]:
    """What could ship for a request of decisions, simplest first, each with its promise.

    Args:
        reasons: by the name of a candidate, why it is not possible; "" where it is.
        measure: a candidate's name and its procedure → what it shows around the candidate's model.
        rows: labels, groups and weights.
        request: with budgets for the rules, if there are any.
    """
    found, aim = [], request.maximize
    assert isinstance(aim, str | Cost)
    for name, reason in reasons.items():
        if reason:
            found.append(Candidate.impossible(name, reason))
        elif name in ("plain", "without the group"):
            found.append(_measured(name, measure(name, Plain(aim)), rows, request))
        else:
            found.append(_solved(name, measure, rows, request))
    return found


def _solved(
    name: str, measure: Callable[[str, Procedure], Measured], rows: Rows, request: Request
) -> Candidate:
    """A rule for the budgets of the request, or the reason why there is none."""
    aim: Any = request.maximize

    def solve(budgets: Mapping[str, float]) -> Candidate:
        rule = Decisions(aim, budgets, request.blind, confidence=request.confidence)
        return replace(_measured(name, measure(name, rule), rows, request), solve=solve)

    try:
        return solve(request.budgets)
    except InfeasibleError as error:
        return Candidate.impossible(name, error)


def _measured(name: str, found: Measured, rows: Rows, request: Request) -> Candidate:
    aim: Any = request.maximize
    assert found.laws is not None
    return Candidate(
        name,
        PromiseTable(found.promise),
        contributions(found.laws, rows.y, rows.z, aim, rows.groups, rows.weight),
        rows.weight,
        coin=coin_share(found.laws, rows.weight),
        bound=None if request.confidence is None else _bound(found, rows, request),
        payload=found,
    )


def _bound(found: Measured, rows: Rows, request: Request) -> dict[str, float] | None:
    """A bound of the confidence on what the budgets are used, where there is one."""
    if isinstance(found.procedure, Decisions) and rows.share == 1.0:
        return {min(request.budgets): found.rule.expected}  # the margin's quantile is what is kept
    if not set(request.budgets) <= set(_BOUNDS):
        return None
    counts = found.tables.sum(0)
    table = CountTable(counts, rows.labels, rows.groups, rows.labels, round(counts.sum()))
    return {
        name: _BOUNDS[name](table, request.confidence, guarantee=request.guarantee)
        for name in request.budgets
    }


def contributions(
    law: Array,
    y: NDArray[np.intp],
    z: NDArray[np.intp],
    maximize: str | Cost,
    groups: Levels,
    weight: Array | None = None,
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
    return float(np.average((law.max(1) < 1.0 - 1e-9), weights=weight))


def _aligned(cells: list[list[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [[f"{x:<{w}}" for x, w in zip(row, widths, strict=True)] for row in cells]
