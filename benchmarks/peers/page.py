"""The tables and the pictures of docs/evidence/peers.md and unseen.md.

Two questions. *Asked*: every package is asked for the same budget; what do unseen rows show?
*Path*: each package's points as one path, the point chosen on the other folds so that all find the
same gap (`measure.nested`); who reaches more? Every cell of the path, a table × plane × budget ×
package, is a paired one-sided t test over the folds, with Holm's correction over all cells of a
page. Folds of several seeds share rows, so the test finds leads too often rather than too rarely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from benchmarks._measuring import DOCS, machine, publish
from benchmarks.peers.measure import PLANES, REFUSED, Answers, Path_, joined, kept, measured, nested, together
from benchmarks.peers.ours import MODES
from benchmarks.peers.roster import COLOURS, LINES, OURS, PLAIN, SEEDS, Line, result_of
from benchmarks.peers.rows import DATA, TITLES, TREES, UNSEEN

Array = NDArray[np.float64]
PAGES: Mapping[str, Iterable[str]] = {"peers": DATA, "unseen": UNSEEN}
ASKED = 0.05
POINTS = {  # of the question "accuracy within an EO gap of 0.05"
    OURS: f"{MODES[0]}, accuracy, {ASKED:g}",
    f"{OURS}, {MODES[1]}": f"{MODES[1]}, accuracy, {ASKED:g}",
    "error-parity": f"accuracy, {ASKED:g}",
    "oxonfair": f"accuracy, {ASKED:g}",
    "ThresholdOptimizer": "accuracy_score",
    "ExponentiatedGradient": f"difference_bound {ASKED:g}",
    PLAIN: "plain",
}
ALPHA = 0.05


@cache
def path_of(folder: Path, data: str, seed: int, line: Line, plane: str, point: str = "") -> Any:
    """A series in a plane, or one of its points; None where it was not traced."""
    file = result_of(data, seed, line, folder)
    decisions = line.package == OURS and line.gives == "decisions"  # they lie below our scores
    if not file.is_file() or (plane == "scores" and decisions):
        return None
    if (line.gives == "scores" and plane != "scores") or (point and point not in kept(file).points):
        return None
    return measured(file, folder / "rows" / f"{data}-{seed}.npz", plane, line.gives, point)


def lines_of(package: str, blind: bool) -> tuple[Line, ...]:
    return tuple(line for line in LINES if (line.package, line.blind) == (package, blind))


Fold = tuple[int, int]  # seed, fold


def reached(folder: Path, data: str, package: str, blind: bool, plane: str) -> tuple[list[Fold], Answers] | None:
    """What the points of a package, together, reach within the plane's budgets."""
    folds: list[Fold] = []
    parts = []
    for seed in SEEDS:
        each = [path_of(folder, data, seed, line, plane) for line in lines_of(package, blind)]
        if paths := [path for path in each if path is not None]:
            path = joined(paths)
            parts.append(nested(path, PLANES[plane].budgets, PLANES[plane].coin))
            folds += [(seed, k) for k in range(path.y.shape[1])]
    return (folds, together(parts)) if parts else None


class Cell(NamedTuple):
    """A package beside ours in a plane, within a budget.

    Args:
        lead: its value less ours, on each fold that both have.
        found, ours: what of the budget is found, its and ours.
        value: ours.
    """

    data: str
    blind: bool
    plane: str
    budget: float
    package: str
    lead: Array
    found: float
    ours: float
    value: float

    @property
    def error(self) -> float:
        return float(self.lead.std(ddof=1) / np.sqrt(len(self.lead)))

    def chance(self, sign: int) -> float:
        """p of a lead of theirs (1) or of ours (-1) under none."""
        if not self.error:
            return 0.0 if sign * self.lead.mean() > 0 else 1.0
        return float(student.sf(sign * self.lead.mean() / self.error, len(self.lead) - 1))

    @property
    def overrun(self) -> bool:
        """Whether it pays for what it reaches by a budget that it does not keep."""
        return self.found > max(self.ours, self.budget)


