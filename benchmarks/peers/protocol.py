"""What every tracer does alike, ours and the peers': read the rows, trace each fold, keep
posteriors, time and memory.

A tracer is a module with `SERIES`: name → `Series(settings, trace)`. `trace(train, quick)` fits on
the training rows and yields one (point, predict) after another; `predict(test)` gives P(U=1 | x,
z). Only the time inside `trace` counts, so a base model that several points share counts once, and
predictions do not count. Standard library and numpy only: it runs in environments that have neither
separatrix nor torch.

    python -m benchmarks.peers.<module> ROWS.npz OUT.npz SERIES [--quick]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HELD_OUT = 0.3  # of the training rows, for the thresholds of a post-processor


class Rows(NamedTuple):
    """Features X without the group, labels y, groups z; `inputs` is [z | X], what every model here
    is given.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    z: NDArray[np.int64]

    @property
    def inputs(self) -> NDArray[np.float32]:
        return np.column_stack([self.z, self.X]).astype(np.float32)

    def take(self, rows: NDArray[Any]) -> Rows:
        return Rows(self.X[rows], self.y[rows], self.z[rows])


Predict = Callable[[Rows], NDArray[Any]]


@dataclass(frozen=True)
class Series:
    """One line of the tables.

    Args:
        settings: what was set, for the reader.
        trace: trace(train, quick) → (point, predict), …
        folds: how many of the five folds are traced; fewer only where five would take too long.
    """

    settings: str
    trace: Callable[[Rows, bool], Iterator[tuple[str, Predict]]]
    folds: int = 5


def hold_out(train: Rows, seed: int = 0) -> tuple[Rows, Rows]:
    """Rows for the model and rows for the thresholds, each (label, group) cell split alike."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(train.y))
    order = shuffled[np.argsort((2 * train.y + train.z)[shuffled], kind="stable")]
    # every tenth of a cell's rows in turn: three of ten are held out
    held = np.isin(np.arange(len(order)) % 10, (0, 3, 6))
    return train.take(np.sort(order[~held])), train.take(np.sort(order[held]))


def main(series: Mapping[str, Series], package: str) -> None:
    """Trace one series and write what it found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("out")
    parser.add_argument("series", choices=series)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    with np.load(chosen.rows) as arrays:
        rows, fold = Rows(arrays["X"], arrays["y"], arrays["z"]), arrays["fold"]
    one = series[chosen.series]
    folds = 1 if chosen.quick else one.folds
    baseline = _peak()
    posteriors: dict[str, NDArray[np.float32]] = {}
    cpu, wall = [], []
    for k in range(folds):
        test = fold == k
        cpu.append(0.0)
        wall.append(0.0)
        points = one.trace(rows.take(~test), chosen.quick)
        while True:
            start = time.process_time(), time.perf_counter()
            found = next(points, None)
            cpu[-1] += time.process_time() - start[0]
            wall[-1] += time.perf_counter() - start[1]
            if found is None:
                break
            point, predict = found
            q = np.asarray(predict(rows.take(test)), dtype=np.float64)
            if q.shape != (int(test.sum()),):
                sys.exit(
                    f"{chosen.series}: the policy at {point} gave {q.shape} for {int(test.sum())} "
                    f"rows"
                )
            posteriors.setdefault(point, np.full(len(fold), np.nan, dtype=np.float32))[test] = q
        print(
            f"    fold {k}: {len(posteriors)} points, {cpu[-1]:.1f} s", file=sys.stderr, flush=True
        )
    about = {
        "settings": one.settings,
        "version": f"{package} {version(package)}",
        "folds": folds,
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "peak_mb": _peak(),
        "start_mb": baseline,
    }
    q = np.stack(list(posteriors.values()))
    np.savez_compressed(
        chosen.out, q=q, points=np.array(list(posteriors)), about=np.array(json.dumps(about))
    )


def _peak() -> float:
    """Largest resident memory of this process so far, in MB; of Linux's own count, which starts
    anew with the program.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 2**20 if sys.platform == "darwin" else used / 2**10
