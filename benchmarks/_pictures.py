"""The pictures of tables: one row of dots for each line of a CSV file."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
NUMBER = re.compile(r"([-+]?[\d.]+(?:e-?\d+)?)(%?)(?: ± ([\d.]+))?")


class Dots(NamedTuple):
    """What is drawn of a table.

    Args:
        labels: columns that name a row.
        values: columns of numbers, "0.05", "97.1%" or "0.05 ± 0.01"; a colour each.
        axis: its label.
        marks: where a vertical line stands.
        limits: of the axis.
    """

    labels: tuple[str, ...]
    values: tuple[str, ...]
    axis: str
    marks: tuple[float, ...] = ()
    limits: tuple[float, float] | None = None


PICTURES = {
    "promises": Dots(("table",), ("all",), "share of promises that held", (0.95,), (0.8, 1.01)),
    "margins": Dots(
        ("distribution",), ("true gap, asked 0.05", "true gap, asked 0.1"), "true EO gap",
        (0.05, 0.1), (0.0, 0.12),
    ),
    "coverage": Dots(
        ("K (Y×U×Z)", "n"), ("v = 0", "v = 0.001", "v = 0.1"), "coverage of the 95 % interval",
        (0.95,), (0.88, 1.0),
    ),
    "criteria-decisions": Dots(
        ("data", "decisions"), ("EO gap", "parity gap", "predictive gap"), "gap that remains"
    ),
    "penalty": Dots(("adult.test",), ("EO gap at ½", "largest gap"), "EO gap"),
    "blind": Dots(
        ("data",), tuple(f"accuracy, EO ≤ {x}" for x in (0, 0.01, 0.02, 0.05)),
        "best accuracy within an EO gap",
    ),
}  # fmt: skip


def draw(file: Path) -> None:
    """Draw the picture of a table beside it, if it has one."""
    if file.stem not in PICTURES:
        return
    import matplotlib.pyplot as plt

    what = PICTURES[file.stem]
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    figure, ax = plt.subplots(figsize=(7.5, 1.2 + 0.24 * len(rows)), layout="constrained")
    for name, colour in zip(what.values, COLOURS, strict=False):
        found = [NUMBER.match(row[name]) for row in rows]
        x = [float(m[1]) / (100 if m[2] else 1) if m else np.nan for m in found]
        error = [float(m[3]) if m and m[3] else 0.0 for m in found]
        ax.errorbar(x, range(len(rows)), xerr=error, fmt="o", ms=5, color=colour, label=name)
    for mark in what.marks:
        ax.axvline(mark, color="0.6", lw=1, zorder=0)
    names = [", ".join(row[label] for label in what.labels) for row in rows]
    ax.set(xlabel=what.axis, xlim=what.limits)
    ax.set_yticks(range(len(rows)), names)
    ax.invert_yaxis()
    ax.grid(axis="y", color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
    if len(what.values) > 1:
        figure.legend(loc="outside upper right", ncols=len(what.values), frameon=False, fontsize=9)
    figure.savefig(file.with_suffix(".png"), dpi=120)
    plt.close(figure)
