r"""Rules: from a score and a group to a random prediction. Plain arrays, saved without pickle.

Without the group and without a budget, the base model as it is: `PlainRule` takes the label with
the largest expected gain, `OneThreshold` the second of two labels above one threshold, `DrawnLabel`
draws from the posterior, the paper's randomized policy.

`ThresholdChannel` (two labels): a rising step function of the score per group. `SoftmaxChannel`
(any number of labels): softmax(W_z p + b_z) C_z of the posterior p, or of what p says beside the
law of the labels, C_z a stochastic matrix. `HardMixture`: a coin between decisions argmax_u W_z p.
These need the group when they predict. `BlindRule` does not: it is a coin between linear functions
of q(y, z | x),

.. math:: P(U = u \mid x) = \sum_m c_m \, 1\bigl\{ u = \arg\max_{u'} \langle W_{m u'}, q(x)
          \rangle \bigr\}, \qquad q(x)[y, z] = P(Y = y, Z = z \mid x)

For two labels that is a mixture of half-spaces 1{w·q(x) > 0}, w = W_1 − W_0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from separatrix.columns.groups import group_codes
from separatrix.columns.scores import binary_score, check_posteriors
from separatrix.columns.values import Levels
from separatrix.core.numbers import as_floats
from separatrix.core.numerics import Array, Index, padded
from separatrix.errors import InputError
from separatrix.optimum.law import best_priced
from separatrix.optimum.objectives import Cost

_EXACT = 1e-9


class Rule(ABC):
    """From scores, and groups where it needs them, to the law of a prediction U."""

    kind: ClassVar[str]  # its name in a saved predictor
    uses_groups: ClassVar[bool] = True
    coins: ClassVar[tuple[str, ...] | None] = None  # the fields that leave something to chance; None: all of it does

    @property
    def certain(self) -> bool:
        """Whether it decides everybody without a coin."""
        drawn = [getattr(self, name) for name in self.coins or ()]
        return self.coins is not None and all(zeros_and_ones(p) for law in drawn for p in law)

    def check(self) -> None:  # noqa: B027 - most need none
        """Raise a `ValueError` where its numbers make no rule, as those of a forged file."""

    @abstractmethod
    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """P(U | score, group) of each row, array (n, U)."""

    def arrays(self) -> dict[str, Array]:
        """Its numbers by name, for `from_arrays`: all that it holds but the groups."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: np.asarray(value) for name, value in held.items() if name != "groups" and value is not None}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> Self:
        """The inverse of `arrays`; what has a default may be missing."""
        made: dict[str, Any] = {}
        for field in fields(cls):  # type: ignore[arg-type]
            if field.name == "groups":
                made["groups"] = groups
            elif field.name in arrays or field.default is MISSING:
                value = np.asarray(arrays[field.name], dtype=np.float64)
                made[field.name] = float(value) if field.type == "float" else value
        return cls(**made)

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any = None) -> Array:
        """`law` by the name that scikit-learn has for it."""
        return self.law(scores, sensitive_features)


class Score(Rule):
    """A rule whose prediction is a score, P(Y = second label | S), rather than a decision."""

    @abstractmethod
    def drawn(self, scores: ArrayLike, coin: Array, *, sensitive_features: Any = None) -> Array:
        """The score of each row for given coins in [0, 1), array (n,)."""


class Solution(NamedTuple):
    """The best rule found for one level of a budget.

    Args:
        value: the objective.
        upper: a bound that no rule within the level exceeds; NaN where nothing is proven.
        rates: P(U=u | Y=y, Z=z), array (labels, groups, U).
        rule: makes the rule that has these rates.
        start: where the search for a near level may start.
    """

    value: float
    upper: float
    rates: Array
    rule: Callable[[], Rule]
    start: Any = None


def rising(values: Array, upper: Array) -> tuple[Index, Array]:
    """Values and bounds of rising budgets, repaired: a stricter rule serves every looser budget.

    Args:
        values: of the rule found for each budget.
        upper: of any rule within each budget; NaN where nothing is proven.

    Returns:
        For each budget the index of the best rule up to it, and the bounds: a looser budget's
        bound holds for a stricter one, and none is below its value.

    >>> order, upper = rising(np.array([1.0, 3.0, 2.0]), np.array([2.0, 4.0, 3.0]))
    >>> order, upper
    (array([0, 1, 1]), array([2., 3., 3.]))
    """
    order = np.arange(len(values))
    for j in range(1, len(values)):
        if values[order[j - 1]] > values[order[j]]:
            order[j] = order[j - 1]
    upper = np.minimum.accumulate(upper[::-1])[::-1]
    return order, np.maximum(upper, values[order])


