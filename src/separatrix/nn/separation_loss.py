r"""SeparationLoss: Algorithm 1 of the paper for any PyTorch loop.

.. math:: (1-\lambda) \frac{L_{\mathrm{task}}}{n_{\mathrm{task}} + \epsilon}
          + \lambda \frac{\hat I_{\mathrm{CMI}}}{n_{\mathrm{cmi}} + \epsilon}, \qquad
          n_\bullet = \mathbb{E}_i \|\partial_{h_i} L_\bullet\|_2 \text{, detached}

The violation is that of a draw from the posterior (the paper's) or of the score in soft bins. With
the label axis of its table collapsed it is I(U;Z), the penalty for independence.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, distributed, nn

from separatrix.core.binned_cmi import bins_for
from separatrix.core.numbers import one_number, whole_number
from separatrix.errors import InputError
from separatrix.nn.balance import EPSILON, head_norm
from separatrix.nn.binned import Ranks, check_bins, running_term
from separatrix.nn.information import (
    Term,
    _lanes,
    _size,
    attach,
    check_tensor,
    cmi_term,
    cross_entropy_term,
    mi_term,
    rows_last,
    soft_table,
)

__all__ = ["Last", "SeparationLoss"]


class Last(NamedTuple):
    """Values of the last call of a loss, for logging."""

    task: float
    cmi: float
    task_norm: float
    cmi_norm: float


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
            taken, not the rows it flows through. None: 0 for draws, 0.9 for scores.
        distributed: sum the table, the norms and the row counts over the ranks of
            `torch.distributed` before the logarithm: CMI is not linear in the counts, so the mean
            of per-rank penalties is biased.
            None: in training mode, whenever there is more than one rank. Gradients are scaled for
            DistributedDataParallel's *average* over ranks, and equal those of one process on the
            joined batch, also where the ranks' batches differ in size.
        eps: ε.
        level: whose violation: "draw", a label drawn from the posterior (the paper's), or "score",
            P(Y = 1 | x) at every threshold, in soft bins (`nn.binned`). More than two labels have
            one score each, and the mean of their violations counts.
        bins: number of soft bins; None: at most 16, fewer where batches of 512 rows (with their
            running counts) would leave fewer than 8 rows to a bin of a cell (y, z).
        criterion: "separation", or "independence" for the penalty I(U;Z) (demographic parity).

    For a numeric outcome or a numeric attribute there is `ContinuousSeparationLoss`.

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
    centres: Tensor

    def __init__(
        self,
        trade_off: float,
        n_labels: int,
        n_groups: int,
        utility: str = "ce",
        normalise: bool = True,
        running: float | None = None,
        distributed: bool | None = None,
        eps: float = EPSILON,
        level: str = "draw",
        bins: int | None = None,
        criterion: str = "separation",
    ) -> None:
        super().__init__()
        if criterion not in ("separation", "independence"):
            raise InputError(
                f'`criterion` must be "separation" or "independence", got {criterion!r}.'
            )
        if criterion == "independence" and utility == "mi":
            raise InputError('utility="mi" needs the labels\' counts: pass utility="ce".')
        if not 0.0 <= one_number(trade_off, "trade_off") <= 1.0:
            raise InputError(f"`trade_off` is λ in [0, 1], got {trade_off}.")
        n_labels = whole_number(n_labels, "n_labels", least=2)
        n_groups = whole_number(n_groups, "n_groups", least=1)
        if utility not in ("ce", "mi"):
            raise InputError(f'`utility` must be "ce" or "mi", got {utility!r}.')
        if level not in ("draw", "score"):
            raise InputError(f'`level` must be "draw" or "score", got {level!r}.')
        if level == "score" and utility == "mi":
            raise InputError('utility="mi" is that of a draw: pass utility="ce" for level="score".')
        if running is None:
            running = 0.9 if level == "score" else 0.0
        if not 0.0 <= running < 1.0:
            raise InputError(f"`running` is a decay in [0, 1), got {running}.")
        self.trade_off, self.n_labels, self.n_groups = trade_off, n_labels, n_groups
        self.utility, self.normalise, self.running = utility, normalise, running
        self.distributed, self.eps = distributed, eps
        self._last: tuple[Tensor | float, ...] | None = None
        self.level, self.bins = level, 0
        self.criterion, self.given = criterion, n_labels if criterion == "separation" else 1
        shape: tuple[int, ...] = (n_labels, self.given, n_groups)
        if level == "score":
            rows, scores = 512 / (1.0 - running), 1 if n_labels == 2 else n_labels
            self.bins = bins_for(rows, self.given * n_groups) if bins is None else check_bins(bins)
            shape = (scores, self.bins, self.given, n_groups)
            self.register_buffer("centres", torch.full(shape[:2], torch.nan, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(shape, dtype=torch.float64))

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
            logits: (B, n_labels); for two labels also one logit a row, (B,) or (B, 1).
            y, z: integer codes (B,). With utility "ce" a row of unknown group, z = −1, counts for
                the task only.
            features: h, any tensor that the logits were computed from, differentiated by autograd.
            head: the linear layer from h to the logits; the same update without B × H gradients.
            sample_weight: (B,), not negative.
        """
        check_tensor(logits, "logits")
        if self.n_labels == 2 and (logits.ndim == 1 or logits.shape[-1] == 1):
            logits = _two_columns(logits)
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
        z, known = _known(z) if self.utility == "ce" else (z, None)
        _size(z, self.n_groups, "z", "n_groups")
        with _full_precision(logits.device.type):
            lanes, (labels, groups), weight = _lanes(logits, (y, z), sample_weight, relative=False)
            ranks = self._ranks()
            with torch.no_grad():
                (task, cmi), n = self._terms(lanes, labels, groups, weight, known, ranks)
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
            for name in ("trade_off", "utility", "normalise", "running", "level", "criterion")
        )

    def _ranks(self) -> int:
        wanted = self.training if self.distributed is None else self.distributed
        on = wanted and distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if on else 1

    def _terms(
        self,
        logits: Tensor,
        y: Tensor,
        z: Tensor,
        weight: Tensor | None,
        known: Tensor | None,
        ranks: int,
    ) -> tuple[tuple[Term, Term], Tensor | float]:
        """Both terms, and the number of rows of all ranks."""
        log_p = torch.log_softmax(rows_last(logits), 1)
        p = log_p.exp()
        n: Tensor | float = float(max(p.shape[2], 1))
        if ranks > 1 or weight is not None:
            total = p.new_tensor([n], dtype=torch.float64) if weight is None else weight.sum(1)
            if ranks > 1:
                distributed.all_reduce(total)
            n = _number(total[0].clamp_min_(torch.finfo(torch.float64).tiny))
        of_known = weight
        if known is not None:
            of_known = known.double()[None] if weight is None else weight * known
        cell = torch.add(z, y, alpha=self.n_groups) if self.given > 1 else z
        count = self._draws if self.level == "draw" else self._scores
        cmi, counted, rows = count(p, cell, of_known, ranks)
        if known is not None or ranks > 1:  # the mean over the rows of known group
            share = n / rows.clamp_min(torch.finfo(torch.float64).tiny)
            factor = share if known is None else share * known
            cmi = Term(cmi.value, cmi.rows * factor.to(p.dtype))
        if self.utility == "ce":
            task = cross_entropy_term(log_p, p, y, 1.0 / n if weight is None else weight / n)
            if ranks > 1:
                distributed.all_reduce(task.value)
        else:
            u = mi_term(p, y, counted)
            task = Term(-u.value, -u.rows)
        return (task, cmi), n

    def _draws(
        self, p: Tensor, cell: Tensor, weight: Tensor | None, ranks: int
    ) -> tuple[Term, Tensor, Tensor]:
        """The violation of draws, their counts, and the rows of this batch in them."""
        shape = (self.given, self.n_groups)
        table = soft_table(p, cell, shape[0] * shape[1], weight).unflatten(2, shape)
        if ranks > 1:
            distributed.all_reduce(table)
        rows = table.sum()
        if self.running:
            table = table + self.running * self.counts.double()
            if self.training:
                self.counts.copy_(table[0])
        return cmi_term(p, cell, table, None if self.running else rows), table, rows

    def _scores(
        self, p: Tensor, cell: Tensor, weight: Tensor | None, ranks: int
    ) -> tuple[Term, Tensor, Tensor]:
        """The violation of the score, its counts, and the rows of this batch in them."""
        memory = {"centres": self.centres, "bins": self.counts.double()}
        shape = (self.bins, self.given, self.n_groups)
        others = Ranks(distributed.all_reduce, _gather) if ranks > 1 else None
        term, table, rows = running_term(p, cell, shape, weight, self.running, memory, others)
        if self.running and self.training:
            self.centres.copy_(memory["centres"])
            self.counts.copy_(memory["bins"])
        return term, table, rows

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
            if self.n_labels == 2 and len(w) == 1:
                w = torch.cat([torch.zeros_like(w), w])
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


def _two_columns(logits: Tensor) -> Tensor:
    """One logit a row as the logits (0, l) of two labels."""
    column = logits.reshape(-1, 1)
    return torch.cat([torch.zeros_like(column), column], 1)


def _known(z: Tensor) -> tuple[Tensor, Tensor | None]:
    """Group codes with unknown ones, −1, as 0; and which rows are known, None if all are."""
    known = z != -1
    if not torch.compiler.is_compiling() and bool(known.all()):
        return z, None
    return torch.where(known, z, 0), known


def _gather(rows: Tensor) -> Tensor:
    """Rows (N, B) of every rank side by side, filled up with zeros."""
    longest = torch.tensor([rows.shape[1]], device=rows.device)
    distributed.all_reduce(longest, distributed.ReduceOp.MAX)
    own = nn.functional.pad(rows, (0, int(longest) - rows.shape[1])).contiguous()
    every = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, own)
    return torch.cat(every, 1)


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
