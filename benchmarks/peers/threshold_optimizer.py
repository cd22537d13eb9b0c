"""fairlearn's ThresholdOptimizer: the most accurate rule with equal error rates. It has no relaxed
equalized odds: one point for each objective.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.peers.protocol import Array, Fold, Predict, Series, main, mean_over


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


def rule_of(scores: Array, y: Any, z: Any, objective: str) -> ThresholdOptimizer:
    """The rule for given scores."""
    rule = ThresholdOptimizer(
        estimator=Scores(),
        constraints="equalized_odds",
        objective=objective,
        prefit=True,
        predict_method="predict_proba",
    )
    return rule.fit(scores[:, None], y, sensitive_features=z)


def trace(kind: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One rule for each of the two objectives that fit."""
    own = fold.scored[kind]
    for objective in ("accuracy_score", "balanced_accuracy_score"):
        rule = rule_of(own.scores, own.y, own.z, objective)
        yield objective, partial(mean_over, own.test, partial(_decided, rule, fold.test.z))


def _decided(rule: ThresholdOptimizer, z: Any, scores: Array) -> Array:
    return np.asarray(rule._pmf_predict(scores[:, None], sensitive_features=z)[:, 1])


SERIES = {
    f"ThresholdOptimizer, {kind}": Series(
        "equalized_odds; accuracy and balanced accuracy, a point each",
        partial(trace, kind),
        trees=kind,
    )
    for kind in ("held out", "cross-fitted")
}

if __name__ == "__main__":
    main(SERIES, "fairlearn")
