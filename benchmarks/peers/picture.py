"""The README's picture: accuracy against the EO gap on Adult, ours, the peers and the limit.

    python -m benchmarks.peers picture [--folder .bench/peers] [--out docs/_static]

The measurements are those of `compare`: the same boosted trees for all, five test folds of
a seed that nothing was chosen on. We cross-fit, the peers have held-out scores as their guides
advise. Written in a light and a dark variant.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from benchmarks.peers.page import path_of
from benchmarks.peers.roster import LINES, SEEDS
from separatrix.io import whole_file
from separatrix.report.terminal import root_scale

QUICK = None  # draws what `compare` has measured in full
Array = NDArray[np.float64]
NAME = "adult-paper"
SHOWN = {  # a line of the comparison, and which of its points
    "plain": ("trees, [Z|X]", slice(1, 2)),  # decided at ½
    "separatrix": ("FrontierClassifier, accuracy, cross-fitted", slice(None)),
    "error-parity": ("error-parity, accuracy, held out", slice(None)),
    "fairlearn": ("ThresholdOptimizer, held out", slice(0, 1)),  # for accuracy
}
LOOKS = {
    "light": {"ink": "#1f2328", "faint": "#59636e", "ours": "#0072b2", "peer": "#b35900"},
    "dark": {"ink": "#f0f6fc", "faint": "#9198a1", "ours": "#56b4e9", "peer": "#ffa657"},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what `python -m benchmarks.peers compare --data adult-paper` has measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".bench/peers"))
    parser.add_argument("--out", type=Path, default=Path("docs/_static"))
    chosen = parser.parse_args(arguments)
    series = _series(chosen.folder)
    for look, colours in LOOKS.items():
        with whole_file(chosen.out / f"readme-{look}.png") as path:
            _draw(series, colours).savefig(path, format="png", dpi=200, transparent=True)
    for name, (gap, accuracy) in series.items():
        print(name, *(f"{g:.4f}:{a:.4f}" for g, a in zip(gap, accuracy, strict=True)))


def _series(folder: Path) -> dict[str, tuple[Array, Array]]:
    """EO gap and accuracy of every series, means over the test folds."""
    series = {}
    for name, (title, points) in SHOWN.items():
        line = next(line for line in LINES if line.name == title)
        path = path_of(folder, NAME, SEEDS[0], line, "decisions")
        if path is None:
            raise SystemExit(f"{title!r} has not been traced: python -m benchmarks.peers compare")
        series[name] = path.x.mean(1)[points], path.y.mean(1)[points]
    with np.load(folder / "rows" / f"{NAME}-{SEEDS[0]}.npz") as data:
        y, z, fold = data["y"], data["z"], data["fold"]
        order = np.concatenate([np.flatnonzero(fold == k) for k in range(5)])
        scores = np.concatenate([data[f"cross-fitted {k} test"].mean(0) for k in range(5)])
    levels = np.linspace(0.0, 0.6, 60) ** 2
    best = sx.limit(
        y[order], scores, sensitive_features=z[order], maximize="accuracy", budget="eo_gap",
        levels=levels,
    )  # fmt: skip
    return {"limit": (best.levels, best.values), **series}


def _draw(series: dict[str, tuple[Array, Array]], colours: dict[str, str]) -> Any:
    ink, faint, own, peer = colours.values()
    text = {"text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
    with mpl.rc_context({**text, "axes.edgecolor": faint, "font.size": 12}):
        figure, ax = plt.subplots(figsize=(8.2, 4.3), layout="constrained")
        root_scale(ax, (0.0, 0.38))
        ax.plot(*series["limit"], "--", color=faint, lw=1.6)
        ax.plot(*_best(series["error-parity"]), "o-", color=peer, ms=4, lw=1.4)
        ax.plot(*_best(series["separatrix"]), "D-", color=own, ms=6, lw=2.4)
        ax.plot(*series["fairlearn"], "s", color=peer, ms=9)
        ax.plot(*series["plain"], "*", color=ink, ms=20)
        at = {name: (gap[k], accuracy[k]) for name, k, (gap, accuracy) in _marked(series)}
        _label(ax, "your model as it is", at["plain"], (-14, 16), ink, "right")
        _label(ax, "fairlearn: one point", at["fairlearn"], (0, -20), peer, "center")
        _label(ax, "error-parity", at["error-parity"], (4, -16), peer, "left")
        _label(ax, "separatrix, for any budget", at["separatrix"], (-10, 22), own, "right")
        _label(ax, "limit: no rule is above", at["limit"], (4, 42), faint, "left")
        ax.set_title(_headline(series), loc="left", fontsize=13, weight="bold")
        ax.set(ylim=(0.7795, 0.8075), yticks=(0.78, 0.79, 0.80), ylabel="accuracy")
        ax.set_xlabel("equalized-odds gap: how far apart the groups' error rates are")
        ax.spines[["top", "right"]].set_visible(False)
        ax.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    return figure


def _headline(series: dict[str, tuple[Array, Array]]) -> str:
    """What the smallest gap that we reach costs."""
    gap, accuracy = (float(x[0]) for x in series["plain"])
    least, reached = (float(x[0]) for x in _best(series["separatrix"]))
    points = 100 * (accuracy - reached)
    return f"A gap of {gap:.2f} down to {least:.2f} for {points:.1f} points of accuracy"


def _marked(series: dict[str, tuple[Array, Array]]) -> list[tuple[str, int, Any]]:
    """Where the names stand: a point of each series."""
    places = {"plain": 0, "fairlearn": 0, "error-parity": -4, "separatrix": -5, "limit": 0}
    return [(name, k, _best(series[name])) for name, k in places.items()]


def _best(points: tuple[Array, Array]) -> tuple[Array, Array]:
    """The points that no other of the series beats, by their gaps."""
    order = np.lexsort((-points[1], points[0]))
    gap, accuracy = points[0][order], points[1][order]
    kept = accuracy > np.r_[-np.inf, np.maximum.accumulate(accuracy)[:-1]]
    return gap[kept], accuracy[kept]


def _label(ax: Any, text: str, at: Any, offset: tuple[int, int], colour: str, ha: str) -> None:
    ax.annotate(text, at, offset, textcoords="offset points", color=colour, ha=ha, va="center")
