"""CMI: cross-entropy plus the plug-in conditional mutual information, balanced by gradient norms.

Algorithm 1 of the paper: minimise (1−λ) CE/‖∂_h CE‖ + λ I/‖∂_h I‖, I = I(U; Z | Y) read off the batch's soft counts.
λ = 0 is `erm`; without the norms it is `raw_cmi`.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from separatrix.methods import Method, Recipe
from separatrix.nn.balance import Lanes, balanced, lane_table
from separatrix.nn.information import attach, cmi_term, cross_entropy_term
from separatrix.nn.lanes import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,); lanes do not mix."""
    lanes = Lanes.of(batch)
    cell, table = lane_table(batch, lanes)
    task = cross_entropy_term(lanes.log_p, lanes.p, batch.y, lanes.share)
    violation = cmi_term(lanes.p, cell, table, lanes.share)
    norms = lanes.norm(task, batch), lanes.norm(violation, batch)
    return attach(batch.logits, *balanced(task, violation, trade_off, norms))


METHOD = Method(
    label="CMI",
    colour="#0072b2",
    reference="the paper, Algorithm 1",
    trade_offs=tuple(float(t) for t in np.linspace(0, 1, 11).round(2)),
    loss=loss,
    recipes={"default": Recipe(), "paper": Recipe()},
    erm_at_zero=True,
)
