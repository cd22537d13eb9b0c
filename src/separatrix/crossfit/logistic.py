"""Logistic regression on standardised columns, as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from separatrix.crossfit.matrices import (
    ArrayModel,
    as_matrix,
    constant,
    softmax,
    standard,
    standardised,
)
from separatrix.errors import InputError

__all__ = ["Logistic"]

Array = NDArray[np.float64]


class Logistic(ArrayModel):
    """Logistic regression; columns are standardised, a missing value takes its column's mean.

    Args:
        C: inverse strength of the ridge penalty on standardised columns.

    >>> X = np.array([[0.0], [1.0], [2.0], [np.nan]]); y = ["no", "no", "yes", "yes"]
    >>> Logistic().fit(X, y).predict([[-1.0], [5.0]]).tolist()
    ['no', 'yes']
    """

    kind: ClassVar[str] = "logistic"

    def __init__(self, C: float = 0.3) -> None:
        self.C = C

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> Logistic:
        """Learn from numbers X and labels y."""
        rows, labels = as_matrix(X), np.asarray(y)
        self.classes_ = np.unique(labels)
        self.n_features_in_ = rows.shape[1]
        mean, scale = standard(rows)
        self.mean_ = mean
        if len(self.classes_) < 2:
            self.weight_, self.bias_ = np.zeros((rows.shape[1], 1)), np.zeros(1)
            return self
        # few steps of a second-order method; lbfgs where the Hessian would be large
        solver = "newton-cholesky" if rows.shape[1] * len(self.classes_) <= 200 else "lbfgs"
        model = LogisticRegression(C=self.C, solver=solver, max_iter=2_000)
        model.fit(standardised(rows, mean, scale), labels, sample_weight)
        weight, bias = model.coef_.T / scale[:, None], model.intercept_
        bias = bias - mean @ weight
        if len(self.classes_) == 2:
            weight = np.hstack([np.zeros_like(weight), weight])
            bias = np.append(0.0, bias)
        self.weight_, self.bias_ = weight, bias
        return self

    def predict_proba(self, X: Any) -> Array:
        """P(Y | x), columns as in `classes_`."""
        rows = as_matrix(X, self.n_features_in_).astype(np.float64)
        if len(self.classes_) < 2:
            return constant(len(rows))
        return softmax(np.where(np.isnan(rows), self.mean_, rows) @ self.weight_ + self.bias_)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {"weight": self.weight_, "bias": self.bias_, "mean": self.mean_}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.weight_, self.bias_, self.mean_ = (arrays[k] for k in ("weight", "bias", "mean"))
        self.n_features_in_ = len(self.mean_)
        if self.weight_.shape != (*self.mean_.shape, *self.bias_.shape) or self.bias_.ndim != 1:
            raise InputError(
                f"The arrays of this logistic regression are damaged: its weights have the shape "
                f"{self.weight_.shape}, for {self.mean_.shape} columns and {self.bias_.shape} "
                "labels."
            )
        return len(self.bias_)
