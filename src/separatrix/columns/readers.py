"""Files to columns, by one door: CSV in the dialect of `text`, Parquet with its own types.

Small CSV files are read with the standard library, larger ones with DuckDB where it is installed;
both speak the same dialect. Parquet is read with pyarrow.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from separatrix.columns.engines import Source, duckdb_is_here, is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import Roles, as_frame, check_present, named_columns
from separatrix.columns.text import read_files, text_blocks
from separatrix.errors import DataError, InputError, MissingExtraError

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


def in_engine(data: Any, eager: bool = True) -> Source | None:
    """A table that an engine counts; None for what is small, and without DuckDB for any file.

    Args:
        data: a mapping, a frame, or files: Parquet and large CSV files are counted by DuckDB.
        eager: whether frames in memory are counted by their engine too.
    """
    if isinstance(data, str | Path):
        files = find_files(data)
        large = duckdb_is_here() and (is_parquet(files[0]) or is_large(files))
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
    wanted = None if only is None else list(dict.fromkeys(only))
    with _arrow(files[0]) as (arrow, parquet):
        for one in files:
            check_present(wanted or (), parquet.read_schema(one).names, str(one))
        table = arrow.concat_tables([parquet.read_table(one, columns=wanted) for one in files])
    return named_columns(table, wanted or table.column_names, str(files[0]))


def _parquet_blocks(
    path: Path, only: Sequence[str], rows: int
) -> Iterator[tuple[Mapping[str, Any], float]]:
    with _arrow(path) as (arrow, parquet), parquet.ParquetFile(path) as file:
        check_present(only, file.schema_arrow.names, str(path))
        total, done = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=rows, columns=list(only)):
            done += batch.num_rows
            block = named_columns(arrow.Table.from_batches([batch]), only, str(path))
            yield block, done / total


@contextmanager
def _arrow(path: Path) -> Iterator[tuple[Any, Any]]:
    """pyarrow and its Parquet reader; a file that it cannot read is a `DataError`."""
    try:
        modules = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            f"{path.name} needs pyarrow: pip install 'separatrix[engines]'."
        ) from error
    try:
        yield modules
    except InputError:
        raise
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{path} is not a whole Parquet file ({error}).") from error
