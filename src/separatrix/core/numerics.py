"""Small numerics that several rooms need: bisection, quantiles, ratios, folds, the best partition of a line.

And the names of their arrays: numbers; whole numbers, such as codes and places; yes or no.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]


def bisect(
    holds: Callable[[Any], Any], inside: Array | float, outside: Array | float, steps: int = 60, close: float = 0.0
) -> tuple[Array, Array]:
    """Where a condition that holds at `inside` ceases to hold on the way to `outside`.

    Args:
        holds: the condition, of an array of places at once.
        inside, outside: a place on each side; arrays, or numbers for all of them.
        steps: how often to halve the way.
        close: stop before where the ends differ by no more than this share of the larger.

    Returns:
        The last place where it holds and the first where it does not.

    >>> [round(float(end), 3) for end in bisect(lambda x: x * x <= 2.0, 1.0, 2.0, 20)]
    [1.414, 1.414]
    """
    last, first = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    for _ in range(steps):
        if close and (np.abs(first - last) <= close * np.maximum(first, last)).all():
            break
        middle = 0.5 * (last + first)
        good = holds(middle)
        last, first = np.where(good, middle, last), np.where(good, first, middle)
    return last, first


def quotient(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is not above 0.

    >>> quotient(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    array([0.5, 0. ])
    """
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape)), where=b > 0)


def effective_rows(total: Any, squares: Any) -> Any:
    """(Σ w)² / Σ w² of sums of weights and of their squares: as many rows of weight one have the same variance.

    >>> effective_rows(np.array([6.0, 0.0]), np.array([12.0, 0.0]))
    array([3., 0.])
    """
    return total**2 / np.where(squares > 0, squares, 1.0)


def effective_size(weight: Array) -> float:
    """The effective rows of rows with these weights.

    >>> effective_size(np.full(3, 2.0))
    3.0
    """
    return float(effective_rows(weight.sum(), (weight**2).sum()))


def padded(arrays: Sequence[Array], fill: float) -> Array:
    """Arrays of several lengths as one, the missing entries filled.

    >>> padded([np.array([1.0, 2.0]), np.array([3.0])], 0.0)
    array([[1., 2.],
           [3., 0.]])
    """
    whole = np.full((len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]), fill)
    for row, values in zip(whole, arrays, strict=True):
        row[: len(values)] = values
    return whole


def midpoints(length: NDArray[Any]) -> Array:
    """The middles of segments that lie end to end from 0 on; of masses, mid-ranks: ties count half.

    >>> midpoints(np.array([2.0, 1.0]))
    array([1. , 2.5])
    """
    return np.asarray(np.cumsum(length, axis=-1) - 0.5 * length)


def rows_by_code(codes: NDArray[Any], n: int) -> list[Index]:
    """The rows of each of the codes 0 … n − 1, in their order.

    >>> rows_by_code(np.array([1, 0, 1]), 3)
    [array([1]), array([0, 2]), array([], dtype=int64)]
    """
    order = np.argsort(codes.astype(np.min_scalar_type(n)), kind="stable")  # 8 and 16 bits are sorted by radix
    return np.split(order, np.cumsum(np.bincount(codes, minlength=n))[:-1])


def best_partition(gain: Array, parts: int) -> Index:
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


def dealt(cell: NDArray[Any], parts: int, rng: np.random.Generator) -> Index:
    """The part of each row, 0 … parts − 1, as rows of each cell are dealt out in turn.

    Rows are shuffled, sorted by cell and dealt out. So the parts' sizes differ by at most one, a
    cell's rows are spread as evenly as whole rows allow, and a cell with at least as many rows as
    there are parts is in every part.

    >>> dealt(np.array([0, 0, 0, 1, 1, 1]), 3, np.random.default_rng(0))[3:].tolist()
    [0, 2, 1]
    """
    shuffled = rng.permutation(len(cell))
    turn = np.empty(len(cell), dtype=np.intp)
    turn[shuffled[np.argsort(cell[shuffled], kind="stable")]] = np.arange(len(cell)) % parts
    return turn


def stratified_folds(cell: Index, n_folds: int, seed: int | None, units: NDArray[Any] | None = None) -> Index:
    """The fold of each row: dealt out by cell, the folds in any order; see `datasets.folds`."""
    if units is not None:
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        return stratified_folds(cell[first], n_folds, seed)[unit]
    if not 2 <= n_folds <= len(cell):
        raise InputError(f"`n_folds` must be between 2 and the number of rows ({len(cell):,}), got {n_folds}.")
    rng = np.random.default_rng(seed)
    turn = dealt(cell, n_folds, rng)
    return rng.permutation(n_folds)[turn]
