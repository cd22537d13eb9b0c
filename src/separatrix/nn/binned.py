r"""The violation of a score in soft bins, for logits with a lane axis: `core.binned_cmi` in torch.

A draw from the posterior sees only the mean of the score in each cell (y, z), so it can be
separated while the score behind it is not. Here U is the soft bin of the score s = P(Y = 1 | x): it
takes one of the two centres next to s, the nearer one with the larger probability a (hat functions
between K quantiles of the score). With soft counts T and g of `information`,

.. math:: \frac{\partial v}{\partial s_i} = \frac{w_i}{n}\, d_i, \quad
          d_i = \frac{g[y_i, z_i, k_i + 1] - g[y_i, z_i, k_i]}{c_{k_i + 1} - c_{k_i}}

.. math:: \frac{\partial v}{\partial l_i}
          = \frac{w_i}{n}\, p_i \odot (d_i - \langle p_i, d_i \rangle)

- v is at most I(S; Z | Y): U is a random function of s alone (data processing).
- Two centres, 0 and 1: U is the draw itself and v the paper's.
- More than two labels: each label has a score of its own, p(y | x); v is the mean of their
  violations. It is zero where every one of these scores is separated; their joint law may not be.
- Centres are constants of a step. From batch to batch they and the counts may be running ones
  (`penalty_term`): with a decay of 0.9 a centre goes a tenth of the way to the batch's quantile. It
  follows the scores as they drift, so a bin keeps its share of the rows and old counts their sense.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.core.binned_cmi import EMPTY, bins_for
from separatrix.core.numbers import whole_number
from separatrix.errors import InputError
from separatrix.nn.information import Ranks, Term, _lanes, _out, _size, cmi_term, rows_last, running_counts, soft_table

_NARROW = 1e-12  # the least distance of two centres that a slope is taken over


class SoftBins(NamedTuple):
    """The bin of each score (N, B): `low` with probability 1 − share, `high` with `share`."""

    low: Tensor
    high: Tensor
    share: Tensor
    slope: Tensor

    @staticmethod
    def from_scores(score: Tensor, centres: Tensor) -> SoftBins:
        """Soft bins of scores (N, B) for rising centres (N, K); `slope` is ∂share/∂score.

        Centres that are equal up to rounding are one bin, the first of them.

        >>> scores, centres = torch.tensor([[0.0, 0.25, 3.0]]), torch.tensor([[0.0, 1.0, 2.0]])
        >>> bins = SoftBins.from_scores(scores, centres)
        >>> bins.low.tolist(), bins.high.tolist(), bins.share.tolist(), bins.slope.tolist()
        ([[0, 0, 1]], [[1, 1, 2]], [[0.0, 0.25, 1.0]], [[1.0, 1.0, 0.0]])
        """
        centres = centres.contiguous()
        low = torch.searchsorted(centres[:, 1:-1].contiguous(), score.contiguous(), right=True)
        left = centres.gather(1, low)
        gap = (centres.gather(1, low + 1) - left).clamp_min_(_NARROW)
        share = (score - left) / gap
        outside = (share < 0) | (share > 1)
        slope = torch.where(outside, 0.0, 1.0 / gap)
        same = centres * (1.0 - 4.0 * torch.finfo(centres.dtype).eps)
        first = torch.searchsorted(centres, same).clamp_max_(centres.shape[1] - 1)  # if NaN
        return SoftBins(first.gather(1, low), first.gather(1, low + 1), share.clamp(0, 1), slope)


def binned_cmi(
    logits: Tensor,
    y: Tensor,
    z: Tensor,
    bins: int | None = None,
    centres: Tensor | None = None,
    n_labels: int | None = None,
    n_groups: int | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Separation violation of the score softmax(logits) on this batch, in soft bins.

    .. math:: v = I(U; Z \mid Y), \quad U \text{ the soft bin of } P(Y = 1 \mid x)

    Differentiable once, with respect to the logits, for fixed centres.

    Args:
        logits: (B, K), or (M, B, K) for M lanes at once. More than two labels: see the module.
        y, z: integer codes (B,), or (M, B).
        bins: number of centres; None: at most 16, with 8 rows or more a bin and cell (y, z).
        centres: rising scores (bins,), or (M, bins); None: quantiles 0, …, 1 of this batch.
        n_labels, n_groups: sizes of the table; by default the largest code of the batch plus one.
        sample_weight: (B,) or (M, B), not negative.

    Returns:
        A scalar, or (M,): float64 for float64 logits, float32 otherwise.

    >>> logits = torch.tensor([[0.0, -2.0], [0.0, 2.0], [0.0, -1.0], [0.0, 1.0]])
    >>> y, z = torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 1])
    >>> round(binned_cmi(logits, y, z, bins=4).item(), 4)      # the score tells the groups apart
    0.6931
    >>> from separatrix.nn.information import soft_cmi
    >>> round(soft_cmi(logits, y, z).item(), 4)                # its draws do not
    0.0
    """
    y_size, z_size = _size(y, n_labels, "y", "n_labels"), _size(z, n_groups, "z", "n_groups")
    stacked, (labels, groups), weight = _lanes(logits, (y, z), sample_weight)
    p = torch.softmax(rows_last(stacked), 1)
    scores, cell, each = _by_score(p, labels * z_size + groups, weight)
    if centres is None:
        rule = bins_for(p.shape[2], y_size * z_size)
        middles = quantiles(scores, rule if bins is None else whole_number(bins, "bins", 2), each)
    else:
        middles = centres.detach().to(scores).expand(len(scores), -1)
        if middles.shape[1] < 2 or bool((middles.diff() < 0).any()):
            raise InputError(f"`centres` must be two or more rising scores, got {centres}.")
    soft = SoftBins.from_scores(scores, middles)
    table = _table(soft, cell, (middles.shape[1], y_size, z_size), each)
    return _out(logits, stacked, _term(p, soft, cell, table), weight)


