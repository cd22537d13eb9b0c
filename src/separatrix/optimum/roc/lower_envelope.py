r"""The largest ROC curve that all groups can have, and how each group gets down to it.

A score S for two labels has a concave ROC curve; its edges are the score's values, an edge's two
lengths P(S = s | Y = 0) and P(S = s | Y = 1). Let C_z be the concave hull of group z's ROC curve.

.. math:: T(x) = \min_z C_z(x)

is concave and below every C_z. So each group's score can be garbled to a score whose curve is T
(Blackwell's theorem for two hypotheses). The garbling is made arc by arc. For the edges t of T,
steepest first, cut out of what is left of C_z the arc whose chord is t, and glue the ends
together: the scores of that arc become the value t.

- The arc exists. Of all arcs as long as t the first is at least as steep as t, since C_z ≥ T, and
  the last is at most as steep, since T is concave. The steepness falls continuously in between.
- The rest goes on. What is left of C_z is concave. Left of the cut it is steeper than t and so
  than all of T; right of the cut it is C_z, moved like T. So it is above what is left of T.

This kernel shows that T can be reached. It is not the one to use: under it some of the highest
scores of a group with a good curve get low levels. `garbling` has one that rises with the score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

__all__ = ["arc_kernel", "lower_curve"]

Array = NDArray[np.float64]
_SAME = 1e-14  # curves closer than this are not told apart: a few roundings of numbers below one


def lower_curve(chains: Sequence[Array]) -> Array:
    """T, the pointwise minimum of concave chains from (0, 0) to (1, 1), as the same kind of chain.

    Args:
        chains: arrays (k, 2), the vertices of each chain.

    Returns:
        Array (m + 1, 2) of vertices, with strictly falling slopes.

    Example:
        >>> a, b = [[0, 0], [0, 0.5], [1, 1]], [[0, 0], [0.5, 1], [1, 1]]
        >>> lower_curve([np.array(a, float), np.array(b, float)]).round(3).tolist()
        [[0.0, 0.0], [0.333, 0.667], [1.0, 1.0]]
    """
    lower = _as_function(chains[0])
    for chain in chains[1:]:
        lower = _lower_of_two(lower, _as_function(chain))
    return _concave(np.concatenate([np.zeros((1, 2)), lower]))


def arc_kernel(edges: Array, target: Array) -> Array:
    """The kernel K with Σ_j K[j, i] edges[j] = target[i], rows summing to one: the arcs of C_z.

    The cuts stay around one place, which moves right: left of it a stack of edges steeper than the
    target, right of it a queue of flatter ones. Each arc takes from both so that they balance.
    Every step uses up an edge or ends an arc, so the work is linear in the number of edges.

    Args:
        edges: array (k, 2), the edges of a concave chain, steepest first; they sum to (1, 1).
        target: array (m, 2), the edges of a concave chain nowhere above it, steepest first.

    Returns:
        Array (k, m): the share of edge j that becomes target i.

    Example:
        >>> arc_kernel(np.array([[0, 0.5], [1, 0.5]]), np.array([[0.2, 0.5], [0.8, 0.5]])).round(2)
        array([[0.8, 0.2],
               [0.2, 0.8]])
    """
    a, b = edges.T.tolist()
    kernel = np.zeros((len(a), len(target)))
    rest = [1.0] * len(a)  # what is left of each edge
    left: list[int] = []
    right = list(range(len(a) - 1, -1, -1))
    for i, (alpha, beta) in enumerate(target[:-1].tolist()):
        need = alpha + beta
        while right and b[right[-1]] * alpha >= a[right[-1]] * beta:
            left.append(right.pop())
        while need > 0.0 and (left or right):
            one, two = left[-1] if left else -1, right[-1] if right else -1
            take_one, take_two = rest[one] if left else 0.0, rest[two] if right else 0.0
            if left and right:  # otherwise no more than a rounding is still to be taken
                above, below = b[one] * alpha - a[one] * beta, a[two] * beta - b[two] * alpha
                if take_one * above <= take_two * below:
                    take_two = take_one * above / below
                else:
                    take_one = take_two * below / above
            length = take_one * (a[one] + b[one]) + take_two * (a[two] + b[two])
            scale = min(1.0, need / length) if length > 0.0 else 1.0
            need = need - length if scale == 1.0 else 0.0
            for side, j, take in ((left, one, scale * take_one), (right, two, scale * take_two)):
                if side:
                    kernel[j, i] += take
                    rest[j] = max(rest[j] - take, 0.0)
                    if rest[j] == 0.0:
                        side.pop()
    kernel[:, -1] += rest
    return kernel


def _as_function(chain: Array) -> Array:
    """The chain as a function on [0, 1]: a vertical start is its upper end."""
    return chain[1:] if chain[1, 0] <= chain[0, 0] else chain


def _lower_of_two(first: Array, second: Array) -> Array:
    x = np.union1d(first[:, 0], second[:, 0])
    apart = np.interp(x, *first.T) - np.interp(x, *second.T)
    sign = np.where(np.abs(apart) <= _SAME, 0.0, np.sign(apart))
    cross = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    part = apart[cross] / (apart[cross] - apart[cross + 1])
    at = x[cross] + part * (x[cross + 1] - x[cross])
    points = [np.stack([at, np.interp(at, *first.T)], axis=1)]
    for mine, other in ((first, second), (second, first)):
        points.append(mine[mine[:, 1] <= np.interp(mine[:, 0], *other.T) + _SAME])
    joined = np.concatenate(points)
    joined = joined[np.lexsort((joined[:, 1], joined[:, 0]))]
    return joined[np.r_[True, np.diff(joined[:, 0]) > 0]]


def _concave(points: Array) -> Array:
    """The points without those that are no corners; rounding must not leave a slope that rises."""
    step = np.diff(points, axis=0)
    length = step.sum(1)
    points = points[np.r_[True, length > 0]]
    step, length = step[length > 0], length[length > 0]
    blocks = isotonic_regression(step[:, 1] / length, weights=length, increasing=False).blocks
    kept: list[list[float]] = []
    for x, y in points[np.asarray(blocks, dtype=np.intp)].tolist():
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (x - x0) - (y - y0) * (x1 - x0) > _SAME * (x - x0 + y - y0):
                break
            kept.pop()
        kept.append([x, y])
    return np.array(kept)
