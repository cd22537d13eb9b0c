"""Aligned predictions around any regressor, cross-fitted, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_y

from separatrix.columns.scores import quantity_column
from separatrix.columns.values import Coded
from separatrix.core.conditional_cmi import attribute_bins
from separatrix.crossfit.out_of_fold import seed_from
from separatrix.errors import InputError
from separatrix.estimators.base import Learned, Shipping
from separatrix.optimum.scores.align import align, attribute
from separatrix.predictor.predictor import Predictor

Array = NDArray[np.float64]
EVERYONE = "everyone"  # the one group of a regressor that was fitted without groups


@dataclass(eq=False, repr=False)
class AlignedRegressor(Shipping, RegressorMixin, BaseEstimator):
    """Predict a number so that, given the outcome, all groups get similar predictions.

    The regressor is cross-fitted, one rising map per group (`align`) is fitted to the out-of-fold
    predictions, and the regressor refitted on all rows carries the maps: cv + 1 fits. A new row
    gets its prediction, then its group's map, then the nearest released value. No coin is thrown.

    Rising maps keep the order within a group. If predictions are much noisier in one group than in
    another, some violation remains whatever the penalty; `fit` refuses a `max_violation` that
    cannot be kept and names the smallest one that can.

    Args:
        estimator: a regressor; None for boosted trees, which also take frames with text;
            "precomputed" if X is the predictions for unseen rows.
        max_violation: v in nats, of conditional ranks, that unseen rows may show: the penalty is
            the least one that keeps it on inner folds. Not with a penalty.
        penalty: β of 1 − R² + β v. None: as `max_violation` needs, or the largest.
        levels: the largest number of different predictions.
        sensitive: "groups", or "continuous" for a number such as age, whose maps change smoothly.
        sensitive_columns: the column(s) of X that hold the group; then `fit(X, y)` and `predict(X)`
            need nothing else.
        cv: number of folds, a splitter, an iterable of splits, or "prefit" for a fitted `estimator`
            that did not see the rows.
        n_jobs: how many fits at a time, see joblib.
        random_state: seed of the folds; None is fresh.

    Attributes:
        score_: the `AlignedScore`, with its `levels`, `penalty`, `r2` and `violation` on the rows.
        crossfit_: the fitted regressor and the out-of-fold predictions.
        groups_: the groups; empty for a number.

    Without `sensitive_features` it is the plain regressor at `levels` values.

    Example:
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(0)
        >>> z, e, d = rng.integers(0, 2, 4000), *rng.normal(size=(2, 4000))
        >>> y = z + d
        >>> X = np.column_stack([y + 0.7 * e, z])
        >>> model = AlignedRegressor(LinearRegression(), max_violation=0.005, random_state=0)
        >>> model = model.fit(X, y, sensitive_features=z)
        >>> bool(model.score_.violation < 0.005), round(model.score_.r2, 2)
        (True, 0.72)
        >>> model.predict(X[:3], sensitive_features=z[:3]).shape
        (3,)
    """

    estimator: Any = None
    max_violation: float | None = None
    _: KW_ONLY
    penalty: float | None = None
    levels: int = 16
    sensitive: str = "groups"
    sensitive_columns: Any = None
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = None

    def _fit(self, learned: Learned) -> None:
        """Cross-fit the regressor, then fit the maps to the out-of-fold predictions."""
        target, z, given = learned.y, learned.z, learned.z is not None
        if len(target) < 2:
            raise InputError("`X` has one sample: pass at least two rows.")
        if z is None:
            z, self.groups_ = np.zeros(len(target), dtype=np.intp), (EVERYONE,)
        number, seed = given and self.sensitive == "continuous", seed_from(self.random_state)
        strata = np.asarray(attribute_bins(z) if number else z, dtype=np.intp)
        self.crossfit_ = self._cross_fit(learned, "value", strata, random_state=seed)
        self.score_ = align(
            target,
            self.crossfit_.scores,
            sensitive_features=z if number else Coded(z, self.groups_),
            levels=self.levels,
            penalty=self.penalty if given else 0.0,
            max_violation=self.max_violation if given else None,
            sensitive=self.sensitive if given else "groups",
            sample_weight=learned.weight,
            random_state=seed,
        )
        self.groups_ = self.score_.groups
        asked = {"max_violation": self.max_violation, "penalty": self.score_.penalty}
        choice = {"maximize": "r2", **{k: float(v) for k, v in asked.items() if v is not None}}
        self._ship(self.crossfit_, self.score_, tuple(self.score_.levels.tolist()), choice)

    def predict(self, X: Any, sensitive_features: Any = None) -> Array:
        """Released values (n,), at most `levels` different ones."""
        return np.asarray(self._drawn(X, sensitive_features).labels)

    def _target(self, y: Any) -> Array:
        return quantity_column(_check_y(y, y_numeric=True, estimator=self), "y")

    def _learn_groups(self, columns: Mapping[str, Any]) -> NDArray[Any]:
        return attribute(columns) if self.sensitive == "continuous" else super()._learn_groups(columns)

    def _codes(self, X: Any, sensitive_features: Any, n: int) -> NDArray[Any]:
        if sensitive_features is None and self.groups_ == (EVERYONE,):
            return np.zeros(n, dtype=np.intp)
        return super()._codes(X, sensitive_features, n)

    def score(
        self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """R² of `predict`."""
        shown = self.predict(X, sensitive_features)
        return float(r2_score(y, shown, sample_weight=sample_weight))

    def to_predictor(self, features: Sequence[str] = ()) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        predictor = super().to_predictor(features)
        if self.groups_ == (EVERYONE,):
            raise InputError("This AlignedRegressor was fitted without `sensitive_features`: fit it with them.")
        if len(predictor.labels) < 2:
            raise InputError(f"It releases {predictor.labels[0]:g} for everybody: there is nothing to save.")
        return predictor
