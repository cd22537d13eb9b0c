"""Rules that never look at the group and have no budget: the base model as it is.

`PlainRule` takes the label with the largest expected gain, `OneThreshold` the second of two labels
above one threshold, `DrawnLabel` draws from the posterior: the paper's randomized policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.values import Levels
from separatrix.optimum.objectives import Cost
from separatrix.optimum.rules import Rule

__all__ = ["DrawnLabel", "OneThreshold", "PlainRule"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlainRule(Rule):
    """The Bayes decision argmax_u worth[u] P(Y = u | x): one threshold for two labels.

    Args:
        worth: of deciding each label where it is true, (K,); all ones take the most probable label.

    >>> PlainRule(np.array([1.0, 5.0])).predict_proba(np.array([[0.8, 0.2], [0.9, 0.1]]))
    array([[0., 1.],
           [1., 0.]])
    """

    kind: ClassVar[str] = "plain"
    uses_groups: ClassVar[bool] = False
    worth: Array

    @classmethod
    def for_objective(cls, maximize: Any, prior: Array, groups: Levels, share: Array) -> PlainRule:
        """The rule for an objective of the list.

        Args:
            maximize: "balanced_accuracy" weighs labels by their frequency, a `Cost` by what missing
                them costs, on average over the groups; others take the most probable label.
            prior: P(Y = y), (K,).
            groups, share: the groups and P(Z = z), for costs by group.
        """
        if isinstance(maximize, Cost):
            false_positive, false_negative = share @ maximize.per_group(groups)
            return cls(np.array([false_positive, false_negative], dtype=np.float64))
        if maximize == "balanced_accuracy":
            return cls(np.asarray(1.0 / prior, dtype=np.float64))
        return cls(np.ones(len(prior)))

    @property
    def threshold(self) -> float:
        """For two labels: the second one is decided above this score."""
        return float(self.worth[0] / self.worth.sum())

    @property
    def certain(self) -> bool:
        return True

    def check(self) -> None:
        """One positive number per label."""
        if self.worth.ndim != 1 or len(self.worth) < 2 or (self.worth <= 0).any():
            raise ValueError(f"the worth of its labels is {self.worth}")

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Zeros and ones, (n, K)."""
        return np.eye(len(self.worth))[(np.asarray(scores) * self.worth).argmax(1)]

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`."""
        return {"worth": self.worth}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> Self:
        """The inverse of `arrays`."""
        return cls(np.asarray(arrays["worth"], dtype=np.float64))


@dataclass(frozen=True, eq=False)
class OneThreshold(Rule):
    """The second of two labels where its score exceeds one threshold.

    A threshold found on scores, as in the paper's deterministic policy, is compared as it is: ties
    are decided as they were where it was found.
    """

    kind: ClassVar[str] = "threshold"
    uses_groups: ClassVar[bool] = False
    threshold: float

    @property
    def certain(self) -> bool:
        return True

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Zeros and ones, (n, 2)."""
        return np.eye(2)[(np.asarray(scores)[:, 1] > self.threshold).astype(np.intp)]

    def arrays(self) -> dict[str, Array]:
        """Its number, for `from_arrays`."""
        return {"threshold": np.array(self.threshold)}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> Self:
        """The inverse of `arrays`."""
        return cls(float(arrays["threshold"]))


@dataclass(frozen=True, eq=False)
class DrawnLabel(Rule):
    """A label drawn from the posterior itself."""

    kind: ClassVar[str] = "posterior"
    uses_groups: ClassVar[bool] = False

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """The posterior, (n, K)."""
        q = np.asarray(scores, dtype=np.float64)
        return np.asarray(q / q.sum(1, keepdims=True))

    def arrays(self) -> dict[str, Array]:
        """It has no numbers."""
        return {}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> Self:
        """The inverse of `arrays`."""
        return cls()
