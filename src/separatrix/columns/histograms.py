r"""Score histograms N[y, z, bin], counted by a table's own engine: one group-by, a small table back.

Histograms of parts add up, so rows on many machines give the same numbers as one table. A ROC curve
of the histogram is the ROC curve of the score rounded down to the bins.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from separatrix.columns.engines import check_columns, combined_groups, lazy_frame
from separatrix.columns.values import Levels, check_levels, in_order, is_missing, listed
from separatrix.errors import InputError

__all__ = ["ScoreHistogram", "score_histogram"]

Array = NDArray[np.float64]
_MOST = 20_000_000  # rows of the grouped table beyond which a column must be an identifier


class ScoreHistogram(NamedTuple):
    """Rows, or their weights, with each label, group and bin.

    Args:
        counts: array (labels, groups, bins).
        labels, groups: names of the first two axes, sorted.
        edges: array (bins + 1,), rising; bin b holds edges[b] ≤ score < edges[b+1], the last bin
            its upper edge too.
    """

    counts: Array
    labels: Levels
    groups: Levels
    edges: Array


def score_histogram(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    bins: int = 4096,
    weight: str | None = None,
    span: tuple[float, float] | None = (0.0, 1.0),
) -> ScoreHistogram:
    """Count the rows of a table by label, group and bin of the score, in the table's own engine.

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y: column of labels.
        z: column of groups; several make their intersection.
        score: column of scores.
        bins: number of bins of equal width.
        weight: column of row weights.
        span: the ends of the bins; None looks for the smallest and the largest score first, which
            is one more pass.

    Returns:
        (counts, labels, groups, edges), see `ScoreHistogram`.

    >>> import polars as pl
    >>> t = pl.DataFrame({"y": [0, 1, 1], "z": ["a", "a", "b"], "s": [0.1, 0.9, 1.0]})
    >>> score_histogram(t, y="y", z="z", score="s", bins=2).counts.tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
    """
    keys = [y, *([z] if isinstance(z, str) else z)]
    lazy = lazy_frame(frame)
    schema = lazy.collect_schema()
    numbers = [score, *([weight] if weight else [])]
    check_columns(schema, [*keys, *numbers])
    for column in numbers:
        if column in keys:
            raise InputError(
                f"Column {column!r} stands for two things at once: name different ones."
            )
        if not schema[column].is_numeric() and schema[column] != nw.Boolean:
            raise InputError(f"Column {column!r} must hold numbers, its type is {schema[column]}.")
    if not 1 <= bins <= 1 << 20:
        raise InputError(f"`bins` must be between 1 and {1 << 20:,}, got {bins}.")
    low, high = _ends(lazy, score) if span is None else span
    if not low < high:
        low, high = low - 0.5, low + 0.5  # a single score
    scaled = (nw.col(score).cast(nw.Float64) - low) * (bins / (high - low))
    parts = {"__bin": scaled.floor()}
    totals = [nw.len().alias("__rows")]
    if weight:
        parts["__w"] = nw.col(weight).cast(nw.Float64)
        w = nw.col("__w")
        totals += [w.sum(), w.min().alias("__least"), w.count().alias("__there")]
    query = lazy.select(*keys, **parts).group_by([*keys, "__bin"]).agg(*totals)
    table = query.head(_MOST + 1).collect()
    if len(table) > _MOST:
        raise InputError(f"The columns {listed(keys)} have too many levels; is one an identifier?")
    if len(table) == 0:
        raise InputError("The table has no rows.")
    rows = table["__rows"].to_numpy().astype(np.float64)
    if weight:
        rows = _weights(table, weight)
    place = _bins(table, bins, score, (low, high))
    columns = {key: table[key].to_list() for key in keys}
    label = _codes(columns[y], y, table)
    for key in keys[1:]:
        _codes(columns[key], key, table)
    group = _codes(combined_groups(columns, keys[1:]), " & ".join(keys[1:]), table)
    counts = np.zeros((len(label[1]), len(group[1]), bins))
    np.add.at(counts, (label[0], group[0], place), rows)
    return ScoreHistogram(counts, label[1], group[1], np.linspace(low, high, bins + 1))


def _ends(lazy: nw.LazyFrame[Any], score: str) -> tuple[float, float]:
    s = nw.col(score).cast(nw.Float64)
    ends = lazy.select(low=s.min(), high=s.max()).collect()
    low, high = ends["low"].to_list()[0], ends["high"].to_list()[0]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(
            f"Column {score!r} has no finite smallest and largest score: {low}, {high}."
        )
    return float(low), float(high)


def _bins(table: Any, bins: int, score: str, span: tuple[float, float]) -> NDArray[np.intp]:
    """Places of the bins; scores that are missing, not finite or outside are refused."""
    at = np.array([np.nan if b is None else b for b in table["__bin"].to_list()])
    rows = table["__rows"].to_numpy()
    if not np.isfinite(at).all():
        gone = int(rows[~np.isfinite(at)].sum())
        raise InputError(
            f"Column {score!r} has {gone:,} missing or infinite values. Drop those rows."
        )
    outside = (at < 0) | (at > bins)
    if outside.any():
        raise InputError(
            f"Column {score!r} has {int(rows[outside].sum()):,} values outside "
            f"{span[0]:g} to {span[1]:g}. Pass `span=None` for scores that are not probabilities."
        )
    return np.minimum(at, bins - 1).astype(np.intp)


def _weights(table: Any, weight: str) -> Array:
    gone = int((table["__rows"].to_numpy() - table["__there"].to_numpy()).sum())
    if gone:
        raise InputError(
            f"Column {weight!r} has {gone:,} missing weights. Drop or fill those rows."
        )
    total, least = table["__w"].to_numpy().astype(np.float64), table["__least"].to_numpy()
    if not (least.min() >= 0 and np.isfinite(total).all() and total.sum() > 0):
        raise InputError(f"Column {weight!r} must hold finite weights, not negative, not all zero.")
    return total


def _codes(
    values: list[Hashable], name: str, table: Any
) -> tuple[NDArray[np.intp], tuple[Hashable, ...]]:
    """Codes in the order of the sorted levels; missing values are refused."""
    missing = [is_missing(value) for value in values]
    if any(missing):
        gone = int(table["__rows"].to_numpy()[np.array(missing)].sum())
        raise InputError(
            f"Column {name!r} has {gone:,} missing value{'s' * (gone > 1)}. "
            "Drop those rows or give missing a level."
        )
    levels = list(dict.fromkeys(values))
    check_levels(levels, name)
    position = {level: i for i, level in enumerate(in_order(levels))}
    return np.array([position[value] for value in values], dtype=np.intp), tuple(position)