def quantiles(score: Tensor, bins: int, weight: Tensor | None = None) -> Tensor:
    """Quantiles 0, 1/(bins−1), …, 1 of scores (N, B): centres (N, bins), with repetitions.

    A quantile is the least score that has at least this share of the rows at or below it, so rows
    of weight two are the same as rows that occur twice.

    >>> quantiles(torch.arange(101.0)[None], 5).tolist()
    [[0.0, 25.0, 50.0, 75.0, 100.0]]
    """
    share = torch.linspace(0.0, 1.0, bins, dtype=torch.float64, device=score.device)
    rows = score.shape[1]
    if weight is None:
        place = (share * rows - 1e-9).ceil_().long().sub_(1).clamp_min_(0)
        return score.sort(1).values.index_select(1, place)
    ordered, order = score.sort(1)
    total = weight.double().gather(1, order).cumsum_(1)
    # just above 0: a quantile 0 is the least score of a row that counts
    wanted = total[:, -1:] * (share * (1.0 - 1e-12)).clamp_min_(1e-12)
    return ordered.gather(1, torch.searchsorted(total, wanted).clamp_max_(rows - 1))


def penalty_term(
    p: Tensor,
    cell: Tensor,
    shape: tuple[int, int, int],
    weight: Tensor | None,
    running: float,
    memory: dict[str, Tensor],
    ranks: Ranks | None = None,
) -> tuple[Term, Tensor]:
    """The violation of draws, or of scores in soft bins, by the batch's counts or running ones.

    Args:
        p: posteriors (M, K, B).
        cell: y · n_groups + z of each row, (M, B).
        shape: (bins, Y, Z), bins = 0 for draws.
        weight: of each row, (M, B).
        running: decay of `memory["counts"]`, a sum, and of `memory["centres"]`, a mean.
        memory: read and replaced if `running`; centres that are NaN count as none.
        ranks: other processes, whose rows count as well.

    Returns:
        The term, and the counts it was read off.
    """
    bins, n_labels, n_groups = shape
    if not bins:
        table = soft_table(p, cell, n_labels * n_groups, weight).unflatten(2, shape[1:])
        table = running_counts(table, running, memory, ranks)
        return cmi_term(p, cell, table), table
    scores, cell, each = _by_score(p, cell, weight)
    if ranks is None:
        centres = quantiles(scores, bins, each)
    else:
        counted = torch.ones_like(scores) if each is None else each.to(scores)
        every = ranks.gather(torch.cat([scores, counted]))
        centres = quantiles(every[: len(scores)], bins, every[len(scores) :])
    if running:
        before = memory.get("centres", torch.full_like(centres, torch.nan)).to(centres)
        centres = torch.where(before.isnan(), centres, torch.lerp(centres, before, running))
        memory["centres"] = centres
    soft = SoftBins.from_scores(scores, centres)
    table = running_counts(_table(soft, cell, shape, each), running, memory, ranks)
    return _term(p, soft, cell, table), table


