"""Numbers per row: checked weights, posteriors, scores, and the columns of an audit of quantities.

What a column of quantities means is said, not guessed: a target is "labels" or "continuous", an
attribute is "groups" or "continuous".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.features import as_numbers
from separatrix.columns.groups import as_groups, bin_labels, group_columns, quantile_edges
from separatrix.columns.values import Coded, Levels, as_array, as_levels, check_lengths, refuse_missing, row_numbers
from separatrix.core.numbers import as_floats
from separatrix.errors import InputError

Names = tuple[str, str, str]
Target = Literal["labels", "continuous"]
Attribute = Literal["groups", "continuous"]
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
    w = _numbers(sample_weight, "sample_weight").astype(np.float64)
    if w.shape != (n,):
        raise InputError(f"`sample_weight` must have one value per row, shape ({n},), got shape {w.shape}.")
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        raise InputError(f"`sample_weight` must be finite and not negative, got {w[bad][0]} in row {row_numbers(bad)}.")
    if not 0 < w.sum() < np.inf:
        raise InputError("`sample_weight` is zero in every row. Give at least one row a positive weight.")
    # only ratios matter, and squares of the largest floats overflow
    return np.asarray(w / w.max()), float(w.max())


def posterior_matrix(q: Any, name: str) -> NDArray[Any]:
    """Numbers of shape (n, K), n ≥ 1, K ≥ 2; `check_posteriors` looks at their values."""
    p = _numbers(q, name)
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
        row = row_numbers(outside.max(1), first)
        raise InputError(f"`{name}` must hold probabilities, got {p[outside][0]} in row {row}. Logits need a softmax.")
    p = np.clip(p, 0.0, 1.0, dtype=np.float64)
    total = p @ np.ones(p.shape[1])  # a sum along so short an axis takes five times as long
    bad = np.abs(total - 1.0) > 1e-6
    if bad.any():
        row = row_numbers(bad, first)
        raise InputError(f"Each row of `{name}` must sum to one (within 1e-6), got {total[bad][0]:.7g} in row {row}.")
    return np.asarray(p / total[:, None])


def binary_score(scores: ArrayLike, name: str = "scores") -> Array:
    """One score per row: a column of scores, or the second of two columns of posteriors."""
    s = _numbers(scores, name)
    if s.ndim == 2 and s.shape[1] == 2:
        return check_posteriors(s, name)[:, 1]
    return score_column(s, name).astype(np.float64)


def _numbers(values: Any, name: str) -> NDArray[Any]:
    """Numbers of any kind and shape; those that numpy has keep their type."""
    x = as_array(values, name)
    return x if x.dtype.kind in "fiub" else as_floats(x, name)


def score_column(values: Any, name: str) -> NDArray[Any]:
    """One column of finite numbers."""
    s = _numbers(values, name)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise InputError(f"`{name}` must be one column of numbers, got shape {s.shape}; of posteriors `{name}[:, 1]`.")
    if s.dtype == np.float16:
        s = s.astype(np.float32)
    if s.dtype.kind == "f" and not np.isfinite([s.min(initial=0.0), s.max(initial=0.0)]).all():
        refuse_missing(np.isnan(s), name)
        row = int(np.flatnonzero(np.isinf(s))[0])
        raise InputError(f"`{name}` holds an infinite value in row {row:,}. Clip it to the largest finite score.")
    return s


def quantity_column(values: Any, name: str) -> Array:
    """One column of finite numbers that may be added and squared.

    >>> quantity_column([1, 2.5], "y")
    array([1. , 2.5])
    """
    x = score_column(values, name).astype(np.float64)
    large = np.abs(x) > _LARGEST
    if large.any():
        row = row_numbers(large)
        raise InputError(f"`{name}` holds {x[large][0]:g} in row {row}, above {_LARGEST:g}. Change its units, or clip.")
    return x


@dataclass(frozen=True, eq=False)
class Quantities:
    """The rows of an audit in which the outcome or the attribute is a number.

    Args:
        y: the outcome, or the code of its label.
        labels: of the outcome; None where it is a number.
        u: the prediction; codes where it is a label.
        group: each row's group, or quarter of a continuous attribute.
        z: the attribute where it is continuous.
        weight: of each row, positive; None for one each.
    """

    y: Array
    labels: Levels | None
    u: Array
    group: Coded
    z: Array | None
    weight: Array | None


def quantities(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    sample_weight: ArrayLike | None = None,
    target: Target = "continuous",
    sensitive: Attribute = "groups",
    names: Names = ("y_true", "sensitive_features", "y_pred"),
) -> Quantities:
    """Columns of anything as numbers, labels and groups; rows of weight zero are left out.

    >>> rows = quantities([1.5, 2.0], [1, 2], sensitive_features=["f", "m"])
    >>> rows.y, rows.group.levels
    (array([1.5, 2. ]), ('f', 'm'))
    """
    outcome: Any = (as_levels if target == "labels" else _finite_numbers)(y_true, names[0])
    u = _predictions(y_pred, names[2], target == "labels")
    z: Any = (as_groups if sensitive == "groups" else _attribute)(sensitive_features, names[1])
    n = check_lengths(dict(zip(names, (outcome, z, u), strict=True)))
    weight = None if sample_weight is None else check_weight(sample_weight, n)
    if weight is not None and not weight.all():
        some = weight > 0
        outcome, z, u, weight = outcome[some], z[some], u[some], weight[some]
    labels, y = None, outcome
    if isinstance(outcome, Coded):
        codes, labels = outcome.compact()
        y = codes.astype(np.float64)
    if y.min() == y.max():
        value = y[0] if labels is None else labels[0]
        raise InputError(f"`{names[0]}` has one value only ({value!r}): nothing can be predicted.")
    group = z.compact() if isinstance(z, Coded) else _quarters(z, names[1])
    if len(group.levels) < 2:
        raise InputError(f"There is only one group ({group.levels[0]!r}): pass `{names[1]}` with at least two.")
    return Quantities(y, labels, u, group, None if isinstance(z, Coded) else z, weight)


def _finite_numbers(values: Any, name: str) -> Array:
    column = as_numbers(values, name) if isinstance(values, Coded) else values
    return score_column(column, name).astype(np.float64)


def _predictions(values: Any, name: str, labelled: bool) -> Array:
    """One number per row; labels of a labelled target as codes in their order."""
    x = values.codes if isinstance(values, Coded) else as_array(values, name)
    if x.ndim == 2 and x.shape[1] > 1:
        raise InputError(f"`{name}` must be one column, got shape {x.shape}; of posteriors, such as `{name}[:, 1]`.")
    if labelled and (isinstance(values, Coded) or x.dtype.kind not in "fiub"):
        return as_levels(values, name).codes.astype(np.float64)
    return _finite_numbers(values, name)


def _attribute(values: Any, name: str) -> Array:
    columns = {name: values} if isinstance(values, Coded) else group_columns(values, name)
    if len(columns) > 1:
        raise InputError(f"`{name}` has {len(columns)} columns ({', '.join(columns)}); audit numeric ones one by one.")
    ((column_name, column),) = columns.items()
    return _finite_numbers(column, column_name)


def _quarters(z: Array, name: str) -> Coded:
    if z.min() == z.max():
        raise InputError(f"`{name}` has one value only ({z[0]:g}): there is nothing to compare.")
    readable = sorted({float(f"{edge:.4g}") for edge in quantile_edges(z)})
    inner = [edge for edge in readable if z.min() < edge <= z.max()] or quantile_edges(z)
    return Coded(np.searchsorted(inner, z, "right"), bin_labels(inner)).compact()
