"""M multilayer perceptrons of one shape: batched products forward and backward, and their Adam.

All parameters are one flat tensor, layer by layer, lanes first within a layer, so that an optimiser
step is a handful of operations whatever M is. The backward pass is written out: autograd would keep
the same tensors and add its own passes. The last layer works with rows last, (M, K, B): products
with a thin matrix on the right are many times slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import torch
from torch import Tensor

__all__ = ["Adam", "Layers"]


class Layers:
    """Parameters of M networks with ReLU hidden layers.

    Args:
        widths: from input to output.
        seeds: one per lane; equal seeds give equal initial weights.
        blind: leading inputs whose weights start at zero. For one-hot groups: the networks then
            start blind to the group, and renaming the groups changes nothing.
        zero_output: start the last layer at zero.
        device: of the parameters. They are drawn on the CPU: a seed means the same everywhere.
    """

    def __init__(
        self,
        widths: Sequence[int],
        seeds: Sequence[int],
        device: str,
        blind: int = 0,
        zero_output: bool = False,
    ) -> None:
        m = len(seeds)
        shapes = [shape for a, b in pairwise(widths[:-1]) for shape in ((m, a, b), (m, 1, b))]
        # the head, as in torch.nn.Linear
        shapes += [(m, widths[-1], widths[-2]), (m, widths[-1], 1)]
        self.flat = torch.empty(sum(a * b * c for a, b, c in shapes), device=device)
        self.gradient = torch.zeros_like(self.flat)
        parameters, gradients = _split(self.flat, shapes), _split(self.gradient, shapes)
        self.weights, self.biases = parameters[::2], parameters[1::2]
        self._weight_gradients, self._bias_gradients = gradients[::2], gradients[1::2]
        self._activations: list[Tensor] = []
        for lane, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for weight, bias in zip(self.weights, self.biases, strict=True):
                inputs = weight.shape[2] if weight is self.weights[-1] else weight.shape[1]
                bound = 1.0 / sqrt(inputs)  # torch.nn.Linear's own
                for tensor in (weight, bias):
                    uniform = torch.rand(tensor.shape[1:], generator=generator)
                    tensor[lane] = uniform * 2 * bound - bound
        self.weights[0][:, :blind] = 0.0
        if zero_output:
            self.weights[-1].zero_()
            self.biases[-1].zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Logits (M, K, B) of inputs (M, B, in) or (1, B, in); keeps activations for `backward`."""
        h = x.expand(len(self.weights[0]), -1, -1)
        self._activations = [h]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = torch.baddbmm(bias, h, weight).relu_()
            self._activations.append(h)
        return torch.baddbmm(self.biases[-1], self.weights[-1], h.transpose(1, 2))

    @property
    def features(self) -> Tensor:
        """The last hidden layer of the last `forward`, (M, B, H)."""
        return self._activations[-1]

    def backward(self, logits: Tensor, features: Tensor | None = None) -> None:
        """Fill `gradient` from ∂L/∂logits (M, K, B) and ∂L/∂features (M, B, H) if used."""
        torch.bmm(logits, self.features, out=self._weight_gradients[-1])
        torch.sum(logits, 2, keepdim=True, out=self._bias_gradients[-1])
        for i, down in self._hidden(logits, features, self._activations):
            torch.bmm(self._activations[i].transpose(1, 2), down, out=self._weight_gradients[i])
            torch.sum(down, 1, keepdim=True, out=self._bias_gradients[i])

    def call(self, x: Tensor, flat: Tensor | None = None) -> Tensor:
        """The same networks as a function that autograd can see, (M, B, in) → (M, B, out).

        Args:
            x: inputs.
            flat: a leaf to differentiate at in place of the parameters; None: they are constants.
        """
        logits: Tensor = _Call.apply(x, flat, self)
        return logits.transpose(1, 2)

    def _hidden(
        self, logits: Tensor, features: Tensor | None, activations: Sequence[Tensor]
    ) -> Iterator[tuple[int, Tensor]]:
        """∂L/∂(what enters the ReLU) of each hidden layer, (M, B, H), the last one first."""
        down = torch.bmm(logits.transpose(1, 2), self.weights[-1])
        if features is not None:
            down += features
        for i in range(len(self.weights) - 2, -1, -1):
            torch.ops.aten.threshold_backward.grad_input(
                down, activations[i + 1], 0, grad_input=down
            )
            yield i, down
            if i:
                down = torch.bmm(down, self.weights[i].transpose(1, 2))

    def parameters(self) -> list[Tensor]:
        """Weights and biases in turn, as views of `flat`."""
        return [tensor for pair in zip(self.weights, self.biases, strict=True) for tensor in pair]


class _Call(torch.autograd.Function):
    """`Layers.forward` and what it needs of a backward pass, for autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, flat: Tensor | None, layers: Layers) -> Tensor:
        logits = layers.forward(x)
        ctx.layers, ctx.activations = layers, layers._activations
        return logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        layers, (of_x, of_flat, _) = ctx.layers, ctx.needs_input_grad
        if of_flat:
            layers._activations = ctx.activations
            layers.backward(upstream)
        found = None
        if of_x:
            *_, (_, down) = layers._hidden(upstream, None, ctx.activations)
            found = torch.bmm(down, layers.weights[0].transpose(1, 2))
        return found, layers.gradient if of_flat else None, None


class Adam:
    """Adam on one flat tensor, with bias correction."""

    def __init__(self, flat: Tensor) -> None:
        self.flat = flat
        self.first, self.second = torch.zeros_like(flat), torch.zeros_like(flat)
        self.count = 0

    def step(self, gradient: Tensor, learning_rate: float) -> None:
        """One update of every lane."""
        self.count += 1
        self.first.lerp_(gradient, 0.1)
        self.second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        # m̂ / (sqrt(v̂) + ε), with the corrections moved out of the tensors
        root = sqrt(1.0 - 0.999**self.count)
        denominator = self.second.sqrt().add_(1e-8 * root)
        rate = learning_rate * root / (1.0 - 0.9**self.count)
        self.flat.addcdiv_(self.first, denominator, value=-rate)


def _split(flat: Tensor, shapes: Sequence[tuple[int, int, int]]) -> list[Tensor]:
    parts = flat.split([a * b * c for a, b, c in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
