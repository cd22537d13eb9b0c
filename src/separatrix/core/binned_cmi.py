r"""The violation of a score in closed form: I(U; Z | Y) of U = the soft bin of the score.

A draw from the posterior can be separated while its score is not, because a draw sees only the mean
of the score in each cell (y, z). A soft bin sees where the score is. For centres
:math:`c_0 < \dots < c_{K-1}` a score s between :math:`c_k` and :math:`c_{k+1}` takes one of
these two values, the nearer one with the larger probability (hat functions, each as wide as the
spacing of the centres):

.. math:: P(U = k+1 \mid s) = a = \frac{s - c_k}{c_{k+1} - c_k}, \qquad P(U = k \mid s) = 1 - a,

and a score beyond the outer centres takes the outer value. With soft counts N[y, z, k] and
g = ∂(n v)/∂N (`information.violation_gradient`),

.. math:: v = \frac1n \sum_{yzk} N_{yzk}\, g_{yzk}, \qquad
          \frac{\partial v}{\partial s_i} = \frac{w_i}{n}
          \frac{g[y_i, z_i, k_i + 1] - g[y_i, z_i, k_i]}{c_{k_i + 1} - c_{k_i}}

for fixed centres. What this guarantees:

- U is a random function of s alone, so v is at most I(S; Z | Y) (data processing);
- centres added to others give a v that is not smaller: a hat is a mixture of the narrower hats;
- two centres 0 and 1 and s = P(Y = 1 | x): U is the draw from the posterior, v the paper's;
- scores on the centres: U is the score, v its plug-in violation by counting;
- an increasing map of the score moves rows within their bins only; one that is linear between the
  centres changes nothing.

A step costs O(n) whatever K is. Numbers only; no sampling error in here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]

# an empty cell counts as this share of all rows inside a logarithm: its own slope is infinite
EMPTY = 1e-6
_DUST = 1e-9  # a smaller share of all rows is rounding


class Value(NamedTuple):
    """v in nats, and its derivative row by row: ∂v/∂s (n,), or ∂v/∂logits (n, K)."""

    value: float
    gradient: Array


class SoftBins(NamedTuple):
    """The law of U for each score: `low` with probability 1 − share, `low + 1` with `share`.

    >>> bins = SoftBins.from_scores(np.array([0.0, 0.25, 3.0]), np.array([0.0, 1.0, 2.0]))
    >>> bins.low.tolist(), bins.share.tolist()
    ([0, 0, 1], [0.0, 0.25, 1.0])
    """

    low: Codes
    share: Array

    @staticmethod
    def from_scores(score: Array, c: Array) -> SoftBins:
        """Soft bins of scores, for at least two rising centres c."""
        low = bins_below(score, c).astype(np.intp)
        share = (score - c.take(low)) / np.diff(c).take(low)
        return SoftBins(low, np.clip(share, 0.0, 1.0, out=share))


def bins_below(score: Array, c: Array) -> Codes:
    """k of each score: that of the last centre but the outermost that is not above it.

    >>> bins_below(np.array([-1.0, 0.25, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])).tolist()
    [0, 0, 1, 1]
    """
    inner = c[1:-1]
    low: Codes = np.zeros(len(score), dtype=np.int8 if len(inner) < 128 else np.intp)
    for centre in inner:  # for a few dozen centres faster than a binary search
        np.add(low, (score >= centre).view(np.int8), out=low)
    return low


def bins_for(rows: float, cells: int) -> int:
    """How many centres: at most 16, and 8 rows or more in a bin of an average cell (y, z).

    Eight and sixteen bins reach the same AUROC at the same violation on simulated rows; 32 reach
    less where the violation is small. Fewer than 8 rows in a bin are mostly noise.

    >>> bins_for(5_120, 4), bins_for(512, 18), bins_for(20, 4)
    (16, 3, 2)
    """
    return int(min(max(rows // (8 * cells), 2), 16))


def centres(score: Array, bins: int, weight: Array | None = None) -> Array:
    """Quantiles 0, 1/(bins−1), …, 1 of the score, without repetitions: rising, at most `bins`.

    A quantile is the least score that has at least this share of the rows at or below it, so rows
    of weight two are the same as rows that occur twice.

    >>> centres(np.arange(101.0), 5)
    array([  0.,  25.,  50.,  75., 100.])
    >>> centres(np.array([1.0, 1.0, 1.0, 4.0]), 5)
    array([1., 4.])
    """
    share = np.linspace(0.0, 1.0, bins)
    if weight is None:
        place = np.maximum(np.ceil(share * len(score) - 1e-9).astype(np.intp) - 1, 0)
        return _without_repeats(np.sort(score)[place])
    order = np.argsort(score, kind="stable")
    total = np.cumsum(weight[order])
    place = np.searchsorted(total, share * total[-1] * (1.0 - 1e-12))
    return _without_repeats(score[order[np.minimum(place, len(score) - 1)]])


def _without_repeats(rising: Array) -> Array:
    return rising[np.append(True, rising[1:] != rising[:-1])]


def spread_out(c: Array, share: float = 0.25) -> NDArray[np.intp]:
    """Which centres to keep: none closer to the next than `share` of their mean distance.

    Quantiles of few atoms can almost coincide; a slope between them would be that of noise. The
    mean distance is that of the inner centres, which outliers do not move. Both ends stay.

    >>> spread_out(np.array([0.0, 1.0, 1.01, 2.0, 3.0, 90.0]))
    array([0, 1, 3, 4, 5])
    """
    least = share * (c[-2] - c[1]) / (len(c) - 3) if len(c) > 3 else 0.0
    chosen, place = [0], c.tolist()
    for i in range(1, len(c) - 1):
        if place[i] - place[chosen[-1]] >= least and place[-1] - place[i] >= least:
            chosen.append(i)
    return np.array([*chosen, len(c) - 1][: len(c)], dtype=np.intp)


def cmi_of_scores(score: Array, cell: Codes, shape: tuple[int, int], c: Array, weight: Array | None = None) -> Value:
    """v = I(U; Z | Y) of the soft bins of a score, and ∂v/∂s for fixed centres.

    Args:
        score: (n,), on any scale.
        cell: y · n_groups + z of each row, (n,).
        shape: (n_labels, n_groups).
        c: rising centres, see `centres`; fewer than two have v = 0.
        weight: (n,), not negative.

    >>> s, y, z = np.array([0.1, 0.9, 0.2, 0.6]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> v = cmi_of_scores(s, y * 2 + z, (2, 2), np.array([0.0, 1.0]))
    >>> round(v.value, 4), v.gradient.round(3).tolist()     # closer: 0.1 up, 0.9 down, 0.2 down …
    (0.0366, [-0.116, 0.275, 0.087, -0.173])
    """
    if len(c) < 2:
        return Value(0.0, np.zeros(len(score)))
    k, width = len(c), np.diff(c, append=np.inf)
    inside = c[0] <= score.min(initial=np.inf) and score.max(initial=-np.inf) <= c[-1]
    s = score if inside else np.clip(score, c[0], c[-1])
    bin_of_row, size = cell * k, shape[0] * shape[1] * k
    bin_of_row += bins_below(s, c)
    rows_in = np.bincount(bin_of_row, weight, size).reshape(*shape, k)
    # a is linear in s between two centres, so its sum over a bin needs only that of s
    sums = np.bincount(bin_of_row, s if weight is None else s * weight, size).reshape(*shape, k)
    upper = np.clip((sums - rows_in * c) / width, 0.0, rows_in)
    table = rows_in - upper
    table[..., 1:] += upper[..., :-1]
    n = float(len(score)) if weight is None else float(weight.sum())
    g = log_ratio(table)
    slope = np.diff(g, axis=2, append=0.0) / (n * width)
    rows = slope.ravel().take(bin_of_row)
    if not inside:
        rows[(score < c[0]) | (score > c[-1])] = 0.0
    if weight is not None:
        rows *= weight
    return Value(_mean(table, g), rows)


def cmi_of_draws(p: Array, cell: Codes, shape: tuple[int, int], weight: Array | None = None) -> Value:
    r"""v = I(U; Z | Y) of a draw from the posterior, the paper's, and its derivative at the logits.

    .. math:: \frac{\partial v}{\partial l_i}
              = \frac{w_i}{n}\, p_i \odot (g_i - \langle p_i, g_i \rangle)

    Args:
        p: softmax of the logits, (n, K); or for two labels the sigmoid of one logit, (n,).
        cell, shape, weight: as in `cmi_of_scores`.

    >>> p = np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2], [0.4, 0.6]])
    >>> v = cmi_of_draws(p, np.array([0, 2, 1, 3]), (2, 2))
    >>> round(v.value, 4), (v.gradient[:, 1] / p.prod(1)).round(3).tolist()
    (0.0366, [-0.116, 0.275, 0.087, -0.173])
    >>> alone = cmi_of_draws(p[:, 1], np.array([0, 2, 1, 3]), (2, 2))
    >>> np.allclose(alone.gradient, v.gradient[:, 1])
    True
    """
    cells, n = shape[0] * shape[1], float(len(p)) if weight is None else float(weight.sum())
    if p.ndim == 1:
        size, up = np.bincount(cell, weight, cells), p if weight is None else p * weight
        second = np.bincount(cell, up, cells)
        table = np.stack([np.maximum(size - second, 0.0), second], axis=1)
    else:
        columns = p.T if weight is None else p.T * weight
        table = np.stack([np.bincount(cell, column, cells) for column in columns], axis=1)
    g = log_ratio(table.reshape(*shape, -1)).reshape(table.shape)
    if p.ndim == 1:
        rows = ((g[:, 1] - g[:, 0]) / n).take(cell)
        rows *= p * (1.0 - p)
    else:
        of_row = (g / n)[cell]
        rows = p * (of_row - np.einsum("nk,nk->n", p, of_row)[:, None])
    if weight is not None:
        rows *= weight if p.ndim == 1 else weight[:, None]
    return Value(_mean(table, g), rows)


def log_ratio(table: Array) -> Array:
    """g of soft counts (y, z, u): log N_yzu − log N_y·u − log N_yz· + log N_y··, always finite.

    `information.violation_gradient` where N_yzu > 0. An empty cell has an infinite slope; it counts
    as a millionth of all rows here, so that rows are drawn towards it. Values u that no row of a
    label takes, but for rounding, have g = 0.
    """
    of_group, of_value = table.sum(2, keepdims=True), table.sum(1, keepdims=True)
    of_label, n = of_group.sum(1, keepdims=True), table.sum()
    seen = np.maximum(table, EMPTY * n) * of_label
    used = (of_value > _DUST * n) & (of_group > 0)
    return np.log(np.divide(seen, of_value * of_group, out=np.ones_like(table), where=used))


def _mean(table: Array, g: Array) -> float:
    """v = Σ N g / n, without the floor that `log_ratio` has under small cells."""
    n = float(table.sum())
    small = (table > 0) & (table < EMPTY * n)
    lower = float(table[small] @ np.log(table[small] / (EMPTY * n))) if small.any() else 0.0
    return (float((table * g).sum()) + lower) / n
