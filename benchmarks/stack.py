"""Training speed as ratios within one run: a step, a whole frontier, memory, and CelebA's shape.

    python -m benchmarks.stack step | frontier | frontier_full | at_once | celeba       (all of them
    without an argument)

Steps and the per-core ratio are CPU time, the lower quartile of interleaved repetitions, so that a
busy machine does not decide; wall time with two processes is wall time. The naive baseline is
Algorithm 1 as one would write it: nn.Linear, autograd for both norms, one mean per cell, one model
after the other.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import separatrix as sx
from separatrix import methods
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn import SeparationLoss
from separatrix.nn import stack as trainer

LAMBDAS = tuple(float(t) for t in np.linspace(0, 1, 11))


def soft_cmi_by_loops(p: Tensor, y: Tensor, z: Tensor, n_labels: int, n_groups: int) -> Tensor:
    """The three steps of the paper's estimator as loops over labels and groups."""
    total = p.new_zeros(())
    for label in range(n_labels):
        rows = y == label
        if rows.any():
            mean = p[rows].mean(0)
            for group in range(n_groups):
                cell = rows & (z == group)
                if cell.any():
                    here = p[cell].mean(0)
                    total = (
                        total
                        + cell.float().mean()
                        * (here * ((here + 1e-12).log() - (mean + 1e-12).log())).sum()
                    )
    return total


def soft_cmi_by_autograd(p: Tensor, y: Tensor, z: Tensor, n_labels: int, n_groups: int) -> Tensor:
    """The same as one product with one-hot cells, differentiated by autograd."""
    cell = nn.functional.one_hot(y * n_groups + z, n_labels * n_groups).to(p.dtype)
    t = (cell.T @ p / len(p)).view(n_labels, n_groups, -1) + 1e-12
    logs = (
        t.log()
        + t.sum((1, 2), keepdim=True).log()
        - t.sum(1, keepdim=True).log()
        - t.sum(2, keepdim=True).log()
    )
    return (t * logs).sum()


