"""The tables and the picture of docs/evidence/peers.md."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from benchmarks._measuring import DOCS, machine, publish
from benchmarks.peers.measure import (
    PLANES,
    Answers,
    Path_,
    joined,
    kept,
    measured,
    nested,
    together,
)
from benchmarks.peers.roster import BOOSTING, COLOURS, LINES, OURS, PLAIN, SEEDS, Line, result_of
from benchmarks.peers.rows import DATA, TREES
from separatrix.core import envelope

Array = NDArray[np.float64]
Lines = tuple[list[str], list[list[str]]]  # head and rows of a table
SUMMARY = ("data", "budget", OURS, "error-parity", "oxonfair", "ThresholdOptimizer", "first")
SUMMARY_BUDGETS = ("EO gap ≤ 0.02", "EO gap ≤ 0.05")
STEPS = 20  # budgets under which the area is summed up
MOST = {name: plane.most for name, plane in envelope.PLANES.items()}  # the largest budgets
SURE = 0.975  # of Student's law: a difference of fewer errors than its quantile may be chance


class Cell(NamedTuple):
    """What a package or a series reaches in a plane: its answers, and (seed, fold) of each.

    Args:
        asked: the plane's budgets, then `STEPS` of the area.
    """

    plane: str
    folds: list[tuple[int, int]]
    asked: tuple[float, ...]
    answers: Answers

    def values(self, budget: float | None) -> Array:
        """What each fold reaches, (folds,); for None the area above the constant, × 1000."""
        if budget is not None:
            return self.answers.y[self.asked.index(budget)]
        above = self.answers.y[-STEPS:].mean(0) - self.answers.constant
        return np.asarray(1e3 * MOST[self.plane] * above)

    def found(self, budget: float | None, folds: Sequence[int] | None = None) -> float:
        """The corrected mean that some folds find of a budget; NaN for the area."""
        if budget is None:
            return float("nan")
        here = np.arange(len(self.folds)) if folds is None else np.asarray(folds)
        return float(self.answers.found(here)[self.asked.index(budget)])


@cache
def path_of(folder: Path, data: str, seed: int, line: Line, plane: str) -> Path_ | None:
    """A series in a plane, if it has been traced and belongs there."""
    file = result_of(data, seed, line, folder)
    if not file.is_file() or (line.gives == "scores" and plane != "scores"):
        return None
    return measured(file, folder / "rows" / f"{data}-{seed}.npz", plane, line.gives)


def cell_of(
    folder: Path, data: str, lines: tuple[Line, ...], plane: str, seeds: Sequence[int] = SEEDS
) -> Cell | None:
    """The points of some series together, chosen within each seed on its other folds."""
    what, folds, parts = PLANES[plane], [], []
    asked = (*what.budgets, *np.linspace(0.0, MOST[plane], STEPS + 1)[1:].tolist())
    for seed in seeds:
        found = [path_of(folder, data, seed, line, plane) for line in lines]
        paths = [path for path in found if path is not None]
        if paths:
            path = joined(paths)
            parts.append(nested(path, asked, what.coin))
            folds += [(seed, k) for k in range(path.y.shape[1])]
    return Cell(plane, folds, asked, together(parts)) if parts else None


def lines_of(package: str, blind: bool) -> tuple[Line, ...]:
    return tuple(line for line in LINES if (line.package, line.blind) == (package, blind))


class Difference(NamedTuple):
    """A package less ours, on the folds that both have.

    Args:
        ahead, error: of what is reached, and its standard error over the folds.
        found, ours: what of the budget is found, its and ours; NaN for the area.
        folds: how many.
    """

    ahead: float
    error: float
    found: float
    ours: float
    folds: int

    @property
    def clear(self) -> bool:
        """More than chance: two folds have to be 13 errors apart, fifteen two."""
        if self.folds < 2:
            return False
        return abs(self.ahead) > float(student.ppf(SURE, self.folds - 1)) * self.error

    def text(self, digits: int) -> str:
        """Such as "+0.0170 ± 0.006 (0.030)"."""
        found = "" if np.isnan(self.found) else f" ({_short(self.found)})"
        return f"{self.ahead:+.{digits}f} ± {self.error:.1g}{found}"


def first(others: dict[str, Difference], budget: float | None) -> str:
    """Who is ahead: nobody where it may be chance, or is paid for by overrunning the budget."""
    name, best = max(others.items(), key=lambda pair: pair[1].ahead)
    few = f" ({best.folds} folds)" if best.folds < 5 else ""
    if best.ahead <= 0:
        return f"**{OURS}**" if best.clear else f"{OURS}, tied with {name}{few}"
    if not best.clear:
        return f"{name}{few}, tied with us"
    over = budget is not None and best.found > max(best.ours, budget)
    return f"{name}, overrunning more" if over else f"**{name}**{few}"


def compared(cells: dict[str, Cell], budget: float | None) -> dict[str, Difference]:
    """Every package beside ours."""
    own, out = cells[OURS], {}
    at = {fold: i for i, fold in enumerate(own.folds)}
    for package, cell in cells.items():
        here = [i for i, fold in enumerate(cell.folds) if fold in at]
        if package in (OURS, PLAIN) or not here:
            continue
        same = [at[cell.folds[i]] for i in here]
        gain = cell.values(budget)[here] - own.values(budget)[same]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        found = cell.found(budget, here), own.found(budget, same)
        out[package] = Difference(float(gain.mean()), float(error), *found, len(gain))
    return out


def short_table(
    folder: Path,
    plane: str,
    blind: bool,
    shown_data: Sequence[str] = tuple(DATA),
    seeds: Sequence[int] = SEEDS,
) -> Lines:
    """One row for each dataset and budget."""
    what, rows = PLANES[plane], []
    packages = [p for p in COLOURS if p not in (PLAIN, OURS) and lines_of(p, blind)]
    for data in shown_data:
        title = DATA[data][2]
        cells = {
            package: cell_of(folder, data, lines_of(package, blind), plane, seeds)
            for package in (OURS, *packages)
        }
        there = {package: cell for package, cell in cells.items() if cell is not None}
        if OURS not in there or len(there) < 2:
            continue
        for budget in (*what.budgets, None):
            others, digits = compared(there, budget), 4 if budget else 3
            shown = [others[p].text(digits) if p in others else "–" for p in packages]
            label = f"{what.labels[0]} ≤ {budget:g}" if budget else "area × 1000"
            rows.append(
                [title, label, _reached(there[OURS], budget), *shown, first(others, budget)]
            )
    return ["data", "budget", OURS, *packages, "first"], rows


def _reached(cell: Cell, budget: float | None) -> str:
    """The mean over all folds and, in brackets, what is found of the budget."""
    value = float(cell.values(budget).mean())
    return f"{value:.4f} ({_short(cell.found(budget))})" if budget else f"{value:.3f}"


def _short(x: float) -> str:
    return f"{x:.4f}" if x >= 5e-3 or x == 0 else f"{x:.1e}"


def long_table(folder: Path, plane: str) -> Lines:
    """Every series by itself."""
    what, rows = PLANES[plane], []
    for data, (_, _, title) in DATA.items():
        for line in LINES:
            cell = cell_of(folder, data, (line,), plane)
            if cell is not None:
                shown = [_reached(cell, budget) for budget in (*what.budgets, None)]
                cpu = f"{seconds(folder, data, (line,)):.2f}"
                sees = "no" if line.blind else "yes"
                rows.append([title, line.name, sees, *shown, cpu, str(len(cell.folds))])
    budgets = [f"{what.labels[0]} ≤ {b:g}" for b in what.budgets]
    head = ["data", "series", "sees the group", *budgets, "area × 1000", "CPU s a fold", "folds"]
    return head, rows


def seconds(folder: Path, data: str, lines: tuple[Line, ...]) -> float:
    """CPU seconds of a path and the trees that it stands on: a fold, mean of the series."""
    files = [result_of(data, seed, line, folder) for seed in SEEDS for line in lines]
    found = [np.mean(kept(file).about["cpu"]) for file in files if file.is_file()]
    return float(np.mean(found)) if found else float("nan")


def cpu_table(folder: Path) -> Lines:
    """Mean over the series of a package, with the group and without."""
    rows = []
    for package in COLOURS:
        for blind in (False, True):
            lines = lines_of(package, blind)
            cells = [seconds(folder, data, lines) for data in DATA]
            if np.isfinite(cells).any():
                shown = ["–" if np.isnan(c) else f"{c:.1f}" for c in cells]
                rows.append([package, "no" if blind else "yes", *shown])
    return ["package", "sees the group", *(title for _, _, title in DATA.values())], rows


def settings(folder: Path) -> Lines:
    rows = []
    for line in LINES:
        files = [result_of(data, seed, line, folder) for data in DATA for seed in SEEDS]
        file = next((one for one in files if one.is_file()), None)
        if file is not None:
            about = kept(file).about
            rows.append([line.name, about["version"], about["settings"]])
    return ["series", "version", f"settings; trees are {TREES}"], rows


def draw(folder: Path, file: Path) -> None:
    """Envelopes of the corrected means, a row for each plane, a column for each dataset."""
    there = {data: about for data, about in DATA.items() if _compared(folder, data)}
    shape = len(PLANES), len(there)
    size = (3.3 * shape[1], 2.9 * shape[0])
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    handles: dict[str, Any] = {}
    for row, (plane, what) in zip(axes, PLANES.items(), strict=True):
        for axis, (data, (_, _, title)) in zip(row, there.items(), strict=True):
            for package, colour in COLOURS.items():
                points = _points(folder, data, package, plane)
                if points is None:
                    continue
                x, y = points
                ours = package in (OURS, BOOSTING)
                style = "-" if ours else "--"
                if package == PLAIN:
                    handles[package] = axis.plot(x[-1:], y[-1:], "*", color=colour, ms=11)[0]
                    continue
                if what.coin:
                    best = envelope.concave_envelope(
                        np.r_[0.0, x], np.r_[_least(folder, data, plane), y]
                    )
                    at = np.linspace(0.0, MOST[plane], 200)
                    line = axis.plot(at, best.at(at), style, color=colour, lw=2 if ours else 1.3)[0]
                else:
                    line = axis.plot(x, y, "o" if ours else "s", color=colour, ms=4)[0]
                handles[package] = line
            axis.set_xlim(-0.02 * MOST[plane], MOST[plane])
            axis.set_xlabel(f"{what.labels[0]}, corrected")
            if plane == next(iter(PLANES)):
                axis.set_title(title, fontsize=11)
        row[0].set_ylabel(what.labels[1])
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _compared(folder: Path, data: str) -> bool:
    """Whether ours and a peer have been traced."""
    found = {line.package for line in LINES if result_of(data, SEEDS[0], line, folder).is_file()}
    return OURS in found and len(found - {OURS, BOOSTING, PLAIN}) > 0


def _points(folder: Path, data: str, package: str, plane: str) -> tuple[Array, Array] | None:
    """Corrected x and y of all points that see the group, means over all folds of the seeds."""
    x, y = [], []
    for line in lines_of(package, False):
        if plane == "scores" and package == OURS and line.gives == "decisions":
            continue  # they lie below our scores
        found = [path_of(folder, data, seed, line, plane) for seed in SEEDS]
        paths = [path for path in found if path is not None]
        if paths:
            each = [path.corrected(np.arange(path.y.shape[1])) for path in paths]
            x.append(np.mean(each, axis=0))
            y.append(np.mean([path.y.mean(1) for path in paths], axis=0))
    return (np.concatenate(x), np.concatenate(y)) if x else None


def _least(folder: Path, data: str, plane: str) -> float:
    path = path_of(folder, data, SEEDS[0], LINES[0], plane)
    assert path is not None
    return float(path.constant.mean())


def write(folder: Path) -> None:
    """Picture and tables, from what has been traced."""
    draw(folder, DOCS / "evidence" / "peers.png")
    for plane in PLANES:
        for blind, seen in ((False, "aware"), (True, "blind")):
            publish(f"peers-{seen}-{plane}", *short_table(folder, plane, blind), write=True)
        publish(f"peers-series-{plane}", *long_table(folder, plane), write=True)
    head, rows = short_table(folder, "decisions", False)
    places = [head.index(name) for name in SUMMARY]
    brief = [[row[i] for i in places] for row in rows if row[1] in SUMMARY_BUDGETS]
    publish("peers-summary", SUMMARY, brief, write=True)
    publish("peers-cpu", *cpu_table(folder), write=True)
    publish("peers-settings", *settings(folder), write=True)
    print(machine("lightgbm", "scikit-learn", "fairlearn"))
