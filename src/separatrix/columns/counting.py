"""Raw columns to the table N[y, z, u]: hard labels, or posteriors, with or without weights.

A table that its engine counts has its scores in bins: the histogram N[y, z, bin] is one group-by.
The ROC curve of a histogram is that of the score rounded down to the bins.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.frames import Roles, given
from separatrix.columns.groups import as_groups, group_columns
from separatrix.columns.readers import Source, summed, with_numbers
from separatrix.columns.scores import check_posteriors, posterior_matrix, scaled_weight, score_column
from separatrix.columns.values import (
    MAX_LEVELS,
    Coded,
    Codes,
    Levels,
    as_levels,
    axis_of,
    check_lengths,
    check_levels,
    code_levels,
    encode,
    listed,
    one_column,
)  # fmt: skip
from separatrix.core.counts import CountTable, diagonal, place, union
from separatrix.core.crosstab import crosstab, crosstab_small
from separatrix.core.numbers import whole_number
from separatrix.core.score_tables import ScoreHistogram, ScoreTable
from separatrix.errors import InputError

Array = NDArray[np.float64]
Names = tuple[str, str, str]
_NAMES = ("y_true", "sensitive_features", "y_pred")
_CHUNK = 1 << 19  # rows sorted at a time


def count_labels(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    labels: Sequence[Hashable] | None = None,
    sample_weight: ArrayLike | None = None,
    names: Names = _NAMES,
) -> CountTable:
    """Count hard predictions.

    Args:
        y_true, y_pred: labels and predicted labels.
        sensitive_features: groups, as in `as_groups`.
        labels: fixes the label axis; otherwise it is every label and prediction seen.
        sample_weight: a weight per row.
        names: what to call the three columns in an error.

    >>> count_labels([0, 1, 1], [0, 0, 1], sensitive_features=["f", "m", "m"]).counts[1]
    array([[0., 0.],
           [1., 1.]])
    """
    groups = _group_column(sensitive_features, names[1])
    columns = [_column(y_true, names[0]), groups, _column(y_pred, names[2])]
    refuse_scores(columns[2], names)
    n = check_lengths(dict(zip(names, columns, strict=True)))
    weight, scale = scaled_weight(sample_weight, n)
    plain = [column.codes if isinstance(column, Coded) else column for column in columns]
    whole = all(column.dtype.kind in "biu" for column in plain)
    rows = crosstab_small(plain) if whole else None
    if rows is not None:
        coded = [
            column if isinstance(column, Coded) else Coded(column, code_levels(column, k))
            for column, k in zip(columns, rows.shape, strict=True)
        ]
    else:
        with ThreadPoolExecutor(2) as pool:
            coded = list(pool.map(encode, columns, names))
        rows = crosstab([column.codes for column in coded], [len(column.levels) for column in coded])
    codes = [column.codes for column in coded]
    counts = rows if weight is None else crosstab(codes, rows.shape, weight)
    # a level stays on the axis even if the weights of its rows are all zero
    seen = [np.flatnonzero(rows.sum(tuple({0, 1, 2} - {axis})) > 0) for axis in range(3)]
    old = tuple(tuple(column.levels[i] for i in index) for column, index in zip(coded, seen, strict=True))
    axis = _label_axis(labels, old[0], old[2], names)
    check_levels(old[1], names[1])
    new, moments = (axis, old[1], axis), None
    if weight is not None:
        squares = crosstab(codes, rows.shape, weight**2)[np.ix_(*seen)]
        moments = diagonal(place(squares, old, new))
    table = place(counts[np.ix_(*seen)], old, new)
    return CountTable(table, axis, old[1], axis, rows=n, moments=moments, scale=scale)


def count_posteriors(
    y_true: Any,
    q: Any,
    *,
    sensitive_features: Any,
    labels: Sequence[Hashable] | None = None,
    sample_weight: ArrayLike | None = None,
    names: Names = (*_NAMES[:2], "q"),
) -> CountTable:
    """Count posteriors q (n, K); the other arguments are those of `count_labels`.

    The columns are `labels` in that order, or the sorted labels of `y_true`.
    """
    posterior = posterior_matrix(q, names[2])
    y, z = as_levels(y_true, names[0]), as_groups(sensitive_features, names[1])
    n = check_lengths({names[0]: y, names[1]: z, names[2]: posterior})
    axis = y.levels if labels is None else axis_of(labels, "labels")
    refuse_unlisted(y.levels, axis, names[0])
    if len(axis) != posterior.shape[1]:
        raise InputError(
            f"`{names[2]}` has {posterior.shape[1]} columns for {len(axis)} labels ({listed(axis)}). Pass one column "
            "per label, and `labels=` if a label does not occur in the data."
        )
    y_codes = np.array([axis.index(level) for level in y.levels], dtype=np.uint16)[y.codes]
    weight, scale = scaled_weight(sample_weight, n)
    counts, moments = soft_sums(posterior, y_codes, z.codes, (len(axis), len(z.levels)), weight, name=names[2])
    return CountTable(counts, axis, z.levels, axis, rows=n, moments=moments, scale=scale).simplest()


def soft_counts(y_true: Any, q: Any, *, sensitive_features: Any, sample_weight: ArrayLike | None = None) -> Array:
    r"""Sum the posteriors of each (label, group): the table of the randomised policy.

    .. math:: N[y,z,u] = \sum_i w_i\, q_i(u)\, 1\{y_i = y, z_i = z\}

    Args:
        y_true: labels. Non-negative integers are taken as codes (the label axis then has at least
            K places); anything else is coded in sorted order.
        q: posteriors (n, K), rows summing to one.
        sensitive_features: groups, coded like the labels; several columns make their intersection.
        sample_weight: a weight per row.

    Returns:
        Array (labels, groups, K).

    >>> soft_counts([0, 1], [[0.9, 0.1], [0.4, 0.6]], sensitive_features=[0, 0])[:, 0]
    array([[0.9, 0.1],
           [0.4, 0.6]])
    """
    posterior = posterior_matrix(q, "q")
    y = encode(y_true, "y_true")
    z = encode(_group_column(sensitive_features, "sensitive_features"), "sensitive_features")
    n = check_lengths({"y_true": y, "q": posterior, "sensitive_features": z})
    shape = max(int(y.codes.max()) + 1, posterior.shape[1]), int(z.codes.max()) + 1
    weight, _ = scaled_weight(sample_weight, n)
    return soft_sums(posterior, y.codes, z.codes, shape, weight, want_moments=False)[0]


def count_scores(
    y_true: Any,
    score: Any,
    *,
    sensitive_features: Any,
    sample_weight: ArrayLike | None = None,
    names: tuple[str, str, str] = ("y_true", "sensitive_features", "score"),
) -> ScoreTable:
    """Count a score: one number per row, sorted once.

    >>> count_scores([0, 1, 1], [0.1, 0.7, 0.7], sensitive_features=["f", "m", "f"]).values
    array([0.1, 0.7])
    """
    s = score_column(score, names[2])
    y, z = as_levels(y_true, names[0]), as_groups(sensitive_features, names[1])
    n = check_lengths({names[2]: s, names[0]: y.codes, names[1]: z.codes})
    weight, scale = scaled_weight(sample_weight, n)
    return ScoreTable.from_codes(s, y.codes, z.codes, y.levels, z.levels, weight, scale)


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
        frame: anything narwhals takes, or files opened with `readers.scan`; lazy and distributed
            frames stay where they are.
        y: column of labels.
        z: column of groups; several make their intersection.
        score: column of scores.
        bins: number of bins of equal width.
        weight: column of row weights.
        span: the ends of the bins; None looks for the smallest and the largest score first, which
            is one more pass.

    Returns:
        The counts with their axes, see `ScoreHistogram`.

    >>> import polars as pl
    >>> t = pl.DataFrame({"y": [0, 1, 1], "z": ["a", "a", "b"], "s": [0.1, 0.9, 1.0]})
    >>> score_histogram(t, y="y", z="z", score="s", bins=2).counts.tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]
    """
    roles = Roles.named(y, z, score, weight, "score")
    source = with_numbers(Source.from_frame(frame), roles.columns, given(score, weight))
    bins = whole_number(bins, "bins", least=1)
    if bins > 1 << 20:
        raise InputError(f"`bins` must be between 1 and {1 << 20:,}, got {bins}.")
    low, high = score_ends(source, score) if span is None else span
    if not low < high:
        low, high = low - 0.5, low + 0.5  # a single score
    bin_of_row = ((source.numbers(score) - low) * (bins / (high - low))).floor()
    table = source.grouped([roles.target, *roles.groups], weight, parts={"bin": bin_of_row}, by=["bin"])
    label = table.keys[0]
    group = as_groups(dict(zip(roles.groups, table.keys[1:], strict=True)))
    place = np.array(table.totals["bin"], dtype=np.float64)  # None becomes NaN
    if gone := int(table.rows[~np.isfinite(place)].sum()):
        raise InputError(f"Column {score!r} has {gone:,} missing or infinite values. Drop those rows.")
    if outside := int(table.rows[(place < 0) | (place > bins)].sum()):
        raise InputError(f"Column {score!r} has {outside:,} values outside {low:g} to {high:g}; `span=None` takes all.")
    cells = label.codes, group.codes, np.minimum(place, bins - 1).astype(np.intp)
    shape = len(label.levels), len(group.levels), bins
    counts = summed(table.weight, cells, shape)
    squares = None if weight is None else summed(table.squares, cells, shape)
    edges, rows = np.linspace(low, high, bins + 1), int(table.positive.sum())
    return ScoreHistogram(counts, edges, label.levels, group.levels, rows, squares, table.scale)


