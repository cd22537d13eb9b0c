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
        gap, accuracy = _rising(series["error-parity"])
        ax.plot(gap, accuracy, "o-", color=peer, ms=4, lw=1.4)
        gap, accuracy = _rising(series["separatrix"])
        ax.plot(gap, accuracy, "D-", color=own, ms=6, lw=2.4)
        ax.plot(*series["fairlearn"], "s", color=peer, ms=9)
        ax.plot(*series["plain"], "*", color=ink, ms=18)
        _label(ax, "your model as it is", series["plain"], (-6, 14), ink, "right")
        _label(ax, "fairlearn: one point", series["fairlearn"], (12, -5), peer, "left")
        ax.set(ylim=(0.772, 0.8095), ylabel="accuracy")
        ax.set_xlabel("equalized-odds gap: how far apart the groups' error rates are")
        names = {"limit no rule can pass": faint, "separatrix": own, "error-parity": peer}
        for i, (name, colour) in enumerate(names.items()):
            ax.text(0.02, 0.95 - 0.075 * i, name, transform=ax.transAxes, color=colour)
        ax.spines[["top", "right"]].set_visible(False)
        ax.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    return figure


def _rising(points: tuple[Array, Array]) -> tuple[Array, Array]:
    """Points in the order of their gaps."""
    order = np.argsort(points[0])
    return points[0][order], points[1][order]


def _label(ax: Any, text: str, at: Any, offset: tuple[int, int], colour: str, ha: str) -> None:
    place = float(at[0][0]), float(at[1][0])
    ax.annotate(text, place, offset, textcoords="offset points", color=colour, ha=ha, va="center")


if __name__ == "__main__":
    main()
