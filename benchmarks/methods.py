"""The comparison methods: ours beside the paper's compact tables, and the cost of a stacked grid
beside that of `cmi`.

    separatrix benchmark --out results && python -m benchmarks.methods table results
    python -m benchmarks.methods speed

`table`: from the records of a benchmark, each method's own grid for the dataset, five folds, the
paper's features, randomised policies, the recipe "paper" where a method has it; it writes the
tables of methods.md. As in the paper, a row shows the best fold-mean of a metric among the λ
whose fold-mean EO gap is within the threshold. `speed`: CPU time of 11 λ × 5 folds on Adult as a
ratio to `cmi`'s, the smallest of interleaved repetitions.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

import separatrix as sx
from benchmarks._measuring import DOCS, markdown, write_between_markers
from separatrix import methods
from separatrix.frontier.budgets import best
from separatrix.frontier.results import Results
from separatrix.frontier.tidy import Columns, select
from separatrix.methods import Lane, Recipe, Sample

THRESHOLDS = (0.01, 0.02, 0.05)
ORDER = (
    "erm_x", "erm", "cmi", "raw_cmi", "adversarial", "fr_train", "fair_dro", "infofair",
    "fair_dummy", "exponentiated_gradient", "threshold_optimizer", "uniform", "mi_objective",
    "postprocessing",
)  # fmt: skip
# accuracy and AUROC of the randomised policies at EO gap ≤ 0.01, 0.02, 0.05, from the paper's
# compact tables; None where the paper has no row
PAPER: dict[str, dict[str, tuple[tuple[float, float] | None, ...]]] = {
    "adult": {
        "erm_x": (None, (0.7125, 0.7928), (0.7125, 0.7928)),
        "cmi": ((0.68, 0.7934), (0.6959, 0.7936), (0.7132, 0.7983)),
        "adversarial": ((0.7251, 0.5994), (0.7251, 0.5994), (0.7251, 0.5994)),
        "fr_train": ((0.5466, 0.5108), (0.5466, 0.5108), (0.5466, 0.5108)),
        "fair_dro": (None, None, (0.6665, 0.7954)),
        "infofair": (None, None, (0.4376, 0.4499)),
        "fair_dummy": ((0.6816, 0.7364), (0.6879, 0.7535), (0.7103, 0.8014)),
        "exponentiated_gradient": (None, (0.7125, 0.7928), (0.7125, 0.7928)),
    },
    "compas": {
        "cmi": ((0.5455, 0.6966), (0.5598, 0.6966), (0.5654, 0.6966)),
        "adversarial": ((0.4999, 0.5), (0.4999, 0.5), (0.5664, 0.703)),
        "fr_train": (None, None, (0.5666, 0.6959)),
        "fair_dro": (None, (0.5609, 0.6942), (0.5652, 0.6951)),
        "infofair": (None, (0.5334, 0.6955), (0.56, 0.6985)),
        "fair_dummy": ((0.5293, 0.6881), (0.5532, 0.6996), (0.5643, 0.7011)),
    },
    "bank": {
        "cmi": ((0.8303, 0.8798), (0.8645, 0.914), None),
        "adversarial": ((0.8809, 0.5181), (0.8809, 0.9007), None),
        "fr_train": ((0.7168, 0.5072), (0.8622, 0.9086), None),
        "infofair": (None, (0.834, 0.8435), None),
        "fair_dummy": ((0.8644, 0.623), (0.8644, 0.9084), None),
    },
}


def row(mean: Columns, dataset: str, name: str) -> tuple[str, ...]:
    """The cells of one method, empty dashes where it has no point within a budget."""
    method, inputs = ("erm", "x") if name == "erm_x" else (name, "xz")
    own = select(mean, method=method, inputs=inputs)
    recipes = set(own["recipe"].tolist())
    own = select(own, recipe="paper" if "paper" in recipes else "default")
    if not len(own["trade_off"]):
        return ()
    cells = []
    for threshold, theirs in zip(THRESHOLDS, PAPER[dataset].get(name, (None,) * 3), strict=True):
        best = [best(own, "eo_gap", threshold, metric) for metric in ("accuracy", "auroc")]
        ours = "–"
        if None not in best:
            ours = " ".join(
                f"{own[m][i]:.3f}" for m, i in zip(("accuracy", "auroc"), best, strict=True)
            )
        cells.append(f"{ours} / {'–' if theirs is None else f'{theirs[0]:.3f} {theirs[1]:.3f}'}")
    within = (own["violation"] <= 0.001) & (own["lost"] == 0)
    cells.append(f"{own['utility'][within].max():.4f}" if within.any() else "–")
    cells.append(f"{int(own['lost'].sum())} of {int((own['folds'] + own['lost']).sum())}")
    label = (
        "`erm`, X alone" if name == "erm_x" else "`erm`, [Z\\|X]" if name == "erm" else f"`{name}`"
    )
    return (label, *cells)


def table(folder: Path) -> str:
    """One table for each of the paper's binary datasets in the folder."""
    mean = select(Results.read(folder).mean, policy="randomized")
    parts = []
    for dataset in PAPER:
        here = select(mean, dataset=dataset)
        rows = [cells for name in ORDER if (cells := row(here, dataset, name))]
        if rows:
            head = (dataset, "EO ≤ 0.01", "EO ≤ 0.02", "EO ≤ 0.05", "u at v ≤ 0.001", "lost")
            parts.append(markdown(head, rows))
    return "\n\n".join(parts)


def speed(repeats: int = 3) -> None:
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


def main() -> None:
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["table", folder]:
            write_between_markers(DOCS / "evidence" / "methods.md", "methods", table(Path(folder)))
        case ["speed"]:
            speed()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
