r"""What randomised thresholds of a score can do to each group: the ROC regions, and points on their frontier.

For a binary prediction U, (v, u) depends on a predictor only through its rates x[z] = (P(U=1|Y=0,z), P(U=1|Y=1,z)).
Thresholds of a score and their mixtures reach, in each group by itself, exactly the convex region R_z between the concave
hull of the group's ROC curve and its mirror image. So all that there is to know is one concave chain per group.

The optimal points have a closed form. Let a[z,y] = P(Y=y, Z=z) and, for ξ in R²,

.. math:: x_z(ξ) = \arg\max_{x \in R_z} \sum_y a_{zy} \bigl[h(x_y) + ξ_y x_y\bigr], \qquad
          κ_y = ξ_y - \operatorname{logit} \bar x_y(ξ), \quad \bar x_y = P(U{=}1 \mid y)

with h the binary entropy. Then x(ξ) maximises the concave function :math:`J(x) = \sum_y p_y κ_y \bar x_y - v(x)` over all
x in ∏ R_z, because :math:`v(x) = \min_m \sum a_{zy} KL(x_{zy} \| m_y)`, J is jointly concave in (x, m), and (x(ξ), x̄) is
optimal in each block. Hence every ξ yields a point of the frontier of the convex set {(x̄, w): w ≥ v} and the plane that
supports it there: two numbers describe the whole frontier for any number of groups, and no iteration over groups is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import entr, expit

__all__ = ["Regions", "RocCurve", "rates_utility", "rates_violation", "roc_curve"]

Array = NDArray[np.float64]
_TINY, _ONE = 1e-300, 1.0 - 2.0**-53  # the open unit interval, in floats


@dataclass(frozen=True, eq=False)
class RocCurve:
    """The ROC curve of one group, from the strictest threshold to the most lenient.

    Args:
        rates: array (k, 2), P(U=1|Y=0) and P(U=1|Y=1) of the rule `score ≥ threshold`; from (0, 0) to (1, 1).
        thresholds: array (k,), first +inf, then the distinct scores downwards.
        hull: which rows of `rates` are vertices of the concave hull.
    """

    rates: Array
    thresholds: Array
    hull: NDArray[np.intp]


def roc_curve(score: Array, positive: Array, negative: Array) -> RocCurve:
    """ROC curve and concave hull of one group.

    Args:
        score: one score per row (or per atom of a law).
        positive, negative: the weight of the rows with Y=1 and with Y=0 at each score. A group that lacks one of the
            labels has no rate for it: that rate is free, and the region is the whole square.

    >>> curve = roc_curve(np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))
    >>> curve.rates[curve.hull].tolist()
    [[0.0, 0.0], [0.0, 0.5], [1.0, 1.0]]
    """
    order = np.argsort(-score, kind="stable")
    s, pos, neg = score[order], positive[order], negative[order]
    last = np.flatnonzero(np.r_[s[1:] != s[:-1], True])  # last row of each distinct score
    cumulative = np.stack([np.cumsum(neg)[last], np.cumsum(pos)[last]], axis=1)
    total = cumulative[-1]
    kept = np.flatnonzero(np.diff(cumulative.sum(1), prepend=0.0) > 0)
    thresholds, cumulative = s[last][kept], cumulative[kept]
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
    """The ROC regions of all groups, padded to one array so that many points of the frontier are computed at once."""

    def __init__(self, chains: Sequence[Array], mass: Array) -> None:
        """
        Args:
            chains: one array (k, 2) per group, the vertices of the concave hull of its ROC curve from (0,0) to (1,1).
            mass: array (groups, 2), P(Y=y, Z=z), summing to one; both labels occur.
        """
        self.chains = [np.asarray(chain, dtype=np.float64) for chain in chains]
        self.mass = np.asarray(mass, dtype=np.float64) / np.sum(mass)
        self.prior = self.mass.sum(0)
        self.share = self.mass / self.prior  # P(z | y)
        longest = max(map(len, self.chains))
        vertex = np.ones((len(chains), longest, 2))
        for z, chain in enumerate(self.chains):
            vertex[z, : len(chain)] = chain
        self._vertex = vertex
        self._edge = np.diff(vertex, axis=1)
        with np.errstate(divide="ignore"):
            logits = np.log(vertex) - np.log1p(-vertex)
        pull = self.mass[:, None] * self._edge
        # slope of the objective at the far end of each edge is pull·ξ − offset; 0 · ∞ = 0 on the sides of the square
        self._pull = pull
        product = np.zeros_like(pull)
        np.multiply(pull, logits[:, 1:], out=product, where=pull > 0)
        self._offset = product.sum(-1)
        self._offset[(self._edge == 0).all(-1)] = np.inf  # padding is never on the rising side

    def project(self, xi: Array) -> Array:
        """x_z(ξ) for every row of ξ (n, 2) and every group: array (n, groups, 2)."""
        target = np.clip(expit(xi), _TINY, _ONE)[:, None, :]
        inside = target[..., 1] <= self.height(target[:, 0, 0])
        x = np.broadcast_to(target, (len(xi), *self.mass.shape)).copy()
        row, z = np.nonzero(~inside)
        x[row, z] = self._on_chain(xi[row], z)
        return x

    def height(self, s: Array) -> Array:
        """Largest true-positive rate of each group at false-positive rate s: array (n, groups)."""
        return np.stack([np.interp(s, chain[:, 0], chain[:, 1]) for chain in self.chains], axis=-1)

    def mean(self, x: Array) -> Array:
        """x̄_y = P(U=1 | y): array (n, 2)."""
        return np.einsum("nzy,zy->ny", x, self.share)

    def planes(self, xi: Array, x: Array) -> tuple[Array, Array]:
        r"""Half-spaces n·x̄ − w ≤ c that hold for every predictor's (x̄, v), tight at x = x(ξ).

        J is concave, so J(x') ≤ J(x) + max ∇J(x)·(x' − x): the maximum of a linear function over the polygons. That makes
        the half-space valid to rounding for *any* x, however roughly x(ξ) was computed.

        Returns:
            normals (n, 2) and offsets (n,).
        """
        mean = np.clip(self.mean(x), _TINY, _ONE)
        kappa = xi - _logit(mean)
        gradient = self.mass * (xi[:, None, :] - _logit(np.clip(x, _TINY, _ONE)))
        gap = (self._linear_max(gradient) - np.einsum("nzy,nzy->nz", gradient, x)).sum(-1)
        normals = self.prior * kappa
        return normals, np.einsum("ny,ny->n", normals, mean) - rates_violation(x, self.mass) + np.maximum(gap, 0.0)

    def _linear_max(self, direction: Array) -> Array:
        """max over R_z of direction·x for any direction: the chain's mirror image is the lower side of the region."""
        best = np.full(direction.shape[:2], -np.inf)
        for z, chain in enumerate(self.chains):
            value = direction[:, z] @ chain.T
            best[:, z] = np.maximum(value.max(1), (direction[:, z].sum(1)[:, None] - value).max(1))
        return best

    def _on_chain(self, xi: Array, z: NDArray[np.intp]) -> Array:
        """The maximiser on the upper chain, for targets above it: bisection for the edge, Newton's method on the edge."""
        low, high = np.zeros(len(z), dtype=np.intp), np.full(len(z), self._edge.shape[1] - 1, dtype=np.intp)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            pull = self._pull[z, middle]
            rising = pull[:, 0] * xi[:, 0] + pull[:, 1] * xi[:, 1] > self._offset[z, middle]
            low = np.where(open_ & rising, middle + 1, low)
            high = np.where(open_ & ~rising, middle, high)
        start, edge, pull = self._vertex[z, low], self._edge[z, low], self._pull[z, low]
        position = _root_on_edge(start, edge, pull, xi)
        return start + position[:, None] * edge


