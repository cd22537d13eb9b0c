"""Where the group is in the rows: columns named by the user, by the group's own name, or recodes.

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

from separatrix.columns.frames import as_frame, column_names, named_columns
from separatrix.errors import InputError

__all__ = ["SensitiveColumns", "holding_columns", "without_columns"]

_FIRST = 500  # rows that a column is compared on before all of them are


class SensitiveColumns:
    """Groups from columns of X, so that `fit(X, y)` and `predict(X)` need nothing else."""

    sensitive_columns: Any

    def _sensitive(self, X: Any, sensitive_features: Any) -> Any:
        """The groups that were passed, or the columns of X that `sensitive_columns` names."""
        if self.sensitive_columns is None:
            return sensitive_features
        if sensitive_features is not None:
            raise InputError(
                f"The groups are the columns {self.sensitive_columns!r} of `X` "
                "(`sensitive_columns`): leave `sensitive_features` out."
            )
        names = _listed(self.sensitive_columns)
        if (isinstance(X, Mapping) and not issparse(X)) or as_frame(X, "X") is not None:
            return named_columns(X, [str(name) for name in names], "X")
        rows = X if issparse(X) else _matrix(X)
        width = rows.shape[1] if rows.ndim == 2 else 0
        for name in names:
            if not isinstance(name, int | np.integer) or not -width <= name < width:
                raise InputError(
                    f"`sensitive_columns` names {name!r}; a matrix of {width} columns has the "
                    f"columns 0 to {width - 1}, and only a frame has names."
                )
        columns = {f"column {name}": rows[:, name] for name in names}
        return {name: _dense(one) for name, one in columns.items()}


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
    given = set(sensitive) | ({str(one) for one in _listed(named)} if named is not None else set())
    if named is not None and not names:
        given_places = {int(one) % len(columns) for one in _listed(named)}
    else:
        given_places = {i for i, name in enumerate(names) if name in given}
    raw = [_values(one) for one in sensitive.values()]
    first = np.unique(z, return_index=True)[1]
    place = np.searchsorted(z[first], z)
    found = []
    for i, column in enumerate(columns):
        if i in given_places or _recodes(_values(column), raw, first, place):
            found.append(i)
    return tuple(found)


def without_columns(X: Any, places: Sequence[int]) -> Any:
    """The rows without these columns, as the same kind of table."""
    if isinstance(X, Mapping) and not issparse(X):
        return {name: column for i, (name, column) in enumerate(X.items()) if i not in places}
    frame = as_frame(X, "X")
    if frame is not None:
        names = frame.collect_schema().names()
        if nw.dependencies.is_pandas_dataframe(X):  # with its own names, which may be no text
            return X.iloc[:, [i for i in range(len(names)) if i not in places]]
        return frame.select([n for i, n in enumerate(names) if i not in places]).to_native()
    kept = [i for i in range(X.shape[1]) if i not in places]
    return X.tocsc()[:, kept].tocsr() if issparse(X) else np.asarray(X)[:, kept]


def _columns(X: Any) -> tuple[list[str], list[Any]]:
    """Names, none for a matrix, and columns; nothing for rows that are no table."""
    if (isinstance(X, Mapping) and not issparse(X)) or as_frame(X, "X") is not None:
        names = column_names(X, "X")
        return names, list(named_columns(X, names, "X").values())
    if issparse(X):
        by_column = X.tocsc()
        return [], [by_column[:, i].toarray().ravel() for i in range(X.shape[1])]
    rows = _matrix(X)
    return [], [] if rows.ndim != 2 else list(rows.T)


def _matrix(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"`X` is no table: {error}.") from error


def _dense(column: Any) -> NDArray[Any]:
    return np.asarray(column.toarray() if issparse(column) else column).ravel()


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


def _listed(names: Any) -> list[Any]:
    return list(names) if isinstance(names, list | tuple | np.ndarray) else [names]
