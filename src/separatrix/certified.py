r"""The certified frontier over a product of ROC regions: the best u for every v, with an upper bound that is a proof.

Fix a level v. The overall rates (s, t) = (P(U=1|Y=0), P(U=1|Y=1)) that predictors with violation at most v can have form
a convex set C_v of the plane, the projection of a convex set, since v is convex in the rates. The utility is a convex
function of (s, t), and its maximum over C_v is what we are after: for fixed overall rates the problem is convex, and an
outer search in two dimensions remains.

*Lower bound.* Every ξ of `regions` gives a feasible predictor on the boundary of C_v.
*Upper bound.* Every ξ also gives a half-plane that contains C_v (the slice w = v of a plane that supports all predictors'
(s, t, v)). Finitely many of them, with 0 ≤ s and t ≤ 1, form a polygon around C_v, and a convex function has its maximum
over a polygon at a vertex. So the largest u at the vertices above the diagonal bounds the frontier from above; below the
diagonal the same predictors occur with U = 0 and 1 exchanged. The bound uses nothing but these half-planes, each of which
is valid to rounding however roughly its point was computed.

Vertices whose u exceeds the best feasible u by more than the tolerance are cut off by new half-planes between their two
neighbours until none is left. The distance of a vertex from C_v falls with the square of the spacing, so this takes about
twenty half-planes per level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.regions import Regions, rates_utility, rates_violation

__all__ = ["CertifiedCurve", "best_separated", "certified_curve", "most_useful"]

Array = NDArray[np.float64]
Line = tuple[float, ...]
_TAU = np.arange(-6.0, 6.5, 1.0)
_LOG_RHO = np.linspace(np.log(1e-4), np.log(1e5), 61)
_OFFSETS = np.sinh(np.linspace(-4.0, 4.0, 25)) / 8.0  # along the bisector, in lengths of the gap
_PARALLEL = 1e-5  # radians


class CertifiedCurve(NamedTuple):
    """Levels of v, and for each the rates (n, groups, 2) of the best predictor found, its (v, u), and an upper bound on u."""

    level: Array
    rates: Array
    violation: Array
    utility: Array
    upper: Array


def most_useful(regions: Regions) -> Array:
    """Rates (groups, 2) of the predictor of largest u without any constraint.

    u is convex in (s, t), so it is a vertex of the Minkowski sum of the regions: merge their edges by slope.
    """
    edges, owner = [], []
    for z, chain in enumerate(regions.chains):
        edges.append(np.diff(chain, axis=0))
        owner.append(np.full(len(chain) - 1, z))
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


def best_separated(regions: Regions) -> Array:
    """Rates (2,) of the best predictor with v = 0: the vertex of the intersection of all regions with the largest u.

    The intersection is a polygon, the feasible set of a linear programme in two variables, and u is convex.
    """
    s, t = regions.chains[0].T
    s, t = _as_function(s, t)
    for chain in regions.chains[1:]:
        other = _as_function(*chain.T)
        grid = np.union1d(s, other[0])
        a, b = np.interp(grid, s, t), np.interp(grid, *other)
        gap = a - b
        cross = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        at = grid[cross] + (grid[cross + 1] - grid[cross]) * gap[cross] / (gap[cross] - gap[cross + 1])
        merged = np.union1d(grid, at)
        s, t = merged, np.minimum(np.interp(merged, s, t), np.interp(merged, *other))
    corners = np.stack([s, t], axis=1)
    return corners[int(np.argmax(rates_utility(corners, regions.prior)))]


def certified_curve(
    regions: Regions,
    levels: Array,
    tolerance: float = 2e-5,
    on_round: Callable[[int, int], None] | None = None,
) -> CertifiedCurve:
    """Best u for each level of v, certified to `tolerance` nats.

    Args:
        regions: the groups' ROC regions.
        levels: violations, increasing, none negative.
        tolerance: stop where upper and lower bound are this close.
        on_round: called with the round and the number of levels still open.
    """
    prior, mass = regions.prior, regions.mass
    separated = np.broadcast_to(best_separated(regions), mass.shape)
    free = most_useful(regions)
    top_v, top_u = float(rates_violation(free, mass)), float(rates_utility((free * regions.share).sum(0), prior))
    rates = np.broadcast_to(separated, (len(levels), *mass.shape)).copy()
    utility = np.full(len(levels), float(rates_utility(separated[0], prior)))
    upper = np.full(len(levels), np.nan)
    upper[levels <= 0.0] = utility[levels <= 0.0]
    done = levels >= top_v
    rates[done], utility[done], upper[done] = free, max(top_u, utility[0] if len(utility) else 0.0), top_u
    upper[done] = np.maximum(upper[done], utility[done])
    search = _Search(regions, levels, tolerance)
    pending = np.flatnonzero(np.isnan(upper))
    search.start(pending)
    for number in range(40):
        for j in pending.tolist():
            found = search.top[j]
            if found is not None and found[0] > utility[j]:
                utility[j], rates[j] = found
        still_open = search.refine(pending, utility)
        if on_round is not None:
            on_round(number, still_open)
        if not still_open:
            break
    for j in pending.tolist():
        upper[j] = min(max(search.bound(j), utility[j]), top_u)
    for j in range(1, len(levels)):  # a stricter predictor serves every laxer level, and a laxer bound every stricter one
        if utility[j - 1] > utility[j]:
            utility[j], rates[j] = utility[j - 1], rates[j - 1]
    upper = np.minimum.accumulate(upper[::-1])[::-1]
    return CertifiedCurve(levels, rates, rates_violation(rates, mass), utility, np.maximum(upper, utility))


class _Search:
    """The points and half-planes found so far, per level of v.

    A place w = (τ, log ρ) stands for ξ = (τ − ρ e^{−τ/2}, τ + ρ e^{τ/2}): for fixed τ a path from the diagonal, where U
    ignores everything, to a linear objective; the paths fan out without crossing and fill the half-plane ξ₁ > ξ₀.
    """

    def __init__(self, regions: Regions, levels: Array, tolerance: float) -> None:
        self.regions, self.levels, self.tolerance = regions, levels, tolerance
        self.place: list[list[Array]] = [[] for _ in levels]
        self.plane: list[list[Array]] = [[] for _ in levels]  # (normal₀, normal₁, offset at this level)
        self.top: list[tuple[float, Array] | None] = [None] * len(levels)

    def start(self, pending: NDArray[np.intp]) -> None:
        """Walk along a few paths, and note for each level where it is first passed (or else the end of the path)."""
        tau, log_rho = np.meshgrid(_TAU, _LOG_RHO, indexing="ij")
        profile = self._violation(np.stack([tau.ravel(), log_rho.ravel()], axis=1)).reshape(tau.shape)
        above = profile[:, :, None] > self.levels[pending]
        first = np.where(above.any(1), above.argmax(1), len(_LOG_RHO) - 1)  # (path, level)
        path, level = np.indices(first.shape).reshape(2, -1)
        step = np.maximum(first.ravel(), 1)
        inner = np.stack([_TAU[path], _LOG_RHO[step - 1]], axis=1)
        outer = np.stack([_TAU[path], _LOG_RHO[step]], axis=1)
        v_inner, v_outer = profile[path, step - 1], profile[path, step]
        self._add(pending[level], self._cross(inner, outer, v_inner, v_outer, self.levels[pending[level]]))

    def refine(self, pending: NDArray[np.intp], best: Array) -> int:
        """Cut off every corner of too high a utility; returns how many levels had one."""
        level: list[int] = []
        ends: list[Array] = []
        for j in pending.tolist():
            place, lines, angle = self._polygon(j)
            high = rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior) > best[j] + self.tolerance
            before = np.column_stack([np.concatenate([place[:1] - [4.0, 0.0], place]), np.r_[0.0, angle]])
            after = np.column_stack([np.concatenate([place, place[-1:] + [4.0, 0.0]]), np.r_[angle, np.pi / 2]])
            high &= np.abs((before + after)[:, 0]) < 120.0
            ends += list(np.stack([before, after], axis=1)[high])
            level += [j] * int(high.sum())
        if level:
            rows, places = self._between(np.array(ends), self.levels[level])
            self._add(np.array(level)[rows], places)
        return len(set(level))

    def bound(self, j: int) -> float:
        """Largest u at a vertex of the polygon of the level's half-planes, above the diagonal."""
        lines = self._polygon(j)[1]
        return float(rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior).max())

    def _polygon(self, j: int) -> tuple[Array, Array, Array]:
        """The half-planes that bound the polygon, in order, between those of s ≥ 0 and t ≤ 1; their places and angles.

        Normals have unit length. Of nearly parallel half-planes only one is kept: leaving one out only enlarges the polygon,
        and the corners of well-separated lines are accurate.
        """
        place, plane = np.array(self.place[j]), np.array(self.plane[j])
        length = np.hypot(plane[:, 0], plane[:, 1])
        angle = np.arctan2(plane[:, 1], -plane[:, 0])
        usable = np.flatnonzero((length > 0) & (angle > _PARALLEL) & (angle < np.pi / 2 - _PARALLEL))
        order = usable[np.argsort(angle[usable], kind="stable")]
        plane[usable] /= length[usable, None]
        kept: list[int] = []
        sides = [(-1.0, 0.0, 0.0)]
        for i, line in [*zip(order.tolist(), map(tuple, plane[order].tolist()), strict=True), (-1, (0.0, 1.0, 1.0))]:
            while kept:
                if i >= 0 and angle[i] - angle[kept[-1]] < _PARALLEL:
                    s, t = 0.5, 0.5
                    if line[0] * s + line[1] * t - line[2] <= sides[-1][0] * s + sides[-1][1] * t - sides[-1][2]:
                        break  # the kept one is the tighter of the two
                elif not _hidden(sides[-2], sides[-1], line):
                    break
                kept.pop()
                sides.pop()
            if i >= 0 and (not kept or angle[i] - angle[kept[-1]] >= _PARALLEL):
                kept.append(i)
                sides.append(line)
        return place[kept], np.array([*sides, (0.0, 1.0, 1.0)]), angle[kept]

    def _add(self, level: NDArray[np.intp], place: Array) -> None:
        xi = _xi(place)
        x = self.regions.project(xi)
        v, utility = rates_violation(x, self.regions.mass), rates_utility(self.regions.mean(x), self.regions.prior)
        normals, offsets = self.regions.planes(xi, x)
        for i, j in enumerate(level.tolist()):
            self.place[j].append(place[i])
            self.plane[j].append(np.array([*normals[i], offsets[i] + self.levels[j]]))
            top = self.top[j]
            if v[i] <= self.levels[j] and (top is None or utility[i] > top[0]):
                self.top[j] = (float(utility[i]), x[i])

    def _violation(self, place: Array) -> Array:
        return rates_violation(self.regions.project(_xi(place)), self.regions.mass)

    def _angle(self, place: Array) -> Array:
        """Angle of the half-plane's normal, 0 for (−1, 0) and π/2 for (0, 1)."""
        xi = _xi(place)
        mean = np.clip(self.regions.mean(self.regions.project(xi)), 1e-300, 1.0 - 2.0**-53)
        normal = self.regions.prior * (xi - (np.log(mean) - np.log1p(-mean)))
        return np.arctan2(normal[:, 1], -normal[:, 0])

    def _between(self, ends: Array, level: Array) -> tuple[NDArray[np.intp], Array]:
        """Places of the given violation whose normals lie between those of the two ends (n, 2, [τ, log ρ, angle]).

        The curve of constant violation that joins the ends crosses the perpendicular bisector; it may do so more than once,
        so look where the normal is right. Where the level is not passed there, a place with the right normal will do: its
        half-plane is as valid, only less tight.

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
        found = self._cross(places[here, inner], places[here, outer], v[here, inner], v[here, outer], level[here])
        angle = self._angle(found)
        right = (angle > ends[here, 0, 2] + _PARALLEL) & (angle < ends[here, 1, 2] - _PARALLEL)
        here, found = here[right], found[right]
        other = np.setdiff1d(np.arange(len(a)), here)
        spare = places[other]
        off = self._angle(spare.reshape(-1, 2)).reshape(len(other), len(_OFFSETS)) - ends[other, :, 2].mean(1)[:, None]
        spare = spare[np.arange(len(other)), np.abs(off).argmin(1)]
        return np.r_[here, other], np.concatenate([found, spare])

    def _cross(self, inner: Array, outer: Array, v_inner: Array, v_outer: Array, level: Array) -> Array:
        """Where the segment from `inner` to `outer` passes the level, from below: regula falsi (Illinois) in √v.

        √v is close to linear. Where the segment does not pass the level, the end that is closer to it.
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
            f = np.sqrt(self._violation(inner[todo] + at[:, None] * (outer - inner)[todo])) - root[todo]
            under = f <= 0
            f_low[todo] = np.where(under, f, np.where(side[todo] == 1, fa / 2, fa))
            f_high[todo] = np.where(under, np.where(side[todo] == -1, fb / 2, fb), f)
            low[todo], high[todo] = np.where(under, at, a), np.where(under, b, at)
            side[todo] = np.where(under, -1, 1)
            result[todo] = low[todo]
            todo = todo[~((under & (f > -1e-5 * root[todo])) | (b - a < 1e-13))]
        return inner + result[:, None] * (outer - inner)