def _root_on_edge(start: Array, edge: Array, pull: Array, xi: Array) -> Array:
    """Where the slope Σ pull (ξ − logit(start + λ edge)), decreasing in λ, vanishes: Newton's method in a bracket."""
    result, active = np.full(len(start), 0.5), np.arange(len(start))
    low, high, position = np.zeros(len(start)), np.ones(len(start)), np.full(len(start), 0.5)
    fixed = [start[:, 0], start[:, 1], edge[:, 0], edge[:, 1], pull[:, 0], pull[:, 1], (pull * xi).sum(1)]
    for _ in range(70):
        s0, s1, e0, e1, p0, p1, force = fixed
        x0, x1 = np.clip(s0 + position * e0, _TINY, _ONE), np.clip(s1 + position * e1, _TINY, _ONE)
        slope = force - p0 * _logit(x0) - p1 * _logit(x1)
        curvature = p0 * e0 / (x0 * (1.0 - x0)) + p1 * e1 / (x1 * (1.0 - x1))
        rising = slope > 0
        low, high = np.where(rising, position, low), np.where(rising, high, position)
        step = position + slope / np.maximum(curvature, _TINY)
        new = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        moved = np.abs(new - position) * (e0 + e1) > 1e-12  # an error of 1e-12 in x costs 1e-24 in J
        result[active] = new
        if not moved.any():
            break
        if np.count_nonzero(moved) < 0.7 * len(moved):
            active, low, high, new = active[moved], low[moved], high[moved], new[moved]
            fixed = [part[moved] for part in fixed]
        position = new
    return result


def rates_utility(mean: Array, prior: Array) -> Array:
    """u of the overall rates x̄ (..., 2): convex in x̄, rising in x̄₁ and falling in x̄₀ above the diagonal."""
    share = mean @ prior
    return np.maximum(_h(share) - _h(mean) @ prior, 0.0)


def rates_violation(x: Array, mass: Array) -> Array:
    """v of the rates x (..., groups, 2): convex in x."""
    mean = (x * mass).sum(-2, keepdims=True) / mass.sum(-2, keepdims=True)
    return np.maximum((mass * (_kl(x, mean) + _kl(1.0 - x, 1.0 - mean))).sum((-2, -1)), 0.0)


def _kl(x: Array, m: Array) -> Array:
    """x log(x/m) − x + m, with 0 log 0 = 0 and without cancellation for x close to m."""
    ratio = np.divide(x - m, m, out=np.zeros_like(x), where=m > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(x > 0, x * np.log1p(ratio), 0.0)
    return value - x + m


def _h(x: Array) -> Array:
    return entr(x) + entr(1.0 - x)


def _logit(x: Array) -> Array:
    return np.log(x) - np.log1p(-x)
