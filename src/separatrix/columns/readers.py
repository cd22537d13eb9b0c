"""Files and frames of any size: columns in memory, or a table that its own engine counts.

CSV speaks the dialect of `text`: small files are read with the standard library, larger ones with
DuckDB where it is installed. DuckDB sniffs nothing here: `text` reads the header, and every CSV
column comes as text, so that the types follow from all values of a column, as in memory. Parquet
keeps its own types and is read with pyarrow.

Counting is one group-by in the engine of the table (DuckDB for files), and only the grouped table
comes back. Those of parts add up, so rows on many machines give the same numbers as one table.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import NOT_AVAILABLE, as_numbers
from separatrix.columns.frames import Roles, as_frame, check_present, named_columns
from separatrix.columns.text import read_files, read_header, text_blocks, typed
from separatrix.columns.values import Coded, as_levels, listed
from separatrix.errors import DataError, InputError, require

Array = NDArray[np.float64]
LARGE = 4 << 20  # bytes of CSV from which DuckDB is worth its start
_KINDS = {".csv": "CSV", ".tsv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}
_MOST = 5_000_000  # rows of the grouped table beyond which a column must be an identifier
# `features.is_number` or missing, without a look ahead; rarer numbers are left to Python
_NUMBER = (
    "'" + r" *([+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?|"
    + "|".join(sorted(NOT_AVAILABLE)) + ")? *'"
)  # fmt: skip
_WHOLE = r"' *[+-]?\d{1,18} *'"


def find_files(path: str | Path) -> list[Path]:
    """One file, or the files of a pattern such as 'part-*.parquet', all of one kind."""
    places = [Path(path)] if Path(path).is_file() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    files = [place for place in places if place.is_file()]
    if not files:
        raise InputError(f"There is no file {str(path)!r}. Check the path; a pattern ('part-*.parquet') needs quotes.")
    endings = {Path(file.name.lower().removesuffix(".gz")).suffix for file in files}
    if len({_KINDS.get(ending) for ending in endings}) > 1 or not endings <= set(_KINDS):
        kinds = ", ".join(sorted(endings)) or "?"
        raise InputError(f"{str(path)!r} is of kind {kinds}; pass .csv or .parquet files of one kind.")
    return files


def read_table(path: str | Path, only: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of one file, or of the files of a pattern; only these, or all.

    Raises:
        InputError: there is no such file or column.
        DataError: a file is damaged.
    """
    files = find_files(path)
    if not _is_parquet(files[0]):
        return scan(files).columns(only) if _is_large(files) else read_files(files, only)
    wanted = None if only is None else list(dict.fromkeys(only))
    with _arrow(files[0]) as (arrow, parquet):
        for file in files:
            check_present(wanted or (), parquet.read_schema(file).names, str(file))
        table = arrow.concat_tables([parquet.read_table(file, columns=wanted) for file in files])
    return named_columns(table, wanted or table.column_names, str(files[0]))


