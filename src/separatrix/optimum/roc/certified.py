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
`certified_curve` does it for all levels of the violation v at once: C_v is the projection of a
convex set, since v is convex in the rates, and every ξ of `regions` gives a feasible predictor on
its boundary and a half-plane that contains it, the slice w = v of a plane that supports all
predictors' (s, t, v). Each half-plane is valid to rounding however roughly its point was computed.

A new half-plane comes from a point of the frontier. The quick way takes it on the path between
those of the corner's neighbours in the plane of ξ, where it is explicit (see `regions`); the sure
way takes the point whose normal is halfway between theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from separatrix.core.information import rates_utility
from separatrix.optimum.roc.regions import Regions, lower_curve

Array = NDArray[np.float64]
Line = tuple[float, ...]
_DIRECTIONS = 400  # support directions of one vertex; what is left shows in the upper bound
# each halves the angle at every corner that is still too high; what is left shows in the upper
# bound
_ROUNDS = 14
_TAU = np.arange(-6.0, 6.5, 1.0)
_LOG_RHO = np.linspace(np.log(1e-4), np.log(1e5), 61)
_PARALLEL = 1e-5  # radians
# a start for Newton's method closer to 0 or 1 than this stays there when the answer is elsewhere
_AWAY = 1e-4
_PRICE_BRACKET = (
    1e-3  # in the logarithm of the price of v: the half-plane is off by the square of it
)


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
    for _ in range(_DIRECTIONS):
        sides = np.array([(line.angle, line.value) for line in lines])
        corner = corners(sides[:, 0], sides[:, 1])
        height = rates_utility(corner, prior)
        i, top = int(height.argmax()), float(height.max())
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
    shape = (-1, *np.ones(value.ndim - 1, dtype=int))
    sine, cosine = np.sin(angle).reshape(shape), np.cos(angle).reshape(shape)
    apart = np.sin(np.diff(angle)).reshape(shape)
    s = (value[1:] * sine[:-1] - value[:-1] * sine[1:]) / apart
    t = (value[1:] * cosine[:-1] - value[:-1] * cosine[1:]) / apart
    corner = np.clip(np.stack([s, t], axis=-1), 0.0, 1.0)
    corner[corner[..., 1] < corner[..., 0]] = 0.0
    return corner


