"""Tables that an engine counts: frames of any library, files; only a grouped table comes back.

CSV and Parquet files of any size go through DuckDB, in the dialect of `text`. DuckDB sniffs nothing
here: `text` reads the header, and every CSV column comes as text, so that the types follow from all
values of a column, as in memory.

Score histograms N[y, z, bin] are one group-by. Those of parts add up, so rows on many machines give
the same numbers as one table; their ROC curve is that of the score rounded down to the bins.
"""

from __future__ import annotations

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

from separatrix.columns.features import NOT_AVAILABLE
from separatrix.columns.frames import Roles, as_frame, check_present, given, named_columns
from separatrix.columns.groups import as_groups
from separatrix.columns.text import read_header, typed
from separatrix.columns.values import Coded, Levels, as_levels, listed
from separatrix.core.numbers import whole_number
from separatrix.errors import DataError, InputError

Array = NDArray[np.float64]
_MOST = 5_000_000  # rows of the grouped table beyond which a column must be an identifier
# `features.is_number` or missing, without a look ahead; rarer numbers are left to Python
_NUMBER = (
    "'" + r" *([+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?|"
    + "|".join(sorted(NOT_AVAILABLE)) + ")? *'"
)  # fmt: skip
_WHOLE = r"' *[+-]?\d{1,18} *'"


def duckdb_is_here() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


def is_parquet(path: Path) -> bool:
    """Whether a file's name says Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


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
            raise InputError(
                "`frame` must be a dataframe or table (pandas, polars, pyarrow, DuckDB, Dask, "
                f"PySpark), got {type(frame).__name__}. Arrays and files have functions of their "
                "own."
            )
        return Source(known.lazy())

    @property
    def text(self) -> bool:
        """Whether every column is text."""
        return bool(self.names)

    def inner(self, name: str) -> str:
        """What the table calls a column."""
        if not self.text:
            return name
        check_present([name], self.names, self.place)
        return f"c{self.names.index(name)}"

    def column(self, name: str) -> nw.Expr:
        return nw.col(self.inner(name))

    def numbers(self, name: str) -> nw.Expr:
        """A column as floats; of CSV files one that `with_numbers` was asked for."""
        return self.column(name).cast(nw.Float64)

    def levels(self, values: list[Any], name: str) -> Coded:
        """The values of a column of levels, missing ones coded; CSV text in its dialect."""
        coded = as_levels(values, name, missing=True)
        if not self.text:
            return coded
        found = typed(coded.codes, coded.levels)
        return found if isinstance(found, Coded) else as_levels(found, name, missing=True)

    def columns(self, only: Sequence[str] | None = None, rows: int | None = None) -> dict[str, Any]:
        """Columns in memory, typed; of all rows or the first ones of files."""
        if self.relation is None:
            return named_columns(self.lazy.to_native(), list(only or ()), "frame")
        here = self.names or self.relation.columns
        names = here if only is None else list(dict.fromkeys(only))
        check_present(names, here, self.place)
        numbers = self._numbers(names) if self.text and rows is None else {}
        wanted = [numbers.get(name, _quoted(self.inner(name))) for name in names]
        with self.reading():
            chosen = self.relation.project(", ".join(wanted))
            found = (chosen if rows is None else chosen.limit(rows)).fetchnumpy()
        out: dict[str, Any] = {}
        for name, values in zip(names, found.values(), strict=True):
            if name in numbers:
                gone = np.ma.is_masked(values)
                out[name] = values.filled(np.nan) if gone else np.asarray(values)
            elif self.text:
                codes, texts = as_levels(values, name, missing=True)
                out[name] = typed(codes, texts)
            else:
                out[name] = values
        return out

    def _numbers(self, names: Sequence[str]) -> dict[str, str]:
        """How to read those columns of text that hold numbers only, by the rule of `typed`.

        DuckDB parses them: Python takes ten times as long for columns of many values.
        """
        checks: list[str] = []
        for c in map(self.inner, names):
            known = f"coalesce(bool_or(isfinite(TRY_CAST({c} AS DOUBLE))), false)"
            checks.append(
                f"coalesce(bool_and(regexp_full_match({c}, {_NUMBER})), false) AND {known}"
            )
            whole = f"coalesce(bool_and(regexp_full_match({c}, {_WHOLE})), false)"
            checks.append(f"{whole} AND count({c}) = count(*)")
        with self.reading():
            (found,) = self.relation.aggregate(", ".join(checks)).fetchall()
        parsed = {}
        for name, number, whole in zip(names, found[::2], found[1::2], strict=True):
            c = self.inner(name)
            if number:
                parsed[name] = f"TRY_CAST({c} AS {'BIGINT' if whole else 'DOUBLE'}) AS {c}"
        return parsed

    def reading(self) -> AbstractContextManager[None]:
        """DuckDB's complaints about files as one sentence."""
        return nullcontext() if self.connection is None else _reading(self.place)


