"""Rows of any kind, as a classifier takes them: some rows, some columns, the group among them.

A column *holds* the group if it has the name of a sensitive column, if it is that column, or if the
group decides its value: a code, an indicator, one of several sensitive columns that were joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from separatrix.columns.frames import as_frame, column_names, named_columns
from separatrix.errors import InputError

__all__ = [
    "as_rows", "by_name", "has_text", "holding_columns", "listed_names", "some_rows",
    "with_group", "without_columns",
]  # fmt: skip

_FIRST = 500  # rows that a column is compared on before all of them are


def as_rows(X: Any) -> Any:
    """Rows that can be taken by number: a CSR matrix, or an array.

    Text among numbers stays text, and numbers stay numbers.
    """
    if issparse(X):
        return X.tocsr()
    try:
        rows = np.asarray(X)
        mixed = rows.dtype.kind in "US" and rows.ndim == 2 and not isinstance(X, np.ndarray)
        return np.asarray(X, dtype=object) if mixed else rows
    except ValueError as error:  # rows of different lengths
        raise InputError(f"`X` is no table: {error}.") from error


def by_name(X: Any) -> bool:
    """Whether rows are a mapping of columns."""
    return isinstance(X, Mapping) and not issparse(X)  # one kind of sparse matrix is a mapping


def has_text(X: Any) -> bool:
    """Whether rows are columns by name, and not all of them numbers."""
    if by_name(X):
        return True
    frame = as_frame(X, "X")
    if not isinstance(frame, nw.DataFrame):
        return False
    return any(not (d.is_numeric() or d == nw.Boolean) for d in frame.schema.values())


def some_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """These rows of a matrix, a frame or columns by name."""
    if by_name(X):
        return {name: _safe_indexing(column, rows) for name, column in X.items()}
    return _safe_indexing(X, rows)


def without_columns(X: Any, places: Sequence[int]) -> Any:
    """The rows without the columns at these places, as the same kind of table."""
    if by_name(X):
        return {k: column for i, (k, column) in enumerate(X.items()) if i not in places}
    frame = as_frame(X, "X")
    if frame is not None:
        names = frame.collect_schema().names()
        if nw.dependencies.is_pandas_dataframe(X):  # with its own names, which may be no text
            return X.iloc[:, [i for i in range(len(names)) if i not in places]]
        kept = [name for i, name in enumerate(names) if i not in places]
        return frame.select(kept).to_native()
    rows = as_rows(X)
    return rows[:, [i for i in range(rows.shape[1]) if i not in places]]


def with_group(rows: Any, z: NDArray[np.intp], count: int) -> NDArray[Any]:
    """A matrix with one 0/1 column per group in front."""
    return np.hstack([np.eye(count, dtype=np.float32)[z], np.asarray(rows)])


def holding_columns(
    X: Any, z: NDArray[np.intp], sensitive: Mapping[str, Any], named: Any = None
) -> tuple[int, ...]:
    """The places of the columns of X that hold the group.

    Args:
        X: a matrix, a frame or columns by name.
        z: codes of the groups.
        sensitive: the sensitive columns by name, as they were passed.
        named: `sensitive_columns`, which hold the group whatever they say.

    >>> X = np.array([[0.3, 1, 5], [0.1, 0, 7], [0.2, 1, 5], [0.9, 0, 7]])
    >>> holding_columns(X, np.array([1, 0, 1, 0]), {})
    (1, 2)
    """
    names, columns = _columns(X)
    given = [] if named is None else listed_names(named)
    if names:
        given_names = {*sensitive, *map(str, given)}
        given_places = {i for i, name in enumerate(names) if name in given_names}
    else:
        given_places = {int(place) % len(columns) for place in given}
    raw = [_values(one) for one in sensitive.values()]
    first = np.unique(z, return_index=True)[1]
    place = np.searchsorted(z[first], z)
    found = []
    for i, column in enumerate(columns):
        if i in given_places or _recodes(_values(column), raw, first, place):
            found.append(i)
    return tuple(found)


def _columns(X: Any) -> tuple[list[str], list[Any]]:
    """Names, none for a matrix, and columns; nothing for rows that are no table."""
    if by_name(X) or as_frame(X, "X") is not None:
        names = column_names(X, "X")
        return names, list(named_columns(X, names, "X").values())
    if issparse(X):
        by_column = X.tocsc()
        return [], [by_column[:, i].toarray().ravel() for i in range(X.shape[1])]
    rows = as_rows(X)
    return [], [] if rows.ndim != 2 else list(rows.T)


def _values(column: Any) -> NDArray[Any]:
    known = nw.from_native(column, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series):
        return known.to_numpy()
    if isinstance(column, list) and any(isinstance(one, list | tuple) for one in column):
        values = np.empty(len(column), dtype=object)  # groups that are tuples stay whole
        values[:] = column
        return values
    return np.asarray(column)


def _recodes(
    column: NDArray[Any], raw: Sequence[NDArray[Any]], first: NDArray[np.intp], place: NDArray[Any]
) -> bool:
    """Whether a column is a sensitive one, or is decided by the group and tells groups apart."""
    one_each = column[first]  # the value in each group's first row
    if bool((one_each[place[:_FIRST]] == column[:_FIRST]).all()):
        told = any(one_each[0] != other for other in one_each[1:])
        return told and bool((one_each[place] == column).all())
    same = [one for one in raw if one.shape == column.shape]
    return any(
        bool((one[:_FIRST] == column[:_FIRST]).all()) and bool((one == column).all())
        for one in same
    )


def listed_names(names: Any) -> list[Any]:
    """One name or several, as a list."""
    return list(names) if isinstance(names, list | tuple | np.ndarray) else [names]
