r"""Soft MI and CMI of a batch of logits, with their derivatives in closed form.

The soft counts are :math:`T[y,z,u] = \sum_i w_i\, p_i(u)\, 1\{y_i = y, z_i = z\}`, with p the
softmax of the logits l. For :math:`v = I(U;Z \mid Y)` of the law T/n,

.. math:: g[y,z,u] = \log T_{yzu} - \log T_{y\cdot u} - \log T_{yz\cdot} + \log T_{y\cdot\cdot}

.. math:: \frac{\partial v}{\partial l_i}
          = \frac{w_i}{n}\, p_i \odot (g_i - \langle p_i, g_i \rangle),
          \quad g_i = g[y_i, z_i, \cdot]

Autograd through x log x gives NaN at an empty cell or a saturated logit; this form is finite there,
because g is only ever multiplied by the p that made its cell positive. Tables are float64 whatever
the logits are: a CMI of 1e-9 is below the rounding of float32. Tensors may carry one leading lane
axis, (M, B, K); lanes never mix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from separatrix.errors import InputError
from separatrix.nn.many_labels import MANY, Cells, violation

# the least positive normal number: takes the place of 0 inside a log only
_TINY = torch.finfo(torch.float64).tiny


class Term(NamedTuple):
    """A mean of each lane, (M,), and its derivative at the logits row by row, (M, K, B).

    ∂ value/∂ logits is the row's weight over n times `rows`. Rows come last because sums over few
    labels and products with a thin head are then many times faster.
    """

    value: Tensor
    rows: Tensor


def soft_cmi(
    logits: Tensor,
    y: Tensor,
    z: Tensor,
    n_labels: int | None = None,
    n_groups: int | None = None,
    sample_weight: Tensor | None = None,
) -> Tensor:
    r"""Separation violation of the randomised policy softmax(logits) on this batch.

    .. math:: v = I(U; Z \mid Y), \quad \text{read off the soft counts}

    Differentiable once, with respect to the logits. A batch may lack labels or groups.

    Args:
        logits: (B, K), or (M, B, K) for M lanes at once.
        y, z: integer codes (B,), or (M, B).
        n_labels, n_groups: sizes of the table; by default the largest code of the batch plus one.
        sample_weight: (B,) or (M, B), not negative.

    Returns:
        A scalar, or (M,): float64 for float64 logits, float32 otherwise.

    >>> logits = torch.tensor([[9.0, -9.0], [-9.0, 9.0]], requires_grad=True)  # copies the group
    >>> v = soft_cmi(logits, torch.tensor([0, 0]), torch.tensor([0, 1]))
    >>> v.backward()
    >>> round(v.item(), 4), bool(logits.grad.isfinite().all())
    (0.6931, True)
    """
    y_size, z_size = _size(y, n_labels, "y", "n_labels"), _size(z, n_groups, "z", "n_groups")
    stacked, (labels, groups), weight = _lanes(logits, (y, z), sample_weight)
    cell, cells = labels * z_size + groups, y_size * z_size
    # many labels, or a table larger than the batch: by the cells that occur
    many = stacked.shape[2] >= MANY or cells > max(stacked.shape[1], 4096)
    if many and not torch.compiler.is_compiling():
        return _out_rows(logits, stacked, cell, (y_size, z_size), weight)
    p = torch.softmax(rows_last(stacked), 1)
    table = soft_table(p, cell, cells, weight).unflatten(2, (y_size, z_size))
    return _out(logits, stacked, cmi_term(p, cell, table), weight)


def soft_mi(logits: Tensor, y: Tensor, n_labels: int | None = None, sample_weight: Tensor | None = None) -> Tensor:
    r"""Utility of the randomised policy softmax(logits) on this batch, :math:`u = I(U; Y)`.

    The same as `soft_cmi` with the labels as groups of one common label; arguments as there.

    >>> round(soft_mi(torch.tensor([[9.0, -9.0], [-9.0, 9.0]]), torch.tensor([0, 1])).item(), 4)
    0.6931
    """
    size = _size(y, n_labels, "y", "n_labels")
    return soft_cmi(logits, torch.zeros_like(y), y, 1, size, sample_weight)


def soft_table(p: Tensor, cell: Tensor, cells: int, weight: Tensor | None = None) -> Tensor:
    """Sums of the posteriors p (M, K, B) by cell (M, B): float64 (M, K, cells)."""
    rows = p.double() if weight is None else p.double() * weight.unsqueeze(1)
    table = torch.zeros(*p.shape[:2], cells, dtype=torch.float64, device=p.device)
    return table.scatter_add_(2, cell.unsqueeze(1).expand_as(rows), rows)


class Ranks(NamedTuple):
    """Other processes: `add` sums a tensor over them in place, `gather` joins (N, B) along rows.

    Ranks with fewer rows are filled up with zeros.
    """

    add: Callable[[Tensor], object]
    gather: Callable[[Tensor], Tensor]


def running_counts(table: Tensor, running: float, memory: dict[str, Tensor], ranks: Ranks | None = None) -> Tensor:
    """The counts of a batch with those of other ranks and of earlier steps.

    Args:
        table: of the batch, (N, …).
        running: decay of `memory["counts"]`, which is read and replaced if it is not zero.
    """
    if ranks is not None:
        ranks.add(table)
    if running:
        table = memory["counts"] = table + running * memory.get("counts", torch.zeros_like(table))
    return table


def log_ratio(table: Tensor) -> Tensor:
    """g of the table (M, U, Y, Z); finite everywhere, without meaning where the table is zero."""
    of_group = table.sum(1, keepdim=True)
    independent = table.sum(3, keepdim=True) * of_group
    ratio = table * of_group.sum(3, keepdim=True) / independent.clamp_min_(_TINY)
    return ratio.clamp_min_(_TINY).log_()


def cmi_term(p: Tensor, cell: Tensor, table: Tensor) -> Term:
    """I(U; Z | Y) of `table` (M, U, Y, Z) and its derivative through the rows of this batch.

    Args:
        p: posteriors (M, U, B).
        cell: y · n_groups + z of each row, (M, B).
        table: soft counts. It may hold more than the batch (a running table, other ranks): the
            derivative is that of a sample average, E[⟨g[y,z,·], ∂p⟩], in which only g is read off
            the table.
    """
    g = log_ratio(table)
    value = (table * g).sum((1, 2, 3)) / table.sum((1, 2, 3)).clamp_min_(_TINY)
    rows = g.to(p.dtype).flatten(2).gather(2, cell.unsqueeze(1).expand_as(p))
    return Term(value, p * (rows - (p * rows).sum(1, keepdim=True)))


def mi_term(p: Tensor, y: Tensor, table: Tensor) -> Term:
    """I(U; Y) of `table` (M, U, Y, Z), whose groups are summed out; arguments as in `cmi_term`."""
    return cmi_term(p, y, table.sum(3).unsqueeze(2))


def cross_entropy_term(log_p: Tensor, p: Tensor, y: Tensor, share: Tensor | float) -> Term:
    """Cross-entropy of log-posteriors (M, K, B); `share` (M, B) or float is each weight over n."""
    label = y.unsqueeze(1)
    of_label = log_p.gather(1, label).squeeze(1)
    if isinstance(share, Tensor):
        value = (of_label * share).sum(1, dtype=torch.float64).neg_()
    else:
        value = of_label.sum(1, dtype=torch.float64).mul_(-share)
    return Term(value, p - torch.zeros_like(p).scatter_(1, label, 1.0))


class _Attach(torch.autograd.Function):
    """A value whose derivative at the logits is known already."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, value: Tensor, gradient: Tensor, shared: bool) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.shared = shared
        return value.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        if not (ctx.shared and bool((upstream == 1.0).all())):
            factor = upstream[:, None, None] if upstream.ndim else upstream
            gradient = gradient * factor.to(gradient.dtype)
        return gradient, None, None, None


