r"""What randomised thresholds of a score can do to each group: the ROC regions, and points on their
frontier.

For a binary prediction U, (v, u) depends on a predictor only through its rates x[z] =
(P(U=1|Y=0,z), P(U=1|Y=1,z)). Thresholds of a score and their mixtures reach, in each group by
itself, exactly the convex region R_z between the concave hull of the group's ROC curve and its
mirror image. So all that there is to know is one concave chain per group.

The optimal points have a closed form. Let a[z,y] = P(Y=y, Z=z) and, for ξ in R²,

.. math:: x_z(ξ) = \arg\max_{x \in R_z} \sum_y a_{zy} \bigl[h(x_y) + ξ_y x_y\bigr], \qquad
          κ_y = ξ_y - \operatorname{logit} \bar x_y(ξ), \quad \bar x_y = P(U{=}1 \mid y)

with h the binary entropy. Then x(ξ) maximises the concave function
:math:`J(x) = \sum_y p_y κ_y \bar x_y - v(x)` over all x in ∏ R_z, because
:math:`v(x) = \min_m \sum a_{zy} KL(x_{zy} \| m_y)`, J is jointly concave in (x, m), and (x(ξ), x̄)
is optimal in each block. Hence every ξ yields a point of the frontier of the convex set {(x̄, w): w
≥ v} and the plane that supports it there: two numbers describe the whole frontier for any number of
groups, and no iteration over groups is needed.

*Independence.* Here the share of U = 1 is what groups must agree on.
With w_z = P(Z=z) and r_z = P(U=1 | z), the information I(U;Z) = Σ w_z KL(r_z ‖ r̄) sees a group's
rates only through r_z. At a given r_z a linear objective is best on the hull of the group's ROC
curve, where it is a concave, piecewise linear function G_z(r_z). So

.. math:: \max_r \sum_z G_z(r_z) - \sum_z w_z \, \mathrm{KL}(r_z \| m)

has for every m a closed form: on an edge with slope :math:`w_z f` the best r_z is expit(logit m +
f), clipped to the edge. It is concave in m, and its maximum over m, where m = r̄, is that of
:math:`c \cdot x - I(U;Z)`: one root. `lagrangian` then needs another, in the price of I.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from separatrix.core.information import rates_violation, relative_entropy, selection_rates
from separatrix.core.numerics import Array, Index, Mask, bisect, padded

_TINY, _ONE = 1e-300, 1.0 - 2.0**-53  # the open unit interval, in floats
_EDGE = 1e-12  # overall rates closer to 0 or 1 than this are not told from 0 and 1
_SAME = 1e-14  # curves closer than this are not told apart: a few roundings of numbers below one
_NEWTON_STEPS = 60  # at most
_FAR = 40.0  # log odds beyond which a share of U = 1 is none or all


@dataclass(frozen=True, eq=False)
class RocCurve:
    """The ROC curve of one group, from the strictest threshold to the most lenient.

    Args:
        rates: array (k, 2), P(U=1|Y=0) and P(U=1|Y=1) of the rule `score ≥ threshold`; from (0, 0)
            to (1, 1).
        thresholds: array (k,), first +inf, then the distinct scores downwards.
        hull: which rows of `rates` are vertices of the concave hull.
    """

    rates: Array
    thresholds: Array
    hull: Index


def roc_curve(score: Array, positive: Array, negative: Array) -> RocCurve:
    """ROC curve and concave hull of one group.

    Args:
        score: one score per row (or per atom of a law).
        positive, negative: the weight of the rows with Y=1 and with Y=0 at each score. A group that
            lacks one of the labels has no rate for it: that rate is free, and the region is the
                whole square.

    >>> positive, negative = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    >>> curve = roc_curve(np.array([3.0, 2.0, 1.0]), positive, negative)
    >>> curve.rates[curve.hull].tolist()
    [[0.0, 0.0], [0.0, 0.5], [1.0, 1.0]]
    """
    order = np.argsort(-score, kind="stable")
    s, pos, neg = score[order], positive[order], negative[order]
    last = np.flatnonzero(np.r_[s[1:] != s[:-1], True])  # last row of each distinct score
    cumulative = np.stack([np.cumsum(neg)[last], np.cumsum(pos)[last]], axis=1)
    total = cumulative[-1]
    weighted = np.diff(cumulative.sum(1), prepend=0.0) > 0
    thresholds, cumulative = s[last][weighted], cumulative[weighted]
    if total.min() <= 0:
        square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        return RocCurve(square, np.array([np.inf, np.inf, -np.inf]), np.arange(3))
    step = np.diff(cumulative, axis=0, prepend=np.zeros((1, 2)))
    weight = step.sum(1)
    blocks = isotonic_regression(step[:, 1] / weight, weights=weight, increasing=False).blocks
    rates = np.concatenate([np.zeros((1, 2)), cumulative / total])
    rates[-1] = 1.0
    return RocCurve(rates, np.r_[np.inf, thresholds], np.asarray(blocks, dtype=np.intp))


class Regions:
    """The ROC regions of all groups, padded to one array so that many points of the frontier are
    computed at once.
    """

    def __init__(self, chains: Sequence[Array], mass: Array) -> None:
        """
        Args:
            chains: one array (k, 2) per group, the vertices of the concave hull of its ROC curve
                from (0,0) to (1,1).
            mass: array (groups, 2), P(Y=y, Z=z), summing to one; both labels occur.
        """
        self.chains = [np.asarray(chain, dtype=np.float64) for chain in chains]
        self.mass = np.asarray(mass, dtype=np.float64) / np.sum(mass)
        self.prior = self.mass.sum(0)
        self.share = self.mass / self.prior  # P(z | y)
        self.weight = self.mass  # of what the violation sees
        self._vertex = vertex = padded(self.chains, 1.0)
        self._edge = np.diff(vertex, axis=1)
        with np.errstate(divide="ignore"):
            logits = np.log(vertex) - np.log1p(-vertex)
        # slope of the objective at the far end of each edge is pull·ξ − offset; 0 · ∞ = 0 on the
        # sides of the square
        self._pull = pull = self.mass[:, None] * self._edge
        self._offset = np.multiply(pull, logits[:, 1:], out=np.zeros_like(pull), where=pull > 0).sum(-1)
        self._offset[(self._edge == 0).all(-1)] = np.inf  # padding is never on the rising side

    @cached_property
    def equal(self) -> Array:
        """Rates (n, groups, 2) that use nothing of the budget: the same in every group.

        Those of the corners of the intersection of the regions. The objectives are convex in the
        rates, so that the best of these is the best of all.
        """
        corners = lower_curve(self.chains)
        return np.broadcast_to(corners[:, None], (len(corners), *self.mass.shape))

    def maximise(self, kappa: Array, mean: Array) -> Array:
        r"""The rates (n, groups, 2) that maximise J for given prices κ (n, groups, 2) of the rates.

        φ(m) = max_x Σ a (κx − KL(x ‖ m)) is concave in m, its gradient p (x̄ − m)/(m(1−m))
        continuous: Newton's method with a backtracking line search, from m = `mean`, until x̄ = m
        to seven digits. The bound holds wherever it ends.
        """
        n = len(kappa)
        x = np.empty((n, *self.mass.shape))
        m = np.clip(mean, _EDGE, 1.0 - _EDGE)
        best, rise, length = np.full(n, -np.inf), np.zeros(n), np.ones(n)
        direction = np.zeros((n, 2))
        todo = np.arange(n)
        for _ in range(_NEWTON_STEPS):
            trial = np.clip(m[todo] + length[todo, None] * direction[todo], _EDGE, 1.0 - _EDGE)
            rates, slope = self.project(kappa[todo] + logit(trial)[:, None])
            away = relative_entropy(rates, trial[:, None]) + relative_entropy(1.0 - rates, 1.0 - trial[:, None])
            value = (self.mass * (kappa[todo] * rates - away)).sum((1, 2))
            residual = self.mean(rates) - trial
            good = value >= best[todo] + 1e-4 * length[todo] * rise[todo] - 1e-15
            length[todo[~good]] *= 0.3
            rows, r, t = todo[good], residual[good], trial[good]
            m[rows], x[rows], best[rows], length[rows] = t, rates[good], value[good], 1.0
            w = 1.0 / (t * (1.0 - t))
            gradient = self.prior * r * w
            hessian = (self.prior * w)[:, :, None] * slope[good] * w[:, None, :]
            hessian[:, [0, 1], [0, 1]] -= self.prior * w * (1.0 + r * (1.0 - 2.0 * t) * w)
            step = _ascent(hessian, gradient)
            # the rate is 0 or 1
            outward = ((t <= 2 * _EDGE) & (r < 0)) | ((t >= 1.0 - 2 * _EDGE) & (r > 0))
            step[outward] = 0.0
            near = np.where(step > 0, 1.0 - t, t)
            # a rate on its way to 0 or 1 gets there fast
            room = near * np.where(near < 1e-3, 0.999, 0.9)
            shrink = np.minimum(1.0, (room / np.maximum(np.abs(step), _TINY)).min(1))
            direction[rows] = step * shrink[:, None]
            rise[rows] = (gradient * direction[rows]).sum(1)
            finished = good.copy()
            finished[good] = (outward | (np.abs(r) < 1e-7 * np.minimum(t, 1.0 - t))).all(1)
            todo = todo[~finished & (length[todo] > 1e-9)]
            if not len(todo):
                break
        return x

    def project(self, xi: Array) -> tuple[Array, Array]:
        """x_z(ξ_z) for ξ (n, groups, 2), and the derivative of x̄ with respect to a shift of all
        ξ_z, array (n, 2, 2).
        """
        x = np.clip(expit(xi), _TINY, _ONE)
        slope = np.zeros((*x.shape, 2))
        slope[..., [0, 1], [0, 1]] = x * (1.0 - x)
        row, z = np.nonzero(x[..., 1] > self.height(x[..., 0]))
        x[row, z], slope[row, z] = self._on_chain(xi[row, z], z)
        return x, np.einsum("nzij,zi->nij", slope, self.share)

    def height(self, s: Array) -> Array:
        """The largest true-positive rates at the false-positive rates s, arrays (n, groups)."""
        return np.stack([np.interp(s[:, z], *chain.T) for z, chain in enumerate(self.chains)], axis=-1)

    def seen(self, x: Array) -> Array:
        """What the violation sees of the rates x (..., groups, 2): all of them."""
        return x

    def violation(self, x: Array) -> Array:
        """What the rates x (..., groups, 2) use of the budget, in nats."""
        return rates_violation(self.seen(x), self.weight)

    def mean(self, x: Array) -> Array:
        """The mean over the groups of what the violation sees, array (n, 2) or (n, 1)."""
        return np.einsum("nzy,zy->ny", self.seen(x), self.weight / self.weight.sum(0))

    def overall(self, x: Array) -> Array:
        """P(U=1 | y) of the rates x (..., groups, 2): array (..., 2)."""
        return np.asarray((x * self.share).sum(-2))

    def bound(self, kappa: Array, x: Array) -> Array:
        r"""Upper bounds (n,) on J(x') = Σ a κ x' − v(x') over all x', tight where x maximises J.

        J is concave, so J(x') ≤ J(x) + max ∇J(x)·(x' − x): the maximum of a linear function over
        the polygons. That makes the bound valid to rounding for *any* κ and x in the open unit
        cube, however roughly x was computed.
        """
        x = np.clip(x, _TINY, _ONE)
        mean, seen = np.clip(self.mean(x), _TINY, _ONE), np.clip(self.seen(x), _TINY, _ONE)
        gradient = self.mass * (kappa + logit(mean)[:, None] - logit(seen))
        gap = (self.linear_max(gradient) - np.einsum("nzy,nzy->nz", gradient, x)).sum(-1)
        value = (self.mass * kappa * x).sum((1, 2)) - self.violation(x)
        return np.asarray(value + np.maximum(gap, 0.0))

    def linear_max(self, direction: Array) -> Array:
        """max over R_z of direction·x; the chain's mirror image is the lower side of the region."""
        best = np.empty(direction.shape[:2])
        for z, chain in enumerate(self.chains):
            value = direction[:, z] @ chain.T
            best[:, z] = np.maximum(value.max(1), (direction[:, z].sum(1)[:, None] - value).max(1))
        return best

    def _on_chain(self, xi: Array, z: Index) -> tuple[Array, Array]:
        """The maximiser on the upper chain, for targets above it: bisection for the edge, Newton's
        method on the edge.

        Returns:
            x (n, 2) and its derivative with respect to ξ (n, 2, 2), zero at a vertex.
        """
        low = np.zeros(len(z), dtype=np.intp)
        high = np.full(len(z), self._edge.shape[1] - 1, dtype=np.intp)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            pull = self._pull[z, middle]
            rising = pull[:, 0] * xi[:, 0] + pull[:, 1] * xi[:, 1] > self._offset[z, middle]
            low = np.where(open_ & rising, middle + 1, low)
            high = np.where(open_ & ~rising, middle, high)
        start, edge, pull = self._vertex[z, low], self._edge[z, low], self._pull[z, low]
        position = _root_on_edge(start, edge, pull, xi)
        x = start + position[:, None] * edge
        open_x = np.clip(x, _TINY, _ONE)
        curvature = np.maximum((pull * edge / (open_x * (1.0 - open_x))).sum(1), _TINY)
        free = (position > 1e-9) & (position < 1.0 - 1e-9)
        return x, (free / curvature)[:, None, None] * edge[:, :, None] * pull[:, None, :]


def _root_on_edge(start: Array, edge: Array, pull: Array, xi: Array) -> Array:
    """Where the slope Σ pull (ξ − logit(start + λ edge)), decreasing in λ, vanishes: Newton's
    method in a bracket.

    0 or 1 where it does not vanish between: most maximisers are vertices. Close to an end of the
    edge that is an end of the unit interval the slope is linear in the logarithm of the distance
    from there, and Newton's step is taken in that.
    """
    force, end = (pull * xi).sum(1), start + edge
    falls, rises = (force < (pull * logit(np.clip(x, _TINY, _ONE))).sum(1) for x in (start, end))
    result = np.where(falls, 0.0, 1.0)
    active = np.flatnonzero(~falls & rises)
    from_zero, to_one = ((pull > 0) & (start <= 0.0)).any(1), ((pull > 0) & (end >= 1.0)).any(1)
    low, high, position = np.zeros(len(active)), np.ones(len(active)), np.full(len(active), 0.5)
    fixed = [column[active] for column in (*start.T, *edge.T, *pull.T, force, from_zero, to_one)]
    for _ in range(70):
        s0, s1, e0, e1, p0, p1, f, starts_at_zero, ends_at_one = fixed
        x0, x1 = np.clip(s0 + position * e0, _TINY, _ONE), np.clip(s1 + position * e1, _TINY, _ONE)
        slope = f - p0 * logit(x0) - p1 * logit(x1)
        curvature = p0 * e0 / (x0 * (1.0 - x0)) + p1 * e1 / (x1 * (1.0 - x1))
        newton = slope / np.maximum(curvature, _TINY)
        rising = slope > 0
        low, high = np.where(rising, position, low), np.where(rising, high, position)
        step = position + newton
        near = starts_at_zero & (position < 0.5)
        step[near] = _scaled(position[near], newton[near])
        near = ends_at_one & (position > 0.5)
        step[near] = 1.0 - _scaled(1.0 - position[near], -newton[near])
        # at the root the step is none
        new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        # where x is close to 0 or 1 its ratio to the overall rate counts, hence the relative error
        sides = (np.minimum(x, 1.0 - x) / np.maximum(e, _TINY) for x, e in ((x0, e0), (x1, e1)))
        room = np.minimum(*sides)
        least = np.maximum(1e-10 * np.minimum(room, 1.0), 2.0**-52 * position)  # no float is closer
        moved = np.abs(new - position) > least
        result[active] = new
        if not moved.any():
            break
        if np.count_nonzero(moved) < 0.7 * len(moved):
            active, low, high, new = active[moved], low[moved], high[moved], new[moved]
            fixed = [column[moved] for column in fixed]
        position = new
    return result


def _scaled(distance: Array, step: Array) -> Array:
    """The step in the logarithm of the distance that is `step` to first order."""
    return distance * np.exp(np.clip(step / np.maximum(distance, _TINY), -600.0, 50.0))


def _ascent(hessian: Array, gradient: Array) -> Array:
    """Newton's step −H⁻¹g for 2 × 2 matrices, made negative definite where rounding or a kink
    spoils them.
    """
    a, b, d = hessian[:, 0, 0], 0.5 * (hessian[:, 0, 1] + hessian[:, 1, 0]), hessian[:, 1, 1]
    a, d = np.minimum(a, -1e-12), np.minimum(d, -1e-12)
    b = np.where(b * b < 0.999999 * a * d, b, 0.0)
    first, second = gradient.T
    return np.stack([b * second - d * first, b * first - a * second], 1) / (a * d - b * b)[:, None]


class ParityRegions(Regions):
    """The ROC regions of all groups; what counts is I(U;Z) instead of I(U;Z|Y)."""

    def __init__(self, chains: Sequence[Array], mass: Array) -> None:
        super().__init__(chains, mass)
        self._hulls = list(map(_Hull.from_chain, self.chains, self.mass))
        self.weight = self.mass.sum(1, keepdims=True)

    @cached_property
    def equal(self) -> Array:
        """Rates (n, groups, 2) of all common shares r at which some group's hull has a vertex.

        The best objective with I(U;Z) = 0 is among them: between two of them all rates are linear
        in r, and the objectives are convex.
        """
        shares = np.unique(np.concatenate([hull.share for hull in self._hulls]))
        return np.stack([hull.rates(shares) for hull in self._hulls], axis=1)

    def seen(self, x: Array) -> Array:
        """The shares of U = 1, (..., groups, 1)."""
        return selection_rates(x, self.mass)

    def maximise(self, kappa: Array, mean: Array) -> Array:
        """The rates (n, groups, 2) that maximise Σ a κ x − I(U;Z): bisection for logit r̄."""
        price = kappa * self.mass
        slopes = [hull.slopes(price[:, z]) for z, hull in enumerate(self._hulls)]

        def rises(log_odds: Array) -> Mask:
            return np.asarray(self.mean(self._best(slopes, log_odds))[:, 0] > expit(log_odds))

        low, high = bisect(rises, np.full(len(kappa), -_FAR), np.full(len(kappa), _FAR))
        return self._best(slopes, 0.5 * (low + high))

    def _best(self, slopes: list[Array], log_odds: Array) -> Array:
        """x for given logit m (n,): in each group the edge where the slope passes zero."""
        x, row = np.empty((len(log_odds), *self.mass.shape)), np.arange(len(log_odds))
        for z, (hull, slope) in enumerate(zip(self._hulls, slopes, strict=True)):
            edge = np.minimum((log_odds[:, None] + slope > hull.odds[1:]).sum(1), len(hull.odds) - 2)
            odds = np.clip(log_odds + slope[row, edge], hull.odds[edge], hull.odds[edge + 1])
            x[:, z] = hull.rates(expit(odds))
        return x


class _Hull(NamedTuple):
    """One group's hull by the share of U = 1: vertices (k, 2), shares and their log odds (k,)."""

    chain: Array
    share: Array
    odds: Array
    weight: float

    @classmethod
    def from_chain(cls, chain: Array, mass: Array) -> _Hull:
        """Without edges along which the share does not change; a group without rows is a line."""
        weight = float(mass.sum())
        if weight <= 0:
            chain, mass, weight = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.0, 1.0]), 1.0
        share = np.clip(chain @ mass / weight, 0.0, 1.0)
        wide = np.r_[True, np.diff(share) > 0]
        with np.errstate(divide="ignore"):
            return cls(chain[wide], share[wide], logit(share[wide]), weight)

    def slopes(self, price: Array) -> Array:
        """f of each edge (n, k − 1) for prices (n, 2) of the rates."""
        gain = price @ self.chain.T
        return np.asarray(np.diff(gain, axis=1) / (self.weight * np.diff(self.share)))

    def rates(self, share: Array) -> Array:
        """The rates (n, 2) at given shares of U = 1."""
        return points_of(self.chain, share, self.share)


