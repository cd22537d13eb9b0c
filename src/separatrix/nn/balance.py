r"""SeparationLoss: Algorithm 1 of the paper for any PyTorch loop.

.. math:: (1-\lambda) \frac{L_{\mathrm{task}}}{n_{\mathrm{task}} + \epsilon}
          + \lambda \frac{\hat I_{\mathrm{CMI}}}{n_{\mathrm{cmi}} + \epsilon}, \qquad
          n_\bullet = \mathbb{E}_i \|\partial_{h_i} L_\bullet\|_2 \text{, detached}

For a linear head :math:`l = W h + b` the norms need no backward pass: :math:`\partial L/\partial h_i = g_i W` with the
closed-form logit gradient g, so :math:`\|\partial_{h_i} L\|^2 = g_i (W W^\top) g_i^\top`, K × K instead of B × H.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

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

__all__ = ["EPSILON", "Lanes", "Last", "SeparationLoss", "balanced", "head_norm", "lane_table"]

EPSILON = 1e-8


class Last(NamedTuple):
    """What the last call saw, detached: for logging."""

    task: Tensor
    cmi: Tensor
    task_norm: Tensor
    cmi_norm: Tensor


def head_norm(gradient: Tensor, gram: Tensor) -> Tensor:
    r"""Row norms (M, B) of ∂L/∂h from logit gradients (M, K, B) and :math:`W W^\top` (M, K, K)."""
    return ((gram @ gradient) * gradient).sum(1).clamp_min(0.0).sqrt()


def balanced(task: Term, penalty: Term, trade_off: Tensor, norms: tuple[Tensor, Tensor], eps: float = EPSILON) -> Term:
    """(1 − λ) task / (n_task + ε) + λ penalty / (n_penalty + ε): value (M,) and derivative at the logits."""
    a = (1.0 - trade_off) / (norms[0] + eps)
    b = trade_off / (norms[1] + eps)
    kind = task.gradient.dtype
    gradient = task.gradient * a[:, None, None].to(kind) + penalty.gradient * b[:, None, None].to(kind)
    return Term(a * task.value + b * penalty.value, gradient)


class Lanes(NamedTuple):
    """What the closed forms need of a stack's batch."""

    log_p: Tensor
    p: Tensor
    share: Tensor | float
    rows: Tensor | float

    @staticmethod
    def of(batch: Batch) -> Lanes:
        """Posteriors (M, K, B), each row's weight in the mean, and how many rows the batch stands for."""
        log_p = torch.log_softmax(rows_last(batch.logits), 1)
        if batch.weight is None:
            b = log_p.shape[2]
            return Lanes(log_p, log_p.exp(), 1.0 / b, float(b))
        n = batch.weight.sum(1).clamp_min(torch.finfo(torch.float32).tiny)
        return Lanes(log_p, log_p.exp(), (batch.weight / n[:, None]).unsqueeze(1), n)

    def norm(self, term: Term, batch: Batch) -> Tensor:
        """E_i ‖∂_{h_i}‖ of a term through the linear head, (M,)."""
        gram = batch.head @ batch.head.transpose(1, 2)
        return head_norm(term.gradient, gram).sum(1) / self.rows


def lane_table(batch: Batch, lanes: Lanes) -> tuple[Tensor, Tensor]:
    """Cell codes (M, B) and soft counts (M, U, Y, Z) of a stack's batch; running counts if the recipe says so."""
    cell = batch.y * batch.n_groups + batch.z
    shape = (batch.n_labels, batch.n_groups)
    table = soft_table(lanes.p, cell, shape[0] * shape[1], batch.weight).unflatten(2, shape)
    if batch.running:
        table = table + batch.running * batch.memory.get("counts", torch.zeros_like(table))
        batch.memory["counts"] = table
    return cell, table


