"""Training: a step of the loss and a whole path of λ, beside plain cross-entropy and Algorithm 1.

    python -m benchmarks.speed training [step labels memory frontier methods] [--features full]

- step: forward, loss, backward and Adam, over one plain cross-entropy step; beside it Algorithm 1
  as one would write it: two more calls of autograd for the norms, and loops over cells.
- labels: the same for 1,000 and 50,000 labels, without Adam, with and without `label_groups`.
- memory: what one step adds to a fresh process at its peak, over cross-entropy.
- frontier: 11 λ × 5 folds of Adult in one stack, over one naive model after the other.
- methods: the stack of each comparison method, over that of `cmi`.

CPU time of one thread, the lower quartile of interleaved repetitions, so that a busy machine does
not decide; with two processes wall time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

import separatrix as sx
from benchmarks._measuring import in_own_process, peak
from separatrix import methods
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn import SeparationLoss

QUICK = ("step", "methods", "--repeats", "1")
LAMBDAS = tuple(float(t) for t in np.linspace(0, 1, 11))
SHORT = Recipe(epochs=1, min_steps=0)
WAYS = ("ours", "50 label groups", "running, 50 label groups")
COMPARED = ("cmi", "adversarial", "fr_train", "fair_dummy", "fair_dro", "infofair")


def soft_cmi_by_loops(p: Tensor, y: Tensor, z: Tensor, n_labels: int, n_groups: int) -> Tensor:
    """The three steps of the paper's estimator as loops over labels and groups."""
    total = p.new_zeros(())
    for label in range(n_labels):
        rows = y == label
        for group in range(n_groups):
            cell = rows & (z == group)
            if cell.any():
                here, mean = p[cell].mean(0) + 1e-12, p[rows].mean(0) + 1e-12
                total = total + cell.float().mean() * (here * (here.log() - mean.log())).sum()
    return total


def soft_cmi_by_autograd(p: Tensor, y: Tensor, z: Tensor, n_labels: int, n_groups: int) -> Tensor:
    """The same as one product with one-hot cells, differentiated by autograd."""
    cell = nn.functional.one_hot(y * n_groups + z, n_labels * n_groups).to(p.dtype)
    t = (cell.T @ p / len(p)).view(n_labels, n_groups, -1) + 1e-12
    logs = t.log() + t.sum((1, 2), keepdim=True).log()
    return (t * (logs - t.sum(1, keepdim=True).log() - t.sum(2, keepdim=True).log())).sum()


class Model:
    """One network with two hidden layers in plain PyTorch, and its optimiser."""

    def __init__(self, features: int, width: int, labels: int) -> None:
        torch.manual_seed(0)
        hidden = nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        self.body, self.head = nn.Sequential(*hidden), nn.Linear(width, labels)
        self.optimiser = torch.optim.Adam([*self.body.parameters(), *self.head.parameters()], 1e-3)

    def step(self, x: Tensor, loss: Callable[[Tensor, Tensor], Tensor], adam: bool = True) -> None:
        h = self.body(x)
        value = loss(h, self.head(h))
        self.optimiser.zero_grad()
        value.backward()
        if adam:
            self.optimiser.step()


def naive(y: Tensor, z: Tensor, shape: tuple[int, int], cmi: Callable[..., Tensor]) -> Callable:
    """Algorithm 1 at λ = 0.3 with two extra calls of autograd for the norms."""

    def loss(h: Tensor, logits: Tensor) -> Tensor:
        task = nn.functional.cross_entropy(logits, y)
        penalty = cmi(torch.softmax(logits, 1), y, z, *shape)
        n_task = torch.autograd.grad(task, h, retain_graph=True)[0].norm(dim=1).mean()
        n_cmi = torch.autograd.grad(penalty, h, retain_graph=True)[0].norm(dim=1).mean()
        return 0.7 * task / (n_task + 1e-8) + 0.3 * penalty / (n_cmi + 1e-8)

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


