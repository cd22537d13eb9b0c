r"""The violation of a batch with many labels: rows of K numbers, and only for the cells that occur.

A table of K predictions by K labels by Z groups has no place in memory for a vocabulary, and needs
none: a batch of B rows has at most B cells (y, z), and

.. math:: v = \frac1n \sum_y \sum_z \sum_u T_{yzu}\, g[y,z,u]

has no term of a label that occurs in one group only, as there g = log 1. What remains is a sum over
labels, taken for some labels at a time, so that tables stay in the cache. Values and derivatives
are those of `information` on the full table, to the rounding of the logits' type.

A row of the batch is a row of K numbers in memory, (B, K), as the head made it. For few labels
`information` puts the rows last, which is faster there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InputError

MANY = 100  # labels from which on rows of K are faster than rows last

_BLOCK = 1 << 18  # numbers of a block of rows: a megabyte in float32
_FORGOTTEN = 1e-3  # of a row: cells of less than this leave the running counts
_MOST = 1 << 29  # numbers of running counts: 4 GB


def posterior(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(logits) (B, K) and log p(y) (B,), of constant logits (B, K) and codes y (B,)."""
    p = torch.softmax(logits, 1)
    log_p = p.gather(1, y[:, None]).squeeze(1)
    lost = (log_p < 1e-30).nonzero().squeeze(1)  # p(y) is rounded or zero there, its log is not
    log_p.log_()
    if len(lost):
        log_p[lost] = torch.log_softmax(logits[lost], 1).gather(1, y[lost, None]).squeeze(1)
    return p, log_p


class Counts(NamedTuple):
    """Soft counts of the cells that occurred: codes, rising (C,), and the table (C, K), float64."""

    codes: Tensor
    table: Tensor

    @classmethod
    def from_rows(cls, p: Tensor, code: Tensor, weight: Tensor | None) -> Counts:
        """Counts of posteriors p (B, K) with cell codes (B,) and weights (B,)."""
        codes, cell = code.unique(return_inverse=True)
        rows = p.double() if weight is None else p.double() * weight[:, None]
        return cls(codes, p.new_zeros(len(codes), p.shape[1], dtype=torch.float64).index_add_(0, cell, rows))

    def at(self, codes: Tensor) -> Counts:
        """The same counts, with zeros for the codes that they lack."""
        table = self.table.new_zeros(len(codes), self.table.shape[1])
        return Counts(codes, table.index_copy_(0, torch.searchsorted(codes, self.codes), self.table))

    def after(self, history: Counts, decay: float) -> Counts:
        """These counts plus `decay` times the history; cells of next to no rows are dropped."""
        codes = torch.cat([self.codes, history.codes]).unique()
        if codes.numel() * self.table.shape[1] > _MOST:
            size = f"{len(codes):,} cells (label, group) by {self.table.shape[1]:,} predictions"
            raise InputError(f"Running counts of {size} have no place in memory. Pass `label_groups=` or running=0.")
        table = self.at(codes).table.add_(history.at(codes).table, alpha=decay)
        seen = table.sum(1) >= _FORGOTTEN
        return Counts(codes, table) if bool(seen.all()) else Counts(codes[seen], table[seen])


