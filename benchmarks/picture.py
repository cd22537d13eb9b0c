"""The README's picture: accuracy against the EO gap on Adult, ours, the peers and the limit.

    python -m benchmarks.picture [--folder .bench] [--out docs/_static]

The measurements are those of `benchmarks.objectives.decisions`: the same boosted trees for all,
five test folds, nothing chosen on test rows. We cross-fit, the peers have held-out scores as their
guides advise. Written in a light and a dark variant.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import separatrix as sx
from benchmarks.objectives.decisions import (
    Array,
    decided,
    error_parity,
    fairlearn_rules,
    measured,
    ours,
    scores_of,
)
from separatrix.display import root_scale
from separatrix.io import whole_file

NAME = "adult-paper"
LOOKS = {
    "light": {"ink": "#1f2328", "faint": "#59636e", "ours": "#0072b2", "peer": "#b35900"},
    "dark": {"ink": "#f0f6fc", "faint": "#9198a1", "ours": "#56b4e9", "peer": "#ffa657"},
}


def main() -> None:
    """Measure what is not in the folder yet, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--out", type=Path, default=Path("docs/_static"))
    chosen = parser.parse_args()
    series = _series(scores_of(NAME, chosen.folder / "decisions"), chosen.folder)
    for look, colours in LOOKS.items():
        with whole_file(chosen.out / f"readme-{look}.png") as path:
            _draw(series, colours).savefig(path, format="png", dpi=200, transparent=True)
    for name, (gap, accuracy) in series.items():
        print(name, *(f"{g:.4f}:{a:.4f}" for g, a in zip(gap, accuracy, strict=True)))


def _series(file: Path, folder: Path) -> dict[str, tuple[Array, Array]]:
    """EO gap and accuracy of every series, means over the test folds."""
    with np.load(file) as data:
        own = [data[f"cross-fitted {k} test"] for k in range(5)]
        y, z, fold = data["y"], data["z"], data["fold"]
    plain = [(scores.mean(0) > 0.5).astype(float)[None] for scores in own]
    found = {
        "plain": plain,
        "separatrix": decided(file, "cross-fitted", ours)[0],
        "error-parity": error_parity(file, folder)["held out"][0],
        "fairlearn": decided(file, "held out", fairlearn_rules)[0],
    }
    series = {name: measured(file, q)[:2] for name, q in found.items()}
    order = np.concatenate([np.flatnonzero(fold == k) for k in range(5)])
    pooled = np.concatenate([scores.mean(0) for scores in own])
    levels = np.linspace(0.0, 0.6, 60) ** 2
    best = sx.limit(
        y[order], pooled, sensitive_features=z[order], maximize="accuracy", budget="eo_gap",
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


if __name__ == "__main__":
    main()