def zeros_and_ones(p: Array) -> bool:
    """Whether probabilities leave nothing to chance; a solver leaves its last digits in them.

    >>> zeros_and_ones(np.array([1.0 - 1e-15, 0.0])), zeros_and_ones(np.array([0.75]))
    (True, False)
    """
    return bool((np.minimum(p, 1.0 - p) < _EXACT).all())


def balanced(p: Array, prior: Array) -> Array:
    """The posteriors that the same likelihoods have where all labels are equally common, array (n,
    K).

    >>> balanced(np.array([[0.9, 0.1]]), np.array([0.9, 0.1]))
    array([[0.5, 0.5]])
    """
    likelihood = p / prior
    return np.asarray(likelihood / likelihood.sum(1, keepdims=True))


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
    coins = ()
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

    def check(self) -> None:
        """One positive number per label."""
        if self.worth.ndim != 1 or len(self.worth) < 2 or (self.worth <= 0).any():
            raise ValueError(f"the worth of its labels is {self.worth}")

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Zeros and ones, (n, K)."""
        return np.eye(len(self.worth))[(np.asarray(scores) * self.worth).argmax(1)]


@dataclass(frozen=True, eq=False)
class OneThreshold(Rule):
    """The second of two labels where its score exceeds one threshold.

    A threshold found on scores, as in the paper's deterministic policy, is compared as it is: ties
    are decided as they were where it was found.
    """

    kind: ClassVar[str] = "threshold"
    coins = ()
    uses_groups: ClassVar[bool] = False
    threshold: float

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Zeros and ones, (n, 2)."""
        return np.eye(2)[(np.asarray(scores)[:, 1] > self.threshold).astype(np.intp)]