class Cells(NamedTuple):
    """The cells (y, z) that count: those of a label that occurs in two groups or more.

    Args:
        rows: the batch's rows in such cells, sorted by cell, (R,).
        cell: the cell of each of these rows, (R,).
        label: the label of each cell, (C,); cells and labels are numbered from 0 in rising order.
        place: where these cells are among all that occur, (C,).
        blocks: (row, cell, label) at which each block begins, and the ends of all as the last.
    """

    rows: Tensor
    cell: Tensor
    label: Tensor
    place: Tensor
    blocks: list[tuple[int, int, int]]

    @classmethod
    def from_codes(
        cls, code: Tensor, n_groups: int, width: int, weight: Tensor | None = None, codes: Tensor | None = None
    ) -> Cells:
        """Cells of rows with codes y · n_groups + z (B,).

        Args:
            width: K, which decides how many rows a block has.
            weight: (B,); a row of weight zero makes no cell.
            codes: cells that occur, rising, if not in this batch alone.
        """
        # In NumPy: two dozen small operations, whose cost is in the calls.
        given = code.cpu().numpy()
        row = np.arange(len(given)) if weight is None else np.flatnonzero(weight.cpu().numpy())
        row = row[np.argsort(given[row], kind="stable")]
        ordered = given[row]
        if codes is None:
            first = _changes(ordered)
            present, cell = ordered[first], np.cumsum(first) - 1
        else:
            present = codes.cpu().numpy()
            cell = np.searchsorted(present, ordered)
        label = np.cumsum(_changes(present // n_groups)) - 1
        several = np.bincount(label) > 1
        counted = several[label]
        mine = counted[cell]
        cell = (np.cumsum(counted) - 1)[cell[mine]]
        label = (np.cumsum(several) - 1)[label[counted]]
        blocks = _blocks(cell, label, max(_BLOCK // width, 1))
        columns = row[mine], cell, label, np.flatnonzero(counted)
        rows, cells, labels, place = (torch.from_numpy(column).to(code.device) for column in columns)
        return cls(rows, cells, labels, place, blocks)


def _changes(sorted_codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a value differs from the one before."""
    first = np.ones(len(sorted_codes), dtype=bool)
    np.not_equal(sorted_codes[1:], sorted_codes[:-1], out=first[1:])
    return first


def _blocks(cell: NDArray[np.int64], label: NDArray[np.int64], most: int) -> list[tuple[int, int, int]]:
    """Whole labels, together at most so many rows and cells, or one label."""
    cells = np.bincount(label).cumsum()
    rows = np.bincount(cell, minlength=len(label)).cumsum()
    blocks = [(0, 0, 0)]
    ends = [(0, 0), *zip(rows[cells - 1].tolist(), cells.tolist(), strict=True)]
    for index, end in enumerate(ends[1:], 1):
        start = blocks[-1]
        if start[2] < index - 1 and max(end[0] - start[0], end[1] - start[1]) > most:
            blocks.append((*ends[index - 1], index - 1))
    return [*blocks, (*ends[-1], len(ends) - 1)]


class Violation(NamedTuple):
    r"""I(U; Z | Y), and its derivative n ∂v/∂l_i = w_i (q_i − s_i p_i) for the rows of `Cells`.

    Args:
        value: n · v, float64.
        q: p ⊙ g of each row, (R, K).
        s: ⟨p, g⟩ of each row, (R,).
        at_features: the derivative at the features h over w_i, (R, H), if asked for.
    """

    value: Tensor
    q: Tensor
    s: Tensor
    at_features: Tensor | None


def violation(
    p: Tensor,
    cells: Cells,
    weight: Tensor | None = None,
    head: Tensor | None = None,
    through_head: Tensor | None = None,
    counts: Counts | None = None,
) -> Violation:
    """The violation of posteriors p (B, K) with weights (B,), read off their soft counts.

    Args:
        head, through_head: W (K, H) and p W (B, H), for the derivative at the features.
        counts: what to read it off instead: running counts, or those of all ranks.
    """
    q = p.new_empty(len(cells.rows), p.shape[1])
    s = p.new_empty(len(cells.rows))
    at_features = None if head is None else p.new_empty(len(q), head.shape[1])
    # A cell of few rows is rounded no more than its posteriors were; one of many rows would be.
    exact = counts is not None or len(cells.rows) >= 4 * len(cells.label)
    dtype = torch.float64 if exact else p.dtype
    value = torch.zeros((), dtype=torch.float64, device=p.device)
    for start, end in pairwise(cells.blocks):
        # A block of whole labels at a time, whose table stays in the cache.
        rows, block = slice(start[0], end[0]), slice(start[1], end[1])
        members = cells.rows[rows]
        p_rows, cell = p.index_select(0, members), cells.cell[rows] - start[1]
        if counts is None:
            weighted = p_rows.to(dtype)
            if weight is not None:
                weighted = weighted * weight[members, None].to(dtype)
            table = weighted.new_zeros(end[1] - start[1], p.shape[1]).index_add_(0, cell, weighted)
        else:
            table = counts.table.index_select(0, cells.place[block])
        g = _log_ratio(table, cells.label[block] - start[2], end[2] - start[2], p.dtype)
        torch.mul(p_rows, g.index_select(0, cell), out=q[rows])
        torch.sum(q[rows], 1, out=s[rows])
        if counts is not None:
            value += (table * g).sum()
        if head is not None and at_features is not None:
            torch.mm(q[rows], head, out=at_features[rows])
    if at_features is not None and through_head is not None:  # ∂/∂h = (q − s p) W
        at_features.addcmul_(through_head[cells.rows], s[:, None], value=-1.0)
    if counts is None:  # Σ T g = Σ w ⟨p, g⟩
        value = (s if weight is None else s * weight[cells.rows]).sum(dtype=torch.float64)
    return Violation(value, q, s, at_features)


def _log_ratio(table: Tensor, label: Tensor, labels: int, dtype: torch.dtype) -> Tensor:
    """g of the counts (C, K) with the label of each cell, in `dtype`.

    Where a posterior is less than the rounding of the mean, g stops at the log of that rounding:
    there it is multiplied by next to nothing.
    """
    of_label = table.new_zeros(labels, table.shape[1]).index_add_(0, label, table)
    n = of_label.sum(1, keepdim=True)
    ratio = (n / of_label.clamp_min_(torch.finfo(table.dtype).tiny)).index_select(0, label)
    ratio.mul_(table).mul_(1.0 / table.sum(1, keepdim=True))
    eps = torch.finfo(dtype).eps
    if dtype == table.dtype:
        return ratio.clamp_min_(eps).log_()
    # to fewer digits as log(1 + x), so that a small x keeps those it has
    return ratio.sub_(1.0).to(dtype).clamp_min_(eps - 1.0).log1p_()
