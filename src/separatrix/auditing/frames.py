"""Audit of a dataframe or table of any engine: the group-by runs in the engine and only the small
table comes back.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from separatrix.auditing.result import Audit
from separatrix.columns.engines import check_columns, combined_groups, lazy_frame
from separatrix.columns.values import check_levels, in_order, listed
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

__all__ = ["audit_frame", "count_frame"]

_MOST_COMBINATIONS = (
    5_000_000  # rows of the grouped table beyond which a column must be an identifier
)


def audit_frame(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    pred: str | Sequence[str],
    weight: str | None = None,
    labels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Audit:
    """Audit predictions that stand in columns of a table: pandas, polars, pyarrow, DuckDB, Dask,
    PySpark, …

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y: column of true labels.
        z: column of groups; several make their intersection.
        pred: one column of integers, strings or booleans: hard labels; one column of floats in [0,
            1], with two labels: the probability of the last label; several columns: posteriors in
            sorted-label order (`labels` overrides).
        weight: column of row weights.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"y": [0, 0, 1, 1], "sex": ["f", "m", "f", "m"], "p": [0.1, 0.4, 0.8, 0.9]})
    >>> round(audit_frame(frame, y="y", z="sex", pred="p").violation, 4)
    0.0366
    """
    table = count_frame(frame, y=y, z=z, pred=pred, weight=weight, labels=labels)
    return Audit.of(table, confidence, random_state)


def count_frame(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    pred: str | Sequence[str],
    weight: str | None = None,
    labels: Sequence[Hashable] | None = None,
) -> CountTable:
    """The table behind `audit_frame`, arguments as there: what a worker sends where the rows are on
    many machines.

    Weights are divided by the largest of this frame, so the tables of parts add up only where rows
    have no weight.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "u": [0, k]}) for k in (0, 1)]
    >>> CountTable.merge([count_frame(part, y="y", z="sex", pred="u") for part in parts]).rows
    4
    """
    groups = [z] if isinstance(z, str) else list(z)
    predictions = [pred] if isinstance(pred, str) else list(pred)
    lazy = lazy_frame(frame)
    schema = lazy.collect_schema()
    check_columns(schema, [y, *groups, *predictions, *([weight] if weight else [])])
    if not groups or not predictions:
        raise InputError("`z` and `pred` need at least one column each.")
    for column in [*predictions, *([weight] if weight else [])]:
        if column in (y, *groups):
            raise InputError(
                f"Column {column!r} stands for two things at once. Name different columns for y, "
                f"z and pred."
            )
    hard = len(predictions) == 1 and not schema[predictions[0]].is_float()
    for column in [*([] if hard else predictions), *([weight] if weight else [])]:
        if not schema[column].is_numeric() and schema[column] != nw.Boolean:
            raise InputError(
                f"Column {column!r} must hold numbers, but its type is {schema[column]}."
            )
    if hard:
        table = _hard(lazy, y, groups, predictions[0], weight, labels)
    else:
        table = _soft(lazy, y, groups, predictions, weight, labels)
    check_levels(table.groups, ", ".join(groups))
    return table


def _grouped(
    lazy: nw.LazyFrame[Any], keys: list[str], totals: list[nw.Expr]
) -> dict[str, list[Any]]:
    """The grouped table as columns: one engine query."""
    grouped = lazy.group_by(keys).agg(*totals).head(_MOST_COMBINATIONS + 1).collect()
    if len(grouped) > _MOST_COMBINATIONS:
        raise InputError(
            f"The columns {listed(keys)} have over {_MOST_COMBINATIONS:,} combinations; is one an "
            f"identifier?"
        )
    if len(grouped) == 0:
        raise InputError("The table has no rows.")
    columns = {name: grouped[name].to_list() for name in grouped.columns}
    rows = columns["__rows"]
    for key in keys:
        gone = sum(
            n
            for value, n in zip(columns[key], rows, strict=True)
            if value is None or value != value
        )
        if gone:
            raise InputError(
                f"Column {key!r} has {gone:,} missing value{'s' * (gone > 1)}. Drop those rows or "
                f"give missing a level."
            )
        check_levels(list(dict.fromkeys(columns[key])), key)
    return columns


def _hard(
    lazy: nw.LazyFrame[Any],
    y: str,
    z: list[str],
    pred: str,
    weight: str | None,
    labels: Sequence[Hashable] | None,
) -> CountTable:
    totals = [nw.len().alias("__rows")]
    lazy = lazy.select(*dict.fromkeys([y, *z, pred, *([weight] if weight else [])]))
    if weight:
        w = nw.col(weight).cast(nw.Float64)
        lazy = lazy.with_columns(__w=w, __ww=w * w)
        totals += _weight_totals()
    columns = _grouped(lazy, [y, *z, pred], totals)
    factor = _check_weights(columns, weight)
    group = combined_groups(columns, z)
    # the combinations are rows again: counting them once gives the axes, and each then gets the
    # rows that it stands for
    names = y, " & ".join(z), pred
    axes = CountTable.from_labels(
        *map(_objects, (columns[y], group, columns[pred])), labels=labels, names=names
    )
    at_y = np.array([axes.labels.index(value) for value in columns[y]])
    at_z = np.array([axes.groups.index(value) for value in group])
    at_u = np.array([axes.predictions.index(value) for value in columns[pred]])
    counts, moments, n = np.zeros_like(axes.counts), None, int(sum(columns["__rows"]))
    counts[at_y, at_z, at_u] = (
        columns["__rows"] if weight is None else np.asarray(columns["__w"]) / factor
    )
    if weight is not None:
        moments = np.zeros((*counts.shape, counts.shape[-1]))
        moments[at_y, at_z, at_u, at_u] = np.asarray(columns["__ww"]) / factor**2
    return CountTable(
        counts, axes.labels, axes.groups, axes.predictions, rows=n, moments=moments
    ).simplest()


def _soft(
    lazy: nw.LazyFrame[Any],
    y: str,
    z: list[str],
    pred: list[str],
    weight: str | None,
    labels: Sequence[Hashable] | None,
) -> CountTable:
    w = nw.col(weight).cast(nw.Float64) if weight else nw.lit(1.0)
    score = [nw.col(name).cast(nw.Float64) for name in pred]
    parts = {"__w": w, "__ww": w * w}
    for i, q in enumerate(score):
        parts |= {f"__q{i}": q, f"__wq{i}": w * q, f"__ww1q{i}": w * w * q}
        parts |= {f"__wwqq{i}_{j}": w * w * q * score[j] for j in range(i, len(score))}
    total = score[0]
    for q in score[1:]:
        total = total + q
    parts["__sum"] = total
    keys = [y, *z]
    lazy = lazy.select(*keys, **parts)
    sums = [name for name in parts if name.startswith(("__wq", "__ww1q", "__wwqq"))]
    ends = [*(f"__q{i}" for i in range(len(pred))), "__sum"]
    columns = _grouped(
        lazy,
        keys,
        [
            nw.len().alias("__rows"),
            *_weight_totals(),
            *(nw.col(name).sum() for name in sums),
            *(nw.col(name).min().alias(f"{name}_min") for name in ends),
            *(nw.col(name).max().alias(f"{name}_max") for name in ends),
            nw.col("__sum").count().alias("__there"),
        ],
    )
    factor = _check_weights(columns, weight)
    _check_scores(columns, pred)
    axis = tuple(labels) if labels is not None else tuple(in_order(list(dict.fromkeys(columns[y]))))
    width = 2 if len(pred) == 1 else len(pred)
    if len(axis) != width:
        raise InputError(
            f"{'One column of probabilities needs' if len(pred) == 1 else f'{len(pred)} columns of posteriors need'} "
            f"{width} labels, but column {y!r} has {len(axis)} ({listed(axis)}). "
            "Name one column per label, and `labels` if a label does not occur."
        )
    unknown = [value for value in dict.fromkeys(columns[y]) if value not in axis]
    if unknown:
        raise InputError(f"Column {y!r} holds {listed(unknown)}, not in `labels` ({listed(axis)}).")
    group = combined_groups(columns, z)
    groups = tuple(in_order(list(dict.fromkeys(group))))
    counts = np.zeros((len(axis), len(groups), width))
    moments = np.zeros((*counts.shape, width))
    for row, (label, name) in enumerate(zip(columns[y], group, strict=True)):
        cell = axis.index(label), groups.index(name)
        counts[cell], moments[cell] = _cell(
            {key: columns[key][row] for key in ("__w", "__ww", *sums)}, len(pred)
        )
    return CountTable(
        counts / factor,
        axis,
        groups,
        axis,
        rows=int(sum(columns["__rows"])),
        moments=moments / factor**2,
    ).simplest()


def _cell(total: dict[str, float], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of w q and w² q qᵀ of one cell; from one column, those of (1 − q, q)."""
    if k > 1:
        second = np.array(
            [[total[f"__wwqq{min(i, j)}_{max(i, j)}"] for j in range(k)] for i in range(k)]
        )
        return np.array([total[f"__wq{i}"] for i in range(k)]), second
    w, q, ww, wwq, wwqq = (total[name] for name in ("__w", "__wq0", "__ww", "__ww1q0", "__wwqq0_0"))
    return np.array([w - q, q]), np.array([[ww - 2 * wwq + wwqq, wwq - wwqq], [wwq - wwqq, wwqq]])


