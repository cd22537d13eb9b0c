"""Branch: a fitted model and the rule on its scores. A predictor is one branch, or draws one of
several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Coded
from separatrix.crossfit.base_models import scores_of, with_group
from separatrix.errors import InputError
from separatrix.methods import POLICIES, Fitted, Stack
from separatrix.optimum.rules import (
    BlindRule,
    DrawnLabel,
    HardMixture,
    OneThreshold,
    PlainRule,
    Rule,
    Score,
    SoftmaxChannel,
    ThresholdChannel,
)
from separatrix.optimum.scores.align import AlignedScore
from separatrix.optimum.scores.blind_scores import BlindScore
from separatrix.optimum.scores.separated import SeparatedScore

Array = NDArray[np.float64]
Codes = NDArray[Any]
READS = ("x", "xz", "joint", "value")
# the rules that a predictor may hold, by their names in its folder
_KINDS: tuple[type[Rule], ...] = (
    PlainRule, OneThreshold, DrawnLabel, ThresholdChannel, SoftmaxChannel, HardMixture, BlindRule,
    SeparatedScore, BlindScore, AlignedScore,
)  # fmt: skip
RULES: dict[str, type[Rule]] = {rule.kind: rule for rule in _KINDS}


@dataclass(frozen=True, eq=False)
class Base:
    """A fitted model, and what it says about a row: its scores.

    Args:
        model: a classifier, a `JointModel`, a regressor, or a trained method; None where the rows
            are the scores themselves.
        reads: "x", the rows; "xz", the rows and the group, of a classifier as one column per group
            in front of them; "joint", the rows, of which it says q(y, z | x); "value", the rows, of
            which it predicts a number.
        left_out: places of the columns of a matrix that the model does not see.
        method, trade_off: of a trained method, its file in `methods/` and its λ; "" for others.
        lane: of a trained method, which of its lanes.
    """

    model: Any
    reads: str = "x"
    left_out: tuple[int, ...] = ()
    method: str = ""
    trade_off: float = 0.0
    lane: int = 0

    def __post_init__(self) -> None:
        if self.reads not in READS:
            raise InputError(f"`reads` must be one of {', '.join(READS)}, got {self.reads!r}.")
        if not np.isfinite(self.trade_off):
            raise InputError(f"λ must be finite, got {self.trade_off}.")
        if self.method and (status := self.model.status[self.lane]) != "ok":
            raise InputError(
                f"{self.method} at λ = {self.trade_off} is {status!r}: it cannot predict."
            )

    @classmethod
    def from_lane(cls, method: str, trade_off: float, fitted: Fitted, lane: int = 0) -> Base:
        """One lane of a trained method, and no more than its own part of a stack of models."""
        reads = "xz"
        if isinstance(fitted, Stack):
            fitted, lane, reads = fitted[[lane]], 0, "xz" if fitted.n_groups else "x"
        return cls(fitted, reads, (), method, float(trade_off), lane)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model reads by name; none of a matrix."""
        return tuple(map(str, getattr(self.model, "feature_names_in_", ())))

    def scores(self, rows: Any, z: Codes | None, shape: tuple[int, int]) -> Array:
        """P(y | x) (n, labels), q(y, z | x) (n, labels, groups), or predicted numbers (n,).

        Args:
            rows: as the model takes them.
            z: codes of the groups, where it reads them.
            shape: how many labels and groups there are.
        """
        if self.method:
            return np.asarray(self.model.posteriors(rows, z)[self.lane], dtype=np.float64)
        if self.reads == "xz":
            assert z is not None
            rows = with_group(rows, z, shape[1])
        return scores_of(self.model, rows, self.reads, shape)


@dataclass(frozen=True, eq=False)
class Branch:
    """One model and the rule on its scores.

    Args:
        base: the model.
        rule: from its scores, and the group where it needs it, to P(U | …).
    """

    base: Base
    rule: Rule

    @property
    def uses_groups(self) -> bool:
        """Whether it needs to know the group."""
        return self.base.reads == "xz" or self.rule.uses_groups

    def law(self, scores: Array, z: Codes | None) -> Array:
        """P(U = u | x, z), array (n, U): zeros and ones where no coin is thrown."""
        law = self.rule.law(scores, self._groups(z))
        # a solver leaves its last digits in levels of zero and one
        return np.eye(law.shape[1])[law.argmax(1)] if self._decides else law

    def drawn(self, scores: Array, z: Codes | None, coin: Array) -> Array:
        """The score (n,), of a rule that is one, for given coins (n,)."""
        assert isinstance(self.rule, Score)
        coin = np.full(len(coin), 0.5) if self.rule.certain else coin
        return self.rule.drawn(scores, coin, sensitive_features=self._groups(z))

    @property
    def _decides(self) -> bool:
        return self.rule.certain and not isinstance(self.rule, Score)

    def _groups(self, z: Codes | None) -> Any:
        """The groups of codes as the rule names them; numbers of a numeric attribute stay."""
        if z is None or not self.rule.uses_groups:
            return None
        names = getattr(self.rule, "groups", ())
        return Coded(z, names) if names else z


def policy_rule(policy: str, labels: int, threshold: float = np.nan) -> Rule:
    """The rule of a trained method's policy.

    Args:
        policy: "randomized" draws the label from the posterior; "deterministic" takes the second of
            two labels where its posterior exceeds the threshold, else the most probable one.
        labels: how many there are.
        threshold: of two labels; NaN for one half.
    """
    if policy == "randomized":
        return DrawnLabel()
    if policy != "deterministic":
        raise InputError(f"`policy` must be one of {', '.join(POLICIES)}, got {policy!r}.")
    if labels > 2:
        return PlainRule(np.ones(labels))
    return OneThreshold(0.5 if np.isnan(threshold) else float(threshold))
