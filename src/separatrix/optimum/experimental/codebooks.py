r"""Finite sets of laws such that every mixture of given posteriors is close to one of them.

.. math:: δ = \max_r \min_j KL(r \| c_j), \quad r \text{ in the hull of the posteriors}.

δ is exact: min_j KL(r‖c_j) + H(r) is a lower envelope of planes, and on each of its cells KL is
convex in r, so that the largest value is at a vertex. The codebook grows at these vertices. For
three labels it has about 1/δ laws; for more labels far too many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError
from scipy.special import xlogy

__all__ = ["codebook"]

Array = NDArray[np.float64]
_LEAST = 1e-6  # probability in a law of the codebook
_WIDER = 1e-7  # of the hull, so that posteriors on a line have an inside


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
