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
from numpy.typing import NDArray

from separatrix.core.numerics import bisect
from separatrix.optimum.roc.regions import Regions

Array = NDArray[np.float64]
_AWAY = (
    1e-4  # a start for Newton's method closer to 0 or 1 stays there when the answer is elsewhere
)
_DEAREST = 18.0  # logarithm of the largest price of v tried, for prices of errors of at most one
_CHEAPEST = -18.0
_TURNS = 40


def best_linear(
    regions: Regions, price: Array, levels: Array, separated: Array, tolerance: float
) -> tuple[Array, Array]:
    """Rates that maximise Σ a·price·x with v ≤ ε, for each level ε > 0, and upper bounds on it.

    Args:
        regions: the groups' ROC regions.
        price: array (groups, 2), the first column not above zero and the second not below.
        levels: budgets ε, each above zero.
        separated: the best rates (groups, 2) without any violation.
        tolerance: stop where bound and value are this close.

    Returns:
        rates (n, groups, 2) and bounds (n,).
    """
    scale = float(np.abs(price).max())
    unit, mass, n = price / scale, regions.mass, len(levels)
    free = _free(regions, unit)
    rates = np.broadcast_to(free, (n, *mass.shape)).copy()
    upper = np.full(n, regions.linear_max((mass * unit)[None]).sum())
    todo = np.flatnonzero(levels < regions.violation(free))
    if len(todo):
        roots = _Roots(regions, unit, levels[todo], separated, free)
        for turn in range(_TURNS):
            roots.mix()
            unsure = np.flatnonzero(roots.upper - roots.value > tolerance / scale)
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
    """For each level the closest points on both sides, the best rates and the bound so far."""

    def __init__(self, regions: Regions, unit: Array, levels: Array, separated: Array, free: Array):
        self.regions, self.unit, self.levels, self.separated = regions, unit, levels, separated
        n = len(levels)
        self.under = self._side(np.inf, separated, n)  # the price that nothing but v = 0 can pay
        self.over = self._side(-np.inf, free, n)
        self.rates, self.value, self.upper = (
            self.under.x.copy(),
            self.under.top.copy(),
            self.over.top.copy(),
        )

    def _side(self, log_price: float, x: Array, n: int) -> _Side:
        each = np.broadcast_to(x, (n, *x.shape)).copy()
        v = self.regions.violation(each)
        return _Side(np.full(n, log_price), each, v, self._objective(each))

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
            at = np.log(meet / (low.v - high.v))
            if rule == 1:
                weight = np.log(low.v / self.levels) / np.log(low.v / high.v)
                at = np.where(np.isfinite(a + b) & (high.v > 0), a + weight * (b - a), at)
        inner = (at > a + 1e-3 * (b - a)) & (at < b - 1e-3 * (b - a))
        return np.where(inner, at, halfway)

    def evaluate(self, which: NDArray[np.intp], log_price: Array) -> None:
        """Maximise at these prices. Every point tells every level on which side it lies."""
        beta = np.exp(log_price)
        kappa = self.unit / beta[:, None, None]
        best = float(self._objective(self.separated))
        x, dual = self._maximise(kappa, self.over.x[which])
        top = self._objective(x) - beta * self.regions.violation(x)
        again = np.flatnonzero(
            (top < best) | (beta * dual - top > 1e-7)
        )  # not there: start elsewhere
        if len(again):
            other, bound = self._maximise(kappa[again], self.rates[which[again]])
            dual[again] = np.minimum(dual[again], bound)
            higher = (
                self._objective(other) - beta[again] * self.regions.violation(other) > top[again]
            )
            x[again[higher]] = other[higher]
        v, value = self.regions.violation(x), self._objective(x)
        idle = (
            value - beta * v < best
        )  # Newton's method creeps towards rates of 0 or 1: this is there
        x[idle], v[idle], value[idle], dual = self.separated, 0.0, best, beta * dual
        for k in range(len(which)):
            self.upper = np.minimum(self.upper, dual[k] + beta[k] * self.levels)
            fits, at = v[k] <= self.levels, log_price[k]
            for side, closer in (
                (self.under, fits & (at < self.under.log_price)),
                (self.over, ~fits & (at > self.over.log_price)),
            ):
                side.log_price[closer], side.x[closer], side.v[closer] = at, x[k], v[k]
                side.top[closer] = value[k] - beta[k] * v[k]

    def _maximise(self, kappa: Array, start: Array) -> tuple[Array, Array]:
        """Rates x(κ) from the overall rates of `start` by Newton's method, and the bound on J."""
        mean = np.clip(self.regions.mean(start), _AWAY, 1.0 - _AWAY)
        x = self.regions.maximise(kappa, mean)[1]
        return x, self.regions.bound(kappa, x)

    def mix(self) -> None:
        """Note the mixture of both sides that has the level; v is convex along the segment."""
        start, step = self.under.x, self.over.x - self.under.x

        def fits(share: Array) -> NDArray[np.bool_]:
            v = self.regions.violation(start + share[:, None, None] * step)
            return np.asarray(v <= self.levels)

        share, _ = bisect(fits, np.zeros(len(self.levels)), np.ones(len(self.levels)), 50)
        x = start + share[:, None, None] * step
        value = self._objective(x)
        better = value > self.value
        self.rates[better], self.value[better] = x[better], value[better]

    def _objective(self, x: Array) -> Array:
        return np.asarray((self.regions.mass * self.unit * x).sum((-2, -1)))


def _free(regions: Regions, price: Array) -> Array:
    """The best rates (groups, 2) without a budget: a vertex of each hull."""
    return np.array(
        [
            chain[int((chain @ (price[z] * regions.mass[z])).argmax())]
            for z, chain in enumerate(regions.chains)
        ]
    )
