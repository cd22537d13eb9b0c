"""The predictor of a fitted estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from separatrix.deploy.predictor import Component, Predictor
from separatrix.deploy.wrapped import Wrapped
from separatrix.errors import InputError
from separatrix.estimators.single import SeparationClassifier
from separatrix.methods import get
from separatrix.nn.networks import Networks

__all__ = ["from_estimator"]


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
        grouping=model.grouping_,
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
