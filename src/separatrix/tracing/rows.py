"""The caller's X, y and groups as `Data`: columns with names, so that raw rows are recognised when
the model is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix import datasets
from separatrix.datasets import Data
from separatrix.errors import InputError

__all__ = ["as_data"]


def as_data(X: Any, y: Any, sensitive_features: Any) -> Data:
    """Columns, labels and groups as one table with names, so that raw rows can be recognised
    later.
    """
    groups = _named_columns(sensitive_features, "sensitive")
    (target, labels), *more = _named_columns(y, "target").items()
    if more:
        raise InputError(
            f"`y` must be one column, got {1 + len(more)}: {target}, "
            f"{', '.join(name for name, _ in more)}."
        )
    if isinstance(X, np.memmap):
        return _matrix_data(X, labels, groups)
    features = _named_columns(X, "x")
    if target in features or target in groups:
        raise InputError(
            f"The label column {target!r} is also in `X` or in `sensitive_features`. Leave it out "
            f"there."
        )
    table = {**features, **groups, target: labels}
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{what} {n:,}" for what, n in list(lengths.items())[:5])
        raise InputError(
            f"`X`, `y` and `sensitive_features` need the same number of rows, got {sizes}."
        )
    return datasets.from_frame(table, target=target, sensitive=list(groups), name="data")


def _matrix_data(X: NDArray[Any], labels: Any, groups: Mapping[str, Any]) -> Data:
    """Rows that stay on disk: used as they are, without preprocessing."""
    few = {f"{name}": values for name, values in groups.items()} | {
        "(target)": labels,
        "(row)": np.arange(len(X)) % 2,
    }
    coded = datasets.from_frame(few, target="(target)", sensitive=list(groups), name="data")
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    return Data(
        coded.y, coded.z, coded.labels, coded.groups, coded.card, matrix=X, matrix_names=names
    )


def _named_columns(values: Any, default: str) -> dict[str, Any]:
    """Columns by name of a dataframe, a series, a mapping or an array."""
    if isinstance(values, Mapping):
        return {str(name): column for name, column in values.items()}
    native = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        return {name: native[name].to_list() if not native[name].dtype.is_numeric() else native[name].to_numpy()
                for name in native.columns}  # fmt: skip
    if isinstance(native, nw.Series):
        name = native.name if isinstance(native.name, str) and native.name else default
        return {name: native.to_numpy() if native.dtype.is_numeric() else native.to_list()}
    array = np.asarray(values)
    if array.ndim == 1:
        return {default: array}
    if array.ndim != 2:
        raise InputError(
            f"`{default}` must have one row per person, got an array of shape {array.shape}."
        )
    if array.shape[1] == 1 and default != "x":
        return {default: array[:, 0]}
    return {f"{default}{i}": array[:, i] for i in range(array.shape[1])}
