"""Shared by methods with a discriminator: its shape, and the loss CE − λ · (its loss).

Both terms are divided by ‖∂_h CE‖, detached, as the paper divides cross-entropy "consistently
across the comparison methods". λ = 0 is `erm` to the last bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.nn.batch import Batch
from separatrix.nn.information import attach, cross_entropy_term, rows_last

WIDTH = 64  # of the discriminators' hidden layer: that of the backbone


def posterior_and_label(n_features: int, n_labels: int, n_groups: int) -> tuple[int, ...]:
    """Layer widths of a discriminator from (posterior, one-hot Y) to one output per group."""
    return (2 * n_labels, WIDTH, n_groups)


def judge_posterior(batch: Batch) -> Tensor:
    """The discriminators' outputs (M, B, n_groups) for (posterior, one-hot Y)."""
    assert batch.adversary is not None
    p = torch.softmax(batch.logits.transpose(1, 2), 1)  # rows last: many times faster
    label = torch.zeros_like(p).scatter_(1, batch.y.unsqueeze(1), 1.0)
    return batch.adversary(torch.cat([p, label], 1).transpose(1, 2))


def group_cross_entropy(outputs: Tensor, batch: Batch) -> Tensor:
    """−E log P(z) of the discriminators' outputs (M, B, n_groups): (M,)."""
    log_p, share = torch.log_softmax(rows_last(outputs), 1), batch.share
    term = cross_entropy_term(log_p, log_p.exp(), batch.z, share)
    by_row = share.unsqueeze(1) if isinstance(share, Tensor) else share
    return attach(outputs, term.value, (term.rows * by_row).transpose(1, 2))


def against(batch: Batch, trade_off: Tensor, adversary_loss: Tensor) -> Tensor:
    """(CE − λ · adversary loss) / (‖∂_h CE‖ + ε): one loss per lane, (M,).

    Args:
        adversary_loss: the discriminators' loss (M,), with its graph to the logits or features.
    """
    task = batch.cross_entropy
    scale = 1.0 / batch.norms([task])[0]
    balanced = batch.loss([task], [scale], normalise=False)
    return balanced - (trade_off * scale).to(adversary_loss.dtype) * adversary_loss
