"""The closed-form passes of stacked networks are those of autograd."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from separatrix.nn.stack import Layers  # noqa: E402


def by_autograd(layers: Layers, x, parameters):
    h = x
    for i in range(0, len(parameters) - 2, 2):
        h = torch.relu(h @ parameters[i] + parameters[i + 1])
    return h @ parameters[-2].transpose(1, 2) + parameters[-1].transpose(1, 2)


@pytest.mark.parametrize("widths", [(5, 7, 3), (5, 7, 6, 4)], ids=str)
def test_a_call_and_its_derivatives_are_those_of_autograd(widths):
    """∂L/∂x with the parameters constant, ∂L/∂parameters with x constant, and both at once."""
    layers = Layers(widths, [0, 1], "cpu")
    x = torch.randn(2, 11, widths[0], generator=torch.Generator().manual_seed(3))
    own = [p.clone().requires_grad_() for pair in zip(layers.weights, layers.biases, strict=True) for p in pair]
    leaf = x.clone().requires_grad_()
    expected = by_autograd(layers, leaf, own).square().sum((1, 2))
    of_x, *of_parameters = torch.autograd.grad(expected.sum(), [leaf, *own])
    of_flat = torch.cat([g.reshape(-1) for g in of_parameters])

    again, flat = x.clone().requires_grad_(), layers.flat.detach().requires_grad_()
    close = {"rtol": 1e-4, "atol": 1e-5}
    value = layers.call(again).square().sum()
    torch.testing.assert_close(value, expected.sum())
    torch.testing.assert_close(torch.autograd.grad(value, again)[0], of_x, **close)
    value = layers.call(x, flat).square().sum()
    torch.testing.assert_close(torch.autograd.grad(value, flat)[0], of_flat, **close)
    value = layers.call(again, flat).square().sum()
    both = torch.autograd.grad(value, [again, flat])
    torch.testing.assert_close(both[0], of_x, **close)
    torch.testing.assert_close(both[1], of_flat, **close)
