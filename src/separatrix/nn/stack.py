"""Train M networks, one per (λ, training rows, seed), as batched tensors in one run.

Lanes never mix, so each network ends where it would have ended alone. They train in chunks that fit
the cache (more at once is slower), one thread each; the chunks run in parallel processes.

All parameters of a chunk (`Layers`) are one flat tensor, layer by layer, lanes first within a
layer, so that an optimiser step is a handful of operations whatever M is. The backward pass is
written out: autograd would keep the same tensors and add its own passes. The last layer works with
rows last, (M, K, B): products with a thin matrix on the right are many times slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import ceil, cos, pi, prod, sqrt

import numpy as np
import torch
from joblib import delayed
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InputError
from separatrix.io import Stages, in_processes
from separatrix.nn.batch import Adversary, Batch, Loss
from separatrix.nn.lanes import Lane, Options, Recipe, Sample, alike
from separatrix.nn.networks import Networks, PiecewiseLinear
from separatrix.nn.rows import Feed, Rows

_LANES = 25  # lanes at a time, at most: measured on Bank with 6, 12, 24
_FEW = 5  # lanes with the same rows and seed that are not worth a chunk of their own


def train(
    sample: Sample, lanes: Sequence[Lane], options: Options, loss: Loss, adversary: Adversary | None = None
) -> Networks:
    """Train one network per lane.

    Args:
        sample: the rows.
        lanes: λ, training rows and seed of each network.
        options: recipe, inputs, device, processes, progress bar.
        loss: loss(batch, λ) → one loss per lane.
        adversary: discriminators, for an adversarial method.

    Returns:
        The networks in the order of the lanes. A lane that met a NaN is "diverged" and its weights
        are NaN; the others are not affected.
    """
    for lane in lanes:
        if lane.rows is not None and not len(lane.rows):
            raise InputError(f"The lane with trade-off {lane.trade_off} has no training rows.")
    places = chunks(lanes, len(sample), options.recipe.batch)
    # ramps of the rows that train any lane, so that all lanes have the same inputs
    used = np.unique(np.concatenate([lanes[i].indices(len(sample)) for i, *_ in alike(lanes, by_seed=False)]))
    piecewise_linear = PiecewiseLinear.from_rows(sample.X, used, options.recipe.piecewise_linear)
    shared = (options, loss, adversary, piecewise_linear)
    calls = [delayed(_train_chunk)(sample, [lanes[i] for i in chunk], *shared) for chunk in places]
    trained = []
    # large arrays reach the processes as memory-maps
    processes = in_processes(calls, min(options.n_jobs, len(places)))
    bar = Stages(options.progress).stage("Training", len(places))
    with bar as advance, processes as answers:
        for result in answers:
            trained.append(result)
            advance()
    order = np.argsort(np.concatenate(places))
    return replace(Networks.joined(trained)[order], piecewise_linear=piecewise_linear)


def chunks(lanes: Sequence[Lane], n: int, batch: int | None) -> list[list[int]]:
    """Lanes to train together: those with equal rows and seed, the rest by epoch length.

    The answer does not depend on the number of processes, so that a run gives the same bits on any.

    Args:
        lanes: the lanes.
        n: rows of the sample.
        batch: rows per update, or None for all.

    >>> [len(c) for c in chunks([Lane(t, seed=s) for s in (0, 1) for t in range(30)], 1000, 512)]
    [15, 15, 15, 15]
    """
    groups: list[list[int]] = []
    few: dict[int, list[int]] = {}  # by updates per epoch: all lanes of a chunk step together
    for group in alike(lanes):
        size = len(lanes[group[0]].indices(n))
        if len(group) < _FEW:
            few.setdefault(1 if batch is None else ceil(size / batch), []).extend(group)
        else:
            groups.append(group)
    groups += few.values()
    return [chunk.tolist() for group in groups for chunk in np.array_split(group, ceil(len(group) / _LANES))]


@contextmanager
def _one_thread() -> Iterator[None]:
    """More threads inside small products are up to 50 times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@_one_thread()
