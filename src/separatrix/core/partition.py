"""The best partition of a line into a given number of segments: a dynamic programme."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_partition"]


def best_partition(gain: NDArray[np.float64], parts: int) -> NDArray[np.intp]:
    """Where to cut 0 … n into `parts` segments with the largest sum of gains.

    Args:
        gain: array (n + 1, n + 1), of the segment from i to j > i; −∞ where there is none.
        parts: the number of segments, at most n.

    Returns:
        The ends of the segments, rising: parts + 1 of them, the first 0 and the last n.

    >>> length = np.subtract.outer(np.arange(5), np.arange(5)).T
    >>> best_partition(np.where(length > 0, -(length**2.0), -np.inf), 2)
    array([0, 2, 4])
    """
    value, back = gain[0], []
    for _ in range(parts - 1):
        through = value[:, None] + gain
        back.append(through.argmax(0))
        value = through.max(0)
    ends = [len(gain) - 1]
    for before in reversed(back):
        ends.append(int(before[ends[-1]]))
    return np.array([0, *ends[::-1]], dtype=np.intp)
