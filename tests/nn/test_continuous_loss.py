"""The penalty for numeric outcomes and attributes: finite differences, counting, training."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.core.conditional_cmi import ConditionalCMI, attribute_bins, rank_violation
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError

torch = pytest.importorskip("torch")

from separatrix.nn import ContinuousSeparationLoss, continuous_cmi  # noqa: E402


def rows(seed=0, n=3000):
    g = torch.Generator().manual_seed(seed)
    z = torch.randint(0, 2, (n,), generator=g)
    y = torch.randn(n, generator=g, dtype=torch.float64) + z
    X = torch.stack([y + 0.7 * torch.randn(n, generator=g, dtype=torch.float64), z.double()], 1)
    return X, y, z


def test_value_and_gradient_are_those_of_the_closed_form():
    """Which `tests/core/test_conditional_cmi.py` compares with finite differences."""
    X, y, z = rows(0, 500)
    u = X[:, 0].clone().requires_grad_()
    v = continuous_cmi(u, y, z)
    (3.0 * v).backward()
    cmi = ConditionalCMI.from_outcome(y.numpy(), z.numpy(), 2)
    found = cmi(u.detach().numpy(), cmi.centres(u.detach().numpy(), 8))
    assert v.item() == pytest.approx(found.value, abs=1e-12)
    assert u.grad.numpy() == pytest.approx(3.0 * found.gradient, abs=1e-12)


def test_the_value_is_that_of_counting_where_the_output_is_on_the_centres():
    """Two labels and an output of two values: I(U; Z | Y) of the table."""
    g = np.random.default_rng(1)
    y, z = g.integers(0, 2, (2, 4000))
    u = (g.random(4000) < 0.3 + 0.2 * y + 0.3 * z).astype(float)
    table = np.zeros((2, 2, 2))
    np.add.at(table, (y, z, u.astype(int)), 1)
    found = continuous_cmi(*(torch.from_numpy(x) for x in (u, y, z)), bins=2)
    # t has two values for each label: four in all, of which the outer two are the centres
    assert 0.3 * conditional_mutual_information(table) < found.item()
    assert found.item() <= conditional_mutual_information(table) + 1e-12


@pytest.mark.slow
def test_full_batch_training_with_a_warm_start_separates():
    X, y, z = rows(2)
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.7, 0.3]]))
    criterion = ContinuousSeparationLoss(0.0)
    optimiser = torch.optim.Adam(model.parameters(), 0.04)
    seen = []
    for step in range(120):
        criterion.penalty = 10.0 * min(1.0, step / 60)
        optimiser.zero_grad()
        criterion(model(X), y, z).backward()
        optimiser.step()
        seen.append(criterion.last["violation"])
    X2, y2, z2 = rows(3, 20_000)
    out = model(X2).detach().numpy().ravel()
    assert seen[0] > 0.02
    assert rank_violation(y2.numpy(), out, z2.numpy(), 2) < 0.003
    assert 1 - np.mean((y2.numpy() - out) ** 2) / y2.numpy().var() > 0.6


def test_a_memory_makes_small_batches_see_the_whole():
    """v of batch and memory is that of their union; its gradient stands for all rows."""
    X, y, z = rows(4, 1024)
    u = X[:, 0].clone().requires_grad_()
    whole = continuous_cmi(u, y, z)
    criterion = ContinuousSeparationLoss(1.0, memory=768)
    for k in range(3, 0, -1):
        part = slice(256 * k, 256 * (k + 1))
        criterion(u[part].detach(), y[part], z[part])
    assert len(criterion.history) == 768
    batch = u[:256].detach().clone().requires_grad_()
    criterion(batch, y[:256], z[:256])
    assert criterion.last["violation"] == pytest.approx(whole.item(), abs=1e-12)
    criterion.eval()
    before = criterion.history.clone()
    criterion(batch, y[:256], z[:256])
    assert torch.equal(criterion.history, before)


def test_labels_with_a_numeric_attribute():
    g = torch.Generator().manual_seed(5)
    age = torch.rand(4000, generator=g) * 60 + 18
    y = (torch.rand(4000, generator=g) < 0.5).long()
    logit = (y + torch.randn(4000, generator=g) + 0.03 * (age - 48)).requires_grad_()
    criterion = ContinuousSeparationLoss(5.0, "labels", "continuous")
    criterion(logit, y, age).backward()
    codes = attribute_bins(age.double().numpy())
    cmi = ConditionalCMI.from_outcome(y.double().numpy(), codes, 8)
    u = logit.detach().double().numpy()
    assert criterion.last["violation"] == pytest.approx(cmi(u, cmi.centres(u, 8)).value, abs=1e-9)
    old = logit.grad[age > 60].mean()
    assert old > 0  # older people's logits are to fall


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ContinuousSeparationLoss(-1.0), "`penalty` is β, finite and not negative"),
        (lambda: ContinuousSeparationLoss(1.0, "labels"), "use `SeparationLoss`"),
        (lambda: ContinuousSeparationLoss(1.0, "y"), "`target` must be"),
        (lambda: ContinuousSeparationLoss(1.0, bins=1), "`bins` at least 2"),
        (lambda: continuous_cmi(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)), "shape"),
        (lambda: continuous_cmi(torch.zeros(3), torch.zeros(3), torch.rand(3)), "integer codes"),
        (lambda: continuous_cmi(torch.zeros(3), torch.zeros(2), torch.zeros(3)), "`y` must be 3"),
    ],
)
def test_bad_input_is_one_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
