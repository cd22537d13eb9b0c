"""Small numerics that several rooms need: bisection, quantiles, the best partition of a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def bisect(
    holds: Callable[[Any], Any], inside: Array | float, outside: Array | float, steps: int
) -> tuple[Array, Array]:
    """Where a condition that holds at `inside` ceases to hold on the way to `outside`.

    Args:
        holds: the condition, of an array of places at once.
        inside, outside: a place on each side; arrays, or numbers for all of them.
        steps: how often to halve the way.

    Returns:
        The last place where it holds and the first where it does not.

    >>> [round(float(end), 3) for end in bisect(lambda x: x * x <= 2.0, 1.0, 2.0, 20)]
    [1.414, 1.414]
    """
    last, first = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    for _ in range(steps):
        middle = 0.5 * (last + first)
        good = holds(middle)
        last, first = np.where(good, middle, last), np.where(good, first, middle)
    return last, first


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


def weighted_quantiles(values: Array, weight: Array, shares: Array) -> Array:
    """The least values that have at least these shares of the weight at or below them.

    >>> values, weight = np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    >>> weighted_quantiles(values, weight, np.array([0.5, 0.6]))
    array([1., 2.])
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    place = np.searchsorted(below, shares * below[-1])
    return np.asarray(values[order][np.minimum(place, len(order) - 1)])
