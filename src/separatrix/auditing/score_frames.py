"""Audit of a score that stands in a table or in files of any engine: rows in memory where they are
few, a histogram counted by the engine where they are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from separatrix.auditing.arrays import _groups, _native
from separatrix.auditing.files import open_files
from separatrix.auditing.scores import ScoreAudit
from separatrix.columns.engines import check_columns, lazy_frame
from separatrix.columns.histograms import score_histogram
from separatrix.core.score_tables import ScoreTable
from separatrix.errors import InputError

__all__ = ["audit_score_files", "audit_score_frame", "count_scores"]

_IN_MEMORY = 1_000_000  # rows up to which every score is told apart
_BINS = 1 << 14


def audit_score_frame(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    weight: str | None = None,
    bins: int = 20,
    confidence: float = 0.95,
    random_state: int = 0,
) -> ScoreAudit:
    """Audit a score that stands in a column of a table: pandas, polars, pyarrow, DuckDB, Dask,
    PySpark, …

    Up to a million rows the audit is that of `audit_score`. Beyond, the engine counts a histogram
    N[y, z, bin] with 16,384 bins of equal width, from 0 to 1 for probabilities and from the
    smallest to the largest score otherwise. Scores in one bin count as equal, and `gap_upper` holds
    for the thresholds inside the bins too.

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y: column of true labels, two of them.
        z: column of groups; several make their intersection.
        score: column of numbers; larger speaks for the second label.
        weight: column of row weights.
        bins, confidence, random_state: as in `audit_score`.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"y": [0, 0, 1, 1], "sex": [*"fmfm"], "p": [0.1, 0.4, 0.8, 0.9]})
    >>> audit_score_frame(frame, y="y", z="sex", score="p").auroc
    1.0
    """
    table = count_scores(frame, y=y, z=z, score=score, weight=weight)
    return ScoreAudit.of(table, bins, confidence, random_state)


def audit_score_files(
    path: str | Path,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    weight: str | None = None,
    bins: int = 20,
    confidence: float = 0.95,
    random_state: int = 0,
) -> ScoreAudit:
    """Audit a score that stands in files: one CSV or Parquet file, or a glob of them, larger than
    memory if need be. The other arguments are those of `audit_score_frame`.
    """
    return audit_score_frame(
        open_files(path),
        y=y,
        z=z,
        score=score,
        weight=weight,
        bins=bins,
        confidence=confidence,
        random_state=random_state,
    )


def count_scores(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    weight: str | None = None,
    in_memory: int = _IN_MEMORY,
) -> ScoreTable:
    """The table behind `audit_score_frame`, arguments as there: what a worker sends where the rows
    are on many machines.

    Weights are divided by the largest of this frame, so the tables of parts add up only where rows
    have no weight.

    Args:
        in_memory: rows up to which every score is told apart.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "p": [0.1, p]}) for p in (0.4, 0.8)]
    >>> a, b = (count_scores(part, y="y", z="sex", score="p") for part in parts)
    >>> (a + b).rows
    4
    """
    groups = [z] if isinstance(z, str) else list(z)
    lazy = lazy_frame(frame)
    schema = lazy.collect_schema()
    numbers = [score, *([weight] if weight else [])]
    check_columns(schema, [y, *groups, *numbers])
    if not groups:
        raise InputError("`z` needs at least one column.")
    for column in numbers:
        if column in (y, *groups):
            raise InputError(
                f"Column {column!r} stands for two things at once. Name different columns for y, z "
                f"and the score."
            )
        if not schema[column].is_numeric() and schema[column] != nw.Boolean:
            raise InputError(
                f"Column {column!r} must hold numbers, but its type is {schema[column]}."
            )
    if int(lazy.select(nw.len().alias("n")).collect()["n"].to_list()[0]) <= in_memory:
        return _in_memory(lazy, y, groups, score, weight)
    return _in_engine(lazy, y, groups, score, weight)


def _in_memory(
    lazy: nw.LazyFrame[Any], y: str, z: list[str], score: str, weight: str | None
) -> ScoreTable:
    numbers = [nw.col(name).cast(nw.Float64) for name in (score, weight) if name]
    rows = lazy.select(*dict.fromkeys([y, *z]), *numbers).collect()
    group, names = _groups(nw.to_native(rows.select(z)))
    table = ScoreTable.from_scores(
        _native(nw.to_native(rows[score]), score),
        _native(nw.to_native(rows[y]), y),
        group,
        sample_weight=None if weight is None else _native(nw.to_native(rows[weight]), weight),
        names=(score, y, " & ".join(z)),
    )
    return table.rename_groups(names)


def _in_engine(
    lazy: nw.LazyFrame[Any], y: str, z: list[str], score: str, weight: str | None
) -> ScoreTable:
    s = nw.col(score).cast(nw.Float64)
    asked = {"low": s.min(), "high": s.max()}
    if weight:
        w = nw.col(weight).cast(nw.Float64)
        lazy = lazy.with_columns(__square=w * w)
        asked |= {"most": w.max(), "rows": (w > 0).cast(nw.Int64).sum()}
    found = {name: one[0] for name, one in lazy.select(**asked).collect().to_dict().items()}
    low, high = found["low"], found["high"]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(
            f"Column {score!r} must hold finite numbers, got {low} to {high}. Drop those rows."
        )
    span = (0.0, 1.0) if low >= 0 and high <= 1 else (float(low), float(high))
    native = nw.to_native(lazy)

    def counted(column: str | None) -> Any:
        return score_histogram(native, y=y, z=z, score=score, bins=_BINS, weight=column, span=span)

    histogram = counted(weight)
    squares, most, rows = None, 1.0, None
    if weight:
        most, rows = float(found["most"]), int(found["rows"])
        squares = counted("__square").counts / most**2
    return ScoreTable.from_histogram(
        histogram.counts / most,
        histogram.edges,
        histogram.labels,
        histogram.groups,
        squares=squares,
        rows=rows,
    )
