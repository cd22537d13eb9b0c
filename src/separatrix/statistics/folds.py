r"""Upper bounds from the rows of all folds, each counted under a rule that did not see it.

Fold k's rule is fitted to the rows of the other folds. Given those, the rows of fold k are a fresh
sample, so its table N_k[y, z, u] speaks of v_k, the population's violation of rule k. The tables
are never added: the rule of every other fold was fitted to the rows of this one, its errors there
have the opposite sign, and they cancel in the sum. Laid side by side, with (k, y) in place of
the label, they are one table whose violation is the mean of the v_k weighted by rows, and whose
equalized-odds gap is the plain mean of the folds' gaps; the bounds for one table apply to it.

What ships is the same procedure on all rows. In the linear model of such procedures (a rule's rates
follow the training rows' rates) the folds show how much a fit moves, and not where the fit on all
rows has moved to: an exactly equal fit has 2 n v of a χ² law, independent of the folds' tables. So
the bound on v is never below the upper quantile of that law. docs/reference/guarantees.md has the
derivation and the simulated failure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from separatrix.core.counts import CountTable
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.gaps import eo_gap_bound
from separatrix.statistics.inference import null_quantile

__all__ = ["folds_eo_gap_bound", "folds_violation_bound", "side_by_side"]


def folds_violation_bound(tables: Sequence[CountTable], confidence: float = 0.95) -> float:
    """Large-sample upper bound on v of a procedure, from one table per fold.

    Args:
        tables: counts of each fold's rows under the rule that did not see them.
        confidence: the bound fails with probability about 1 − confidence at most.

    >>> from separatrix.columns.counting import count_labels
    >>> rows = np.random.default_rng(0).integers(0, 2, (5, 3, 4_000))    # truth: v = 0
    >>> folds = [count_labels(y, u, sensitive_features=z) for y, z, u in rows]
    >>> of_all = folds_violation_bound(folds)
    >>> of_all < violation_bound(folds[0], guarantee="large-sample")
    True
    """
    found = violation_bound(side_by_side(tables), confidence, guarantee="large-sample")
    return max(found, null_quantile(CountTable.merge(tables), confidence))


def folds_eo_gap_bound(tables: Sequence[CountTable], confidence: float = 0.95) -> float:
    """Large-sample upper bound on the equalized-odds gap of a procedure, as above."""
    return eo_gap_bound(side_by_side(tables), confidence, "large-sample")


def side_by_side(tables: Sequence[CountTable]) -> CountTable:
    r"""One table with the labels (k, y), so that :math:`v = \sum_k (n_k / n)\, v_k`.

    >>> a = CountTable(np.array([[[3.0, 1.0], [1.0, 3.0]]]), ("y",), (0, 1), (0, 1), rows=8)
    >>> side_by_side([a, a]).labels
    ((0, 'y'), (1, 'y'))
    """
    first = tables[0]
    labels = tuple((k, y) for k, table in enumerate(tables) for y in table.labels)
    counts = np.concatenate([table.counts for table in tables])
    moments = None
    if any(table.moments is not None for table in tables):
        moments = np.concatenate([table.second_moments for table in tables])
    rows = sum(table.rows for table in tables)
    return CountTable(counts, labels, first.groups, first.predictions, rows, moments)
