"""The penalty in networks and in boosted trees, of draws and of scores: one comparison.

    python -m benchmarks.penalty measure [compas adult-paper …] [--only boosting] [--folds 5]
    python -m benchmarks.penalty on-top [compas …] [--only boosting]
    python -m benchmarks.penalty table
    python -m benchmarks.penalty spread --out results/spread

`measure` trains each path of λ on the rows of four folds and keeps the posteriors of the fifth: one
file for each dataset, inputs, path and fold. A file that is there is kept, so a killed run goes on.
The folds have the seed 21, which no setting has seen. `table` reads the files and writes
docs/evidence/penalty.md: what a fold reports is chosen on the other folds, λ and post-processing
alike (`penalty_table.py`); and its picture (`penalty_picture.py`). `spread`: boosting
with draws on COMPAS for other assignments of rows to folds. FairGBM, the only peer for trees, needs
a Python of its own: FAIRGBM_PYTHON, see `fairgbm_path.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from separatrix import methods
from separatrix.methods import Lane, Sample

Array = NDArray[Any]
DATA: dict[str, tuple[str, str, dict[str, str]]] = {
    "compas": ("COMPAS", "compas", {}),
    "adult-paper": ("Adult paper", "adult", {"features": "paper"}),
    "bank": ("Bank", "bank", {}),
    "adult-full": ("Adult all", "adult", {"features": "full"}),
    "acs": ("ACS occupation", "acs_occupation", {}),
}
BOOSTED = methods.get("cmi_boosting").grid()
NETWORK = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)
PATHS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "boosting, draw": ("cmi_boosting", "default", BOOSTED),
    "boosting, score": ("cmi_boosting", "score", BOOSTED),
    "cmi, draw": ("cmi", "default", NETWORK),
    "cmi, score": ("cmi", "score", NETWORK),
    "mi_objective": ("mi_objective", "default", NETWORK),
    "FairGBM": ("", "", ()),
}
INPUTS = {"xz": "[Z\\|X]", "x": "X alone"}
SEED, FOLDS = 21, 5


def measure(dataset: str, path: str, inputs: str, fold: int, seed: int = SEED) -> dict[str, Any]:
    """Settings, posteriors (settings, rows of the fold, K) and the CPU seconds of a path."""
    data = sx.datasets.load(DATA[dataset][1], **DATA[dataset][2])
    train = sx.datasets.folds(data.y, data.z, FOLDS, seed) != fold
    X, groups = data.prepared(np.flatnonzero(train))[0], len(data.groups)
    if path == "FairGBM":
        ahead = np.eye(groups, dtype=np.float32)[data.z] if inputs == "xz" else X[:, :0]
        return fairgbm(np.concatenate([ahead, X], axis=1), data.y, data.z, train)
    method, recipe, grid = PATHS[path]
    sample = Sample(X, data.y, data.z, len(data.labels), groups)
    lanes = [Lane(t, np.flatnonzero(train)) for t in grid]
    start = time.process_time()
    fitted = methods.fit(method, sample, lanes, recipe=recipe, use_sensitive=inputs == "xz")
    seconds = time.process_time() - start
    q = np.asarray(fitted.posteriors(X[~train], data.z[~train]), dtype=np.float32)
    return {"settings": np.array(grid), "q": q, "seconds": seconds}


def fairgbm(X: Array, y: Array, z: Array, train: Array) -> dict[str, Any]:
    worker = Path(__file__).with_name("fairgbm_path.py")
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder, "rows.npz"), Path(folder, "posteriors.npz")
        np.savez(rows, X=X, y=y, z=z, train=train)
        subprocess.run([os.environ["FAIRGBM_PYTHON"], worker, rows, out], check=True)
        with np.load(out) as found:
            q = found["q"].astype(np.float32)
            kept = {"settings": found["settings"], "seconds": found["seconds"]}
    return kept | {"q": np.stack([1.0 - q, q], axis=-1)}


def file_of(out: Path, dataset: str, path: str, inputs: str, fold: int) -> Path:
    return out / f"{dataset}_{inputs}_{path.replace(', ', '-')}_{fold}.npz"


def keep(file: Path, *cell: Any) -> None:
    """Measure and write, unless the file is there."""
    if not file.exists():
        found = measure(*cell)
        with open(file.with_suffix(".part"), "wb") as part:
            np.savez(part, **found)
        file.with_suffix(".part").replace(file)
        print(file.name, f"{float(found['seconds']):.1f} s", flush=True)


def spread(out: Path) -> None:
    """COMPAS for further seeds of the folds: one line of the table each."""
    from benchmarks import penalty_table

    cell = "compas", "boosting, draw", "xz"
    for seed in range(SEED, SEED + 6):
        folder = out / f"seed_{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        for fold in range(FOLDS):
            keep(file_of(folder, *cell, fold), *cell, fold, seed)
        found = penalty_table.Cell(folder, *cell, seed=seed)
        print(seed, [found.shown(column) for column in penalty_table.BINARY], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("measure", "on-top", "table", "spread"))
    parser.add_argument("dataset", nargs="*", choices=[*DATA, []])
    parser.add_argument("--only", default="", help="paths whose name begins so")
    parser.add_argument("--folds", type=int, default=FOLDS, help="so many of the five folds")
    parser.add_argument("--out", type=Path, default=Path("results/penalty"))
    given = parser.parse_args()
    from benchmarks import penalty_picture, penalty_table

    if given.job == "table":
        penalty_table.write(given.out)
        penalty_picture.draw(given.out, penalty_table.PAGE.with_suffix(".png"))
        return
    if given.job == "spread":
        spread(given.out)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for dataset in given.dataset or DATA:
        for path in (path for path in PATHS if path.startswith(given.only)):
            if path == "FairGBM" and ("FAIRGBM_PYTHON" not in os.environ or dataset == "acs"):
                continue
            for inputs in INPUTS:
                if given.job == "on-top":
                    penalty_table.keep_tops(given.out, dataset, path, inputs)
                    continue
                for fold in range(given.folds):
                    cell = dataset, path, inputs, fold
                    keep(file_of(given.out, *cell), *cell)


if __name__ == "__main__":
    main()
