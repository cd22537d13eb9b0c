r"""The best score with k values that is separated: a dynamic programme over the corners of T.

A separated score with k values has a concave ROC curve of k edges below T. Its utility

.. math:: u = \sum_{i=1}^k f(Δ_i), \qquad f(a, b) = \sum_y w_y \log \frac{w_y}{p_y (w_0 + w_1)},
          \quad w = (p_0 a, p_1 b)

rises with the curve, so the best one has its corners on T. f is convex and homogeneous. So u is
convex in the place of a corner on an edge of T, and the corner may as well be at an end of that
edge. The best score therefore joins neighbouring values of the universal separated score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

__all__ = ["best_cuts"]

Array = NDArray[np.float64]


def best_cuts(vertices: Array, prior: Array, k: int) -> NDArray[np.intp]:
    """Which vertices of T to keep for the largest utility with k values.

    Args:
        vertices: array (m + 1, 2), the vertices of T from (0, 0) to (1, 1).
        prior: P(Y = 0), P(Y = 1).
        k: the number of values; at least m keeps all of them.

    Returns:
        Rising indices of the min(k, m) + 1 vertices kept, the first and the last among them.

    Example:
        >>> T = np.array([[0, 0], [0, 0.5], [0.01, 0.52], [0.5, 1], [1, 1]])
        >>> best_cuts(T, np.array([0.5, 0.5]), 3).tolist()
        [0, 1, 3, 4]
    """
    last = len(vertices) - 1
    if k >= last:
        return np.arange(last + 1)
    w = (vertices[None] - vertices[:, None]) * prior  # [i, j]: from vertex i to vertex j
    w = np.maximum(w, 0.0)
    gain = xlogy(w, w).sum(-1) - xlogy(w.sum(-1), w.sum(-1)) - w @ np.log(prior)
    gain[np.tril_indices(last + 1)] = -np.inf
    value, back = gain[0], []
    for _ in range(k - 1):
        through = value[:, None] + gain
        back.append(through.argmax(0))
        value = through.max(0)
    cuts = [last]
    for before in reversed(back):
        cuts.append(int(before[cuts[-1]]))
    return np.array([0, *cuts[::-1]], dtype=np.intp)
