"""FairDRO: the paper's formula, and a better worst cell."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from batches import batch
from laws import RECIPE, reach
from separatrix.methods import Sample
from separatrix.methods.fair_dro import ETA, loss


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(2, 2), (4, 3)], ids=str)
def test_value_and_gradient_are_those_of_the_formula(sizes, weighted):
    """Up to the one factor per lane that the gradient norm is, cell by cell and by autograd."""
    b = batch(2, 60, *sizes, weight=weighted)
    trade_off = torch.tensor([0.3, 1.0], dtype=torch.float64)
    value = loss(b, trade_off)
    (gradient,) = torch.autograd.grad(value.sum(), b.logits)
    for lane, t in enumerate(trade_off):
        logits = b.logits[lane].detach().double().requires_grad_()
        weight = torch.ones(60) if b.weight is None else b.weight[lane]
        rows, losses = [], []
        for y in range(sizes[0]):
            for z in range(sizes[1]):
                here = (b.y[lane] == y) & (b.z[lane] == z)
                if weight[here].sum() > 0:
                    each = cross_entropy(logits[here], b.y[lane][here], reduction="none")
                    losses.append((each * weight[here]).sum() / weight[here].sum())
                    rows.append(weight[here].sum())
        cells, share = torch.stack(losses), torch.stack(rows).double()
        w = (1 - t) * share / share.sum() + t * torch.softmax(ETA * cells.detach(), 0)
        expected = (w * cells).sum()
        (slope,) = torch.autograd.grad(expected, logits)
        scale = value[lane].item() / expected.item()
        np.testing.assert_allclose(gradient[lane], slope * scale, rtol=2e-4, atol=2e-5 * scale)


def test_the_worst_cell_is_lifted():
    """One cell in twenty goes against the rule that the others obey: ERM gives it up, DRO does
    not.
    """
    rng = np.random.default_rng(0)
    n = 4000
    z = (rng.random(n) < 0.3).astype(int)
    y = np.where(z == 1, rng.random(n) < 0.15, rng.random(n) < 0.5).astype(int)
    X = (y * 1.5 - 1.2 * z)[:, None] + rng.normal(size=(n, 2))
    sample = Sample(X, y, z)
    reached = reach("fair_dro", sample, [0.0, 1.0], RECIPE)
    cell = y * 2 + z
    worst = []
    for q in reached.q:
        each = -np.log(q[np.arange(n), y])
        worst.append(max(each[cell == c].mean() for c in range(4)))
    assert worst[0] > 1.5
    assert worst[1] < 0.6 * worst[0]
