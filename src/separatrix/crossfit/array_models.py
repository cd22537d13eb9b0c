"""Base models that are nothing but arrays when fitted: logistic regression and a network.

They take a matrix of numbers in which NaN is a missing value. Boosted trees are in `boosted`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import Networks

__all__ = ["ArrayModel", "Logistic", "Matrix", "Network", "as_matrix"]

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]


class ArrayModel(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that is nothing but arrays when fitted; copies and pickles see only these."""

    kind: ClassVar[str]

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""

    @abstractmethod
    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """The inverse of `arrays`, checked; gives the number of labels."""

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], classes: ArrayLike | None = None) -> Self:
        """The model that `arrays` described; `classes` are the labels, by default 0, 1, …"""
        model = cls()
        n_labels = model._set(arrays)
        model.classes_ = np.arange(n_labels) if classes is None else np.asarray(classes)
        if model.classes_.shape != (n_labels,):
            raise InputError(
                f"`classes` must name the {n_labels} labels of this model, got {classes!r}."
            )
        return model

    @abstractmethod
    def _proba(self, rows: Matrix) -> Array:
        """P(Y | x) of a model that knows at least two labels."""

    def predict_proba(self, X: Any) -> Array:
        """P(Y | x), columns as in `classes_`."""
        rows = as_matrix(X, self.n_features_in_)
        return self._proba(rows) if len(self.classes_) > 1 else np.ones((len(rows), 1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return labels

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"params": self.get_params()}
        if hasattr(self, "classes_"):
            state |= {"arrays": self.arrays(), "classes": self.classes_}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["params"])
        if "arrays" in state:
            self._set(state["arrays"])
            self.classes_ = state["classes"]


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
        mean, scale = _standard(rows)
        self.mean_ = mean
        if len(self.classes_) < 2:
            self.weight_, self.bias_ = np.zeros((rows.shape[1], 1)), np.zeros(1)
            return self
        # few steps of a second-order method; lbfgs where the Hessian would be large
        solver = "newton-cholesky" if rows.shape[1] * len(self.classes_) <= 200 else "lbfgs"
        model = LogisticRegression(C=self.C, solver=solver, max_iter=2_000)
        model.fit(_standardised(rows, mean, scale), labels, sample_weight)
        weight, bias = model.coef_.T / scale[:, None], model.intercept_
        bias = bias - mean @ weight
        if len(self.classes_) == 2:
            weight = np.hstack([np.zeros_like(weight), weight])
            bias = np.append(0.0, bias)
        self.weight_, self.bias_ = weight, bias
        return self

    def _proba(self, rows: Matrix) -> Array:
        known = np.where(np.isnan(rows), self.mean_, rows)
        return np.asarray(softmax(known @ self.weight_ + self.bias_, axis=1))

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


class Network(ArrayModel):
    """A network of one or two hidden layers on standardised columns and their ramps.

    The `erm` of the benchmark takes at least 540 updates, which on 700 rows is far too many: its
    log-loss there is 4 where 60 to 100 updates have 0.3. Here the updates follow the rows.

    Args:
        random_state: seed of weights and batches.
    """

    kind: ClassVar[str] = "network"

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> Network:
        """Learn from numbers X and labels y."""
        return self.fit_folds(X, y, [None], sample_weight)[0]

    def fit_folds(
        self,
        X: Any,
        y: ArrayLike,
        rows: Sequence[NDArray[Any] | None],
        sample_weight: NDArray[Any] | None = None,
    ) -> list[Network]:
        """One network for each set of training rows (None: all), trained as one stack."""
        matrix, labels = as_matrix(X), np.asarray(y)
        classes, codes = np.unique(labels, return_inverse=True)
        mean, scale = _standard(matrix)
        trained: Networks | None = None
        if len(classes) > 1:
            features = _standardised(matrix, mean, scale)
            groups = np.zeros(len(codes), dtype=np.intp)  # the groups are columns of X, if at all
            sample = Sample(features, codes, groups, len(classes), 1, sample_weight)
            lanes = [Lane(0.0, own, self.random_state) for own in rows]
            size = min(len(codes) if own is None else len(own) for own in rows)
            fitted = methods.fit("erm", sample, lanes, recipe=_recipe(size), use_sensitive=False)
            assert isinstance(fitted, Networks)
            if set(fitted.status) != {"ok"}:
                raise InputError("The training of the network diverged. Use another base model.")
            trained = fitted.unscaled(mean, scale)
        out = []
        for i in range(len(rows)):
            model = Network(self.random_state)
            model.classes_, model.n_features_in_, model.mean_ = classes, matrix.shape[1], mean
            model.networks_ = None if trained is None else trained[[i]]
            out.append(model)
        self.__dict__.update(out[0].__dict__)
        return [self, *out[1:]]

    def _proba(self, rows: Matrix) -> Array:
        assert self.networks_ is not None
        known = np.where(np.isnan(rows), self.mean_, rows)
        q = self.networks_.posteriors(known)[0].astype(np.float64)
        return np.asarray(q / q.sum(1, keepdims=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        own = {} if self.networks_ is None else self.networks_.arrays()
        return own | {"mean": self.mean_}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.mean_ = arrays["mean"]
        self.n_features_in_ = len(self.mean_)
        self.networks_ = Networks.restore(arrays) if "weight_0" in arrays else None
        return 1 if self.networks_ is None else self.networks_.weights[-1].shape[2]


def as_matrix(X: Any, columns: int | None = None) -> Matrix:
    """A matrix of floats; NaN is a missing value, an infinite one is refused."""
    rows = np.asarray(X)
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if rows.ndim != 2 or columns not in (None, rows.shape[1]):
        wanted = "its columns" if columns is None else f"{columns} columns"
        raise InputError(f"`X` must be a matrix with {wanted}, got shape {rows.shape}.")
    if np.isinf(rows).any():
        row = int(np.flatnonzero(np.isinf(rows).any(1))[0])
        raise InputError(
            f"`X` holds an infinite value in row {row:,}. Replace it, or make it missing (NaN)."
        )
    return rows


def _standard(rows: Matrix) -> tuple[Array, Array]:
    """Mean and spread of each column over its known values; 0 and 1 for 0/1 columns.

    Scaled by its spread, a rare level would weigh as much as a frequent one.
    """
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, rows, 0.0).sum(0, dtype=np.float64) / count
    spread = np.sqrt(np.where(known, (rows - mean) ** 2, 0.0).sum(0) / count)
    flat = spread <= 1e-6 * np.maximum(1.0, np.abs(mean))
    binary = ((rows == 0) | (rows == 1) | ~known).all(0)
    return np.where(binary, 0.0, mean), np.where(flat | binary, 1.0, spread)


def _standardised(rows: Matrix, mean: Array, scale: Array) -> Array:
    """Columns of mean 0 and spread 1; a missing value is 0."""
    return np.where(np.isnan(rows), 0.0, (rows - mean) / scale)


def _recipe(rows: int) -> Recipe:
    """About eight epochs, at least 100 updates; few rows get a smaller network and batches."""
    common: dict[str, Any] = {
        "epochs": 8, "min_steps": 100, "learning_rate": 3e-3, "cosine": True, "piecewise_linear": 8
    }  # fmt: skip
    if rows < 1_500:
        return Recipe(hidden=(32,), batch=128, **(common | {"piecewise_linear": 0}))
    return Recipe(**common)
