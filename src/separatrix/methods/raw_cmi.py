"""Raw CMI: the ablation of the paper, (1−λ) CE + λ c I(U; Z | Y) without gradient norms.

c is fixed at 1: cross-entropy is near 0.5 nats where I is near 0.01, so most of the path stays close to ERM. That the
usable range of λ is squeezed against 1 is what the paper's ablation shows.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import Method, Recipe
from separatrix.nn.balance import Lanes, balanced, lane_table
from separatrix.nn.information import attach, cmi_term, cross_entropy_term
from separatrix.nn.lanes import Batch

SCALE = 1.0  # c


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    cell, table = lane_table(batch, lanes)
    task = cross_entropy_term(lanes.log_p, lanes.p, batch.y, lanes.share)
    violation = cmi_term(lanes.p, cell, table, lanes.share)
    one = task.value.new_ones(())
    return attach(batch.logits, *balanced(task, violation, trade_off, (one, one / SCALE), eps=0.0))


METHOD = Method(
    label="Raw CMI",
    colour="#56b4e9",
    reference="the paper, appendix “CMI without gradient normalization”",
    trade_offs=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    loss=loss,
    recipes={"default": Recipe(), "paper": Recipe()},
)
