"""Any regressor as a source of honest predictions: every row by a model that did not see it.

The scheme of `crossfit`: cv + 1 fits, out-of-fold predictions for the maps, and the regressor of
all rows for new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.ensemble import HistGradientBoostingRegressor

from separatrix import datasets
from separatrix.columns.scores import quantity_column
from separatrix.crossfit.out_of_fold import (
    CrossFit,
    fit_one,
    has_text,
    is_precomputed,
    is_prefit,
    out_of_fold,
    splits_of,
)
from separatrix.errors import InputError

__all__ = ["cross_fit_numbers", "predictions", "regressor"]

Array = NDArray[np.float64]


def cross_fit_numbers(
    estimator: Any,
    X: Any,
    y: Array,
    z: NDArray[np.intp],
    *,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    random_state: Any = 0,
    sample_weight: Array | None = None,
    n_jobs: int | None = None,
) -> CrossFit:
    """Predict every row by a regressor that did not see it, and fit one to all rows.

    Args:
        estimator: a regressor; None for boosted trees; "precomputed" if X is predictions.
        X: rows as the regressor takes them.
        y: outcomes.
        z: codes; every fold has rows of each.
        cv, groups, random_state, sample_weight, n_jobs: as in `cross_fit`.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> fitted = cross_fit_numbers(LinearRegression(), X, X.sum(1), np.arange(60) % 2, cv=3)
    >>> bool(np.allclose(fitted.scores, X.sum(1)))
    True
    """
    if is_precomputed(estimator, "regressor"):
        return CrossFit(None, quantity_column(X, "X"), "value")
    if is_prefit(estimator, cv):
        return CrossFit(estimator, predictions(estimator, X), "value")
    splits = splits_of(cv, X, y, z, groups, random_state, labels=False)
    model = regressor(estimator)
    prepared = datasets.plan(X).fit(X) if estimator is None and has_text(X) else None
    rows: Any = X if prepared is None else prepared.transform(X)
    rows = rows.tocsr() if issparse(rows) else rows  # others have no rows to take

    whole, scores = out_of_fold(
        rows,
        splits,
        lambda some, w, at: fit_one(model, some, y[at], w),
        predictions,
        sample_weight,
        n_jobs,
    )
    return CrossFit(whole, scores, "value", prepared)


def regressor(estimator: Any) -> Any:
    """The regressor to clone; by default boosted trees, which take missing values."""
    return HistGradientBoostingRegressor(random_state=0) if estimator is None else estimator


def predictions(model: Any, X: Any) -> Array:
    """One finite number per row."""
    if hasattr(model, "predict_proba"):
        raise InputError(
            f"{type(model).__name__} is a classifier: a numeric outcome needs a regressor, such "
            "as sklearn.ensemble.HistGradientBoostingRegressor."
        )
    return quantity_column(np.ravel(model.predict(X)), "predictions")
