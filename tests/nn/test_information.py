"""The soft information of a batch against loops, autograd and the theorems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import separatrix as sx
from separatrix.errors import InputError

torch = pytest.importorskip("torch")


@st.composite
def batches(draw: st.DrawFn):
    """Logits, labels, groups, weights; labels and groups may be absent, logits may be saturated."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    b, k = draw(st.integers(1, 40)), draw(st.integers(2, 5))
    ny, nz = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    scale = draw(st.sampled_from([0.01, 1.0, 8.0, 300.0]))
    logits = torch.tensor(rng.normal(0, scale, (b, k)))
    y, z = torch.tensor(rng.integers(0, ny, b)), torch.tensor(rng.integers(0, nz, b))
    weight = torch.tensor(rng.gamma(1.0, 1.0, b)) if draw(st.booleans()) else None
    return logits, y, z, ny + draw(st.integers(0, 1)), nz + draw(st.integers(0, 1)), weight


def naive_cmi(logits, y, z, weight=None) -> float:
    """The three steps of section "Differentiable Soft-Plug-in Estimator", one loop each."""
    p = torch.softmax(logits.double(), -1).numpy()
    w = np.ones(len(p)) if weight is None else weight.numpy()
    total = 0.0
    for label in set(y.tolist()):
        rows = y.numpy() == label
        mean = np.average(p[rows], axis=0, weights=w[rows])
        for group in set(z[rows].tolist()):
            cell = rows & (z.numpy() == group)
            here = np.average(p[cell], axis=0, weights=w[cell])
            kl = sum(a * math.log(a / b) for a, b in zip(here, mean, strict=True) if a > 0)
            total += w[cell].sum() / w.sum() * kl
    return total


@pytest.mark.slow
@given(batches())
def test_value_equals_the_loop_of_the_paper(batch):
    logits, y, z, ny, nz, weight = batch
    expected = naive_cmi(logits, y, z, weight)
    assert abs(sx.nn.soft_cmi(logits, y, z, ny, nz, weight).item() - expected) <= 1e-12
    single = logits.float()
    assert abs(sx.nn.soft_cmi(single, y, z, ny, nz, weight).item() - naive_cmi(single, y, z, weight)) <= 1e-6


@given(batches())
def test_value_equals_the_numpy_room(batch):
    logits, y, z, ny, nz, weight = batch
    counts = np.zeros((ny, nz, logits.shape[1]))
    w = np.ones(len(y)) if weight is None else weight.numpy()
    np.add.at(counts, (y.numpy(), z.numpy()), torch.softmax(logits, -1).numpy() * w[:, None])
    assert (
        abs(sx.nn.soft_cmi(logits, y, z, ny, nz, weight).item() - sx.theory.conditional_mutual_information(counts))
        <= 1e-12
    )
    assert abs(sx.nn.soft_mi(logits, y, ny, weight).item() - sx.theory.mutual_information(counts)) <= 1e-12


@given(batches())
def test_never_negative_and_gradient_always_finite(batch):
    logits, y, z, ny, nz, weight = batch
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        leaf = (1e4 * logits).to(dtype).requires_grad_()
        v = sx.nn.soft_cmi(leaf, y, z, ny, nz, weight)
        v.backward()
        assert v.item() >= -1e-12
        assert leaf.grad.isfinite().all()
        assert leaf.grad.dtype == dtype


@given(batches())
@settings(max_examples=50)
def test_gradient_equals_autograd(batch):
    """Autograd through log is exact where every cell that occurs is positive; logits within ±30
    keep it so.
    """
    logits, y, z, ny, nz, weight = batch
    logits = logits.clamp(-30, 30)
    ours = logits.clone().requires_grad_()
    sx.nn.soft_cmi(ours, y, z, ny, nz, weight).backward()
    theirs = logits.clone().requires_grad_()
    p = torch.softmax(theirs, -1)
    w = torch.ones(len(y), dtype=torch.float64) if weight is None else weight
    cell = torch.nn.functional.one_hot(y * nz + z, ny * nz).double()
    t = ((cell * w[:, None]).T @ p / w.sum()).unflatten(0, (ny, nz))

    def entropy(x):
        return -(x[x > 0] * x[x > 0].log()).sum()

    (entropy(t.sum(1)) + entropy(t.sum(2)) - entropy(t) - entropy(t.sum((1, 2)))).backward()
    assert (ours.grad - theirs.grad).abs().max() <= 1e-12


