"""Component: one fitted model of a predictor, and how it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError
from separatrix.methods import POLICIES, Fitted, Stack

__all__ = ["Component"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Component:
    """One model and how it decides.

    Args:
        method: its file in `methods/`.
        trade_off: its λ.
        policy: "randomized" draws the label from the posterior; "deterministic" takes the second
            label where its posterior exceeds `threshold` for two labels, else the most probable.
        fitted: the trained method.
        lane: which of its lanes.
        threshold: of a deterministic decision between two labels.
        uses_groups: whether it needs to know the group.
    """

    method: str
    trade_off: float
    policy: str
    fitted: Fitted
    lane: int = 0
    threshold: float = 0.5
    uses_groups: bool = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"`policy` must be one of {', '.join(POLICIES)}, got {self.policy!r}.")
        if not np.isfinite([self.trade_off, self.threshold]).all():
            raise InputError(
                f"λ and the threshold must be finite, got {self.trade_off} and {self.threshold}."
            )
        status = self.fitted.status[self.lane]
        if status != "ok":
            raise InputError(
                f"{self.method} at λ = {self.trade_off} is {status!r}: it cannot predict."
            )

    @classmethod
    def of(
        cls,
        method: str,
        trade_off: float,
        policy: str,
        fitted: Fitted,
        lane: int = 0,
        threshold: float | None = None,
    ) -> Component:
        """A component with no more than its own lane of a stack of models."""
        uses, cut = True, 0.5 if threshold is None or np.isnan(threshold) else float(threshold)
        if isinstance(fitted, Stack):
            fitted, lane, uses = fitted[[lane]], 0, fitted.n_groups > 0
        return cls(method, float(trade_off), policy, fitted, lane, cut, uses)

    def proba(self, X: NDArray[Any], z: NDArray[Any] | None) -> Array:
        """P(U = u | x, z) of its decision, (n, K): the posterior, or zeros and ones."""
        q = np.asarray(self.fitted.posteriors(X, z)[self.lane], dtype=np.float64)
        if self.policy == "randomized":
            return q / q.sum(1, keepdims=True)
        chosen = (q[:, 1] > self.threshold).astype(np.intp) if q.shape[1] == 2 else q.argmax(1)
        return np.eye(q.shape[1])[chosen]
