"""SeparationLoss(criterion="independence"): the penalty I(U;Z) for demographic parity."""

from __future__ import annotations

import pytest

from separatrix.errors import InputError

torch = pytest.importorskip("torch")

from separatrix.nn import SeparationLoss  # noqa: E402


@pytest.mark.parametrize("level", ["draw", "score"])
def test_independence_is_the_penalty_with_the_label_axis_collapsed(level):
    """Its gradient is that of the separation penalty of rows with one label; I(U;Z) falls."""
    torch.manual_seed(0)
    z = torch.randint(0, 2, (256,))
    y = (torch.rand(256) < 0.3 + 0.4 * z).long()
    X = torch.randn(256, 3) + y[:, None] + 0.5 * z[:, None]
    W = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    found = []
    for labels, criterion in ((y, "independence"), (torch.zeros_like(y), "separation")):
        logits = (X.double() @ (W + torch.tensor([0.0, 0.3]))).requires_grad_()
        loss = SeparationLoss(1.0, 2, 2, normalise=False, level=level, running=0.0, bins=4, criterion=criterion)
        value = loss(logits, labels, z)
        (gradient,) = torch.autograd.grad(value, logits)
        found.append((value.detach(), gradient))
    torch.testing.assert_close(*(value for value, _ in found))
    torch.testing.assert_close(*(gradient for _, gradient in found))


def test_training_for_independence_lowers_the_parity_gap():
    torch.manual_seed(1)
    z = torch.randint(0, 2, (600,))
    y = (torch.rand(600) < 0.3 + 0.4 * z).long()
    X = torch.randn(600, 2) + 1.5 * y[:, None] + torch.stack([z, z], 1)
    gaps = []
    for trade_off in (0.0, 0.9):
        head = torch.nn.Linear(2, 2)
        step = torch.optim.Adam(head.parameters(), lr=0.05)
        loss = SeparationLoss(trade_off, 2, 2, normalise=False, criterion="independence")
        for _ in range(150):
            step.zero_grad()
            loss(head(X), y, z).backward()
            step.step()
        p = torch.softmax(head(X), 1)[:, 1].detach()
        gaps.append(float((p[z == 1].mean() - p[z == 0].mean()).abs()))
    assert gaps[1] < 0.5 * gaps[0]


@pytest.mark.parametrize("given", [{"criterion": "parity"}, {"criterion": "independence", "utility": "mi"}])
def test_criteria_that_the_loss_does_not_know_are_refused(given):
    with pytest.raises(InputError):
        SeparationLoss(0.5, 2, 2, **given)
