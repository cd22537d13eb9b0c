"""The picture of docs/evidence/penalty.md: what each path offers, one column for each dataset.

Above, scores of models that do not see the group: AUROC against the violation in 20 bins. Below,
decisions at ½ of models that see it: accuracy against the EO gap. A point is one λ, mean over the
folds; those that another λ of the same path beats in both are left out, and so are those that
rank far worse than the best.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.penalty import DATA, PATHS
from benchmarks.penalty_table import Cell, floor, merged, rows_of
from separatrix.core.measures import METRICS

ROWS = (("x", "score_violation", "auroc"), ("xz", "eo_gap at ½", "accuracy at ½"))
CUT = 0.08  # an AUROC so far below the best is not shown
LABELS = {
    "score_violation": "v of the score in 20 bins, nats",
    "auroc": "AUROC, models without the group",
    "eo_gap at ½": "EO gap of decisions at ½",
    "accuracy at ½": "accuracy at ½, models with the group",
}
COLOURS = {
    "boosting, draw": "#e69f00",
    "boosting, score": "#d55e00",
    "cmi, draw": "#56b4e9",
    "cmi, score": "#0072b2",
    "mi_objective": "#009e73",
    "FairGBM": "#666666",
}


def draw(out: Path, file: Path) -> None:
    """Read the posteriors in `out`, write the PNG."""
    datasets = [name for name in DATA if rows_of(name)[3][0] == 2]
    size = 3.6 * len(datasets), 7.2
    figure, axes = plt.subplots(2, len(datasets), figsize=size, layout="constrained")
    for row, (inputs, budget, goal) in zip(axes, ROWS, strict=True):
        for axis, dataset in zip(row, datasets, strict=True):
            panel(axis, out, dataset, inputs, budget, goal)
        row[0].set_ylabel(LABELS[goal])
    for axis, dataset in zip(axes[0], datasets, strict=True):
        axis.set_title(DATA[dataset][0])
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    named = {name: lines[name] for name in [*PATHS, "shuffled groups"] if name in lines}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(named))
    figure.savefig(file, dpi=120, metadata={"Software": None})
    plt.close(figure)


def panel(axis: Any, out: Path, dataset: str, inputs: str, budget: str, goal: str) -> None:
    for path, colour in COLOURS.items():
        cell = Cell(out, dataset, path, inputs)
        if len(cell.folds) < 2:
            continue
        at = range(len(cell.settings))
        x, y = (
            np.array([merged([views[i] for views in cell.views], name) for i in at])
            for name in (budget, goal)
        )
        best = [i for i in np.argsort(x) if x[i] > 0 and not (y[x < x[i]] >= y[i]).any()]
        axis.plot(x[best], y[best], "o-", color=colour, lw=1.5, ms=3.5, label=path)
        if path == "boosting, score" and budget in METRICS:
            noise = floor(cell, 0, budget)
            axis.axvline(noise, color="black", lw=1, ls=":", label="shuffled groups")
    if budget == "score_violation":
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, high - CUT))
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axis.set_xlabel(LABELS[budget])
    axis.grid(alpha=0.25)
