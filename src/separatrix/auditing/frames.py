"""Tables of any engine: the engine groups the rows, only the small table comes back."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from operator import add
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from separatrix.columns.counting import count_labels, refuse_scores, refuse_unlisted
from separatrix.columns.frames import check_roles, given
from separatrix.columns.groups import as_groups
from separatrix.columns.sources import Source, check_numbers, grouped_columns
from separatrix.columns.values import MAX_LEVELS, listed
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

__all__ = ["Labels", "Names", "count_frame", "count_source"]

Labels = Sequence[Hashable] | None
Names = str | Sequence[str]


def count_frame(
    frame: Any, *, y: str, z: Names, pred: Names, weight: str | None = None, labels: Labels = None
) -> CountTable:
    """The table behind `audit` of a frame: what a worker sends where rows are on many machines.

    Tables of parts add up to that of the whole.

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y: column of true labels.
        z: column of groups; several make their intersection.
        pred: column of labels; several columns: posteriors in sorted-label order (`labels`
            overrides).
        weight: column of row weights.
        labels: all labels, in the order of the posteriors.

    >>> import polars as pl
    >>> parts = [pl.DataFrame({"y": [0, 1], "sex": ["f", "m"], "u": [0, k]}) for k in (0, 1)]
    >>> CountTable.merge([count_frame(part, y="y", z="sex", pred="u") for part in parts]).rows
    4
    """
    y, weight = str(y), None if weight is None else str(weight)
    groups, predictions = check_roles(y, z, pred, weight)
    return count_source(Source.of_frame(frame), y, groups, predictions, weight, labels)


def count_source(
    source: Source, y: str, z: list[str], pred: list[str], weight: str | None, labels: Labels
) -> CountTable:
    """Count a table in its engine."""
    numbers = given(*(pred if len(pred) > 1 else []), weight)
    check_numbers(source, given(y, *z, *pred, weight), numbers)
    if len(pred) > 1:
        return _soft(source, y, z, pred, weight, labels)
    _refuse_scores(source, pred[0])
    return _hard(source, y, z, pred[0], weight, labels)


def _refuse_scores(source: Source, pred: str) -> None:
    """Refuse a column of many fractions before the engine groups by it; few are looked at later."""
    if source.text:
        assert source.scan is not None
        first = source.scan.columns([pred], rows=4 * MAX_LEVELS)[pred]
    elif source.lazy.collect_schema()[pred].is_float():
        p = source.column(pred)
        with source.reading():
            odd = source.lazy.select(p=p).filter(nw.col("p") != nw.col("p").floor())
            first = odd.head(4 * MAX_LEVELS).collect()["p"].to_numpy()
    else:
        return
    if isinstance(first, np.ndarray):
        refuse_scores(first, ("y", "z", pred))


def _hard(
    source: Source, y: str, z: list[str], pred: str, weight: str | None, labels: Labels
) -> CountTable:
    """The table of labels."""
    source = source.parse(given(weight))
    parts = {"w": source.numbers(weight)} if weight is not None else {}
    made = {"ww": nw.col("w") * nw.col("w")} if weight is not None else {}
    totals = _weight_totals() if weight is not None else []
    columns = grouped_columns(source, [y, *z, pred], parts, totals, made=made)
    at_u = columns[f"k{len(z) + 1}"]
    factor = _check_weights(columns, weight)
    # the combinations are rows again: counting them once gives the axes, and each then gets the
    # rows that it stands for
    groups = as_groups({name: columns[f"k{i}"] for i, name in enumerate(z, 1)})
    names = y, " & ".join(z), pred
    axes = count_labels(columns["k0"], at_u, sensitive_features=groups, labels=labels, names=names)
    at = (
        columns["k0"].places(axes.labels, y),
        groups.places(axes.groups, names[1]),
        at_u.places(axes.predictions, pred),
    )
    counts, moments = np.zeros_like(axes.counts), None
    np.add.at(counts, at, columns["rows"] if weight is None else np.asarray(columns["w"]) / factor)
    if weight is not None:
        moments = np.zeros((*counts.shape, counts.shape[-1]))
        np.add.at(moments, (*at, at[2]), np.asarray(columns["ww"]) / factor**2)
    return CountTable(
        counts, axes.labels, axes.groups, axes.predictions, sum(columns["rows"]), moments, factor
    ).simplest()


def _soft(
    source: Source, y: str, z: list[str], pred: list[str], weight: str | None, labels: Labels
) -> CountTable:
    source = source.parse(given(*pred, weight))
    numbers = {f"q{i}": source.numbers(name) for i, name in enumerate(pred)}
    score = [nw.col(name) for name in numbers]
    numbers["w"] = source.numbers(weight) if weight is not None else nw.lit(1.0)
    w = nw.col("w")
    k = range(len(score))
    sums = {f"wq{i}": w * score[i] for i in k}
    sums |= {f"wwqq{i}_{j}": w * w * score[i] * score[j] for i in k for j in k[i:]}
    ends = [*(f"q{i}" for i in range(len(pred))), "sum"]
    parts = {"ww": w * w, "sum": reduce(add, score)} | sums
    totals = [
        *_weight_totals(),
        *(nw.col(name).sum() for name in sums),
        *(nw.col(name).min().alias(f"{name}_min") for name in ends),
        *(nw.col(name).max().alias(f"{name}_max") for name in ends),
        nw.col("sum").count().alias("there"),
    ]
    columns = grouped_columns(source, [y, *z], numbers, totals, made=parts)
    factor = _check_weights(columns, weight)
    _check_scores(columns, pred)
    axis = columns["k0"].levels if labels is None else tuple(labels)
    if len(axis) != len(score):
        raise InputError(
            f"The columns {listed(pred)} hold probabilities of {len(score)} labels, but {y!r} has "
            f"{len(axis)} ({listed(axis)}). Name one column per label, and `labels` if a label "
            "does not occur."
        )
    refuse_unlisted(columns["k0"].levels, axis, y)
    groups = as_groups({name: columns[f"k{i}"] for i, name in enumerate(z, 1)})
    counts = np.zeros((len(axis), len(groups.levels), len(score)))
    moments = np.zeros((*counts.shape, len(score)))
    at = columns["k0"].places(axis, y), groups.codes
    for i in k:
        np.add.at(counts[..., i], at, columns[f"wq{i}"])
        for j in k:
            np.add.at(moments[..., i, j], at, columns[f"wwqq{min(i, j)}_{max(i, j)}"])
    rows = sum(columns["rows"])
    counts, moments = counts / factor, moments / factor**2
    return CountTable(counts, axis, groups.levels, axis, rows, moments, factor).simplest()


def _weight_totals() -> list[nw.Expr]:
    return [
        nw.col("w").sum(),
        nw.col("ww").sum(),
        nw.col("w").min().alias("w_min"),
        nw.col("w").max().alias("w_max"),
        nw.col("w").count().alias("w_there"),
    ]


def _check_weights(columns: dict[str, Any], weight: str | None) -> float:
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


def _check_scores(columns: dict[str, Any], pred: list[str]) -> None:
    gone = sum(columns["rows"]) - sum(columns["there"])
    if gone:
        raise InputError(
            f"Columns {listed(pred)} have {gone:,} rows with a missing prediction. Drop or predict "
            "them."
        )
    for i, name in enumerate(pred):
        low, high = np.min(columns[f"q{i}_min"]), np.max(columns[f"q{i}_max"])
        if not (low >= -1e-6 and high <= 1 + 1e-6):
            bad = low if not low >= -1e-6 else high
            raise InputError(
                f"Column {name!r} must hold probabilities between 0 and 1, got {bad}. Logits need "
                "a softmax."
            )
    low, high = np.min(columns["sum_min"]), np.max(columns["sum_max"])
    if not (low >= 1 - 1e-6 and high <= 1 + 1e-6):
        bad = low if not low >= 1 - 1e-6 else high
        raise InputError(
            f"Columns {listed(pred)} must sum to one in every row (within 1e-6), got {bad:.7g}."
        )
