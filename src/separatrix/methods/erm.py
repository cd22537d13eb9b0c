"""ERM: cross-entropy divided by its gradient norm, as the paper trains all its reference points.

CE/‖∂_h CE‖ with a detached norm has the minimiser of CE. There is no trade-off: λ is ignored.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.methods import Method
from separatrix.nn.batch import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,); `trade_off` plays no part."""
    return batch.loss([batch.cross_entropy], [torch.ones_like(trade_off)])


METHOD = Method(
    label="ERM",
    colour="#000000",
    reference="the paper, appendix “Comparison Methods & Implementations”",
    trade_offs=(0.0,),
    loss=loss,
    levels=("draw", "score"),  # it has no penalty
)
