"""Tables and AUROC of many policies at once, from posteriors (M, n, K), with numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError

__all__ = ["auroc", "hard", "tables"]

Array = NDArray[np.float64]


def tables(q: ArrayLike, y: ArrayLike, z: ArrayLike, n_labels: int, n_groups: int) -> Array:
    """Soft counts N[y, z, u] of every lane, (M, n_labels, n_groups, K).

    Args:
        q: posteriors (M, n, K).
        y, z: codes (n,).

    >>> tables([[[0.9, 0.1], [0.4, 0.6]]], [0, 1], [0, 0], 2, 1)[0, :, 0]
    array([[0.9, 0.1],
           [0.4, 0.6]])
    """
    posterior = np.asarray(q)
    m, _, k = posterior.shape
    cell = np.asarray(y, dtype=np.int64) * n_groups + np.asarray(z, dtype=np.int64)
    counts = [[np.bincount(cell, own, n_labels * n_groups) for own in lane.T] for lane in posterior]
    table = np.array(counts).reshape(m, k, n_labels, n_groups)
    return np.moveaxis(table, 1, 3)


def hard(q: ArrayLike) -> NDArray[np.float32]:
    """The deterministic policy argmax q as one-hot posteriors, for `tables`."""
    posterior = np.asarray(q)
    one = np.zeros_like(posterior, dtype=np.float32)
    np.put_along_axis(one, posterior.argmax(-1)[..., None], 1.0, -1)
    return one


def auroc(q: ArrayLike, y: ArrayLike) -> Array:
    r"""Exact area under the ROC curve of every lane, (M,): ties count one half.

    For two labels the score is the second label's posterior. For more it is the mean over labels of
    one against the rest ("macro"); a label in no row or in all rows takes no part. NaN for a lane
    with NaN.

    >>> auroc([[[0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]], [0, 1, 0])
    array([0.75])
    """
    from scipy.stats import rankdata  # importing it takes longer than a report

    posterior = np.asarray(q)
    labels = np.asarray(y)
    k = posterior.shape[2]
    areas = []
    for label in range(1 if k == 2 else 0, k):
        mine = labels == label
        a, b = int(mine.sum()), int((~mine).sum())
        if a and b:
            ranks = rankdata(posterior[:, :, label], axis=1)
            areas.append((ranks[:, mine].sum(1) - a * (a + 1) / 2) / (a * b))
    if not areas:
        raise InputError("The area under the ROC curve needs rows of at least two labels.")
    area = np.mean(areas, axis=0)
    area[np.isnan(posterior).any((1, 2))] = np.nan
    return np.asarray(area)
