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

from scipy.special import expit

from separatrix.regions import Regions, rates_utility, rates_violation

__all__ = ["CertifiedCurve", "best_separated", "certified_curve", "most_useful"]

Array = NDArray[np.float64]
Line = tuple[float, ...]
_TAU = np.arange(-6.0, 6.5, 1.0)
_RHO = np.geomspace(1e-4, 1e5, 61)
_PARALLEL = 1e-5  # radians
_ROUNDS = 14  # each halves the angle at every corner that is still too high; what is left shows in the upper bound


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
    for number in range(_ROUNDS):
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
    """The half-planes found so far and the best point, per level of v."""

    def __init__(self, regions: Regions, levels: Array, tolerance: float) -> None:
        self.regions, self.levels, self.tolerance = regions, levels, tolerance
        self.plane: list[list[Array]] = [[] for _ in levels]  # normal₀, normal₁, offset at this level, logit x̄₀, logit x̄₁
        self.top: list[tuple[float, Array] | None] = [None] * len(levels)

    def start(self, pending: NDArray[np.intp]) -> None:
        """Walk along a few paths in the plane of ξ, and note where each level is passed.

        Path τ is ξ = (τ − ρ e^{−τ/2}, τ + ρ e^{τ/2}), ρ ≥ 0, from the diagonal, where U ignores everything, to a linear
        objective; the paths fan out without crossing and fill the half-plane ξ₁ > ξ₀.
        """
        tau, rho = (part.ravel() for part in np.meshgrid(_TAU, _RHO, indexing="ij"))
        xi = np.stack([tau - rho * np.exp(-tau / 2), tau + rho * np.exp(tau / 2)], axis=1)
        x = self.regions.project(xi)
        v = rates_violation(x, self.regions.mass).reshape(len(_TAU), len(_RHO))
        passed = v[:, :, None] > self.levels[pending]
        last = np.where(passed.any(1), passed.argmax(1), len(_RHO)) - 1  # (path, level): the last step below the level
        path, level = np.nonzero(last >= 0)
        step = path * len(_RHO) + last[path, level]
        self._add(pending[level], self.regions.normal(xi[step], x[step]), x[step], x[step])

    def refine(self, pending: NDArray[np.intp], best: Array) -> int:
        """Cut off every corner of too high a utility; returns how many levels had one."""
        level: list[int] = []
        guess: list[Array] = []
        for j in pending.tolist():
            planes, lines, angle = self._polygon(j)
            high = rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior) > best[j] + self.tolerance
            bounds = np.r_[0.0, angle, np.pi / 2]
            high &= np.diff(bounds) > 4 * _PARALLEL
            if high.any():
                length = np.log(np.hypot(planes[:, 0], planes[:, 1]))
                ends = np.column_stack([length, planes[:, 3:]])
                ends = np.concatenate([ends[:1], ends, ends[-1:]])
                middle = np.column_stack([(bounds[1:] + bounds[:-1]) / 2, (ends[1:] + ends[:-1]) / 2])
                guess += list(middle[high])
                level += [j] * int(high.sum())
        if level:
            self._toward(np.array(level), np.array(guess))
        return len(set(level))

    def bound(self, j: int) -> float:
        """Largest u at a vertex of the polygon of the level's half-planes, above the diagonal."""
        lines = self._polygon(j)[1]
        return float(rates_utility(_corner(lines[:-1], lines[1:]), self.regions.prior).max())

    def _polygon(self, j: int) -> tuple[Array, Array, Array]:
        """The half-planes that bound the polygon, by angle, between those of s ≥ 0 and t ≤ 1.

        Of nearly parallel half-planes only one is kept: leaving one out only enlarges the polygon, and the corners of
        well-separated lines are accurate.

        Returns:
            the planes, all sides with normals of unit length, and the angles of the planes.
        """
        plane = np.array(self.plane[j]).reshape(-1, 5)
        length = np.hypot(plane[:, 0], plane[:, 1])
        angle = np.arctan2(plane[:, 1], -plane[:, 0])
        usable = np.flatnonzero((length > 0) & (angle > _PARALLEL) & (angle < np.pi / 2 - _PARALLEL))
        order = usable[np.argsort(angle[usable], kind="stable")]
        unit = plane[order, :3] / length[order, None]
        kept: list[int] = []
        sides: list[Line] = [(-1.0, 0.0, 0.0)]
        for i, line in [*zip(order.tolist(), map(tuple, unit.tolist()), strict=True), (-1, (0.0, 1.0, 1.0))]:
            while kept:
                if i >= 0 and angle[i] - angle[kept[-1]] < _PARALLEL:
                    if line[2] - 0.5 * (line[0] + line[1]) >= sides[-1][2] - 0.5 * (sides[-1][0] + sides[-1][1]):
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
        """Add the point of each level whose normal has the given angle, from a guess (angle, log length, logit x̄).

        Along a fixed direction the violation rises with the normal's length, since the length is the price of v: bracket,
        then regula falsi in log v. Where v jumps across the level, the points on both sides maximise the same objective, and
        so does their mixture, which by convexity has no more than the level.
        """
        n = len(level)
        direction = np.stack([-np.cos(guess[:, 0]), np.sin(guess[:, 0])], axis=1) / self.regions.prior
        want = np.log(self.levels[level])
        at, mean = guess[:, 1].copy(), expit(guess[:, 2:])
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        f_low, f_high = np.full(n, np.nan), np.full(n, np.nan)
        step, side = np.full(n, 0.5), np.zeros(n, dtype=np.int8)
        shape = (n, *self.regions.mass.shape)
        under_x, over_x = np.zeros(shape), np.zeros(shape)
        todo = np.arange(n)
        for turn in range(50):
            _, x = self.regions.maximise(np.exp(at[todo])[:, None] * direction[todo], mean[todo])
            mean[todo] = self.regions.mean(x)
            v = rates_violation(x, self.regions.mass)
            f = np.log(np.maximum(v, 1e-30)) - want[todo]
            under = f <= 0
            a, b = todo[under], todo[~under]
            f_high[a] = np.where(side[a] == -1, f_high[a] / 2, f_high[a])
            f_low[b] = np.where(side[b] == 1, f_low[b] / 2, f_low[b])
            low[a], f_low[a], under_x[a], side[a] = at[a], f[under], x[under], -1
            high[b], f_high[b], over_x[b], side[b] = at[b], f[~under], x[~under], 1
            done = (under & (f > -3e-4)) | (high[todo] - low[todo] < 1e-6) | (low[todo] > 14.0) | (high[todo] < -25.0)
            todo = todo[~done]
            if not len(todo):
                break
            l, h = low[todo], high[todo]
            both = np.isfinite(l) & np.isfinite(h)
            with np.errstate(invalid="ignore"):
                falsi = (l * f_high[todo] - h * f_low[todo]) / (f_high[todo] - f_low[todo])
                falsi = np.clip(falsi, l + 0.02 * (h - l), h - 0.02 * (h - l))
                falsi = (l + h) / 2 if turn % 3 == 2 else falsi  # v may jump: then halving is what converges
            at[todo] = np.where(both, falsi, np.where(np.isfinite(l), l + step[todo], h - step[todo]))
            step[todo] *= 2.0
        found = np.flatnonzero(np.isfinite(low))
        v_low, v_high = (rates_violation(x[found], self.regions.mass) for x in (under_x, over_x))
        level_v = self.levels[level[found]]
        share = np.divide(level_v - v_low, v_high - v_low, out=np.zeros(len(found)), where=np.isfinite(high[found]) & (v_high > level_v))
        mixed = under_x[found] + share[:, None, None] * (over_x[found] - under_x[found])
        kappa = np.exp(low[found])[:, None] * direction[found]
        self._add(level[found], kappa, under_x[found], mixed)

    def _add(self, level: NDArray[np.intp], kappa: Array, x: Array, feasible: Array) -> None:
        """Note the half-planes of x, and the feasible points where they are the best so far."""
        normals, offsets = self.regions.planes(kappa, x)
        mean = np.clip(self.regions.mean(x), 1e-300, 1.0 - 2.0**-53)
        eta = np.log(mean) - np.log1p(-mean)
        v = rates_violation(feasible, self.regions.mass)
        utility = rates_utility(self.regions.mean(feasible), self.regions.prior)
        for i, j in enumerate(level.tolist()):
            self.plane[j].append(np.array([*normals[i], offsets[i] + self.levels[j], *eta[i]]))
            top = self.top[j]
            if v[i] <= self.levels[j] and (top is None or utility[i] > top[0]):
                self.top[j] = (float(utility[i]), feasible[i])


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
