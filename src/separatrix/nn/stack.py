"""Train M networks, one per (λ, training rows, seed), as batched tensors in one run.

Lanes never mix, so each network ends where it would have ended alone. They train in chunks that fit
the cache (more at once is slower), one thread each; the chunks run in parallel processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from math import ceil, cos, pi

import numpy as np
import torch
from joblib import delayed
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InputError
from separatrix.io import Stages, in_processes
from separatrix.nn.balance import Lanes
from separatrix.nn.lanes import Adversary, Batch, Lane, Loss, Options, Recipe, Sample, alike
from separatrix.nn.layers import Adam, Layers
from separatrix.nn.networks import Networks, PiecewiseLinear
from separatrix.nn.rows import Feed, Rows

__all__ = ["chunks", "train"]

_LANES = 25  # lanes at a time, at most: measured on Bank with 6, 12, 24
_FEW = 5  # lanes with the same rows and seed that are not worth a chunk of their own


def train(
    sample: Sample,
    lanes: Sequence[Lane],
    options: Options,
    loss: Loss,
    adversary: Adversary | None = None,
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
    parts = chunks(lanes, len(sample), options.recipe.batch)
    piecewise_linear = PiecewiseLinear.of(
        sample.X, _rows(lanes, len(sample)), options.recipe.piecewise_linear
    )
    calls = [
        delayed(_train_chunk)(
            sample, [lanes[i] for i in part], options, loss, adversary, piecewise_linear
        )
        for part in parts
    ]
    trained = []
    # large arrays reach the processes as memory-maps
    processes = in_processes(calls, min(options.n_jobs, len(parts)))
    bar = Stages(options.progress).stage("Training", len(parts))
    with bar as advance, processes as answers:
        for result in answers:
            trained.append(result)
            advance()
    order = np.argsort(np.concatenate(parts))
    return replace(Networks.joined(trained)[order], piecewise_linear=piecewise_linear)


def _rows(lanes: Sequence[Lane], n: int) -> NDArray[np.intp]:
    """The rows that train any of the lanes."""
    if any(lane.rows is None for lane in lanes):
        return np.arange(n)
    used = np.zeros(n, dtype=bool)
    for lane in lanes:
        used[lane.rows] = True
    return np.flatnonzero(used)


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
    parts: list[list[int]] = []
    few: dict[int, list[int]] = {}  # by updates per epoch: all lanes of a chunk step together
    for group in alike(lanes):
        size = len(lanes[group[0]].indices(n))
        if len(group) < _FEW:
            few.setdefault(1 if batch is None else ceil(size / batch), []).extend(group)
        else:
            parts += _evenly(group)
    return parts + [part for group in few.values() for part in _evenly(group)]


def _evenly(group: list[int]) -> list[list[int]]:
    return [part.tolist() for part in np.array_split(group, ceil(len(group) / _LANES))]


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
    trade_off = torch.tensor([lane.trade_off for lane in lanes], dtype=torch.float64)
    trade_off = trade_off.to(options.device)
    cells = feed.cells().expand(m, -1, -1)
    memory: dict[str, Tensor] = {}
    epochs = max(recipe.epochs, ceil(recipe.min_steps / feed.steps))
    losses = np.full((m, epochs), np.nan)
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
    layers: Layers,
    rows: Rows,
    cells: Tensor,
    progress: float,
    recipe: Recipe,
    memory: dict[str, Tensor],
    feed: Feed,
) -> Batch:
    logits, hidden, spread = layers.forward(rows.x), layers.features, rows.spread
    if spread is not None:
        logits = logits.index_select(2, spread)
    m, _, b = logits.shape
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
        uniform=lambda columns: feed.uniform(b, columns).expand(m, -1, -1),
    )


def _backward(layers: Layers, batch: Batch, rows: Rows, value: Tensor) -> None:
    used = "features" in vars(batch)
    leaves = [batch.logits, batch.features] if used else [batch.logits]
    parts = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
    down = [
        torch.zeros_like(leaf) if part is None else part
        for leaf, part in zip(leaves, parts, strict=True)
    ]
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

    def __init__(
        self, adversary: Adversary, features: int, sample: Sample, seeds: list[int], device: str
    ) -> None:
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

    def __init__(
        self, sample: Sample, held: list[Lane], options: Options, piecewise_linear: PiecewiseLinear
    ) -> None:
        self.patience = options.recipe.patience or 0
        whole = replace(options, recipe=replace(options.recipe, batch=None, exact=False))
        feed = Feed(sample, held, whole, piecewise_linear, merge=False)
        (self.rows,) = feed.epoch()
        self.cells = feed.cells().expand(len(held), -1, -1)
        self.feed = feed
        shares = [min(lane.trade_off, 1.0) for lane in held]
        self.trade_off = torch.tensor(shares, device=options.device)
        self.best = torch.full_like(self.trade_off, torch.inf)
        self.waited = torch.zeros_like(self.trade_off)
        self.kept: list[Tensor] = []

    def finished(self, layers: Layers) -> bool:
        """Evaluate the held-out rows; True when every lane has waited long enough."""
        view = Lanes.of(_forward(layers, self.rows, self.cells, 1.0, Recipe(), {}, self.feed))
        task, violation = view.cross_entropy().value, view.penalty().value
        value = (1 - self.trade_off) * task + self.trade_off * violation
        better = (value < self.best) & (self.waited < self.patience)
        self.best = torch.where(better, value, self.best)
        self.waited = torch.where(better, 0.0, self.waited + 1)
        now = [p.clone() for p in layers.parameters()]
        mask = better.view(-1, 1, 1)
        pairs = zip(now, self.kept or now, strict=True)
        self.kept = [torch.where(mask, new, old) for new, old in pairs]
        return bool((self.waited >= self.patience).all())

    def restore(self, layers: Layers) -> None:
        for tensor, kept in zip(layers.parameters(), self.kept, strict=True):
            tensor.copy_(kept)


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
    whole = torch.stack([p.isfinite().flatten(1).all(1) for p in layers.parameters()])
    finite = whole.all(0).cpu().numpy() & ~np.isinf(losses).any(1)
    head = layers.weights[-1].transpose(1, 2).contiguous()
    weights = [w.cpu().numpy() for w in (*layers.weights[:-1], head)]
    biases = [b.flatten(1).cpu().numpy() for b in layers.biases]
    for array in (*weights, *biases):
        array[~finite] = np.nan
    status = tuple("ok" if f else "diverged" for f in finite)
    return Networks(tuple(weights), tuple(biases), blind, status, losses)
