"""Audit of arrays, and the two scores for other libraries' scorers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.auditing.result import Audit
from separatrix.columns.values import check_levels, compact, refuse_missing
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

__all__ = ["audit", "utility_score", "violation_score"]


def audit(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    labels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
) -> Audit:
    """How far from separation are these predictions, and how sure are we?

    Args:
        y_true: true labels.
        y_pred: hard labels (1-d); posteriors (2-d, one column per label in sorted order, `labels`
            overrides); or, for two labels, a 1-d column of probabilities of the second.
        sensitive_features: groups; several columns (a frame or a 2-d array) make their
            intersection.
        sample_weight: a weight per row. Weighted rows get wider bounds.
        labels: all labels, in the order of the posterior's columns.
        confidence: of the interval and of the certified bound.
        random_state: seed of the Monte Carlo test.

    Returns:
        An `Audit`: print it, or read `violation`, `violation_interval`, `violation_upper`,
        `p_value`, `cells`, …

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 2_000))
    >>> a = audit(y, np.where(rng.random(2_000) < 0.2, z, y), sensitive_features=z)   # one in five copies the group
    >>> round(a.violation, 3), round(a.utility, 3), a.p_value < 0.001
    (0.075, 0.369, True)
    """
    table = _table(y_true, y_pred, sensitive_features, sample_weight, labels)
    return Audit.of(table, confidence, random_state)


def violation_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Plug-in v = I(U; Z | Y) as a metric function, for scikit-learn's scorers and fairlearn's
    MetricFrame.

    Lower is better. Zero if there is one group only.

    >>> violation_score([0, 0, 1, 1], [0, 1, 1, 1], sensitive_features=["f", "m", "f", "m"])
    0.34657359027997264
    """
    table = _table(y_true, y_pred, sensitive_features, sample_weight, None)
    return float(information.conditional_mutual_information(table.counts))


def utility_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Plug-in u = I(U; Y) as a metric function; the groups do not matter and may be left out.

    >>> round(utility_score([0, 0, 1, 1], [0, 0, 1, 1]), 4)
    0.6931
    """
    groups = (
        np.zeros(len(np.asarray(y_true)), dtype=np.int8)
        if sensitive_features is None
        else sensitive_features
    )
    return float(
        information.mutual_information(_table(y_true, y_pred, groups, sample_weight, None).counts)
    )


def _table(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: Sequence[Hashable] | None,
) -> CountTable:
    z, groups = _groups(sensitive_features)
    u = _native(y_pred, "y_pred")
    if (
        u.ndim == 1
        and u.dtype.kind == "f"
        and u.size
        and not np.isin(u[: 1 << 16], (0.0, 1.0)).all()
    ):
        u = _two_columns(u, y_true, labels)
    names = ("y_true", "sensitive_features", "y_pred")
    y = _native(y_true, "y_true")
    if u.ndim == 2:
        table = CountTable.from_posteriors(
            u, y, z, labels=labels, sample_weight=sample_weight, names=names
        )
    else:
        table = CountTable.from_labels(
            y, z, u, labels=labels, sample_weight=sample_weight, names=names
        )
    check_levels(table.groups, "sensitive_features")
    return table.rename_groups(groups)


def _native(values: Any, name: str) -> NDArray[Any]:
    """A numpy array of what the caller passed: a list, an array, a series or a frame of any
    library.
    """
    known = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series | nw.DataFrame):
        if isinstance(known, nw.Series):
            refuse_missing(known.is_null().to_numpy(), name)
        return known.to_numpy()
    try:
        return np.asanyarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` cannot be read as an array: {error}.") from error


def _groups(values: Any) -> tuple[NDArray[Any], dict[Hashable, Hashable]]:
    """One column of groups; several columns become codes, with the combination that each code
    stands for.
    """
    if values is None:
        raise InputError(
            "`sensitive_features` is missing. Pass one group per row, as an array, a series or a "
            "frame."
        )
    known = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(known, nw.DataFrame):
        columns = [(name, _native(nw.to_native(known[name]), name)) for name in known.columns]
    else:
        array = _native(values, "sensitive_features")
        if array.ndim < 2 or array.shape[1] == 1:
            return array.reshape(-1) if array.ndim == 2 else array, {}
        columns = [(f"sensitive_features column {i}", array[:, i]) for i in range(array.shape[1])]
    if not columns:
        raise InputError("`sensitive_features` has no columns. Pass at least one.")
    coded = [compact(column, name) for name, column in columns]
    for (_, levels), (name, _) in zip(coded, columns, strict=True):
        check_levels(levels, name)
    shape = tuple(len(levels) for _, levels in coded)
    code = np.ravel_multi_index([codes for codes, _ in coded], shape)
    names: dict[Hashable, Hashable] = {}
    for one in np.unique(code).tolist():
        index = np.unravel_index(one, shape)
        names[one] = tuple(levels[i] for (_, levels), i in zip(coded, index, strict=True))
    return code, names if len(columns) > 1 else {code: name[0] for code, name in names.items()}  # type: ignore[index]


def _two_columns(
    score: NDArray[np.floating], y_true: ArrayLike, labels: Sequence[Hashable] | None
) -> NDArray[Any]:
    """Posteriors from one column of probabilities of the second label."""
    levels = (
        tuple(labels) if labels is not None else compact(_native(y_true, "y_true"), "y_true")[1]
    )
    if len(levels) != 2:
        raise InputError(
            f"`y_pred` is one column of numbers such as {score[~np.isin(score, (0.0, 1.0))][0]}, "
            f"which can only be "
            f"probabilities of the second of two labels, but there are {len(levels)} labels. Pass "
            f"one column per label."
        )
    return np.column_stack([1.0 - score, score])
