"""Shared by methods with a discriminator: its shape, and the loss CE − λ · (its loss).

Both terms are divided by ‖∂_h CE‖, detached, as the paper divides cross-entropy "consistently
across the comparison methods". λ = 0 is `erm` to the last bit.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from separatrix.nn.balance import EPSILON, Lanes, head_norm
from separatrix.nn.information import attach
from separatrix.nn.lanes import Batch

WIDTH = 64  # of the discriminators' hidden layer: that of the backbone


def posterior_and_label(n_features: int, n_labels: int, n_groups: int) -> tuple[int, ...]:
    """Layer widths of a discriminator from (posterior, one-hot Y) to one output per group."""
    return (2 * n_labels, WIDTH, n_groups)


def judge_posterior(batch: Batch) -> Tensor:
    """The discriminators' outputs (M, B, n_groups) for (posterior, one-hot Y)."""
    assert batch.adversary is not None
    p = torch.softmax(batch.logits, 2)
    return batch.adversary(torch.cat([p, one_hot(batch.y, batch.n_labels).to(p.dtype)], 2))


def mean(rows: Tensor, batch: Batch) -> Tensor:
    """The mean of each lane's rows (M, B), with their weights: (M,)."""
    if batch.weight is None:
        return rows.mean(1)
    total = batch.weight.sum(1).clamp_min(torch.finfo(rows.dtype).tiny)
    return (rows * batch.weight).sum(1) / total


def group_cross_entropy(outputs: Tensor, batch: Batch) -> Tensor:
    """−E log P(z) of the discriminators' outputs (M, B, n_groups): (M,)."""
    picked = torch.log_softmax(outputs, 2).gather(2, batch.z.unsqueeze(2)).squeeze(2)
    return -mean(picked, batch)


def against(batch: Batch, trade_off: Tensor, adversary_loss: Tensor) -> Tensor:
    """(CE − λ · adversary loss) / (‖∂_h CE‖ + ε): one loss per lane, (M,).

    Args:
        adversary_loss: the discriminators' loss (M,), with its graph to the logits or features.
    """
    lanes = Lanes.of(batch)
    task = lanes.cross_entropy()
    rows = head_norm(task.rows, batch.head)
    total = rows.sum(1) if batch.weight is None else (rows * batch.weight).sum(1)
    scale = 1.0 / (total / lanes.n / lanes.n + EPSILON)  # 1 / (‖∂_h CE‖ + ε)
    gradient = task.rows * (scale / lanes.n)[:, None, None]
    if batch.weight is not None:
        gradient *= batch.weight[:, None]
    balanced = attach(batch.logits, task.value * scale, gradient)
    return balanced - (trade_off * scale).to(adversary_loss.dtype) * adversary_loss
