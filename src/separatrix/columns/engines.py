"""Tables of any engine (pandas, polars, pyarrow, DuckDB, Dask, PySpark): found, not read."""

from __future__ import annotations

from collections.abc import Hashable
from difflib import get_close_matches
from typing import Any

import narwhals as nw

from separatrix.columns.values import MAX_LEVELS, check_levels, listed
from separatrix.errors import InputError

__all__ = ["check_columns", "combined_groups", "lazy_frame"]


def lazy_frame(frame: Any) -> nw.LazyFrame[Any]:
    """The frame as narwhals' lazy one: nothing is read yet."""
    try:
        known = nw.from_native(frame)
    except TypeError as error:
        raise InputError(
            f"`frame` must be a dataframe or table (pandas, polars, pyarrow, DuckDB, Dask, "
            f"PySpark), got {type(frame).__name__}. Arrays have `audit` and files `audit_files`."
        ) from error
    return known.lazy()


def check_columns(schema: nw.Schema, wanted: list[str]) -> None:
    """Refuse a column that is not there, with the names that are near."""
    for column in wanted:
        if column not in schema:
            near = get_close_matches(str(column), schema.names(), n=3, cutoff=0.5)
            hint = (
                f"Did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"There are {listed(schema.names())}."
            )
            raise InputError(f"There is no column {column!r}. {hint}")


def combined_groups(columns: dict[str, list[Any]], z: list[str]) -> list[Hashable]:
    """The groups of several columns: one column as it is, more as tuples."""
    if len(z) == 1:
        return columns[z[0]]
    combined = list(zip(*(columns[name] for name in z), strict=True))
    if len(set(combined)) > MAX_LEVELS:
        check_levels(list(dict.fromkeys(combined)), " & ".join(z))
    return combined  # type: ignore[return-value]
