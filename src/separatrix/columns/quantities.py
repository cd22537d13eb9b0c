"""Outcomes, predictions and attributes that are numbers: one door for the audit of quantities.

What a column means is said, not guessed: a target is "labels" or "continuous", an attribute is
"groups" or "continuous".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.bins import bin_labels, quantile_edges
from separatrix.columns.features import as_numbers
from separatrix.columns.groups import as_groups, group_columns
from separatrix.columns.scores import check_weight, score_column
from separatrix.columns.values import Coded, Levels, as_array, as_levels, check_lengths
from separatrix.errors import InputError

__all__ = ["Attribute", "Quantities", "Target", "quantities"]

Array = NDArray[np.float64]
Names = tuple[str, str, str]
Target = Literal["labels", "continuous"]
Attribute = Literal["groups", "continuous"]


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
    labels = as_levels(y_true, names[0]) if target == "labels" else None
    y = _numbers(y_true, names[0]) if labels is None else labels.codes.astype(np.float64)
    u = _predictions(y_pred, names[2], labels is not None)
    z = _attribute(sensitive_features, names[1]) if sensitive == "continuous" else None
    group = as_groups(sensitive_features, names[1]) if z is None else None
    n = check_lengths(dict(zip(names, (y, z if group is None else group, u), strict=True)))
    weight = None if sample_weight is None else check_weight(sample_weight, n)
    if weight is not None and not weight.all():
        kept = weight > 0
        y, u, weight = y[kept], u[kept], weight[kept]
        if labels is not None:
            labels = labels[kept].compact()
            y = labels.codes.astype(np.float64)
        z, group = None if z is None else z[kept], None if group is None else group[kept].compact()
    if y.min() == y.max():
        value = y[0] if labels is None else labels.levels[int(y[0])]
        raise InputError(f"`{names[0]}` has one value only ({value!r}): nothing can be predicted.")
    if group is None:
        assert z is not None
        group = _quarters(z, names[1])
    if len(group.levels) < 2:
        raise InputError(
            f"There is only one group ({group.levels[0]!r}): separation compares groups. Pass a "
            f"`{names[1]}` column with at least two."
        )
    return Quantities(y, None if labels is None else labels.levels, u, group, z, weight)


def _numbers(values: Any, name: str) -> Array:
    column = as_numbers(values, name) if isinstance(values, Coded) else values
    return score_column(column, name).astype(np.float64)


def _predictions(values: Any, name: str, labelled: bool) -> Array:
    """One number per row; labels of a labelled target as codes in their order."""
    x = values.codes if isinstance(values, Coded) else as_array(values, name)
    if x.ndim == 2 and x.shape[1] > 1:
        raise InputError(
            f"`{name}` must be one column: a number, or a label of a labelled target; got shape "
            f"{x.shape}. Of posteriors pass one column, such as `{name}[:, 1]`."
        )
    if labelled and (isinstance(values, Coded) or x.dtype.kind not in "fiub"):
        return as_levels(values, name).codes.astype(np.float64)
    return _numbers(values, name)


def _attribute(values: Any, name: str) -> Array:
    columns = {name: values} if isinstance(values, Coded) else group_columns(values, name)
    if len(columns) > 1:
        raise InputError(
            f"`{name}` has {len(columns)} columns ({', '.join(columns)}), but a continuous "
            "attribute is one. Audit them one by one."
        )
    ((own, column),) = columns.items()
    return _numbers(column, own)


def _quarters(z: Array, name: str) -> Coded:
    if z.min() == z.max():
        raise InputError(f"`{name}` has one value only ({z[0]:g}): there is nothing to compare.")
    readable = sorted({float(f"{edge:.4g}") for edge in quantile_edges(z)})
    inner = [edge for edge in readable if z.min() < edge <= z.max()] or quantile_edges(z)
    return Coded(np.searchsorted(inner, z, "right"), bin_labels(inner)).compact()