def _xi(place: Array) -> Array:
    tau, rho = place[:, 0], np.exp(place[:, 1])
    return np.stack([tau - rho * np.exp(-tau / 2), tau + rho * np.exp(tau / 2)], axis=1)


def _meet(first: Array, second: Array) -> Array:
    """Where two lines n·x = c meet; not finite for parallel lines."""
    det = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (first[:, 2] * second[:, 1] - first[:, 1] * second[:, 2]) / det
        t = (first[:, 0] * second[:, 2] - first[:, 2] * second[:, 0]) / det
    return np.stack([s, t], axis=1)


def _hidden(first: Line, middle: Line, last: Line) -> bool:
    """Whether `middle` does not cut the corner of its neighbours (their normals in order, less than π apart)."""
    det = first[0] * last[1] - first[1] * last[0]
    s = (first[2] * last[1] - first[1] * last[2]) / det
    t = (first[0] * last[2] - first[2] * last[0]) / det
    return middle[0] * s + middle[1] * t <= middle[2]


def _corner(first: Array, second: Array) -> Array:
    """Where neighbouring sides of the polygon meet, brought into the unit square; below the diagonal u counts as 0."""
    corner = np.clip(_meet(first, second), 0.0, 1.0)
    corner[corner[:, 1] < corner[:, 0]] = 0.0
    return corner


def _as_function(s: Array, t: Array) -> tuple[Array, Array]:
    """The chain as a function of s: of the vertices with the same s, the highest."""
    keep = np.r_[s[1:] > s[:-1], True]
    return s[keep], t[keep]
