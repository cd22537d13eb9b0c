"""The base model as it is, decided or drawn, as procedures: what others are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from separatrix.columns.values import Levels
from separatrix.estimators.procedures import Array, Budgets, Codes

__all__ = ["Plain", "Posterior"]


@dataclass(frozen=True)
class Plain:
    """The base model as it is: its most probable label, or its score in 100 bins.

    Args:
        score: the score of two labels instead of decisions.
        blind: the scores are P(y, z | x), (n, labels × groups), and are summed over the groups.
    """

    score: bool = False
    blind: bool = False
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> tuple[Array, int]:
        """The edges of the bins of a score, and the number of groups of joint scores."""
        own = self._labels(scores, len(groups))
        cuts = np.quantile(own[:, 1], np.arange(1, 100) / 100) if self.score else np.array([])
        return np.unique(cuts), len(groups)

    def law(self, rule: tuple[Array, int], scores: Array, z: Codes) -> Array:
        """Decisions or bins, as zeros and ones."""
        cuts, groups = rule
        own = self._labels(scores, groups)
        if not self.score:
            return np.eye(own.shape[1])[own.argmax(1)]
        return np.eye(len(cuts) + 1)[np.searchsorted(cuts, own[:, 1], side="right")]

    def _labels(self, scores: Array, groups: int) -> Array:
        return _label_scores(scores, groups) if self.blind else scores

    def at_least(self, smallest: Budgets) -> Plain:
        return self


@dataclass(frozen=True)
class Posterior:
    """The base model's posterior itself, drawn from: the paper's randomised policy."""

    blind: bool = False
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> int:
        """The number of groups of joint scores."""
        return len(groups)

    def law(self, rule: int, scores: Array, z: Codes) -> Array:
        """The posterior."""
        return _label_scores(scores, rule) if self.blind else scores

    def at_least(self, smallest: Budgets) -> Posterior:
        return self


def _label_scores(scores: Array, groups: int) -> Array:
    """P(y | x) from joint scores P(y, z | x), (..., labels × groups)."""
    return np.asarray(scores.reshape(*scores.shape[:-1], -1, groups).sum(-1))
