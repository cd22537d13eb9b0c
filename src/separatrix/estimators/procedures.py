"""Procedures: all that lies between honest scores and what ships, in one object that can be run
again.

A procedure is run on the training rows of every outer fold and measured on its test rows; run once
more on all rows it is what ships (`nested` has the scores of both). Nothing in it is taken from
elsewhere, so what is measured is what is shipped.

- `Decisions`: the best rule for an objective within budgets. Its prediction is a law of labels.
- `Scoring`: the score with the best AUROC within budgets. Its prediction is a law of levels.
- `Plain`: the base model as it is, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Levels
from separatrix.core import ordered
from separatrix.core.information import conditional_mutual_information
from separatrix.core.metrics import METRICS
from separatrix.errors import InfeasibleError, InputError
from separatrix.estimators.nested import NestedScores
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import PromisedRule, Promises
from separatrix.optimum.separated import SeparatedScore
from separatrix.optimum.separating import separate
from separatrix.statistics.unseen import Estimate, unseen

__all__ = ["Decisions", "Measured", "Plain", "Procedure", "Scoring", "measured"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Budgets = Mapping[str, float]
_BINS = 20  # of a score, where its violation is counted
_DRAWS = 200
_PENALTIES = (None, 100.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.0)


class Procedure(Protocol):
    """What can be fitted to honest scores, and measured."""

    budgets: Budgets

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> Any:
        """The fitted rule; `InfeasibleError` where the budget cannot be promised."""
        ...

    def law(self, rule: Any, scores: Array, z: Codes) -> Array:
        """P(U = u | row) of test rows, (m, u), from their scores by each member (members, m, C)."""
        ...

    def at_least(self, smallest: Budgets) -> Procedure:
        """The same with budgets that are not below these."""
        ...


@dataclass(frozen=True)
class Decisions:
    """The best decisions for an objective within budgets.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost`.
        budgets: levels by the names of `optimum.objectives.BUDGETS`; empty for the best rule.
        confidence: None: budgets are kept in expectation; else with this probability.
    """

    maximize: str | Cost = "accuracy"
    budgets: Budgets = field(default_factory=dict)
    confidence: float | None = None

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> PromisedRule:
        """The rule that is expected to keep every budget on unseen rows."""
        if not self.budgets:
            return self._promises(scores, y, z, groups, "eo_gap").rule(None)
        (name, asked), *others = sorted(self.budgets.items())
        best = self._promises(scores, y, z, groups, name)
        found = best.rule(asked, confidence=self.confidence)
        for other, most in others:
            kept = Decisions(self.maximize, {other: most}, self.confidence)
            found = _stricter(best, found, kept.uses(found, scores, y, z, groups), other, most)
        return found

    def uses(
        self, promised: PromisedRule, scores: Array, y: Codes, z: Codes, groups: Levels
    ) -> Callable[[PromisedRule], float]:
        """What a rule is expected to use of this procedure's one budget."""
        (name, _), *_ = self.budgets.items()
        size = (int(scores.shape[1]), len(groups))

        def used(rule: PromisedRule) -> float:
            law = rule.rule.predict_proba(scores, sensitive_features=z)
            table = soft_sums(law, y, z, size)[0]
            return unseen(table[None], table[None], {name: METRICS[name].of})[name].value  # type: ignore[dict-item]

        return used

    def law(self, rule: PromisedRule, scores: Array, z: Codes) -> Array:
        """The mean over the members."""
        each = [rule.rule.predict_proba(one, sensitive_features=z) for one in scores]
        return np.asarray(np.mean(each, axis=0))

    def at_least(self, smallest: Budgets) -> Decisions:
        return replace(self, budgets=_raised(self.budgets, smallest))

    def _promises(self, scores: Array, y: Codes, z: Codes, groups: Levels, budget: str) -> Promises:
        codes = tuple(range(len(groups)))
        aim = _coded(self.maximize, groups)
        weight = np.ones(len(y))
        return Promises(scores, y, z, weight, codes, maximize=aim, budget=budget)


@dataclass(frozen=True)
class Scoring:
    """The score with the best AUROC within budgets, for two labels.

    Args:
        budgets: "eo_gap": of the decision at *every* threshold; "violation": I(S;Z|Y) of the score
            in 20 bins. Empty: the best score of all.
        exact: separated exactly on the rows, whatever the budgets.
    """

    budgets: Budgets = field(default_factory=dict)
    exact: bool = False

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> SeparatedScore:
        """The least penalised score that is expected to keep every budget on unseen rows."""
        if scores.shape[1] != 2:
            raise InputError(
                f"A separated score is for two labels, got {scores.shape[1]}: maximize accuracy or "
                "utility instead."
            )
        cells = np.bincount(y * len(groups) + z, minlength=2 * len(groups)).reshape(2, -1)
        known: dict[int, tuple[SeparatedScore, dict[str, float]]] = {}

        def at(i: int) -> tuple[SeparatedScore, dict[str, float]]:
            if i not in known:
                score = separate(
                    y, scores[:, 1], sensitive_features=z, penalty=_PENALTIES[i], borrow=True
                )
                known[i] = score, _expected(score, cells)
            return known[i]

        def keeps(i: int) -> bool:
            return all(at(i)[1][name] <= most for name, most in self.budgets.items())

        if self.exact:
            return at(0)[0]
        if self.budgets and not keeps(0):
            smallest = {name: at(0)[1][name] for name in self.budgets}
            raise _too_few(self.budgets, smallest, at(0)[0].auroc)
        low, high = 0, len(_PENALTIES) - 1
        while low < high:  # what is used rises along the path
            middle = (low + high + 1) // 2
            low, high = (middle, high) if keeps(middle) else (low, middle - 1)
        return at(low)[0]

    def law(self, rule: SeparatedScore, scores: Array, z: Codes) -> Array:
        """The law of the levels, the mean over the members, in at most 100 steps."""
        each = [rule.level_proba(one, sensitive_features=z) for one in scores]
        mass = rule.table.sum((0, 1))
        return ordered.merged(np.mean(each, axis=0), mass, 100)

    def at_least(self, smallest: Budgets) -> Scoring:
        return replace(self, budgets=_raised(self.budgets, smallest))


@dataclass(frozen=True)
class Plain:
    """The base model as it is: its most probable label, or its score in 100 bins.

    Args:
        score: the score of two labels instead of decisions.
    """

    score: bool = False
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> Array | None:
        """The edges of the bins of a score."""
        return np.unique(np.quantile(scores[:, 1], np.arange(1, 100) / 100)) if self.score else None

    def law(self, rule: Array | None, scores: Array, z: Codes) -> Array:
        """The mean over the members of decisions or bins."""
        if rule is None:
            return np.asarray(np.mean([np.eye(s.shape[1])[s.argmax(1)] for s in scores], axis=0))
        bins = np.eye(len(rule) + 1)
        each = [bins[np.searchsorted(rule, s[:, 1], side="right")] for s in scores]
        return np.asarray(np.mean(each, axis=0))

    def at_least(self, smallest: Budgets) -> Plain:
        return self


@dataclass(frozen=True, eq=False)
class Measured:
    """A procedure, what it is on all rows, and what it showed on the test rows of outer folds.

    Args:
        procedure: what was run.
        rule: fitted to all rows: it ships.
        tables, squares: of each fold's test rows, as `statistics.unseen` takes them.
        groups: their names.
        eased: outer folds, of four fifths of the rows, in which the budget could not be promised
            and the smallest that could was taken instead.
    """

    procedure: Procedure
    rule: Any
    tables: Array = field(repr=False)
    squares: Array = field(repr=False)
    groups: Levels
    eased: int = 0

    @property
    def is_score(self) -> bool:
        """Whether it predicts levels of a score rather than labels."""
        return isinstance(self.procedure, Scoring) or getattr(self.procedure, "score", False)

    @cached_property
    def promise(self) -> dict[str, Estimate]:
        """Estimate and standard error of each metric on unseen rows."""
        if self.is_score:
            return unseen(self.tables, self.squares, ordered.MEASURES)
        measures: dict[str, Any] = {n: m.of for n, m in METRICS.items() if m.of is not None}
        aim = getattr(self.procedure, "maximize", None)
        if isinstance(aim, Cost):
            measures["cost"] = partial(_mean_cost, aim.per_group(self.groups))
        return unseen(self.tables, self.squares, measures)

    @property
    def constant(self) -> int | None:
        """The label that every row gets, if there is one."""
        share = self.tables.sum((0, 1, 2)) / self.tables.sum()
        return int(share.argmax()) if share.max() > 1.0 - 1e-9 else None


def measured(
    procedure: Procedure, nested: NestedScores, y: Codes, z: Codes, labels: Levels, groups: Levels
) -> Measured:
    """Run a procedure on every outer fold and on all rows.

    Raises:
        InfeasibleError: all rows together cannot promise the budget.
    """
    rows, scores = nested.training(None)
    rule = procedure.fit(scores, y[rows], z[rows], groups)
    shape, eased = (len(labels), len(groups)), 0
    counts, squares = [], []
    for k in nested.folds:
        train, own = nested.training(k)
        run = procedure
        try:
            fitted = run.fit(own, y[train], z[train], groups)
        except InfeasibleError as error:
            run, eased = procedure.at_least(error.smallest), eased + 1
            fitted = run.fit(own, y[train], z[train], groups)
        test, members = nested.tested(k)
        law = run.law(fitted, members, z[test])
        table, moments = soft_sums(law, y[test], z[test], shape)
        assert moments is not None
        counts.append(table)
        squares.append(np.diagonal(moments, axis1=-2, axis2=-1))
    width = max(table.shape[-1] for table in counts)
    tables, both = (np.stack([_padded(t, width) for t in each]) for each in (counts, squares))
    return Measured(procedure, rule, tables, both, groups, eased)


def _mean_cost(costs: Array, tables: Array) -> Array:
    """Expected cost per row of tables (..., 2, z, 2), with costs (z, 2) of both errors."""
    errors = np.stack([tables[..., 0, :, 1], tables[..., 1, :, 0]], axis=-1)
    return np.asarray((errors * costs).sum((-2, -1)) / tables.sum((-3, -2, -1)))


def _padded(table: Array, width: int) -> Array:
    """With empty levels below the others, so that folds have the same number."""
    return np.pad(table, ((0, 0), (0, 0), (width - table.shape[-1], 0)))


def _expected(score: SeparatedScore, cells: NDArray[np.intp]) -> dict[str, float]:
    """What unseen rows are expected to show of a fitted score: its law drawn anew."""
    mass = score.table.sum((0, 1))
    law = np.moveaxis(score.table, -1, 0)
    coarse = np.moveaxis(ordered.merged(law.reshape(len(mass), -1).T, mass, _BINS).T, 0, -1)
    coarse = coarse.reshape(*score.table.shape[:2], -1)
    total = coarse.sum(-1, keepdims=True)
    rates = coarse / np.where(total > 0, total, 1.0)
    rates[(total <= 0)[..., 0], 0] = 1.0
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(
        cells, rates / rates.sum(-1, keepdims=True), size=(_DRAWS, *cells.shape)
    )
    gap = ordered.largest_gap(drawn.astype(np.float64))
    return {
        "violation": float(conditional_mutual_information(drawn).mean()),
        "eo_gap": float(gap.mean()),
    }


def _stricter(
    best: Promises,
    found: PromisedRule,
    used: Callable[[PromisedRule], float],
    name: str,
    most: float,
) -> PromisedRule:
    """The rule of the largest smaller level that is also expected to keep another budget."""
    if used(found) <= most:
        return found
    low, high, kept = 0.0, found.level, best.rule(0.0, margin=0.0)
    if used(kept) > most:
        raise _too_few({name: most}, {name: used(kept)}, float("nan"))
    for _ in range(10):
        middle = 0.5 * (low + high)
        rule = best.rule(middle, margin=0.0)
        if used(rule) <= most:
            low, kept = middle, rule
        else:
            high = middle
    return kept


def _too_few(asked: Budgets, smallest: Budgets, value: float) -> InfeasibleError:
    wanted = " and ".join(f"{name} ≤ {most:g}" for name, most in asked.items())
    least = " and ".join(f"{name} ≤ {most:.4g}" for name, most in smallest.items())
    return InfeasibleError(
        f"With these rows nothing can promise {wanted} on unseen rows: even exact equality on the "
        f"rows is expected to show {least}. Ask for that or more, or bring more rows.",
        dict(smallest),
        value,
    )


def _raised(budgets: Budgets, smallest: Budgets) -> dict[str, float]:
    return {name: max(most, smallest.get(name, 0.0) * (1 + 1e-9)) for name, most in budgets.items()}


def _coded(maximize: str | Cost, groups: Levels) -> str | Cost:
    """A cost by group, with codes instead of names."""
    if not isinstance(maximize, Cost):
        return maximize
    by_code: list[Any] = [
        dict(enumerate(column)) for column in maximize.per_group(groups).T.tolist()
    ]
    return Cost(*by_code)
