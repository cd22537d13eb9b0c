"""A table from a file: CSV with the standard library, Parquet with pyarrow."""

from __future__ import annotations

import gzip
import io
import zlib
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from separatrix.datasets._columns import Values
from separatrix.datasets._csv import read_csv
from separatrix.errors import DataError, MissingExtraError

__all__ = ["read_table"]


def read_table(path: Path) -> Any:
    """The columns of a CSV file (plain or .gz; comma, semicolon, tab or bar), or the table of a
    Parquet file.
    """
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    return _read_parquet(path) if path.suffix in (".parquet", ".pq") else _read_text(path)


def _read_parquet(path: Path) -> Any:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(
            f"{path.name} needs pyarrow: pip install 'separatrix[engines]'."
        ) from error
    try:
        return parquet.read_table(path)
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{path} is not a whole Parquet file ({error}).") from error


def _read_text(path: Path) -> dict[str, Values]:
    from rich.console import Console
    from rich.progress import wrap_file

    size = path.stat().st_size
    quick = size < 16 << 20  # about two seconds
    console = Console(stderr=True)
    try:
        with (
            path.open("rb") as raw,
            wrap_file(
                raw, size, description=path.name, console=console, transient=True, disable=quick
            ) as counted,
        ):
            plain = gzip.GzipFile(fileobj=counted) if path.suffix == ".gz" else counted
            stream = io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")
            first = stream.readline()
            delimiter = max(",;\t|", key=first.count)
            return read_csv(
                chain([first] if first else [], stream), source=str(path), delimiter=delimiter
            )
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text ({error}). Is it a CSV file? Save it as UTF-8."
        ) from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a whole .gz file ({error}).") from error