class Model:
    """One network in plain PyTorch with its optimiser."""

    def __init__(self, d: int, width: int, n_labels: int) -> None:
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.head = nn.Linear(width, n_labels)
        self.optimiser = torch.optim.Adam([*self.body.parameters(), *self.head.parameters()], 1e-3)

    def step(self, x: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        h = self.body(x)
        value = loss(h, self.head(h))
        self.optimiser.zero_grad()
        value.backward()
        self.optimiser.step()


def naive(
    trade_off: float, y: Tensor, z: Tensor, sizes: tuple[int, int], cmi: Callable[..., Tensor]
) -> Callable[..., Tensor]:
    """Algorithm 1 with two extra calls of autograd for the norms."""

    def loss(h: Tensor, logits: Tensor) -> Tensor:
        task = nn.functional.cross_entropy(logits, y)
        penalty = cmi(torch.softmax(logits, 1), y, z, *sizes)
        n_task = torch.autograd.grad(task, h, retain_graph=True)[0].norm(dim=1).mean()
        n_cmi = torch.autograd.grad(penalty, h, retain_graph=True)[0].norm(dim=1).mean()
        return (1 - trade_off) * task / (n_task + 1e-8) + trade_off * penalty / (n_cmi + 1e-8)

    return loss


def compare(calls: dict[str, Callable[[], None]], repeats: int, inner: int) -> dict[str, float]:
    """CPU seconds per call: lower quartile over interleaved repetitions."""
    seen: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(inner):
                call()
            seen[name].append((time.process_time() - start) / inner)
    return {name: float(np.quantile(times, 0.25)) for name, times in seen.items()}


def step(d: int = 64) -> None:
    print(
        f"One training step (forward, backward, Adam), d = {d}, against one plain cross-entropy "
        f"step"
    )
    print(
        f"{'batch':>6} {'width':>6} {'cells':>7} {'CE ms':>7} {'ours':>6} {'naive':>6} {'loops':>6}"
    )
    for ny, nz in ((2, 2), (20, 9)):
        for batch in (512, 2048):
            for width in (64, 128, 256):
                g = torch.Generator().manual_seed(0)
                x = torch.randn(batch, d, generator=g)
                y, z = (
                    torch.randint(0, ny, (batch,), generator=g),
                    torch.randint(0, nz, (batch,), generator=g),
                )
                plain, mine, theirs, looped = (Model(d, width, ny) for _ in range(4))
                criterion = SeparationLoss(0.3, ny, nz)
                by_autograd = naive(0.3, y, z, (ny, nz), soft_cmi_by_autograd)
                by_loops = naive(0.3, y, z, (ny, nz), soft_cmi_by_loops)
                calls = {
                    "ce": lambda m=plain, x=x, y=y: m.step(
                        x, lambda h, o: nn.functional.cross_entropy(o, y)
                    ),
                    "ours": lambda m=mine, x=x, y=y, z=z, c=criterion: m.step(
                        x, lambda h, o: c(o, y, z, head=m.head)
                    ),
                    "naive": lambda m=theirs, x=x, f=by_autograd: m.step(x, f),
                }
                times = compare(calls, repeats=40, inner=8)
                slow = compare(
                    {"loops": lambda m=looped, x=x, f=by_loops: m.step(x, f)}, repeats=3, inner=2
                )
                ratio = {name: seconds / times["ce"] for name, seconds in (times | slow).items()}
                print(
                    f"{batch:6d} {width:6d} {f'{ny}×{nz}':>7} {times['ce'] * 1e3:7.2f} "
                    f"{ratio['ours']:6.2f} {ratio['naive']:6.2f} {ratio['loops']:6.1f}",
                    flush=True,
                )


def frontier(features: str = "paper") -> None:
    data = sx.datasets.load("adult", features=features)
    sample = Sample(data.X, data.y, data.z)
    folds = np.array_split(np.random.default_rng(0).permutation(len(sample)), 5)
    rows = [np.concatenate([f for f in folds if f is not fold]) for fold in folds]
    lanes = [Lane(t, r, 0) for r in rows for t in LAMBDAS]
    recipe = Recipe(epochs=2, min_steps=0)
    inputs = torch.cat([torch.eye(2)[torch.tensor(sample.z)], torch.tensor(sample.X)], 1)
    y, z = torch.tensor(sample.y), torch.tensor(sample.z)

    def sequential(kind: Callable[..., Tensor]) -> tuple[float, float]:
        """CPU and wall seconds of one model and one epoch."""
        cpu, wall, model = time.process_time(), time.perf_counter(), Model(inputs.shape[1], 64, 2)
        for batch in torch.tensor(np.random.default_rng(1).permutation(rows[0])).split(512):
            model.step(inputs[batch], naive(0.3, y[batch], z[batch], (2, 2), kind))
        return time.process_time() - cpu, time.perf_counter() - wall

    loops, product, stack, wall = [], [], [], []
    methods.fit(
        "cmi", sample, lanes[:22], recipe=Recipe(epochs=1, min_steps=0), n_jobs=2
    )  # starts the workers
    for _ in range(3):
        loops.append(sequential(soft_cmi_by_loops))
        product.append(sequential(soft_cmi_by_autograd))
        start = time.process_time()
        methods.fit("cmi", sample, lanes, recipe=recipe)
        stack.append((time.process_time() - start) / (len(lanes) * recipe.epochs))
        start = time.perf_counter()
        methods.fit("cmi", sample, lanes, recipe=recipe, n_jobs=2)
        wall.append((time.perf_counter() - start) / (len(lanes) * recipe.epochs))
    (loop_cpu, loop_wall), product_cpu = np.min(loops, 0), min(product)[0]
    print(
        f"Adult, {features} features (d = {sample.X.shape[1]}), 11 λ × 5 folds, batch 512, H 64, "
        f"per model and epoch:\n"
        f"  naive Algorithm 1: loops over cells {loop_cpu * 1e3:6.1f} ms CPU, one product "
        f"{product_cpu * 1e3:6.1f} ms CPU\n"
        f"  stack, one core                     {min(stack) * 1e3:6.1f} ms CPU   "
        f"{loop_cpu / min(stack):5.1f}×, "
        f"{product_cpu / min(stack):.1f}× the one-product version\n"
        f"  stack, two processes                {min(wall) * 1e3:6.1f} ms wall  "
        f"{loop_wall / min(wall):5.1f}×\n"
        f"  peak memory {_peak():.2f} GB",
        flush=True,
    )


def at_once() -> None:
    """How many networks at a time: those of one path share their rows, those of a channel do
    not.
    """
    data = sx.datasets.load("bank")
    sample, rng = Sample(data.X, data.y, data.z), np.random.default_rng(0)
    own = [np.sort(rng.permutation(len(sample))[: 4 * len(sample) // 5]) for _ in range(24)]
    kinds = {
        "the same rows": [Lane(t / 24, own[0], 0) for t in range(24)],
        "own rows": [Lane(0.3, r, 0) for r in own],
    }
    kept = trainer._LANES
    for name, plan in kinds.items():
        for few in (6, 12, 24):
            trainer._LANES = few
            start = time.process_time()
            methods.fit("cmi", sample, plan, recipe=Recipe(epochs=5, min_steps=0))
            took = (time.process_time() - start) / (len(plan) * 5)
            print(
                f"Bank, 24 lanes with {name}, {few:2d} at a time: {took * 1e3:6.1f} ms CPU a lane "
                f"and epoch",
                flush=True,
            )
    trainer._LANES = kept


def celeba() -> None:
    n, d = 202_599, 512
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embedding.npy"
        rng = np.random.default_rng(0)
        y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
        mapped = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        for start in range(0, n, 8_192):
            rows = slice(start, min(start + 8_192, n))
            mapped[rows] = rng.standard_normal((rows.stop - start, d), dtype=np.float32)
            mapped[rows, 0] += y[rows]
            mapped[rows, 1] += z[rows]
        mapped.flush()
        del mapped
        sample = Sample(np.load(path, mmap_mode="r"), y, z)
        folds = np.array_split(rng.permutation(n), 5)
        lanes = [
            Lane(t, np.concatenate([f for f in folds if f is not fold]), 0)
            for fold in folds
            for t in LAMBDAS
        ]
        for jobs in (1, 2):
            start = time.perf_counter()
            fitted = methods.fit(
                "cmi", sample, lanes, recipe=Recipe(epochs=1, min_steps=0), n_jobs=jobs
            )
            print(
                f"CelebA's shape, {n:,} × {d} (generated), 11 λ × 5 folds, one epoch, {jobs} "
                f"process(es): "
                f"{time.perf_counter() - start:.0f} s, peak memory {_peak():.2f} GB a process, "
                f"{sum(s == 'ok' for s in fitted.status)} of 55 lanes ok",
                flush=True,
            )


def _peak() -> float:
    """Largest resident set of this process or a worker, in GB; a memory-map counts as far as it is
    cached.
    """
    usage = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return usage / 2**20


def main() -> None:
    torch.set_num_threads(1)
    full = partial(frontier, "full")
    parts = {
        "step": step,
        "frontier": frontier,
        "frontier_full": full,
        "at_once": at_once,
        "celeba": celeba,
    }
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
