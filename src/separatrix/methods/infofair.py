r"""InfoFair: a contrastive estimate of what the posterior says about the group within each label, balanced like `cmi`.

    min  (1−λ) CE/‖∂_h CE‖ + λ Î/‖∂_h Î‖

With the normalised latent :math:`r = \sqrt{p}` (unit length, since p sums to one) and
:math:`\kappa_{ij} = \exp((\langle r_i, r_j\rangle - 1)/\tau)`, Î is log N minus the InfoNCE loss whose positives are the rows
of the same label and group, and whose candidates are the rows of the same label:

.. math:: \hat I = E_i \log \frac{\mathrm{mean}\{\kappa_{ij} : j \ne i,\ y_j = y_i,\ z_j = z_i\}}
                               {\mathrm{mean}\{\kappa_{ij} : j \ne i,\ y_j = y_i\}}

which is a kernel estimate of I(R; Z | Y). A row without a positive, or without a row of another group, within its label
takes no part; without any such row Î = 0 and has no gradient.

The paper's label and version. The publication targets statistical parity of several groups at once with a variational
bound, and knows no Y. The paper says that its latent is made from the logits, not how: the square roots of the posterior
lose nothing of it, and do not change when a constant is added to the logits, which normalised logits do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from separatrix.methods import PAPER, TUNED, Method
from separatrix.methods._grids import SHARE_GRIDS, TENTHS
from separatrix.nn.balance import Lanes
from separatrix.nn.information import Term
from separatrix.nn.lanes import Batch

TEMPERATURE = 0.1  # τ, as is usual for contrastive losses


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    lanes = Lanes.of(batch)
    return lanes.loss([lanes.cross_entropy(), contrast(batch, lanes)], [1 - trade_off, trade_off])


def contrast(batch: Batch, lanes: Lanes) -> Term:
    """Î and its derivative in closed form: O(B²) numbers a lane, and no graph over them.

    A row of weight w stands for w rows, its own copies among them.
    """
    p, n = lanes.p, lanes.n
    m, _, b = p.shape
    weight = torch.ones(m, b, dtype=p.dtype, device=p.device) if batch.weight is None else batch.weight
    tiny = torch.finfo(p.dtype).tiny
    r = (lanes.log_p / 2).exp().transpose(1, 2)  # (M, B, K)
    kernel = torch.baddbmm(r.new_full((), -1 / TEMPERATURE), r, r.transpose(1, 2), alpha=1 / TEMPERATURE).exp_()

    shape = (batch.n_labels, batch.n_groups)
    cell = (batch.y * batch.n_groups + batch.z).unsqueeze(2)
    member = one_hot(cell.squeeze(2), shape[0] * shape[1]).to(p.dtype) * weight.unsqueeze(2)  # (M, B, cells)
    itself = weight.clamp_max(1.0).unsqueeze(2)
    sums = torch.bmm(kernel, member).scatter_add_(2, cell, -itself)  # κ_ii = 1
    label = batch.y.unsqueeze(2)
    own = sums.gather(2, cell)
    every = sums.unflatten(2, shape).sum(3).gather(2, label)
    size = member.sum(1)
    n_own = size.gather(1, cell.squeeze(2)).unsqueeze(2) - itself
    n_every = size.unflatten(1, shape).sum(2).gather(1, batch.y).unsqueeze(2) - itself

    valid = (n_own > 0) & (n_every > n_own) & (weight.unsqueeze(2) > 0) & (own > tiny)
    one = torch.ones((), dtype=p.dtype, device=p.device)
    own, every, n_own, n_every = (torch.where(valid, part, one) for part in (own, every, n_own, n_every))
    share = torch.where(valid, weight.unsqueeze(2) / torch.as_tensor(n, device=p.device).reshape(-1, 1, 1), 0.0)
    value = (share * (own.log() - n_own.log() - every.log() + n_every.log())).sum((1, 2), dtype=torch.float64)

    # ∂Î/∂(sums): +1/own in the row's own cell, −1/every in each cell of its label
    down = (share / every).neg().expand(-1, -1, shape[1])
    by_cell = torch.zeros_like(sums).unflatten(2, shape)
    by_cell.scatter_(2, label.unsqueeze(3).expand(-1, -1, 1, shape[1]), down.unsqueeze(2))
    by_cell = by_cell.flatten(2).scatter_add_(2, cell, share / own)
    pull = torch.bmm(by_cell, member.transpose(1, 2)).mul_(kernel)
    of_latent = (torch.bmm(pull, r) + torch.bmm(pull.transpose(1, 2), r)) / TEMPERATURE
    of_log_p = (of_latent * r / 2).transpose(1, 2)
    gradient = of_log_p - p * of_log_p.sum(1, keepdim=True)
    per_row = torch.where(weight > 0, torch.as_tensor(n, device=p.device).reshape(-1, 1) / weight.clamp_min(tiny), 0.0)
    return Term(value, gradient * per_row.unsqueeze(1))


METHOD = Method(
    label="InfoFair",
    colour="#78a55a",
    reference="Kang et al. (2022), InfoFair: information-theoretic intersectional fairness; as in the paper",
    trade_offs=TENTHS,
    dataset_grids=SHARE_GRIDS,
    loss=loss,
    recipes={"default": TUNED, "paper": PAPER},
    erm_at_zero=True,
)
