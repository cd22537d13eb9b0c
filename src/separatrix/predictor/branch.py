"""Branch: a fitted model and the rule on its scores. A predictor is one branch, or draws one of
several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.columns.values import Coded
from separatrix.crossfit.base_models import scores_of, with_group
from separatrix.errors import InputError
from separatrix.methods import POLICIES, Fitted, Stack
from separatrix.nn.networks import Networks
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
# what a base model is asked for, by what it reads
READS = {
    "x": "predict_proba", "xz": "predict_proba", "joint": "joint_proba", "value": "predict",
}  # fmt: skip
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
        if not np.isfinite(self.trade_off) or min(self.lane, *self.left_out, 0) < 0:
            raise InputError(
                f"λ must be finite and places not negative, got {self.trade_off}, {self.lane}, {self.left_out}."
            )
        if self.method and (status := self.model.status[self.lane]) != "ok":
            raise InputError(f"{self.method} at λ = {self.trade_off} is {status!r}: it cannot predict.")

    @classmethod
    def from_lane(cls, method: str, trade_off: float, fitted: Fitted, lane: int = 0) -> Base:
        """One lane of a trained method, and no more than its own part of a stack of models."""
        reads = "xz"
        if isinstance(fitted, Stack):
            fitted, lane, reads = fitted[[lane]], 0, "xz" if fitted.n_groups else "x"
        return cls(fitted, reads, (), method, float(trade_off), lane)

    def check(self, labels: int) -> None:
        """Refuse, with a `ValueError`, a model that does not do what its file is for."""
        if self.method not in ("", *methods.names()):
            raise ValueError(f"there is no method {self.method!r}")
        asked = "posteriors" if self.method else READS[self.reads]
        classifier = hasattr(self.model, "predict_proba")
        if not callable(getattr(self.model, asked, None)) or (asked == "predict" and classifier):
            raise ValueError(f"a {type(self.model).__name__} is no model for {asked!r}")
        if asked == "predict_proba":
            classes = np.asarray(getattr(self.model, "classes_", ()))
            codes = classes.dtype.kind in "iub" and len(classes) > 0  # some may be unseen
            if len(classes) != labels and not (codes and {*classes.tolist()} <= {*range(labels)}):
                raise ValueError(f"its model was not fitted to the {labels} labels")

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

    def check(self, labels: int, groups: int, width: int | None) -> None:
        """Refuse, with a `ValueError`, a branch that answers a made-up row of a group with no law.

        Only a trained method says how many columns it takes; other models are not asked, but their
        rules are.

        Args:
            labels, groups: how many there are.
            width: columns of the matrix, where they are known.
        """
        self.base.check(labels)
        self.rule.check()
        base, z = self.base, np.arange(max(groups, 1))  # a blind rule may not know any group
        known = z if self.uses_groups else None
        shape: dict[str, tuple[int, ...]] = {"value": (), "joint": (labels, groups)}
        values = shape.get(base.reads, (labels,))
        scores = np.full((len(z), *values), 1.0 / np.prod(values))
        if isinstance(base.model, Networks):
            if width not in (None, base.model.width):
                raise ValueError(f"`X` must have the {base.model.width} columns of training")
            width = base.model.width
        if base.method and width is None:
            return  # only the rows themselves say how many columns they have
        if base.method:
            with np.errstate(all="ignore"):
                scores = base.scores(np.zeros((len(z), width)), known, (labels, groups))
        law = self.law(scores, known)
        if law.shape != (len(z), law.shape[-1] if isinstance(self.rule, Score) else labels):
            raise ValueError(f"its law has the shape {law.shape} for {labels} labels")
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum(1) - 1.0).max() > 1e-4:
            raise ValueError("its posteriors are no probabilities")

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