def most_useful(regions: Regions) -> Array:
    """Rates (groups, 2) of the predictor of largest u without any constraint.

    u is convex in (s, t), so it is a vertex of the Minkowski sum of the regions: merge their edges
    by slope.
    """
    edges, owner = [], []
    for g, chain in enumerate(regions.chains):
        edges.append(np.diff(chain, axis=0))
        owner.append(np.full(len(chain) - 1, g))
    edge, z = np.concatenate(edges), np.concatenate(owner)
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
        regions: the groups' ROC regions.
        levels: violations, rising, none negative.
        tolerance: stop where upper and lower bound are this close, in nats.
    """
    free, equal = most_useful(regions), lower_curve(regions.chains)
    # without any violation all groups have the same rates, below every group's curve
    separated = equal[int(rates_utility(equal, regions.prior).argmax())]
    rates = np.broadcast_to(separated, (len(levels), *regions.mass.shape)).copy()
    rates[levels >= regions.violation(free)] = free
    utility = rates_utility(regions.mean(rates), regions.prior)
    upper, top = utility.copy(), float(rates_utility(regions.mean(free[None]), regions.prior)[0])
    pending = np.flatnonzero((levels > 0.0) & (levels < regions.violation(free)))
    if not len(pending):
        return rates, upper
    search = _Search(regions, levels, tolerance)
    search.start(pending)
    quick, left = True, np.inf
    for _ in range(_ROUNDS):
        for j in pending.tolist():
            found = search.top[j]
            if found is not None and found[0] > utility[j]:
                utility[j], rates[j] = found
        before, left = left, sum(search.bound(j) - utility[j] for j in pending.tolist())
        quick = quick and left <= 0.8 * before  # it may stall
        if not search.refine(pending, utility, quick=quick):
            break
    for j in pending.tolist():
        upper[j] = min(max(search.bound(j), utility[j]), top)
    return rates, upper


class _Search:
    """The half-planes found so far and the best point, for each level of v."""

    def __init__(self, regions: Regions, levels: Array, tolerance: float) -> None:
        self.regions, self.levels, self.tolerance = regions, levels, tolerance
        # normal (2), offset at this level, logit x̄ (2), place (2) or NaN
        self.plane: list[list[Array]] = [[] for _ in levels]
        self.top: list[tuple[float, Array] | None] = [None] * len(levels)
        # paths and angles that were asked for
        self.tried: list[set[tuple[bool, float]]] = [set() for _ in levels]

    def start(self, pending: NDArray[np.intp]) -> None:
        """Note where each level is first passed along a few paths in the plane of ξ."""
        tau, log_rho = np.meshgrid(_TAU, _LOG_RHO, indexing="ij")
        places = np.stack([tau.ravel(), log_rho.ravel()], axis=1)
        profile = self._violation(places).reshape(tau.shape)
        above = profile[:, :, None] > self.levels[pending]
        first = np.where(above.any(1), above.argmax(1), len(_LOG_RHO) - 1)  # (path, level)
        path, level = np.indices(first.shape).reshape(2, -1)
        step = np.maximum(first.ravel(), 1)
        inner = np.stack([_TAU[path], _LOG_RHO[step - 1]], axis=1)
        outer = np.stack([_TAU[path], _LOG_RHO[step]], axis=1)
        ends = inner, outer, profile[path, step - 1], profile[path, step]
        self._add_places(pending[level], self._cross(*ends, self.levels[pending[level]]))

    def refine(self, pending: NDArray[np.intp], best: Array, quick: bool) -> int:
        """Cut off every corner of too high a utility; returns how many levels had one.

        `quick`: by the point on the path halfway between the neighbours' paths, where both have
        one; it need not have the right normal. Otherwise by the point whose normal is halfway
        between the neighbours' normals, which always cuts.
        """
        by_place: list[tuple[int, Array]] = []
        by_normal: list[tuple[int, Array]] = []
        for j in pending.tolist():
            planes, value, angle = self._polygon(j)
            utility = rates_utility(corners(angle, value), self.regions.prior)
            high = (utility > best[j] + self.tolerance) & (np.diff(angle) > 4 * _PARALLEL)
            if not high.any():
                continue
            ends = np.column_stack([np.log(np.hypot(planes[:, 0], planes[:, 1])), planes[:, 3:]])
            if not len(ends):
                ends = np.array([[0.0, -1.0, 1.0, np.nan, np.nan]])
            ends = np.concatenate([ends[:1], ends[: len(planes)], ends[-1:]])
            middle, halfway = (ends[1:] + ends[:-1]) / 2, (angle[1:] + angle[:-1]) / 2
            middle[[0, -1], 3:] = np.nan  # beside the axes there is no path halfway
            for k in np.flatnonzero(high).tolist():
                path, normal = (True, middle[k, 3].round(9)), (False, halfway[k].round(9))
                if quick and np.isfinite(middle[k, 3]) and path not in self.tried[j]:
                    self.tried[j].add(path)
                    by_place.append((j, middle[k, 3:]))
                elif normal not in self.tried[j]:  # else the answer would be the same
                    self.tried[j].add(normal)
                    by_normal.append((j, np.r_[halfway[k], middle[k, :3]]))
        if by_place:
            level, guess = np.array([j for j, _ in by_place]), np.array([x for _, x in by_place])
            self._add_places(level, self._on_path(guess, self.levels[level]))
        if by_normal:
            level, guess = np.array([j for j, _ in by_normal]), np.array([x for _, x in by_normal])
            self._toward(level, guess)
        return len({j for j, _ in (*by_place, *by_normal)})

    def bound(self, j: int) -> float:
        """Largest u at a vertex of the polygon of the level's half-planes, above the diagonal."""
        _, value, angle = self._polygon(j)
        return float(rates_utility(corners(angle, value), self.regions.prior).max())

    def _polygon(self, j: int) -> tuple[Array, Array, Array]:
        """The half-planes that bound the polygon, by angle, between those of s ≥ 0 and t ≤ 1.

        Of nearly parallel half-planes only one is kept: leaving one out only enlarges the polygon,
        and the corners of well-separated lines are accurate.

        Returns:
            the planes; the value and the angle of all sides, their normals of unit length.
        """
        plane = np.array(self.plane[j]).reshape(-1, 7)
        length = np.hypot(plane[:, 0], plane[:, 1])
        angle = np.arctan2(plane[:, 1], -plane[:, 0])
        inside = (angle > _PARALLEL) & (angle < np.pi / 2 - _PARALLEL)
        usable = np.flatnonzero((length > 0) & inside)
        order = usable[np.argsort(angle[usable], kind="stable")]
        unit = plane[order, :3] / length[order, None]
        kept: list[int] = []
        sides: list[Line] = [(-1.0, 0.0, 0.0)]
        found = zip(order.tolist(), map(tuple, unit.tolist()), strict=True)
        for i, line in [*found, (-1, (0.0, 1.0, 1.0))]:
            while kept:
                if i >= 0 and angle[i] - angle[kept[-1]] < _PARALLEL:
                    if _slack(line) >= _slack(sides[-1]):
                        break  # the one that is kept already is the tighter of the two
                elif not _hidden(sides[-2], sides[-1], line):
                    break
                kept.pop()
                sides.pop()
            if i >= 0 and (not kept or angle[i] - angle[kept[-1]] >= _PARALLEL):
                kept.append(i)
                sides.append(line)
        value = np.array([line[2] for line in (*sides, (0.0, 1.0, 1.0))])
        return plane[kept], value, np.r_[0.0, angle[kept], np.pi / 2]

    def _toward(self, level: NDArray[np.intp], guess: Array) -> None:
        """Add each level's point with the normal's angle of a guess (angle, log length, logit x̄).

        Along a fixed direction the violation rises with the normal's length, since the length is
        the price of v: bracket, then regula falsi in log v. Where v jumps across the level, the
        points on both sides maximise the same objective, and so does their mixture, which by
        convexity has no more than the level.
        """
        n = len(level)
        direction = np.stack([-np.cos(guess[:, 0]), np.sin(guess[:, 0])], axis=1)
        direction = direction / self.regions.prior
        want = np.log(self.levels[level])
        at, mean = guess[:, 1].copy(), expit(guess[:, 2:4])
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        f_low, f_high = np.full(n, np.nan), np.full(n, np.nan)
        step, side = np.full(n, 0.5), np.zeros(n, dtype=np.int8)
        shape = (n, *self.regions.mass.shape)
        under_x, over_x = np.zeros(shape), np.zeros(shape)
        todo = np.arange(n)
        for turn in range(50):
            _, x = self.regions.maximise(np.exp(at[todo])[:, None] * direction[todo], mean[todo])
            mean[todo] = np.clip(self.regions.mean(x), _AWAY, 1.0 - _AWAY)
            v = self.regions.violation(x)
            f = np.log(np.maximum(v, 1e-30)) - want[todo]
            under = f <= 0
            a, b = todo[under], todo[~under]
            f_high[a] = np.where(side[a] == -1, f_high[a] / 2, f_high[a])
            f_low[b] = np.where(side[b] == 1, f_low[b] / 2, f_low[b])
            low[a], f_low[a], under_x[a], side[a] = at[a], f[under], x[under], -1
            high[b], f_high[b], over_x[b], side[b] = at[b], f[~under], x[~under], 1
            done = (under & (f > -2e-3)) | (high[todo] - low[todo] < _PRICE_BRACKET)
            todo = todo[~(done | (low[todo] > 14.0) | (high[todo] < -25.0))]
            if not len(todo):
                break
            lo, h = low[todo], high[todo]
            both = np.isfinite(lo) & np.isfinite(h)
            with np.errstate(invalid="ignore"):
                falsi = (lo * f_high[todo] - h * f_low[todo]) / (f_high[todo] - f_low[todo])
                falsi = np.clip(falsi, lo + 0.02 * (h - lo), h - 0.02 * (h - lo))
                # v may jump, and then only halving converges
                falsi = (lo + h) / 2 if turn % 3 == 2 else falsi
            stepped = np.where(np.isfinite(lo), lo + step[todo], h - step[todo])
            at[todo] = np.where(both, falsi, stepped)
            step[todo] *= 2.0
        found = np.flatnonzero(np.isfinite(low))
        v_low, v_high = (self.regions.violation(x[found]) for x in (under_x, over_x))
        level_v = self.levels[level[found]]
        jump = np.isfinite(high[found]) & (v_high > level_v)
        share = np.zeros(len(found))
        np.divide(level_v - v_low, v_high - v_low, out=share, where=jump)
        mixed = under_x[found] + share[:, None, None] * (over_x[found] - under_x[found])
        kappa = np.exp(low[found])[:, None] * direction[found]
        self._add(level[found], kappa, under_x[found], mixed)

    def _add_places(self, level: NDArray[np.intp], place: Array) -> None:
        """Add the points and half-planes of places w = (τ, log ρ), see `_xi`."""
        xi = _xi(place)
        x = self.regions.project(xi)
        self._add(level, self.regions.normal(xi, x), x, x, place)

    def _violation(self, place: Array) -> Array:
        return self.regions.violation(self.regions.project(_xi(place)))

    def _on_path(self, guess: Array, level: Array) -> Array:
        """The places on the paths of guesses (τ, log ρ) that have these violations."""
        inner, outer = guess.copy(), guess.copy()
        inner[:, 1] = np.maximum(guess[:, 1] - 0.5, _LOG_RHO[0])
        outer[:, 1] = np.minimum(guess[:, 1] + 0.5, _LOG_RHO[-1])
        inner[self._violation(inner) > level, 1] = _LOG_RHO[0]
        outer[self._violation(outer) < level, 1] = _LOG_RHO[-1]
        return self._cross(inner, outer, self._violation(inner), self._violation(outer), level)

    def _cross(
        self, inner: Array, outer: Array, v_inner: Array, v_outer: Array, level: Array
    ) -> Array:
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
            at = np.clip((a * fb - b * fa) / (fb - fa), a + 1e-3 * (b - a), b - 1e-3 * (b - a))
            place = inner[todo] + at[:, None] * (outer - inner)[todo]
            f = np.sqrt(self._violation(place)) - root[todo]
            under = f <= 0
            f_low[todo] = np.where(under, f, np.where(side[todo] == 1, fa / 2, fa))
            f_high[todo] = np.where(under, np.where(side[todo] == -1, fb / 2, fb), f)
            low[todo], high[todo] = np.where(under, at, a), np.where(under, b, at)
            side[todo] = np.where(under, -1, 1)
            result[todo] = low[todo]
            todo = todo[~((under & (f > -1e-5 * root[todo])) | (b - a < 1e-13))]
        return inner + result[:, None] * (outer - inner)

    def _add(
        self,
        level: NDArray[np.intp],
        kappa: Array,
        x: Array,
        feasible: Array,
        place: Array | None = None,
    ) -> None:
        """Note the half-planes of x, and the feasible points where they are the best so far."""
        normals, offsets = self.regions.planes(kappa, x)
        eta = logit(np.clip(self.regions.mean(x), 1e-300, 1.0 - 2.0**-53))
        where = np.full((len(level), 2), np.nan) if place is None else place
        v = self.regions.violation(feasible)
        utility = rates_utility(self.regions.mean(feasible), self.regions.prior)
        for i, j in enumerate(level.tolist()):
            offset = offsets[i] + self.levels[j]
            self.plane[j].append(np.array([*normals[i], offset, *eta[i], *where[i]]))
            top = self.top[j]
            if v[i] <= self.levels[j] and (top is None or utility[i] > top[0]):
                self.top[j] = (float(utility[i]), feasible[i])


def _xi(place: Array) -> Array:
    """ξ = (τ − ρ e^{−τ/2}, τ + ρ e^{τ/2}) of the place (τ, log ρ).

    For fixed τ this is a path from the diagonal, where U is constant, to a linear objective. The
    paths do not cross and fill the half-plane ξ₁ > ξ₀.
    """
    tau, rho = place[:, 0], np.exp(place[:, 1])
    return np.stack([tau - rho * np.exp(-tau / 2), tau + rho * np.exp(tau / 2)], axis=1)


def _slack(line: Line) -> float:
    """How far the line is from the centre (½, ½) of the square."""
    return line[2] - 0.5 * (line[0] + line[1])


def _hidden(first: Line, middle: Line, last: Line) -> bool:
    """Whether `middle` does not cut the corner of its neighbours (normals less than π apart)."""
    det = first[0] * last[1] - first[1] * last[0]
    s = (first[2] * last[1] - first[1] * last[2]) / det
    t = (first[0] * last[2] - first[2] * last[0]) / det
    return middle[0] * s + middle[1] * t <= middle[2]