def attach(logits: Tensor, value: Tensor, gradient: Tensor, shared: bool = False) -> Tensor:
    """`value` (M,) or () as a function of `logits` whose derivative is `gradient`, (M, B, K) both.

    With `shared`, a backward pass from 1 hands out `gradient` itself: a copy less, where whatever
    made the logits only reads it.
    """
    result: Tensor = _Attach.apply(logits, value.to(logits.dtype), gradient, shared)
    return result


def rows_last(logits: Tensor) -> Tensor:
    """Logits (M, B, K) as constants (M, K, B)."""
    return logits.detach().transpose(1, 2).contiguous()


def _out(logits: Tensor, lanes: Tensor, term: Term, weight: Tensor | None) -> Tensor:
    if weight is None:
        rows = term.rows * (1.0 / max(logits.shape[-2], 1))
    else:
        rows = term.rows * weight.unsqueeze(1).to(term.rows.dtype)
    value = attach(lanes, term.value, rows.transpose(1, 2))
    return value if logits.ndim == 3 else value.squeeze(0)


def _out_rows(logits: Tensor, lanes: Tensor, cell: Tensor, shape: tuple[int, int], weight: Tensor | None) -> Tensor:
    """I(U; Z | Y) of cells y · Z + z (M, B) by way of `many_labels`; `shape` is (Y, Z)."""
    lane = torch.arange(len(lanes), device=lanes.device)[:, None]
    code = (cell + lane * (shape[0] * shape[1])).flatten()  # a lane's labels are its own
    share = torch.full_like(cell, 1.0 / max(cell.shape[1], 1), dtype=torch.float64)
    share = (share if weight is None else weight).flatten()
    p = torch.softmax(lanes.detach().flatten(0, 1), 1)
    cells = Cells.from_codes(code, shape[1], p.shape[1], share)
    term, factor = violation(p, cells, share), share[cells.rows]
    value = share.new_zeros(len(lanes)).index_add_(0, cells.rows // cell.shape[1], term.s * factor)
    rows = term.q.addcmul_(p[cells.rows], term.s[:, None], value=-1.0)
    rows *= factor[:, None].to(p.dtype)
    result = attach(lanes, value, p.zero_().index_copy_(0, cells.rows, rows).view_as(lanes))
    return result if logits.ndim == 3 else result.squeeze(0)


def _lanes(
    logits: Tensor, codes: tuple[Tensor, ...], weight: Tensor | None, relative: bool = True
) -> tuple[Tensor, list[Tensor], Tensor | None]:
    """Everything with a lane axis, the logits in at least float32."""
    check_tensor(logits, "logits")
    if logits.ndim not in (2, 3):
        raise InputError(f"`logits` must have shape (B, K), or (M, B, K) for M lanes, got {tuple(logits.shape)}.")
    stacked = logits if logits.ndim == 3 else logits.unsqueeze(0)
    if stacked.dtype != torch.float64:
        stacked = stacked.float()
    shape = stacked.shape[:2]
    for name, column in (*zip("yz", codes, strict=False), ("sample_weight", weight)):
        if column is not None and column.shape not in (shape, shape[1:]):
            shapes = f"{tuple(shape[1:])} or {tuple(shape)}, got {tuple(column.shape)}"
            raise InputError(f"`{name}` must have one entry per row of `logits`, shape {shapes}.")
    if weight is not None:
        valid = (weight >= 0) & weight.isfinite()
        if not torch.compiler.is_compiling() and not bool(valid.all()):
            raise InputError("`sample_weight` must be finite and not negative.")
        weight = weight.detach().double().expand(shape)
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(_TINY) if relative else weight
    return stacked, [column.long().expand(shape) for column in codes], weight


def check_tensor(value: Tensor, name: str) -> None:
    """Refuse what is no tensor."""
    if not isinstance(value, Tensor):
        raise InputError(f"`{name}` must be a torch tensor, got {type(value).__name__}.")


def _size(codes: Tensor, size: int | None, name: str, size_name: str) -> int:
    """The number of levels; codes are checked, as one beyond it would fall into another cell."""
    check_tensor(codes, name)
    if codes.dtype.is_floating_point or codes.dtype.is_complex:
        raise InputError(f"`{name}` must hold integer codes, got {codes.dtype}.")
    if size is not None and torch.compiler.is_compiling():  # reading a value would break the graph
        return size
    low, high = (int(v) for v in torch.aminmax(codes)) if codes.numel() else (0, -1)
    if low < 0 or (size is not None and high >= size):
        last = "" if size is None else f" = {size - 1}"
        code = low if low < 0 else high
        raise InputError(f"`{name}` holds the code {code}; codes run from 0 to {size_name} − 1{last}.")
    return max(high + 1, 1) if size is None else size
