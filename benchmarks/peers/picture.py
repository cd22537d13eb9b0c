"""The README's picture: accuracy against the EO gap on Adult with all features.

    python -m benchmarks.peers picture [--folder .bench/peers] [--out docs/_static]

The measurements are those of `compare`, on five test folds of a seed that nothing was chosen on:
the same boosted trees and the same cross-fitted scores for separatrix and its peers, and the trees
as they are, with and without the group among their features. Bars are one standard error over the
folds. Written in a light and a dark variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from benchmarks.peers.ours import MODES
from benchmarks.peers.page import path_of
from benchmarks.peers.protocol import GAPS
from benchmarks.peers.roster import LINES, SEEDS
from benchmarks.peers.rows import booster
from separatrix.io import whole_file

QUICK = None  # draws what `compare` has measured in full
NAME = "adult-full"
TRACED: dict[str, tuple[str, list[str]]] = {  # a line of the comparison, and its points
    "separatrix": ("FrontierClassifier", [f"{MODES[1]}, accuracy, {gap:g}" for gap in GAPS]),
    "error-parity": ("error-parity", [f"accuracy, {gap:g}" for gap in GAPS]),
    "oxonfair": ("oxonfair", [f"accuracy, {gap:g}" for gap in GAPS]),
    "fairlearn": ("ThresholdOptimizer", ["accuracy_score"]),  # no budget for equalized odds
    "as it is": ("trees, [Z|X]", ["plain"]),
}
LOOKS = {
    "light": {
        "ink": "#1f2328", "faint": "#59636e", "separatrix": "#0072b2", "error-parity": "#b35900",
        "oxonfair": "#a0437c", "fairlearn": "#00734f",
    },
    "dark": {
        "ink": "#f0f6fc", "faint": "#9198a1", "separatrix": "#56b4e9", "error-parity": "#ffa657",
        "oxonfair": "#e39ac6", "fairlearn": "#3fc79a",
    },
}  # fmt: skip


class Points(NamedTuple):
    """EO gap and accuracy of every point on every test fold, (points, folds)."""

    gap: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def main(folder: Path = Path(".bench/peers"), out: Path = Path("docs/_static")) -> None:
    """Draw what `python -m benchmarks.peers compare --data adult-full` has measured."""
    series = {**_traced(folder), "without sex": _without_group(folder)}
    limit = _limit(folder)
    for look, colours in LOOKS.items():
        with whole_file(out / f"readme-{look}.png") as path:
            _draw(series, limit, colours).savefig(path, format="png", dpi=200, transparent=True)


def _traced(folder: Path) -> dict[str, Points]:
    """What `compare` has kept."""
    series = {}
    for name, (title, points) in TRACED.items():
        line = next(line for line in LINES if line.name == title)
        drawn = [path_of(folder, NAME, SEEDS[0], line, "decisions", one) for one in points]
        if None in drawn:
            raise SystemExit(f"{title!r} has not been traced: python -m benchmarks.peers compare")
        series[name] = Points(*(np.concatenate([getattr(p, a) for p in drawn]) for a in "xy"))
    return series


def _without_group(folder: Path) -> Points:
    """The same trees, fitted to the features without the group."""
    audits = []
    with np.load(folder / "rows" / f"{NAME}-{SEEDS[0]}.npz") as data:
        X, y, z, fold = data["X"], data["y"], data["z"], data["fold"]
    for k in range(5):
        train, test = fold != k, fold == k
        decisions = booster().fit(X[train], y[train]).predict(X[test])
        audits.append(sx.audit(y[test], decisions, sensitive_features=z[test]))
    return Points(np.array([[a.eo_gap for a in audits]]), np.array([[a.accuracy for a in audits]]))


def _limit(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The best accuracy that any rule could have had on the test rows' scores."""
    with np.load(folder / "rows" / f"{NAME}-{SEEDS[0]}.npz") as data:
        y, z, fold = data["y"], data["z"], data["fold"]
        order = np.concatenate([np.flatnonzero(fold == k) for k in range(5)])
        scores = np.concatenate([data[f"cross-fitted {k} test"].mean(0) for k in range(5)])
    best = sx.limit(
        y[order], scores, sensitive_features=z[order], maximize="accuracy", budget="eo_gap",
        levels=np.linspace(0.0, 0.108, 37),
    )  # fmt: skip
    return best.levels, best.values


def _draw(series: dict[str, Points], limit: Any, colours: dict[str, str]) -> Any:
    ink, faint = colours["ink"], colours["faint"]
    text = {"text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
    with mpl.rc_context({**text, "axes.edgecolor": faint, "font.size": 12}):
        figure, ax = plt.subplots(figsize=(8.2, 4.6), layout="constrained")
        ax.plot(*limit, "--", color=faint, lw=1.6, label="limit: no rule on these scores is above")
        for name, marker in (
            ("oxonfair", "v-"), ("error-parity", "o-"), ("fairlearn", "s"), ("separatrix", "D-"),
        ):  # fmt: skip
            _bars(ax, series[name], marker, colours[name], name)
        _bars(ax, series["without sex"], "P", faint, "the model without sex", size=10)
        _bars(ax, series["as it is"], "*", ink, "the model as it is, with sex", size=15)
        ax.set(xlim=(0.0, 0.108), ylim=(0.849, 0.8785), ylabel="accuracy on unseen rows")
        ax.set_xlabel("equalized-odds gap on unseen rows: mean difference of the error rates")
        ax.spines[["top", "right"]].set_visible(False)
        ax.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=1))
        ax.legend(frameon=False, fontsize=10, loc="lower right")
    return figure


def _bars(ax: Any, points: Points, marker: str, colour: str, label: str, size: float = 5.5) -> None:
    (gap, accuracy), errors = (x.mean(1) for x in points), [x.std(1, ddof=1) / np.sqrt(x.shape[1]) for x in points]
    ax.errorbar(
        gap, accuracy, errors[1], errors[0], marker, color=colour, ms=size, lw=1.6,
        elinewidth=0.8, alpha=0.9, label=label,
    )  # fmt: skip
