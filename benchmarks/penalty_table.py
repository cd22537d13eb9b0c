"""The tables of `benchmarks.penalty`: what a fold reports is chosen on the other folds.

For each budget the λ of a fold is the best on the other folds among those within the budget there;
if none is, the one that comes closest. A cell shows what was reached of the goal and, in brackets,
of the budget. (v, u), accuracy and EO gap are those of a draw from the posterior, "at ½" those of
the decision P(Y = 1 | x) > ½; AUROC and the largest EO gap over all thresholds those of the score:
means over the folds. v20 is I(S; Z | Y) in 20 quantile bins of each fold, the tables added.

Decisions on top: the best for accuracy within an EO gap, fitted to the scores of the other folds,
for rules that see score and group, and for coins between thresholds of the score alone. They are
kept in a file for each path, as they take a while.
"""

from __future__ import annotations

import json
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

import separatrix as sx
from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from benchmarks.penalty import DATA, FOLDS, INPUTS, PATHS, SEED, Array, file_of
from separatrix.core.information import (
    accuracy,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable

BINS, ATOMS = 20, 100
ON_TOP, BUDGETS = (0.0, 0.1, 0.3), (0.02,)
PAPER = {  # the paper's CMI rows at EO ≤ 0.01: accuracy, AUROC
    "adult-paper": (0.680, 0.7934),
    "compas": (0.5455, 0.6966),
    "bank": (0.8303, 0.8798),
}


class Goal(NamedTuple):
    """A column: the best `goal` with `within` at most `budget`; `beside` is shown as well."""

    head: str
    goal: str
    within: str
    budget: float
    beside: str = ""


BINARY = (
    Goal("u at v ≤ 5e-4", "u", "v", 5e-4, "auroc"),
    Goal("accuracy at EO ≤ .01", "accuracy", "eo", 0.01, "auroc"),
    Goal("accuracy at ½, EO ≤ .05", "accuracy at ½", "eo at ½", 0.05),
    Goal("AUROC at v20 ≤ 4.5e-3", "auroc", "v20", 4.5e-3, "gap"),
    Goal("AUROC at v20 ≤ 2e-3", "auroc", "v20", 2e-3, "gap"),
)
SEVERAL = (
    Goal("u at v ≤ .02", "u", "v", 0.02, "accuracy"),
    Goal("u at v ≤ .005", "u", "v", 0.005, "accuracy"),
)


@cache
def rows_of(dataset: str, seed: int = SEED) -> tuple[Array, Array, Array, tuple[int, int]]:
    """Labels, groups, folds and (labels, groups) of a dataset."""
    data = sx.datasets.load(DATA[dataset][1], **DATA[dataset][2])
    fold = sx.datasets.folds(data.y, data.z, FOLDS, seed)
    return data.y, data.z, fold, (len(data.labels), len(data.groups))


class Fold(NamedTuple):
    """The posteriors of a fold, for every λ."""

    y: Array
    z: Array
    q: Array
    seconds: float


class Cell:
    """A path of one dataset and inputs on the folds that have been run."""

    def __init__(self, out: Path, dataset: str, path: str, inputs: str, seed: int = SEED) -> None:
        y, z, fold, self.shape = rows_of(dataset, seed)
        self.settings: list[Any] = []
        self.folds: list[Fold] = []
        for k in range(FOLDS):
            file = file_of(out, dataset, path, inputs, k)
            if file.exists():
                with np.load(file) as found:
                    here, q = fold == k, found["q"].astype(np.float64)
                    self.folds.append(Fold(y[here], z[here], q, float(found["seconds"])))
                    self.settings = found["settings"].tolist()

    @property
    def seconds(self) -> float:
        return float(np.mean([one.seconds for one in self.folds]))

    @cached_property
    def views(self) -> list[list[dict[str, Any]]]:
        """Metrics of each fold and λ."""
        return [[view(f.y, f.z, q, self.shape) for q in f.q] for f in self.folds]

    def shown(self, column: Goal) -> str:
        """The cell of a column."""
        chosen = [self.choice(k, column) for k in range(len(self.folds))]
        kept = [self.views[k][i] for k, i in enumerate(chosen)]
        reached, used = merged(kept, column.goal), merged(kept, column.within)
        beside = f"; {column.beside} {merged(kept, column.beside):.4f}" if column.beside else ""
        return f"{reached:.4f} ({number(used)}{beside})"

    def choice(self, k: int, column: Goal) -> int:
        """The λ of fold k by the other folds."""
        others = [views for j, views in enumerate(self.views) if j != k]
        at = range(len(self.settings))
        used = [merged([views[i] for views in others], column.within) for i in at]
        goal = [merged([views[i] for views in others], column.goal) for i in at]
        within = [i for i in at if used[i] <= column.budget]
        return max(within, key=goal.__getitem__) if within else int(np.argmin(used))


def view(y: Array, z: Array, q: Array, shape: tuple[int, int]) -> dict[str, Any]:
    """What one model shows on one fold."""
    found = of_decisions(y, z, q, shape)
    if shape[0] == 2:
        levels = tuple(range(2)), tuple(range(shape[1]))
        score = ScoreTable.from_codes(q[:, 1], y, z, *levels)
        hard = of_decisions(y, z, np.eye(2)[(q[:, 1] > 0.5).astype(int)], shape)
        found |= {"accuracy at ½": hard["accuracy"], "eo at ½": hard["eo"]}
        found |= {"auroc": score.auroc()[0], "gap": largest_gap(score)[0]}
        found["v20"] = binned(y, z, q[:, 1], shape[1])
    return found


def of_decisions(y: Array, z: Array, q: Array, shape: tuple[int, int]) -> dict[str, Any]:
    cell, cells = y * shape[1] + z, shape[0] * shape[1]
    sums = [np.bincount(cell, column, cells) for column in q.T]
    table = np.stack(sums, axis=1).reshape(*shape, -1)
    return {
        "v": float(conditional_mutual_information(table)),
        "u": float(mutual_information(table)),
        "eo": float(eo_gap(table)),
        "accuracy": float(accuracy(table)),
    }


def binned(y: Array, z: Array, s: Array, groups: int) -> Array:
    """Counts of label, group and quantile bin of a score."""
    u = np.searchsorted(np.unique(np.quantile(s, np.arange(1, BINS) / BINS)), s)
    size = 2 * groups * BINS
    return np.bincount((y * groups + z) * BINS + u, minlength=size).reshape(2, groups, BINS)


def merged(views: list[dict[str, Any]], name: str) -> float:
    """A metric over folds: a mean, or that of added tables."""
    if name == "v20":
        return float(conditional_mutual_information(sum(one["v20"] for one in views)))
    return float(np.mean([one[name] for one in views]))


def number(x: float) -> str:
    return f"{x:.1e}" if x < 5e-3 else f"{x:.4f}"


def on_top(cell: Cell, trade_off: float, inputs: str) -> dict[str, list[list[float]]]:
    """Accuracy and EO gap of decisions behind one λ, means over folds, a pair for each budget."""
    i = cell.settings.index(trade_off)
    found: dict[str, list[list[list[float]]]] = {}
    for k, here in enumerate(cell.folds):
        others = [one for j, one in enumerate(cell.folds) if j != k]
        y, z = (np.concatenate([getattr(one, name) for one in others]) for name in "yz")
        s = np.concatenate([one.q[i, :, 1] for one in others])
        best = sx.limit(
            y, s, sensitive_features=z, maximize="accuracy", budget="eo_gap", levels=BUDGETS
        )
        laws = {
            "score and group": [
                best.rule(b).predict_proba(here.q[i, :, 1], sensitive_features=here.z)
                for b in BUDGETS
            ]
        }
        if inputs == "x":
            laws["score alone"] = of_score_alone(y, z, s, here.q[i, :, 1])
        for name, rules in laws.items():
            shown = [of_decisions(here.y, here.z, q, cell.shape) for q in rules]
            found.setdefault(name, []).append([[one["accuracy"], one["eo"]] for one in shown])
    return {name: np.mean(values, axis=0).tolist() for name, values in found.items()}


def of_score_alone(y: Array, z: Array, s: Array, new: Array) -> list[Array]:
    """The best coins between thresholds of the score, without the group: their law for new scores.

    Accuracy and both differences of rates are linear in the weights w of the thresholds, so
    max ⟨accuracy, w⟩ with (|⟨d_0, w⟩| + |⟨d_1, w⟩|)/2 ≤ budget is a linear programme.
    """
    at = np.r_[-np.inf, np.unique(np.quantile(s, np.arange(1, ATOMS) / ATOMS)), np.inf]
    above = s[:, None] > at
    right = np.where(y[:, None] == 1, above, ~above).mean(0)
    gaps = [
        above[(y == label) & (z == 1)].mean(0) - above[(y == label) & (z == 0)].mean(0)
        for label in (0, 1)
    ]
    signs = np.array([[i, j] for i in (-1.0, 1.0) for j in (-1.0, 1.0)])
    found = []
    for budget in BUDGETS:
        one = {"A_eq": np.ones((1, len(at))), "b_eq": [1.0]}
        best = linprog(-right, A_ub=signs @ np.stack(gaps) / 2, b_ub=[budget] * 4, **one)
        p = (new[:, None] > at) @ best.x
        found.append(np.stack([1.0 - p, p], axis=1))
    return found


def tops_file(out: Path, dataset: str, path: str, inputs: str) -> Path:
    return out / f"on-top_{dataset}_{inputs}_{path.replace(', ', '-')}.json"


def keep_tops(out: Path, dataset: str, path: str, inputs: str) -> None:
    """Measure decisions on top of a path and write them, unless their file is there."""
    file, cell = tops_file(out, dataset, path, inputs), Cell(out, dataset, path, inputs)
    if file.exists() or len(cell.folds) < 2 or path == "FairGBM" or cell.shape[0] > 2:
        return
    work = {str(t): on_top(cell, t, inputs) for t in ON_TOP}
    file.write_text(json.dumps(work | {"folds": len(cell.folds)}), encoding="utf-8")
    print(file.name, flush=True)


def tops(out: Path, dataset: str, path: str, inputs: str) -> list[list[str]]:
    """Rows of the table of decisions on top."""
    file = tops_file(out, dataset, path, inputs)
    if not file.exists():
        return []
    found, rows = json.loads(file.read_text(encoding="utf-8")), []
    for sees in found["0.0"]:
        for b, budget in enumerate(BUDGETS):
            pairs = [found[str(t)][sees][b] for t in ON_TOP]
            row = [DATA[dataset][0], INPUTS[inputs], path, sees, str(budget), str(found["folds"])]
            rows.append(row + [f"{a:.4f} ({gap:.4f})" for a, gap in pairs])
    return rows


def along(out: Path, dataset: str, binary: bool) -> str:
    """How v of boosting falls along λ."""
    shown = [("boosting, draw", "xz", "v")] + [("boosting, score", "x", "v20")] * binary
    lines = []
    for path, inputs, name in shown:
        cell = Cell(out, dataset, path, inputs)
        if not cell.folds:
            continue
        at = range(len(cell.settings))
        values = [merged([views[i] for views in cell.views], name) for i in at]
        pairs = ", ".join(f"{cell.settings[i]:g}: {v:.1e}" for i, v in enumerate(values))
        lines.append(f"{name} of {path}, {INPUTS[inputs]}, along λ: {pairs}.")
    return "\n\n".join(lines)


def write(out: Path) -> None:
    parts, top = [], []
    for dataset, (label, *_) in DATA.items():
        columns = BINARY if rows_of(dataset)[3][0] == 2 else SEVERAL
        rows = []
        for inputs, seen in INPUTS.items():
            for path in PATHS:
                cell = Cell(out, dataset, path, inputs)
                if len(cell.folds) < 2:  # no other fold to choose on
                    continue
                values = [cell.shown(column) for column in columns]
                last = [f"{len(cell.folds)}", f"{cell.seconds:.1f} / {len(cell.settings)}"]
                rows.append([seen, path, *values, *last])
                top += tops(out, dataset, path, inputs)
        if rows:
            head = [label, "", *(column.head for column in columns), "folds", "CPU s / models"]
            parts.append(markdown(head, rows))
            parts.append(along(out, dataset, columns is BINARY))
        if rows and dataset in PAPER:
            theirs = PAPER[dataset]
            parts.append(
                f"The paper's CMI at EO ≤ .01: accuracy {theirs[0]:.4f}, AUROC {theirs[1]:.4f}."
            )
    if top:
        head = ["on top", "model sees", "trained by", "rule sees", "EO asked", "folds"]
        parts.append(markdown([*head, *(f"λ = {t:g}" for t in ON_TOP)], top))
    parts.append(machine("lightgbm", "numpy"))
    write_between_markers(DOCS / "howto" / "boosting.md", "penalty", "\n\n".join(parts))
