"""The predictor of a fitted estimator, which each estimator's `to_predictor` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from separatrix.columns.grouping import Grouping
from separatrix.errors import InputError
from separatrix.methods import get
from separatrix.nn.networks import Networks
from separatrix.optimum.plain import PlainRule
from separatrix.optimum.rules import BlindRule, ThresholdChannel
from separatrix.optimum.scores.aligned import AlignedScore
from separatrix.optimum.scores.blind_scores import BlindScore
from separatrix.predictor.component import Component
from separatrix.predictor.predictor import Predictor
from separatrix.predictor.wrapped import (
    Wrapped,
    WrappedAligned,
    WrappedBlind,
    WrappedBlindScore,
    WrappedPlain,
    WrappedScore,
)

if TYPE_CHECKING:
    from separatrix.estimators.aligned import AlignedRegressor
    from separatrix.estimators.frontier import FrontierClassifier
    from separatrix.estimators.scorer import SeparatedScorer
    from separatrix.estimators.single import SeparationClassifier

__all__ = [
    "aligned_predictor",
    "frontier_predictor",
    "regressor_predictor",
    "scorer_predictor",
    "single_predictor",
]


def frontier_predictor(model: FrontierClassifier, features: Sequence[str]) -> Predictor:
    """The model and the rule that a fitted FrontierClassifier ships."""
    if not hasattr(model, "classes_"):
        raise InputError("This FrontierClassifier is not fitted: call `fit` first.")
    base, rule = model.bases_[model.solved_.base], model.rule_
    if base.model is None:
        raise InputError(
            "A FrontierClassifier around bare probabilities has no classifier to save: fit it "
            "around the classifier."
        )
    wrapped: Any = Wrapped(rule) if model.uses_groups else WrappedPlain(rule)
    if isinstance(rule, BlindRule):
        wrapped = WrappedBlind(rule, 1)
    level = float(np.nan_to_num(model.solved_.level))
    certain = isinstance(rule, PlainRule) or no_coin(rule)
    policy = "deterministic" if certain else "randomized"
    component = Component("postprocessing", level, policy, wrapped, uses_groups=model.uses_groups)
    reads = "joint" if isinstance(rule, BlindRule) else "xz" if getattr(base, "groups", 0) else "x"
    return Predictor(
        tuple(model.classes_.tolist()),
        tuple(model.groups_),
        (component,),
        preprocessing=base.preprocessing,
        features=tuple(features),
        grouping=_grouping(model),
        bases=(base.shipped(),),
        reads=reads,
        about={"choice": _frontier_choice(model)},
    )


def _grouping(model: Any) -> Grouping | None:
    """How the predictor finds the group in raw rows, where the estimator does."""
    if model.grouping_ is not None or model.sensitive_columns is None:
        found: Grouping | None = model.grouping_
        return found
    names = np.ravel(np.asarray(model.sensitive_columns, dtype=object)).tolist()
    by_name = all(isinstance(name, str) for name in names)
    return Grouping(tuple(names), tuple(model.groups_)) if by_name else None


def _frontier_choice(model: FrontierClassifier) -> dict[str, Any]:
    """What was asked, and what was promised for it."""
    asked = {"eo_gap": model.max_eo_gap, "violation": model.max_violation, **(model.budgets or {})}
    choice: dict[str, Any] = {
        "maximize": str(model.maximize),
        "candidate": model.choice_,
        **{f"max_{name}": float(most) for name, most in asked.items() if most is not None},
    }
    for name, most in asked.items():
        if most is not None and name in model.promise_:
            choice[f"expected {name} on unseen rows"] = model.promise_[name].value
    return choice


def no_coin(rule: Any) -> bool:
    """Whether a rule by group decides everybody for certain."""
    if not isinstance(rule, ThresholdChannel):
        return False
    return all(bool(np.isin(levels, (0.0, 1.0)).all()) for levels in rule.levels)


def scorer_predictor(model: SeparatedScorer, features: Sequence[str]) -> Predictor:
    """The score of a fitted SeparatedScorer."""
    check_is_fitted(model)
    found, groups = model.crossfit_, tuple(model.groups_)
    if found.model is None:
        raise InputError("A SeparatedScorer around bare probabilities has no classifier to save.")
    policy: str
    if isinstance(model.score_, BlindScore):
        fitted: Any = WrappedBlindScore(model.score_, 1)
        policy = "deterministic"
    else:
        coded = replace(model.score_, labels=(0, 1), groups=tuple(range(len(groups))))
        fitted, policy = WrappedScore(coded, 1), "randomized"
    blind = policy == "deterministic"
    component = Component(
        "postprocessing", _number(model.penalty_), policy, fitted, uses_groups=not blind
    )
    return Predictor(
        tuple(model.classes_.tolist()),
        groups,
        (component,),
        preprocessing=found.preprocessing,
        features=tuple(features),
        grouping=_grouping(model),
        bases=(found.shipped(),),
        reads="joint" if blind else "x",
        about={"choice": {"maximize": "auroc", "penalty": model.penalty_}},
    )


def _number(penalty: float | str | None) -> float:
    """β; 0 for the score as it is and for exact separation, which `about` tells apart."""
    return 0.0 if penalty is None or isinstance(penalty, str) else float(penalty)


def regressor_predictor(model: AlignedRegressor, features: Sequence[str]) -> Predictor:
    """The released values of a fitted AlignedRegressor."""
    check_is_fitted(model)
    found = model.crossfit_
    if found.model is None:
        raise InputError("An AlignedRegressor around bare predictions has no regressor to save.")
    asked = {"max_violation": model.max_violation, "penalty": model.score_.penalty}
    choice = {"maximize": "r2", **{k: float(v) for k, v in asked.items() if v is not None}}
    return replace(
        aligned_predictor(model.score_, (found.model,)),
        preprocessing=found.preprocessing,
        features=tuple(features),
        grouping=_grouping(model),
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


def single_predictor(model: SeparationClassifier) -> Predictor:
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
        grouping=_grouping(model),
    )
