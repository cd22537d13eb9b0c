r"""SeparationLoss: Algorithm 1 of the paper for any PyTorch loop.

.. math:: (1-\lambda) \frac{L_{\mathrm{task}}}{n_{\mathrm{task}} + \epsilon}
          + \lambda \frac{\hat I_{\mathrm{CMI}}}{n_{\mathrm{cmi}} + \epsilon}, \qquad
          n_\bullet = \mathbb{E}_i \|\partial_{h_i} L_\bullet\|_2 \text{, detached}

For a linear head :math:`l = W h + b` the norms need no backward pass:
:math:`\partial L/\partial h_i = g_i W` with the closed-form logit gradient g, so
:math:`\|\partial_{h_i} L\|^2 = g_i (W W^\top) g_i^\top`, K × K instead of B × H.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from separatrix.errors import InputError
from separatrix.nn.information import (
    Term,
    _lanes,
    _size,
    attach,
    cmi_term,
    cross_entropy_term,
    mi_term,
    rows_last,
    soft_table,
)
from separatrix.nn.lanes import Batch

__all__ = ["EPSILON", "Lanes", "Last", "SeparationLoss", "balanced", "head_norm"]

EPSILON = 1e-8


class Last(NamedTuple):
    """Values of the last call of a loss, for logging."""

    task: float
    cmi: float
    task_norm: float
    cmi_norm: float


def head_norm(rows: Tensor, head: Tensor) -> Tensor:
    r"""Row norms of ∂L/∂h from logit derivatives g (…, K, B) and head weights W (…, K, H).

    .. math:: \|\partial_{h_i} L\| = \sqrt{g_i W W^\top g_i^\top}
    """
    gram = head @ head.transpose(-1, -2)
    return ((gram @ rows) * rows).sum(-2).clamp_min_(0.0).sqrt_()


def balanced(
    terms: Sequence[Term], weights: Tensor, norms: Tensor, scale: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Σ weight/(norm) · term over T terms: value (M,) and derivative at the logits (M, K, B).

    Args:
        terms: T terms.
        weights: (T, M), such as (1 − λ, λ).
        norms: (T, M), ε included.
        scale: 1/n; rows of other weight are the caller's to scale.
    """
    share = weights / norms
    value = (share * torch.stack([term.value for term in terms])).sum(0)
    by_row = (share * scale).to(terms[0].rows.dtype)
    gradient = terms[0].rows * by_row[0, :, None, None]
    for term, part in zip(terms[1:], by_row[1:], strict=True):
        gradient.addcmul_(term.rows, part[:, None, None])
    return value, gradient


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
        if batch.running:
            table = table + batch.running * batch.memory.get("counts", torch.zeros_like(table))
            batch.memory["counts"] = table
        return cell, table

    def loss(
        self, terms: Sequence[Term], weights: Sequence[Tensor], normalise: bool = True
    ) -> Tensor:
        """Σ weight · term, each over its norm E_i ‖∂_{h_i}‖ + ε if `normalise`: (M,) losses.

        Args:
            terms: T terms.
            weights: T weights (M,).
        """
        share = torch.stack(list(weights))
        norms = torch.ones_like(share)
        if normalise:
            rows = head_norm(torch.stack([term.rows for term in terms]), self.batch.head)
            rows = rows if self.batch.weight is None else rows * self.batch.weight
            norms = (rows.sum(-1) / self.n / self.n).add_(EPSILON)
        value, gradient = balanced(terms, share, norms, 1.0 / self.n)
        if self.batch.weight is not None:
            gradient *= self.batch.weight[:, None]
        return attach(self.batch.logits, value, gradient)


