"""Procedures: all that lies between honest scores and what ships, in one object that can be run
again.

A procedure is run on the training rows of every outer fold and measured on its test rows; run once
more on all rows it is what ships (`nested` has the scores of both). Nothing in it is taken from
elsewhere, so what is measured is what is shipped.

`Decisions`, here, is the best rule for an objective within budgets: its prediction is a law of
labels. `scoring` has the score with the best AUROC within budgets, a law of levels; `plain` the
base model as it is, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Levels
from separatrix.core.measures import METRICS
from separatrix.errors import InfeasibleError
from separatrix.optimum.blind import BlindPromises
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import PromisedRule, Promises
from separatrix.optimum.rules import BlindRule
from separatrix.statistics.unseen import unseen

__all__ = ["Array", "Budgets", "Codes", "Decisions", "Procedure", "raised", "too_few"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Budgets = Mapping[str, float]
_NOTHING = np.zeros((0, 2))  # borrowed, of a rule that takes its level over


class Procedure(Protocol):
    """What can be fitted to honest scores, and measured."""

    @property
    def budgets(self) -> Budgets: ...

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> Any:
        """The fitted rule; `InfeasibleError` where the budget cannot be promised."""
        ...

    def law(self, rule: Any, scores: Array, z: Codes) -> Array:
        """P(U = u | row) of test rows, (m, u), from their scores (m, C)."""
        ...

    def within(self, budgets: Budgets) -> Procedure:
        """The same with other budgets."""
        ...

    def settled(self, rule: Any) -> Procedure:
        """The same with what the rule of all rows settled: the rules of folds take it over."""
        ...

    @property
    def promises(self) -> bool:
        """Whether the budgets are for unseen rows: a promise above them is tightened."""
        ...

    def solver(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> Callable[[Budgets], Any]:
        """`fit` for any budgets of the same kinds; what they share is computed once."""
        ...


@dataclass(frozen=True)
class Decisions:
    """The best decisions for an objective within budgets.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost`.
        budgets: levels by the names of `core.measures.BUDGETS`; empty for the best rule.
        blind: without the group; the scores are then P(y, z | x), (n, labels × groups).
        margin: None: budgets are kept in expectation; 0: on the rows of the fit only.
        level: of the first budget by name on the rows of the fit, where a margin was found already.
    """

    maximize: str | Cost = "accuracy"
    budgets: Budgets = field(default_factory=dict)
    blind: bool = False
    margin: float | None = None
    level: float | None = None

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> PromisedRule:
        """The rule that is expected to keep every budget on unseen rows."""
        return self.solver(scores, y, z, groups)(self.budgets)

    def solver(
        self, scores: Array, y: Codes, z: Codes, groups: Levels
    ) -> Callable[[Budgets], PromisedRule]:
        """The rule of any budgets of the same kinds; resamples are measured once."""
        first = min(self.budgets, default="eo_gap")
        best = self._promises(scores, y, z, groups, first)

        def rule(budgets: Budgets) -> PromisedRule:
            if not budgets:
                return best.rule(None)
            if self.level is not None:
                return PromisedRule(best.at_level(self.level), self.level, np.nan, np.nan, _NOTHING)
            (_, asked), *others = sorted(budgets.items())
            found = best.rule(asked, margin=self.margin)
            for other, most in others:
                used = partial(self._used, other, scores, y, z, groups)
                found = _stricter(best, found, used, other, most)
            return found

        return rule

    @property
    def promises(self) -> bool:
        """Whether the budgets are for unseen rows."""
        return bool(self.budgets) and self.margin is None and self.level is None

    def _used(
        self, name: str, scores: Array, y: Codes, z: Codes, groups: Levels, rule: PromisedRule
    ) -> float:
        """What a rule is expected to use of another budget on unseen rows."""
        law = self.law(rule, scores, z)
        table, moments = soft_sums(law, y, z, (law.shape[1], len(groups)))
        assert moments is not None
        square = np.diagonal(moments, axis1=-2, axis2=-1)
        return unseen(table[None], square[None], {name: METRICS[name]})[name].value

    def law(self, rule: PromisedRule, scores: Array, z: Codes) -> Array:
        """P(label | row)."""
        if isinstance(rule.rule, BlindRule):
            joint = scores.reshape(len(scores), *rule.rule.columns.shape[2:])
            return np.asarray(rule.rule.predict_proba(joint))
        return np.asarray(rule.rule.predict_proba(scores, sensitive_features=z))

    def within(self, budgets: Budgets) -> Decisions:
        return replace(self, budgets=budgets)

    def settled(self, rule: PromisedRule) -> Decisions:
        """With the level that the margin of all rows allows: it is not taken once more."""
        return replace(self, level=rule.level) if self.budgets and self.margin is None else self

    def _promises(
        self, scores: Array, y: Codes, z: Codes, groups: Levels, budget: str
    ) -> Promises | BlindPromises:
        codes = tuple(range(len(groups)))
        aim: Any = _coded(self.maximize, groups)
        weight = np.ones(len(y))
        if self.blind:
            q = scores.reshape(len(scores), -1, len(groups))
            return BlindPromises(q, y, z, weight, codes, maximize=aim, budget=budget)
        return Promises(scores, y, z, weight, codes, maximize=aim, budget=budget)


def _stricter(
    best: Promises | BlindPromises,
    found: PromisedRule,
    used: Callable[[PromisedRule], float],
    name: str,
    most: float,
) -> PromisedRule:
    """The rule of the largest smaller level that is also expected to keep another budget."""
    if used(found) <= most:
        return found

    def at(level: float) -> PromisedRule:
        return found._replace(rule=best.at_level(level), level=level, expected=np.nan)

    low, high, kept = 0.0, found.level, at(0.0)
    if used(kept) > most:
        raise too_few({name: most}, {name: used(kept)}, float("nan"))
    for _ in range(10):
        middle = 0.5 * (low + high)
        rule = at(middle)
        if used(rule) <= most:
            low, kept = middle, rule
        else:
            high = middle
    return kept


def too_few(asked: Budgets, smallest: Budgets, value: float) -> InfeasibleError:
    """The refusal of budgets that these rows cannot promise, with the smallest that they can."""
    wanted = " and ".join(f"{METRICS[name].label} ≤ {most:g}" for name, most in asked.items())
    least = " and ".join(f"{METRICS[name].label} ≤ {most:.4g}" for name, most in smallest.items())
    return InfeasibleError(
        f"With these rows nothing can promise {wanted} on unseen rows: even exact equality on the "
        f"rows is expected to show {least}. Ask for that or more, or bring more rows.",
        dict(smallest),
        value,
    )


def raised(budgets: Budgets, smallest: Budgets) -> dict[str, float]:
    """Budgets that are not below the smallest."""
    return {name: max(most, smallest.get(name, 0.0) * (1 + 1e-9)) for name, most in budgets.items()}


def _coded(maximize: str | Cost, groups: Levels) -> str | Cost:
    """A cost by group, with codes instead of names."""
    if not isinstance(maximize, Cost):
        return maximize
    by_code: list[Any] = [
        dict(enumerate(column)) for column in maximize.per_group(groups).T.tolist()
    ]
    return Cost(*by_code)
