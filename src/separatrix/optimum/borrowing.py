r"""ROC curves of small groups that borrow from the pooled one, as strongly as the rows say.

The rates of a threshold in a cell (y, z) of n_{yz} rows are pulled towards those of all groups,

.. math:: \tilde r_{yz}(t) =
          \frac{n_{yz} \hat r_{yz}(t) + m_{yz} \bar r_y(t - δ_z)}{n_{yz} + m_{yz}},

which is the posterior mean if the groups' rates are Beta distributed around the pooled ones with m
pseudo-rows. Groups of other base rates have other scores even if they are separated: the pooled
curve is shifted by δ_z, the log odds of the group's base rate, so that odds ratios are compared.

m is estimated by moments. With Q_z the mean over the pooled deciles t of
:math:`n_{yz} (\hat r_{yz}(t) - \bar r_y(t))^2 / \bar r_y (1 - \bar r_y)`, G groups and N rows,

.. math:: ρ_y = \frac{\max(\sum_z Q_z - (G-1), 0) + 2 \sqrt{2 (G-1)}}{N - \sum_z n_{yz}^2 / N},
          \qquad \frac{1}{m_{yz} + 1} = \max\Bigl(ρ_y, \frac{Q_z - 1}{n_{yz}}\Bigr).

The last root is the standard error of ΣQ: groups are taken to differ more than they seem to, since
too much borrowing breaks a promise and too little only costs. The second term frees a group that is
unlike the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from separatrix.core.numerics import Array, Index, effective_rows, weighted_quantiles
from separatrix.optimum.roc.regions import RocCurve, roc_curve

_ATOMS = 200  # of the pooled curve
_MIDDLES = (np.arange(_ATOMS) + 0.5) / _ATOMS
_CAUTION = 2.0  # standard errors by which groups are taken to differ more than they seem to
_MANY_ROWS = 200_000  # from here on neighbouring scores of a group are joined
_BLOCKS = 4096  # of each group, at most: rates to a few parts in ten thousand
_CLIP = 1e-9  # scores closer to 0 or 1 than this have no log odds of their own


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores by group, falling; neighbours are joined where there are many rows.

    Whatever weighs the rows, such as a resample of them, is summed over this one table.

    Args:
        score, y, z: of each entry; joined rows have the least of their scores.
        entry: the entry of each row.
        weight: of each row.
    """

    score: Array
    y: Index
    z: Index
    entry: Index
    weight: Array

    @classmethod
    def from_rows(cls, scores: Array, y: Index, z: Index, weight: Array) -> ScoreTable:
        """One entry for each row; from 200,000 rows on, two (labels) for a block of neighbours."""
        if len(y) <= _MANY_ROWS:
            order = np.lexsort((-scores, z))
            entry = np.empty_like(order)
            entry[order] = np.arange(len(order))
            return cls(scores[order], y[order], z[order], entry, weight)
        entry, least, group, blocks = np.empty(len(y), dtype=np.intp), [], [], 0
        for g in np.unique(z):
            rows = np.flatnonzero(z == g)
            rows = rows[np.argsort(-scores[rows])]  # tied rows are of one block, in any order
            s = scores[rows]
            # blocks of equal size; rows of one score stay in one block
            starts = np.unique(np.searchsorted(-s, -s[:: -(-len(rows) // _BLOCKS)]))
            sizes = np.diff(starts, append=len(rows))
            entry[rows] = 2 * np.repeat(np.arange(blocks, blocks + len(starts)), sizes)
            least.append(s[starts + sizes - 1])
            group.append(np.full(len(starts), g))
            blocks += len(starts)
        entry += y
        score, of_group = (np.repeat(np.concatenate(values), 2) for values in (least, group))
        return cls(score, np.arange(2 * blocks) % 2, of_group, entry, weight)

    @cached_property
    def _alike(self) -> bool:
        return bool((self.weight == 1.0).all())

    def sums(self, repeats: Array | None = None) -> tuple[Array, Array]:
        """Σ w and Σ w² of each entry's rows.

        Args:
            repeats: how often each row occurs; None for once.
        """
        once = self.weight if repeats is None else repeats * self.weight
        weight = np.asarray(np.bincount(self.entry, once, len(self.score)), dtype=np.float64)
        if self._alike:  # w² = w
            return weight, weight
        return weight, np.asarray(np.bincount(self.entry, once * self.weight, len(self.score)), dtype=np.float64)


class GroupCurves(NamedTuple):
    """Curves of the groups and how well they are known.

    Args:
        curves: the ROC curve of each group.
        mass: P(Y=y, Z=z), array (groups, 2).
        rows: the effective number of rows of each cell (groups, 2): (Σw)² / Σw².
        borrowed: the pseudo-rows of each cell (groups, 2).
    """

    curves: tuple[RocCurve, ...]
    mass: Array
    rows: Array
    borrowed: Array


def group_curves_borrowing(
    table: ScoreTable, *, borrow: bool = True, sums: tuple[Array, Array] | None = None, borrowed: Array | None = None
) -> GroupCurves:
    """The ROC curve of every group, pulled towards the pooled one.

    Args:
        table: P(Y=1 | x) of rows that trained nothing.
        borrow: False for the curves of the rows as they are.
        sums: of the table's entries, of a resample of the rows; None for the rows themselves.
        borrowed: the pseudo-rows of each cell (groups, 2); None to estimate them from these rows.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 900), rng.choice(3, 900, p=[0.6, 0.35, 0.05])
    >>> s = 1 / (1 + np.exp(0.5 - y - rng.normal(size=900)))      # the groups are all alike
    >>> known = group_curves_borrowing(ScoreTable.from_rows(s, y, z, np.ones(900)))
    >>> bool((known.borrowed[2] > known.rows[2]).all())           # the smallest borrows most of it
    True
    """
    scores, y, z = table.score, table.y, table.z
    weight, squares = table.sums() if sums is None else sums
    groups = int(z.max()) + 1
    cell = 2 * z + y
    total, square = (np.bincount(cell, w, 2 * groups).reshape(groups, 2) for w in (weight, squares))
    rows = effective_rows(total, square)
    mass = total / total.sum()
    log_odds = logit(np.clip(scores, _CLIP, 1.0 - _CLIP))
    per_row = total.sum(1) / np.maximum(rows.sum(1), 1.0)  # weight of an effective row
    per_row[total.sum(1) <= 0] = 1.0  # a group without rows keeps its place
    shift = np.log((total[:, 1] + 0.5 * per_row) / (total[:, 0] + 0.5 * per_row))
    aligned = log_odds - shift[z]
    whole = np.asarray((rows > 0).all(1))  # a group that lacks a label has no curve to pull
    if borrowed is None:
        borrowed = np.zeros((groups, 2))
        for label in range(2 if borrow and whole.sum() > 1 else 0):
            members = (y == label) & whole[z]
            borrowed[:, label] = _pseudo_rows(aligned[members], z[members], weight[members], rows[:, label])
    borrowed = np.where(whole[:, None], borrowed, 0.0)
    atoms = [weighted_quantiles(aligned[y == k], weight[y == k], _MIDDLES) for k in range(2)]
    curves, ends = [], np.searchsorted(z, np.arange(groups + 1))
    for g in range(groups):
        members = slice(ends[g], ends[g + 1])
        s, parts = scores[members], [weight[members] * (y[members] == k) for k in range(2)]
        if borrowed[g].max() > 0:  # the atoms of the pooled curves, shifted to the group's base rate, join its rows
            s = np.concatenate([s, *(1.0 / (1.0 + np.exp(-(a + shift[g]))) for a in atoms)])
            each = borrowed[g] / rows[g] * total[g] / _ATOMS  # pseudo-rows weigh what rows do
            pseudo = np.repeat(each * np.eye(2), _ATOMS, axis=1)
            parts = [np.concatenate(pair) for pair in zip(parts, pseudo, strict=True)]
        curves.append(roc_curve(s, parts[1], parts[0]))
    return GroupCurves(tuple(curves), mass, rows, borrowed)


def _pseudo_rows(score: Array, z: Index, weight: Array, rows: Array) -> Array:
    """m of each group (groups,), from the rows of one label."""
    total = np.bincount(z, weight, len(rows))
    q, occurs = np.zeros(len(rows)), total > 0
    cuts = weighted_quantiles(score, weight, _MIDDLES)[_ATOMS // 10 - 1 :: _ATOMS // 10][:9]
    for t in cuts:
        above = score >= t
        pooled = float(weight[above].sum() / weight.sum())
        rate = np.bincount(z, weight * above, len(rows))[occurs] / total[occurs]
        q[occurs] += rows[occurs] * (rate - pooled) ** 2 / max(pooled * (1.0 - pooled), 1e-9) / len(cuts)
    n, free = rows[occurs].sum(), occurs.sum() - 1
    spare = n - (rows[occurs] ** 2).sum() / n
    rho = (max(q.sum() - free, 0.0) + _CAUTION * np.sqrt(2.0 * free)) / spare if free and spare > 0 else 1.0
    each = np.clip(np.maximum(rho, (q - 1.0) / np.maximum(rows, 1.0)), 1e-9, 1.0)
    return np.where(occurs, 1.0 / each - 1.0, 0.0)
