"""Audit of CSV and Parquet files of any size: DuckDB streams them and returns the small table."""

from __future__ import annotations

import glob
from collections.abc import Hashable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from separatrix.auditing.frames import audit_frame
from separatrix.auditing.result import Audit
from separatrix.errors import InputError, MissingExtraError

__all__ = ["audit_files", "open_files"]

_READERS = {
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
}


def audit_files(
    path: str | Path,
    *,
    y: str,
    z: str | Sequence[str],
    pred: str | Sequence[str],
    weight: str | None = None,
    labels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Audit:
    """Audit predictions that stand in files: one CSV or Parquet file, or a glob of them, larger
    than memory if need be.

    The other arguments are those of `audit_frame`.
    """
    return audit_frame(
        open_files(path),
        y=y,
        z=z,
        pred=pred,
        weight=weight,
        labels=labels,
        confidence=confidence,
        random_state=random_state,
    )


def open_files(path: str | Path) -> Any:
    """A DuckDB relation over one file or a glob of files of one kind, opened lazily."""
    if not find_spec("duckdb"):
        raise MissingExtraError("Reading files needs DuckDB: pip install 'separatrix[engines]'.")
    import duckdb

    found = sorted(glob.glob(str(path), recursive=True))
    if not found:
        raise InputError(
            f"There is no file {str(path)!r}. Check the path; a pattern such as 'part-*.parquet' "
            f"needs quotes."
        )
    kinds = {Path(name.removesuffix(".gz")).suffix.lower() for name in found}
    readers = {_READERS.get(kind) for kind in kinds}
    if len(readers) > 1 or None in readers:
        raise InputError(
            f"{str(path)!r} is of kind {', '.join(sorted(kinds)) or '?'}; pass .csv or .parquet "
            f"files of one kind."
        )
    try:
        connection = duckdb.connect()
        connection.execute(
            "SET enable_progress_bar = false"
        )  # it would be drawn into the standard output
        relation = getattr(connection, readers.pop() or "")(found)
        relation.columns  # noqa: B018  opening is lazy: ask for the header now, while the file can still be named
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise InputError(f"{found[0]!r} cannot be read: {str(error).splitlines()[0]}") from error
    return relation
