"""Channels: what turns a score and a group into a random prediction. Plain arrays, so they are
saved without pickle.

`ThresholdChannel` (two labels): a rising step function of the score per group. `SoftmaxChannel`
(any number of labels): softmax(W_z p + b_z) C_z of the posterior p, or of what p says beside the
law of the labels, C_z a stochastic matrix. Both need the group when they predict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from separatrix.columns.groups import group_codes
from separatrix.columns.scores import binary_score, check_posteriors
from separatrix.columns.values import Levels
from separatrix.errors import InputError

__all__ = ["HardMixture", "SoftmaxChannel", "ThresholdChannel", "balanced"]

Array = NDArray[np.float64]


def balanced(p: Array, prior: Array) -> Array:
    """The posteriors that the same likelihoods have where all labels are equally common, array (n,
    K).

    >>> balanced(np.array([[0.9, 0.1]]), np.array([0.9, 0.1]))
    array([[0.5, 0.5]])
    """
    likelihood = p / prior
    return np.asarray(likelihood / likelihood.sum(1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ThresholdChannel:
    """P(U=1 | score, z) = levels[z][i] for the first i with score ≥ thresholds[z][i], and 0 below
    all of them.

    Args:
        groups: the groups, in order.
        thresholds: per group, falling.
        levels: per group, the probabilities; falling too, so P(U=1) rises with the score.
    """

    groups: Levels
    thresholds: tuple[Array, ...]
    levels: tuple[Array, ...]

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """Posteriors of U, array (n, 2).

        >>> thresholds = np.array([0.7]), np.array([0.8, 0.5])
        >>> c = ThresholdChannel((0, 1), thresholds, (np.array([1.0]), np.array([1.0, 0.25])))
        >>> c.predict_proba([0.7, 0.6, 0.6], sensitive_features=[0, 0, 1])[:, 1]
        array([1.  , 0.  , 0.25])
        """
        s = binary_score(scores)
        codes = group_codes(sensitive_features, self.groups, len(s), "sensitive_features")
        q = np.zeros(len(s))
        for k, (thresholds, levels) in enumerate(zip(self.thresholds, self.levels, strict=True)):
            rows = codes == k
            first = np.searchsorted(-thresholds, -s[rows], side="left")
            q[rows] = np.r_[levels, 0.0][first]
        return np.stack([1.0 - q, q], axis=1)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`: padded to one array each."""
        width = max(map(len, self.thresholds))
        thresholds, levels = (
            np.full((len(self.groups), width), -np.inf),
            np.zeros((len(self.groups), width)),
        )
        for k, (t, q) in enumerate(zip(self.thresholds, self.levels, strict=True)):
            thresholds[k, : len(t)], levels[k, : len(t)] = t, q
            levels[k, len(t) :] = 0.0
        return {"thresholds": thresholds, "levels": levels}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> ThresholdChannel:
        """The inverse of `arrays`."""
        return cls(groups, tuple(arrays["thresholds"]), tuple(arrays["levels"]))


@dataclass(frozen=True, eq=False)
class SoftmaxChannel:
    """P(U | p, z) = softmax(W_z p + b_z) C_z.

    Args:
        groups: the groups, in order.
        weight: W, array (groups, U, labels).
        bias: b, array (groups, U).
        mix: C, array (groups, U, U): what each value of the softmax is replaced by, a law per row.
        prior: array (groups, labels): the law of the labels that p is freed of first (`balanced`);
            None for p as it is.
    """

    groups: Levels
    weight: Array
    bias: Array
    mix: Array
    prior: Array | None = None

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """Posteriors of U, array (n, K).

        >>> bias = np.log([[0.5, 0.25, 0.25]])
        >>> c = SoftmaxChannel(("a",), np.zeros((1, 3, 3)), bias, np.eye(3)[None])
        >>> c.predict_proba([[1.0, 0.0, 0.0]], sensitive_features=["a"])
        array([[0.5 , 0.25, 0.25]])
        """
        p, codes = _rows(scores, sensitive_features, self.groups, self.weight.shape[2])
        if self.prior is not None:
            p = balanced(p, self.prior[codes])
        q = np.empty((len(p), self.weight.shape[1]))
        for k in range(len(self.groups)):
            rows = codes == k
            q[rows] = softmax(p[rows] @ self.weight[k].T + self.bias[k], axis=1) @ self.mix[k]
        return q / q.sum(1, keepdims=True)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`."""
        named = {"weight": self.weight, "bias": self.bias, "mix": self.mix}
        return named if self.prior is None else named | {"prior": self.prior}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> SoftmaxChannel:
        """The inverse of `arrays`."""
        names = ("weight", "bias", "mix", *(("prior",) if "prior" in arrays else ()))
        return cls(groups, *(np.asarray(arrays[name]) for name in names))


@dataclass(frozen=True, eq=False)
class HardMixture:
    """One of several decisions argmax_u (W_z p)_u, drawn with the given weights.

    Args:
        groups: the groups, in order.
        weights: how often each decision is drawn, array (m,).
        columns: W of each, array (m, groups, U, labels).
    """

    groups: Levels
    weights: Array
    columns: Array

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """Posteriors of U, array (n, K).

        >>> decisions = np.array([np.eye(3), -np.eye(3)])[:, None]
        >>> rule = HardMixture(("a",), np.array([0.75, 0.25]), decisions)
        >>> rule.predict_proba([[0.6, 0.3, 0.1]], sensitive_features=["a"])
        array([[0.75, 0.  , 0.25]])
        """
        p, codes = _rows(scores, sensitive_features, self.groups, self.columns.shape[3])
        q = np.zeros((len(p), self.columns.shape[2]))
        for k in range(len(self.groups)):
            rows = np.flatnonzero(codes == k)
            for share, own in zip(self.weights, self.columns[:, k], strict=True):
                q[rows, (p[rows] @ own.T).argmax(1)] += share
        return q / q.sum(1, keepdims=True)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`."""
        return {"weights": self.weights, "columns": self.columns}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Array]) -> HardMixture:
        """The inverse of `arrays`."""
        return cls(groups, np.asarray(arrays["weights"]), np.asarray(arrays["columns"]))


def _rows(
    scores: ArrayLike, sensitive_features: Any, groups: Levels, labels: int
) -> tuple[Array, NDArray[np.intp]]:
    """Posteriors with one column per fitted label, and the codes of the groups."""
    p = check_posteriors(scores, "scores")
    if p.shape[1] != labels:
        raise InputError(f"`scores` has {p.shape[1]} columns, the channel was fitted on {labels}.")
    return p, group_codes(sensitive_features, groups, len(p), "sensitive_features")