class SeparationLoss(nn.Module):
    r"""Task loss plus the plug-in violation I(U;Z|Y), balanced by gradient norms (Algorithm 1).

    Args:
        trade_off: λ in [0, 1]; 0 is the task, 1 the violation alone. May change between steps.
        n_labels, n_groups: numbers of labels and groups; codes run from 0.
        utility: "ce" for cross-entropy, "mi" for −I(U;Y), the paper's own utility. MI does not know
            which label is which: warm up with "ce", or the labels may come out swapped.
        normalise: divide each term by its gradient norm. Then each call needs `features` or `head`.
        running: decay of a running table of counts, for small batches and many cells; 0 uses the
            batch alone. The history is detached: it moves the point at which the CMI gradient is
            taken, not the rows it flows through.
        distributed: sum the table, the norms and the row counts over the ranks of
            `torch.distributed` before the logarithm: CMI is not linear in the counts, so the mean
            of per-rank penalties is biased.
            None: in training mode, whenever there is more than one rank. Gradients are scaled for
            DistributedDataParallel's *average* over ranks, and equal those of one process on the
            joined batch, also where the ranks' batches differ in size.
        eps: ε.

    With gradient accumulation, v is that of each micro-batch; `running` nears that of their union.

    >>> _ = torch.manual_seed(0)
    >>> body, head = nn.Linear(3, 8), nn.Linear(8, 2)
    >>> criterion = SeparationLoss(0.5, n_labels=2, n_groups=2)
    >>> X, y, z = torch.randn(16, 3), torch.randint(0, 2, (16,)), torch.randint(0, 2, (16,))
    >>> h = torch.relu(body(X))
    >>> criterion(head(h), y, z, head=head).backward()
    >>> round(criterion.last.task, 2)
    0.76
    """

    counts: Tensor

    def __init__(
        self,
        trade_off: float,
        n_labels: int,
        n_groups: int,
        utility: str = "ce",
        normalise: bool = True,
        running: float = 0.0,
        distributed: bool | None = None,
        eps: float = EPSILON,
    ) -> None:
        super().__init__()
        if not 0.0 <= trade_off <= 1.0:
            raise InputError(f"`trade_off` is λ in [0, 1], got {trade_off}.")
        if n_labels < 2 or n_groups < 1:
            raise InputError(
                f"`n_labels` must be ≥ 2 and `n_groups` ≥ 1, got {n_labels} and {n_groups}."
            )
        if utility not in ("ce", "mi"):
            raise InputError(f'`utility` must be "ce" or "mi", got {utility!r}.')
        if not 0.0 <= running < 1.0:
            raise InputError(f"`running` is a decay in [0, 1), got {running}.")
        self.trade_off, self.n_labels, self.n_groups = trade_off, n_labels, n_groups
        self.utility, self.normalise, self.running = utility, normalise, running
        self.distributed, self.eps = distributed, eps
        self._last: tuple[Tensor | float, ...] | None = None
        self.register_buffer(
            "counts", torch.zeros(n_labels, n_labels, n_groups, dtype=torch.float64)
        )

    def forward(
        self,
        logits: Tensor,
        y: Tensor,
        z: Tensor,
        *,
        features: Tensor | None = None,
        head: nn.Linear | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """The balanced loss of one batch.

        Args:
            logits: (B, n_labels).
            y, z: integer codes (B,).
            features: h, any tensor that the logits were computed from, differentiated by autograd.
            head: the linear layer from h to the logits; the same update without B × H gradients.
            sample_weight: (B,), not negative.
        """
        if logits.ndim != 2 or logits.shape[1] != self.n_labels:
            raise InputError(
                f"`logits` must have shape (B, {self.n_labels}), got {tuple(logits.shape)}."
            )
        if self.normalise and (features is None) == (head is None):
            raise InputError(
                "Pass `head=` (the linear layer that made the logits) or `features=` (the tensor h "
                "before it), one of them; or build the loss with normalise=False."
            )
        _size(y, self.n_labels, "y", "n_labels")
        _size(z, self.n_groups, "z", "n_groups")
        with _full_precision(logits.device.type):
            lanes, (labels, groups), weight = _lanes(logits, (y, z), sample_weight, relative=False)
            ranks = self._ranks()
            with torch.no_grad():
                (task, cmi), n = self._terms(lanes, labels, groups, weight, ranks)
            norms = self._norms(logits, (task, cmi), weight, n, ranks, features, head)
            values = _number(task.value), _number(cmi.value)
            a, b = (1.0 - self.trade_off) / norms[0], self.trade_off / norms[1]
            self._last = (*values, *norms)
            # DistributedDataParallel's average over the ranks divides by their number
            gradient = torch.mul(task.rows, a * ranks / n).add_(cmi.rows.mul_(b * ranks / n))
            if weight is not None:
                gradient = gradient * weight[:, None].to(gradient.dtype)
            value = a * values[0] + b * values[1]
            total = value if isinstance(value, Tensor) else task.value.new_full((1,), value)
            return attach(lanes, total, gradient).squeeze(0)

    @property
    def last(self) -> Last | None:
        """Task loss, CMI and both gradient norms of the last call; None before the first."""
        return None if self._last is None else Last(*(float(value) for value in self._last))

    def extra_repr(self) -> str:
        return ", ".join(
            f"{name}={getattr(self, name)!r}"
            for name in ("trade_off", "utility", "normalise", "running")
        )

    def _ranks(self) -> int:
        wanted = self.training if self.distributed is None else self.distributed
        on = wanted and distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if on else 1

    def _terms(
        self, logits: Tensor, y: Tensor, z: Tensor, weight: Tensor | None, ranks: int
    ) -> tuple[tuple[Term, Term], Tensor | float]:
        """Both terms, and the number of rows of all ranks."""
        log_p = torch.log_softmax(rows_last(logits), 1)
        p = log_p.exp()
        cell = torch.add(z, y, alpha=self.n_groups)
        shape = (self.n_labels, self.n_groups)
        table = soft_table(p, cell, shape[0] * shape[1], weight).unflatten(2, shape)
        n: Tensor | float = float(max(p.shape[2], 1))
        if ranks > 1:
            distributed.all_reduce(table)
        if ranks > 1 or weight is not None:
            n = _number(table.sum().clamp_min_(torch.finfo(torch.float64).tiny))
        if self.running:
            table = table + self.running * self.counts.double()
            if self.training:
                self.counts.copy_(table[0])
        if self.utility == "ce":
            task = cross_entropy_term(log_p, p, y, 1.0 / n if weight is None else weight / n)
            if ranks > 1:
                distributed.all_reduce(task.value)
        else:
            u = mi_term(p, y, table)
            task = Term(-u.value, -u.rows)
        return (task, cmi_term(p, cell, table, None if self.running else n)), n

    def _norms(
        self,
        logits: Tensor,
        terms: tuple[Term, Term],
        weight: Tensor | None,
        n: Tensor | float,
        ranks: int,
        features: Tensor | None,
        head: nn.Linear | None,
    ) -> tuple[Tensor | float, Tensor | float]:
        """E_i ‖∂_{h_i}‖ + ε of both terms over the rows of all ranks, weighted."""
        if not self.normalise:
            return 1.0, 1.0
        if head is not None:
            w = head.weight.detach().to(terms[0].rows.dtype)
            if w.shape[0] != self.n_labels:
                raise InputError(f"`head` must have {self.n_labels} outputs, got {w.shape[0]}.")
            rows = head_norm(torch.cat([term.rows for term in terms]), w)
        else:
            rows = torch.stack([_features_norm(logits, term.rows[0].T, features) for term in terms])
        sums = (rows if weight is None else rows * weight).sum(1, dtype=torch.float64)
        if ranks > 1:
            distributed.all_reduce(sums)
        return _number(sums[0]) / n / n + self.eps, _number(sums[1]) / n / n + self.eps


def _number(tensor: Tensor) -> Tensor | float:
    """A float on the CPU, where reading it is free; a tensor on other devices."""
    return tensor if tensor.device.type != "cpu" or torch.compiler.is_compiling() else tensor.item()


def _features_norm(logits: Tensor, gradient: Tensor, features: Tensor | None) -> Tensor:
    assert features is not None
    if not features.requires_grad or not logits.requires_grad:
        raise InputError(
            "`features` must be the tensor, with gradient, that the logits were computed from."
        )
    (h,) = torch.autograd.grad(
        logits, features, gradient.to(logits.dtype), retain_graph=True, allow_unused=True
    )
    if h is None:
        raise InputError(
            "The logits were not computed from `features`: pass the tensor that went into the head."
        )
    return h.detach().double().flatten(1).norm(dim=1)


def _full_precision(device: str) -> AbstractContextManager[object]:
    """Out of mixed precision: the K × K products below would be rounded to half precision."""
    on = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()
