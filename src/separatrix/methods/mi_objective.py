"""Plane: train on the axes of the information plane, u and v. Beyond the paper.

The paper defines utility as u = I(U;Y) and trains cross-entropy. A posterior that minimises
cross-entropy is calibrated, and decisions drawn from a calibrated posterior lose information.
Here, after a warm-up with cross-entropy, nine tenths of the task gradient are that of −I(U;Y), each
part divided by its own norm as in Algorithm 1:

    (1−λ) [0.1 CE/‖∂_h CE‖ − 0.9 u/‖∂_h u‖] + λ v/‖∂_h v‖

I(U;Y) does not know which label is which: the warm-up and the rest of cross-entropy keep the labels
in place. It is convex in the policy and drives posteriors to 0 and 1, so logits are kept within
±15. Decisions that are almost hard have the sampling error of hard decisions: a small training EO
gap says less about new rows than that of `cmi`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from separatrix.methods import TUNED, Method
from separatrix.nn.batch import Batch
from separatrix.nn.information import Term, mi_term, rows_last

SHARE = 0.9  # of the task gradient that is −I(U;Y)
WARM_UP = 0.3  # of the training, with cross-entropy alone
BOUND = 15.0  # of the logits


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    v, counts = batch.violation
    terms, weights = [batch.cross_entropy], [1 - trade_off]
    if batch.progress >= WARM_UP:
        u = mi_term(batch.p, batch.y, counts)
        terms.append(Term(-u.value, -u.rows))
        weights = [(1 - SHARE) * (1 - trade_off), SHARE * (1 - trade_off)]
    terms.append(v)
    bounded = [Term(term.value, _inwards(term.rows, rows_last(batch.logits))) for term in terms]
    return batch.loss(bounded, [*weights, trade_off])


def _inwards(rows: Tensor, logits: Tensor) -> Tensor:
    """Drop what would push a (centred) logit further out than ±BOUND; the way back stays open."""
    centred = logits - logits.mean(1, keepdim=True)
    return torch.where((centred.abs() > BOUND) & (rows * centred < 0), 0.0, rows)


METHOD = Method(
    label="MI objective",
    colour="#9646ff",
    reference="this package: Algorithm 1 of the paper with u = I(U;Y) as the task",
    trade_offs=(
        *(0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7),
        *(0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 1.0),
    ),
    loss=loss,
    recipes={
        "default": replace(TUNED, exact=True, piecewise_linear=32),
        "plain": replace(TUNED, exact=True),
        "batches": TUNED,
    },
)
