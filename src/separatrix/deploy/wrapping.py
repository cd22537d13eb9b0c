"""A predictor around any classifier: its posteriors, then a rule per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from separatrix.deploy.predictor import Component, Predictor
from separatrix.errors import InputError
from separatrix.estimators.single import SeparationClassifier
from separatrix.methods import get
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel

__all__ = ["Wrapped", "from_estimator"]


@dataclass(frozen=True, eq=False)
class Wrapped:
    """One channel as a fitted method: its features are the bases' posteriors side by side.

    Args:
        channel: the channel.
        bases: how many scores there are; a prediction is that of one of them drawn at random.
        ensemble: how many classifiers each score is the mean of.

    The groups are codes.
    """

    kind: ClassVar[str] = "wrapped"
    channel: ThresholdChannel | SoftmaxChannel
    bases: int = 1
    ensemble: int = 1

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",)

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | score, z), array (1, n, K)."""
        if z is None:
            raise InputError(
                "A channel needs the group of every row: pass the group codes `z` as well."
            )
        p = np.asarray(X, dtype=np.float64)
        p = p.reshape(len(p), self.bases, self.ensemble, -1)
        p = (p / p.sum(-1, keepdims=True)).mean(2)
        q = [self.channel.predict_proba(p[:, k], sensitive_features=z) for k in range(self.bases)]
        return np.mean(q, axis=0)[None]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        sizes = {
            "n_groups": np.array(len(self.channel.groups)),
            "bases": np.array(self.bases),
            "ensemble": np.array(self.ensemble),
        }
        return {**self.channel.arrays(), **sizes}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Wrapped:
        """The channel that `arrays` described."""
        groups = tuple(range(int(arrays["n_groups"])))
        kind = SoftmaxChannel if "mix" in arrays else ThresholdChannel
        ensemble = int(arrays.get("ensemble", 1))  # older folders do not have it
        return Wrapped(kind.from_arrays(groups, arrays), int(arrays["bases"]), ensemble)


def from_estimator(model: Any, features: Sequence[str] = ()) -> Predictor:
    """The predictor of a fitted estimator: it is saved without pickle and streams files.

    Args:
        model: a fitted FrontierClassifier, whose classifiers are saved through skops, or a fitted
            SeparationClassifier.
        features: names of the columns of a classifier that takes a matrix, if rows come as frames
            or files. By default rows reach the classifier as they are.
    """
    if isinstance(model, SeparationClassifier):
        return _of_single(model)
    scores, promise = getattr(model, "crossfit_", None), getattr(model, "promise_", None)
    if scores is None or promise is None or not scores.members:
        bare = "" if promise is None else " around bare probabilities"
        raise InputError(
            "`model` must be a FrontierClassifier around a classifier, fitted with "
            f"`sensitive_features`, got {type(model).__name__}{bare}."
        )
    coded = Wrapped(promise.rule, len(scores.members), len(scores.members[0]))
    choice: dict[str, Any] = {
        "maximize": str(model.maximize),
        **{name: value for name, value in model.budgets().items() if value is not None},
        "level on the rows of the rule": float(promise.level),
    }
    if np.isfinite(promise.expected):
        sure = model.confidence
        sure = "" if sure is None else f", with probability {sure:g} at most"
        choice[f"expected in the population{sure}"] = float(promise.expected)
    component = Component("postprocessing", float(promise.level), "randomized", coded)
    return Predictor(
        tuple(model.classes_.tolist()),
        tuple(model.groups_),
        (component,),
        preprocessing=scores.preprocessing,
        features=tuple(features),
        bases=tuple(one for team in scores.members for one in team),
        about={"choice": choice},
    )


def _of_single(model: SeparationClassifier) -> Predictor:
    """The network or the trees of a fitted SeparationClassifier, for features as they come."""
    check_is_fitted(model)
    fitted = model.fitted_
    if isinstance(fitted, Networks):
        fitted = fitted.unscaled(model.mean_, model.scale_)
    elif get(model.method).standardise:
        raise InputError(
            "Only networks and boosted trees can become a predictor of raw features; "
            f"{model.method!r} is neither."
        )
    component = Component.of(model.method, model.trade_off, model.policy, fitted)
    names = tuple(map(str, getattr(model, "feature_names_in_", ())))
    return Predictor(tuple(model.classes_.tolist()), model.groups_, (component,), features=names)
