"""Fair Dummy: the dummy half is an exact mean, and no discriminator can tell real from dummy at the
end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from batches import batch
from laws import leaking, reach
from separatrix.methods.fair_dummy import adversary_loss


@pytest.mark.nightly
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3)], ids=str)
def test_a_strong_rival_cuts_the_violation_by_four_fifths_and_keeps_utility(sizes):
    reached = reach("fair_dummy", leaking(3000, *sizes), [0.0, 8.0**6])
    assert reached.v[0] > 0.03
    assert reached.v[1] < 0.2 * reached.v[0]
    assert reached.u[1] > 0.25 * reached.u[0]


def test_the_dummy_half_is_the_mean_over_draws():
    """L of the module is the expectation of the textbook loss with one draw Z̃ ~ P̂(Z | Y) a
    row.
    """
    b = batch(lanes=1, rows=40, n_labels=3, n_groups=3)
    outputs = torch.randn(1, 40, 3, generator=torch.Generator().manual_seed(1))
    b = replace(b, adversary=lambda x: outputs)
    p = np.asarray(b.cells[0] / b.cells[0].sum(1, keepdim=True))[b.y[0]]
    real = torch.nn.functional.softplus(-outputs[0, torch.arange(40), b.z[0]])
    rng, dummy = np.random.default_rng(0), []
    for _ in range(4000):
        drawn = (rng.random((40, 1)) > p.cumsum(1)).sum(1).clip(max=2)
        dummy.append(torch.nn.functional.softplus(outputs[0, torch.arange(40), drawn]).mean().item())
    expected = (real.mean().item() + np.mean(dummy)) / 2
    assert adversary_loss(b).item() == pytest.approx(expected, abs=4 * np.std(dummy) / np.sqrt(4000) / 2)


def test_log_2_is_the_loss_of_a_discriminator_that_knows_nothing():
    b = replace(batch(lanes=2, rows=30), adversary=lambda x: torch.zeros(2, 30, 2))
    np.testing.assert_allclose(adversary_loss(b), np.log(2), rtol=1e-6)
