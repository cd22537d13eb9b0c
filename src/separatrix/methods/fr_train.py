"""FR-Train: a discriminator reads the group off (posterior, Y), and the network hides it there.

    discriminator:  min  E[−log D(z | p, y)]         k_D steps for each step of the
    network:        min  CE − λ E[−log D(z | p, y)]

At the best discriminator E[−log D] = H(Z | p, Y), so the penalty is a learned I(p; Z | Y) up to a
constant. It bounds the violation I(U; Z | Y) of every decision made from p, random or not.

The paper's label and version. The publication's fairness discriminator sees one number, the
prediction, and a second discriminator guards against poisoned rows with the help of a clean
validation set; neither is here.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import Method
from separatrix.methods._adversaries import against, group_cross_entropy, judge_posterior, posterior_and_label
from separatrix.methods._grids import HALF_DECADES, PENALTY_GRIDS
from separatrix.nn.batch import Adversary, Batch


def adversary_loss(batch: Batch) -> Tensor:
    """The cross-entropy (M,) of each lane's discriminator, which reads the group off (p, y)."""
    return group_cross_entropy(judge_posterior(batch), batch)


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    return against(batch, trade_off, adversary_loss(batch))


METHOD = Method(
    label="FR-Train",
    colour="#009e73",
    reference="Roh et al. (2020), FR-Train: a mutual information-based approach to fair and "
    "robust training; as in the paper",
    trade_offs=HALF_DECADES,
    dataset_grids=PENALTY_GRIDS,
    loss=loss,
    adversary=Adversary(posterior_and_label, adversary_loss, steps=1, learning_rate=1e-2),
)
