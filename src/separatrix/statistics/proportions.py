"""Intervals of the accuracy of decisions and of the area under a score's ROC curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from separatrix.core.counts import CountTable
from separatrix.core.information import accuracy, check_confidence
from separatrix.core.score_tables import ScoreTable

Array = NDArray[np.float64]


def clopper_pearson(count: Array, n: Array, error: float) -> tuple[Array, Array]:
    """Exact limits of the rates of `count` in `n` rows, each of which fails with this error.

    >>> [round(float(end), 3) for end in clopper_pearson(np.array(0.0), np.array(10.0), 0.05)]
    [0.0, 0.259]
    """
    low = betaincinv(np.maximum(count, 1e-300), n - count + 1.0, error)
    high = betaincinv(count + 1.0, np.maximum(n - count, 1e-300), 1.0 - error)
    return np.where(count > 0, low, 0.0), np.where(count < n, high, 1.0)


def accuracy_interval(table: CountTable, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the accuracy: Clopper–Pearson for hard labels of weight one, which holds for any
    number of rows; Wilson with the effective number of rows otherwise, for large samples.

    >>> t = CountTable(np.array([[[8.0, 2.0]], [[1.0, 9.0]]]), (0, 1), ("f",), (0, 1), rows=20)
    >>> [round(end, 3) for end in accuracy_interval(t)]
    [0.621, 0.968]
    """
    check_confidence(confidence)
    mean = float(accuracy(table.counts))
    tail, total = 0.5 * (1.0 - confidence), float(table.counts.sum())
    if table.moments is None:
        low, high = clopper_pearson(np.einsum("yzy->", table.counts), np.asarray(total), tail)
        return float(low), float(high)
    # Σ w² (q_y − mean)² of all rows
    labels = np.arange(len(table.labels))
    of_label = table.moments.sum(1)
    own = of_label[labels, labels, labels]
    cross = of_label.sum(2)[labels, labels]
    spread = float((own - 2.0 * mean * cross).sum() + mean**2 * of_label.sum())
    variance = max(spread, 0.0) / total**2
    if variance <= 0.0:
        return mean, mean
    n, z = mean * (1.0 - mean) / variance, float(ndtri(1.0 - tail))
    centre = (mean + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    half = z * np.sqrt(variance + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
    return max(float(centre - half), 0.0), min(float(centre + half), 1.0)


def auroc_interval(table: ScoreTable, confidence: float = 0.95) -> tuple[float, float]:
    r"""Large-sample interval of the AUROC of all rows (DeLong, DeLong and Clarke-Pearson, 1988).

    .. math:: \mathrm{Var} = \frac{\mathrm{Var}(F_0(S_1))}{n_1} + \frac{\mathrm{Var}(F_1(S_0))}{n_0}

    F is the other label's distribution function, ties counted half. The ends are symmetric in the
    log odds of the area. Where one order is perfect the variance is 0, and the ends are those of a
    Clopper–Pearson interval for the rarer label's rows.
    """
    check_confidence(confidence)
    positive = table.cell >= len(table.groups)
    ones = np.ones(len(table.atom))
    weight = ones if table.weight is None else table.weight
    squares = weight if table.squares is None else table.squares
    size = len(table.values)
    up = np.bincount(table.atom, np.where(positive, weight, 0.0), minlength=size)
    down = np.bincount(table.atom, np.where(positive, 0.0, weight), minlength=size)
    if up.sum() <= 0 or down.sum() <= 0:
        return 0.0, 1.0
    below = (np.cumsum(down) - 0.5 * down) / down.sum()
    above = 1.0 - (np.cumsum(up) - 0.5 * up) / up.sum()
    area = float((up * below).sum() / up.sum())
    variance, rows = 0.0, []
    for here, place, mass in ((positive, below, up), (~positive, above, down)):
        own = np.where(here, squares, 0.0)
        deviation = (own * (place[table.atom] - area) ** 2).sum()
        variance += float(deviation) / mass.sum() ** 2
        rows.append(float(mass.sum() ** 2 / max(own.sum(), 1e-300)))
    tail = 0.5 * (1.0 - confidence)
    if not 0.0 < area < 1.0 or variance <= 0.0:
        edge = tail ** (1.0 / max(min(rows), 1.0))
        return (edge, 1.0) if area > 0.5 else (0.0, 1.0 - edge) if area < 0.5 else (0.5, 0.5)
    odds = np.log(area / (1.0 - area))
    half = float(ndtri(1.0 - tail)) * np.sqrt(variance) / (area * (1.0 - area))
    return float(1.0 / (1.0 + np.exp(half - odds))), float(1.0 / (1.0 + np.exp(-half - odds)))
