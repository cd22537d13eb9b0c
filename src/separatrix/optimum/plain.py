"""PlainRule: the label with the largest expected gain, the same for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.optimum.objectives import Cost

__all__ = ["PlainRule"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlainRule:
    """The Bayes decision argmax_u worth[u] P(Y = u | x): one threshold for two labels.

    Args:
        worth: of deciding each label where it is true, (K,); all ones take the most probable label.

    >>> PlainRule(np.array([1.0, 5.0])).predict_proba(np.array([[0.8, 0.2], [0.9, 0.1]]))
    array([[0., 1.],
           [1., 0.]])
    """

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

    def predict_proba(self, scores: Array, *, sensitive_features: Any = None) -> Array:
        """Zeros and ones, (n, K); the group is not looked at."""
        return np.eye(len(self.worth))[(scores * self.worth).argmax(1)]

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`."""
        return {"worth": self.worth}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> PlainRule:
        """The inverse of `arrays`."""
        return cls(np.asarray(arrays["worth"], dtype=np.float64))
