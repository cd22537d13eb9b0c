"""What the base models share: a checked matrix, probabilities, and being arrays when fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from separatrix.errors import InputError

__all__ = ["ArrayModel", "Matrix", "as_matrix", "constant", "softmax", "standard", "standardised"]

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


def constant(n: int) -> Array:
    """The probabilities of a model that has seen one label only."""
    return np.ones((n, 1))


def softmax(logits: Array) -> Array:
    """Rows that sum to one."""
    e = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def standard(rows: Matrix) -> tuple[Array, Array]:
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


def standardised(rows: Matrix, mean: Array, scale: Array) -> Array:
    """Columns of mean 0 and spread 1; a missing value is 0."""
    return np.where(np.isnan(rows), 0.0, (rows - mean) / scale)
