r"""Terms of a loss balanced by the norms of their gradients at the features h, lane by lane.

.. math:: \sum_t \frac{w_t}{n_t + \epsilon} L_t, \qquad
          n_t = \mathbb{E}_i \|\partial_{h_i} L_t\|_2 \text{, detached}

For a linear head :math:`l = W h + b` the norms need no backward pass:
:math:`\partial L/\partial h_i = g_i W` with the closed-form logit gradient g, so
:math:`\|\partial_{h_i} L\|^2 = g_i (W W^\top) g_i^\top`, K × K instead of B × H. With more labels
than features it is the norm of :math:`W^\top g_i` itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from separatrix.nn.binned import running_term
from separatrix.nn.information import (
    Term,
    attach,
    cmi_term,
    cross_entropy_term,
    rows_last,
    running_counts,
    soft_table,
)
from separatrix.nn.lanes import Batch

EPSILON = 1e-8


def head_norm(rows: Tensor, head: Tensor) -> Tensor:
    r"""Row norms of ∂L/∂h from logit derivatives g (…, K, B) and head weights W (…, K, H).

    .. math:: \|\partial_{h_i} L\| = \sqrt{g_i W W^\top g_i^\top}
    """
    if head.shape[-2] > head.shape[-1]:
        return (head.transpose(-1, -2) @ rows).norm(dim=-2)
    gram = head @ head.transpose(-1, -2)
    return ((gram @ rows) * rows).sum(-2).clamp_min_(0.0).sqrt_()


class Lanes(NamedTuple):
    """A stack's batch for the closed forms: posteriors (M, K, B), and the row counts n (M,)."""

    batch: Batch
    log_p: Tensor
    p: Tensor
    n: Tensor | float

    @staticmethod
    def of(batch: Batch) -> Lanes:
        log_p = torch.log_softmax(rows_last(batch.logits), 1)
        if batch.weight is None:
            return Lanes(batch, log_p, log_p.exp(), float(log_p.shape[2]))
        n = batch.weight.sum(1).clamp_min_(torch.finfo(torch.float32).tiny)
        return Lanes(batch, log_p, log_p.exp(), n)

    def cross_entropy(self) -> Term:
        """CE and its derivative."""
        weight = self.batch.weight
        share = 1.0 / self.n if weight is None else weight / torch.as_tensor(self.n)[:, None]
        return cross_entropy_term(self.log_p, self.p, self.batch.y, share)

    def table(self) -> tuple[Tensor, Tensor]:
        """Cell codes (M, B) and soft counts (M, U, Y, Z); running counts if the recipe says so."""
        batch = self.batch
        cell = batch.y * batch.n_groups + batch.z
        shape = (batch.n_labels, batch.n_groups)
        table = soft_table(self.p, cell, shape[0] * shape[1], batch.weight).unflatten(2, shape)
        return cell, running_counts(table, batch.recipe.running, batch.memory)[0]

    def penalty(self) -> Term:
        """I(U; Z | Y) of the draw, or of the score if the batch has soft bins for it."""
        batch = self.batch
        if not batch.bins:
            return cmi_term(self.p, *self.table())
        cell = batch.y * batch.n_groups + batch.z
        shape = (batch.bins, batch.n_labels, batch.n_groups)
        running = batch.recipe.running, batch.memory
        return running_term(self.p, cell, shape, batch.weight, *running)[0]

    def norms(self, terms: Sequence[Term]) -> Tensor:
        """E_i ‖∂_{h_i}‖ + ε of each of T terms, (T, M)."""
        rows = head_norm(torch.stack([term.rows for term in terms]), self.batch.head)
        rows = rows if self.batch.weight is None else rows * self.batch.weight
        return (rows.sum(-1) / self.n / self.n).add_(EPSILON)

    def loss(
        self, terms: Sequence[Term], weights: Sequence[Tensor], normalise: bool = True
    ) -> Tensor:
        """Σ weight · term, each over its norm E_i ‖∂_{h_i}‖ + ε if `normalise`: (M,) losses.

        Args:
            terms: T terms.
            weights: T weights (M,).
        """
        scale = torch.stack(list(weights))
        if normalise:
            scale = scale / self.norms(terms)
        value = (scale * torch.stack([term.value for term in terms])).sum(0)
        by_row = (scale * (1.0 / self.n)).to(terms[0].rows.dtype)[:, :, None, None]
        gradient = terms[0].rows * by_row[0]
        for term, share in zip(terms[1:], by_row[1:], strict=True):
            gradient.addcmul_(term.rows, share)
        if self.batch.weight is not None:
            gradient *= self.batch.weight[:, None]
        return attach(self.batch.logits, value, gradient.transpose(1, 2))
