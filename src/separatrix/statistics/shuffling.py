r"""What groups that mean nothing would show: the groups shuffled within the labels.

Shuffling keeps the label's groups and the label's predictions and breaks every link between them,
so what a table of counts N[y, z, u] still shows afterwards is its noise floor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["shuffled_tables"]

Array = NDArray[np.float64]
_EXACT_ROWS = 1_000_000  # Patefield's algorithm keeps a table of log-factorials of this length


def shuffled_tables(
    counts: Array, draws: int, random_state: int = 0, effective: Array | None = None
) -> Array:
    r"""Tables of the same people with the groups shuffled within each label.

    Rows of weight one in labels of up to a million rows: drawn from all tables with the margins
    :math:`N_{yz\cdot}` and :math:`N_{y \cdot u}` (Patefield's algorithm), as shuffling draws them.
    Otherwise each cell (y, z) is a multinomial sample of the label's rates; its size is the cell's
    rows, or its effective rows :math:`(\sum w)^2 / \sum w^2` where rows have weights. The group
    differences then have the same variance.

    Args:
        counts: array (y, z, u).
        effective: (y, z), effective rows of weighted cells; None for rows of weight one.

    Returns:
        Array (draws, y, z, u); each cell (y, z) keeps its weight.

    >>> N = np.array([[[8.0, 2.0], [6.0, 4.0]]])
    >>> draws = shuffled_tables(N, 500)
    >>> draws.sum(2).min(0).tolist() == draws.sum(2).max(0).tolist() == [[14.0, 6.0]]
    True
    """
    from scipy.stats import random_table  # importing it takes longer than an audit

    rng = np.random.default_rng(random_state)
    out = np.zeros((draws, *counts.shape))
    for y, table in enumerate(counts):
        groups, of_label = table.sum(1), table.sum(0)
        z, u = np.flatnonzero(groups > 0), np.flatnonzero(of_label > 0)
        if not len(z):
            continue
        if effective is None and table.sum() <= _EXACT_ROWS and len(z) > 1 and len(u) > 1:
            margins = groups[z].astype(np.int64), of_label[u].astype(np.int64)
            drawn = random_table(*margins).rvs(draws, method="patefield", random_state=rng)
            out[:, y, z[:, None], u] = drawn
            continue
        rates = of_label[u] / of_label.sum()
        size = groups if effective is None else np.maximum(np.round(effective[y]), 1.0)
        for one in z:
            drawn = rng.multinomial(int(size[one]), rates, size=draws)
            out[:, y, one, u] = drawn * (groups[one] / size[one])
    return out