def _train_chunk(
    sample: Sample,
    lanes: list[Lane],
    options: Options,
    loss: Loss,
    adversary: Adversary | None,
    piecewise_linear: PiecewiseLinear,
) -> Networks:
    recipe, m = options.recipe, len(lanes)
    watch = None
    if recipe.patience is not None:
        lanes, held = _hold_out(lanes, len(sample))
        watch = _Watch(sample, held, options, piecewise_linear)
    feed = Feed(sample, lanes, options, piecewise_linear)
    seeds = [lane.seed for lane in lanes]
    widths = (feed.inputs, *recipe.hidden, sample.n_labels)
    layers = Layers(widths, seeds, options.device, blind=feed.blind)
    adam = Adam(layers.flat)
    against = None
    if adversary is not None:
        against = _Against(adversary, recipe.hidden[-1], sample, seeds, options.device)
    trade_off = torch.tensor([lane.trade_off for lane in lanes], dtype=torch.float64, device=options.device)
    cells = feed.cells().expand(m, -1, -1)
    memory: dict[str, Tensor] = {}
    epochs = max(recipe.epochs, ceil(recipe.min_steps / feed.steps))
    losses = np.full((m, epochs), np.nan)
    # Every lane takes the same number of steps; a lane that diverged carries its NaN to the end.
    for epoch in range(epochs):
        total = torch.zeros(m, dtype=torch.float64, device=options.device)
        for step, rows in enumerate(feed.epoch()):
            progress = (epoch + step / feed.steps) / epochs
            rate = recipe.learning_rate * (0.5 + 0.5 * cos(pi * progress) if recipe.cosine else 1.0)
            batch = _forward(layers, rows, cells, progress, recipe, memory, feed)
            if against is not None:
                against.learn(batch, rate / recipe.learning_rate)
                batch.adversary = against.layers.call
            value = loss(batch, trade_off)
            _backward(layers, batch, rows, value)
            adam.step(layers.gradient, rate)
            total += value.detach()
        losses[:, epoch] = (total / feed.steps).cpu().numpy()
        if watch is not None and watch.finished(layers):
            break
        if not np.isfinite(losses[:, epoch]).any():  # nothing left to train
            break
    if watch is not None:
        watch.restore(layers)
    return _networks(layers, feed.blind, losses)


def _forward(
    layers: Layers, rows: Rows, cells: Tensor, progress: float, recipe: Recipe, memory: dict[str, Tensor], feed: Feed
) -> Batch:
    logits, hidden, spread = layers.forward(rows.x), layers.features, rows.spread
    if spread is not None:
        logits = logits.index_select(2, spread)
    m = len(logits)
    return Batch(
        logits=logits.transpose(1, 2).requires_grad_(),
        make_features=lambda: hidden.detach() if spread is None else hidden.index_select(1, spread),
        head=layers.weights[-1],
        y=rows.y.expand(m, -1),
        z=rows.z.expand(m, -1),
        weight=None if rows.weight is None else rows.weight.expand(m, -1),
        cells=cells,
        progress=progress,
        recipe=recipe,
        bins=feed.bins,
        memory=memory,
        adversary=None,
    )


def _backward(layers: Layers, batch: Batch, rows: Rows, value: Tensor) -> None:
    used = "features" in vars(batch)
    leaves = [batch.logits, batch.features] if used else [batch.logits]
    down = list(torch.autograd.grad(value.sum(), leaves, materialize_grads=True))
    down[0] = down[0].transpose(1, 2)
    if rows.spread is not None:  # rows of the loss that share an input add up there
        inputs = rows.x.shape[1]
        down[0] = down[0].new_zeros(*down[0].shape[:2], inputs).index_add_(2, rows.spread, down[0])
        if used:
            merged = down[1].new_zeros(len(down[1]), inputs, down[1].shape[2])
            down[1] = merged.index_add_(1, rows.spread, down[1])
    layers.backward(*down)


class _Against:
    """The discriminators of an adversarial method: one per lane, with their own Adam."""

    def __init__(self, adversary: Adversary, features: int, sample: Sample, seeds: list[int], device: str) -> None:
        self.adversary = adversary
        widths = adversary.widths(features, sample.n_labels, sample.n_groups)
        # a zero last layer starts at chance and knows no order of the groups
        self.layers = Layers(widths, [seed + 1_000_003 for seed in seeds], device, zero_output=True)
        self.adam = Adam(self.layers.flat)

    def learn(self, batch: Batch, schedule: float) -> None:
        """The discriminators' updates, on constant predictions."""
        seen = copy(batch)
        seen.logits = batch.logits.detach()
        for _ in range(self.adversary.steps):
            flat = self.layers.flat.detach().requires_grad_()
            seen.adversary = partial(self.layers.call, flat=flat)
            (gradient,) = torch.autograd.grad(self.adversary.loss(seen).sum(), flat)
            self.adam.step(gradient, self.adversary.learning_rate * schedule)