def _weight_totals() -> list[nw.Expr]:
    return [
        nw.col("__w").sum(),
        nw.col("__ww").sum(),
        nw.col("__w").min().alias("__w_min"),
        nw.col("__w").max().alias("__w_max"),
        nw.col("__w").count().alias("__w_there"),
    ]


def _check_weights(columns: dict[str, list[Any]], weight: str | None) -> float:
    """The largest weight, by which all are divided: only their ratios matter."""
    if weight is None:
        return 1.0
    gone = sum(columns["__rows"]) - sum(columns["__w_there"])
    if gone:
        raise InputError(
            f"Column {weight!r} has {gone:,} missing weights. Drop those rows or give them a "
            f"weight."
        )
    low, high = np.min(columns["__w_min"]), np.max(columns["__w_max"])
    if not (low >= 0 and np.isfinite(high) and high > 0):
        bad = low if not low >= 0 else high
        raise InputError(
            f"Column {weight!r} must hold finite weights, not negative and not all zero, got {bad}."
        )
    return float(high)


def _check_scores(columns: dict[str, list[Any]], pred: list[str]) -> None:
    gone = sum(columns["__rows"]) - sum(columns["__there"])
    if gone:
        raise InputError(
            f"Columns {listed(pred)} have {gone:,} rows with a missing prediction. Drop or "
            f"predict them."
        )
    for i, name in enumerate(pred):
        low, high = np.min(columns[f"__q{i}_min"]), np.max(columns[f"__q{i}_max"])
        if not (low >= -1e-6 and high <= 1 + 1e-6):
            bad = low if not low >= -1e-6 else high
            raise InputError(
                f"Column {name!r} must hold probabilities between 0 and 1, got {bad}. Logits need "
                f"a softmax."
            )
    if len(pred) > 1:
        low, high = np.min(columns["__sum_min"]), np.max(columns["__sum_max"])
        if not (low >= 1 - 1e-6 and high <= 1 + 1e-6):
            bad = low if not low >= 1 - 1e-6 else high
            raise InputError(
                f"Columns {listed(pred)} must sum to one in every row (within 1e-6), got {bad:.7g}."
            )


def _objects(values: list[Any]) -> np.ndarray:
    """An object column, so that tuples stay single values."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
