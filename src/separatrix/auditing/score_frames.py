"""Scores in a table or files: few rows in memory, many as the engine's histogram."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from separatrix.columns.counting import count_scores
from separatrix.columns.engines import is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import check_roles, given
from separatrix.columns.histograms import score_histogram
from separatrix.columns.readers import find_files, is_large, read_table
from separatrix.columns.sources import Source, check_numbers
from separatrix.core.score_tables import ScoreTable
from separatrix.errors import InputError

__all__ = ["count_score_files", "count_score_frame"]

_IN_MEMORY = 1_000_000  # rows up to which every score is told apart
_BINS = 1 << 14


def count_score_files(
    path: str | Path, *, y: str, z: str | Sequence[str], score: str, weight: str | None = None
) -> ScoreTable:
    """The table behind `audit_score` of files; arguments as in `count_score_frame`."""
    groups, _ = check_roles(y, z, score, weight)
    files = find_files(path)
    if is_parquet(files[0]) or is_large(files):
        return count_score_frame(scan(files), y=y, z=groups, score=score, weight=weight)
    columns = read_table(path, given(y, *groups, score, weight))
    return count_scores(
        columns[y],
        as_numbers(columns[score], score),
        sensitive_features={name: columns[name] for name in groups},
        sample_weight=as_numbers(columns[weight], weight) if weight is not None else None,
        names=(y, " & ".join(groups), score),
    )


def count_score_frame(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    weight: str | None = None,
    in_memory: int = _IN_MEMORY,
) -> ScoreTable:
    """The table behind `audit_score` of a frame: what each of many workers sends.

    Tables of parts add up to that of the whole.

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y: column of true labels, two of them.
        z: column of groups; several make their intersection.
        score: column of numbers; larger speaks for the second label.
        weight: column of row weights.
        in_memory: rows up to which every score is told apart.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "p": [0.1, p]}) for p in (0.4, 0.8)]
    >>> a, b = (count_score_frame(part, y="y", z="sex", score="p") for part in parts)
    >>> (a + b).rows
    4
    """
    groups, _ = check_roles(y, z, score, weight)
    source = Source.of_frame(frame)
    numbers = given(score, weight)
    check_numbers(source, [y, *groups, *numbers], numbers)
    with source.reading():
        rows = int(source.lazy.select(nw.len().alias("n")).collect()["n"].to_list()[0])
    if rows == 0:
        raise InputError("The table has no rows.")
    if rows <= in_memory:
        return _in_memory(source, y, groups, score, weight)
    return _in_engine(source, y, groups, score, weight)


def _in_memory(source: Source, y: str, z: list[str], score: str, weight: str | None) -> ScoreTable:
    inner = {f"k{i}": source.column(key) for i, key in enumerate([y, *z])}
    inner |= {f"n{i}": source.numbers(name) for i, name in enumerate((score, weight)) if name}
    with source.reading():
        rows = source.lazy.select(**inner).collect()
    return count_scores(
        source.levels(rows["k0"].to_list(), y),
        rows["n0"].to_numpy(),
        sensitive_features={
            name: source.levels(rows[f"k{i}"].to_list(), name) for i, name in enumerate(z, 1)
        },
        sample_weight=rows["n1"].to_numpy() if weight is not None else None,
        names=(y, " & ".join(z), score),
    )


def _in_engine(source: Source, y: str, z: list[str], score: str, weight: str | None) -> ScoreTable:
    s = source.numbers(score)
    asked = {"low": s.min(), "high": s.max()}
    if weight:
        w = source.numbers(weight)
        asked |= {"most": w.max(), "rows": (w > 0).cast(nw.Int64).sum()}
    with source.reading():
        ends = source.lazy.select(**asked).collect()
    found = {name: ends[name].to_list()[0] for name in asked}
    low, high = found["low"], found["high"]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(
            f"Column {score!r} must hold finite numbers, got {low} to {high}. Drop those rows."
        )
    span = (0.0, 1.0) if low >= 0 and high <= 1 else (float(low), float(high))
    histogram = score_histogram(source, y=y, z=z, score=score, bins=_BINS, weight=weight, span=span)
    most, rows = (float(found["most"]), int(found["rows"])) if weight is not None else (1.0, None)
    return ScoreTable.from_histogram(
        histogram.counts / most,
        histogram.edges,
        histogram.labels,
        histogram.groups,
        squares=None if histogram.squares is None else histogram.squares / most**2,
        rows=rows,
        scale=most,
    )
