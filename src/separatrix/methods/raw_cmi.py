"""Raw CMI: the ablation of the paper, (1−λ) CE + λ c I(U; Z | Y) without gradient norms.

c is 1. Cross-entropy is near 0.5 nats where I is near 0.01, so most of the path stays close to ERM
and the usable λ are near 1. The paper says the opposite of its own ablation: there the raw path
stays close to the origin, at little utility. It gives no c; another c moves each point to another λ
(`trade_off_at`) and can make either end crowded, but it adds no point and removes none.
"""

from __future__ import annotations

from torch import Tensor

from separatrix.core.numbers import one_number
from separatrix.errors import InputError
from separatrix.methods import PAPER, TUNED, Method
from separatrix.nn.balance import Lanes
from separatrix.nn.lanes import Batch


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    terms = [lanes.cross_entropy(), lanes.penalty()]
    return lanes.loss(terms, [1 - trade_off, trade_off], normalise=False)


def trade_off_at(trade_off: float, scale: float) -> float:
    r"""The λ' to pass for λ = `trade_off` under c = `scale`.

    (1−λ) CE + λ c I is, up to a factor that Adam does not see, (1−λ') CE + λ' I with

    .. math:: \lambda' = \frac{\lambda c}{1 - \lambda + \lambda c}

    >>> trade_off_at(0.5, 9.0)
    0.9
    """
    if not 0.0 <= one_number(trade_off, "trade_off") <= 1.0:
        raise InputError(f"`trade_off` is λ in [0, 1], got {trade_off}.")
    if one_number(scale, "scale") <= 0.0:
        raise InputError(f"`scale` is c, greater than 0, got {scale}.")
    return trade_off * scale / (1.0 - trade_off + trade_off * scale)


METHOD = Method(
    label="Raw CMI",
    colour="#56b4e9",
    reference="the paper, appendix “CMI without gradient normalization”",
    trade_offs=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    loss=loss,
    recipes={"default": TUNED, "paper": PAPER},
    levels=("draw", "score"),
)
