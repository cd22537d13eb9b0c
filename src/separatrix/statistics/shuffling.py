r"""What groups that mean nothing would show: the groups shuffled within the labels.

Shuffling keeps the label's groups and the label's predictions and breaks every link between them,
so what a table of counts N[y, z, u] still shows afterwards is its noise floor, and a v̂ that hardly
any shuffle reaches is a real one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information
from separatrix.core.numerics import Array
from separatrix.statistics import inference

_CELLS, _DRAWS = 2_000_000, 200  # numbers drawn at most, and tables, for the floor of v
_EXACT_ROWS = 1_000_000  # Patefield's algorithm keeps a table of log-factorials of this length


def shuffled_tables(counts: Array, draws: int, random_state: int = 0, effective: Array | None = None) -> Array:
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
        if len(z) < 2 or len(u) < 2:  # nothing to shuffle
            out[:, y] = table
        elif effective is None and table.sum() <= _EXACT_ROWS:
            margins = groups[z].astype(np.int64), of_label[u].astype(np.int64)
            drawn = random_table(*margins).rvs(draws, method="patefield", random_state=rng)
            out[:, y, z[:, None], u] = drawn
        else:
            rates = of_label[u] / of_label.sum()
            size = groups if effective is None else np.maximum(np.round(effective[y]), 1.0)
            for group in z:
                drawn = rng.multinomial(int(size[group]), rates, size=draws)
                out[:, y, group, u] = drawn * (groups[group] / size[group])
    return out


def p_value(table: CountTable, random_state: int = 0, noise: inference.Noise | None = None) -> float:
    """Probability under v = 0 of a v̂ at least this large.

    Hard labels of weight one: Monte Carlo over shuffled tables, so exact up to the number of draws
    and never below 1/(draws + 1). Posteriors, weights, and labels with over a million rows: the
    quadratic form's asymptotic law.

    Args:
        noise: that of the table, where the caller has it already.
    """
    counts = table.counts
    if table.moments is not None or counts.sum((1, 2)).max() > _EXACT_ROWS:
        noise = noise or inference.noise(table)
        if noise.varies:
            return noise.tails(0.0)[0]
        # constant posteriors in well-filled cells: a difference above rounding is real
        well_filled = noise.fitted >= inference.MIN_FITTED
        return 1e-300 if well_filled and noise.violation > inference.rounding(table) else 1.0
    draws = int(np.clip(2_000_000 // counts.size, 199, 9_999))  # seconds for large tables
    shuffled = shuffled_tables(counts, draws, random_state)
    # the other terms of n·v depend on the margins only
    statistic, observed = xlogy(shuffled, shuffled).sum((1, 2, 3)), xlogy(counts, counts).sum()
    at_least = (statistic >= observed - 1e-9 * max(abs(observed), 1.0)).sum()
    return float((1 + at_least) / (1 + draws))


def violation_floor(table: CountTable, random_state: int = 0) -> float:
    r"""The v that groups shuffled within labels would show on average: a smaller one is noise.

    Hard labels of weight one are shuffled. For posteriors and weighted rows the table does not hold
    the rows: the mean of v of first order,
    :math:`\frac12 \sum_{y,z} P(y,z) \frac{1 - P(z|y)}{n_{yz}} \sum_u Var(q_u|y) / P(u|y)`.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 5, (3, 2_000))
    >>> 0.01 < violation_floor(count_labels(y, u, sensitive_features=z)) < 0.03
    True
    """
    counts = table.counts
    if table.moments is None:
        draws = int(np.clip(_CELLS // counts.size, 20, _DRAWS))
        drawn = shuffled_tables(counts, draws, random_state)
        return float(conditional_mutual_information(drawn).mean())
    mass, squares = counts.sum(2), table.weight_squares
    label = np.maximum(mass.sum(1, keepdims=True), 1e-300)
    rates = counts.sum(1) / label
    second = np.diagonal(table.moments, axis1=-2, axis2=-1).sum(1)
    second /= np.maximum(squares.sum(1), 1e-300)[:, None]
    spread = np.where(rates > 0, (second - rates**2) / np.where(rates > 0, rates, 1.0), 0.0)
    each = squares / np.maximum(mass, 1e-300) * (1.0 - mass / label)  # n P(y,z) (1 − P(z|y)) / n_yz
    return float(0.5 * (each * spread.clip(0.0).sum(1, keepdims=True)).sum() / mass.sum())
