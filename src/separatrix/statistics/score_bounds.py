r"""Finite-sample bounds that hold at every threshold of a score at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import check_confidence
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable

__all__ = ["gap_bound", "rate_radius"]

Array = NDArray[np.float64]
# ∫ min(1, 2 exp(−2x²)) dx: the most that √n sup|F̂ − F| is on average
_MEAN_DEVIATION = 0.8883


def gap_bound(table: ScoreTable, confidence: float = 0.95) -> float:
    r"""Upper bound on the largest gap over all thresholds; fails with probability at most
    1 − confidence.

    .. math:: \sup_t \frac12 \sum_y \max_{z \ne z'}
        \bigl(\hat R_{yz}(t) + ε_{yz}\bigr) - \bigl(\hat R_{yz'}(t) - ε_{yz'}\bigr)

    with rates clipped to [0, 1] and ε of `rate_radius`. Rows are independent given label and group;
    weights are taken as fixed. Cells without rows take no part. Where atoms are bins, thresholds
    inside a bin are covered too: the rates there lie between those at its ends.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 20_000))
    >>> t = ScoreTable.from_codes(rng.random(20_000), y, z, (0, 1), (0, 1))
    >>> 0.03 < gap_bound(t) < 0.08       # truth: 0
    True
    """
    check_confidence(confidence)
    mass, squares = table.totals
    rows = 0 if table.squares is None else table.rows
    radius = rate_radius(mass, squares, rows, confidence)
    return largest_gap(table, radius, inside=not table.exact)[0]


def rate_radius(mass: Array, squares: Array, rows: int, confidence: float) -> Array:
    r"""How far the empirical P(S > t | y, z) of any cell can be from the truth at any t.

    Rows of weight one: the Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant, the error
    δ = 1 − confidence shared over the m cells with rows,

    .. math:: ε_{yz} = \sqrt{\log(2 m / δ) / (2 N_{yz})}.

    Fixed weights, with the effective rows :math:`n = (\sum w)^2 / \sum w^2`:

    .. math:: ε_{yz} = \Bigl(c \sqrt{h} + \sqrt{\log(m/δ)/2}\Bigr) / \sqrt n, \qquad
        h = \tfrac54 + \tfrac14 \log(\text{rows}).

    The second term is McDiarmid's inequality, as one row moves the supremum by at most w/Σw. The
    first bounds its mean: sort the weights downwards and write the weighted sum as a mixture of
    plain ones of k rows (Abel), each at most :math:`c \sqrt k` on average; Cauchy–Schwarz leaves
    :math:`\sum_k (\sqrt k - \sqrt{k-1})^2 \le h`.

    Args:
        mass, squares: sums of the weights and of their squares, (y, z).
        rows: number of rows, where they have weights; 0 where all weigh one.

    References:
        P. Massart (1990), The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality.
    """
    error, seen = 1.0 - confidence, mass > 0
    n = np.where(seen, mass**2 / np.where(seen, squares, 1.0), 1.0)
    cells = int(seen.sum())
    if rows == 0:
        scaled = np.sqrt(np.log(2.0 * cells / error) / 2.0)
    else:
        h = 1.25 + 0.25 * np.log(rows)
        scaled = _MEAN_DEVIATION * np.sqrt(h) + np.sqrt(np.log(cells / error) / 2.0)
    return np.where(seen, np.minimum(scaled / np.sqrt(n), 1.0), 1.0)
