r"""Conditional ranks: what a number says once another number is known, on a scale free of both.

.. math:: V = F(U \mid Y) = P(U' < U \mid Y) + T \cdot P(U' = U \mid Y),
          \quad T \text{ uniform on } (0, 1)

V is uniform for every y, so V ⟂ Y, and (V, Y) determines U, so I(V; Z | Y) = I(U; Z | Y). Here the
law of U given Y is that of the rows in one block of neighbouring y. Where U and y are continuous, a
straight line inside the block first takes out what U owes to y there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["block_parts", "conditional_rank", "is_tied", "outcome_blocks"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# share of the rows with a value that others have too, above which a column is not continuous
_TIED = 0.05


def outcome_blocks(y: Array, rows: int | None = None) -> Codes:
    """The block of each row: neighbours in y, numbered in its order.

    A value of y with many rows is a block of its own. Equal values are never parted, so a block may
    have more rows than asked for.

    Args:
        y: finite numbers.
        rows: of a block, about; 2 √n by default.

    >>> outcome_blocks(np.array([3.0, 1.0, 2.0, 4.0, 0.0, 0.0]), rows=2)
    array([2, 1, 1, 2, 0, 0])
    """
    order = np.argsort(y, kind="stable")
    start = _starts(y[order])
    length = np.diff(np.append(start, len(y)))
    asked = max(int(2.0 * np.sqrt(len(y))), 2) if rows is None else rows
    alone = (2 * length >= asked) & (length > 1)
    # a stretch is an atom, or the values between two atoms
    stretch = np.cumsum(alone | np.append(False, alone[:-1]))
    of_stretch = np.bincount(stretch, length)
    before = np.cumsum(length) - length
    first = np.append(0.0, np.cumsum(of_stretch)[:-1])[stretch]
    parts = np.maximum(np.rint(of_stretch / asked), 1.0)[stretch]
    parts[alone] = 1.0
    part = np.floor((before - first + 0.5 * length) / of_stretch[stretch] * parts)
    new = np.append(True, (np.diff(stretch) > 0) | (np.diff(part) > 0))
    block = np.empty(len(y), dtype=np.intp)
    block[order] = np.repeat(np.cumsum(new) - 1, length)
    return block


def block_parts(y: Array, block: Codes, parts: int) -> Codes:
    """Which of `parts` stretches of its block a row is in; equal y are in the same stretch.

    >>> block_parts(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4, dtype=int), 2)
    array([0, 0, 1, 1])
    """
    rows = np.bincount(block)
    inside = _middle_ranks(y) - (np.cumsum(rows) - rows)[block]  # blocks are in the order of y
    return np.minimum(inside / rows[block] * parts, parts - 1).astype(np.intp)


def conditional_rank(
    u: Array,
    y: Array,
    *,
    weight: Array | None = None,
    block: Codes | None = None,
    random_state: int | np.random.Generator = 0,
) -> Array:
    r"""V̂ = F̂(U | Y): each row's place among the rows with about the same y, in (0, 1).

    Order is all that counts: any rising function of u gives the same ranks up to the line inside a
    block, which is fitted to normal scores so that heavy tails do not tilt it.

    Args:
        u: finite numbers; ties are broken by chance.
        y: finite numbers; not used where `block` says all about the outcome.
        weight: of each row, not negative.
        block: `outcome_blocks(y)` by default.
        random_state: seed of the ties and of the place inside a rank.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=10_000)
    >>> V = conditional_rank(y**3 + 0.1 * rng.normal(size=10_000), y)
    >>> bool(abs(np.corrcoef(V, y)[0, 1]) < 0.01), round(float(np.quantile(V, 0.3)), 2)
    (True, 0.3)
    """
    rng = np.random.default_rng(random_state)
    block = outcome_blocks(y) if block is None else block
    w = np.ones(len(u)) if weight is None else weight
    # of a column with many ties no multiple of y is taken: it would break the ties in y's order
    residual = u if is_tied(u) else _residual(_scores(u), _scores(y), w, block)
    order = np.lexsort((rng.random(len(u)), residual, block))
    mass = np.bincount(block, w)
    heavy = np.where(mass > 0, mass, 1.0)
    placed = w[order]
    below = np.cumsum(placed) - placed - (np.cumsum(mass) - mass)[block[order]]
    rank = np.empty(len(u))
    rank[order] = (below + placed * rng.random(len(u))) / heavy[block[order]]
    return np.clip(rank, 0.0, np.nextafter(1.0, 0.0))  # sums of weights round


def _residual(u: Array, y: Array, w: Array, block: Codes) -> Array:
    """u minus its least-squares line in y, inside each block."""
    mass = np.bincount(block, w)
    mass = np.where(mass > 0, mass, 1.0)
    y = y - (np.bincount(block, w * y) / mass)[block]
    spread = np.bincount(block, w * y * y)
    slope = np.bincount(block, w * y * u) / np.where(spread > 0, spread, np.inf)
    return np.asarray(u - slope[block] * y)


def _scores(x: Array) -> Array:
    """Normal scores: Φ⁻¹ of the middle rank."""
    return np.asarray(ndtri(_middle_ranks(x) / len(x)))


def _middle_ranks(x: Array) -> Array:
    """Ranks 0.5, 1.5, …; equal values share their mean."""
    order = np.argsort(x, kind="stable")
    start = _starts(x[order])
    length = np.diff(np.append(start, len(x)))
    rank = np.empty(len(x))
    rank[order] = np.repeat(start + 0.5 * length, length)
    return rank


def _starts(ordered: Array) -> Codes:
    """Where a new value begins."""
    return np.flatnonzero(np.append(True, np.diff(ordered) > 0))


def is_tied(x: Array) -> bool:
    """Whether more than one row in twenty has a value that another row has too."""
    ordered = np.sort(x)
    same = ordered[1:] == ordered[:-1]
    tied = np.append(False, same) | np.append(same, False)
    return float(tied.mean()) > _TIED
