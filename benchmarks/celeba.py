"""The benchmark's pipeline at CelebA's full shape, 202,599 × 512, on generated numbers: speed and
memory only.

    python -m benchmarks.celeba [EPOCHS]

The images may not be redistributed, so nothing here is a result about CelebA. The official folder's
lists and a ready embedding of random numbers are written to a temporary folder; loading, folds,
stacks, records, the limit and the figures are those of `separatrix benchmark celeba`. One epoch by
default, where the paper has 20: the training time is proportional.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from separatrix import benchmarking, datasets
from separatrix.frontier import paper_figures as figures
from separatrix.frontier.results import Results
from separatrix.frontier.sweep.jobs import Job, Source, grid
from separatrix.frontier.sweep.runner import Execution, run
from separatrix.frontier.tidy import select

ROWS, FEATURES = 202_599, 512
METHODS = ("erm", "cmi", "fr_train", "postprocessing")


def write(folder: Path) -> Path:
    """The two lists of the official folder and a ready embedding; returns the embedding's path."""
    rng = np.random.default_rng(0)
    y, z = (rng.random(ROWS) < 0.48).astype(int), (rng.random(ROWS) < 0.42).astype(int)
    names = [f"{i:06d}.jpg" for i in range(1, ROWS + 1)]
    signs = ("-1", "1")
    lines = (f"{name} {signs[a]} {signs[b]}" for name, a, b in zip(names, y, z, strict=True))
    (folder / "list_attr_celeba.txt").write_text(
        f"{ROWS}\nSmiling Male\n" + "\n".join(lines) + "\n"
    )
    (folder / "list_eval_partition.txt").write_text("".join(f"{name} 0\n" for name in names))
    path = folder / "embedding.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, FEATURES))
    for start in range(0, ROWS, 8_192):
        rows = slice(start, min(start + 8_192, ROWS))
        mapped[rows] = rng.standard_normal((rows.stop - start, FEATURES), dtype=np.float32)
        mapped[rows, :8] += 0.5 * y[rows, None]
        mapped[rows, 4:12] += 0.5 * z[rows, None]
    mapped.flush()
    return path


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = Source("celeba", {"folder": str(folder), "embeddings": str(write(folder))})
        start = time.perf_counter()
        datasets.load("celeba", **source.options)
        print(f"load {time.perf_counter() - start:.1f} s")
        jobs = [
            Job(name, changes=(("epochs", epochs), ("min_steps", 0)), keep=name == "erm")
            for name in METHODS
        ]
        start = time.perf_counter()
        outcome = run(grid([source], jobs), folder / "out", Execution(n_jobs=2))
        took = time.perf_counter() - start
        print(
            f"{dict(outcome.added)} in {took:.0f} s, two processes, {epochs} epoch(s) of the "
            f"paper's 20"
        )
        results = Results.read(folder / "out")
        columns = select(results.columns, policy="randomized")
        for name in METHODS:
            own = select(columns, method=name)
            print(
                f"  {name}: {len(own['fold'])} models, {own['train_seconds'].sum():.0f} s of "
                f"training"
            )
        start = time.perf_counter()
        for _ in benchmarking.write_tables(results, folder / "out"):
            pass
        drawn = figures.draw(folder / "out", folder / "figures", formats=("png",))
        print(f"tables and {len(drawn)} figures {time.perf_counter() - start:.1f} s")
        peak = max(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        print(
            f"peak memory of a process {peak / 2**20:.2f} GB; the embedding is "
            f"{ROWS * FEATURES * 4 / 2**30:.2f} GB"
        )


if __name__ == "__main__":
    main()
