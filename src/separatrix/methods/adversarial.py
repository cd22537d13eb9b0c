"""Adversarial: a discriminator reads the group off the last hidden layer, which hides it.

    discriminator:  min  E[−log D(z | h)]            k_D steps for each step of the
    network:        min  CE − λ E[−log D(z | h)]

The paper's label and version. The publication (LAFTR) learns an autoencoding representation and has
a variant for equalized odds whose discriminator also sees Y. This one does not: it aims at h ⟂ Z,
which is independence, not separation. Where Y and Z are dependent it gives up utility that
separation allows, and h ⟂ Z does not imply h ⟂ Z | Y. `fr_train` conditions on Y.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import PAPER, Method
from separatrix.methods._adversaries import WIDTH, against, group_cross_entropy
from separatrix.methods._grids import HALF_DECADES, PENALTY_GRIDS
from separatrix.nn.batch import Adversary, Batch


def widths(n_features: int, n_labels: int, n_groups: int) -> tuple[int, ...]:
    """Layer widths of the discriminator."""
    return (n_features, WIDTH, n_groups)


def adversary_loss(batch: Batch) -> Tensor:
    """How badly the discriminator of each lane reads the group off h: its cross-entropy (M,)."""
    assert batch.adversary is not None
    return group_cross_entropy(batch.adversary(batch.features), batch)


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    return against(batch, trade_off, adversary_loss(batch))


METHOD = Method(
    label="Adversarial",
    colour="#cc79a7",
    reference="Madras et al. (2018), Learning adversarially fair and transferable representations; as in the paper",
    trade_offs=HALF_DECADES,
    dataset_grids=PENALTY_GRIDS,
    loss=loss,
    adversary=Adversary(widths, adversary_loss, steps=1, learning_rate=1e-2),
    recipes={"default": PAPER, "paper": PAPER},  # at `TUNED`'s rate the two players circle
)
