"""A predictor around any classifier: its posteriors, then a channel per group
(`methods.channel.ChannelClassifier`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.deploy.predictor import Component, Predictor
from separatrix.errors import InputError
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel

__all__ = ["Wrapped", "from_estimator"]


@dataclass(frozen=True, eq=False)
class Wrapped:
    """One channel as a fitted method; its features are the posteriors of each base side by side,
    its groups are codes.

    Args:
        channel: the channel.
        bases: how many classifiers there are; a prediction is that of one of them drawn at random.
    """

    kind: ClassVar[str] = "wrapped"
    channel: ThresholdChannel | SoftmaxChannel
    bases: int = 1

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | score, z), array (1, n, K)."""
        if z is None:
            raise InputError(
                "A channel needs the group of every row: pass the group codes `z` as well."
            )
        components = np.split(np.asarray(X, dtype=np.float64), self.bases, axis=1)
        q = [
            self.channel.predict_proba(p / p.sum(1, keepdims=True), sensitive_features=z)
            for p in components
        ]
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


def from_estimator(model: Any, features: Sequence[str] = ()) -> Predictor:
    """The predictor of a fitted `ChannelClassifier`: any classifier with `predict_proba`, saved
    through skops.

    Args:
        model: the fitted ChannelClassifier.
        features: names of the classifier's columns, if rows come as frames or files and the
            classifier wants a matrix. By default rows reach the classifier as they are.
    """
    channel, bases = getattr(model, "channel_", None), getattr(model, "estimators_", ())
    if channel is None or not bases:
        raise InputError(
            f"`model` must be a fitted ChannelClassifier around a classifier, got "
            f"{type(model).__name__}"
            + (" around bare probabilities." if channel is not None else ".")
        )
    coded = Wrapped(replace(channel, groups=tuple(range(len(channel.groups)))), len(bases))
    level = float(
        model.limit_.violation[-1] if model.max_violation is None else model.max_violation
    )
    choice = {"max violation on the rows of the channel": level}
    if model.share < 1.0:
        choice["share of the utility that this allows"] = float(model.share)
    component = Component("postprocessing", level, "randomized", coded)
    return Predictor(
        tuple(model.classes_.tolist()),
        tuple(channel.groups),
        (component,),
        features=tuple(features),
        bases=tuple(bases),
        about={"choice": choice},
    )
