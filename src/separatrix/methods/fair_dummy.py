"""Fair Dummy: no discriminator should tell (p, Y, Z) from (p, Y, Z̃) with a dummy group Z̃ ~ P̂(Z |
Y).

    discriminator:  min  L = −½ E[log D(p, y, z)] − ½ E[log(1 − D(p, y, z̃))]         k_D steps
    before each step of network:        min  CE − λ L

Under separation the two laws are equal and L = log 2, its largest value at the best discriminator.

Beyond the paper, which leaves it open, this takes any number of labels and groups: the
discriminator sees (p, one-hot Y) and has one output for each group, so one pass judges every
possible z̃, and the dummy half is the exact mean over P̂(z̃ | y) in the place of one random draw:
the same objective without the draw's noise. P̂ are the lane's training counts. λ runs over powers
of eight because here, other than in `adversarial` and `fr_train`, only CE is divided by its
gradient norm (which is near 1/1000): that is the scale on which the paper's λ have the effect that
its tables show.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from separatrix.methods import PAPER, TUNED, Adversary, Method
from separatrix.methods._adversaries import judge_posterior, mean, posterior_and_label
from separatrix.methods._grids import POWERS_OF_EIGHT
from separatrix.nn.balance import Lanes
from separatrix.nn.lanes import Batch


def adversary_loss(batch: Batch) -> Tensor:
    """How badly the discriminator of each lane tells real from dummy groups: its cross-entropy
    (M,).
    """
    outputs = judge_posterior(batch)
    real = softplus(-outputs.gather(2, batch.z.unsqueeze(2)).squeeze(2))
    # P̂(z | y), (M, Y, Z)
    share = batch.cells / batch.cells.sum(2, keepdim=True).clamp_min(
        torch.finfo(outputs.dtype).tiny
    )
    of_row = share.gather(1, batch.y.unsqueeze(2).expand(-1, -1, batch.n_groups))
    dummy = (softplus(outputs) * of_row).sum(2)
    return mean(real + dummy, batch) / 2


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    task = lanes.loss([lanes.cross_entropy()], [torch.ones_like(trade_off)])
    penalty = adversary_loss(batch)
    return task - trade_off.to(penalty.dtype) * penalty


METHOD = Method(
    label="FairDummy",
    colour="#8c564b",
    reference="Romano, Bates and Candès (2020), Achieving equalized odds by resampling sensitive "
    "attributes; "
    "as in the paper, for any number of labels and groups",
    trade_offs=POWERS_OF_EIGHT,
    loss=loss,
    adversary=Adversary(posterior_and_label, adversary_loss, steps=1, learning_rate=1e-2),
    recipes={"default": TUNED, "paper": PAPER},
    erm_at_zero=True,
)
