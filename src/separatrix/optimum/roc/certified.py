r"""The largest utility within a budget, with an upper bound that is a proof.

The utility is a convex function of the overall rates (s, t) = (P(U=1|Y=0), P(U=1|Y=1)), and the
rates that predictors within a budget can have form a convex set C of the plane. A half-plane that
contains C is known for every direction; finitely many of them, with 0 ≤ s and t ≤ 1, form a polygon
around C, and a convex function has its maximum over a polygon at a vertex. So the largest u at the
vertices above the diagonal bounds the utility from above; below the diagonal the same predictors
occur with U = 0 and 1 exchanged. A vertex that is still too high is cut off by a new half-plane
between its two neighbours. The distance of a vertex from C falls with the square of the spacing, so
about twenty half-planes will do.

`most_useful_vertex` does this for any budget whose linear objectives can be solved.
`certified_curve` does it for all levels of an information at once, by the roots of `lagrangian`.

Under v = I(U;Z|Y) there is a quicker way: v is convex in the rates, so C_v is the projection of a
convex set, and every ξ of `regions` gives a feasible predictor on its boundary and a half-plane
that contains it, the slice w = v of a plane that supports all predictors' (s, t, v). Each is valid
to rounding however roughly its point was computed. The new half-plane is taken on the path between
those of the corner's neighbours in the plane of ξ, where it is explicit; where that stalls, the
sure way takes the one whose normal is between theirs.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from separatrix.core.information import rates_utility
from separatrix.core.numerics import Array, Index
from separatrix.optimum.roc.lagrangian import best_linear
from separatrix.optimum.roc.regions import ParityRegions, Regions

_DIRECTIONS = 400  # support directions of one vertex; what is left shows in the upper bound
# each halves the angle at every corner that is still too high; what is left shows in the upper
# bound
_ROUNDS = 14
_TAU = np.arange(-6.0, 6.5, 1.0)
_LOG_RHO = np.linspace(np.log(1e-4), np.log(1e5), 61)
_PARALLEL = 1e-5  # radians
_LINE_GAP = 0.02  # of the tolerance of u: how loose a half-plane of the sure way may be
_STALLED = 0.8  # of the sum of what is unproven, after a round


class _Line(NamedTuple):
    """−cos(angle) s + sin(angle) t ≤ value.

    Args:
        angle, value: of the line.
        point: the overall rates (s, t) that touch it, or None.
        place: (τ, log ρ) of these rates in the plane of ξ, or None.
    """

    angle: float
    value: float
    point: Array | None = None
    place: Array | None = None


_SIDES = (_Line(0.0, 0.0), _Line(np.pi / 2, 1.0))  # 0 ≤ s and t ≤ 1


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
    best, touching = -1.0, None
    lines = list(_SIDES)
    for _ in range(_DIRECTIONS):
        height = _heights(lines, prior)
        i, top = int(height.argmax()), float(height.max())
        if top <= best + tolerance or lines[i + 1].angle - lines[i].angle < 1e-9:
            break
        angle = _between(lines[i], lines[i + 1])
        contact, point, value = touch(angle)
        lines.insert(i + 1, _Line(angle, value, point))
        u = float(rates_utility(point, prior))
        if u > best:
            best, touching = u, contact
    return touching, max(top, best)


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


def _heights(lines: list[_Line], prior: Array) -> Array:
    """The utility at the corner of each two neighbours of the lines."""
    angle, value = np.array([(line.angle, line.value) for line in lines]).T
    return rates_utility(corners(angle, value), prior)


def corners(angle: Array, value: Array) -> Array:
    """Where neighbours of the lines −cos(angle) s + sin(angle) t = value meet, in the unit square.

    (0, 0) below the diagonal, where the mirror images of other points lie.

    Args:
        angle: rising, array (k,).
        value: array (k, …).

    Returns:
        Array (k − 1, …, 2).

    >>> corners(np.array([0.0, np.pi / 2]), np.array([-0.25, 0.75]))
    array([[0.25, 0.75]])
    """
    angle = angle.reshape(-1, *np.ones(value.ndim - 1, dtype=int))
    meeting = _meeting(angle[:-1], value[:-1], angle[1:], value[1:])
    corner = np.clip(np.stack(meeting, axis=-1), 0.0, 1.0)
    corner[corner[..., 1] < corner[..., 0]] = 0.0
    return corner


def _meeting(angle: Any, value: Any, next_angle: Any, next_value: Any) -> tuple[Any, Any]:
    """(s, t) where two lines meet."""
    apart = np.sin(next_angle - angle)
    s = (next_value * np.sin(angle) - value * np.sin(next_angle)) / apart
    return s, (next_value * np.cos(angle) - value * np.cos(next_angle)) / apart


def most_useful(regions: Regions) -> Array:
    """Rates (groups, 2) of the predictor of largest u without any constraint.

    u is convex in (s, t), so it is a vertex of the Minkowski sum of the regions: merge their edges
    by slope.
    """
    edge = np.concatenate([np.diff(chain, axis=0) for chain in regions.chains])
    z = np.repeat(np.arange(len(regions.chains)), [len(chain) - 1 for chain in regions.chains])
    with np.errstate(invalid="ignore", divide="ignore"):
        steepness = np.arctan2(edge[:, 1] * regions.share[z, 1], edge[:, 0] * regions.share[z, 0])
    order = np.argsort(-steepness, kind="stable")
    path = np.cumsum(edge[order] * regions.share[z[order]], axis=0)
    utility = rates_utility(np.clip(path, 0.0, 1.0), regions.prior)
    taken = order[: int(np.argmax(utility)) + 1]
    rates = np.zeros((len(regions.chains), 2))
    np.add.at(rates, z[taken], edge[taken])
    return np.clip(rates, 0.0, 1.0)


def certified_curve(regions: Regions, levels: Array, tolerance: float) -> tuple[Array, Array]:
    """The rates (n, groups, 2) of the best u for each level of v, and upper bounds (n,) on it.

    Args:
        regions: the groups' ROC regions; their kind says what v is.
        levels: violations, rising, none negative.
        tolerance: stop where upper and lower bound are this close, in nats.
    """
    free = most_useful(regions)
    most = float(regions.violation(free))
    separated = regions.equal[int(_utility(regions, regions.equal).argmax())]
    rates = np.where((levels >= most)[:, None, None], free, separated)
    upper = _utility(regions, rates)
    pending = np.flatnonzero((levels > 0.0) & (levels < most)).tolist()
    if not pending:
        return rates, upper
    search = _Search(regions, levels, rates, tolerance)
    quick, left = not isinstance(regions, ParityRegions), np.inf
    if quick:
        search.start(pending)
    for _ in range(_ROUNDS):
        before, left = left, sum(search.bound(j) - search.utility[j] for j in pending)
        quick = quick and left <= _STALLED * before
        if not search.refine(pending, quick):
            break
    top = float(_utility(regions, free))
    for j in pending:
        upper[j] = min(max(search.bound(j), search.utility[j]), top)
    return search.rates, upper


def _utility(regions: Regions, x: Array) -> Array:
    return rates_utility(regions.overall(x), regions.prior)


class _Search:
    """The polygon and the best rates of each level of v.

    Args:
        regions: the groups' ROC regions.
        levels: of v.
        rates: rates within each level to begin with, array (n, groups, 2).
        tolerance: of u, in nats.
    """

    def __init__(self, regions: Regions, levels: Array, rates: Array, tolerance: float) -> None:
        self.regions, self.levels, self.rates, self.tolerance = regions, levels, rates, tolerance
        self.utility = _utility(regions, rates)
        self.polygons = [list(_SIDES) for _ in levels]
        # paths and angles that were asked for
        self.tried: list[set[tuple[bool, float]]] = [set() for _ in levels]

    def bound(self, j: int) -> float:
        """The largest u at a vertex of the level's polygon, above the diagonal."""
        return float(_heights(self.polygons[j], self.regions.prior).max())

    def start(self, pending: list[int]) -> None:
        """Note where each level is first passed along a few paths in the plane of ξ."""
        tau, log_rho = np.meshgrid(_TAU, _LOG_RHO, indexing="ij")
        profile = self._violation(np.stack([tau.ravel(), log_rho.ravel()], axis=1)).reshape(tau.shape)
        above = profile[:, :, None] > self.levels[pending]
        first = np.where(above.any(1), above.argmax(1), len(_LOG_RHO) - 1)  # (path, level)
        path, level = np.indices(first.shape).reshape(2, -1)
        step, which = np.maximum(first.ravel(), 1), np.array(pending)[level]
        inner, outer = (np.stack([_TAU[path], _LOG_RHO[k]], axis=1) for k in (step - 1, step))
        crossing = self._cross(inner, outer, profile[path, step - 1], profile[path, step], self.levels[which])
        self._add_places(which, crossing)

    def refine(self, pending: list[int], quick: bool) -> bool:
        """Cut off every corner of too high a utility; whether there was one.

        `quick`: by the point on the path halfway between the neighbours' paths, where both have
        one; it need not have the right normal. Otherwise by the line whose normal is between
        theirs, which always cuts.
        """
        places: list[tuple[int, Array]] = []
        angles: list[tuple[int, float]] = []
        for j in pending:
            high = _heights(self.polygons[j], self.regions.prior) > self.utility[j] + self.tolerance
            for k in np.flatnonzero(high).tolist():
                first, last = self.polygons[j][k : k + 2]
                if last.angle - first.angle <= 4 * _PARALLEL:
                    continue
                if quick and first.place is not None and last.place is not None:
                    place = (first.place + last.place) / 2
                    if (path := (True, round(float(place[0]), 9))) not in self.tried[j]:
                        self.tried[j].add(path)
                        places.append((j, place))
                        continue
                halfway = _between(first, last)
                if (normal := (False, round(halfway, 9))) not in self.tried[j]:  # else the answer would be the same
                    self.tried[j].add(normal)
                    angles.append((j, halfway))
        if places:
            which, guess = map(np.array, zip(*places, strict=True))
            self._add_places(which, self._on_path(guess, self.levels[which]))
        if angles:  # the half-planes of these normals, and the points that touch them
            which, angle = map(np.array, zip(*angles, strict=True))
            direction = np.stack([-np.cos(angle), np.sin(angle)], axis=1) / self.regions.prior
            price = np.broadcast_to(direction[:, None], (len(angle), *self.regions.mass.shape))
            x, value = best_linear(self.regions, price, self.levels[which], _LINE_GAP * self.tolerance)
            self._add(which, x, angle, value)
        return bool(places or angles)

    def _add_places(self, which: Index, place: Array) -> None:
        """Add the half-planes and points of places (τ, log ρ) in the plane of ξ."""
        xi, x = self._project(place)
        mean = np.clip(self.regions.mean(x), 1e-300, 1.0 - 2.0**-53)
        kappa = xi - logit(mean)[:, None]
        normal = self.regions.prior * kappa[:, 0]
        length = np.hypot(*normal.T)
        value = (self.regions.bound(kappa, x) + self.levels[which]) / length
        self._add(which, x, np.arctan2(normal[:, 1], -normal[:, 0]), value, place)

    def _add(self, which: Index, x: Array, angle: Array, value: Array, place: Array | None = None) -> None:
        """Note half-planes, and the points where they are within the level and the best so far."""
        point, utility = self.regions.overall(x), _utility(self.regions, x)
        within = self.regions.violation(x) <= self.levels[which]
        for i, j in enumerate(which.tolist()):
            where = None if place is None else place[i]
            line = _Line(float(angle[i]), float(value[i]), point[i], where)
            self.polygons[j] = _cut(self.polygons[j], line)
            if within[i] and utility[i] > self.utility[j]:
                self.utility[j], self.rates[j] = utility[i], x[i]

    def _project(self, place: Array) -> tuple[Array, Array]:
        """ξ = (τ − ρ e^{−τ/2}, τ + ρ e^{τ/2}) of the places (τ, log ρ), for all groups; x(ξ).

        For fixed τ this is a path from the diagonal, where U is constant, to a linear objective.
        The paths do not cross and fill the half-plane ξ₁ > ξ₀.
        """
        tau, rho = place[:, 0], np.exp(place[:, 1])
        xi = np.stack([tau - rho * np.exp(-tau / 2), tau + rho * np.exp(tau / 2)], axis=1)
        each = np.broadcast_to(xi[:, None], (len(xi), *self.regions.mass.shape))
        return each, self.regions.project(each)[0]

    def _violation(self, place: Array) -> Array:
        return self.regions.violation(self._project(place)[1])

    def _on_path(self, guess: Array, level: Array) -> Array:
        """The places on the paths of guesses (τ, log ρ) that have these violations."""
        inner, outer = guess.copy(), guess.copy()
        inner[:, 1] = np.maximum(guess[:, 1] - 0.5, _LOG_RHO[0])
        outer[:, 1] = np.minimum(guess[:, 1] + 0.5, _LOG_RHO[-1])
        inner[self._violation(inner) > level, 1] = _LOG_RHO[0]
        outer[self._violation(outer) < level, 1] = _LOG_RHO[-1]
        return self._cross(inner, outer, self._violation(inner), self._violation(outer), level)

    def _cross(self, inner: Array, outer: Array, v_inner: Array, v_outer: Array, level: Array) -> Array:
        """Where the segment from `inner` to `outer` passes the level, from below.

        Regula falsi (Illinois) in √v, which is close to linear. Where the segment does not pass the
        level, the end that is closer to it.
        """
        root = np.sqrt(level)
        low, high = np.zeros(len(level)), np.ones(len(level))
        f_low, f_high = np.sqrt(v_inner) - root, np.sqrt(v_outer) - root
        result = np.where(f_high <= 0, 1.0, 0.0)
        todo = np.flatnonzero((f_low < 0) & (f_high > 0))
        side = np.zeros(len(level), dtype=np.int8)
        for _ in range(50):
            if not len(todo):
                break
            a, b, fa, fb = low[todo], high[todo], f_low[todo], f_high[todo]
            middle = np.clip((a * fb - b * fa) / (fb - fa), a + 1e-3 * (b - a), b - 1e-3 * (b - a))
            place = inner[todo] + middle[:, None] * (outer - inner)[todo]
            f = np.sqrt(self._violation(place)) - root[todo]
            under = f <= 0
            # an end that stays for the second time counts half, or the secant would creep towards it
            f_low[todo] = np.where(under, f, np.where(side[todo] == 1, fa / 2, fa))
            f_high[todo] = np.where(under, np.where(side[todo] == -1, fb / 2, fb), f)
            low[todo], high[todo] = np.where(under, middle, a), np.where(under, b, middle)
            side[todo] = np.where(under, -1, 1)
            result[todo] = low[todo]
            todo = todo[~((under & (f > -1e-5 * root[todo])) | (b - a < 1e-13))]
        return inner + result[:, None] * (outer - inner)