def read_blocks(path: Path, only: Sequence[str], rows: int) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Blocks of rows of a file of any size, and how much of it was read."""
    (path,) = find_files(path)
    if not _is_parquet(path):
        yield from text_blocks(path, only, rows)
        return
    with _arrow(path) as (arrow, parquet), parquet.ParquetFile(path) as file:
        check_present(only, file.schema_arrow.names, str(path))
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=rows, columns=list(only)):
            done += batch.num_rows
            yield named_columns(arrow.Table.from_batches([batch]), only, str(path)), done / total


def in_engine(data: Any, eager: bool = True) -> Source | None:
    """A table that an engine counts; None for what is small, and without DuckDB for any file.

    Args:
        data: a mapping, a frame, or files: Parquet and large CSV files are counted by DuckDB.
        eager: whether frames in memory are counted by their engine too.
    """
    if isinstance(data, str | Path):
        files = find_files(data)
        large = duckdb_is_here() and (_is_parquet(files[0]) or _is_large(files))
        return scan(files) if large else None
    small = not eager and not isinstance(as_frame(data, "data"), nw.LazyFrame)
    return None if isinstance(data, Mapping) or small else Source.from_frame(data)


def whole_columns(data: Any, roles: Roles) -> tuple[Any, Any, dict[str, Any], Any]:
    """Labels, predictions, groups by name and weights of all rows, in memory.

    Several columns of predictions are one matrix of numbers.
    """
    if isinstance(data, str | Path):
        columns: Mapping[str, Any] = read_table(data, roles.columns)
    elif isinstance(data, Source):
        columns = data.columns(roles.columns)
    else:
        columns = named_columns(data, roles.columns, "frame")
    u = [columns[name] for name in roles.predictions]
    if len(u) > 1:
        u = [np.column_stack([as_numbers(x, name) for x, name in zip(u, roles.predictions, strict=True)])]
    weight = roles.weight
    return (
        columns[roles.target],
        u[0],
        {name: columns[name] for name in roles.groups},
        None if weight is None else as_numbers(columns[weight], weight),
    )


class Grouped(NamedTuple):
    """A grouped table, one entry for each combination of levels that occurs.

    Args:
        keys: the level of each column of levels.
        rows: how many rows there are.
        weight, squares: sums of their weights and squared weights; the rows where they weigh one.
        positive: how many rows have a positive weight.
        scale: the largest weight, since only ratios matter; 1 where they weigh one.
        totals: what else was asked for, by name, as the engine gives it.
    """

    keys: list[Coded]
    rows: Array
    weight: Array
    squares: Array
    positive: Array
    scale: float
    totals: Mapping[str, list[Any]]


@dataclass(frozen=True, eq=False)
class Source:
    """A table that an engine counts.

    Args:
        lazy: the table.
        place: what to call it in an error: the first file.
        names: of the columns of CSV files, which are all text and called c0, c1, … inside.
        relation: DuckDB's, of files.
        connection: kept here, since not every DuckDB keeps it alive with its relation.
    """

    lazy: nw.LazyFrame[Any]
    place: str = "The table"
    names: Sequence[str] = ()
    relation: Any = None
    connection: Any = None

    @staticmethod
    def from_frame(frame: Any) -> Source:
        """The source of a frame of any library; a `Source` is itself."""
        if isinstance(frame, Source):
            return frame
        known = as_frame(frame, "frame")
        if known is None:
            raise InputError(f"`frame` must be a dataframe or a table of a library, got {type(frame).__name__}.")
        return Source(known.lazy())

    @property
    def text(self) -> bool:
        """Whether every column is text."""
        return bool(self.names)

    def column(self, name: str) -> nw.Expr:
        return nw.col(self._inner(name))

    def numbers(self, name: str) -> nw.Expr:
        """A column as floats; of CSV files one that `with_numbers` was asked for."""
        return self.column(name).cast(nw.Float64)

    def columns(self, only: Sequence[str] | None = None, rows: int | None = None) -> dict[str, Any]:
        """Columns in memory, typed; of all rows or the first ones of files."""
        if self.relation is None:
            return named_columns(self.lazy.to_native(), list(only or ()), "frame")
        present = self.names or self.relation.columns
        names = present if only is None else list(dict.fromkeys(only))
        check_present(names, present, self.place)
        parsed = self._parsed(names) if self.text and rows is None else {}
        wanted = [parsed.get(name, _quoted(self._inner(name))) for name in names]
        with self.reading():
            chosen = self.relation.project(", ".join(wanted))
            arrays = (chosen if rows is None else chosen.limit(rows)).fetchnumpy()
        out: dict[str, Any] = {}
        for name, values in zip(names, arrays.values(), strict=True):
            if name in parsed:
                out[name] = values.filled(np.nan) if np.ma.is_masked(values) else np.asarray(values)
            else:
                out[name] = typed(*as_levels(values, name, missing=True)) if self.text else values
        return out

    def grouped(
        self,
        keys: Sequence[str],
        weight: str | None = None,
        *,
        parts: Mapping[str, nw.Expr] = MappingProxyType({}),
        by: Sequence[str] = (),
        totals: Sequence[nw.Expr] = (),
    ) -> Grouped:
        """The table grouped by columns of levels: one query.

        No column keeps its name inside, so none can be taken for one of ours.

        Args:
            keys: columns of levels to group by.
            weight: column of row weights.
            parts: further columns, by the name that they have inside.
            by: parts to group by too; they come with the totals.
            totals: what else to add up in each group.
        """
        inner = {f"k{i}": self.column(key) for i, key in enumerate(keys)}
        asked = [nw.len().alias("rows"), *totals]
        if weight is not None:
            w = self.numbers(weight)
            parts = {**parts, "w": w, "ww": w * w, "w_some": (w > 0).cast(nw.Int64)}
            asked += [nw.col(name).sum() for name in ("w", "ww", "w_some")]
            asked += [nw.col("w").min().alias("w_min"), nw.col("w").max().alias("w_max")]
            asked += [nw.col("w").count().alias("w_there")]
        with self.reading():
            groups = self.lazy.select(**inner, **parts).group_by([*inner, *by])
            try:
                table = groups.agg(*asked).head(_MOST + 1).collect()
            except (TypeError, NotImplementedError) as error:  # of pandas: not hashable
                raise InputError(f"One of {listed(keys)} holds no text or whole numbers ({error}).") from error
        if not 0 < len(table) <= _MOST:
            many = f"columns {listed(keys)} have over {_MOST:,} combinations; is one an identifier?"
            raise InputError(f"The {many}" if len(table) else "The table has no rows.")
        columns: dict[str, Any] = {name: table[name].to_list() for name in table.columns}
        rows = np.asarray(columns["rows"], dtype=np.float64)
        levels = [self._levels(columns.pop(k), name, rows) for k, name in zip(inner, keys, strict=True)]
        if weight is None:
            return Grouped(levels, rows, rows, rows, rows, 1.0, columns)
        scale = _largest_weight(columns, rows, weight)
        w_sum, ww_sum, positive = (np.array(columns[name], float) for name in ("w", "ww", "w_some"))
        return Grouped(levels, rows, w_sum, ww_sum, positive, scale, columns)

    def reading(self) -> AbstractContextManager[None]:
        """DuckDB's complaints about files as one sentence."""
        return nullcontext() if self.connection is None else _reading(self.place)

    def _inner(self, name: str) -> str:
        """What the table calls a column."""
        if not self.text:
            return name
        check_present([name], self.names, self.place)
        return f"c{self.names.index(name)}"

    def _levels(self, values: list[Any], name: str, rows: Array) -> Coded:
        """The values of a column of levels, CSV text in its dialect; missing ones are refused."""
        coded: Any = as_levels(values, name, missing=True)
        if self.text:
            coded = as_levels(typed(coded.codes, coded.levels), name, missing=True)
        if gone := int(rows[coded.missing].sum()):
            values_gone = f"{gone:,} missing value{'s' * (gone > 1)}"
            raise InputError(f"Column {name!r} has {values_gone}. Drop those rows or give missing a level.")
        return as_levels(coded, name)

    def _parsed(self, names: Sequence[str]) -> dict[str, str]:
        """How to read those columns of text that hold numbers only, by the rule of `typed`.

        DuckDB parses them: Python takes ten times as long for columns of many values.
        """
        checks: list[str] = []
        for c in map(self._inner, names):
            checks += [
                f"coalesce(bool_and(regexp_full_match({c}, {_NUMBER})), false) AND "
                f"coalesce(bool_or(isfinite(TRY_CAST({c} AS DOUBLE))), false)",
                f"coalesce(bool_and(regexp_full_match({c}, {_WHOLE})), false) AND count({c}) = count(*)",
            ]
        with self.reading():
            (answers,) = self.relation.aggregate(", ".join(checks)).fetchall()
        parsed = {}
        for name, number, whole in zip(names, answers[::2], answers[1::2], strict=True):
            c, kind = self._inner(name), "BIGINT" if whole else "DOUBLE"
            if number:
                parsed[name] = f"TRY_CAST({c} AS {kind}) AS {c}"
        return parsed


