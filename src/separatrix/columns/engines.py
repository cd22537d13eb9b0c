"""CSV and Parquet files of any size through DuckDB, in the dialect of `text`.

DuckDB sniffs nothing here: `text` reads the header, and every CSV column comes as text, so that
the types follow from all values of a column, as in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.columns.features import NOT_AVAILABLE
from separatrix.columns.frames import check_present
from separatrix.columns.text import read_header, typed
from separatrix.columns.values import as_levels
from separatrix.errors import DataError, InputError, MissingExtraError

__all__ = ["Scan", "duckdb_is_here", "is_parquet", "scan"]


def duckdb_is_here() -> bool:
    """Whether DuckDB is installed."""
    return find_spec("duckdb") is not None


# `features.is_number` or missing, without a look ahead; rarer numbers are left to Python
_NUMBER = (
    "'" + r" *([+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?|"
    + "|".join(sorted(NOT_AVAILABLE)) + ")? *'"
)  # fmt: skip
_WHOLE = r"' *[+-]?\d{1,18} *'"


def is_parquet(path: Path) -> bool:
    """Whether a file's name says Parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Scan:
    """Files that are read when a column or a table is asked for.

    Args:
        source: the first file, for errors.
        names: the columns' names; of a CSV file the relation calls them c0, c1, …
        relation: DuckDB's.
        text: whether every column is text.
        connection: kept here, since not every DuckDB keeps it alive with its relation.
    """

    source: str
    names: list[str]
    relation: Any
    text: bool
    connection: Any

    def inner(self, name: str) -> str:
        """What the relation calls a column."""
        check_present([name], self.names, self.source)
        return f"c{self.names.index(name)}" if self.text else name

    def columns(self, only: Sequence[str] | None = None, rows: int | None = None) -> dict[str, Any]:
        """Columns in memory, typed; of all rows or the first ones."""
        names = self.names if only is None else list(dict.fromkeys(only))
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

    def parsed(self, names: Sequence[str]) -> Any:
        """The relation, where these columns of text are numbers; other text is an error."""
        numbers = {self.inner(name) for name in names}
        gone = ", ".join(map(_text, ["", *sorted(NOT_AVAILABLE)]))
        parsed = {
            c: f"COALESCE(TRY_CAST({c} AS DOUBLE), CASE WHEN trim({c}) IN ({gone}) THEN NULL "
            f"ELSE CAST({c} AS DOUBLE) END) AS {c}"
            for c in numbers
        }
        return self.relation.project(", ".join(parsed.get(c, c) for c in self.relation.columns))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """DuckDB's complaints as one sentence."""
        import duckdb

        try:
            yield
        except duckdb.ConversionException as error:
            raise InputError(f"{self.source}: {_first_line(error)}") from error
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise DataError(f"{self.source} cannot be read: {_first_line(error)}") from error


def scan(files: Sequence[Path]) -> Scan:
    """Open one or several files of one kind, lazily."""
    if not duckdb_is_here():
        raise MissingExtraError(f"{files[0].name} needs DuckDB: pip install 'separatrix[engines]'.")
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")  # it would be drawn into the output
    listed = ", ".join(_text(str(one)) for one in files)
    names: list[str] = []
    text = not is_parquet(files[0])
    query = f"SELECT * FROM read_parquet([{listed}])"
    if text:
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
    found = Scan(str(files[0]), names, None, text, connection)
    with found.reading():
        relation = connection.sql(query)
        names = names or list(relation.columns)
    return Scan(str(files[0]), names, relation, text, connection)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
