"""Raw CMI: the ablation of the paper, (1−λ) CE + λ c I(U; Z | Y) without gradient norms.

c is fixed at 1. Cross-entropy is near 0.5 nats where I is near 0.01, so most of the path stays
close to ERM and the usable λ are near 1, as the paper's ablation shows.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import PAPER, TUNED, Method
from separatrix.nn.balance import Lanes
from separatrix.nn.lanes import Batch

SCALE = 1.0  # c


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    terms = [lanes.cross_entropy(), lanes.penalty()]
    return lanes.loss(terms, [1 - trade_off, SCALE * trade_off], normalise=False)


METHOD = Method(
    label="Raw CMI",
    colour="#56b4e9",
    reference="the paper, appendix “CMI without gradient normalization”",
    trade_offs=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    loss=loss,
    recipes={"default": TUNED, "paper": PAPER},
    levels=("draw", "score"),
)