def scan(files: Sequence[Path]) -> Source:
    """Open one or several files of one kind, lazily; DuckDB is there (`duckdb_is_here`)."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")  # it would be drawn into the output
    places = ", ".join(_text(str(file)) for file in files)
    names: list[str] = []
    query = f"SELECT * FROM read_parquet([{places}])"
    if not _is_parquet(files[0]):
        headers = [read_header(file) for file in files]
        for file, header in zip(files, headers, strict=True):
            if header != headers[0]:
                raise InputError(f"{file} has other columns than {files[0]}.")
        names, delimiter = headers[0]
        kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
        query = (
            f"SELECT * FROM read_csv([{places}], auto_detect=false, header=true, "
            f"delim={_text(delimiter)}, quote='\"', escape='\"', columns={{{kinds}}})"
        )
    with _reading(str(files[0])):
        relation = connection.sql(query)
        lazy = nw.from_native(relation).lazy()
    return Source(lazy, str(files[0]), names, relation, connection)


def with_numbers(source: Source, wanted: Sequence[str], numbers: Sequence[str]) -> Source:
    """The same table, where these columns are numbers; those that are not are refused.

    CSV text is parsed here, once; what is no number then shows when it is read.
    """
    if source.text:
        check_present(wanted, source.names, source.place)
        gone = ", ".join(map(_text, ["", *sorted(NOT_AVAILABLE)]))
        parsed = {
            c: f"COALESCE(TRY_CAST({c} AS DOUBLE), CASE WHEN trim({c}) IN ({gone}) THEN NULL "
            f"ELSE CAST({c} AS DOUBLE) END) AS {c}"
            for c in map(source._inner, numbers)
        }
        table = source.relation.project(", ".join(parsed.get(c, c) for c in source.relation.columns))
        return replace(source, lazy=nw.from_native(table).lazy())
    schema = source.lazy.collect_schema()
    check_present(wanted, schema.names(), source.place)
    polars = source.lazy.implementation.is_polars()
    for column in wanted:
        kind = schema[column]
        if kind.is_nested() or (polars and kind == nw.Object):  # polars cannot compare objects
            raise InputError(f"Column {column!r} is nested or holds objects ({kind}). Make it text or numbers.")
        if column in numbers and not kind.is_numeric() and kind != nw.Boolean:
            raise InputError(f"Column {column!r} must hold numbers, but its type is {kind}.")
    return source


def summed(values: Any, place: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """The sums of values at their places in an array."""
    total = np.zeros(shape)
    np.add.at(total, place, np.asarray(values, dtype=np.float64))
    return total


def _largest_weight(columns: Mapping[str, Any], rows: Array, weight: str) -> float:
    if gone := int(rows.sum()) - sum(columns["w_there"]):
        raise InputError(f"Column {weight!r} has {gone:,} missing weights. Drop those rows or give them a weight.")
    low, high = np.min(columns["w_min"]), np.max(columns["w_max"])
    if not (low >= 0 and 0 < high < np.inf):
        bad = high if low >= 0 else low
        raise InputError(f"Column {weight!r} must hold finite weights, not negative and not all zero, got {bad}.")
    return float(high)


def duckdb_is_here() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


def _is_large(files: Sequence[Path]) -> bool:
    """Whether DuckDB should read these CSV files."""
    return duckdb_is_here() and sum(file.stat().st_size for file in files) > LARGE


def _is_parquet(path: Path) -> bool:
    return _KINDS.get(path.suffix.lower()) == "Parquet"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def _reading(place: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.ConversionException as error:
        raise InputError(f"{place}: {str(error).splitlines()[0]}") from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise DataError(f"{place} cannot be read: {str(error).splitlines()[0]}") from error


@contextmanager
def _arrow(path: Path) -> Iterator[tuple[Any, Any]]:
    """pyarrow and its Parquet reader; a file that it cannot read is a `DataError`."""
    modules = [require(name, "engines", path.name) for name in ("pyarrow", "pyarrow.parquet")]
    try:
        yield modules[0], modules[1]
    except InputError:
        raise
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{path} is not a whole Parquet file ({error}).") from error