def points_of(chain: Array, place: Array, places: Array) -> Array:
    """The points (n, 2) at a place (n,) of a chain whose vertices are at the rising `places`."""
    return np.stack([np.interp(place, places, column) for column in chain.T], axis=-1)


def lower_curve(chains: Sequence[Array]) -> Array:
    """T, the pointwise minimum of concave chains from (0, 0) to (1, 1), as the same kind of chain.

    Args:
        chains: arrays (k, 2), the vertices of each chain.

    Returns:
        Array (m + 1, 2) of vertices, with strictly falling slopes.

    Example:
        >>> a, b = [[0, 0], [0, 0.5], [1, 1]], [[0, 0], [0.5, 1], [1, 1]]
        >>> lower_curve([np.array(a, float), np.array(b, float)]).round(3).tolist()
        [[0.0, 0.0], [0.333, 0.667], [1.0, 1.0]]
    """
    # as functions on [0, 1]: a vertical start is its upper end
    lower = reduce(_lower_of_two, (chain[1:] if chain[1, 0] <= chain[0, 0] else chain for chain in chains))
    return _concave(np.concatenate([np.zeros((1, 2)), lower]))


def _lower_of_two(first: Array, second: Array) -> Array:
    x = np.union1d(first[:, 0], second[:, 0])
    apart = np.interp(x, *first.T) - np.interp(x, *second.T)
    sign = np.where(np.abs(apart) <= _SAME, 0.0, np.sign(apart))
    cross = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    share = apart[cross] / (apart[cross] - apart[cross + 1])
    crossing = x[cross] + share * (x[cross + 1] - x[cross])
    below = (a[a[:, 1] <= np.interp(a[:, 0], *b.T) + _SAME] for a, b in ((first, second), (second, first)))
    joined = np.concatenate([np.stack([crossing, np.interp(crossing, *first.T)], axis=1), *below])
    joined = joined[np.lexsort((joined[:, 1], joined[:, 0]))]
    return joined[np.r_[True, np.diff(joined[:, 0]) > 0]]


def _concave(points: Array) -> Array:
    """The points without those that are no corners; rounding must not leave a slope that rises."""
    step = np.diff(points, axis=0)
    length = step.sum(1)
    points = points[np.r_[True, length > 0]]
    step, length = step[length > 0], length[length > 0]
    blocks = isotonic_regression(step[:, 1] / length, weights=length, increasing=False).blocks
    corners: list[list[float]] = []
    for x, y in points[np.asarray(blocks, dtype=np.intp)].tolist():
        while len(corners) > 1:
            (x0, y0), (x1, y1) = corners[-2:]
            if (y1 - y0) * (x - x0) - (y - y0) * (x1 - x0) > _SAME * (x - x0 + y - y0):
                break
            corners.pop()
        corners.append([x, y])
    return np.array(corners)
