"""What the loss costs beside cross-entropy: CPU time and peak memory of a step, by size.

    python -m benchmarks.speed_loss [few | many | memory]

A step is forward, loss and backward of a network with two hidden layers of H and a linear head of
K. Times are CPU seconds of one thread, the lower quartile of alternating repetitions, so that a
busy machine does not decide. Memory is what a fresh process adds at its peak in one step.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from separatrix.nn import SeparationLoss

GROUPS, WIDTH = 4, 64
WAYS = ("ours", "ours, 50 label groups", "ours, running 0.9, 50 label groups")


def batch(labels: int, rows: int, frequent: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with labels of equal frequency, or of a language's: the k-th as frequent as 1/k."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, labels + 1) if frequent else np.ones(labels)
    y = rng.choice(labels, rows, p=share / share.sum())
    x = torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))
    return x, torch.tensor(y), torch.tensor(rng.integers(0, GROUPS, rows))


def step(
    way: str, labels: int, rows: int, frequent: bool = False, adam: bool = False
) -> Callable[[], None]:
    """One step of cross-entropy or of ours, ready to be called."""
    torch.manual_seed(0)
    x, y, z = batch(labels, rows, frequent)
    body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    head = nn.Linear(WIDTH, labels)
    parameters = [*body.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters)
    coarse = torch.arange(labels) % 50 if "label groups" in way else None
    running = 0.9 if "running" in way else 0.0
    loss = SeparationLoss(0.3, labels, GROUPS, running=running, label_groups=coarse)

    def call() -> None:
        optimiser.zero_grad()
        logits = head(body(x))
        if way == "cross-entropy":
            nn.functional.cross_entropy(logits, y).backward()
        else:
            loss(logits, y, z, head=head).backward()
        if adam:
            optimiser.step()

    return call


def ratios(ways: tuple[str, ...], *size: int, repeats: int, inner: int, **options: bool) -> str:
    """CPU milliseconds of a cross-entropy step, and the others over it."""
    calls = {way: step(way, *size, **options) for way in ("cross-entropy", *ways)}
    seen: dict[str, list[float]] = {way: [] for way in calls}
    for repeat in range(repeats + 1):
        for way, call in calls.items():
            start = time.process_time()
            for _ in range(inner):
                call()
            if repeat:  # the first warms up
                seen[way].append((time.process_time() - start) / inner)
    took = {way: float(np.quantile(times, 0.25)) for way, times in seen.items()}
    plain = took["cross-entropy"]
    return f"{plain * 1e3:9.2f} ms " + " ".join(f"{took[way] / plain:7.2f}" for way in ways)


def few() -> None:
    print(f"2 labels, {GROUPS} groups, H = {WIDTH}: step / cross-entropy step; the same with Adam")
    for rows in (512, 2048):
        plain = ratios(("ours",), 2, rows, repeats=60, inner=20)
        print(f"B {rows:5d} {plain} {ratios(('ours',), 2, rows, repeats=60, inner=20, adam=True)}")


def many() -> None:
    print(f"{GROUPS} groups, H = {WIDTH}: step / cross-entropy step of " + " | ".join(WAYS))
    for labels, repeats, inner in ((100, 20, 8), (1_000, 20, 4), (50_000, 3, 1)):
        for rows in (512, 2048):
            for frequent in (False, True):
                found = ratios(WAYS, labels, rows, repeats=repeats, inner=inner, frequent=frequent)
                kind = "like words" if frequent else "equal"
                print(f"K {labels:6,d} B {rows:5d} {kind:>10} {found}", flush=True)


def memory() -> None:
    print("Peak memory that a step adds, MB, and over that of cross-entropy; labels equal")
    for labels in (2, 1_000, 50_000):
        for rows in (512, 2048):
            peak = {way: _peak(way, labels, rows) for way in ("cross-entropy", *WAYS)}
            plain = peak["cross-entropy"]
            rest = " ".join(f"{peak[way] / plain:7.2f}" for way in WAYS)
            print(f"K {labels:6,d} B {rows:5d} {plain:9.1f} MB {rest}", flush=True)


def _peak(way: str, labels: int, rows: int) -> float:
    command = [sys.executable, "-m", "benchmarks.speed_loss", "one", way, str(labels), str(rows)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _one(way: str, labels: int, rows: int) -> None:
    step(way, 100, 16)()  # what torch itself needs
    call = step(way, labels, rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["one"]:
        _one(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    parts = {"few": few, "many": many, "memory": memory}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
