"""Where the group is in the rows: columns named by the user, by the group's own name, or recodes.

A column *holds* the group if it has the name of a sensitive column, if it is that column, or if the
group decides its value: a code, an indicator, one of several sensitive columns that were joined.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from separatrix.columns.frames import as_frame, column_names, named_columns
from separatrix.columns.groups import (
    Grouping,
    as_groups,
    bin_labels,
    edges_of,
    group_codes,
    group_columns,
    intersect,
)
from separatrix.columns.values import Levels, row_numbers
from separatrix.errors import InputError

__all__ = ["SensitiveColumns", "as_rows", "holding_columns", "without_columns"]

_FIRST = 500  # rows that a column is compared on before all of them are


class SensitiveColumns:
    """Groups from columns of X, so that `fit(X, y)` and `predict(X)` need nothing else.

    Attributes:
        groups_: the groups in the order of their codes.
        group_names_: the names of the sensitive columns.
        grouping_: the edges of columns of numbers that were cut; None where none was.
    """

    estimator: Any
    sensitive_columns: Any
    groups_: Levels
    group_names_: tuple[str, ...]
    grouping_: Grouping | None

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
        rows = as_rows(X)
        width = rows.shape[1] if len(rows.shape) == 2 else 0
        if not width:
            raise InputError(
                f"`X` has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required: the "
                f"columns {self.sensitive_columns!r} hold the group."
            )
        for name in names:
            if not isinstance(name, int | np.integer) or not -width <= name < width:
                raise InputError(
                    f"`sensitive_columns` names {name!r}; a matrix of {width} columns has the "
                    f"columns 0 to {width - 1}, and only a frame has names."
                )
        columns = {f"column {name}": _dense(rows[:, name]) for name in names}
        for name, column in columns.items():
            bad = ~np.isfinite(column) if column.dtype.kind == "f" else np.zeros(0, dtype=bool)
            if bad.any():
                raise InputError(
                    f"`X` holds NaN or inf in {name}, the group's, in row {row_numbers(bad)}. Drop "
                    "those rows, or give them a group of their own."
                )
        return columns

    def _learn_groups(
        self, values: Any, n: int, weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.intp]:
        """The group's code of each row of `fit` that has a weight; sets the attributes.

        A column with more than 12 different numbers, such as age, is cut at its quartiles.

        Args:
            values: one or several sensitive columns of n rows.
            n: the number of rows.
            weight: of each row; a row of weight 0 is no row.
        """
        columns = group_columns(values)
        edges = edges_of(columns)
        grouping = Grouping(tuple(columns), (), edges)
        if edges:
            coded = intersect({own: grouping.part(x, own) for own, x in columns.items()})
            bands = "; ".join(f"{own}: {', '.join(bin_labels(e))}" for own, e in edges.items())
            warnings.warn(
                f"Many different numbers in `sensitive_features` are cut at quantiles ({bands}); "
                "pass categories for other groups.",
                UserWarning,
                stacklevel=3,
            )
        else:
            coded = as_groups(columns)
        if len(coded) != n:
            raise InputError(
                f"`sensitive_features` must have one group per row, {n:,}, got {len(coded):,}."
            )
        coded = coded if weight is None else coded[weight > 0].compact()
        self.group_names_, self.groups_ = tuple(columns), coded.levels
        self.grouping_ = replace(grouping, groups=coded.levels) if edges else None
        return np.asarray(coded.codes, dtype=np.intp)

    def _known_groups(self, values: Any, n: int) -> NDArray[np.intp]:
        """The codes of new rows; a group that `fit` did not see is an error."""
        if self.grouping_ is not None:
            return self.grouping_.codes_of(values, n)
        return group_codes(values, self.groups_, n, "sensitive_features")

    def _holding(self, X: Any, rows: Any, z: NDArray[np.intp], sensitive: Any) -> tuple[int, ...]:
        """The places of the columns of `fit`'s rows that hold the group; bare scores have none.

        Args:
            X, rows: as passed, with their names, and as checked.
            z: codes of the groups.
            sensitive: the sensitive columns.
        """
        if isinstance(self.estimator, str):
            return ()
        table = X if hasattr(X, "columns") or isinstance(X, Mapping) else rows
        return holding_columns(table, z, group_columns(sensitive), self.sensitive_columns)


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
    """The rows without the columns at these places, as the same kind of table."""
    if isinstance(X, Mapping) and not issparse(X):
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


def _columns(X: Any) -> tuple[list[str], list[Any]]:
    """Names, none for a matrix, and columns; nothing for rows that are no table."""
    if (isinstance(X, Mapping) and not issparse(X)) or as_frame(X, "X") is not None:
        names = column_names(X, "X")
        return names, list(named_columns(X, names, "X").values())
    if issparse(X):
        by_column = X.tocsc()
        return [], [by_column[:, i].toarray().ravel() for i in range(X.shape[1])]
    rows = as_rows(X)
    return [], [] if rows.ndim != 2 else list(rows.T)


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
