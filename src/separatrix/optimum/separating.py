r"""`separate`: from labels, scores and groups to a `SeparatedScore`.

Small groups. The curve of a group with few rows is above its true one: a hull fits the noise of
its rows. T is then too high and the levels of unseen rows are not separated. So a group may borrow
c pseudo-rows of each label from all groups together,

.. math:: \hat F_{zy} = \frac{n_{zy} F_{zy} + c F_y}{n_{zy} + c}

with F the law of the score given the label. The mean squared error of :math:`\hat F` is least for
:math:`c` = (variance of one row) / (squared distance of the group's law from the pooled one). That
is what "auto" estimates, separately for each label and common to all groups (see `pseudo_rows`).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.optimum.rules import binary_score
from separatrix.columns.values import Levels, check_lengths, check_levels, check_weight, compact, listed
from separatrix.errors import InputError
from separatrix.optimum.limits import group_curves
from separatrix.optimum.arcs import arc_kernel, lower_curve
from separatrix.optimum.relaxed import relaxed_score
from separatrix.optimum.score_levels import best_cuts
from separatrix.optimum.separated import SeparatedScore
from separatrix.optimum.geometry import RocCurve, roc_curve

__all__ = ["borrowed_curves", "pseudo_rows", "separate"]

Array = NDArray[np.float64]
Codes = NDArray[Any]


def separate(
    y_true: ArrayLike,
    scores: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    penalty: float | None = None,
    levels: int | None = None,
    borrow: float | Literal["auto"] = 0.0,
) -> SeparatedScore:
    r"""The best score that is independent of the group given the label, made from a given score.

    Without a penalty it is the universal separated score (`separated` has the theorem): exactly
    separated on the given rows, and the best separated score for every aim at once. With
    ``penalty=β`` it maximises AUROC − β I(S; Z | Y) instead: more AUROC for some violation.

    A group without rows of one of the labels has no ROC curve. It takes no part in the minimum,
    and its levels are drawn from the law that they have for the label that it has, whatever the
    score; with ``borrow`` it has the pooled law of the missing label, and is a group like others.

    Args:
        y_true: labels, two values; S says how probable the second (in sorted order) is.
        scores: any score (n,), higher for the second label, or posteriors (n, 2). Take scores of
            rows that the model did not see in training: others flatter S.
        sensitive_features: the group of each row; any number of groups.
        sample_weight: weight of each row.
        penalty: β ≥ 0, or None for exact separation.
        levels: at most this many values: the best such score at v = 0. Not with a penalty.
        borrow: pseudo-rows per label that each group borrows from all groups together; "auto"
            estimates the number. Above zero, S is exactly separated on the law with them.

    Returns:
        A `SeparatedScore`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.integers(0, 2, (2, 4000))
        >>> s = rng.normal(size=4000) + y * (1 + z)
        >>> S = separate(y, s, sensitive_features=z)
        >>> q = S.level_proba(s, sensitive_features=z)
        >>> gap = q[(y == 1) & (z == 1)].mean(0) - q[(y == 1) & (z == 0)].mean(0)
        >>> bool(abs(gap).max() < 1e-12)
        True

    References:
        Blackwell, D. (1953). Equivalent comparisons of experiments. Annals of Mathematical
        Statistics 24, 265–272.
    """
    y, s, z, w, labels, groups = _checked(y_true, scores, sensitive_features, sample_weight)
    if penalty is not None and not 0.0 <= float(penalty) < np.inf:
        raise InputError(f"`penalty` is β ≥ 0, got {penalty}. For exact separation pass None.")
    if levels is not None and (levels != int(levels) or levels < 1 or penalty is not None):
        raise InputError(
            f"`levels` is a whole number of values, at least 1, without a penalty; got "
            f"levels={levels}, penalty={penalty}."
        )
    rows = pseudo_rows(s, y, z, w, len(groups)) if borrow == "auto" else np.full(2, float(borrow))
    if not (rows >= 0).all():
        raise InputError(f'`borrow` is a number of rows, at least 0, or "auto", got {borrow!r}.')
    curves, mass = borrowed_curves(s, y, z, w, len(groups), rows)
    exact = exact_score(curves, mass, labels, groups)
    if penalty is not None:
        return relaxed_score(exact, group_steps(curves), mass, float(penalty))
    if levels is None:
        return exact
    cuts = best_cuts(exact.roc, mass.sum(0), int(levels))
    return exact.join(len(exact.levels) - cuts[::-1])


def exact_score(
    curves: tuple[RocCurve, ...], mass: Array, labels: Levels, groups: Levels
) -> SeparatedScore:
    """The universal separated score of given ROC curves and P(Y=y, Z=z) (groups, 2)."""
    steps = group_steps(curves)
    whole = [len(step) > 1 or np.isfinite(curve.thresholds[1]) for step, curve in zip(steps, curves)]
    edges = np.diff(lower_curve([c.rates[c.hull] for c, w in zip(curves, whole) if w]), axis=0)
    thresholds, kernels = [], []
    table = np.zeros((2, len(curves), len(edges)))
    for k, (curve, step) in enumerate(zip(curves, steps, strict=True)):
        if whole[k]:
            kernel = arc_kernel(step, edges)[:, ::-1]  # levels rise, the edges' slopes fall
            cuts = np.r_[curve.thresholds[curve.hull[1:-1]], -np.inf]
        else:
            kernel, cuts = edges[None, ::-1, int(mass[k, 1] > 0)], np.array([-np.inf])
        thresholds.append(cuts)
        kernels.append(kernel)
        table[:, k] = (step * mass[k]).T @ kernel
    return SeparatedScore(labels, groups, tuple(thresholds), tuple(kernels), table)


def group_steps(curves: tuple[RocCurve, ...]) -> list[Array]:
    """The edges of each group's hull, P(bin | Y = y); a group without one of the labels has one bin."""
    whole = [np.isfinite(curve.thresholds[1]) for curve in curves]
    return [
        np.diff(curve.rates[curve.hull], axis=0) if there else np.ones((1, 2))
        for curve, there in zip(curves, whole, strict=True)
    ]


