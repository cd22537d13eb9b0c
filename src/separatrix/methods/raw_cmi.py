"""Raw CMI: the ablation of the paper, (1−λ) CE + λ c I(U; Z | Y) without gradient norms.

c is `Recipe.penalty_scale`; the paper gives none. Only λ c / (1 − λ) matters to Adam, so another c
moves each point along the same path to another λ. At c = 1 the path stays near ERM, because
cross-entropy is near 0.5 nats where I is near 0.01. The recipe "c=1000" crowds it at the origin,
which is what the paper shows.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from separatrix.methods import PAPER, TUNED, Method
from separatrix.nn.batch import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    penalty, _ = batch.violation
    weights = [1 - trade_off, trade_off * batch.recipe.penalty_scale]
    return batch.loss([batch.cross_entropy, penalty], weights, normalise=False)


METHOD = Method(
    label="Raw CMI",
    colour="#56b4e9",
    reference="the paper, appendix “CMI without gradient normalization”",
    trade_offs=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    loss=loss,
    recipes={"default": TUNED, "paper": PAPER, "c=1000": replace(PAPER, penalty_scale=1000.0)},
    levels=("draw", "score"),
)
