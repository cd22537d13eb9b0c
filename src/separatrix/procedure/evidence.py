"""Evidence: candidates from out-of-fold scores, measured on rows that their rules did not see.

Every row has a score of a model that did not see it. A rule is fitted to the scores of all folds
but one and decides the rows of that one; so each decision is made by a model and a rule that know
nothing of the row. The rule that ships is fitted to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Coded, Levels
from separatrix.core.counts import CountTable
from separatrix.core.measures import table_measures
from separatrix.errors import InfeasibleError
from separatrix.optimum.blind import BlindPromises
from separatrix.optimum.objectives import Cost
from separatrix.optimum.plain import PlainRule
from separatrix.optimum.promised import PromisedRule, Promises
from separatrix.optimum.rules import BlindRule
from separatrix.procedure.candidates import Candidate, coin_share, contributions
from separatrix.procedure.promise import PromiseTable, tightened
from separatrix.procedure.request import Request
from separatrix.statistics.certificates import eo_gap_bound, violation_bound
from separatrix.statistics.unseen import Promise, unseen

__all__ = ["Evidence", "Solved"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Solved:
    """What makes a candidate's predictor.

    Args:
        base: the name of the scores that the rule reads.
        rule: P(U | score), P(U | score, group) or P(U | q).
        level: the budget that it was fitted for on the rows; NaN where nothing was solved.
        expected: what resamples of the rows expect of the budget; NaN where nothing was solved.
    """

    base: str
    rule: Any
    level: float = np.nan
    expected: float = np.nan


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rows that candidates are measured on.

    Args:
        y, z: codes of labels and groups.
        fold: of each row.
        labels, groups: what the codes stand for.
        weight: of each row; None for one each.
        share: independent observations per row, below 1 where a person has several rows.
    """

    y: Codes
    z: Codes
    fold: Codes
    labels: Levels
    groups: Levels
    weight: Array | None = None
    share: float = 1.0

    def plain(self, name: str, base: str, scores: Array, request: Request) -> Candidate:
        """The model as it is, at the threshold of the objective."""
        w = self._weight()
        prior = np.bincount(self.y, w, len(self.labels)) / w.sum()
        share = np.bincount(self.z, w, len(self.groups)) / w.sum()
        rule = PlainRule.for_objective(request.maximize, prior, self.groups, share)
        law = rule.predict_proba(scores)
        bound = self._bound(law, request)
        return self._candidate(name, law, request, Solved(base, rule), bound=bound)

    def rule(
        self, name: str, base: str, scores: Array, request: Request, *, blind: bool = False
    ) -> Candidate:
        """The best rule within the budget of the request, or the reason why there is none.

        Args:
            name, base: of the candidate and of its scores.
            scores: P(Y | x), (n, K); if blind q(y, z | x), (n, K, groups).
            request: with one budget.
            blind: a rule without the group.
        """
        ((budget, asked),) = request.budgets.items()
        solver = _Solver(self, scores, request, budget, blind)

        def strict(budgets: Mapping[str, float]) -> Candidate:
            found = solver.whole(budgets[budget])
            law = solver.unseen_law(found.level)
            payload = Solved(base, found.rule, found.level, found.expected)
            # with a confidence the margin's quantile is what is kept
            bound = None if request.confidence is None else {budget: found.expected}
            if bound is not None and self.share < 1.0:  # that quantile takes rows for people
                bound = self._bound(law, request)
            return self._candidate(name, law, request, payload, bound=bound)

        def solve(budgets: Mapping[str, float]) -> Candidate:
            found = tightened(strict, lambda one: {budget: one.promise[budget].value}, budgets)
            return replace(found, solve=solve)

        try:
            return solve({budget: asked})
        except InfeasibleError as error:
            return Candidate.impossible(name, error)

    def _candidate(
        self,
        name: str,
        law: Array,
        request: Request,
        payload: Solved,
        bound: Mapping[str, float] | None = None,
    ) -> Candidate:
        aim: Any = request.maximize
        return Candidate(
            name,
            PromiseTable(self._promises(law, request, payload)),
            contributions(law, self.y, self.z, aim, self.groups, self.weight),
            self.weight,
            coin=coin_share(law, self.weight),
            bound=bound,
            payload=payload,
        )

    def _promises(self, law: Array, request: Request, payload: Solved) -> dict[str, Promise]:
        """What unseen rows will show of every metric, from the tables of all folds."""
        fixed = isinstance(payload.rule, PlainRule)
        tables, squares = self._tables(law)
        measures: dict[str, Any] = {**table_measures()}
        if isinstance(request.maximize, Cost):
            measures["cost"] = partial(_mean_cost, request.maximize.per_group(self.groups))
        found = unseen(tables, squares, measures, fixed=fixed)
        if request.confidence is None:
            for name in request.budgets:
                found[name] = found[name].with_expected(payload.expected)
        return found

    def _tables(self, law: Array) -> tuple[Array, Array]:
        """Expected counts N[fold, y, z, u], and the same of squared probabilities.

        Weights are scaled to the effective number of rows.
        """
        w = self._weight()
        w = w * (self.share * w.sum() / (w**2).sum())
        shape = int(self.fold.max()) + 1, len(self.labels), len(self.groups)
        cell = np.ravel_multi_index((self.fold, self.y, self.z), shape)
        sums = [
            np.stack([np.bincount(cell, w * q, int(np.prod(shape))) for q in some.T], axis=-1)
            for some in (law, law**2)
        ]
        tables, squares = (np.asarray(one, np.float64).reshape(*shape, -1) for one in sums)
        return tables, squares

    def _bound(self, law: Array, request: Request) -> dict[str, float] | None:
        """A bound of the confidence on what decisions of zeros and ones use of the budgets."""
        known: dict[str, Callable[..., float]] = {
            "eo_gap": eo_gap_bound,
            "violation": violation_bound,
        }
        if request.confidence is None or not set(request.budgets) <= set(known):
            return None
        counts = self._tables(law)[0].sum(0)
        table = CountTable(counts, self.labels, self.groups, self.labels, round(counts.sum()))
        return {
            name: known[name](table, request.confidence, guarantee=request.guarantee)
            for name in request.budgets
        }

    def _weight(self) -> Array:
        return np.ones(len(self.y)) if self.weight is None else self.weight


