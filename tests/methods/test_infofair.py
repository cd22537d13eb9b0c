"""InfoFair: the contrastive estimate, its closed-form derivative, and what happens without a valid
pair.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from batches import batch
from laws import leaking, reach
from separatrix.methods.infofair import TEMPERATURE, contrast, loss


def contrast_by_loops(logits, y, z):
    """The definition, row by row, for autograd."""
    r = torch.softmax(logits, 1).sqrt()
    total = logits.new_zeros(())
    for i in range(len(y)):
        mine = [j for j in range(len(y)) if j != i and y[j] == y[i] and z[j] == z[i]]
        every = [j for j in range(len(y)) if j != i and y[j] == y[i]]
        if mine and len(every) > len(mine):
            kernel = ((r @ r[i] - 1) / TEMPERATURE).exp()
            total = total + kernel[mine].mean().log() - kernel[every].mean().log()
    return total / len(y)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 4)], ids=str)
def test_value_and_derivative_are_those_of_the_definition(sizes):
    b = batch(2, 30, *sizes)
    term = contrast(b)
    for lane in range(2):
        logits = b.logits[lane].detach().double().requires_grad_()
        expected = contrast_by_loops(logits, b.y[lane].tolist(), b.z[lane].tolist())
        (gradient,) = torch.autograd.grad(expected, logits)
        assert term.value[lane].item() == pytest.approx(expected.item(), rel=1e-3)
        np.testing.assert_allclose(term.rows[lane].T / 30, gradient, atol=2e-4 * gradient.abs().max().item())


def test_a_row_of_weight_w_is_w_rows():
    b = batch(1, 20, weight=True)
    repeat = b.weight[0].long()
    apart = replace(
        b, logits=b.logits[:, :].repeat_interleave(repeat, 1), weight=None,
        y=b.y.repeat_interleave(repeat, 1), z=b.z.repeat_interleave(repeat, 1),
    )  # fmt: skip
    together, single = contrast(b), contrast(apart)
    assert together.value.item() == pytest.approx(single.value.item(), rel=1e-4)
    np.testing.assert_allclose(
        together.rows.repeat_interleave(repeat, 2), single.rows, atol=1e-4 * single.rows.abs().max().item()
    )


def test_without_a_valid_pair_the_term_is_zero_and_so_is_its_derivative():
    b = batch(1, 12)
    for z in (torch.zeros_like(b.z), torch.arange(12)[None]):  # one group; every row a group of its own
        alone = replace(b, z=z, cells=torch.ones(1, 2, 12))
        term = contrast(alone)
        assert term.value.item() == 0
        assert (term.rows == 0).all()
        value = loss(alone, torch.tensor([0.5], dtype=torch.float64))
        (gradient,) = torch.autograd.grad(value.sum(), alone.logits)
        assert gradient.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3)], ids=str)
def test_a_strong_penalty_cuts_the_violation_by_four_fifths_and_keeps_utility(sizes):
    reached = reach("infofair", leaking(2000, *sizes), [0.0, 0.8])
    assert reached.v[0] > 0.03
    assert reached.v[1] < 0.2 * reached.v[0]
    assert reached.u[1] > 0.2 * reached.u[0]
