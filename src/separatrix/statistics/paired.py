r"""Did v change between two predictions of the same rows? What both share cancels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence, violation_gradient
from separatrix.statistics import inference

__all__ = ["paired_change"]

Array = NDArray[np.float64]


def paired_change(
    joint: Array, confidence: float = 0.95
) -> tuple[float, tuple[float, float], bool]:
    r"""v_a − v_b less its bias, its large-sample interval, and whether the cells allow one.

    With g the pointwise information of each prediction, the variance of the change is

    .. math:: \frac{\mathrm{Var}(g_a - g_b)}{n} + \frac{1}{2 n^2} \sum_y (K_Z - 1)
              \bigl[(K_a - 1) + (K_b - 1) - 2 φ_y^2\bigr],
              \quad φ_y^2 = \sum_{ab} \frac{p(a, b \mid y)^2}{p(a \mid y)\, p(b \mid y)} - 1

    The second term rules at v = 0. It falls to zero as the predictions become the same.

    Args:
        joint: rows of weight one with label y, group z and the predictions a and b, (y, z, a, b).
        confidence: of the interval.
    """
    check_confidence(confidence)
    n = float(joint.sum())
    margins = joint.sum(3), joint.sum(2)
    noises = [inference.noise(_table(counts)) for counts in margins]
    known = all(noise.estimable for noise in noises)
    first, second = (noise.violation - noise.bias for noise in noises)
    g_a, g_b = (violation_gradient(counts) for counts in margins)
    d = g_a[:, :, :, None] - g_b[:, :, None, :]
    d = d - (noises[0].violation - noises[1].violation)
    linear = float((joint / n * d**2).sum())
    pooled = joint.sum(1)
    a, b = pooled.sum(2), pooled.sum(1)
    outer = a[:, :, None] * b[:, None, :]
    both = np.divide(pooled**2, outer, out=np.zeros_like(pooled), where=outer > 0).sum((1, 2)) - 1.0
    groups = np.maximum((joint.sum((2, 3)) > 0).sum(1) - 1, 0)
    alone = np.maximum((a > 0).sum(1) - 1, 0) + np.maximum((b > 0).sum(1) - 1, 0)
    left = np.where(pooled.sum((1, 2)) > 0, alone - 2.0 * both, 0.0)
    quadratic = float((groups * np.maximum(left, 0.0)).sum()) / (2.0 * n)
    half = float(ndtri(0.5 * (1.0 + confidence))) * np.sqrt((linear + quadratic) / n)
    change = first - second
    return change, (change - half, change + half), known


def _table(counts: Array) -> CountTable:
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts, y, z, u, rows=round(float(counts.sum())))
