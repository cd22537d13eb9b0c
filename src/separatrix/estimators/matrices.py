"""What the base models share: a checked matrix, and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError

__all__ = ["as_matrix", "constant", "softmax", "standard", "standardised"]

Array = NDArray[np.float64]


def as_matrix(X: Any, columns: int | None = None) -> NDArray[np.float32]:
    """A float32 matrix; NaN is a missing value, an infinite one is refused."""
    rows = np.asarray(X, dtype=np.float32)
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


def standard(rows: NDArray[np.float32]) -> tuple[Array, Array]:
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


def standardised(rows: NDArray[np.float32], mean: Array, scale: Array) -> Array:
    """Columns of mean 0 and spread 1; a missing value is 0."""
    return np.where(np.isnan(rows), 0.0, (rows - mean) / scale)
