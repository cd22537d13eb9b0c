"""ERM: cross-entropy divided by its gradient norm, as the paper trains all its reference points.

CE/‖∂_h CE‖, the norm detached: a learning rate that adapts, not another minimiser. There is no trade-off: λ is ignored.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import Method, Recipe
from separatrix.nn.balance import EPSILON, Lanes
from separatrix.nn.information import attach, cross_entropy_term
from separatrix.nn.lanes import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,); `trade_off` plays no part."""
    lanes = Lanes.of(batch)
    task = cross_entropy_term(lanes.log_p, lanes.p, batch.y, lanes.share)
    scale = 1.0 / (lanes.norm(task, batch) + EPSILON)
    return attach(batch.logits, task.value * scale, task.gradient * scale[:, None, None])


METHOD = Method(
    label="ERM",
    colour="#000000",
    reference="the paper, appendix “Comparison Methods & Implementations”",
    trade_offs=(0.0,),
    loss=loss,
    recipes={"default": Recipe(), "paper": Recipe()},
    erm_at_zero=True,
)
