"""fairlearn: the most accurate rule with equal error rates, and a mixture of weighted classifiers.

ThresholdOptimizer has no relaxed equalized odds: one point for each objective. A mixture
(ExponentiatedGradient) chooses at random between trees that see the group or do not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.peers.protocol import Array, Fold, Predict, Series, main, mean_over
from benchmarks.peers.rows import booster

BOUNDS, ROUNDS = (0.01, 0.05), 20


class Scores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its scores."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> Scores:
        return self

    def predict_proba(self, X: Any) -> Array:
        return np.column_stack([1.0 - X[:, 0], X[:, 0]])

    def predict(self, X: Any) -> Any:
        return (X[:, 0] > 0.5).astype(int)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def rule_of(scores: Array, y: Any, z: Any, **how: Any) -> ThresholdOptimizer:
    """ThresholdOptimizer for given scores: equalized odds and accuracy unless `how` says else."""
    asked = {"constraints": "equalized_odds", "objective": "accuracy_score"} | how
    rule = ThresholdOptimizer(estimator=Scores(), prefit=True, predict_method="predict_proba", **asked)
    return rule.fit(scores[:, None], y, sensitive_features=z)


def decided(rule: ThresholdOptimizer, z: Any, scores: Array) -> Array:
    """P(U=1) of its randomised decision."""
    return np.asarray(rule._pmf_predict(scores[:, None], sensitive_features=z)[:, 1])


def mixture_of(base: Any, constraint: Any, X: Any, y: Any, z: Any, rounds: int) -> Any:
    """ExponentiatedGradient, and P(U=1) of new rows by it."""
    mixture = ExponentiatedGradient(base, constraint, max_iter=rounds)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Setting a")  # fairlearn 0.15 on pandas 3
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        mixture.fit(X, y, sensitive_features=z)
    return partial(_mixed, mixture)


def _mixed(mixture: ExponentiatedGradient, X: Any) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.clip(mixture._pmf_predict(X)[:, 1], 0.0, 1.0)


def thresholds(fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One rule for each of the two objectives that fit."""
    own = fold.scored["cross-fitted"]
    for objective in ("accuracy_score", "balanced_accuracy_score"):
        rule = rule_of(own.scores, own.y, own.z, objective=objective)
        yield objective, partial(mean_over, own.test, partial(decided, rule, fold.test.z))


def mixtures(blind: bool, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One reduction per bound on the difference of error rates."""
    train, test = fold.blind_rows if blind else (fold.train.with_group, fold.test.with_group)
    rounds = 2 if quick else ROUNDS
    for bound in BOUNDS:
        constraint = EqualizedOdds(difference_bound=bound)
        decide = mixture_of(booster(), constraint, train, fold.train.y, fold.train.z, rounds)
        yield f"difference_bound {bound:g}", partial(decide, test)


SERIES = {
    "ThresholdOptimizer": Series(
        "equalized_odds; accuracy and balanced accuracy, a point each", thresholds, trees="cross-fitted"
    )
} | {
    f"ExponentiatedGradient, {'X alone' if blind else '[Z|X]'}": Series(
        f"EqualizedOdds(difference_bound) at {', '.join(map(str, BOUNDS))}, {ROUNDS} rounds around "
        "the same trees; two folds, five of small tables: it trains trees in every round",
        partial(mixtures, blind),
        folds=2,
    )
    for blind in (False, True)
}

PACKAGE = "fairlearn"

if __name__ == "__main__":
    main(SERIES, PACKAGE)
