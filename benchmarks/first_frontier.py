"""CPU time of a first frontier: 30,000 rows × 100 columns, three groups, boosted trees.

    python -m benchmarks.first_frontier [--rows 30000] [--columns 100]

One thread. The stages are those that `trace` names: the 15 fits behind five outer folds and what
ships, and the measuring of all that could be shipped.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import separatrix as sx
from separatrix.frontier import trace as training


def main() -> None:
    """Trace a made-up table and print where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=100)
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, chosen.rows)
    X = rng.normal(size=(chosen.rows, chosen.columns)).astype(np.float32)
    X[:, ::5] += 0.3 * z[:, None]
    logit = 0.3 * X[:, :20].sum(1) + 0.5 * X[:, 0] * X[:, 1] - 0.4 * z
    y = (logit + rng.logistic(size=chosen.rows) > 0).astype(int)
    spent: dict[str, float] = {}
    for name in ("fit_base", "write_answers"):
        _timed(name, spent)
    start = time.process_time()
    sx.trace(X, y, sensitive_features=z, estimator="trees", method=[])
    whole = time.process_time() - start
    print(f"{chosen.rows:,} rows × {chosen.columns} columns: {whole:.1f} s of CPU, of which")
    print(f"fits {spent['fit_base']:.1f} s, measuring {spent['write_answers']:.1f} s")


def _timed(name: str, spent: dict[str, float]) -> None:
    """Count the CPU time of a stage of `trace`."""
    stage = getattr(training, name)

    def counted(*args: object, **options: object) -> object:
        start = time.process_time()
        found = stage(*args, **options)
        spent[name] = time.process_time() - start
        return found

    setattr(training, name, counted)


if __name__ == "__main__":
    main()
