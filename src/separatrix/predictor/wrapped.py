"""Rules behind base models as fitted methods: what they see is the bases' probabilities, side by
side.

`Wrapped` decides between labels, `WrappedBlind` does so without the group. `WrappedScore` draws the
level of a score, `WrappedBlindScore` is a score without group and coin. `WrappedAligned` takes the
bases' predictions of a number and releases one of a few values. All are plain arrays on disk; the
groups are codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError
from separatrix.optimum.plain import PlainRule
from separatrix.optimum.rules import BlindRule, SoftmaxChannel, ThresholdChannel
from separatrix.optimum.scores.aligned import AlignedScore
from separatrix.optimum.scores.blind_scores import BlindScore
from separatrix.optimum.scores.separated import SeparatedScore

__all__ = [
    "Wrapped", "WrappedAligned", "WrappedBlind", "WrappedBlindScore", "WrappedPlain",
    "WrappedScore",
]  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WrappedPlain:
    """The base model as it is, as a fitted method.

    Args:
        rule: the label with the largest expected gain.
    """

    rule: PlainRule
    kind: ClassVar[str] = "plain"

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """Zeros and ones, array (1, n, K); the group is not looked at."""
        return self.rule.predict_proba(np.asarray(X, dtype=np.float64))[None]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return dict(self.rule.arrays())

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> WrappedPlain:
        """The rule that `arrays` described."""
        return WrappedPlain(PlainRule.from_arrays(arrays))


@dataclass(frozen=True, eq=False)
class Wrapped:
    """One channel as a fitted method: its features are the bases' posteriors side by side.

    Args:
        channel: the channel.
        bases: how many scores there are; a prediction is that of one of them drawn at random.

    The groups are codes.
    """

    kind: ClassVar[str] = "wrapped"
    channel: ThresholdChannel | SoftmaxChannel
    bases: int = 1

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | score, z), array (1, n, K)."""
        p = _each(X, self.bases, z)
        q = [self.channel.predict_proba(p[:, k], sensitive_features=z) for k in range(self.bases)]
        return np.mean(q, axis=0)[None]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        sizes = {"n_groups": np.array(len(self.channel.groups)), "bases": np.array(self.bases)}
        return {**self.channel.arrays(), **sizes}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Wrapped:
        """The channel that `arrays` described."""
        groups = tuple(range(int(arrays["n_groups"])))
        kind = SoftmaxChannel if "mix" in arrays else ThresholdChannel
        return Wrapped(kind.from_arrays(groups, arrays), int(arrays["bases"]))


@dataclass(frozen=True, eq=False)
class WrappedScore:
    """A separated score as a fitted method: one base is drawn, then the level.

    Args:
        score: the kernels, for codes of groups and labels 0 and 1.
        bases: how many scores there are.
    """

    score: SeparatedScore
    bases: int
    kind: ClassVar[str] = "separated_score"

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(S = level | x, z), array (1, n, levels): the mean over the bases."""
        p = _each(X, self.bases, z)
        q = [self.score.level_proba(p[:, k], sensitive_features=z) for k in range(self.bases)]
        return np.mean(q, axis=0)[None]

    def drawn(self, X: ArrayLike, z: ArrayLike | None, coins: Array) -> Array:
        """The score (n,) for given coins (n, 2): which base, and which level."""
        p = _each(X, self.bases, z)
        member = (coins[:, 0] * self.bases).astype(np.intp)
        own = p[np.arange(len(p)), member]
        return self.score.drawn(own, coins[:, 1], sensitive_features=z)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {**self.score.arrays(), "bases": np.array(self.bases)}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> WrappedScore:
        """The score that `arrays` described."""
        groups = tuple(range(len(arrays["thresholds"])))
        score = SeparatedScore.from_arrays((0, 1), groups, arrays)
        return WrappedScore(score, int(arrays["bases"]))


@dataclass(frozen=True, eq=False)
class WrappedBlind:
    """A rule without the group as a fitted method: it sees P(y, z | x) of each base.

    Args:
        rule: the rule.
        bases: how many there are; a prediction is that of one of them drawn at random.
    """

    rule: BlindRule
    bases: int
    kind: ClassVar[str] = "blind"

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | x), array (1, n, K); the group is not looked at."""
        q = np.asarray(X, dtype=np.float64)
        q = q.reshape(len(q), self.bases, *self.rule.columns.shape[2:])
        each = [self.rule.predict_proba(q[:, k]) for k in range(self.bases)]
        return np.mean(each, axis=0)[None]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {**self.rule.arrays(), "bases": np.array(self.bases)}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> WrappedBlind:
        """The rule that `arrays` described."""
        return WrappedBlind(BlindRule.from_arrays((), arrays), int(arrays["bases"]))


@dataclass(frozen=True, eq=False)
class WrappedBlindScore:
    """A score without the group as a fitted method: the mean over the bases, without a coin.

    Args:
        score: the score of P(y, z | x).
        bases: how many there are.
    """

    score: BlindScore
    bases: int
    kind: ClassVar[str] = "blind_score"

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(Y | S), array (1, n, 2); the group is not looked at."""
        s = self.drawn(X, z, np.zeros((0, 2)))
        return np.stack([1.0 - s, s], axis=1)[None]

    def drawn(self, X: ArrayLike, z: ArrayLike | None, coins: Array) -> Array:
        """The score (n,); the coins are not looked at either."""
        q = np.asarray(X, dtype=np.float64)
        q = q.reshape(len(q), self.bases, 2, -1)
        each = [self.score.transform(q[:, k]) for k in range(self.bases)]
        return np.asarray(np.mean(each, axis=0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {**self.score.arrays(), "bases": np.array(self.bases)}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> WrappedBlindScore:
        """The score that `arrays` described."""
        return WrappedBlindScore(BlindScore.from_arrays(arrays), int(arrays["bases"]))


@dataclass(frozen=True, eq=False)
class WrappedAligned:
    """An aligned prediction of a number as a fitted method: its labels are the released values.

    Args:
        score: the maps, for codes of groups, or for numbers of a numeric attribute.
        bases: how many regressors there are; the maps see their mean.
    """

    score: AlignedScore
    bases: int
    kind: ClassVar[str] = "aligned"

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """One for the released value, zero for the others, array (1, n, levels)."""
        if z is None:
            raise InputError("These maps need the group or number of every row: pass `z` too.")
        mean = np.asarray(X, dtype=np.float64).reshape(-1, self.bases).mean(1)
        return np.eye(len(self.score.levels))[self.score.coded(mean, np.asarray(z))][None]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {**self.score.arrays(), "bases": np.array(self.bases)}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> WrappedAligned:
        """The maps that `arrays` described."""
        groups = () if len(arrays["attribute_knots"]) else tuple(range(len(arrays["knots"])))
        return WrappedAligned(AlignedScore.from_arrays(groups, arrays), int(arrays["bases"]))


def _each(X: ArrayLike, bases: int, z: ArrayLike | None) -> Array:
    """The probabilities (n, bases, K) of each base."""
    if z is None:
        raise InputError("This rule needs the group of every row: pass the group codes `z` too.")
    p = np.asarray(X, dtype=np.float64)
    p = p.reshape(len(p), bases, -1)
    return np.asarray(p / p.sum(-1, keepdims=True))