class SeparationLoss(nn.Module):
    r"""Task loss plus the plug-in violation I(U;Z|Y), balanced by gradient norms (Algorithm 1).

    Args:
        trade_off: λ in [0, 1]; 0 is the task alone, 1 the violation alone. May be changed between steps.
        n_labels, n_groups: numbers of labels and groups; codes run from 0.
        utility: "ce" for cross-entropy, "mi" for −I(U;Y), the paper's own utility. MI does not know which label is
            which: warm up with "ce", or the labels may come out swapped.
        normalise: divide each term by its gradient norm. Then each call needs `features` or `head`.
        running: decay of a running table of counts, for small batches and many cells; 0 uses the batch alone. The
            history is detached: it moves the point at which the CMI gradient is taken, not the rows it flows through.
        distributed: sum the table, the norms and the row counts over the ranks of `torch.distributed` before the
            logarithm. CMI is not linear in the counts, so the mean of per-rank penalties is another, biased quantity.
            None: in training mode, whenever there is more than one rank. Gradients are scaled for
            DistributedDataParallel's *average* over ranks, and equal those of one process on the joined batch, also
            where the ranks' batches differ in size.
        eps: ε.

    With gradient accumulation, v is that of each micro-batch, not of their union; `running` brings the two together.

    >>> _ = torch.manual_seed(0)
    >>> body, head = nn.Linear(3, 8), nn.Linear(8, 2)
    >>> criterion = SeparationLoss(0.5, n_labels=2, n_groups=2)
    >>> X, y, z = torch.randn(16, 3), torch.randint(0, 2, (16,)), torch.randint(0, 2, (16,))
    >>> h = torch.relu(body(X))
    >>> criterion(head(h), y, z, head=head).backward()
    >>> round(criterion.last.task.item(), 2)
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
            raise InputError(f"`n_labels` must be ≥ 2 and `n_groups` ≥ 1, got {n_labels} and {n_groups}.")
        if utility not in ("ce", "mi"):
            raise InputError(f'`utility` must be "ce" or "mi", got {utility!r}.')
        if not 0.0 <= running < 1.0:
            raise InputError(f"`running` is a decay in [0, 1), got {running}.")
        self.trade_off, self.n_labels, self.n_groups = trade_off, n_labels, n_groups
        self.utility, self.normalise, self.running = utility, normalise, running
        self.distributed, self.eps = distributed, eps
        self.last: Last | None = None
        self.register_buffer("counts", torch.zeros(n_labels, n_labels, n_groups, dtype=torch.float64))

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
            features: h, any tensor that the logits were computed from; its gradients are taken by autograd.
            head: the linear layer that made the logits from h; the same update without the B × H gradients.
            sample_weight: (B,), not negative.
        """
        if logits.ndim != 2 or logits.shape[1] != self.n_labels:
            raise InputError(f"`logits` must have shape (B, {self.n_labels}), got {tuple(logits.shape)}.")
        if self.normalise and (features is None) == (head is None):
            raise InputError(
                "Pass `head=` (the linear layer that made the logits) or `features=` (the tensor h before it), "
                "one of them; or build the loss with normalise=False."
            )
        _size(y, self.n_labels, "y", "n_labels")
        _size(z, self.n_groups, "z", "n_groups")
        with _full_precision(logits.device.type):
            lanes, (labels, groups), weight = _lanes(logits, (y, z), sample_weight)
            with torch.no_grad():
                ranks = self._ranks()
                task, cmi = self._terms(lanes, labels, groups, weight, ranks)
            norms = self._norms(logits, (task, cmi), weight, ranks, features, head)
            trade_off = torch.full_like(task.value, self.trade_off)
            total = balanced(task, cmi, trade_off, norms, self.eps if self.normalise else 0.0)
            self.last = Last(task.value[0], cmi.value[0], norms[0][0], norms[1][0])
            # the average over ranks that follows divides by their number
            return attach(lanes, total.value, total.gradient * ranks if ranks > 1 else total.gradient).squeeze(0)

    def extra_repr(self) -> str:
        return (
            f"trade_off={self.trade_off}, utility={self.utility!r}, normalise={self.normalise}, running={self.running}"
        )

    def _ranks(self) -> int:
        from torch import distributed

        wanted = self.training if self.distributed is None else self.distributed
        on = wanted and distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if on else 1

    def _terms(self, logits: Tensor, y: Tensor, z: Tensor, weight: Tensor | None, ranks: int) -> tuple[Term, Term]:
        log_p = torch.log_softmax(rows_last(logits), 1)
        p = log_p.exp()
        cell = y * self.n_groups + z
        table = soft_table(p, cell, self.n_labels * self.n_groups, weight).unflatten(2, (self.n_labels, self.n_groups))
        if ranks > 1:
            _sum_over_ranks(table)
        n = table.sum().clamp_min(torch.finfo(torch.float64).tiny)
        share = (1.0 / n).to(p.dtype) if weight is None else (weight / n).to(p.dtype).unsqueeze(1)
        if self.running:
            table = table + self.running * self.counts.double()
            if self.training:
                self.counts.copy_(table[0])
        if self.utility == "ce":
            task = cross_entropy_term(log_p, p, y, share)
            if ranks > 1:
                _sum_over_ranks(task.value)
        else:
            u = mi_term(p, y, table, share)
            task = Term(-u.value, -u.gradient)
        return task, cmi_term(p, cell, table, share)

    def _norms(
        self,
        logits: Tensor,
        terms: tuple[Term, Term],
        weight: Tensor | None,
        ranks: int,
        features: Tensor | None,
        head: nn.Linear | None,
    ) -> tuple[Tensor, Tensor]:
        """E_i ‖∂_{h_i}‖ of both terms over the rows of all ranks; a weighted row stands for that many rows."""
        if not self.normalise:
            return torch.ones_like(terms[0].value), torch.ones_like(terms[1].value)
        if head is not None:
            w = head.weight.detach().to(terms[0].gradient.dtype)
            if w.shape[0] != self.n_labels:
                raise InputError(f"`head` must have {self.n_labels} outputs, got {w.shape[0]}.")
            gram = w @ w.T
            rows = torch.stack([head_norm(term.gradient, gram)[0] for term in terms])
        else:
            rows = torch.stack([_features_norm(logits, term.gradient[0].T, features) for term in terms])
        rows = rows.double()
        # a row of weight w has a gradient w times as long and stands for w rows: its mean counts ‖·‖ once, not w²
        sums = torch.cat([rows.sum(1), rows.new_tensor([rows.shape[1]]) if weight is None else weight.sum().view(1)])
        if ranks > 1:
            _sum_over_ranks(sums)
        mean = sums[:2] / sums[2].clamp_min(torch.finfo(torch.float64).tiny)
        return mean[:1], mean[1:]


def _features_norm(logits: Tensor, gradient: Tensor, features: Tensor | None) -> Tensor:
    assert features is not None
    if not features.requires_grad or not logits.requires_grad:
        raise InputError("`features` must be the tensor, with gradient, that the logits were computed from.")
    (h,) = torch.autograd.grad(logits, features, gradient.to(logits.dtype), retain_graph=True, allow_unused=True)
    if h is None:
        raise InputError("The logits were not computed from `features`: pass the very tensor that went into the head.")
    return h.detach().double().flatten(1).norm(dim=1)


def _full_precision(device: str) -> AbstractContextManager[object]:
    """Out of mixed precision: the K × K products below would be rounded to half precision."""
    on = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def _sum_over_ranks(tensor: Tensor) -> None:
    from torch import distributed

    distributed.all_reduce(tensor)
