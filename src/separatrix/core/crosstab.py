"""Rows of every combination of three columns of codes, at the speed of reading them from memory.

Two ways. A table of few cells goes through *bit planes*: bit k of a column, eight rows to a byte,
64 to a word. A popcount of the words of two planes' intersection counts the rows that have both
bits, and subtraction turns the counts of all intersections into those of the cells. A larger table
goes through one fused code per row and `np.bincount`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]
_CHUNK = 1 << 19  # rows whose fused codes stay in the second-level cache
_SPAN = 1 << 21  # rows whose bit planes do
# rows read at a time: checked, then cut to one byte while the cache still holds them
_BLOCK = 1 << 17
# numpy's loops release the GIL; more threads than this only fight for memory bandwidth
_THREADS = 2
_PLANES = 6  # each further plane doubles the intersections: with seven the fused code is faster
_MOST_BITS = 26


def crosstab_small(columns: Sequence[Codes]) -> Array | None:
    """The table of equally long columns of small integers, read once.

    Returns:
        Counts of the codes 0, 1, … of each column; None where a value is negative or the table has
        too many cells.
    """
    tables = _on_threads(len(columns[0]), lambda a, b: _count_planes(columns, a, b), _SPAN)
    known = [table for table in tables if table is not None]
    if len(known) < len(tables):
        return None
    total = np.zeros(np.max([table.shape for table in known], axis=0))
    for table in known:
        total[tuple(map(slice, table.shape))] += table
    return total if total.size <= 1 << _PLANES else None


def crosstab(codes: Sequence[Codes], shape: Sequence[int], weight: Array | None = None) -> Array:
    """Rows, or their weight, of every combination of codes 0 … levels − 1."""
    bits = [max(levels - 1, 0).bit_length() for levels in shape]
    if sum(bits) > _MOST_BITS:
        cells = " × ".join(f"{k:,}" for k in shape)
        raise InputError(f"The table would have {cells} cells. Is one of the columns an identifier?")
    small = crosstab_small(codes) if weight is None and sum(bits) <= _PLANES else None
    if small is None:
        n = len(codes[0])
        parts = _on_threads(n, lambda a, b: _count_fused(codes, bits, weight, a, b), n)
        small = np.sum(parts, axis=0).reshape([1 << b for b in bits])
    total = np.zeros(tuple(shape))
    seen = tuple(slice(min(a, b)) for a, b in zip(small.shape, shape, strict=True))
    total[seen] = small[seen]
    return total


def _on_threads(n: int, work: Callable[[int, int], Any], most: int) -> list[Any]:
    """What the work gives for each stretch of at most so many rows."""
    if n <= _CHUNK:  # a thread takes longer to start than so few rows to count
        return [work(0, n)]
    step = min(-(-n // _THREADS), most)
    starts = range(0, n, step)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, starts, [min(a + step, n) for a in starts]))


def _count_planes(columns: Sequence[Codes], start: int, stop: int) -> Array | None:
    """The table of a stretch of rows; None where they need too many bit planes."""
    spare = np.empty((2, min(stop - start, _BLOCK)), np.uint8)
    planes: list[NDArray[np.uint64]] = []
    for column in columns:
        of_column = _planes(column[start:stop], spare)
        if of_column is None or sum(map(len, planes)) + len(of_column) > _PLANES:
            return None
        planes.append(of_column)
    return _cells(np.concatenate(planes), stop - start).reshape([1 << len(of_column) for of_column in planes])


def _planes(column: Codes, spare: NDArray[np.uint8]) -> NDArray[np.uint64] | None:
    """The bit planes of a chunk, the highest first; None if it holds a value outside 0 … 255."""
    n = len(column)
    planes = np.zeros((0, -(-n // 64) * 8), np.uint8)
    for a in range(0, n, _BLOCK):
        block = column[a : a + _BLOCK]
        union = int(np.bitwise_or.reduce(block))  # below 256 exactly if every value is in 0 … 255
        if not 0 <= union < 256:
            return None
        depth = union.bit_length()
        if depth > len(planes):
            planes = np.concatenate([np.zeros((depth - len(planes), planes.shape[1]), np.uint8), planes])
        code, bit = spare[:, : len(block)]
        np.copyto(code, block, casting="unsafe")
        for k in range(depth):  # packbits takes what is not zero for a one
            packed = np.packbits(code if depth == 1 else np.bitwise_and(code, np.uint8(1 << k), out=bit))
            planes[len(planes) - 1 - k, a // 8 : a // 8 + len(packed)] = packed
    return planes.view(np.uint64)


def _cells(planes: NDArray[np.uint64], rows: int) -> Array:
    """Rows of each combination of bits, array (2, …, 2) with one axis per plane."""
    k = len(planes)
    ones = np.empty(planes.shape[1], np.uint8)
    count = np.zeros(1 << k)
    count[0] = rows
    # The rows that have all bits of a subset of the planes. In rising order the subset without its
    # lowest bit came before, and only larger subsets since: its words are still there.
    spare, words = np.empty_like(planes), list(planes)
    for subset in range(1, 1 << k):
        rest, size = subset & (subset - 1), subset.bit_count()
        last = planes[k - (subset ^ rest).bit_length()]
        words[size - 1] = np.bitwise_and(words[size - 2], last, out=spare[size - 1]) if rest else last
        count[subset] = np.add.reduce(np.bitwise_count(words[size - 1], out=ones), dtype=np.int64)
    count = count.reshape((2,) * k)
    for axis in range(k):  # rows without the bit = all rows − rows with it
        halves = np.moveaxis(count, axis, 0)
        halves[0] -= halves[1]
    return count


def _count_fused(codes: Sequence[Codes], bits: list[int], weight: Array | None, start: int, stop: int) -> Array:
    """Count the rows chunk by chunk as one word each, with each column's code in its own bits."""
    cells = 1 << sum(bits)
    kind: Any = np.uint8 if cells <= 256 else np.uint16 if cells <= 65_536 else np.intp
    size = min(_CHUNK, stop - start)
    fused, spare = np.empty(size, kind), np.empty(size, kind)
    total = np.zeros(cells)
    for a in range(start, stop, _CHUNK):
        b = min(a + _CHUNK, stop)
        code, level = fused[: b - a], spare[: b - a]
        np.copyto(code, codes[0][a:b], casting="unsafe")
        for column, width in zip(codes[1:], bits[1:], strict=True):
            np.copyto(level, column[a:b], casting="unsafe")
            code *= kind(1 << width)  # numpy multiplies many lanes at a time, but shifts one by one
            code += level
        total += np.bincount(code, None if weight is None else weight[a:b], minlength=cells)
    return total