def score_ends(source: Source, score: str) -> tuple[float, float]:
    """The smallest and the largest score of a table; both are finite."""
    s = source.numbers(score)
    with source.reading():
        ends = source.lazy.select(low=s.min(), high=s.max()).collect()
    low, high = ends["low"].to_list()[0], ends["high"].to_list()[0]
    if low is None or not np.isfinite([low, high]).all():
        raise InputError(f"Column {score!r} must hold finite numbers, got {low} to {high}. Drop those rows.")
    return float(low), float(high)


def soft_sums(
    q: NDArray[Any],
    y: Codes,
    z: Codes,
    shape: tuple[int, int],
    weight: Array | None = None,
    *,
    name: str = "q",
    want_moments: bool = True,
) -> tuple[Array, Array | None]:
    """Sums of w q and of w² q qᵀ in each cell (y, z): one product per cell and chunk of rows."""
    k, cells = q.shape[1], shape[0] * shape[1]
    counts, moments = np.zeros((cells, k)), np.zeros((cells, k, k)) if want_moments else None
    # numpy sorts 16 bits by radix, ten times as fast
    narrow = np.uint16 if cells <= 65_536 else np.intp
    for a in range(0, len(q), _CHUNK):
        rows = slice(a, a + _CHUNK)
        cell = (y[rows].astype(np.intp) * shape[1] + z[rows]).astype(narrow)
        order = np.argsort(cell, kind="stable")
        block = check_posteriors(q[rows], name, a)[order]
        if weight is not None:
            block *= weight[rows][order][:, None]
        ends = np.cumsum(np.bincount(cell, minlength=cells))
        for index, (start, stop) in enumerate(zip(np.r_[0, ends[:-1]], ends, strict=True)):
            if stop > start:
                counts[index] += np.ones(stop - start) @ block[start:stop]
                if moments is not None:
                    moments[index] += block[start:stop].T @ block[start:stop]
    return counts.reshape(*shape, k), None if moments is None else moments.reshape(*shape, k, k)