@contextmanager
def _reading(place: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.ConversionException as error:
        raise InputError(f"{place}: {_first_line(error)}") from error
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise DataError(f"{place} cannot be read: {_first_line(error)}") from error


def scan(files: Sequence[Path]) -> Source:
    """Open one or several files of one kind, lazily; DuckDB is there (`duckdb_is_here`)."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")  # it would be drawn into the output
    listed = ", ".join(_text(str(one)) for one in files)
    names: list[str] = []
    query = f"SELECT * FROM read_parquet([{listed}])"
    if not is_parquet(files[0]):
        headers = [read_header(one) for one in files]
        for one, header in zip(files, headers, strict=True):
            if header != headers[0]:
                raise InputError(f"{one} has other columns than {files[0]}.")
        names, delimiter = headers[0]
        kinds = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
        query = (
            f"SELECT * FROM read_csv([{listed}], auto_detect=false, header=true, "
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
            for c in map(source.inner, numbers)
        }
        read = source.relation.project(", ".join(parsed.get(c, c) for c in source.relation.columns))
        return replace(source, lazy=nw.from_native(read).lazy())
    schema = source.lazy.collect_schema()
    check_present(wanted, schema.names(), source.place)
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
    return source


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


def summed(values: Any, at: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """The sums of values at their places in an array."""
    total = np.zeros(shape)
    np.add.at(total, at, np.asarray(values, dtype=np.float64))
    return total


def weight_totals() -> list[nw.Expr]:
    """What `check_weights` looks at, of the parts `w` and `ww`."""
    return [
        nw.col("w").sum(),
        nw.col("ww").sum(),
        nw.col("w").min().alias("w_min"),
        nw.col("w").max().alias("w_max"),
        nw.col("w").count().alias("w_there"),
    ]


def check_weights(columns: dict[str, Any], weight: str | None) -> float:
    """The largest weight, by which all are divided: only their ratios matter."""
    if weight is None:
        return 1.0
    gone = sum(columns["rows"]) - sum(columns["w_there"])
    if gone:
        raise InputError(
            f"Column {weight!r} has {gone:,} missing weights. Drop those rows or give them a "
            "weight."
        )
    low, high = np.min(columns["w_min"]), np.max(columns["w_max"])
    if not (low >= 0 and np.isfinite(high) and high > 0):
        bad = low if not low >= 0 else high
        raise InputError(
            f"Column {weight!r} must hold finite weights, not negative and not all zero, got {bad}."
        )
    return float(high)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


class ScoreHistogram(NamedTuple):
    """Rows, or their weights, with each label, group and bin.

    Args:
        counts: array (labels, groups, bins).
        labels, groups: names of the first two axes, sorted.
        edges: array (bins + 1,), rising; bin b holds edges[b] ≤ score < edges[b+1], the last bin
            its upper edge too.
        squares: the same of the squared weights; None where rows weigh one.
        largest: weight.
    """

    counts: Array
    labels: Levels
    groups: Levels
    edges: Array
    squares: Array | None = None
    largest: float = 1.0


def score_histogram(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    bins: int = 4096,
    weight: str | None = None,
    span: tuple[float, float] | None = (0.0, 1.0),
) -> ScoreHistogram:
    """Count the rows of a table by label, group and bin of the score, in the table's own engine.

    Args:
        frame: anything narwhals takes, or files opened with `engines.scan`; lazy and distributed
            frames stay where they are.
        y: column of labels.
        z: column of groups; several make their intersection.
        score: column of scores.
        bins: number of bins of equal width.
        weight: column of row weights.
        span: the ends of the bins; None looks for the smallest and the largest score first, which
            is one more pass.

    Returns:
        (counts, labels, groups, edges), see `ScoreHistogram`.

    >>> import polars as pl
    >>> t = pl.DataFrame({"y": [0, 1, 1], "z": ["a", "a", "b"], "s": [0.1, 0.9, 1.0]})
    >>> score_histogram(t, y="y", z="z", score="s", bins=2).counts.tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
    """
    roles = Roles.named(y, z, score, weight, "score")
    keys = [roles.target, *roles.groups]
    source = with_numbers(Source.from_frame(frame), roles.columns, given(score, weight))
    bins = whole_number(bins, "bins", least=1)
    if bins > 1 << 20:
        raise InputError(f"`bins` must be between 1 and {1 << 20:,}, got {bins}.")
    s = source.numbers(score)
    low, high = score_ends(source, score) if span is None else span
    if not low < high:
        low, high = low - 0.5, low + 0.5  # a single score
    parts, totals = {"bin": ((s - low) * (bins / (high - low))).floor()}, []
    if weight:
        w = source.numbers(weight)
        parts |= {"w": w, "ww": w * w}
        totals = weight_totals()
    table = grouped_columns(source, keys, parts, totals, by=("bin",))
    rows = np.asarray(table["rows"], dtype=np.float64)
    place = _bins(table["bin"], rows, bins, score, (low, high))
    label = table["k0"]
    group = as_groups({name: table[f"k{i}"] for i, name in enumerate(keys[1:], 1)})
    largest = check_weights(table, weight)
    shape = len(label.levels), len(group.levels), bins
    at = label.codes, group.codes, place
    counts = summed(rows if weight is None else table["w"], at, shape)
    squares = None if weight is None else summed(table["ww"], at, shape)
    edges = np.linspace(low, high, bins + 1)
    return ScoreHistogram(counts, label.levels, group.levels, edges, squares, largest)


def score_ends(source: Source, score: str) -> tuple[float, float]:
    """The smallest and the largest score of a table; both are finite."""
    s = source.numbers(score)
    with source.reading():
        ends = source.lazy.select(low=s.min(), high=s.max()).collect()
    low, high = ends["low"].to_list()[0], ends["high"].to_list()[0]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(
            f"Column {score!r} must hold finite numbers, got {low} to {high}. Drop those rows."
        )
    return float(low), float(high)


def _bins(
    found: list[float | None], rows: Array, bins: int, score: str, span: tuple[float, float]
) -> NDArray[np.intp]:
    """Places of the bins; scores that are missing, not finite or outside are refused."""
    at = np.array([np.nan if b is None else b for b in found], dtype=np.float64)
    if not np.isfinite(at).all():
        gone = int(rows[~np.isfinite(at)].sum())
        raise InputError(
            f"Column {score!r} has {gone:,} missing or infinite values. Drop those rows."
        )
    outside = (at < 0) | (at > bins)
    if outside.any():
        raise InputError(
            f"Column {score!r} has {int(rows[outside].sum()):,} values outside {span[0]:g} to "
            f"{span[1]:g}. Pass `span=None` for scores that are not probabilities."
        )
    return np.minimum(at, bins - 1).astype(np.intp)