def cells_of(folder: Path, data: Iterable[str]) -> list[Cell]:
    """All cells of a page."""
    cells = []
    for name in data:
        for blind in (False, True):
            for plane, what in PLANES.items():
                own = reached(folder, name, OURS, blind, plane)
                for package in COLOURS:
                    its = reached(folder, name, package, blind, plane)
                    if own is None or its is None or package.startswith(OURS):
                        continue
                    shared = [fold for fold in its[0] if fold in own[0]]
                    i, j = ([part[0].index(fold) for fold in shared] for part in (its, own))
                    for b, budget in enumerate(what.budgets):
                        lead = its[1].y[b, i] - own[1].y[b, j]
                        found = its[1].found(np.array(i))[b], own[1].found(np.array(j))[b]
                        value = float(own[1].y[b].mean())
                        cells.append(Cell(name, blind, plane, budget, package, lead, *found, value))
    return cells


def holm(p: Array) -> Array:
    """Holm's adjusted p values.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty(len(p))
    out[order] = np.minimum(steps, 1.0)
    return out


HEAD = ["table", "sees the group", "plane", "budget", "package", "ours (found)", "lead (found)",
        "folds", "p, Holm", "verdict"]  # fmt: skip


def verdicts(cells: Sequence[Cell]) -> list[list[Any]]:
    """One line a cell: who is ahead by more than chance."""
    ahead, behind = (holm(np.array([c.chance(sign) for c in cells])) for sign in (1, -1))
    rows = []
    for cell, more, less in zip(cells, ahead, behind, strict=True):
        if more < ALPHA:
            verdict = "ahead, overrunning more" if cell.overrun else "AHEAD"
        else:
            verdict = "behind" if less < ALPHA else "tied"
        value = abs(cell.value)  # a cost is kept as its negative
        rows.append([
            TITLES[cell.data], "no" if cell.blind else "yes", PLANES[cell.plane].title,
            f"{cell.budget:g}", cell.package, f"{value:.4f} ({cell.ours:.4f})",
            f"{cell.lead.mean():+.4f} ± {cell.error:.1g} ({cell.found:.4f})", len(cell.lead),
            f"{min(more, less):.2g}", verdict,
        ])  # fmt: skip
    return rows


def counts(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """For each plane and package how many cells are ahead of ours, tied, behind."""
    kinds = ("AHEAD", "ahead, overrunning more", "tied", "behind")
    out = []
    for sees in ("yes", "no"):
        for package in COLOURS:
            own = [row for row in rows if (row[1], row[4]) == (sees, package)]
            if own:
                found = [sum(row[-1] == kind for row in own) for kind in kinds]
                out.append([package, sees, len(own), *found])
    return out


class Shown(NamedTuple):
    """What unseen rows show of one point: (folds,) each."""

    folds: list[Fold]
    accuracy: Array
    path: Path_
    refused: int

    @property
    def gap(self) -> float:
        """The EO gap without what chance adds."""
        return float(self.path.corrected(np.arange(len(self.folds)))[0])

    def text(self) -> str:
        refused = f"; {self.refused} of {len(self.folds)} refused" if self.refused else ""
        return f"{self.accuracy.mean():.4f} ({self.gap:.3f}{refused})"


def shown(folder: Path, data: str, name: str, blind: bool) -> Shown | None:
    """A package asked for ASKED, on all seeds."""
    package = OURS if name.startswith(OURS) else name
    folds: list[Fold] = []
    parts, refused = [], 0
    for seed in SEEDS:
        for line in lines_of(package, blind):
            path = path_of(folder, data, seed, line, "decisions", POINTS[name])
            if path is None:
                continue
            parts.append(path)
            folds += [(seed, k) for k in range(path.y.shape[1])]
            no = path_of(folder, data, seed, line, "decisions", REFUSED + POINTS[name])
            if no is not None:
                refused += refusals(result_of(data, seed, line, folder), folder, data, seed, name)
    if not parts:
        return None
    x, floor, y = (np.concatenate([getattr(p, n) for p in parts], 1) for n in ("x", "floor", "y"))
    whole = Path_(x, floor, y, np.zeros(len(folds)), gap=True)
    return Shown(folds, y[0], whole, refused)


def refusals(file: Path, folder: Path, data: str, seed: int, name: str) -> int:
    """Folds in which the budget was refused."""
    q, points, about = kept(file)
    with np.load(folder / "rows" / f"{data}-{seed}.npz") as rows:
        fold = rows["fold"]
    no = q[points.index(REFUSED + POINTS[name])]
    return int(sum(no[fold == k][0] for k in range(about["folds"])))


def asked(folder: Path, data: Iterable[str]) -> list[list[str]]:
    """One line a table: accuracy and corrected EO gap of everybody who is asked for ASKED."""
    rows = []
    for name in data:
        for blind in (False, True):
            own = [shown(folder, name, title, blind) for title in POINTS]
            if own[0] is not None:
                cells = ["–" if one is None else one.text() for one in own]
                rows.append([TITLES[name], "no" if blind else "yes", *cells])
    return rows


def draw(folder: Path, data: Iterable[str], file: Path) -> None:
    """Everybody's gap and accuracy, asked for ASKED: up and to the left is better."""
    there = [name for name in data if shown(folder, name, OURS, False) is not None]
    columns = min(3, len(there))
    lines = -(-len(there) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 2.9 * lines), layout="constrained", squeeze=False
    )
    for axis, name in zip(axes.flat, there, strict=False):
        axis.axvline(ASKED, color="0.8", lw=1)
        for title in POINTS:
            one = shown(folder, name, title, False)
            if one is None:
                continue
            package = title.split(",")[0]
            error = one.accuracy.std(ddof=1) / np.sqrt(len(one.folds))
            mark = {OURS: "D", f"{OURS}, {MODES[1]}": "s", PLAIN: "*"}.get(title, "o")
            axis.errorbar(one.gap, one.accuracy.mean(), error, fmt=mark, color=COLOURS[package],
                          ms=10 if mark == "*" else 6, elinewidth=0.8, label=title,
                          mfc="none" if mark == "s" else None)  # fmt: skip
        axis.set_title(TITLES[name], fontsize=10)
    for axis in axes[-1]:
        axis.set_xlabel("EO gap, corrected")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def settings(folder: Path) -> list[list[str]]:
    """Versions, settings and CPU seconds a fold, the trees' included where they are shared."""
    rows = []
    for line in LINES:
        files = [result_of(data, seed, line, folder) for data in TITLES for seed in SEEDS]
        there = [kept(file).about for file in files if file.is_file()]
        if there:
            cpu = [np.mean(about["cpu"]) for about in there]
            seconds = f"{min(cpu):.1f} to {max(cpu):.1f}"
            rows.append([line.name, there[0]["version"], there[0]["settings"], seconds])
    return rows


def write(folder: Path, into_docs: bool = True) -> None:
    """Pictures and tables, from what has been traced."""
    for page, data in PAGES.items():
        rows = verdicts(cells_of(folder, data))
        if not rows:
            continue
        head = ["table", "sees the group", *POINTS]
        publish(f"{page}-asked", head, asked(folder, data), into_docs)
        publish(f"{page}-cells", HEAD, rows, into_docs)
        kinds = ["ahead of us", "ahead, overrunning more", "tied", "behind us"]
        head = ["package", "sees the group", "cells", *kinds]
        publish(f"{page}-counts", head, counts(rows), into_docs)
        if into_docs:
            draw(folder, data, DOCS / "evidence" / f"{page}.png")
    head = ["series", "version", f"settings; trees are {TREES}", "CPU s a fold"]
    publish("peers-settings", head, settings(folder), into_docs)
    print(machine("lightgbm", "scikit-learn", "fairlearn"))