def _column(values: Any, name: str) -> NDArray[Any] | Coded:
    """A column to be coded or counted as it is."""
    return encode(values, name) if isinstance(values, Coded) else one_column(values, name)


def _group_column(values: Any, name: str) -> NDArray[Any] | Coded:
    """One column of groups as it is; several as their intersection."""
    columns = {name: values} if isinstance(values, Coded) else group_columns(values, name)
    return _column(next(iter(columns.values())), name) if len(columns) == 1 else as_groups(columns, name)


def _label_axis(labels: Sequence[Hashable] | None, y: Levels, u: Levels, names: Sequence[str]) -> Levels:
    axis = None if labels is None else axis_of(labels, "labels")
    known = set(y if axis is None else axis)
    if odd := [level for level in u if isinstance(level, float) and not level.is_integer() and level not in known]:
        raise InputError(_no_label(odd[0], names))
    if any(isinstance(level, bool) for level in u) and not known <= {0, 1}:
        raise InputError(  # True is 1 in Python: `y_pred > 1` of the labels 1 and 2 is the reverse
            f"`{names[2]}` holds True and False, but the labels of `{names[0]}` are "
            f"{listed(tuple(known))}. Pass labels: `np.where(condition, label, other_label)`."
        )
    for levels, name in ((y, names[0]), (u, names[2])):
        if axis is not None:
            refuse_unlisted(levels, axis, name)
        else:
            check_levels(levels, name)
    if axis is not None:
        return axis
    if not set(y) & set(u):
        raise InputError(f"No value of `{names[2]}` ({listed(u)}) is a value of `{names[0]}`, which has {listed(y)}.")
    return union(y, u)


def refuse_scores(column: NDArray[Any] | Coded, names: Sequence[str]) -> None:
    """Refuse a column of so many different fractions that it cannot be labels, before coding it."""
    if isinstance(column, Coded) or column.dtype.kind != "f":
        return
    odd = column[column != np.floor(column)]
    if len(np.unique(odd[: 4 * MAX_LEVELS])) > MAX_LEVELS:
        raise InputError(_no_label(odd[0], names))


def _no_label(value: Any, names: Sequence[str]) -> str:
    return (
        f"`{names[2]}` holds {value}, which is no label of `{names[0]}`. Pass decisions, or posteriors, one column per "
        "label, shape (n, K); a score has `audit_score` (--score), a number `audit_regression` (--regression)."
    )


def refuse_unlisted(levels: Levels, axis: Levels, name: str) -> None:
    """Refuse labels that are not among those that the caller listed."""
    unknown = [level for level in levels if level not in axis]
    if unknown:
        raise InputError(f"`{name}` holds {listed(unknown)}, not in `labels` ({listed(axis)}).")
