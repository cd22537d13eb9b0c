"""Any regressor as a source of honest predictions: every row by a model that did not see it.

`cv` clones are fitted, each without one fold, which it then predicts. A new row is predicted by the
mean of the clones: no coin, and a smaller error. The mean is less noisy than the predictions that
the maps are fitted to; `trace` measures what ships with this difference in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import _safe_indexing

from separatrix import datasets
from separatrix.columns.scores import quantity_column
from separatrix.datasets import Preprocessing
from separatrix.errors import InputError
from separatrix.estimators.crossfit import PRECOMPUTED, fit_one, has_text

__all__ = ["NumericFit", "cross_fit_numbers", "predictions", "regressor"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumericFit:
    """Regressors, and what they predict for rows that they did not see.

    Args:
        members: member k did not see fold k; empty if X is the predictions.
        scores: the prediction of every row of `fit`, (n,).
        preprocessing: raw columns to the members' matrix; None where they take rows as they are.
    """

    members: tuple[Any, ...]
    scores: Array = field(repr=False)
    preprocessing: Preprocessing | None = None

    def predict(self, X: Any) -> Array:
        """The mean of the members for new rows, (n,)."""
        if not self.members:
            return quantity_column(X, "X")
        rows = X if self.preprocessing is None else self.preprocessing.transform(X)
        return np.asarray(np.mean([predictions(one, rows) for one in self.members], axis=0))


def cross_fit_numbers(
    estimator: Any,
    X: Any,
    y: Array,
    z: NDArray[np.intp],
    *,
    cv: int | str = 5,
    random_state: int = 0,
    sample_weight: Array | None = None,
) -> NumericFit:
    """Fit `cv` clones and predict every row with the one that did not see it.

    Args:
        estimator: a regressor; None for boosted trees; "precomputed" if X is predictions.
        X: rows as the regressor takes them.
        y: outcomes.
        z: codes; every fold has rows of each.
        cv: folds, or "prefit" for a fitted `estimator` that did not see the rows.
        random_state: seed of the folds.
        sample_weight: weight of each row.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = cross_fit_numbers(LinearRegression(), X, X.sum(1), np.arange(60) % 2, cv=3)
    >>> len(found.members), bool(np.allclose(found.scores, X.sum(1)))
    (3, True)
    """
    if isinstance(estimator, str):
        if estimator != PRECOMPUTED:
            raise InputError(
                f"`estimator` must be a regressor, None or {PRECOMPUTED!r}, got {estimator!r}."
            )
        return NumericFit((), quantity_column(X, "X"))
    if cv == "prefit" or type(estimator).__name__ == "FrozenEstimator":
        if estimator is None:
            raise InputError('`cv="prefit"` needs a fitted `estimator`, got None.')
        return NumericFit((estimator,), predictions(estimator, X))
    if not isinstance(cv, int | np.integer) or not 2 <= cv <= len(y):
        raise InputError(
            f'`cv` must be a number of folds between 2 and the {len(y):,} rows, or "prefit", got '
            f"{cv!r}."
        )
    model = regressor(estimator)
    prepared = datasets.plan(X).fit(X) if estimator is None and has_text(X) else None
    rows: Any = X if prepared is None else prepared.transform(X)
    rows = rows.tocsr() if issparse(rows) else rows  # others have no rows to take
    fold = datasets.folds(np.zeros(len(y), dtype=np.intp), z, int(cv), random_state)
    scores, members = np.zeros(len(y)), []
    for k in range(int(cv)):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weight = None if sample_weight is None else sample_weight[train]
        own = fit_one(model, _safe_indexing(rows, train), y[train], weight)
        scores[test] = predictions(own, _safe_indexing(rows, test))
        members.append(own)
    return NumericFit(tuple(members), scores, prepared)


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
