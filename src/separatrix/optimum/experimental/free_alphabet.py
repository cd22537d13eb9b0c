r"""How much a prediction with any values can say about two or three labels: a certified curve.

A value of a prediction is a posterior r(y, z) = P(y, z | U), and

.. math:: u - βv = E φ(r), \quad φ(r) = KL(r_Y \| P_Y) - β \sum r \log \frac{r(z|y)}{P(z|y)}.

Fix a codebook of laws c_j of the labels (`codebook`). For every j, φ(r) is
:math:`\langle g_j, r_Y \rangle + KL(r_Y \| c_j) - βv(r)` with the gains g_j(y) = log c_j(y)/P(y).
For the j nearest to r_Y the divergence is at most δ. So every prediction with v ≤ ε has

.. math:: u \le D_0(ν, β) + βε + δ

with D_0 of `dual` for these gains, whatever its values. Few of the c_j are used: the dual is
solved for those, and prices ν_j of the others are looked for one by one such that c_j is worth
using on no row. Where there are none, c_j joins the values and the dual is solved again.

*The codebook.* With r in the hull of the posteriors, :math:`δ = \max_r \min_j KL(r \| c_j)` is
exact: min_j KL(r‖c_j) + H(r) is a lower envelope of planes, and KL is convex in r on each cell, so
that the largest value is at a vertex. The codebook grows at these vertices. For three labels it has
about 1/δ laws; for more labels far too many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError
from scipy.special import logsumexp, xlogy

from separatrix.optimum.law import LabelLaw
from separatrix.optimum.multiclass.dual import DualPoint, DualState, LabelDual

__all__ = ["MOST_LABELS", "FreeAlphabet", "codebook"]

Array = NDArray[np.float64]
MOST_LABELS = 3
_FINE, _COARSE = 0.001, 0.03  # δ of the codebook, and of the first values, in nats
_CLOSE = 0.0008  # nats between value and bound, beside δ, at which the search may stop
_ROUNDS, _JOIN = 8, 12  # at most so many solutions, and laws that join between two of them
_ROWS = 150  # rows that prices of unused laws are fitted to; the bound is that of all rows
_COOLING, _STEPS = (0.03, 0.01, 0.003, 0.001), 10  # of the prices of unused laws
_USED = 1e-4  # share of the rows from which a law is used
_LEAST = 1e-6  # probability in a law of the codebook
_WIDER = 1e-7  # of the hull, so that posteriors on a line have an inside


class FreeAlphabet:
    """The best predictions with any values; `solve` answers one level.

    Args:
        law: of posteriors and groups, of at most three labels.

    >>> rng = np.random.default_rng(0)
    >>> law = LabelLaw(rng.dirichlet(np.ones(3), 6), np.arange(6) % 2, np.ones(6), 2)
    >>> best = FreeAlphabet(law).solve(0.01)
    >>> bool(0 < best.upper - best.value < 0.003)
    True
    """

    def __init__(self, law: LabelLaw) -> None:
        self.law = law
        p = np.concatenate([rows.T for rows, _, _ in law.rows]).astype(np.float64)
        self.laws, self.delta = codebook(p, _FINE)
        self.start = codebook(p, _COARSE)[0]

    def solve(self, level: float, start: DualState | None = None) -> DualPoint:
        """The best prediction found with v ≤ level, and the bound of all predictions.

        `start` is not used: each level finds its own values.
        """
        values, upper, best = self.start, np.inf, None
        for _ in range(_ROUNDS):
            dual = LabelDual(self.law, self._gains(values))
            point = dual.solve(level)
            if best is None or point.utility > best.utility:
                best = point
            if np.isinf(level):
                upper = point.upper + self.delta
                break
            prices, ratio, beta = dual.bound_prices(point)
            bound, excess = self._bound(prices, ratio, beta, values)
            upper = min(upper, bound + beta * level + self.delta)
            if upper - best.utility <= self.delta + _CLOSE or not (excess > 0).any():
                break
            worth = np.argsort(-excess)[:_JOIN]
            used = self.law.table(np.moveaxis(point.weight, -1, 0)).sum((0, 1)) > _USED
            values = np.vstack([values[used], self.laws[worth[excess[worth] > 0]]])
        assert best is not None
        return best._replace(value=best.utility, upper=max(upper, best.utility))

    def _gains(self, laws: Array) -> Array:
        return np.log(laws.T / np.maximum(self.law.prior, 1e-12)[:, None])

    def _bound(
        self, prices: Array, ratio: Array, beta: float, values: Array
    ) -> tuple[float, Array]:
        """D_0 with the whole codebook, and by how much each of its laws is worth using on a row."""
        gains = self._gains(self.laws).T
        nearest = (self.laws @ np.log(values).T).argmax(1)
        nu = beta * ratio[:, :, nearest].transpose(2, 0, 1)
        nu = self._unused(prices, nu, gains, beta)
        others = _prices(nu, gains, beta, self.law.share)[0]
        total, excess = 0.0, np.full(len(gains), -np.inf)
        for z, (p, _, w) in enumerate(self.law.rows):
            if len(w):
                own, s = (prices[:, z].T @ p).max(0), others[:, :, z] @ p
                total += float(w @ np.maximum(own, s.max(0)))
                excess = np.maximum(excess, (s - own).max(1))
        return total, excess - _CLOSE / 4

    def _unused(self, prices: Array, nu: Array, gains: Array, beta: float) -> Array:
        """ν (m, labels, groups) with the least max_i ⟨W_j, p_i⟩ − ψ(p_i): Newton, law by law."""
        p, code, psi = self._some(prices)
        (n, k), groups = p.shape, nu.shape[2]
        group = np.eye(groups)[code]
        best, kept = np.full(len(nu), np.inf), nu

        def above(nu: Array) -> tuple[Array, Array]:
            w, t = _prices(nu, gains, beta, self.law.share)
            return np.einsum("ny,myn->mn", p, w[:, :, code]) - psi, t

        for tau in _COOLING:
            for _ in range(_STEPS):
                x, t = above(nu)
                better = x.max(1) < best
                best, kept = np.where(better, x.max(1), best), np.where(_wide(better), nu, kept)
                value = tau * logsumexp(x / tau, axis=1)
                e = np.exp((x - value[:, None]) / tau)
                a = p[None, :, :, None] * (t[:, None] - group[None, :, None])
                a = a.reshape(len(nu), n, k * groups)
                slope = np.einsum("mn,mnd->md", e, a)
                curve = (e[..., None] * a).transpose(0, 2, 1) @ a
                curve = (curve - slope[:, :, None] * slope[:, None]) / tau
                spread = (t[..., None] * np.eye(groups) - t[..., None] * t[..., None, :]) / beta
                for y in range(k):
                    here = slice(y * groups, (y + 1) * groups)
                    curve[:, here, here] += spread[:, y] * (e @ p[:, y])[:, None, None]
                size = 1e-6 * (1.0 + np.trace(curve, axis1=1, axis2=2))
                curve += size[:, None, None] * np.eye(k * groups)
                step = -np.linalg.solve(curve, slope[..., None])[..., 0].reshape(nu.shape)
                length = np.ones(len(nu))
                for _ in range(6):
                    worse = tau * logsumexp(above(nu + _wide(length) * step)[0] / tau, axis=1)
                    worse = worse > value
                    length = np.where(worse, 0.3 * length, length)
                nu = nu + _wide(np.where(worse, 0.0, length)) * step
        return kept

    def _some(self, prices: Array) -> tuple[Array, NDArray[np.intp], Array]:
        """At most so many rows: posteriors, codes of the groups and ψ = max_u ⟨W_u, p⟩."""
        step = -(-sum(len(w) for _, _, w in self.law.rows) // _ROWS)
        rows = [(p[:, ::step].T.astype(np.float64), z) for z, (p, _, _) in enumerate(self.law.rows)]
        psi = [(p @ prices[:, z]).max(1, initial=-np.inf) for p, z in rows]
        code = np.concatenate([np.full(len(p), z, dtype=np.intp) for p, z in rows])
        return np.concatenate([p for p, _ in rows]), code, np.concatenate(psi)


def _prices(nu: Array, gains: Array, beta: float, share: Array) -> tuple[Array, Array]:
    """W (m, labels, groups) and t of each law."""
    level = logsumexp(nu / beta, axis=2, b=share, keepdims=True)
    return gains[..., None] - nu + beta * level, share * np.exp(nu / beta - level)


def _wide(values: Array) -> Array:
    return values[:, None, None]


def codebook(p: Array, wanted: float) -> tuple[Array, float]:
    """Laws (m, K) and their δ ≤ `wanted`, for two or three labels.

    >>> laws, delta = codebook(np.random.default_rng(0).dirichlet(np.ones(3), 50), 0.01)
    >>> bool(delta <= 0.01), len(laws) < 200
    (True, True)
    """
    edges, corners = _hull(p)
    laws = _inside(np.vstack([corners, corners.mean(0)]))
    while True:
        places, gaps = _vertices(laws, edges, corners.mean(0))
        delta = float(gaps.max())
        if delta <= wanted:
            return laws, delta
        fresh: list[Array] = []
        for place in _inside(places[np.argsort(-gaps)[: int((gaps > wanted).sum())]]):
            if all(float((xlogy(place, place / law)).sum()) > wanted / 2 for law in fresh):
                fresh.append(place)
        laws = np.vstack([laws, *fresh])


def _inside(laws: Array) -> Array:
    kept = np.maximum(laws, _LEAST)
    return np.asarray(kept / kept.sum(1, keepdims=True))


def _hull(p: Array) -> tuple[Array, Array]:
    """Half-spaces a·r + b ≤ 0 of the hull in the first K − 1 coordinates, and its corners."""
    points = p[:, :-1]
    if points.shape[1] == 1:
        corners = np.array([points.min(0), points.max(0)])
        edges = np.array([[-1.0, corners[0, 0]], [1.0, -corners[1, 0]]])
    else:
        try:
            hull = ConvexHull(points)
            edges, corners = hull.equations, points[hull.vertices]
        except QhullError:  # all on a line: the whole simplex holds them too
            corners = np.eye(p.shape[1])[:, :-1]
            edges = ConvexHull(corners).equations
    edges = edges - np.r_[np.zeros(points.shape[1]), _WIDER]
    return edges, np.column_stack([corners, 1.0 - corners.sum(1)])


def _vertices(laws: Array, edges: Array, inside: Array) -> tuple[Array, Array]:
    """Vertices of the envelope over the hull, laws (m, K), and min_j KL(r ‖ c_j) there."""
    log = np.log(laws)
    planes = np.column_stack([log[:, :-1] - log[:, -1:], -np.ones(len(log)), log[:, -1]])
    walls = np.column_stack([edges[:, :-1], np.zeros(len(edges)), edges[:, -1]])
    roof = np.r_[np.zeros(laws.shape[1] - 1), 1.0, -1.0]
    within = HalfspaceIntersection(np.vstack([planes, walls, roof]), np.r_[inside[:-1], 0.5])
    r = within.intersections[:, :-1]
    r = np.clip(np.column_stack([r, 1.0 - r.sum(1)]), 0.0, 1.0)
    return r, xlogy(r, r).sum(1) - (r @ log.T).max(1)
