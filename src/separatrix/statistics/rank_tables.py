r"""Counts of conditional ranks: a lower bound on v = I(U; Z | Y) for numbers, and a test of v = 0.

With V̂ the rank of U among the rows of a block C of neighbouring outcomes, B a band of several
blocks, and any bins of V̂ and Z (docs/reference/continuous.md has the proofs),

.. math:: v \;\ge\; I(\hat V; Z \mid B) - \min\{I(\hat V; Y \mid C),\; I(Y; Z \mid C)\}.

The first term is read off one table N[b, z, k]. The other two say how far the blocks are from being
fine enough. The first of these contains no group, the second no prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import chdtrc

from separatrix.core.conditional_cmi import block_parts
from separatrix.core.counts import CountTable, diagonal
from separatrix.core.crosstab import crosstab
from separatrix.core.information import conditional_mutual_information
from separatrix.core.numerics import Array, Index, midpoints, rows_by_code
from separatrix.statistics import inference

_PARTS = 4  # stretches of a block: what changes inside a block is seen between them
_COARSE = 4  # bins of ranks that are compared between the stretches
_SMALL = 60  # rows below which a group does not make the bins coarser
_MOST_BINS = 24  # of a continuous attribute: the test inverts a matrix of (bins − 1)² rows


@dataclass(frozen=True)
class Resolution:
    """How finely the outcome, the attribute and the rank are told apart: bands, groups, ranks."""

    bands: int
    groups: int
    ranks: int


def resolution_of(rows: int, groups: Index | None = None) -> Resolution:
    """Bands and bins for so many rows: finer as they grow, coarser where a group is small.

    Args:
        rows: of all groups together.
        groups: rows of each group; None for a continuous attribute.

    >>> resolution_of(20_000, np.array([10_000, 10_000])), resolution_of(20_000)
    (Resolution(bands=16, groups=2, ranks=22), Resolution(bands=6, groups=13, ranks=13))
    """
    if groups is None:
        side = int(np.clip(round(rows**0.3 / 1.5), 2, _MOST_BINS))
        return Resolution(max(round(rows**0.25 / 2.0), 1), side, side)
    large = groups[groups >= max(_SMALL, rows / 400)]
    smallest = float(large.min() if large.size > 1 else np.sort(groups)[-2])
    # the n at which the smallest group would have ten rows in a cell: 10 · 0.42 n^0.683 = smallest
    n = min(float(rows), (smallest / 4.2) ** (1.0 / 0.683))
    return Resolution(max(round(0.6 * n ** (1 / 3)), 1), len(groups), max(round(0.7 * n**0.35), 2))


@dataclass(frozen=True, eq=False)
class RankTable:
    """Rows by block of the outcome, group and conditional rank, and what they say about v.

    Args:
        y: the outcome, or the code of its label.
        block: of each row, numbered in the order of y; neighbouring ones make a band.
        rank: V̂ of each row, in [0, 1), with the same law in every block.
        attribute: code of each row's group; or Ŵ, the conditional rank of a continuous attribute.
        shape: how many bands, groups (or bins of Ŵ) and bins of V̂ to count.
        weight: of each row; None for one each.
        lines: whether V̂ and Ŵ rank the residuals of a line in y inside each block.
    """

    y: Array
    block: Index
    rank: Array
    attribute: Index | Array
    shape: Resolution
    weight: Array | None = None
    lines: tuple[bool, bool] = (False, False)

    @cached_property
    def group(self) -> Index:
        """The code of each row's group, or of the bin of Ŵ."""
        return self._bins(self.attribute, self.shape.groups)

    @cached_property
    def band(self) -> Index:
        """Of each row: blocks are joined to bands with about as many rows each."""
        rows = np.bincount(self.block)
        place = np.minimum(midpoints(rows) / rows.sum() * self.shape.bands, self.shape.bands - 1).astype(np.intp)
        return np.unique(place, return_inverse=True)[1][self.block]

    @cached_property
    def counted(self) -> Index:
        """The group that each row counts for: one with few rows in a band joins the next larger.

        Joining groups is data processing, so the bound stays one.
        """
        rows = crosstab([self.band, self.group], [_levels(self.band), self.shape.groups])
        joined = np.tile(np.arange(self.shape.groups), (len(rows), 1))
        least = 1.2 * inference.MIN_FITTED * self.shape.ranks
        for sizes, to in zip(rows, joined, strict=True):
            order = sorted(np.flatnonzero(sizes).tolist(), key=sizes.__getitem__)
            for small, larger in zip(order, [*order[1:], order[-2:][0]], strict=True):
                if sizes[small] < least and small != larger:
                    sizes[larger] += sizes[small]
                    to[to == small] = larger
        return np.asarray(joined[self.band, self.group])

    @cached_property
    def table(self) -> CountTable:
        """N[b, z, k]: band, group, bin of the rank."""
        return self._count(self.band, self.counted, self.shape.groups, self._bins(self.rank, self.shape.ranks))

    def violation_lower(self, confidence: float = 0.95) -> float:
        r"""A number that v exceeds at `confidence`, for large samples; 0 where nothing is known.

        The one-sided lower limit of I(V̂; Z | B), less the smaller of the two estimated terms.
        """
        if not self.error.estimable:
            return 0.0
        excess = max(min(self.rank_dependence, self.outcome_dependence), 0.0)
        return max(self.error.lower_limit(confidence) - excess, 0.0)

    @cached_property
    def error(self) -> inference.Noise:
        """The sampling error of the table."""
        return inference.noise(self.table)

    @cached_property
    def outcome_dependence(self) -> float:
        r"""δ = I(Y; Z | C): what the outcome says about the group inside a block; bias-corrected.

        It needs no model and contains no prediction.
        """
        if self.attribute.dtype.kind == "f":
            return self._ranks_inside(self.attribute, self.lines[1])
        return self._inside(self.group, self.shape.groups, self._stretch)

    @cached_property
    def rank_dependence(self) -> float:
        r"""I(V̂; Y | C): how far the ranks are from being independent of y; bias-corrected."""
        return self._ranks_inside(self.rank, self.lines[0])

    def p_value(self) -> float:
        r"""Of v = 0, when Z is shuffled inside the stretches of the blocks (local permutation).

        In band b, T is the sum over the stretches s of the observed less the expected counts, and

        .. math:: \mathrm{Cov}(T) = \sum_s \frac{m_s^2}{m_s - 1}
                  (\mathrm{diag}\,p_s - p_s p_s^\top) \otimes (\mathrm{diag}\,q_s - q_s q_s^\top)

        is its covariance over all shuffles, p_s and q_s the shares of groups and of ranks. The sum
        over b of Tᵀ Cov⁻¹ T is χ² for large bands (the generalised Cochran–Mantel–Haenszel test).
        With weights, those of a group take the place of its rows.
        """
        _, first, stretch = np.unique(self.block * _PARTS + self._stretch, return_index=True, return_inverse=True)
        counts = self._count(stretch, self.counted, self.shape.groups, self._bins(self.rank, self.shape.ranks))
        bands = rows_by_code(self.band[first], _levels(self.band))
        forms = [_shuffled_form(counts.counts[of_band], counts.weight_squares[of_band]) for of_band in bands]
        statistic, freedom = map(sum, zip(*forms, strict=True))
        return float(chdtrc(freedom, statistic)) if freedom else 1.0

    @cached_property
    def _stretch(self) -> Index:
        return block_parts(self.y, self.block, _PARTS)

    @staticmethod
    def _bins(values: Index | Array, k: int) -> Index:
        """The bins of ranks; codes are their own."""
        return np.asarray(values * k if values.dtype.kind == "f" else values).astype(np.intp)

    def _ranks_inside(self, ranks: Index | Array, line: bool) -> float:
        """I(ranks; Y | C), from the ranks in a few bins in the stretches of the blocks."""
        dependence = self._inside(self._stretch, _PARTS, self._bins(ranks, _COARSE))
        # residuals are uncorrelated with y: a line took one degree of freedom from its block
        stretches = np.bincount(np.unique(self.block * _PARTS + self._stretch) // _PARTS)
        return dependence + (0.5 * float((stretches > 1).sum()) / len(self.y) if line else 0.0)

    def _inside(self, group: Index, groups: int, value: Index) -> float:
        table = self._count(self.block, group, groups, value)
        dependence = float(conditional_mutual_information(table.counts))
        dependence -= inference.noise(table).null_bias  # the term is near 0
        return dependence if abs(dependence) > 1e-15 else 0.0

    def _count(self, label: Index, group: Index, groups: int, value: Index) -> CountTable:
        shape, codes = (_levels(label), groups, _levels(value)), [label, group, value]
        moments = None if self.weight is None else diagonal(crosstab(codes, shape, self.weight**2))
        labels, names, values = (tuple(range(k)) for k in shape)
        return CountTable(crosstab(codes, shape, self.weight), labels, names, values, len(self.y), moments)


def _shuffled_form(counts: Array, squares: Array) -> tuple[float, int]:
    """Tᵀ Cov⁻¹ T of one band and its degrees of freedom, from tables (stretch, group, rank)."""
    seen = np.ix_(*(counts.sum(rest) > 0 for rest in ((1, 2), (0, 2), (0, 1))))
    counts, squares = counts[seen], squares[seen[0][..., 0], seen[1][..., 0]]
    total, square = counts.sum((1, 2)), squares.sum(1)
    p, q = counts.sum(2) / total[:, None], counts.sum(1) / total[:, None]
    apart = counts - total[:, None, None] * p[:, :, None] * q[:, None, :]
    t = apart.sum(0)[1:, 1:].ravel()
    if not t.size:
        return 0.0, 0
    cross = squares[:, :, None] * p[:, None, :]
    of_groups = squares[:, :, None] * np.eye(p.shape[1]) - cross - cross.transpose(0, 2, 1)
    of_groups += square[:, None, None] * p[:, :, None] * p[:, None, :]
    of_ranks = q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])
    # a stretch of one row cannot be shuffled
    alone = total**2 <= square * (1.0 + 1e-9)
    factor = np.where(alone, 0.0, total**2 / np.where(alone, 1.0, total**2 - square))
    z, k = p.shape[1] - 1, q.shape[1] - 1
    left = (factor[:, None, None] * of_groups[:, 1:, 1:]).reshape(-1, z * z)
    product = left.T @ of_ranks[:, 1:, 1:].reshape(-1, k * k)
    cov = product.reshape(z, z, k, k).transpose(0, 2, 1, 3).reshape(z * k, z * k)
    values, vectors = np.linalg.eigh(cov)
    full = values > 1e-9 * max(values[-1], 1e-300)  # the other directions do not vary
    return float(((vectors.T @ t)[full] ** 2 / values[full]).sum()), int(full.sum())


def _levels(codes: Index) -> int:
    return int(codes.max()) + 1