@dataclass(frozen=True, eq=False)
class DrawnLabel(Rule):
    """A label drawn from the posterior itself."""

    kind: ClassVar[str] = "posterior"
    uses_groups: ClassVar[bool] = False

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """The posterior, (n, K)."""
        q = np.asarray(scores, dtype=np.float64)
        return np.asarray(q / q.sum(1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ThresholdChannel(Rule):
    """P(U=1 | score, z) = levels[z][i] for the first i with score ≥ thresholds[z][i], and 0 below
    all of them.

    Args:
        groups: the groups, in order.
        thresholds: per group, falling.
        levels: per group, the probabilities; falling too, so P(U=1) rises with the score.
    """

    kind: ClassVar[str] = "thresholds_by_group"
    coins = ("levels",)
    groups: Levels
    thresholds: tuple[Array, ...]
    levels: tuple[Array, ...]

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Posteriors of U, array (n, 2).

        >>> thresholds = np.array([0.7]), np.array([0.8, 0.5])
        >>> c = ThresholdChannel((0, 1), thresholds, (np.array([1.0]), np.array([1.0, 0.25])))
        >>> c.predict_proba([0.7, 0.6, 0.6], sensitive_features=[0, 0, 1])[:, 1]
        array([1.  , 0.  , 0.25])
        """
        p = np.asarray(scores, dtype=np.float64)
        s = p if p.ndim == 1 else p[:, 1] / (p[:, 0] + p[:, 1])
        codes = group_codes(groups, self.groups, len(s), "sensitive_features")
        q = np.zeros(len(s))
        for k, (thresholds, levels) in enumerate(zip(self.thresholds, self.levels, strict=True)):
            rows = codes == k
            first = np.searchsorted(-thresholds, -s[rows], side="left")
            q[rows] = np.r_[levels, 0.0][first]
        return np.stack([1.0 - q, q], axis=1)

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any = None) -> Array:
        """`law` of scores that are looked at first."""
        return self.law(binary_score(scores), sensitive_features)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`: padded to one array each."""
        return {"thresholds": padded(self.thresholds, -np.inf), "levels": padded(self.levels, 0.0)}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> Self:
        """The inverse of `arrays`."""
        return cls(groups, tuple(arrays["thresholds"]), tuple(arrays["levels"]))


@dataclass(frozen=True, eq=False)
class SoftmaxChannel(Rule):
    """P(U | p, z) = softmax(W_z p + b_z) C_z.

    Args:
        groups: the groups, in order.
        weight: W, array (groups, U, labels).
        bias: b, array (groups, U).
        mix: C, array (groups, U, U): what each value of the softmax is replaced by, a law per row.
        prior: array (groups, labels): the law of the labels that p is freed of first (`balanced`);
            None for p as it is.
    """

    kind: ClassVar[str] = "softmax"
    groups: Levels
    weight: Array
    bias: Array
    mix: Array
    prior: Array | None = None

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Posteriors of U, array (n, K).

        >>> bias = np.log([[0.5, 0.25, 0.25]])
        >>> c = SoftmaxChannel(("a",), np.zeros((1, 3, 3)), bias, np.eye(3)[None])
        >>> c.predict_proba([[1.0, 0.0, 0.0]], sensitive_features=["a"])
        array([[0.5 , 0.25, 0.25]])
        """
        p, codes = _rows(scores, groups, self.groups, self.weight.shape[2])
        if self.prior is not None:
            p = balanced(p, self.prior[codes])
        q = np.empty((len(p), self.weight.shape[1]))
        for k in range(len(self.groups)):
            rows = codes == k
            q[rows] = softmax(p[rows] @ self.weight[k].T + self.bias[k], axis=1) @ self.mix[k]
        return q / q.sum(1, keepdims=True)


@dataclass(frozen=True, eq=False)
class HardMixture(Rule):
    """One of several decisions argmax_u (W_z p)_u, drawn with the given weights.

    Args:
        groups: the groups, in order.
        weights: how often each decision is drawn, array (m,).
        columns: W of each, array (m, groups, U, labels).
    """

    kind: ClassVar[str] = "hard_mixture"
    coins = ("weights",)
    groups: Levels
    weights: Array
    columns: Array

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """Posteriors of U, array (n, K).

        >>> decisions = np.array([np.eye(3), -np.eye(3)])[:, None]
        >>> rule = HardMixture(("a",), np.array([0.75, 0.25]), decisions)
        >>> rule.predict_proba([[0.6, 0.3, 0.1]], sensitive_features=["a"])
        array([[0.75, 0.  , 0.25]])
        """
        p, codes = _rows(scores, groups, self.groups, self.columns.shape[3])
        q = np.zeros((len(p), self.columns.shape[2]))
        for k in range(len(self.groups)):
            rows = np.flatnonzero(codes == k)
            for share, column in zip(self.weights, self.columns[:, k], strict=True):
                q[rows, (p[rows] @ column.T).argmax(1)] += share
        return q / q.sum(1, keepdims=True)


@dataclass(frozen=True, eq=False)
class BlindRule(Rule):
    """One of several decisions argmax_u ⟨W_u, q(x)⟩, drawn with the given weights.

    Args:
        weights: how often each decision is drawn, array (m,).
        columns: W of each, array (m, U, labels, groups).
    """

    kind: ClassVar[str] = "blind"
    coins = ("weights",)
    uses_groups: ClassVar[bool] = False
    weights: Array
    columns: Array

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """P(U = u | x), array (n, U), from q(y, z | x) alone, array (n, labels, groups).

        >>> first = np.array([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])    # P(y | x)
        >>> rule = BlindRule(np.array([0.75, 0.25]), np.stack([first, -first]))
        >>> rule.predict_proba([[[0.2, 0.1], [0.3, 0.4]]])
        array([[0.25, 0.75]])
        """
        joint = check_joint(scores, self.columns.shape[2:])
        flat = joint.reshape(len(joint), -1)
        law = np.zeros((len(flat), self.columns.shape[1]))
        rows = np.arange(len(flat))
        for share, column in zip(self.weights, self.columns, strict=True):
            law[rows, best_priced(flat, column)] += share
        return law / law.sum(1, keepdims=True)

    def __repr__(self) -> str:
        m, u, y, z = self.columns.shape
        return f"<BlindRule: {u} decisions from q of {y} labels × {z} groups, a coin between {m}>"


def check_joint(q: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
    """q(y, z | x) as an array (n, labels, groups): not negative, each row summing to one."""
    joint = as_floats(q, "q")
    if joint.ndim != 3 or (shape is not None and joint.shape[1:] != tuple(shape)):
        wanted = "(rows, labels, groups)" if shape is None else f"(rows, {shape[0]}, {shape[1]})"
        raise InputError(f"`q` must have the shape {wanted}, got {joint.shape}.")
    total = joint.sum((1, 2))
    if not np.isfinite(total).all() or (joint < 0).any() or (np.abs(total - 1.0) > 1e-4).any():
        raise InputError(
            "Each row of `q` must be a law over labels and groups: no missing values, none negative, the sum 1."
        )
    return joint


def _rows(scores: ArrayLike, sensitive_features: Any, groups: Levels, labels: int) -> tuple[Array, Index]:
    """Posteriors with one column per fitted label, and the codes of the groups."""
    p = check_posteriors(scores, "scores")
    if p.shape[1] != labels:
        raise InputError(f"`scores` has {p.shape[1]} columns, the channel was fitted on {labels}.")
    return p, group_codes(sensitive_features, groups, len(p), "sensitive_features")
