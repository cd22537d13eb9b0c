"""CMI: cross-entropy plus the plug-in conditional mutual information, balanced by gradient norms.

Algorithm 1 of the paper: minimise (1−λ) CE/‖∂_h CE‖ + λ I/‖∂_h I‖, I = I(U; Z | Y) read off the batch's soft counts.
λ = 0 is `erm`; without the norms it is `raw_cmi`.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import Method, Recipe
from separatrix.methods._grids import SHARE_GRIDS, TENTHS
from separatrix.nn.balance import Lanes
from separatrix.nn.information import cmi_term
from separatrix.nn.lanes import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,); lanes do not mix."""
    lanes = Lanes.of(batch)
    cell, table = lanes.table()
    return lanes.loss([lanes.cross_entropy(), cmi_term(lanes.p, cell, table)], [1 - trade_off, trade_off])


METHOD = Method(
    label="CMI",
    colour="#0072b2",
    reference="the paper, Algorithm 1",
    trade_offs=TENTHS,
    dataset_grids=SHARE_GRIDS,
    loss=loss,
    recipes={"default": Recipe(), "paper": Recipe()},
    erm_at_zero=True,
)
