"""CPU time of a first frontier, and of the binary limit.

    python -m benchmarks.speed trace [--rows 30000] [--columns 100]

The trace is of boosted trees on a table with three groups: the fits behind five outer folds and
what ships, and the measuring of all that could be shipped. The limit has 200 levels of v, 10 groups
and a million scores, or a tenth of them. One thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import separatrix as sx

QUICK = ("--rows", "1000", "--columns", "10", "--scores", "10000")


def trace(rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, rows)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    X[:, ::5] += 0.3 * z[:, None]
    logit = 0.3 * X[:, :20].sum(1) + 0.5 * X[:, 0] * X[:, 1] - 0.4 * z
    y = (logit + rng.logistic(size=rows) > 0).astype(int)
    start = time.process_time()
    sx.trace(X, y, sensitive_features=z, estimator="trees", method=[])
    took = time.process_time() - start
    print(f"trace of {rows:,} rows × {columns} columns: {took:.1f} s of CPU", flush=True)


def limit(rows: int) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 10, rows)
    y = (rng.random(rows) < 0.2 + 0.04 * z).astype(int)
    s = rng.normal(size=rows) + y * (0.6 + 0.15 * z) + 0.1 * z
    start = time.process_time()
    best = sx.limit(y, s, sensitive_features=z, points=200)
    took = time.process_time() - start
    print(f"limit of {rows:,} scores: {took:.2f} s of CPU, gap {best.gap:.1e}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--scores", type=int, nargs="+", default=[1_000_000, 100_000])
    options = parser.parse_args(arguments)
    trace(options.rows, options.columns)
    for rows in options.scores:
        limit(rows)
