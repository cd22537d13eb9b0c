"""FairDRO: the losses of the (Y, Z) cells, weighted towards the worst one.

    L = Σ_g ((1−λ) w_erm(g) + λ w_dro(g)) L_g,    w_erm(g) = n_g/n,    w_dro = softmax(η L_g)

over the cells g of the batch, with constant weights, divided by the gradient norm like every loss
of the paper. λ = 0 is `erm`.

The paper's label and version: soft worst-group weights. The publication is class-wise: within each
label, a χ² ball around the groups' shares. Neither aims at I(U; Z | Y) = 0: equal *losses* of two
cells (y, z) and (y, z') make the posteriors of label y alike only on average, and cells of
different labels are compared as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from separatrix.methods import Method
from separatrix.methods._grids import SHARE_GRIDS, TENTHS
from separatrix.nn.batch import Batch
from separatrix.nn.information import Term

ETA = 5.0  # η, not stated in the paper; with 5, λ has the effect that its tables show


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    task = batch.cross_entropy
    row_loss = -batch.log_p.gather(1, batch.y.unsqueeze(1)).squeeze(1).double()
    weight = torch.ones_like(row_loss) if batch.weight is None else batch.weight.double()
    cell = batch.cell
    zeros = row_loss.new_zeros(len(cell), batch.n_labels * batch.n_groups)
    rows = zeros.scatter_add(1, cell, weight)
    tiny = torch.finfo(rows.dtype).tiny
    cell_loss = zeros.scatter_add(1, cell, weight * row_loss) / rows.clamp_min(tiny)
    seen = rows > 0
    share = rows / rows.sum(1, keepdim=True)
    worst = torch.softmax((ETA * cell_loss).masked_fill(~seen, -torch.inf), 1)
    a = (1 - trade_off[:, None]) * share + trade_off[:, None] * worst
    # a row of cell g counts a(g)/w_erm(g) times as much as under ERM
    ratio = torch.where(seen, a / share.clamp_min(tiny), 0.0).gather(1, cell)
    term = Term((a * cell_loss).sum(1), task.rows * ratio.to(task.rows.dtype).unsqueeze(1))
    return batch.loss([term], [torch.ones_like(trade_off)])


METHOD = Method(
    label="FairDRO",
    colour="#e69f00",
    reference="Jung et al. (2023), Re-weighting based group fairness regularization via classwise "
    "robust optimization; as in the paper",
    trade_offs=TENTHS,
    dataset_grids=SHARE_GRIDS,
    loss=loss,
)