class _Solver:
    """Rules for any level of one budget: of all rows, and of all rows but a fold.

    Rows are sorted by their score once. Sorting the sorted rows of a fold again takes linear time.
    """

    def __init__(
        self, evidence: Evidence, scores: Array, request: Request, budget: str, blind: bool
    ) -> None:
        self.order = np.argsort(scores.reshape(len(scores), -1)[:, -1], kind="stable")
        self.scores, self.fold = scores[self.order], evidence.fold[self.order]
        self.y, self.z = evidence.y[self.order], evidence.z[self.order]
        self.weight = evidence._weight()[self.order]
        self.codes = tuple(range(len(evidence.groups)))
        self.maximize = _coded(request.maximize, evidence.groups)
        self.budget, self.blind, self.confidence = budget, blind, request.confidence
        self._known: dict[int | None, Any] = {}

    def whole(self, level: float) -> PromisedRule:
        """The rule of all rows."""
        found: PromisedRule = self._promises(None).rule(level, confidence=self.confidence)
        return found

    def unseen_law(self, level: float) -> Array:
        """P(U | row) of every row by a rule of the other folds, in the order of the evidence.

        Args:
            level: of the budget on the rows, as the rule of all rows has it. The margin was taken
                off it once; the rules of the folds are those that this level gives on their rows.
        """
        law = np.zeros(self.scores.shape[:2])
        for k in np.unique(self.fold):
            rows = np.flatnonzero(self.fold == k)
            law[rows] = self._law(self._promises(int(k)).at_level(level), rows)
        out = np.empty_like(law)
        out[self.order] = law
        return out

    def _law(self, rule: Any, rows: Codes) -> Array:
        if isinstance(rule, BlindRule):
            return rule.predict_proba(self.scores[rows])
        z = Coded(self.z[rows], self.codes)
        return np.asarray(rule.predict_proba(self.scores[rows], sensitive_features=z))

    def _promises(self, k: int | None) -> Any:
        if k not in self._known:
            rows = np.arange(len(self.fold)) if k is None else np.flatnonzero(self.fold != k)
            # Where all rows of a group are in one fold, the others keep its place by a row that
            # weighs nothing.
            absent = np.setdiff1d(self.codes, self.z[rows])
            kept = np.concatenate([rows, [np.flatnonzero(self.z == g)[0] for g in absent]])
            kept = kept.astype(np.intp)
            weight = self.weight[kept]
            weight[len(rows) :] = 0.0
            self._known[k] = (BlindPromises if self.blind else Promises)(
                self.scores[kept],
                self.y[kept],
                self.z[kept],
                weight,
                self.codes,
                maximize=self.maximize,
                budget=self.budget,
            )
        return self._known[k]


def _coded(maximize: Any, groups: Levels) -> Any:
    """A cost by group, with codes instead of names."""
    if not isinstance(maximize, Cost):
        return maximize
    by_code: list[Any] = [dict(enumerate(one)) for one in maximize.per_group(groups).T.tolist()]
    return Cost(*by_code)


def _mean_cost(costs: Array, tables: Array) -> Array:
    """Expected cost per row of tables (..., 2, z, 2), with costs (z, 2) of both errors."""
    errors = np.stack([tables[..., 0, :, 1], tables[..., 1, :, 0]], axis=-1)
    return np.asarray((errors * costs).sum((-2, -1)) / tables.sum((-3, -2, -1)))
