"""Any table to the counts of an audit: arrays and small files here, all else in its own engine.

Only the small table of counts leaves an engine, and tables of parts add up to that of the whole:
what a worker sends where rows are on many machines.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from separatrix.columns.counting import (
    count_labels,
    count_posteriors,
    count_scores,
    refuse_scores,
    refuse_unlisted,
    score_ends,
    score_histogram,
)
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import Roles, given
from separatrix.columns.groups import as_groups
from separatrix.columns.readers import Source, in_engine, summed, whole_columns, with_numbers
from separatrix.columns.values import MAX_LEVELS, Coded, as_array, listed
from separatrix.core.counts import CountTable, diagonal
from separatrix.core.score_tables import ScoreTable
from separatrix.errors import InputError

Labels = Sequence[Hashable] | None
Names = str | Sequence[str]
_NAMES = "y_true", "sensitive_features", "y_pred"
_IN_MEMORY = 1_000_000  # rows up to which every score is told apart
_BINS = 1 << 14


def count_table(y_true: Any, y_pred: Any, names: tuple[str, str, str] = _NAMES, **arguments: Any) -> CountTable:
    """The table of hard labels, or of posteriors; the arguments are those of `count_labels`."""
    u = y_pred.codes if isinstance(y_pred, Coded) else as_array(y_pred, names[2])
    if u.ndim == 1 or (u.ndim == 2 and u.shape[1] == 1):
        return count_labels(y_true, y_pred, names=names, **arguments)
    return count_posteriors(y_true, u, names=names, **arguments)


def count_rows(
    data: Any, *, y: str, z: Names, pred: Names, weight: str | None = None, labels: Labels = None
) -> CountTable:
    """The table behind `audit` of a frame or of files.

    Args:
        data: a frame that narwhals takes, a mapping of columns, a file or a pattern of files; lazy
            and distributed frames stay where they are.
        y: column of true labels.
        z: column of groups; several make their intersection.
        pred: column of labels; several columns: posteriors in sorted-label order (`labels`
            overrides).
        weight: column of row weights.
        labels: all labels, in the order of the posteriors.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "u": [0, k]}) for k in (0, 1)]
    >>> CountTable.merge([count_rows(part, y="y", z="sex", pred="u") for part in parts]).rows
    4
    """
    roles = Roles.named(y, z, pred, weight)
    source = in_engine(data)
    if source is None:
        y_true, u, groups, w = whole_columns(data, roles)
        return count_table(y_true, u, roles.words, sensitive_features=groups, sample_weight=w, labels=labels)
    several = len(roles.predictions) > 1
    numbers = given(*(roles.predictions if several else []), roles.weight)
    source = with_numbers(source, roles.columns, numbers)
    if several:
        return _soft(source, *roles, labels)
    (decision,) = roles.predictions
    _refuse_scores(source, decision)
    return _hard(source, roles.target, roles.groups, decision, roles.weight, labels)


def count_score_rows(
    data: Any, *, y: str, z: Names, score: Names, weight: str | None = None, in_memory: int = _IN_MEMORY
) -> ScoreTable:
    """The table behind `audit_score` of a frame or of files.

    Args:
        data, y, z, weight: as in `count_rows`; two labels.
        score: column of numbers; larger speaks for the second label.
        in_memory: rows of an engine up to which every score is told apart.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "p": [0.1, p]}) for p in (0.4, 0.8)]
    >>> a, b = (count_score_rows(part, y="y", z="sex", score="p") for part in parts)
    >>> (a + b).rows
    4
    """
    roles = Roles.named(y, z, score, weight)
    name = roles.only
    source = in_engine(data)
    if source is not None:
        source = with_numbers(source, roles.columns, given(name, roles.weight))
        with source.reading():
            rows = int(source.lazy.select(nw.len().alias("n")).collect()["n"].to_list()[0])
        if rows == 0:
            raise InputError("The table has no rows.")
        if rows > in_memory:
            low, high = score_ends(source, name)
            span = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
            histogram = score_histogram(
                source, y=roles.target, z=roles.groups, score=name, bins=_BINS, weight=roles.weight, span=span
            )
            return ScoreTable.from_histogram(histogram)
    y_true, s, groups, w = whole_columns(data if source is None else source, roles)
    return count_scores(y_true, as_numbers(s, name), sensitive_features=groups, sample_weight=w, names=roles.words)


def _refuse_scores(source: Source, pred: str) -> None:
    """Refuse a column of many fractions before the engine groups by it; few are looked at later."""
    if source.text:
        first = source.columns([pred], rows=4 * MAX_LEVELS)[pred]
    elif source.lazy.collect_schema()[pred].is_float():
        p = source.column(pred)
        with source.reading():
            odd = source.lazy.select(p=p).filter(nw.col("p") != nw.col("p").floor())
            first = odd.head(4 * MAX_LEVELS).collect()["p"].to_numpy()
    else:
        return
    if isinstance(first, np.ndarray):
        refuse_scores(first, ("y", "z", pred))


def _hard(source: Source, y: str, z: list[str], pred: str, weight: str | None, labels: Labels) -> CountTable:
    """The table of labels."""
    table = source.grouped([y, *z, pred], weight)
    # the combinations are rows again: counting them once gives the axes, and each then gets the
    # rows that it stands for
    groups = as_groups(dict(zip(z, table.keys[1:], strict=False)))
    names = y, " & ".join(z), pred
    axes = count_labels(table.keys[0], table.keys[-1], sensitive_features=groups, labels=labels, names=names)
    place = (
        table.keys[0].places(axes.labels, y),
        groups.places(axes.groups, names[1]),
        table.keys[-1].places(axes.predictions, pred),
    )
    shape, scale = axes.counts.shape, table.scale
    counts, moments = summed(table.weight, place, shape) / scale, None
    if weight is not None:
        moments = diagonal(summed(table.squares, place, shape) / scale**2)
    return replace(axes, counts=counts, rows=int(table.rows.sum()), moments=moments, scale=scale).simplest()


def _soft(source: Source, y: str, z: list[str], pred: list[str], weight: str | None, labels: Labels) -> CountTable:
    k = range(len(pred))
    q = [source.numbers(name) for name in pred]
    w = nw.lit(1.0) if weight is None else source.numbers(weight)
    # the engine adds up what CountTable needs of each cell, w q and w² q qᵀ, and shows ranges to check
    sums = {f"wq{i}": w * q[i] for i in k}
    sums |= {f"wwqq{i}_{j}": w * w * q[i] * q[j] for i in k for j in k[i:]}
    ends = {**{f"q{i}": q[i] for i in k}, "sum": reduce(add, q)}
    totals = [
        *(nw.col(name).sum() for name in sums),
        *(nw.col(name).min().alias(f"{name}_min") for name in ends),
        *(nw.col(name).max().alias(f"{name}_max") for name in ends),
        nw.col("sum").count().alias("there"),
    ]
    table = source.grouped([y, *z], weight, parts=sums | ends, totals=totals)
    columns, scale, label = table.totals, table.scale, table.keys[0]
    _check_scores(columns, pred)
    axis = label.levels if labels is None else tuple(labels)
    if len(axis) != len(pred):
        labels_of_y = f"{y!r} has {len(axis)} ({listed(axis)})"
        raise InputError(
            f"The columns {listed(pred)} hold probabilities of {len(pred)} labels, but {labels_of_y}. Name one column "
            "per label, and `labels` if a label does not occur."
        )
    refuse_unlisted(label.levels, axis, y)
    groups = as_groups(dict(zip(z, table.keys[1:], strict=True)))
    shape = len(axis), len(groups.levels)
    place = label.places(axis, y), groups.codes
    total = {name: summed(columns[name], place, shape) for name in sums}
    counts = np.stack([total[f"wq{i}"] for i in k], -1) / scale
    products = [[total[f"wwqq{min(i, j)}_{max(i, j)}"] for j in k] for i in k]
    moments = np.moveaxis(np.array(products), (0, 1), (2, 3)) / scale**2
    return CountTable(counts, axis, groups.levels, axis, int(table.rows.sum()), moments, scale).simplest()


def _check_scores(columns: Mapping[str, Any], pred: list[str]) -> None:
    gone = sum(columns["rows"]) - sum(columns["there"])
    if gone:
        raise InputError(f"Columns {listed(pred)} have {gone:,} rows with a missing prediction. Drop or predict them.")
    for i, name in enumerate(pred):
        if (bad := _outside(columns, f"q{i}", -1e-6)) is not None:
            raise InputError(f"Column {name!r} must be between 0 and 1, got {bad}. Logits need a softmax.")
    if (bad := _outside(columns, "sum", 1 - 1e-6)) is not None:
        raise InputError(f"Columns {listed(pred)} must sum to one in every row (within 1e-6), got {bad:.7g}.")


def _outside(columns: Mapping[str, Any], name: str, least: float) -> float | None:
    """An end of the range of a column that is below `least`, or above one."""
    low, high = np.min(columns[f"{name}_min"]), np.max(columns[f"{name}_max"])
    return next((end for end in (low, high) if not least <= end <= 1 + 1e-6), None)
