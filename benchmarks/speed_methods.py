"""What a stacked grid of each comparison method costs beside that of `cmi`.

    python -m benchmarks.speed_methods

CPU time of 11 λ × 5 folds on Adult as a ratio to `cmi`'s, the smallest of interleaved repetitions.
"""

from __future__ import annotations

import time

import numpy as np
import torch

import separatrix as sx
from separatrix import methods
from separatrix.methods import Lane, Recipe, Sample


def main(repeats: int = 3) -> None:
    torch.set_num_threads(1)
    for features in ("paper", "full"):
        data = sx.datasets.load("adult", features=features)
        sample = Sample(data.X, data.y, data.z)
        fold = sx.datasets.folds(data.y, data.z, 5, 0)
        rows = [np.flatnonzero(fold != k) for k in range(5)]
        best: dict[str, float] = {}
        for _ in range(repeats):
            for name in ("cmi", "adversarial", "fr_train", "fair_dummy", "fair_dro", "infofair"):
                lanes = [Lane(t, r) for r in rows for t in np.linspace(0, 1, 11)]
                start = time.process_time()
                methods.fit(name, sample, lanes, recipe=Recipe(epochs=1, min_steps=0))
                best[name] = min(best.get(name, np.inf), time.process_time() - start)
        print(
            f"Adult, {features} features (d = {sample.X.shape[1]}), 11 λ × 5 folds, one epoch: "
            f"cmi {best['cmi']:.2f} s CPU"
        )
        for name, seconds in best.items():
            print(f"  {name:12s} {seconds / best['cmi']:5.2f} × cmi", flush=True)


if __name__ == "__main__":
    main()
