r"""The best rates of a linear objective under a budget on the violation: one root per level.

For a price β of the violation the concave :math:`c \cdot x - β v(x)` has its maximum at the point
that `Regions.maximise` finds for κ = c/(aβ), also where the costs differ between groups. The dual

.. math:: D(β) = \max_x \bigl[ c \cdot x - β v(x) \bigr] + β ε

is convex in β, bounds every rule with v ≤ ε, and has the slope ε − v(x(β)): the best rule is where
v passes ε. Where v jumps there, both sides maximise the same function and so do their mixtures,
one of which has v = ε.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from separatrix.core.numerics import Array, Index, Mask, bisect
from separatrix.optimum.roc.regions import Regions

# a start for Newton's method closer to 0 or 1 stays there when the answer is elsewhere
_AWAY = 1e-4
_DEAREST = 18.0  # logarithm of the largest price of v tried, for prices of errors of at most one
_CHEAPEST = -18.0
_TURNS = 40


def best_linear(regions: Regions, price: Array, levels: Array, tolerance: float) -> tuple[Array, Array]:
    """Rates that maximise Σ a·price·x with v ≤ ε, for each question, and upper bounds on that.

    Args:
        regions: the groups' ROC regions.
        price: of each question, array (n, groups, 2); the first column not above zero and the
            second not below.
        levels: budget ε of each, array (n,).
        tolerance: stop where bound and value are this close.

    Returns:
        rates (n, groups, 2) and bounds (n,).
    """
    scale = np.abs(price).max((1, 2))
    unit = price / scale[:, None, None]
    aim = regions.mass * unit
    corners = regions.equal
    separated = corners[np.einsum("nzy,mzy->nm", aim, corners).argmax(1)]
    # without a budget: a vertex of each hull
    rates = np.stack([chain[(aim[:, z] @ chain.T).argmax(1)] for z, chain in enumerate(regions.chains)], axis=1)
    upper = regions.linear_max(aim).sum(1)
    none = levels <= 0
    rates[none], upper[none] = separated[none], (aim * separated).sum((1, 2))[none]
    todo = np.flatnonzero(~none & (levels < regions.violation(rates)))
    if len(todo):
        roots = _Roots(regions, unit[todo], levels[todo], separated[todo], rates[todo])
        for turn in range(_TURNS):
            roots.mix()
            unsure = np.flatnonzero(roots.upper - roots.value > tolerance / scale[todo])
            if not len(unsure):
                break
            roots.evaluate(unsure, roots.next_price(turn)[unsure])
        rates[todo], upper[todo] = roots.rates, roots.upper
    return rates, upper * scale


class _Side(NamedTuple):
    """The closest point on one side of each level: log price, rates, violation, c·x − βv."""

    log_price: Array
    x: Array
    v: Array
    top: Array


class _Roots:
    """For each question the closest points on both sides, the best rates and the bound so far.

    Args:
        regions: the groups' ROC regions.
        unit: c/a of each question, array (n, groups, 2).
        levels: ε of each.
        separated, free: its best rates without any violation, and without a budget.
    """

    def __init__(self, regions: Regions, unit: Array, levels: Array, separated: Array, free: Array) -> None:
        self.regions, self.unit, self.levels, self.separated = regions, unit, levels, separated
        self.aim = regions.mass * unit
        # questions of one objective share all that is found out
        self.objective = np.unique(unit, axis=0, return_inverse=True)[1].ravel()
        self.under = self._side(np.inf, separated)  # the price that nothing but v = 0 can pay
        self.over = self._side(-np.inf, free)
        self.rates, self.value = separated.copy(), self.under.top.copy()
        self.upper = self.over.top.copy()

    def _side(self, log_price: float, x: Array) -> _Side:
        top = (self.aim * x).sum((1, 2))
        return _Side(np.full(len(x), log_price), x.copy(), self.regions.violation(x), top)

    def next_price(self, turn: int) -> Array:
        """Where to look next: where the dual's tangents meet, where log v is likely ε, halfway."""
        low, high = self.over, self.under  # prices rise from `over` to `under`
        a, b = np.maximum(low.log_price, _CHEAPEST), np.minimum(high.log_price, _DEAREST)
        halfway, rule = (a + b) / 2, turn % 3
        if rule == 2:
            return halfway
        with np.errstate(all="ignore"):
            # D(β) − βε is convex with slope −v; the tangent on the side of no violation is flat
            cost = np.where(np.isfinite(high.log_price), high.v * np.exp(high.log_price), 0.0)
            meet = low.top + low.v * np.exp(low.log_price) - high.top - cost
            place = np.log(meet / (low.v - high.v))
            if rule == 1:
                weight = np.log(low.v / self.levels) / np.log(low.v / high.v)
                place = np.where(np.isfinite(a + b) & (high.v > 0), a + weight * (b - a), place)
        inner = (place > a + 1e-3 * (b - a)) & (place < b - 1e-3 * (b - a))
        return np.where(inner, place, halfway)

    def evaluate(self, which: Index, log_price: Array) -> None:
        """Maximise at these prices; a point tells every level of its objective its side."""
        aim, beta, separated = self.aim[which], np.exp(log_price), self.separated[which]
        best = (aim * separated).sum((1, 2))
        x, dual = self._maximise(which, beta, self.over.x[which])
        v, value = self.regions.violation(x), (aim * x).sum((1, 2))
        # not there: start elsewhere
        again = np.flatnonzero((value - beta * v < best) | (dual - (value - beta * v) > 1e-7))
        if len(again):
            other, bound = self._maximise(which[again], beta[again], self.rates[which[again]])
            dual[again] = np.minimum(dual[again], bound)
            other_v, other_value = self.regions.violation(other), (aim[again] * other).sum((1, 2))
            higher = other_value - beta[again] * other_v > (value - beta * v)[again]
            place = again[higher]
            x[place], v[place], value[place] = other[higher], other_v[higher], other_value[higher]
        # Newton's method creeps towards rates of 0 or 1: this is there
        idle = value - beta * v < best
        x[idle], v[idle], value[idle] = separated[idle], 0.0, best[idle]
        same = self.objective[which][:, None] == self.objective
        bounds = np.where(same, dual[:, None] + beta[:, None] * self.levels, np.inf)
        self.upper = np.minimum(self.upper, bounds.min(0))
        fits = v[:, None] <= self.levels
        for side, on_side, sign in ((self.under, fits, 1.0), (self.over, ~fits, -1.0)):
            order = np.where(same & on_side, sign * log_price[:, None], np.inf)
            nearest, least = order.argmin(0), order.min(0)
            closer = least < sign * side.log_price
            point = nearest[closer]
            side.log_price[closer], side.top[closer] = log_price[point], (value - beta * v)[point]
            side.x[closer], side.v[closer] = x[point], v[point]

    def _maximise(self, which: Index, beta: Array, start: Array) -> tuple[Array, Array]:
        """Rates of max c·x − βv, from the overall rates of `start` by Newton's method; a bound."""
        kappa = self.unit[which] / beta[:, None, None]
        mean = np.clip(self.regions.mean(start), _AWAY, 1.0 - _AWAY)
        x = self.regions.maximise(kappa, mean)
        return x, beta * self.regions.bound(kappa, x)

    def mix(self) -> None:
        """Note the mixture of both sides that has the level; v is convex along the segment."""
        start, step = self.under.x, self.over.x - self.under.x

        def fits(share: Array) -> Mask:
            v = self.regions.violation(start + share[:, None, None] * step)
            return np.asarray(v <= self.levels)

        share, _ = bisect(fits, 0.0 * self.levels, 0.0 * self.levels + 1.0, 50)
        x = start + share[:, None, None] * step
        value = (self.aim * x).sum((1, 2))
        better = value > self.value
        self.rates[better], self.value[better] = x[better], value[better]
