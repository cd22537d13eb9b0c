r"""Score histograms N[y, z, bin], counted by a table's own engine: one group-by, little comes back.

Histograms of parts add up, so rows on many machines give the same numbers as one table. A ROC curve
of the histogram is the ROC curve of the score rounded down to the bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.engines import (
    Source,
    check_numbers,
    check_weights,
    grouped_columns,
    weight_totals,
)
from separatrix.columns.frames import names_of
from separatrix.columns.groups import as_groups
from separatrix.columns.values import Levels
from separatrix.core.numbers import whole_number
from separatrix.errors import InputError

__all__ = ["ScoreHistogram", "score_ends", "score_histogram"]

Array = NDArray[np.float64]


class ScoreHistogram(NamedTuple):
    """Rows, or their weights, with each label, group and bin.

    Args:
        counts: array (labels, groups, bins).
        labels, groups: names of the first two axes, sorted.
        edges: array (bins + 1,), rising; bin b holds edges[b] ≤ score < edges[b+1], the last bin
            its upper edge too.
        squares: the same of the squared weights; None where rows weigh one.
        largest: weight.
    """

    counts: Array
    labels: Levels
    groups: Levels
    edges: Array
    squares: Array | None = None
    largest: float = 1.0


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
        frame: anything narwhals takes, or files opened with `engines.scan`; lazy and distributed
            frames stay where they are.
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
    [y], [score] = names_of(y, "y"), names_of(score, "score")
    keys = [y, *names_of(z, "z")]
    source = Source.from_frame(frame)
    numbers = [score, *([] if weight is None else names_of(weight, "weight"))]
    for column in numbers:
        if column in keys:
            raise InputError(f"Column {column!r} stands for two things at once: name others.")
    check_numbers(source, [*keys, *numbers], numbers)
    bins = whole_number(bins, "bins", least=1)
    if bins > 1 << 20:
        raise InputError(f"`bins` must be between 1 and {1 << 20:,}, got {bins}.")
    s = source.numbers(score)
    low, high = score_ends(source, score) if span is None else span
    if not low < high:
        low, high = low - 0.5, low + 0.5  # a single score
    parts, totals = {"bin": ((s - low) * (bins / (high - low))).floor()}, []
    if weight:
        w = source.numbers(weight)
        parts |= {"w": w, "ww": w * w}
        totals = weight_totals()
    table = grouped_columns(source, keys, parts, totals, by=("bin",))
    rows = np.asarray(table["rows"], dtype=np.float64)
    place = _bins(table["bin"], rows, bins, score, (low, high))
    label = table["k0"]
    group = as_groups({name: table[f"k{i}"] for i, name in enumerate(keys[1:], 1)})
    counts = np.zeros((len(label.levels), len(group.levels), bins))
    largest = check_weights(table, weight)
    total = rows if weight is None else np.asarray(table["w"], dtype=np.float64)
    at = label.codes, group.codes, place
    np.add.at(counts, at, total)
    squares = None
    if weight:
        squares = np.zeros_like(counts)
        np.add.at(squares, at, np.asarray(table["ww"], dtype=np.float64))
    edges = np.linspace(low, high, bins + 1)
    return ScoreHistogram(counts, label.levels, group.levels, edges, squares, largest)


def score_ends(source: Source, score: str) -> tuple[float, float]:
    """The smallest and the largest score of a table; both are finite."""
    s = source.numbers(score)
    with source.reading():
        ends = source.lazy.select(low=s.min(), high=s.max()).collect()
    low, high = ends["low"].to_list()[0], ends["high"].to_list()[0]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(
            f"Column {score!r} must hold finite numbers, got {low} to {high}. Drop those rows."
        )
    return float(low), float(high)


def _bins(
    found: list[float | None], rows: Array, bins: int, score: str, span: tuple[float, float]
) -> NDArray[np.intp]:
    """Places of the bins; scores that are missing, not finite or outside are refused."""
    at = np.array([np.nan if b is None else b for b in found], dtype=np.float64)
    if not np.isfinite(at).all():
        gone = int(rows[~np.isfinite(at)].sum())
        raise InputError(
            f"Column {score!r} has {gone:,} missing or infinite values. Drop those rows."
        )
    outside = (at < 0) | (at > bins)
    if outside.any():
        raise InputError(
            f"Column {score!r} has {int(rows[outside].sum()):,} values outside {span[0]:g} to "
            f"{span[1]:g}. Pass `span=None` for scores that are not probabilities."
        )
    return np.minimum(at, bins - 1).astype(np.intp)
