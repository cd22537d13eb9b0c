r"""A batch of a stack, with the terms of Algorithm 1 in closed form, lane by lane.

.. math:: \sum_t \frac{w_t}{n_t + \epsilon} L_t, \qquad
          n_t = \mathbb{E}_i \|\partial_{h_i} L_t\|_2 \text{, detached}

For a linear head :math:`l = W h + b` the norms need no backward pass:
:math:`\partial L/\partial h_i = g_i W` with the closed-form logit gradient g, so
:math:`\|\partial_{h_i} L\|^2 = g_i (W W^\top) g_i^\top`, K × K instead of B × H. With more labels
than features it is the norm of :math:`W^\top g_i` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from separatrix.nn.binned import penalty_term
from separatrix.nn.information import Term, attach, cross_entropy_term, rows_last
from separatrix.nn.lanes import Recipe

EPSILON = 1e-8


def head_norm(rows: Tensor, head: Tensor) -> Tensor:
    r"""Row norms of ∂L/∂h from logit derivatives g (…, K, B) and head weights W (…, K, H).

    .. math:: \|\partial_{h_i} L\| = \sqrt{g_i W W^\top g_i^\top}
    """
    if head.shape[-2] > head.shape[-1]:
        return (head.transpose(-1, -2) @ rows).norm(dim=-2)
    gram = head @ head.transpose(-1, -2)
    return ((gram @ rows) * rows).sum(-2).clamp_min_(0.0).sqrt_()


@dataclass(eq=False)
class Batch:
    """The input of a loss. Every tensor has the lane axis first; lanes never mix.

    Args:
        logits: (M, B, K), the leaf that the loss is differentiated at.
        make_features: makes `features`, the last hidden layer (M, B, H), on first use.
        head: (M, K, H) weights of the last layer, detached: ∂L/∂features = ∂L/∂logits · head.
        y, z: (M, B) codes.
        weight: (M, B), how often each row counts (zero for padding); None if each counts once.
        cells: (M, n_labels, n_groups), each lane's training counts.
        progress: share of the training done, 0 … 1.
        recipe: how the stack trains.
        bins: soft bins of the score whose violation is penalised; 0 for that of the draw.
        memory: tensors that a loss keeps from step to step, lane axis first.
        adversary: the discriminator of each lane, (M, B, in) → (M, B, out), if the method has one.
    """

    logits: Tensor
    make_features: Callable[[], Tensor]
    head: Tensor
    y: Tensor
    z: Tensor
    weight: Tensor | None
    cells: Tensor
    progress: float
    recipe: Recipe
    bins: int
    memory: dict[str, Tensor]
    adversary: Callable[[Tensor], Tensor] | None = None

    @cached_property
    def features(self) -> Tensor:
        """The last hidden layer (M, B, H): a second leaf, for losses that use it."""
        return self.make_features().requires_grad_()

    @property
    def n_labels(self) -> int:
        return self.cells.shape[1]

    @property
    def n_groups(self) -> int:
        return self.cells.shape[2]

    @property
    def cell(self) -> Tensor:
        """Code of each row's label and group, (M, B)."""
        return self.y * self.n_groups + self.z

    @cached_property
    def log_p(self) -> Tensor:
        """Log-posteriors (M, K, B), as constants."""
        return torch.log_softmax(rows_last(self.logits), 1)

    @cached_property
    def p(self) -> Tensor:
        """Posteriors (M, K, B), as constants."""
        return self.log_p.exp()

    @cached_property
    def n(self) -> Tensor | float:
        """The rows of each lane, (M,), or one number for all."""
        if self.weight is None:
            return float(self.logits.shape[1])
        return self.weight.sum(1).clamp_min_(torch.finfo(torch.float32).tiny)

    @property
    def share(self) -> Tensor | float:
        """What each row counts in a mean, (M, B), or one number for all."""
        if self.weight is None:
            return 1.0 / self.n
        return self.weight / torch.as_tensor(self.n)[:, None]

    @cached_property
    def cross_entropy(self) -> Term:
        """CE and its derivative."""
        return cross_entropy_term(self.log_p, self.p, self.y, self.share)

    @cached_property
    def violation(self) -> tuple[Term, Tensor]:
        """I(U; Z | Y) of the draw, or of the score in soft bins, and the counts it is read off."""
        shape = (self.bins, self.n_labels, self.n_groups)
        return penalty_term(self.p, self.cell, shape, self.weight, self.recipe.running, self.memory)

    def norms(self, terms: Sequence[Term]) -> Tensor:
        """E_i ‖∂_{h_i}‖ + ε of each of T terms, (T, M)."""
        rows = head_norm(torch.stack([term.rows for term in terms]), self.head)
        rows = rows if self.weight is None else rows * self.weight
        return (rows.sum(-1) / self.n / self.n).add_(EPSILON)

    def loss(self, terms: Sequence[Term], weights: Sequence[Tensor], normalise: bool = True) -> Tensor:
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
        for term, factor in zip(terms[1:], by_row[1:], strict=True):
            gradient.addcmul_(term.rows, factor)
        if self.weight is not None:
            gradient *= self.weight[:, None]
        return attach(self.logits, value, gradient.transpose(1, 2))


Loss = Callable[[Batch, Tensor], Tensor]


@dataclass(frozen=True)
class Adversary:
    """A discriminator per lane that takes its own optimiser steps before each step of the network.

    Args:
        widths: widths(n_features, n_labels, n_groups) → layer widths from input to output (ReLU).
        loss: what the discriminators minimise, (M,) from a batch whose `features` and `logits` are
            constants; it and the method's own loss call `batch.adversary`.
        steps: discriminator updates per network update (k_D).
        learning_rate: of the discriminators' Adam.
    """

    widths: Callable[[int, int, int], tuple[int, ...]]
    loss: Callable[[Batch], Tensor]
    steps: int = 1
    learning_rate: float = 1e-3
