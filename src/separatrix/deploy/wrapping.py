"""The predictor of a fitted estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from separatrix.deploy.component import Component
from separatrix.deploy.predictor import Predictor
from separatrix.deploy.wrapped import (
    Wrapped,
    WrappedAligned,
    WrappedBlind,
    WrappedBlindScore,
    WrappedScore,
)
from separatrix.errors import InputError
from separatrix.estimators.aligned import EVERYONE, AlignedRegressor
from separatrix.estimators.scorer import SeparatedScorer
from separatrix.estimators.single import SeparationClassifier
from separatrix.methods import get
from separatrix.nn.networks import Networks
from separatrix.optimum.scores.aligned import AlignedScore
from separatrix.optimum.scores.blind_scores import BlindScore

__all__ = ["aligned_predictor", "from_estimator"]


def from_estimator(model: Any, features: Sequence[str] = ()) -> Predictor:
    """The predictor of a fitted estimator: it is saved without pickle and streams files.

    Args:
        model: a fitted FrontierClassifier, SeparatedScorer, AlignedRegressor or
            SeparationClassifier.
        features: names of the columns of a classifier that takes a matrix, if rows come as frames
            or files. By default rows reach the classifier as they are.
    """
    if isinstance(model, SeparationClassifier):
        return _of_single(model)
    if isinstance(model, SeparatedScorer):
        return _of_scorer(model, features)
    if isinstance(model, AlignedRegressor):
        return _of_regressor(model, features)
    scores, promise = getattr(model, "crossfit_", None), getattr(model, "promise_", None)
    if scores is None or promise is None or not scores.members:
        bare = "" if promise is None else " around bare probabilities"
        raise InputError(
            "`model` must be a FrontierClassifier around a classifier, fitted with "
            f"`sensitive_features`, got {type(model).__name__}{bare}."
        )
    if len(scores.members[0]) > 1 and model.blind:
        raise InputError("A blind FrontierClassifier with `ensemble` above 1 cannot be saved yet.")
    blind = bool(model.blind)
    coded: Any = Wrapped(promise.rule, len(scores.members), len(scores.members[0]))
    if blind:
        coded = WrappedBlind(promise.rule, len(scores.members))
    choice: dict[str, Any] = {
        "maximize": str(model.maximize),
        "criterion": model.criterion,
        **{name: value for name, value in model.budgets().items() if value is not None},
        "level on the rows of the rule": float(promise.level),
    }
    if np.isfinite(promise.expected):
        sure = model.confidence
        sure = "" if sure is None else f", with probability {sure:g} at most"
        choice[f"expected in the population{sure}"] = float(promise.expected)
    component = Component(
        "postprocessing", float(promise.level), "randomized", coded, uses_groups=not blind
    )
    return Predictor(
        tuple(model.classes_.tolist()),
        tuple(model.groups_),
        (component,),
        preprocessing=scores.preprocessing,
        features=tuple(features),
        grouping=model.grouping_,
        bases=tuple(one for team in scores.members for one in team),
        reads="joint" if blind else "x",
        about={"choice": choice},
    )


def _of_scorer(model: SeparatedScorer, features: Sequence[str]) -> Predictor:
    """The score of a fitted SeparatedScorer."""
    check_is_fitted(model)
    found, groups = model.crossfit_, tuple(model.groups_)
    if not found.members:
        raise InputError("A SeparatedScorer around bare probabilities has no classifier to save.")
    policy: str
    if isinstance(model.score_, BlindScore):
        fitted: Any = WrappedBlindScore(model.score_, len(found.members))
        policy = "deterministic"
    else:
        coded = replace(model.score_, labels=(0, 1), groups=tuple(range(len(groups))))
        fitted, policy = WrappedScore(coded, len(found.members)), "randomized"
    blind = policy == "deterministic"
    component = Component(
        "postprocessing", float(model.penalty or 0.0), policy, fitted, uses_groups=not blind
    )
    return Predictor(
        tuple(model.classes_.tolist()),
        groups,
        (component,),
        preprocessing=found.preprocessing,
        features=tuple(features),
        bases=tuple(team[0] for team in found.members),
        reads="joint" if blind else "x",
        about={"choice": {"maximize": "auroc", "penalty": model.penalty}},
    )


def _of_regressor(model: AlignedRegressor, features: Sequence[str]) -> Predictor:
    """The released values of a fitted AlignedRegressor."""
    check_is_fitted(model)
    found = model.crossfit_
    if not found.members:
        raise InputError("An AlignedRegressor around bare predictions has no regressor to save.")
    if model.groups_ == (EVERYONE,):
        raise InputError(
            "This AlignedRegressor was fitted without `sensitive_features`: fit it with them."
        )
    asked = {"max_violation": model.max_violation, "penalty": model.score_.penalty}
    choice = {"maximize": "r2", **{k: float(v) for k, v in asked.items() if v is not None}}
    return replace(
        aligned_predictor(model.score_, found.members),
        preprocessing=found.preprocessing,
        features=tuple(features),
        about={"choice": choice},
    )


def aligned_predictor(score: AlignedScore, members: Sequence[Any]) -> Predictor:
    """The predictor of released values around fitted regressors."""
    if len(score.levels) < 2:
        raise InputError(
            f"This regressor releases {score.levels[0]:g} for everybody: there is nothing to save."
        )
    coded = replace(score, groups=tuple(range(len(score.groups))))
    fitted: Any = WrappedAligned(coded, len(members))
    component = Component("postprocessing", score.penalty, "deterministic", fitted)
    return Predictor(
        tuple(score.levels.tolist()),
        score.groups,
        (component,),
        bases=tuple(members),
        reads="value",
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
    return Predictor(
        tuple(model.classes_.tolist()),
        model.groups_,
        (component,),
        preprocessing=model.preprocessing_,
        features=names,
    )
