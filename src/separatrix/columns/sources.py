"""Tables that an engine counts: frames of any library, files; only a grouped table comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from separatrix.columns.engines import Scan
from separatrix.columns.features import NOT_AVAILABLE
from separatrix.columns.frames import as_frame, check_present
from separatrix.columns.text import typed
from separatrix.columns.values import Coded, as_levels, listed
from separatrix.errors import InputError

__all__ = ["Source", "check_numbers", "grouped_columns"]

_MOST = 5_000_000  # rows of the grouped table beyond which a column must be an identifier


@dataclass(frozen=True, eq=False)
class Source:
    """A table that an engine counts.

    Args:
        lazy: the table.
        scan: the files that it reads, if any; every column of a CSV file is text.
        parsed: the columns of a CSV file that are numbers.
    """

    lazy: nw.LazyFrame[Any]
    scan: Scan | None = None
    parsed: frozenset[str] = frozenset()

    @staticmethod
    def of_frame(frame: Any) -> Source:
        """The source of a frame of any library, of a `Scan`, or of a `Source`."""
        if isinstance(frame, Source):
            return frame
        if isinstance(frame, Scan):
            return Source(nw.from_native(frame.relation).lazy(), frame)
        known = as_frame(frame, "frame")
        if known is None:
            raise InputError(
                "`frame` must be a dataframe or table (pandas, polars, pyarrow, DuckDB, Dask, "
                f"PySpark), got {type(frame).__name__}. Arrays and files have functions of their "
                "own."
            )
        return Source(known.lazy())

    @property
    def text(self) -> bool:
        return self.scan is not None and self.scan.text

    def column(self, name: str) -> nw.Expr:
        return nw.col(name if self.scan is None else self.scan.inner(name))

    def numbers(self, name: str) -> nw.Expr:
        """A column as floats; the text of a CSV file in its dialect."""
        x = self.column(name)
        if self.text and name not in self.parsed:
            x = x.str.strip_chars()
            x = nw.when(~x.is_in([*NOT_AVAILABLE, ""])).then(x)
        return x.cast(nw.Float64)

    def levels(self, values: list[Any], name: str) -> Coded:
        """The values of a column of levels, missing ones coded; CSV text in its dialect."""
        coded = as_levels(values, name, missing=True)
        if not self.text:
            return coded
        found = typed(coded.codes, coded.levels)
        return found if isinstance(found, Coded) else as_levels(found, name, missing=True)

    def parse(self, names: Sequence[str]) -> Source:
        """The same table, where these columns of a CSV file are numbers, parsed once."""
        if not names or self.scan is None or not self.text:
            return self
        return Source(nw.from_native(self.scan.parsed(names)).lazy(), self.scan, frozenset(names))

    @contextmanager
    def reading(self) -> Iterator[None]:
        if self.scan is None:
            yield
        else:
            with self.scan.reading():
                yield


def check_numbers(source: Source, wanted: Sequence[str], numbers: Sequence[str]) -> None:
    """Refuse columns that are not there, and numbers that are none; text shows when it is read."""
    if source.scan is not None:
        check_present(wanted, source.scan.names, source.scan.source)
        if source.text:
            return
    schema = source.lazy.collect_schema()
    check_present(wanted, schema.names(), "The table")
    python = source.lazy.implementation.is_polars()
    for column in wanted:
        if python and schema[column] == nw.Object:  # polars cannot compare them
            raise InputError(
                f"Column {column!r} holds Python objects. Cast it to text or numbers first."
            )
        if schema[column].is_nested():
            raise InputError(
                f"Column {column!r} is nested ({schema[column]}). Unpack it into plain columns."
            )
    for column in numbers:
        if not schema[column].is_numeric() and schema[column] != nw.Boolean:
            raise InputError(
                f"Column {column!r} must hold numbers, but its type is {schema[column]}."
            )


def grouped_columns(
    source: Source,
    keys: list[str],
    parts: dict[str, nw.Expr],
    totals: list[nw.Expr],
    by: Sequence[str] = (),
    made: Mapping[str, nw.Expr] = MappingProxyType({}),
) -> dict[str, Any]:
    """The grouped table: the keys as `Coded` k0, k1, …, the totals as lists. One engine query.

    No column keeps its name inside, so none can be taken for one of ours.

    Args:
        source: the table.
        keys: columns of levels to group by.
        parts: further columns, by the name that they have inside.
        totals: what to add up in each group; the number of rows comes as `rows`.
        by: parts to group by too; they come as lists of what the engine gives.
        made: columns made of the parts, such as their products.
    """
    inner = {f"k{i}": source.column(key) for i, key in enumerate(keys)}
    with source.reading():
        lazy = source.lazy.select(**inner, **parts)
        lazy = lazy.with_columns(**made) if made else lazy
        totals = [nw.len().alias("rows"), *totals]
        try:
            grouped = lazy.group_by([*inner, *by]).agg(*totals).head(_MOST + 1).collect()
        except (TypeError, NotImplementedError) as error:  # of pandas, for values it cannot hash
            raise InputError(
                f"One of the columns {listed(keys)} holds values that cannot be levels ({error}). "
                "Use text or whole numbers."
            ) from error
    if len(grouped) > _MOST:
        raise InputError(
            f"The columns {listed(keys)} have over {_MOST:,} combinations; is one an identifier?"
        )
    if len(grouped) == 0:
        raise InputError("The table has no rows.")
    columns: dict[str, Any] = {name: grouped[name].to_list() for name in grouped.columns}
    for key, name in zip(inner, keys, strict=True):
        values = source.levels(columns[key], name)
        if gone := int(np.asarray(columns["rows"])[values.missing].sum()):
            raise InputError(
                f"Column {name!r} has {gone:,} missing value{'s' * (gone > 1)}. Drop those rows or "
                "give missing a level."
            )
        columns[key] = as_levels(values, name)
    return columns
