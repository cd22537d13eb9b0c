"""The base model as it is, decided or drawn, as procedures: what others are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from separatrix.columns.values import Levels
from separatrix.optimum.objectives import Cost
from separatrix.optimum.plain import PlainRule
from separatrix.procedure.rule_fits import Array, Budgets, Codes

__all__ = ["Plain", "Posterior"]


@dataclass(frozen=True)
class Plain:
    """The base model as it is: the label with the largest expected gain, or its score in 100 bins.

    Args:
        score: the score of two labels instead of decisions.
        maximize: the objective; all but costs and balanced accuracy take the most probable label.
    """

    score: bool = False
    maximize: str | Cost = "accuracy"
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> PlainRule | Array:
        """The rule, or the edges of the bins of a score."""
        if self.score:
            return np.unique(np.quantile(scores[:, 1], np.arange(1, 100) / 100))
        prior = np.bincount(y, minlength=scores.shape[1]) / len(y)
        share = np.bincount(z, minlength=len(groups)) / len(z)
        return PlainRule.for_objective(self.maximize, prior, groups, share)

    def law(self, rule: PlainRule | Array, scores: Array, z: Codes) -> Array:
        """Decisions or bins, as zeros and ones."""
        if isinstance(rule, PlainRule):
            return rule.predict_proba(scores)
        return np.eye(len(rule) + 1)[np.searchsorted(rule, scores[:, 1], side="right")]

    def within(self, budgets: Budgets) -> Plain:
        return self

    def settled(self, rule: object) -> Plain:
        return self

    @property
    def promises(self) -> bool:
        return False

    def solver(
        self, scores: Array, y: Codes, z: Codes, groups: Levels
    ) -> Callable[[Budgets], PlainRule | Array]:
        return lambda _: self.fit(scores, y, z, groups)


@dataclass(frozen=True)
class Posterior:
    """The base model's posterior itself, drawn from: the paper's randomised policy."""

    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> None:
        """Nothing."""

    def law(self, rule: None, scores: Array, z: Codes) -> Array:
        """The posterior."""
        return scores

    def within(self, budgets: Budgets) -> Posterior:
        return self

    def settled(self, rule: object) -> Posterior:
        return self

    @property
    def promises(self) -> bool:
        return False

    def solver(
        self, scores: Array, y: Codes, z: Codes, groups: Levels
    ) -> Callable[[Budgets], None]:
        return lambda _: self.fit(scores, y, z, groups)
