r"""The certified frontier over a product of ROC regions: the best u for every v, with an upper
bound that is a proof.

Fix a level v. The overall rates (s, t) = (P(U=1|Y=0), P(U=1|Y=1)) that predictors with violation at
most v can have form a convex set C_v of the plane, the projection of a convex set, since v is
convex in the rates. The utility is a convex function of (s, t), and its maximum over C_v is what we
are after: for fixed overall rates the problem is convex, and an outer search in two dimensions
remains.

*Lower bound.* Every ξ of `regions` gives a feasible predictor on the boundary of C_v.
*Upper bound.* Every ξ also gives a half-plane that contains C_v (the slice w = v of a plane that
supports all predictors' (s, t, v)). Finitely many of them, with 0 ≤ s and t ≤ 1, form a polygon
around C_v, and a convex function has its maximum over a polygon at a vertex. So the largest u at
the vertices above the diagonal bounds the frontier from above; below the diagonal the same
predictors occur with U = 0 and 1 exchanged. The bound uses nothing but these half-planes, each of
which is valid to rounding however roughly its point was computed.

Vertices whose u exceeds the best feasible u by more than the tolerance are cut off by new
half-planes between their two neighbours until none is left. The distance of a vertex from C_v falls
with the square of the spacing, so this takes about twenty half-planes per level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.rates import rates_utility, rates_violation
from separatrix.optimum.roc.cutting_planes import Search
from separatrix.optimum.roc.regions import Regions

__all__ = [
    "CertifiedCurve",
    "best_separated",
    "certified_curve",
    "most_useful",
    "separated_corners",
]

Array = NDArray[np.float64]
_AT_ONCE = (
    100  # measured: 11 levels 0.6 s in one pass and 1.4 s in several, 81 levels 1.4 s and 1.9 s
)
# each halves the angle at every corner that is still too high; what is left shows in the upper
# bound
_ROUNDS = 14


class CertifiedCurve(NamedTuple):
    """Levels of v, and for each the rates (n, groups, 2) of the best predictor found, its (v, u),
    and an upper bound on u.
    """

    level: Array
    rates: Array
    violation: Array
    utility: Array
    upper: Array


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


def best_separated(regions: Regions) -> Array:
    """Rates (2,) of the best predictor with v = 0: the one of `separated_corners` with most u."""
    corners = separated_corners(regions)
    return corners[int(np.argmax(rates_utility(corners, regions.prior)))]


def separated_corners(regions: Regions) -> Array:
    """Corners (k, 2) of the upper side of the intersection of all regions: rates for every group.

    The intersection is a polygon: a convex function of the rates is largest at one of its corners.
    """
    s, t = regions.chains[0].T
    s, t = _as_function(s, t)
    for chain in regions.chains[1:]:
        other = _as_function(*chain.T)
        grid = np.union1d(s, other[0])
        a, b = np.interp(grid, s, t), np.interp(grid, *other)
        gap = a - b
        cross = np.flatnonzero(gap[:-1] * gap[1:] < 0)
        at = grid[cross] + (grid[cross + 1] - grid[cross]) * gap[cross] / (
            gap[cross] - gap[cross + 1]
        )
        merged = np.union1d(grid, at)
        s, t = merged, np.minimum(np.interp(merged, s, t), np.interp(merged, *other))
    return np.stack([s, t], axis=1)


def certified_curve(
    regions: Regions,
    levels: Array,
    tolerance: float = 2e-5,
    on_pass: Callable[[int, int], None] | None = None,
) -> CertifiedCurve:
    """Best u for each level of v, certified to `tolerance` nats.

    Args:
        regions: the groups' ROC regions.
        levels: violations, increasing, none negative.
        tolerance: stop where upper and lower bound are this close.
        on_pass: called with the number of levels done and of all, a few times.
    """
    prior, mass = regions.prior, regions.mass
    separated = np.broadcast_to(best_separated(regions), mass.shape)
    free = most_useful(regions)
    top_v, top_u = (
        float(rates_violation(free, mass)),
        float(rates_utility((free * regions.share).sum(0), prior)),
    )
    rates = np.broadcast_to(separated, (len(levels), *mass.shape)).copy()
    utility = np.full(len(levels), float(rates_utility(separated[0], prior)))
    upper = np.full(len(levels), np.nan)
    upper[levels <= 0.0] = utility[levels <= 0.0]
    done = levels >= top_v
    rates[done], utility[done], upper[done] = (
        free,
        max(top_u, utility[0] if len(utility) else 0.0),
        top_u,
    )
    upper[done] = np.maximum(upper[done], utility[done])
    search = Search(regions, levels, tolerance)
    pending = np.flatnonzero(np.isnan(upper))
    solved = np.zeros(0, dtype=np.intp)
    for new in _coarse_to_fine(pending):
        if len(solved):
            search.inherit(new, solved, rates)
        else:
            search.start(new)
        quick, left = True, np.inf
        for _ in range(_ROUNDS):
            for j in new.tolist():
                found = search.top[j]
                if found is not None and found[0] > utility[j]:
                    utility[j], rates[j] = found
            before, left = left, sum(search.bound(j) - utility[j] for j in new.tolist())
            quick = quick and left <= 0.8 * before  # it may stall
            if not search.refine(new, utility, quick=quick):
                break
        solved = np.sort(np.r_[solved, new])
        if on_pass is not None:
            on_pass(len(solved), len(pending))
    for j in pending.tolist():
        upper[j] = min(max(search.bound(j), utility[j]), top_u)
    for j in range(
        1, len(levels)
    ):  # a stricter predictor serves every laxer level, and a laxer bound every stricter one
        if utility[j - 1] > utility[j]:
            utility[j], rates[j] = utility[j - 1], rates[j - 1]
    upper = np.minimum.accumulate(upper[::-1])[::-1]
    return CertifiedCurve(
        levels, rates, rates_violation(rates, mass), utility, np.maximum(upper, utility)
    )


def _coarse_to_fine(pending: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The levels in passes: every sixteenth, then those halfway between, and so on.

    A few levels are one pass: they share every array operation, which is worth more than a
    neighbour's half-planes.
    """
    if len(pending) <= _AT_ONCE:
        return [pending] if len(pending) else []
    passes, taken = [], np.zeros(len(pending), dtype=bool)
    for stride in (16, 8, 4, 2, 1):
        now = np.zeros(len(pending), dtype=bool)
        now[::stride] = True
        now[-1:] = True
        passes.append(pending[now & ~taken])
        taken |= now
    return [part for part in passes if len(part)]


def _as_function(s: Array, t: Array) -> tuple[Array, Array]:
    """The chain as a function of s: of the vertices with the same s, the highest."""
    keep = np.r_[s[1:] > s[:-1], True]
    return s[keep], t[keep]
