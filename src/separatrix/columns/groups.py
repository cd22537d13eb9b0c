"""Groups: the levels of one sensitive column, or the combinations of several columns.

A group of one column is that column's level. A group of several columns is the tuple of their
levels, such as ('f', 'old'); `group_name` prints it as "f & old", and in JSON it is a list.
Several columns may be a frame, a mapping of names to columns, an (n, k) array or a list of k
columns. A list of tuples is a single column whose values are groups already.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.columns.frames import as_frame
from separatrix.columns.values import (
    Coded,
    as_array,
    as_levels,
    check_lengths,
    check_levels,
)
from separatrix.errors import InputError

__all__ = [
    "as_groups", "from_plain", "group_codes", "group_columns", "group_name",
    "intersect", "to_plain",
]  # fmt: skip

_MOST_COLUMNS = 32  # more can only be rows that were passed as columns


def as_groups(values: Any, name: str = "sensitive_features") -> Coded:
    """The group of every row, from one or several columns.

    >>> as_groups([["f", "m", "f"], [1, 2, 2]]).levels          # a list of two columns
    (('f', 1), ('f', 2), ('m', 2))
    >>> as_groups([("f", 1), ("m", 2), ("f", 2)]).codes         # a list of three groups
    array([0, 2, 1])
    """
    if isinstance(values, Coded):
        return as_levels(values, name)
    return intersect({own: as_levels(x, own) for own, x in group_columns(values, name).items()})


def group_codes(
    values: Any, groups: Sequence[Hashable], n: int, name: str, otherwise: int = -1
) -> NDArray[np.intp]:
    """Positions of the rows' groups in `groups`, one per row; an unknown group is an error."""
    codes = as_groups(values, name).places(groups, name, otherwise)
    if len(codes) != n:
        raise InputError(f"`{name}` must have one group per row, {n:,}, got {len(codes):,}.")
    return codes


def group_columns(values: Any, name: str = "sensitive_features") -> dict[str, Any]:
    """One or several columns by name; columns without a name are called after the argument."""
    if values is None:
        raise InputError(
            f"`{name}` is missing. Pass one group per row, as an array, a series or a frame."
        )
    if isinstance(values, Mapping):
        columns = {str(own): column for own, column in values.items()}
    elif (frame := as_frame(values, name)) is not None:
        table = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        columns = {own: table[own] for own in table.columns}
    elif isinstance(values, list | tuple) and values and all(map(_is_column, values)):
        columns = {_own_name(x, f"{name}{i}"): x for i, x in enumerate(values)}
        if len(columns) < len(values):
            raise InputError(f"Two columns of `{name}` have the same name. Rename one of them.")
        columns = {name: values[0]} if len(values) == 1 else columns
    elif isinstance(values, list | tuple):
        return {name: values}
    else:
        array = as_array(values, name)
        if array.ndim < 2 or array.shape[1] == 1:
            return {_own_name(values, name): values if array.ndim < 2 else array[:, 0]}
        if array.ndim > 2:
            raise InputError(f"`{name}` must be columns of groups, got shape {array.shape}.")
        columns = {f"{name}{i}": array[:, i] for i in range(array.shape[1])}
    if not columns:
        raise InputError(f"`{name}` has no columns. Pass at least one.")
    if len(columns) > _MOST_COLUMNS:
        raise InputError(
            f"`{name}` is a list of {len(columns):,} columns, at most {_MOST_COLUMNS} make groups. "
            "For rows of several values pass tuples, or an array of shape (n, k)."
        )
    return columns


def _is_column(value: Any) -> bool:
    """A list, an array or a series; a tuple is one value, and so is text."""
    single = isinstance(value, str | bytes | tuple | int | float | Mapping)
    return not single and hasattr(value, "__len__")


def _own_name(values: Any, default: str) -> str:
    known = nw.from_native(values, allow_series=True, pass_through=True)
    own = known.name if isinstance(known, nw.Series) else None
    return str(own) if own not in (None, "") else default


def intersect(parts: Mapping[str, Coded]) -> Coded:
    """The combinations of several coded columns that occur; one column is itself."""
    check_lengths(parts)
    coded = list(parts.values())
    if len(coded) == 1:
        return coded[0]
    shape = tuple(len(one.levels) for one in coded)
    fused = np.ravel_multi_index([one.codes for one in coded], shape)
    here, codes = np.unique(fused, return_inverse=True)
    places = zip(*(at.tolist() for at in np.unravel_index(here, shape)), strict=True)
    levels = tuple(
        tuple(one.levels[i] for one, i in zip(coded, place, strict=True)) for place in places
    )
    check_levels(levels, " & ".join(parts))
    return Coded(codes.astype(np.intp), levels)


def group_name(group: Hashable, columns: Sequence[str] = ()) -> str:
    """A group in print, with the columns' names where they are known and not the argument's own.

    >>> group_name(("f", 3)), group_name("f", ["sex"]), group_name(("f", 3), ["sex", "ward"])
    ('f & 3', 'sex=f', 'sex=f & ward=3')
    """
    levels = group if isinstance(group, tuple) else (group,)
    if len(columns) != len(levels) or columns[0].startswith("sensitive_features"):
        return " & ".join(map(str, levels))
    return " & ".join(f"{own}={level}" for own, level in zip(columns, levels, strict=True))


def to_plain(level: Any) -> Any:
    """A level as JSON has it: a tuple becomes a list."""
    if isinstance(level, tuple):
        return [to_plain(one) for one in level]
    value = level.item() if isinstance(level, np.generic) else level
    return value if isinstance(value, str | int | float | bool) else str(value)


def from_plain(level: Any) -> Any:
    """The inverse of `to_plain`.

    >>> from_plain(to_plain(("f", np.int64(3))))
    ('f', 3)
    """
    return tuple(map(from_plain, level)) if isinstance(level, list) else level