def draw(labels: int, groups: int, rows: int, features: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, labels of equal frequency, groups."""
    g = torch.Generator().manual_seed(0)
    y, z = (torch.randint(0, k, (rows,), generator=g) for k in (labels, groups))
    return torch.randn(rows, features, generator=g), y, z


def calls_of(labels: int, groups: int, rows: int, width: int, adam: bool) -> dict[str, Callable]:
    """A step of each way to train, ready to be called."""
    x, y, z = draw(labels, groups, rows, 64)
    coarse = torch.arange(labels) % 50
    losses: dict[str, Callable] = {"cross-entropy": lambda h, logits: nn.functional.cross_entropy(logits, y)}
    if labels > 100:
        kinds = ({}, {"label_groups": coarse}, {"label_groups": coarse, "running": 0.9})
    else:
        kinds = ({},)
        losses["two calls of autograd"] = naive(y, z, (labels, groups), soft_cmi_by_autograd)
        losses["loops over cells"] = naive(y, z, (labels, groups), soft_cmi_by_loops)
    models = {name: Model(64, width, labels) for name in (*losses, *WAYS[: len(kinds)])}
    for name, options in zip(WAYS, kinds, strict=False):
        criterion, head = SeparationLoss(0.3, labels, groups, **options), models[name].head
        losses[name] = lambda h, logits, c=criterion, o=head: c(logits, y, z, head=o)
    return {name: lambda m=models[name], loss=loss: m.step(x, loss, adam) for name, loss in losses.items()}


def print_ratios(label: str, took: dict[str, float]) -> None:
    plain = took.pop("cross-entropy")
    ratios = ", ".join(f"{name} {t / plain:.2f}" for name, t in took.items())
    print(f"{label}: cross-entropy {1e3 * plain:.2f} ms; {ratios}", flush=True)


def step(repeats: int) -> None:
    for labels, groups in ((2, 2), (2, 4), (20, 9)):
        for rows in (512, 2_048):
            for width in (64, 128, 256):
                took = compare(calls_of(labels, groups, rows, width, True), repeats, 5)
                print_ratios(f"{labels} × {groups} cells, batch {rows}, H {width}", took)


def many_labels(repeats: int) -> None:
    """Each way in a pair with cross-entropy: four together push each other out of the cache."""
    for labels, inner in ((1_000, 4), (50_000, 1)):
        for rows in (512, 2048):
            calls = calls_of(labels, 4, rows, 64, False)
            plain = calls.pop("cross-entropy")
            for way, call in calls.items():
                took = compare({"cross-entropy": plain, way: call}, repeats, inner)
                print_ratios(f"{labels:,} labels, 4 groups, batch {rows}", took)


def added_by_step(way: str, labels: int, rows: int) -> dict[str, float]:
    """MB that one step adds at the peak, in this process."""
    calls_of(101, 4, 16, 64, False)[way]()  # what torch itself needs
    call, before = calls_of(labels, 4, rows, 64, False)[way], peak()
    call()
    return {"mb": peak() - before}


def memory(repeats: int) -> None:
    for labels in (1_000, 50_000):
        for rows in (512, 2_048):
            mb = {
                way: in_own_process(__name__, "added_by_step", way, labels, rows)["mb"]
                for way in ("cross-entropy", *WAYS)
            }
            shares = ", ".join(f"{way} {mb[way] / mb['cross-entropy']:.2f}" for way in WAYS)
            print(f"{labels:,} labels, batch {rows}: {mb['cross-entropy']:.0f} MB; {shares}")


def adult(features: str) -> tuple[Sample, list[Lane]]:
    """Adult, and 11 λ on the training rows of each of five folds."""
    data = sx.datasets.load("adult", features=features)
    fold = sx.datasets.folds(data.y, data.z, 5, 0)
    lanes = [Lane(t, np.flatnonzero(fold != k)) for k in range(5) for t in LAMBDAS]
    return Sample(data.X, data.y, data.z), lanes


def frontier(repeats: int, features: str = "paper") -> None:
    sample, lanes = adult(features)
    y, z = torch.tensor(sample.y), torch.tensor(sample.z)
    inputs = torch.cat([torch.eye(2)[z], torch.tensor(sample.X)], 1)

    def sequential(cmi: Callable[..., Tensor]) -> tuple[float, float]:
        """CPU and wall seconds of one model and one epoch."""
        cpu, wall, model = time.process_time(), time.perf_counter(), Model(inputs.shape[1], 64, 2)
        for batch in torch.tensor(np.random.default_rng(1).permutation(lanes[0].rows)).split(512):
            model.step(inputs[batch], naive(y[batch], z[batch], (2, 2), cmi))
        return time.process_time() - cpu, time.perf_counter() - wall

    methods.fit("cmi", sample, lanes[:22], recipe=SHORT, n_jobs=2)  # starts the workers
    times = []
    for _ in range(repeats):
        (loops, wall), (product, _) = map(sequential, (soft_cmi_by_loops, soft_cmi_by_autograd))
        start = time.process_time()
        methods.fit("cmi", sample, lanes, recipe=SHORT)
        stack, start = (time.process_time() - start) / len(lanes), time.perf_counter()
        methods.fit("cmi", sample, lanes, recipe=SHORT, n_jobs=2)
        times.append((loops, product, wall, stack, (time.perf_counter() - start) / len(lanes)))
    loops, product, wall, stack, two = np.min(times, axis=0)
    print(
        f"Adult, {features} features, per model and epoch: stack {1e3 * stack:.1f} ms of CPU, "
        f"{loops / stack:.1f} × less than loops over cells, {product / stack:.1f} × less than one "
        f"product; two processes {wall / two:.1f} × by the clock; peak {peak() / 1024:.2f} GB"
    )


def compared(repeats: int, features: str = "paper") -> None:
    sample, lanes = adult(features)
    took = dict.fromkeys(COMPARED, np.inf)
    for _ in range(repeats):
        for name in COMPARED:
            start = time.process_time()
            methods.fit(name, sample, lanes, recipe=SHORT)
            took[name] = min(took[name], time.process_time() - start)
    ratios = ", ".join(f"{name} {t / took['cmi']:.2f}" for name, t in took.items())
    print(f"Adult, {features} features, 11 λ × 5 folds, one epoch, over cmi: {ratios}")


PARTS: dict[str, Callable[..., None]] = {
    "step": step,
    "labels": many_labels,
    "memory": memory,
    "frontier": frontier,
    "methods": compared,
}


def main(parts: Sequence[str] = tuple(PARTS), /, repeats: int = 20, features: str = "paper") -> None:
    """Print ratios."""
    torch.set_num_threads(1)
    for name in parts:
        own = {"features": features} if name in ("frontier", "methods") else {}
        few = min(repeats, 3) if own else repeats
        PARTS[name](few, **own)
