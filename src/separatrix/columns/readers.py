"""Files to columns, by one door: CSV in the dialect of `text`, Parquet with its own types.

Small CSV files are read with the standard library, larger ones with DuckDB where it is installed;
both speak the same dialect. Parquet is read with pyarrow.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from separatrix.columns.engines import Source, duckdb_is_here, is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import check_present, check_roles, given, named_columns
from separatrix.columns.text import read_files, text_blocks
from separatrix.errors import DataError, InputError, MissingExtraError

__all__ = [
    "Roles", "find_files", "in_engine", "is_large", "read_blocks", "read_table", "whole_columns",
]  # fmt: skip

_KINDS = {".csv": "CSV", ".tsv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}
LARGE = 4 << 20  # bytes of CSV from which DuckDB is worth its start


def find_files(path: str | Path) -> list[Path]:
    """One file, or the files of a pattern such as 'part-*.parquet', all of one kind."""
    found = [Path(path)] if Path(path).is_file() else []
    found = found or sorted(map(Path, glob.glob(str(path), recursive=True)))
    found = [one for one in found if one.is_file()]
    if not found:
        raise InputError(
            f"There is no file {str(path)!r}. Check the path; a pattern such as 'part-*.parquet' "
            "needs quotes."
        )
    kinds = {Path(one.name.lower().removesuffix(".gz")).suffix for one in found}
    if len({_KINDS.get(kind) for kind in kinds}) > 1 or not kinds <= set(_KINDS):
        raise InputError(
            f"{str(path)!r} is of kind {', '.join(sorted(kinds)) or '?'}; pass .csv or .parquet "
            "files of one kind."
        )
    return found


def is_large(files: Sequence[Path]) -> bool:
    """Whether DuckDB should read these CSV files."""
    return duckdb_is_here() and sum(one.stat().st_size for one in files) > LARGE


def read_table(path: str | Path, only: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of one file, or of the files of a pattern; only these, or all.

    Raises:
        InputError: there is no such file or column.
        DataError: a file is damaged.
    """
    files = find_files(path)
    if is_parquet(files[0]):
        return _parquet(files, only)
    return scan(files).columns(only) if is_large(files) else read_files(files, only)


class Roles(NamedTuple):
    """Names of columns: target, groups, predictions (or scores), and weight if any."""

    target: str
    groups: list[str]
    predictions: list[str]
    weight: str | None

    @classmethod
    def named(
        cls, target: Any, groups: Any, predictions: Any, weight: Any, word: str = "prediction"
    ) -> Roles:
        """As a caller named them; no column stands for two things."""
        target, weight = str(target), None if weight is None else str(weight)
        return cls(target, *check_roles(target, groups, predictions, weight, word), weight)

    @property
    def columns(self) -> list[str]:
        """All of them."""
        return given(self.target, *self.groups, *self.predictions, self.weight)

    @property
    def words(self) -> tuple[str, str, str]:
        """What target, groups and predictions are called in an error."""
        return self.target, " & ".join(self.groups), ", ".join(self.predictions)


def in_engine(data: Any) -> Source | None:
    """A table that an engine counts: a frame, Parquet, large CSV files; None for what is small."""
    if isinstance(data, Mapping):
        return None
    if not isinstance(data, str | Path):
        return Source.from_frame(data)
    files = find_files(data)
    return scan(files) if is_parquet(files[0]) or is_large(files) else None


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
        numbers = zip(u, roles.predictions, strict=True)
        u = [np.column_stack([as_numbers(x, name) for x, name in numbers])]
    weight = roles.weight
    return (
        columns[roles.target],
        u[0],
        {name: columns[name] for name in roles.groups},
        None if weight is None else as_numbers(columns[weight], weight),
    )


def read_blocks(
    path: Path, only: Sequence[str], rows: int
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Blocks of rows of a file of any size, and how much of it was read."""
    (file,) = find_files(path)
    return _parquet_blocks(file, only, rows) if is_parquet(file) else text_blocks(file, only, rows)


def _parquet(files: Sequence[Path], only: Sequence[str] | None) -> dict[str, Any]:
    arrow, parquet = _arrow(files[0])
    try:
        for one in files if only is not None else ():
            check_present(only or (), parquet.read_schema(one).names, str(one))
        wanted = None if only is None else list(dict.fromkeys(only))
        table = arrow.concat_tables([parquet.read_table(one, columns=wanted) for one in files])
    except InputError:
        raise
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{files[0]} is not a whole Parquet file ({error}).") from error
    return named_columns(table, table.column_names if only is None else only, str(files[0]))


def _parquet_blocks(
    path: Path, only: Sequence[str], rows: int
) -> Iterator[tuple[Mapping[str, Any], float]]:
    arrow, parquet = _arrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            check_present(only, file.schema_arrow.names, str(path))
            total, done = max(file.metadata.num_rows, 1), 0
            for batch in file.iter_batches(batch_size=rows, columns=list(only)):
                done += batch.num_rows
                block = named_columns(arrow.Table.from_batches([batch]), only, str(path))
                yield block, done / total
    except InputError:
        raise
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not a whole Parquet file ({error}).") from error


def _arrow(path: Path) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            f"{path.name} needs pyarrow: pip install 'separatrix[engines]'."
        ) from error