def borrowed_curves(
    s: Array, y: Codes, z: Codes, w: Array, n_groups: int, rows: Array
) -> tuple[tuple[RocCurve, ...], Array]:
    """`group_curves`, each group with `rows[y]` pseudo-rows of the pooled score with label y."""
    curves, mass = group_curves(s, y, z, w, n_groups)
    if not rows.any():
        return curves, mass
    one = (w**2).sum() / w.sum()  # the weight of a row, where rows weigh differently
    lent = w * (rows * one / np.bincount(y, w, minlength=2))[y]
    result = []
    for k in range(n_groups):
        weight = lent + np.where(z == k, w, 0.0)
        result.append(roc_curve(s, weight * (y == 1), weight * (y == 0)))
    return tuple(result), mass


def pseudo_rows(s: Array, y: Codes, z: Codes, w: Array, n_groups: int) -> Array:
    r"""How many pseudo-rows per label to borrow: one row's variance over the groups' distance.

    .. math:: c = \frac{1/6}{τ^2}, \qquad τ^2 = \operatorname{mean}_z \Bigl[\int (F_{z} - F)^2 dF -
              \frac{1/6}{n_z}\Bigr]_+

    The integral is the groups' Cramér–von Mises distance from the pooled law, and 1/6 the mean of
    F (1 − F), what one row adds to its expectation. Groups that are all alike borrow much, groups
    of many rows that differ borrow little. At most as many as there are rows of the label.

    Returns:
        Array (2,), one number for each label.
    """
    result = np.zeros(2)
    for label in range(2):
        here = np.flatnonzero((y == label) & (w > 0))
        here = here[np.argsort(s[here], kind="stable")]
        last = np.r_[s[here][1:] != s[here][:-1], True]
        total = np.cumsum(w[here])[last]
        grid, step = total / total[-1], np.diff(total, prepend=0.0) / total[-1]
        one = float((step * grid * (1.0 - grid)).sum())  # 1/6, less for scores with few values
        apart = []
        for k in range(n_groups):
            mine = np.where(z[here] == k, w[here], 0.0)
            if mine.sum() > 0:
                law = np.cumsum(mine)[last] / mine.sum()
                noise = one * (mine**2).sum() / mine.sum() ** 2
                apart.append(max(float((step * (law - grid) ** 2).sum()) - noise, 0.0))
        most = w[here].sum() ** 2 / (w[here] ** 2).sum()
        distance = float(np.mean(apart))
        result[label] = most if one >= most * distance else one / distance
    return result


def _checked(
    y_true: ArrayLike, scores: ArrayLike, z: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Codes, Array, Codes, Array, Levels, Levels]:
    """Codes of labels and groups, scores, weights, and the names; two labels with weight."""
    y_codes, labels = compact(y_true, "y_true")
    z_codes, groups = compact(z, "sensitive_features")
    check_levels(groups, "sensitive_features")
    s = binary_score(scores)
    n = check_lengths({"y_true": y_codes, "scores": s, "sensitive_features": z_codes})
    w = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    if len(labels) != 2:
        raise InputError(
            f"A separated score is for two labels; `y_true` has {len(labels)} ({listed(labels)}). "
            "With more labels separate the score of one label against the rest."
        )
    if np.bincount(y_codes, w, minlength=2).min() <= 0:
        raise InputError("One of the two labels has no weight: there is nothing to predict.")
    return y_codes.astype(np.intp), s, z_codes.astype(np.intp), w, labels, groups
