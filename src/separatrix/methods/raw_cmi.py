"""Raw CMI: the ablation of the paper, (1−λ) CE + λ c I(U; Z | Y) without gradient norms.

c is `Recipe.penalty_scale`, 1 unless it is changed. Cross-entropy is near 0.5 nats where I is near
0.01, so at c = 1 most of the path stays close to ERM and the usable λ are near 1. The paper says
the opposite of its own ablation: there the raw path stays close to the origin, at little utility.
It gives no c. Another c moves each point to another λ, since only λ c / (1 − λ) matters to Adam: it
can crowd either end of the path, but it adds no point and removes none.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.methods import Method
from separatrix.nn.balance import Lanes
from separatrix.nn.lanes import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    terms, c = [lanes.cross_entropy(), lanes.penalty()], batch.recipe.penalty_scale
    return lanes.loss(terms, [1 - trade_off, trade_off * c], normalise=False)


METHOD = Method(
    label="Raw CMI",
    colour="#56b4e9",
    reference="the paper, appendix “CMI without gradient normalization”",
    trade_offs=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    loss=loss,
    levels=("draw", "score"),
)