def _cut(lines: list[_Line], line: _Line) -> list[_Line]:
    """The polygon with a new line, without the lines that then cut no corner.

    Of nearly parallel lines only the tighter is kept: leaving one out only enlarges the polygon,
    and the corners of well-separated lines are accurate.
    """
    place = bisect([other.angle for other in lines], line.angle)
    if not 0 < place < len(lines):
        return lines
    before, after = lines[:place], lines[place:]
    while (left := line.angle - before[-1].angle < _PARALLEL) or after[0].angle - line.angle < _PARALLEL:
        near, k = (before, -1) if left else (after, 0)
        if len(near) == 1 or _slack(near[k]) <= _slack(line):
            return lines
        del near[k]
    if _hidden(before[-1], line, after[0]):
        return lines
    while len(before) > 1 and _hidden(before[-2], before[-1], line):
        del before[-1]
    while len(after) > 1 and _hidden(line, after[0], after[1]):
        del after[0]
    return [*before, line, *after]


def _slack(line: _Line) -> float:
    """How far the line is from the centre (½, ½) of the square."""
    return line.value - 0.5 * float(np.sin(line.angle) - np.cos(line.angle))


def _hidden(first: _Line, middle: _Line, last: _Line) -> bool:
    """Whether `middle` does not cut the corner of its neighbours."""
    s, t = _meeting(first.angle, first.value, last.angle, last.value)
    return bool(np.sin(middle.angle) * t - np.cos(middle.angle) * s <= middle.value)
