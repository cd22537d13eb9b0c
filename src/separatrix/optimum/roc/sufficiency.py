r"""Sufficiency of a binary decision: predictive values that differ by at most ε between groups.

A group's a_z = P(Y=1|U=1,z) and b_z = P(Y=1|U=0,z) must lie in intervals [a, a + ε], [b, b + ε]
that all groups share. For given (a, b) these are half-planes of the group's rates: U=1 has the mass
n(1 − a_z, a_z) and U=0 the rest of (P(Y=0,z), P(Y=1,z)), so each bound is a line through a corner
of the ROC region. What a group can do is a polygon, its vertices are known, and the groups do not
interact: only (a, b) is left to search. At ε = 0 the polygon is the point
:math:`r_z = (π_z - b)/(a - b)` if it lies under the group's curve.

The search is a branch and bound with a proof: any decision with a in [a₀, a₁] and b in [b₀, b₁]
keeps the intervals [a₀, a₁ + ε] and [b₀, b₁ + ε], so the best within those bounds it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from separatrix.core.information import rates_utility
from separatrix.core.numerics import Array, Mask, bisect
from separatrix.errors import InfeasibleError
from separatrix.optimum.roc.certified import corners
from separatrix.optimum.roc.regions import Regions, points_of

_ANGLES = np.linspace(0.05, np.pi / 2 - 0.05, 9)  # of the utility's support lines
_MOST = 1_000  # cells of one generation; what is left shows in the bound
_DEPTH = 22
_NET = 25  # points of a first look, each way
_NEAR = 1e-4  # of the smallest ε
_FINE = 1e-5  # of one box's ε
_SLACK = 1e-12
_HIGH = np.array([[0.0], [1.0], [0.0], [1.0]])
# Boxes and cells are arrays (4, n): the low and the high ends of a, then those of b.


class PredictiveSearch:
    """The best rates of regions whose predictive values differ by at most ε.

    Groups that lack a label have no predictive values to compare: they take no part.
    """

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.whole = np.asarray((regions.mass > 0).all(1))
        base = regions.mass[:, 1] / np.maximum(regions.mass.sum(1), 1e-300)
        self.base = base[self.whole]

    def best(self, price: Array | None, level: float, tolerance: float) -> tuple[Array, float]:
        """Rates (groups, 2) of the largest Σ a·price·x (of the utility for None), and a bound.

        Raises:
            InfeasibleError: no decision keeps the level; it says the smallest that one keeps.
        """
        # above the diagonal a_z ≥ π_z ≥ b_z, so a + ε reaches the largest base rate, b the smallest
        sides = max(float(self.base.max()) - level, 0.0), 1.0, 0.0, float(self.base.min())
        a, b = (side.ravel() for side in np.meshgrid(np.linspace(*sides[:2], _NET),
                                                     np.linspace(*sides[2:], _NET)))  # fmt: skip
        x, reached = self._values(price, np.stack([a, a, b, b]) + level * _HIGH)
        if not np.isfinite(reached).any():
            smallest, a, b = self.smallest
            if smallest > level:
                raise InfeasibleError(
                    f"No decision has predictive values that differ by at most {level:g} between "
                    f"groups; the smallest difference is {smallest:.4g}. Ask for that or more.",
                    {"predictive_gap": smallest},
                )
            x, reached = self._values(price, np.stack([a, a, b, b]) + level * _HIGH)
        top = int(reached.argmax())
        best, value, closed = x[top], float(reached[top]), -np.inf
        cells = np.array([sides]).T
        for _ in range(_DEPTH):
            bound = self._bounds(price, cells + level * _HIGH)
            order = np.argsort(-bound)
            open_ = order[bound[order] > value + tolerance][:_MOST]
            closed = max(closed, float(bound[order[len(open_) :]].max(initial=-np.inf)))
            if not len(open_):
                break
            a, b = _tried(cells[:, open_])
            x, reached = self._values(price, np.stack([a, a, b, b]) + level * _HIGH)
            top = int(reached.argmax())
            if reached[top] > value:
                value, best = float(reached[top]), x[top]
            cells = _quartered(cells[:, open_])
        else:
            closed = max(closed, float(bound[open_].max()))
        return best, max(closed, value)

    @cached_property
    def smallest(self) -> tuple[float, Array, Array]:
        """The smallest ε that a decision keeps, to 1e-4, and its (a, b): branch and bound on ε."""
        cells = np.array([[0.0, 1.0, 0.0, float(self.base.min())]]).T
        epsilon, place = 1.0, (np.zeros(1), np.zeros(1))  # every decision keeps 1
        for _ in range(_DEPTH):
            least = self._least(cells, epsilon - _NEAR)
            open_ = np.argsort(least)[: int(np.isfinite(least).sum())][:_MOST]
            if not len(open_):
                break
            a, b = _tried(cells[:, open_])
            least = self._least(np.stack([a, a, b, b]), epsilon)
            top = int(least.argmin())
            if least[top] < epsilon:
                epsilon, place = float(least[top]), (a[top : top + 1], b[top : top + 1])
            cells = _quartered(cells[:, open_])
        return epsilon, *place

    def _least(self, sides: Array, most: float) -> Array:
        """The smallest ε (n,) with a decision in [a_low, a_high + ε] and [b_low, b_high + ε].

        It is at most 1e-5 too large; ∞ where it is above `most`.
        """
        epsilon = np.full(sides.shape[1], np.inf)
        if most < 0.0:
            return epsilon
        some = np.flatnonzero(self._full(sides, np.full(len(epsilon), most)))
        low, high = np.zeros(len(some)), np.full(len(some), most)
        steps = max(int(np.ceil(np.log2(max(most, 1e-9) / _FINE))), 0)
        least, _ = bisect(lambda level: self._full(sides[:, some], level), high, low, steps)
        epsilon[some] = np.where(self._full(sides[:, some], low), 0.0, least)
        return epsilon

    def _full(self, sides: Array, level: Array) -> Mask:
        """Whether every group has a decision in [a_low, a_high + ε] and [b_low, b_high + ε]."""
        left = np.arange(len(level))
        for z in np.flatnonzero(self.whole):
            boxes = sides[:, left] + level[left] * _HIGH
            value = _best_point(self.regions.chains[z], self.regions.mass[z], boxes, np.zeros(2))[1]
            left = left[np.isfinite(value)]
            if not len(left):
                break
        return np.isin(np.arange(len(level)), left)

    def _values(self, price: Array | None, boxes: Array) -> tuple[Array, Array]:
        """Rates (n, groups, 2) within each box and their objective; −∞ where there are none."""
        if price is not None:
            return self._support(self.regions.mass * price, boxes)
        best, value = self._touch(_ANGLES[0], boxes)[0], np.full(boxes.shape[1], -np.inf)
        for angle in _ANGLES:
            x, reached = self._touch(angle, boxes)
            u = rates_utility(self.regions.mean(x), self.regions.prior)
            better = np.isfinite(reached) & (u > value)
            best[better], value[better] = x[better], u[better]
        return best, value

    def _bounds(self, price: Array | None, boxes: Array) -> Array:
        """An upper bound (n,) on the objective within each box; −∞ where it is empty."""
        if price is not None:
            return self._support(self.regions.mass * price, boxes)[1]
        lines = np.stack([self._touch(angle, boxes)[1] for angle in _ANGLES])
        full = np.isfinite(lines[0])
        # between s ≥ 0 and t ≤ 1: the corners of neighbouring support lines contain the polygon
        value = np.vstack([np.zeros(lines.shape[1]), lines, np.ones(lines.shape[1])])
        corner = corners(np.r_[0.0, _ANGLES, np.pi / 2], np.where(full, value, 0.0))
        return np.where(full, rates_utility(corner, self.regions.prior).max(0), -np.inf)

    def _touch(self, angle: float, boxes: Array) -> tuple[Array, Array]:
        """The support line −cos(angle) s + sin(angle) t of the overall rates."""
        return self._support(self.regions.share * [-np.cos(angle), np.sin(angle)], boxes)

    def _support(self, direction: Array, boxes: Array) -> tuple[Array, Array]:
        """Rates (n, groups, 2) of the largest direction·x in each box, and that value."""
        value = np.zeros(boxes.shape[1])
        x = np.zeros((len(value), *direction.shape))
        for z, chain in enumerate(self.regions.chains):
            if self.whole[z]:
                x[:, z], gain = _best_point(chain, self.regions.mass[z], boxes, direction[z])
            else:
                top = chain[int((chain @ direction[z]).argmax())]
                x[:, z], gain = top, top @ direction[z]
            value += gain
        return x, value


def _best_point(chain: Array, mass: Array, boxes: Array, direction: Array) -> tuple[Array, Array]:
    """The best rates (n, 2) of one group in each box, and their value; −∞ where it is empty.

    Candidates are the polygon's vertices: the corners of the four lines, both ends of the region,
    and the part of the hull between the lines, along which the objective is concave.
    """
    base, (a_low, a_high, b_low, b_high) = mass[1] / mass.sum(), boxes
    a, b = np.stack([a_low, a_low, a_high, a_high]), np.stack([b_low, b_high, b_low, b_high])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = mass.sum() * (base - b) / (a - b)  # P(U=1, z) where both lines meet
    inside = (a > b) & (share >= 0) & (share <= mass.sum())
    share = np.where(inside, share, 0.0)
    x = np.stack([share * (1.0 - a) / mass[0], share * a / mass[1]], -1)
    met = inside & (x[..., 1] <= np.interp(x[..., 0], *chain.T) + _SLACK)
    place, arc = _arc(chain, mass, boxes, int((chain @ direction).argmax()))
    on_hull = points_of(chain, place, np.arange(float(len(chain))))
    nobody, everybody = np.zeros((1, *on_hull.shape)), np.ones((1, *on_hull.shape))
    each = np.clip(np.concatenate([x, nobody, everybody, on_hull[None]]), 0.0, 1.0)
    fits = np.vstack([met, _between(base, b_low, b_high), _between(base, a_low, a_high), arc])
    value = np.where(fits, each @ direction, -np.inf)
    best = value.argmax(0), np.arange(value.shape[1])
    return each[best], value[best]


def _arc(chain: Array, mass: Array, boxes: Array, peak: int) -> tuple[Array, Mask]:
    """The place on the hull within the box that is closest to vertex `peak`, and if there is one.

    Along the hull both P(Y=1|U=1) and P(Y=1|U=0) fall, so each bound is passed once. The first is
    not defined at the start, the second not at the end.
    """
    joint, rest, end = chain * mass, mass - chain * mass, float(len(chain) - 1)
    above, below = joint[1:, 1] / joint[1:].sum(1), rest[:-1, 1] / rest[:-1].sum(1)
    a_low, a_high, b_low, b_high = boxes
    high = np.where(above[0] <= a_high, 0.0, 1.0 + _passes(joint[1:], above, a_high))
    low = np.where(above[0] < a_low, 0.0, 1.0 + _passes(joint[1:], above, a_low))
    top = np.where(below[-1] > b_high, end, _passes(rest[:-1], below, b_high))
    top = np.where(below[0] <= b_high, 0.0, top)
    bottom = np.where(below[-1] >= b_low, end, _passes(rest[:-1], below, b_low))
    start, stop = np.maximum(high, top), np.minimum(low, bottom)
    within = (above[-1] <= a_high) & (below[0] >= b_low) & (start <= stop + _SLACK)
    return np.clip(float(peak), start, np.maximum(start, stop)), within


def _passes(joint: Array, falling: Array, share: Array) -> Array:
    """The last place where P(Y=1), `falling` at the vertices of mass (k, 2), is `share` (n,)."""
    order = np.maximum.accumulate(-falling)  # rounding must not make it rise
    last = np.clip(np.searchsorted(order, -share, side="right") - 1, 0, len(joint) - 1)
    after = np.minimum(last + 1, len(joint) - 1)
    excess, excess_after = (joint[k, 1] - share * joint[k].sum(1) for k in (last, after))
    drop = excess - excess_after
    step = np.divide(excess, drop, out=np.zeros_like(excess), where=np.abs(drop) > 1e-300)
    return np.asarray(last + np.where(after > last, np.clip(step, 0.0, 1.0), 0.0))


def _between(x: float, low: Array, high: Array) -> Mask:
    return (low <= x + _SLACK) & (x <= high + _SLACK)


def _tried(cells: Array) -> tuple[Array, Array]:
    """(a, b) to look at in each cell: the centre and two corners.

    The corners reach the sides of the whole search, where a group gets one decision only.
    """
    a_low, a_high, b_low, b_high = cells
    a = np.concatenate([0.5 * (a_low + a_high), a_low, a_high])
    return a, np.concatenate([0.5 * (b_low + b_high), b_high, b_low])


def _quartered(cells: Array) -> Array:
    """Each cell as four."""
    a, b = (np.stack([low, 0.5 * (low + high), high]) for low, high in (cells[:2], cells[2:]))
    return np.hstack([np.stack([*a[i : i + 2], *b[j : j + 2]]) for i in (0, 1) for j in (0, 1)])