class _Watch:
    """Early stopping: keeps each lane's best weights, judged on rows held out from training."""

    def __init__(self, sample: Sample, held: list[Lane], options: Options, piecewise_linear: PiecewiseLinear) -> None:
        self.patience = options.recipe.patience or 0
        whole = replace(options, recipe=replace(options.recipe, batch=None, exact=False))
        feed = Feed(sample, held, whole, piecewise_linear, merge=False)
        (self.rows,) = feed.epoch()
        self.cells = feed.cells().expand(len(held), -1, -1)
        self.feed = feed
        self.trade_off = torch.tensor([min(lane.trade_off, 1.0) for lane in held], device=options.device)
        self.best = torch.full_like(self.trade_off, torch.inf)
        self.waited = torch.zeros_like(self.trade_off)
        self.best_parameters: list[Tensor] = []

    def finished(self, layers: Layers) -> bool:
        """Evaluate the held-out rows; True when every lane has waited long enough."""
        batch = _forward(layers, self.rows, self.cells, 1.0, Recipe(), {}, self.feed)
        task, violation = batch.cross_entropy.value, batch.violation[0].value
        value = (1 - self.trade_off) * task + self.trade_off * violation
        better = (value < self.best) & (self.waited < self.patience)
        self.best = torch.where(better, value, self.best)
        self.waited = torch.where(better, 0.0, self.waited + 1)
        now = [p.clone() for p in (*layers.weights, *layers.biases)]
        mask = better.view(-1, 1, 1)
        pairs = zip(now, self.best_parameters or now, strict=True)
        self.best_parameters = [torch.where(mask, new, old) for new, old in pairs]
        return bool((self.waited >= self.patience).all())

    def restore(self, layers: Layers) -> None:
        for tensor, best in zip((*layers.weights, *layers.biases), self.best_parameters, strict=True):
            tensor.copy_(best)


def _hold_out(lanes: list[Lane], n: int) -> tuple[list[Lane], list[Lane]]:
    """Nine tenths of each lane's rows to train on, one tenth to watch."""
    train, held = [], []
    for lane in lanes:
        rows = np.random.default_rng([lane.seed, 2]).permutation(lane.indices(n))
        cut = max(len(rows) // 10, 1)
        train.append(lane._replace(rows=np.sort(rows[cut:])))
        held.append(lane._replace(rows=np.sort(rows[:cut])))
    return train, held


def _networks(layers: Layers, blind: int, losses: NDArray[np.float64]) -> Networks:
    head = layers.weights[-1].transpose(1, 2).contiguous()
    weights = tuple(w.cpu().numpy() for w in (*layers.weights[:-1], head))
    biases = tuple(b.flatten(1).cpu().numpy() for b in layers.biases)
    every = np.concatenate([array.reshape(len(losses), -1) for array in (*weights, *biases)], 1)
    finite = np.isfinite(every).all(1) & ~np.isinf(losses).any(1)
    for array in (*weights, *biases):
        array[~finite] = np.nan
    status = tuple("ok" if f else "diverged" for f in finite)
    return Networks(weights, biases, blind, status, losses)


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
        self, widths: Sequence[int], seeds: Sequence[int], device: str, blind: int = 0, zero_output: bool = False
    ) -> None:
        m = len(seeds)
        shapes = [shape for a, b in pairwise(widths[:-1]) for shape in ((m, a, b), (m, 1, b))]
        # the head, as in torch.nn.Linear
        shapes += [(m, widths[-1], widths[-2]), (m, widths[-1], 1)]
        self._shapes = shapes
        self.flat = torch.empty(sum(map(prod, shapes)), device=device)
        self.gradient = torch.zeros_like(self.flat)
        self.weights, self.biases = self._parts(self.flat)
        self._weight_gradients, self._bias_gradients = self._parts(self.gradient)
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

    def _parts(self, flat: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Weights and biases as views of a flat tensor."""
        pieces = flat.split(list(map(prod, self._shapes)))
        parts = [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]
        return parts[::2], parts[1::2]

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
        down = torch.bmm(logits.transpose(1, 2), self.weights[-1])
        if features is not None:
            down += features
        for i in range(len(self.weights) - 2, -1, -1):
            torch.ops.aten.threshold_backward.grad_input(down, self._activations[i + 1], 0, grad_input=down)
            torch.bmm(self._activations[i].transpose(1, 2), down, out=self._weight_gradients[i])
            torch.sum(down, 1, keepdim=True, out=self._bias_gradients[i])
            if i:
                down = torch.bmm(down, self.weights[i].transpose(1, 2))

    def call(self, x: Tensor, flat: Tensor | None = None) -> Tensor:
        """The same networks as a function that autograd can see, (M, B, in) → (M, B, out).

        Args:
            x: inputs.
            flat: a leaf to differentiate at in place of the parameters; None: they are constants.
        """
        weights, biases = (self.weights, self.biases) if flat is None else self._parts(flat)
        h = x
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            h = torch.baddbmm(bias, h, weight).relu_()
        return torch.baddbmm(biases[-1], weights[-1], h.transpose(1, 2)).transpose(1, 2)


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
