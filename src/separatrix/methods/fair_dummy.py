"""Fair Dummy: no discriminator should tell the group Z from a dummy group Z̃ ~ P̂(Z | Y).

    discriminator:  min  L = −½ E[log D(p, y, z)] − ½ E[log(1 − D(p, y, z̃))]
    network:        min  CE − λ L         after k_D steps of the discriminator

Under separation the laws of (p, Y, Z) and (p, Y, Z̃) are equal and L = log 2, its largest value at
the best discriminator.

Any number of labels and groups, which the paper leaves open: the discriminator sees (p, one-hot Y)
and has one output for each group, so one pass judges every possible z̃. The dummy half is the exact
mean over P̂(z̃ | y) (the lane's training counts) instead of one random draw. λ runs over powers of
eight because only CE is divided by its gradient norm (near 1/1000), unlike in `adversarial` and
`fr_train`: on that scale the paper's λ have the effect that its tables show.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from separatrix.methods import Method
from separatrix.methods._adversaries import judge_posterior, posterior_and_label
from separatrix.methods._grids import POWERS_OF_EIGHT
from separatrix.nn.batch import Adversary, Batch


def adversary_loss(batch: Batch) -> Tensor:
    """The cross-entropy (M,) of each lane's discriminator between real and dummy groups."""
    outputs = judge_posterior(batch).transpose(1, 2)  # (M, Z, B)
    real = softplus(-outputs.gather(1, batch.z.unsqueeze(1)).squeeze(1))
    total = batch.cells.sum(2, keepdim=True).clamp_min(torch.finfo(outputs.dtype).tiny)
    law = batch.cells / total  # P̂(z | y), (M, Y, Z)
    of_row = law.transpose(1, 2).gather(2, batch.y.unsqueeze(1).expand_as(outputs))
    dummy = (softplus(outputs) * of_row).sum(1)
    return ((real + dummy) * batch.share).sum(1) / 2


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    task = batch.loss([batch.cross_entropy], [torch.ones_like(trade_off)])
    penalty = adversary_loss(batch)
    return task - trade_off.to(penalty.dtype) * penalty


METHOD = Method(
    label="FairDummy",
    colour="#8c564b",
    reference="Romano, Bates and Candès (2020), Achieving equalized odds by resampling sensitive "
    "attributes; as in the paper, for any number of labels and groups",
    trade_offs=POWERS_OF_EIGHT,
    loss=loss,
    adversary=Adversary(posterior_and_label, adversary_loss, steps=1, learning_rate=1e-2),
)
