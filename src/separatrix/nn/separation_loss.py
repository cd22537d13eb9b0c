r"""SeparationLoss: Algorithm 1 of the paper for any PyTorch loop.

.. math:: (1-\lambda) \frac{L_{\mathrm{task}}}{n_{\mathrm{task}} + \epsilon}
          + \lambda \frac{\hat I_{\mathrm{CMI}}}{n_{\mathrm{cmi}} + \epsilon}, \qquad
          n_\bullet = \mathbb{E}_i \|\partial_{h_i} L_\bullet\|_2 \text{, detached}

The violation is that of a draw from the posterior (the paper's) or of the score in soft bins. With
the label axis of its table collapsed it is I(U;Z), the penalty for independence.

There are three ways to count: many labels by the cells that occur (`many_labels`), few by the full
table, and a plain batch of two labels on the CPU (`two_labels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from torch import Tensor, distributed, nn

from separatrix.core.binned_cmi import bins_for
from separatrix.core.numbers import one_number, one_of, whole_number
from separatrix.errors import InputError
from separatrix.nn.batch import EPSILON, head_norm
from separatrix.nn.binned import penalty_term
from separatrix.nn.information import (
    Ranks,
    Term,
    _lanes,
    _size,
    attach,
    check_tensor,
    cross_entropy_term,
    mi_term,
    rows_last,
)
from separatrix.nn.many_labels import MANY, Cells, Counts, posterior, violation

_TINY = torch.finfo(torch.float64).tiny
_MOST = 1 << 28  # numbers of a full table: 2 GB
Number = Tensor | float


class Last(NamedTuple):
    """Values of the last call of a loss, for logging."""

    task: float
    cmi: float
    task_norm: float
    cmi_norm: float


class Step(NamedTuple):
    """The two terms of a loss on one batch.

    Args:
        task, cmi: their values.
        norms: E_i ‖∂_{h_i}‖ of each at the features h; 1 if nobody asked.
        per_row: the factor of each from a row's part to the derivative of the mean.
        gradient: gradient(a, b) is a · (the rows' parts of the task) + b · (those of cmi) at the
            logits, (B, K). It may overwrite what it is made of, so it is called once.
    """

    task: Number
    cmi: Number
    norms: tuple[Number, Number]
    per_row: tuple[Number, Number]
    gradient: Callable[[Any, Any], Tensor]


class _Rows(NamedTuple):
    """One batch, checked.

    Args:
        logits: (B, K) with their graph.
        y, cell: codes (B,) of the labels and of the cells that v is read off.
        weight, seen: weights (B,), float64; the same with zeros for rows of unknown group.
        alike: whether all rows count once in both.
        features, head: h with its graph, or W (K, H); what the norms are taken with.
        ranks: number of processes that this batch is spread over.
    """

    logits: Tensor
    y: Tensor
    cell: Tensor
    weight: Tensor
    seen: Tensor
    alike: bool
    features: Tensor | None
    head: Tensor | None
    ranks: int

    def norm(self, gradient: Tensor) -> Tensor:
        """Row norms at the features, by autograd, of ∂L/∂logits (B, K)."""
        assert self.features is not None
        h = None
        if self.features.requires_grad and self.logits.requires_grad:
            (h,) = torch.autograd.grad(self.logits, self.features, gradient, retain_graph=True, allow_unused=True)
        if h is None:
            raise InputError("Logits were not computed from `features`: pass the tensor, with gradient, of the head.")
        return h.detach().double().flatten(1).norm(dim=1)


# Σ w CE; v; the norms of each row's two parts at the features, (2, B), or None; and `Step.gradient`
_Terms = tuple[Tensor, Tensor, Tensor | None, Callable[[Any, Any], Tensor]]


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
        label_groups: a coarser label of each label, integer codes (n_labels,), to condition on in
            its place: the penalty is I(U; Z | coarser label). With thousands of labels a batch has
            about one row in a cell (y, z), and its v is mostly noise; classes of labels have cells
            of many rows.

    From 100 labels on, only the cells that occur are counted, the running ones too, and no table
    grows with the labels squared; `torch.compile` then leaves this loss out of its graph.

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

    cells: Tensor
    counts: Tensor
    centres: Tensor
    label_groups: Tensor | None

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
        label_groups: ArrayLike | Tensor | None = None,
    ) -> None:
        super().__init__()
        one_of(criterion, "criterion", "separation", "independence")
        one_of(utility, "utility", "ce", "mi")
        one_of(level, "level", "draw", "score")
        if criterion == "independence" and label_groups is not None:
            raise InputError('criterion="independence" conditions on no label: no `label_groups`.')
        coarser = criterion == "independence" or label_groups is not None
        if utility == "mi" and (coarser or level == "score"):
            raise InputError('utility="mi" is that of a draw and needs the counts of the labels: pass utility="ce".')
        if not 0.0 <= one_number(trade_off, "trade_off") <= 1.0:
            raise InputError(f"`trade_off` is λ in [0, 1], got {trade_off}.")
        n_labels = whole_number(n_labels, "n_labels", least=2)
        n_groups = whole_number(n_groups, "n_groups", least=1)
        if running is None:
            running = 0.9 if level == "score" else 0.0
        if not 0.0 <= running < 1.0:
            raise InputError(f"`running` is a decay in [0, 1), got {running}.")
        self.trade_off, self.n_labels, self.n_groups = trade_off, n_labels, n_groups
        self.utility, self.normalise, self.running = utility, normalise, running
        self.distributed, self.eps, self.level, self.criterion = distributed, eps, level, criterion
        self._last: tuple[Number, ...] | None = None
        self.given, coarse = n_labels if criterion == "separation" else 1, None
        if label_groups is not None:
            coarse = torch.as_tensor(label_groups)
            self.given = _size(coarse, None, "label_groups", "the number of groups of labels")
            if coarse.shape != (n_labels,):
                got = tuple(coarse.shape)
                raise InputError(f"`label_groups` must have one code per label, shape ({n_labels},), got {got}.")
            coarse = coarse.long()
        self.register_buffer("label_groups", coarse, persistent=False)
        draws = level == "draw" and utility == "ce"
        self.many = draws and n_labels >= MANY
        # the commonest loss, which has a path of its own
        self.plain = draws and n_labels == 2 and not running and not coarser
        self.bins = 0
        shape: tuple[int, ...] = (n_labels, self.given, n_groups)
        if level == "score":
            rule = bins_for(512 / (1.0 - running), self.given * n_groups)
            self.bins = rule if bins is None else whole_number(bins, "bins", least=2)
            shape = (1 if n_labels == 2 else n_labels, self.bins, self.given, n_groups)
        if not self.many and math.prod(shape) > _MOST:
            raise InputError(
                f"{n_labels:,} labels need a table of {math.prod(shape):,} numbers for level={level!r}, "
                f'utility={utility!r}. Pass level="draw" and utility="ce", which count only the cells that occur.'
            )
        if running:
            if level == "score":
                centres = torch.full(shape[:2], torch.nan, dtype=torch.float64)
                self.register_buffer("centres", centres)
            if self.many:  # grows with the cells that occur
                self.register_buffer("cells", torch.zeros(0, dtype=torch.int64))
                shape = (0, n_labels)
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
            column = logits.reshape(-1, 1)
            logits = torch.cat([torch.zeros_like(column), column], 1)
        if logits.ndim != 2 or logits.shape[1] != self.n_labels:
            raise InputError(f"`logits` must have shape (B, {self.n_labels}), got {tuple(logits.shape)}.")
        if self.normalise and (features is None) == (head is None):
            raise InputError(
                "Pass `head=` (the linear layer that made the logits) or `features=` (the tensor h before it), one of "
                "them; or build the loss with normalise=False."
            )
        if logits.dtype != torch.float64:
            logits = logits.float()
        w = self._head_weight(head, logits.dtype) if self.normalise and head is not None else None
        with _full_precision(logits.device.type):
            step = None
            if self.plain and sample_weight is None and not torch.compiler.is_compiling():
                step = self._two(logits, y, z, w)
            if step is None:
                step = self._step(logits, y, z, sample_weight, features, w)
            eps = self.eps if self.normalise else 0.0
            of_task, of_cmi = (norm + eps for norm in step.norms)
            a, b = (1.0 - self.trade_off) / of_task, self.trade_off / of_cmi
            self._last = (step.task, step.cmi, of_task, of_cmi)
            value = torch.as_tensor(a * step.task + b * step.cmi, device=logits.device)
            gradient = step.gradient(a * step.per_row[0], b * step.per_row[1])
            shared = self.many and head is not None  # a linear head only reads what it is handed
            return attach(logits, value, gradient, shared)

    @property
    def last(self) -> Last | None:
        """Task loss, CMI and both gradient norms of the last call; None before the first."""
        return None if self._last is None else Last(*(float(value) for value in self._last))

    def extra_repr(self) -> str:
        names = ("trade_off", "utility", "normalise", "running", "level", "criterion")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def _ranks(self) -> int:
        wanted = self.training if self.distributed is None else self.distributed
        on = wanted and distributed.is_available() and distributed.is_initialized()
        return distributed.get_world_size() if on else 1

    def _two(self, logits: Tensor, y: Tensor, z: Tensor, head: Tensor | None) -> Step | None:
        """The terms of a plain batch of two labels on the CPU; None for every other batch."""
        if logits.device.type != "cpu" or (self.normalise and head is None) or self._ranks() > 1:
            return None
        for column, size in ((y, 2), (z, self.n_groups)):
            valid = isinstance(column, Tensor) and column.dtype == torch.int64 and column.device.type == "cpu"
            if not valid or column.shape != logits.shape[:1] or not len(column):
                return None
            codes = column.numpy()
            if codes.min() < 0 or codes.max() >= size:
                return None
        return two_labels(logits.detach(), y.numpy(), z.numpy(), self.n_groups, head)

    def _step(
        self,
        logits: Tensor,
        y: Tensor,
        z: Tensor,
        sample_weight: Tensor | None,
        features: Tensor | None,
        head: Tensor | None,
    ) -> Step:
        """The terms of any batch."""
        _size(y, self.n_labels, "y", "n_labels")
        known = z != -1 if self.utility == "ce" else None
        if known is not None and not torch.compiler.is_compiling() and bool(known.all()):
            known = None
        z = z if known is None else torch.where(known, z, 0)
        _size(z, self.n_groups, "z", "n_groups")
        _, (labels, groups), given = _lanes(logits, (y, z), sample_weight, relative=False)
        y, cell = labels[0], groups[0]
        if self.given > 1:
            label = y if self.label_groups is None else self.label_groups[y]
            cell = torch.add(cell, label, alpha=self.n_groups)
        every = torch.ones_like(y, dtype=torch.float64) if given is None else given[0]
        seen, alike = every if known is None else every * known, given is None and known is None
        ranks = self._ranks()
        rows = _Rows(logits, y, cell, every, seen, alike, features, head, ranks)
        with torch.no_grad():
            of_task, of_cmi, row_norms, gradient = self._many(rows) if self.many else self._few(rows)
            sums = torch.stack([every.sum(), seen.sum(), of_task])
            if row_norms is not None:
                sums = torch.cat([sums, (row_norms * torch.stack([every, seen])).sum(1)])
            if ranks > 1:
                distributed.all_reduce(sums)
            sums[:2].clamp_min_(_TINY)
            values = torch.cat([sums[:3], of_cmi.view(1), sums[3:]])
            # floats on the CPU, where reading them is free; tensors on other devices
            read = values.device.type == "cpu" and not torch.compiler.is_compiling()
            n, m, task, cmi, *norms = values.tolist() if read else values.unbind()
        of_norms = (norms[0] / n / n, norms[1] / n / m) if norms else (1.0, 1.0)
        # DistributedDataParallel's average over the ranks divides by their number
        return Step(task / n, cmi, of_norms, (ranks / n, ranks / m), gradient)

    def _few(self, rows: _Rows) -> _Terms:
        """The terms of few labels, by the full table."""
        log_p = torch.log_softmax(rows_last(rows.logits[None]), 1)
        p, y, cell = log_p.exp(), rows.y[None], rows.cell[None]
        weight, seen = rows.weight[None], None if rows.alike else rows.seen[None]
        memory = {name: getattr(self, name).double() for name in _MEMORY if hasattr(self, name)}
        others = Ranks(distributed.all_reduce, _gather) if rows.ranks > 1 else None
        shape = (self.bins, self.given, self.n_groups)
        cmi, counts = penalty_term(p, cell, shape, seen, self.running, memory, others)
        if self.training:
            for name, value in memory.items():
                getattr(self, name).copy_(value.view_as(getattr(self, name)))
        if self.utility == "ce":
            task = cross_entropy_term(log_p, p, y, 1.0 if rows.alike else weight)
        else:
            u = mi_term(p, y, counts)
            task = Term(-u.value * weight.sum(1), -u.rows)  # of all rows that are counted
        norms = None
        if rows.head is not None:
            norms = head_norm(torch.cat([task.rows, cmi.rows]), rows.head)
        elif self.normalise:
            norms = torch.stack([rows.norm(term.rows[0].T) for term in (task, cmi)])

        def gradient(a: Number, b: Number) -> Tensor:
            if not rows.alike:
                a, b = ((x * w).to(p.dtype) for x, w in ((a, rows.weight), (b, rows.seen)))
            return torch.mul(task.rows, a).add_(cmi.rows.mul_(b))[0].T

        return task.value[0], cmi.value[0], norms, gradient

    @torch.compiler.disable
    def _many(self, rows: _Rows) -> _Terms:
        """The terms of many labels, by the cells that occur."""
        y, code, head = rows.y, rows.cell, rows.head
        weight = None if rows.alike else rows.seen
        p, log_p = posterior(rows.logits.detach(), y)
        through_head = None if head is None else p @ head
        counts = self._counts(p, code, weight, rows.ranks)
        occurring = None if counts is None else counts.codes
        cells = Cells.from_codes(code, self.n_groups, self.n_labels, weight, occurring)
        cmi = violation(p, cells, weight, head, through_head, counts)
        total = (rows.seen if counts is None else counts.table).sum().clamp_min_(_TINY)
        norms = torch.zeros(2, len(y), dtype=torch.float64, device=y.device)
        if head is not None and through_head is not None and cmi.at_features is not None:
            norms[0] = (through_head - head[y]).norm(dim=1)
            norms[1].index_copy_(0, cells.rows, cmi.at_features.norm(dim=1).double())
        elif self.normalise:
            logits = p.scatter_add(1, y[:, None], -torch.ones_like(p[:, :1]))
            norms[0] = rows.norm(logits)
            of_cmi = cmi.q - cmi.s[:, None] * p[cells.rows]
            norms[1] = rows.norm(logits.zero_().index_copy_(0, cells.rows, of_cmi))

        def gradient(a: Number, b: Number) -> Tensor:
            """a w (p − 1[y]) + b w (q − s p), in the place of p."""
            of_task, of_cmi = rows.weight * a, rows.seen[cells.rows] * b
            of_p = of_task.index_add(0, cells.rows, cmi.s * of_cmi, alpha=-1)
            logits = p.mul_(of_p[:, None].to(p.dtype))
            logits.scatter_add_(1, y[:, None], -of_task[:, None].to(p.dtype))
            if rows.alike and isinstance(b, float):
                return logits.index_add_(0, cells.rows, cmi.q, alpha=b)  # a pass less
            return logits.index_add_(0, cells.rows, cmi.q.mul_(of_cmi[:, None].to(p.dtype)))

        task = -(log_p * rows.weight).sum()
        return task, cmi.value / total, norms if self.normalise else None, gradient

    def _counts(self, p: Tensor, code: Tensor, weight: Tensor | None, ranks: int) -> Counts | None:
        """Counts of all ranks and of steps before; None if this batch is all there is."""
        if ranks == 1 and not self.running:
            return None
        counts = Counts.from_rows(p, code, weight)
        if ranks > 1:
            every = _gather(counts.codes[None] + 1)[0]  # filled up with zeros
            counts = counts.at((every[every > 0] - 1).unique())
            distributed.all_reduce(counts.table)
        if self.running:
            counts = counts.after(Counts(self.cells, self.counts), self.running)
            if self.training:
                self.cells, self.counts = counts
        return counts

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in ("cells", "counts"):  # counts of many labels have the size of what occurred
            stored = state.get(prefix + name)
            if self.many and self.running and isinstance(stored, Tensor):
                setattr(self, name, torch.empty_like(stored, device=getattr(self, name).device))
        super()._load_from_state_dict(state, prefix, *rest)

    def _head_weight(self, head: nn.Linear, dtype: torch.dtype) -> Tensor:
        """W (n_labels, H), as a constant."""
        w = head.weight.detach().to(dtype)
        if self.n_labels == 2 and len(w) == 1:
            w = torch.cat([torch.zeros_like(w), w])
        if w.shape[0] != self.n_labels:
            raise InputError(f"`head` must have {self.n_labels} outputs, got {w.shape[0]}.")
        return w


_MEMORY = ("centres", "counts")


def _gather(rows: Tensor) -> Tensor:
    """Rows (N, B) of every rank side by side, filled up with zeros."""
    longest = torch.tensor([rows.shape[1]], device=rows.device)
    distributed.all_reduce(longest, distributed.ReduceOp.MAX)
    padded = nn.functional.pad(rows, (0, int(longest) - rows.shape[1])).contiguous()
    every = [torch.empty_like(padded) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, padded)
    return torch.cat(every, 1)


def _full_precision(device: str) -> AbstractContextManager[object]:
    """Out of mixed precision: the K × K products below would be rounded to half precision."""
    on = torch.is_autocast_enabled(device)
    return torch.autocast(device, enabled=False) if on else nullcontext()


def two_labels(logits: Tensor, y: NDArray[np.int64], z: NDArray[np.int64], n_groups: int, head: Tensor | None) -> Step:
    r"""Cross-entropy and I(U; Z | Y) of one batch of two labels, in a few small arrays.

    Let t be the true label's logit less the other one, and :math:`p = \sigma(t)` the truth's
    posterior. Then every derivative is one number a row, with z the row's group and g of its label:

    .. math:: n\,\partial_{t_i} L_{\mathrm{CE}} = -(1 - p_i), \qquad
              n\,\partial_{t_i} v = p_i (1 - p_i)\,(g[z_i,\text{right}] - g[z_i,\text{wrong}])

    and both norms at the features are mean absolute values times ‖w₁ − w₀‖. A batch of 512 rows
    takes microseconds, most of them in calls. NumPy's cost a third of PyTorch's, so a batch on the
    CPU is computed there, on the same memory. Values are those of `information`.

    Args:
        logits: constants (B, 2).
        y, z: codes (B,).
        head: W (2, H), for the norms.
    """
    x, n, cells = logits.numpy(), len(y), 2 * n_groups
    t = x[:, 1] - x[:, 0]
    sign = (2 * y - 1).astype(t.dtype)
    t *= sign
    right, wrong = expit(t), expit(-t)  # both, as 1 − p has no digits where p is near 1
    cell = y * n_groups + z
    # counts[u, y, z] with u = 0 for the right label: the violation does not care for its name
    counts = np.array([np.bincount(cell, right, cells), np.bincount(cell, wrong, cells)])
    counts = counts.reshape(2, 2, n_groups)
    of_cell = counts.sum(0)
    independent = counts.sum(2, keepdims=True) * of_cell
    ratio = counts * of_cell.sum(1)[:, None] / np.maximum(independent, _TINY)
    g = np.log(np.maximum(ratio, _TINY))
    of_cmi = right * wrong
    of_cmi *= (g[0] - g[1]).astype(t.dtype).ravel()[cell]
    norms = 1.0, 1.0
    if head is not None:
        w = head.numpy()
        between = w[1] - w[0]
        scale = float(between @ between) ** 0.5 / n / n
        norms = float(wrong.sum()) * scale, float(np.abs(of_cmi).sum()) * scale

    def gradient(a: float, b: float) -> Tensor:
        at_t = of_cmi * b
        at_t -= wrong * a
        both = np.empty((n, 2), at_t.dtype)
        np.multiply(at_t, sign, out=both[:, 1])
        np.negative(both[:, 1], out=both[:, 0])
        return torch.from_numpy(both)

    # −log σ(t), whatever t
    task = float((np.log1p(np.exp(-np.abs(t))) - np.minimum(t, 0.0)).sum()) / n
    return Step(task, float(np.vdot(counts, g)) / n, norms, (1.0 / n, 1.0 / n), gradient)