def _by_score(p: Tensor, cell: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The scores (N, B) of posteriors (M, K, B), with the cell and the weight of each.

    Two labels have one score, P(Y = 1 | x), more have one each.
    """
    k = p.shape[1]
    if k == 2:
        return p[:, 1].contiguous(), cell, weight
    each = None if weight is None else weight.repeat_interleave(k, 0)
    return p.flatten(0, 1), cell.repeat_interleave(k, 0), each


def _table(soft: SoftBins, cell: Tensor, shape: tuple[int, int, int], weight: Tensor | None) -> Tensor:
    """Soft counts (N, bins, Y, Z) for `shape` = (bins, Y, Z)."""
    cells = shape[1] * shape[2]
    up = soft.share.double()
    down = 1.0 - up
    if weight is not None:
        up, down = up * weight, down * weight
    table = torch.zeros(len(cell), shape[0] * cells, dtype=torch.float64, device=cell.device)
    table.scatter_add_(1, soft.low * cells + cell, down)
    return table.scatter_add_(1, soft.high * cells + cell, up).unflatten(1, shape)


def _term(p: Tensor, soft: SoftBins, cell: Tensor, table: Tensor) -> Term:
    """Mean of the scores' violations, and its derivative at the logits.

    Args:
        p: posteriors (M, K, B).
        soft: bins of one score per lane, or of K.
        cell: y · n_groups + z of each row of `soft`, (N, B).
        table: soft counts; it may hold more than the batch, see `cmi_term`.
    """
    cells = table.shape[2] * table.shape[3]
    g = _log_ratio(table)
    value = (table * g).sum((1, 2, 3)) / table.sum((1, 2, 3)).clamp_min_(torch.finfo(g.dtype).tiny)
    flat = g.to(p.dtype).flatten(1)
    rise = flat.gather(1, soft.high * cells + cell) - flat.gather(1, soft.low * cells + cell)
    d = (rise * soft.slope).unflatten(0, (len(p), -1))
    if d.shape[1] == 1:  # two labels: p₁ (d − p₁ d) and its opposite
        last = p.prod(1, keepdim=True) * d
        return Term(value, torch.cat([-last, last], 1))
    rows = p * (d - (p * d).sum(1, keepdim=True))
    return Term(value.unflatten(0, d.shape[:2]).mean(1), rows / d.shape[1])


def _log_ratio(table: Tensor) -> Tensor:
    """g of counts (N, U, Y, Z); an empty cell counts as a millionth of all rows, as in `core`."""
    of_group = table.sum(1, keepdim=True)
    of_label = of_group.sum(3, keepdim=True)
    independent = table.sum(3, keepdim=True) * of_group
    seen = torch.maximum(table, EMPTY * of_label.sum(2, keepdim=True)) * of_label
    return torch.where(independent > 0, seen / independent, 1.0).log_()
