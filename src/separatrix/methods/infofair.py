r"""InfoFair: a contrastive estimate of I(posterior; Z | Y), balanced like `cmi`.

    min  (1−λ) CE/‖∂_h CE‖ + λ Î/‖∂_h Î‖

With the normalised latent :math:`r = \sqrt{p}` (unit length, since p sums to one) and
:math:`\kappa_{ij} = \exp((\langle r_i, r_j\rangle - 1)/\tau)`, Î is log N minus the InfoNCE loss
whose positives are the rows of the same label and group, and whose candidates are the rows of the
same label:

.. math:: \hat I = E_i \log \frac{\mathrm{mean}\{\kappa_{ij} : j \ne i,\ y_j = y_i,\ z_j = z_i\}}
                               {\mathrm{mean}\{\kappa_{ij} : j \ne i,\ y_j = y_i\}}

which is a kernel estimate of I(R; Z | Y). A row without a positive, or without a row of another
group, within its label takes no part; without any such row Î = 0 and has no gradient.

The paper's label and version. The publication targets statistical parity of several groups at once
with a variational bound, without Y. The paper does not say how its latent is made from the logits:
√p keeps all of p, and does not change when a constant is added to the logits.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from separatrix.methods import Method
from separatrix.methods._grids import SHARE_GRIDS, TENTHS
from separatrix.nn.batch import Batch
from separatrix.nn.information import Term

TEMPERATURE = 0.1  # τ, as is usual for contrastive losses


def loss(batch: Batch, trade_off: Tensor) -> Tensor:
    """One loss per lane, (M,)."""
    return batch.loss([batch.cross_entropy, contrast(batch)], [1 - trade_off, trade_off])


def contrast(batch: Batch) -> Term:
    """Î and its derivative in closed form, in O(rows of a label²) per label and lane.

    A row of weight w stands for w equal rows.
    """
    p, n = batch.p, torch.as_tensor(batch.n, device=batch.logits.device)
    m, _, b = p.shape
    ones = torch.ones(m, b, dtype=p.dtype, device=p.device)
    weight = ones if batch.weight is None else batch.weight.expand(m, b)
    r = (batch.log_p / 2).exp().transpose(1, 2).contiguous()  # (M, B, K)
    value, of_latent = torch.zeros(m, dtype=torch.float64, device=p.device), torch.zeros_like(r)
    for some, rows, real in _alike(batch.y.expand(m, b), batch.n_labels):
        # (lanes · labels, rows of a label, …)
        latent, z, w = (t[some][:, rows].flatten(0, 1) for t in (r, batch.z.expand(m, b), weight))
        w = w * real.repeat(len(w) // len(real), 1)
        logarithms, slope = (
            t.unflatten(0, (-1, len(rows))) for t in _within(latent, z, w.unsqueeze(2), batch.n_groups)
        )
        value[some] += logarithms.sum(1)
        of_latent[some, rows[real]] = slope[:, real]
    of_log_p = (of_latent * r / 2).transpose(1, 2)
    gradient = of_log_p - p * of_log_p.sum(1, keepdim=True)
    per_row = torch.where(weight > 0, 1.0 / weight.clamp_min(torch.finfo(p.dtype).tiny), 0.0)
    return Term(value / n, gradient * per_row.unsqueeze(1))


def _alike(y: Tensor, n_labels: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Lanes and the rows of each of L labels, (L, R), and which of these are real: labels of
    similar size come together, filled up to the largest; all lanes if they see the same rows.
    """
    together = bool((y == y[:1]).all())
    for lane in range(1 if together else len(y)):
        some = slice(None) if together else slice(lane, lane + 1)
        sizes = y[lane].bincount(minlength=n_labels).tolist()
        labels = [rows for rows in y[lane].argsort(stable=True).split(sizes) if len(rows)]
        labels.sort(key=len, reverse=True)
        while labels:
            width = len(labels[0])
            alike = [rows for rows in labels if 2 * len(rows) >= width]
            labels = labels[len(alike) :]
            rows = torch.nn.utils.rnn.pad_sequence(alike, batch_first=True)
            length = torch.tensor(list(map(len, alike)), device=y.device)
            yield some, rows, torch.arange(width, device=y.device) < length.unsqueeze(1)


def _within(r: Tensor, z: Tensor, weight: Tensor, n_groups: int) -> tuple[Tensor, Tensor]:
    """Σ of the weighted logarithms among rows of one label (M,), and ∂/∂latent (M, B, K)."""
    ones = torch.ones_like(r[:, :, :1])
    left, right = torch.cat([r, -ones], 2) / TEMPERATURE, torch.cat([r, ones], 2)
    kernel = torch.bmm(left, right.transpose(1, 2)).exp_()
    group = z.unsqueeze(2)
    member = one_hot(z, n_groups).to(r.dtype) * weight  # (M, B, Z)
    itself = weight.clamp_max(1.0)
    # κ is symmetric, and a product with a thin matrix on the left is many times faster
    sums = torch.bmm(member.transpose(1, 2).contiguous(), kernel).transpose(1, 2).contiguous()
    sums.scatter_add_(2, group, -itself)  # κ_ii = 1
    size = member.sum(1, keepdim=True).expand_as(member)
    positives, candidates = sums.gather(2, group), sums.sum(2, keepdim=True)
    n_positives, n_candidates = size.gather(2, group) - itself, size.sum(2, keepdim=True) - itself

    valid = (n_positives > 0) & (n_candidates > n_positives) & (weight > 0) & (positives > torch.finfo(r.dtype).tiny)
    positives, candidates, n_positives, n_candidates = (
        torch.where(valid, x, ones) for x in (positives, candidates, n_positives, n_candidates)
    )
    share = torch.where(valid, weight, 0.0)
    log_ratio = positives.log() - n_positives.log() - candidates.log() + n_candidates.log()
    value = (share * log_ratio).sum((1, 2), dtype=torch.float64)

    # ∂/∂(sums): +1/positives in the row's own group, −1/candidates in each
    by_group = (share / candidates).neg().repeat(1, 1, n_groups).scatter_add_(2, group, share / positives)
    both = torch.cat([by_group, member], 2), torch.cat([member, by_group], 2)
    pull = torch.bmm(both[0], both[1].transpose(1, 2)).mul_(kernel)  # symmetric too
    return value, torch.bmm(r.transpose(1, 2).contiguous(), pull).transpose(1, 2) / TEMPERATURE


METHOD = Method(
    label="InfoFair",
    colour="#78a55a",
    reference="Kang et al. (2022), InfoFair: information-theoretic intersectional fairness; as in the paper",
    trade_offs=TENTHS,
    dataset_grids=SHARE_GRIDS,
    loss=loss,
)
