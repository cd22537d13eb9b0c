"""Numbers per row: checked weights, posteriors and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.values import as_array, refuse_missing, row_numbers
from separatrix.core.numbers import as_floats
from separatrix.errors import InputError

__all__ = [
    "binary_score", "check_posteriors", "check_weight", "posterior_matrix", "quantity_column",
    "scaled_weight", "score_column",
]  # fmt: skip

Array = NDArray[np.float64]
_LARGEST = 1e100  # squares of such numbers, and sums of these, are finite


def check_weight(sample_weight: ArrayLike, n: int) -> Array:
    """Weights as float64: finite, not negative, not all zero; divided by the largest."""
    weight, _ = scaled_weight(sample_weight, n)
    assert weight is not None
    return weight


def scaled_weight(sample_weight: ArrayLike | None, n: int) -> tuple[Array | None, float]:
    """`check_weight`, and the weight that they were divided by; (None, 1) without weights."""
    if sample_weight is None:
        return None, 1.0
    w = _numbers(sample_weight, "sample_weight", f"got {type(sample_weight).__name__}")
    w = w.astype(np.float64)
    if w.shape != (n,):
        raise InputError(
            f"`sample_weight` must have one value per row, shape ({n},), got shape {w.shape}."
        )
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        raise InputError(
            f"`sample_weight` must be finite and not negative, got {w[bad][0]} in row "
            f"{row_numbers(bad)}."
        )
    if not 0 < w.sum() < np.inf:
        raise InputError(
            "`sample_weight` is zero in every row. Give at least one row a positive weight."
        )
    # only ratios matter, and squares of the largest floats overflow
    return np.asarray(w / w.max()), float(w.max())


def posterior_matrix(q: Any, name: str) -> NDArray[Any]:
    """Numbers of shape (n, K), n ≥ 1, K ≥ 2; `check_posteriors` looks at their values."""
    p = _numbers(q, name, "one row per person and one column per label")
    if p.ndim != 2 or p.shape[1] < 2:
        raise InputError(
            f"`{name}` must have one column per label, shape (n, K) with K ≥ 2, got shape "
            f"{p.shape}. From P(second label) make two columns: np.column_stack([1 - p, p])."
        )
    if not p.size:
        raise InputError(f"There are no rows: `{name}` is empty.")
    return p


def check_posteriors(q: Any, name: str, first: int = 0) -> Array:
    """Posteriors as float64 (n, K): finite, in [0, 1], rows summing to one within 1e-6.

    `first` is the number of the first row, where `q` is a part of more rows.
    """
    p = posterior_matrix(q, name)
    low, high = p.min(), p.max()
    if not (low >= -1e-6 and high <= 1 + 1e-6):  # also true for NaN
        outside = ~((p >= -1e-6) & (p <= 1 + 1e-6))
        raise InputError(
            f"`{name}` must hold probabilities between 0 and 1, got {p[outside][0]} in row "
            f"{row_numbers(outside.max(1), first)}. Logits need a softmax first."
        )
    p = np.clip(p, 0.0, 1.0, dtype=np.float64)
    total = p @ np.ones(p.shape[1])  # a sum along so short an axis takes five times as long
    bad = np.abs(total - 1.0) > 1e-6
    if bad.any():
        raise InputError(
            f"Each row of `{name}` must sum to one (within 1e-6), got {total[bad][0]:.7g} in row "
            f"{row_numbers(bad, first)}. Divide the rows by their sums if that is what you mean."
        )
    return np.asarray(p / total[:, None])


def binary_score(scores: ArrayLike, name: str = "scores") -> Array:
    """One score per row: a column of scores, or the second of two columns of posteriors."""
    s = _numbers(scores, name, "one score per row").astype(np.float64)
    if s.ndim == 2 and s.shape[1] == 2:
        s = check_posteriors(s, name)[:, 1]
    if s.ndim != 1:
        raise InputError(
            f"`{name}` must be one score per row (n,) or two posteriors (n, 2), got shape "
            f"{s.shape}."
        )
    if not np.isfinite(s).all():
        raise InputError(
            f"`{name}` has {int((~np.isfinite(s)).sum()):,} values that are not finite."
        )
    return np.asarray(s)


def _numbers(values: Any, name: str, what: str) -> NDArray[Any]:
    """Numbers of any kind; `what` says in an error what they should be."""
    try:
        x = as_array(values, name)
        return x if x.dtype.kind in "fiub" else as_floats(x, name)
    except InputError as error:
        raise InputError(f"{str(error).rstrip('.')}; pass numbers, {what}.") from error


def score_column(values: Any, name: str) -> NDArray[Any]:
    """One column of finite numbers."""
    s = _numbers(values, name, "one per row, since a score ranks the rows")
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise InputError(
            f"`{name}` must be one column of numbers, got shape {s.shape}. For posteriors pass the "
            f"column of the second label: `{name}[:, 1]`."
        )
    if s.dtype == np.float16:
        s = s.astype(np.float32)
    if s.dtype.kind == "f" and not np.isfinite([s.min(initial=0.0), s.max(initial=0.0)]).all():
        refuse_missing(np.isnan(s), name)
        row = int(np.flatnonzero(np.isinf(s))[0])
        raise InputError(
            f"`{name}` holds an infinite value in row {row:,}. Clip it to the largest finite score."
        )
    return s


def quantity_column(values: Any, name: str) -> Array:
    """One column of finite numbers that may be added and squared.

    >>> quantity_column([1, 2.5], "y")
    array([1. , 2.5])
    """
    x = score_column(values, name).astype(np.float64)
    large = np.abs(x) > _LARGEST
    if large.any():
        raise InputError(
            f"`{name}` holds {x[large][0]:g} in row {row_numbers(large)}; a quantity is at most "
            f"{_LARGEST:g}. Measure it in other units, or clip it."
        )
    return x