def test_gradient_equals_finite_differences():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(12, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    y, z = (torch.randint(0, 3, (12,), generator=generator), torch.randint(0, 2, (12,), generator=generator))
    assert torch.autograd.gradcheck(lambda x: sx.nn.soft_cmi(x, y, z, 3, 2), (logits,))
    assert torch.autograd.gradcheck(lambda x: sx.nn.soft_mi(x, y, 3), (logits,))


def test_lanes_do_not_mix():
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(4, 30, 3, generator=generator, requires_grad=True)
    y, z = (torch.randint(0, 3, (4, 30), generator=generator), torch.randint(0, 5, (4, 30), generator=generator))
    weight = torch.rand(4, 30, generator=generator)
    together = sx.nn.soft_cmi(logits, y, z, 3, 5, weight)
    together.sum().backward()
    for m in range(4):
        alone = logits[m].detach().requires_grad_()
        value = sx.nn.soft_cmi(alone, y[m], z[m], 3, 5, weight[m])
        value.backward()
        torch.testing.assert_close(together[m], value, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(logits.grad[m], alone.grad, rtol=1e-5, atol=1e-9)


def test_weights_are_repeated_rows():
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    y, z = (torch.randint(0, 2, (20,), generator=generator), torch.randint(0, 2, (20,), generator=generator))
    times = torch.randint(0, 4, (20,), generator=generator)
    again = torch.repeat_interleave(torch.arange(20), times)
    weighted = sx.nn.soft_cmi(logits, y, z, 2, 2, times.double())
    assert abs(weighted - sx.nn.soft_cmi(logits[again], y[again], z[again], 2, 2)) < 1e-14


def test_budget_identity():
    """Lemma "budget identity": u + v = I(U; (Y, Z))."""
    generator = torch.Generator().manual_seed(7)
    logits = 3 * torch.randn(200, 4, generator=generator, dtype=torch.float64)
    y, z = (torch.randint(0, 4, (200,), generator=generator), torch.randint(0, 3, (200,), generator=generator))
    both = sx.nn.soft_mi(logits, y) + sx.nn.soft_cmi(logits, y, z)
    assert abs(both - sx.nn.soft_mi(logits, y * 3 + z)) < 1e-13


def test_a_vanishing_violation_is_not_lost_in_float32():
    generator = torch.Generator().manual_seed(8)
    logits = 1e-4 * torch.randn(512, 2, generator=generator)
    y, z = (torch.randint(0, 2, (512,), generator=generator), torch.randint(0, 2, (512,), generator=generator))
    exact = sx.nn.soft_cmi(logits.double(), y, z).item()
    assert 0 < exact < 1e-9
    assert sx.nn.soft_cmi(logits, y, z).item() == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.tensor([0, 2])}, r"`y` holds the code 2; codes run from 0 to n_labels − 1 = 1"),
        ({"z": torch.tensor([-1, 0])}, r"`z` holds the code -1"),
        ({"z": torch.tensor([0.0, 1.0])}, r"`z` must hold integer codes"),
        ({"y": torch.tensor([0, 1, 1])}, r"`y` must have one entry per row"),
        ({"logits": torch.zeros(2)}, r"`logits` must have shape"),
        ({"sample_weight": torch.tensor([1.0, -1.0])}, r"finite and not negative"),
    ],
)
def test_errors_name_the_value(change, message):
    arguments = {"logits": torch.zeros(2, 2), "y": torch.tensor([0, 1]), "z": torch.tensor([0, 1])} | change
    with pytest.raises(InputError, match=message):
        sx.nn.soft_cmi(**arguments, n_labels=2, n_groups=2)
