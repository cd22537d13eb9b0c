"""Polygons around the sets C_v of `certified`: half-planes, and how to cut off high corners.

A new half-plane comes from a point of the frontier. The quick way takes it between the places of
the corner's neighbours in the plane of ξ (explicit, see `regions`); the sure way takes the point
whose normal is halfway between theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from separatrix.core.rates import rates_utility, rates_violation
from separatrix.optimum.roc.regions import Regions

__all__ = ["Search"]

Array = NDArray[np.float64]
Line = tuple[float, ...]
_TAU = np.arange(-6.0, 6.5, 1.0)
_LOG_RHO = np.linspace(np.log(1e-4), np.log(1e5), 61)
_OFFSETS = np.sinh(np.linspace(-4.0, 4.0, 17)) / 8.0  # along the bisector, in lengths of the gap
_PARALLEL = 1e-5  # radians
# a start for Newton's method closer to 0 or 1 than this stays there when the answer is elsewhere
_AWAY = 1e-4
_CLOSE = 1e-3  # in the logarithm of the price of v: the half-plane is off by the square of it


class Search:
    """The half-planes found so far and the best point, for each level of v."""

    def __init__(self, regions: Regions, levels: Array, tolerance: float) -> None:
        self.regions, self.levels, self.tolerance = regions, levels, tolerance
        # normal (2), offset at this level, logit x̄ (2), place (2) or NaN
        self.plane: list[list[Array]] = [[] for _ in levels]
        self.top: list[tuple[float, Array] | None] = [None] * len(levels)
        # angles that `_toward` was asked for
        self.tried: list[set[float]] = [set() for _ in levels]

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

    def inherit(self, new: NDArray[np.intp], solved: NDArray[np.intp], rates: Array) -> None:
        """Begin new levels with what their solved neighbours know.

        A plane holds at every level, and is nearly tight at a neighbouring one. The mixture of the
        neighbours' best rates is feasible, since v is convex.
        """
        place = np.searchsorted(solved, new)
        below, above = solved[np.maximum(place - 1, 0)], solved[np.minimum(place, len(solved) - 1)]
        sides = {int(k): self._polygon(int(k))[0] for k in np.unique(np.r_[below, above])}
        for j, a, b in zip(new.tolist(), below.tolist(), above.tolist(), strict=True):
            for k in {a, b}:
                shifted = sides[k].copy()
                shifted[:, 2] += self.levels[j] - self.levels[k]
                self.plane[j] += list(shifted)
            if a < j:
                v_a, v_j, v_b = self.levels[[a, j, b]]
                weight = (v_j - v_a) / (v_b - v_a) if b > j else 0.0
                x = (1.0 - weight) * rates[a] + weight * rates[b]
                mean = (x * self.regions.share).sum(0)
                if rates_violation(x, self.regions.mass) <= self.levels[j]:
                    self.top[j] = (float(rates_utility(mean, self.regions.prior)), x)

    def refine(self, pending: NDArray[np.intp], best: Array, quick: bool) -> int:
        """Cut off every corner of too high a utility; returns how many levels had one.

        `quick`: by a point between the neighbours' places, where both have one; it need not have
        the right normal. Otherwise by the point whose normal is halfway between the neighbours'
        normals, which always cuts.
        """
        level: tuple[list[int], list[int]] = ([], [])
        data: tuple[list[Array], list[Array]] = ([], [])
        for j in pending.tolist():
            planes, lines, angle = self._polygon(j)
            utility = rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior)
            high = utility > best[j] + self.tolerance
            bounds = np.r_[0.0, angle, np.pi / 2]
            high &= np.diff(bounds) > 4 * _PARALLEL
            if not high.any():
                continue
            ends = np.column_stack([np.log(np.hypot(planes[:, 0], planes[:, 1])), planes[:, 3:]])
            if not len(ends):
                ends = np.array([[0.0, -1.0, 1.0, np.nan, np.nan]])
            ends = np.concatenate([ends[:1], ends[: len(planes)], ends[-1:]])
            placed = np.isfinite(ends[1:, 3]) & np.isfinite(ends[:-1, 3]) & quick
            placed[[0, -1]] = False
            halfway = (bounds[1:] + bounds[:-1]) / 2
            # a corner that its own normal did not cut off stays: asking again gives the same answer
            fresh = np.array([a not in self.tried[j] for a in halfway.round(9).tolist()])
            by_place, by_normal = high & placed, high & ~placed & fresh
            if not (by_place | by_normal).any():
                continue
            self.tried[j].update(halfway[by_normal].round(9).tolist())
            with_angle = np.column_stack([ends[:, 3:], bounds])
            gap = np.stack([with_angle[:-1], with_angle[1:]], 1)
            middle = np.column_stack([halfway, (ends[1:, :3] + ends[:-1, :3]) / 2])
            for which, rows, chosen in ((0, gap, by_place), (1, middle, by_normal)):
                data[which].extend(rows[chosen])
                level[which].extend([j] * int(chosen.sum()))
        if level[0]:
            rows, places = self._between(np.array(data[0]), self.levels[level[0]])
            self._add_places(np.array(level[0])[rows], places)
        if level[1]:
            self._toward(np.array(level[1]), np.array(data[1]))
        return len({*level[0], *level[1]})

    def bound(self, j: int) -> float:
        """Largest u at a vertex of the polygon of the level's half-planes, above the diagonal."""
        lines = self._polygon(j)[1]
        return float(rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior).max())

    def _polygon(self, j: int) -> tuple[Array, Array, Array]:
        """The half-planes that bound the polygon, by angle, between those of s ≥ 0 and t ≤ 1.

        Of nearly parallel half-planes only one is kept: leaving one out only enlarges the polygon,
        and the corners of well-separated lines are accurate.

        Returns:
            the planes, all sides with normals of unit length, and the angles of the planes.
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
        return plane[kept], np.array([*sides, (0.0, 1.0, 1.0)]), angle[kept]

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
            v = rates_violation(x, self.regions.mass)
            f = np.log(np.maximum(v, 1e-30)) - want[todo]
            under = f <= 0
            a, b = todo[under], todo[~under]
            f_high[a] = np.where(side[a] == -1, f_high[a] / 2, f_high[a])
            f_low[b] = np.where(side[b] == 1, f_low[b] / 2, f_low[b])
            low[a], f_low[a], under_x[a], side[a] = at[a], f[under], x[under], -1
            high[b], f_high[b], over_x[b], side[b] = at[b], f[~under], x[~under], 1
            done = (under & (f > -2e-3)) | (high[todo] - low[todo] < _CLOSE)
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
        v_low, v_high = (rates_violation(x[found], self.regions.mass) for x in (under_x, over_x))
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
        return rates_violation(self.regions.project(_xi(place)), self.regions.mass)

    def _angle(self, place: Array) -> Array:
        """Angle of the half-plane's normal, 0 for (−1, 0) and π/2 for (0, 1)."""
        xi = _xi(place)
        mean = np.clip(self.regions.mean(self.regions.project(xi)), 1e-300, 1.0 - 2.0**-53)
        normal = self.regions.prior * (xi - (np.log(mean) - np.log1p(-mean)))
        return np.arctan2(normal[:, 1], -normal[:, 0])

    def _between(self, ends: Array, level: Array) -> tuple[NDArray[np.intp], Array]:
        """Places of the given violation with normals between those of the two `ends`.

        The curve of constant violation that joins the ends crosses their perpendicular bisector,
        maybe more than once: take crossings with a right normal. Where the level is not passed,
        take a place with the right normal: its half-plane is valid, only less tight.

        Args:
            ends: (n, 2, [τ, log ρ, angle]).

        Returns:
            which of the n gaps each place is for, and the places.
        """
        a, b = ends[:, 0, :2], ends[:, 1, :2]
        across = np.stack([a[:, 1] - b[:, 1], b[:, 0] - a[:, 0]], axis=1)
        places = (a + b)[:, None] / 2 + _OFFSETS[:, None] * across[:, None]
        places[..., 1] = np.clip(places[..., 1], _LOG_RHO[0], _LOG_RHO[-1])
        v = self._violation(places.reshape(-1, 2)).reshape(len(a), -1)
        over = v > level[:, None]
        here, k = np.nonzero(over[:, 1:] != over[:, :-1])
        flip = over[here, k]  # the inner end is the one with the smaller violation
        inner, outer = k + flip, k + 1 - flip
        ends_v = v[here, inner], v[here, outer]
        found = self._cross(places[here, inner], places[here, outer], *ends_v, level[here])
        angle = self._angle(found)
        right = (angle > ends[here, 0, 2] + _PARALLEL) & (angle < ends[here, 1, 2] - _PARALLEL)
        here, found = here[right], found[right]
        other = np.setdiff1d(np.arange(len(a)), here)
        spare = places[other]
        off = self._angle(spare.reshape(-1, 2)).reshape(len(other), len(_OFFSETS))
        off = off - ends[other, :, 2].mean(1)[:, None]
        spare = spare[np.arange(len(other)), np.abs(off).argmin(1)]
        return np.r_[here, other], np.concatenate([found, spare])

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
        mean = np.clip(self.regions.mean(x), 1e-300, 1.0 - 2.0**-53)
        eta = np.log(mean) - np.log1p(-mean)
        where = np.full((len(level), 2), np.nan) if place is None else place
        v = rates_violation(feasible, self.regions.mass)
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


def _meet(first: Array, second: Array) -> Array:
    """Where two lines n·x = c meet; not finite for parallel lines."""
    det = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (first[:, 2] * second[:, 1] - first[:, 1] * second[:, 2]) / det
        t = (first[:, 0] * second[:, 2] - first[:, 2] * second[:, 0]) / det
    return np.stack([s, t], axis=1)


def _slack(line: Line) -> float:
    """How far the line is from the centre (½, ½) of the square."""
    return line[2] - 0.5 * (line[0] + line[1])


def _hidden(first: Line, middle: Line, last: Line) -> bool:
    """Whether `middle` does not cut the corner of its neighbours (normals less than π apart)."""
    det = first[0] * last[1] - first[1] * last[0]
    s = (first[2] * last[1] - first[1] * last[2]) / det
    t = (first[0] * last[2] - first[2] * last[0]) / det
    return middle[0] * s + middle[1] * t <= middle[2]


def _corner(first: Array, second: Array) -> Array:
    """Where neighbouring sides of the polygon meet, in the unit square; 0 below the diagonal."""
    corner = np.clip(_meet(first, second), 0.0, 1.0)
    corner[corner[:, 1] < corner[:, 0]] = 0.0
    return corner
