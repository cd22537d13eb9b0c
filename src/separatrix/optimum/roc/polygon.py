r"""The most useful point of a polygon of overall rates that is only known by its support lines.

The utility is convex in the overall rates (s, t) = (P(U=1|Y=0), P(U=1|Y=1)), so its maximum is at a
vertex of the convex set of rates within a budget. Support lines by angle, between s ≥ 0 and t ≤ 1:
the set lies inside the corners of neighbouring lines, and a convex function is largest at one of
them. A corner that is still too high is cut by the line between its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.rates import rates_utility

__all__ = ["most_useful_vertex"]

Array = NDArray[np.float64]
_CORNERS = 400  # support directions; what is left shows in the upper bound


def most_useful_vertex(
    touch: Callable[[float], tuple[Any, Array, float]], prior: Array, tolerance: float
) -> tuple[Any, float]:
    """What touches at the most useful vertex, and an upper bound on the utility of all.

    Args:
        touch: angle → what touches the line −cos(angle) s + sin(angle) t = value, its rates (s, t),
            and a bound on the value.
        prior: P(Y).
        tolerance: stop where bound and value are this close.
    """
    best, best_found = -1.0, None
    lines = [_Line(0.0, 0.0, None), _Line(np.pi / 2, 1.0, None)]
    for _ in range(_CORNERS):
        corners = [_corner(a, b, prior) for a, b in pairwise(lines)]
        top = max(corners)
        i = corners.index(top)
        if top <= best + tolerance or lines[i + 1].angle - lines[i].angle < 1e-9:
            break
        angle = _between(lines[i], lines[i + 1])
        found, point, value = touch(angle)
        lines.insert(i + 1, _Line(angle, value, point))
        u = float(rates_utility(point, prior))
        if u > best:
            best, best_found = u, found
    return best_found, max(top, best)


class _Line(NamedTuple):
    """−cos(angle) s + sin(angle) t ≤ value, and the point (s, t) of the polygon that it touches."""

    angle: float
    value: float
    point: Array | None


def _corner(first: _Line, last: _Line, prior: Array) -> float:
    """u where two lines meet; 0 below the diagonal, where the mirror images of other points lie."""
    sine = np.sin(last.angle - first.angle)
    s = (last.value * np.sin(first.angle) - first.value * np.sin(last.angle)) / sine
    t = (last.value * np.cos(first.angle) - first.value * np.cos(last.angle)) / sine
    corner = np.clip([s, t], 0.0, 1.0)
    return float(rates_utility(corner, prior)) if corner[1] > corner[0] else 0.0


def _between(first: _Line, last: _Line) -> float:
    """The angle of the normal to the chord of the two points: finds an edge of the polygon at once.

    Halfway between the lines where a point is not known or the chord is too short to tell.
    """
    if first.point is not None and last.point is not None:
        ds, dt = last.point - first.point
        angle = float(np.arctan2(ds, dt))
        room = 1e-6 * (last.angle - first.angle)
        if np.hypot(ds, dt) > 1e-9 and first.angle + room < angle < last.angle - room:
            return angle
    return (first.angle + last.angle) / 2
