"""The tables of `benchmarks.penalty`: what a fold reports is chosen on the other folds.

For each budget the λ of a fold is the best on the other folds among those within the budget there;
if none is, the one that comes closest. A cell shows what was reached of the goal and, in brackets,
of the budget. Metrics are those of `core.measures`: (v, u), accuracy and EO gap of a draw from the
posterior, "at ½" of the decision P(Y = 1 | x) > ½; AUROC and the largest EO gap over all thresholds
of the score: means over the folds. Its violation is I(S; Z | Y) in 20 quantile bins of each fold,
the tables added.

A floor is what the same posteriors show with the groups shuffled within the labels.

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
from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import METRICS
from separatrix.frontier.sweep.evaluation import score_view
from separatrix.nn.evaluation import auroc
from separatrix.statistics.shuffling import shuffled_tables

PAGE = DOCS / "evidence" / "penalty.md"
ATOMS, SHUFFLES = 100, 20
DECIDED = ("violation", "utility", "eo_gap", "accuracy")
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
    Goal("u at v ≤ 5e-4", "utility", "violation", 5e-4, "auroc"),
    Goal("accuracy at EO ≤ .01", "accuracy", "eo_gap", 0.01, "auroc"),
    Goal("accuracy at ½, EO ≤ .05", "accuracy at ½", "eo_gap at ½", 0.05),
    Goal("AUROC at v20 ≤ 4.5e-3", "auroc", "score_violation", 4.5e-3, "score_gap"),
    Goal("AUROC at v20 ≤ 2e-3", "auroc", "score_violation", 2e-3, "score_gap"),
)
SEVERAL = (
    Goal("u at v ≤ .02", "utility", "violation", 0.02, "accuracy"),
    Goal("u at v ≤ .005", "utility", "violation", 0.005, "accuracy"),
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
        beside = ""
        if column.beside:
            beside = f"; {METRICS[column.beside].label} {merged(kept, column.beside):.4f}"
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
    """What one model shows on one fold; `score_violation` is a table in bins, which folds add."""
    found: dict[str, Any] = dict(of_decisions(y, z, q, shape))
    if shape[0] == 2:
        hard = of_decisions(y, z, np.eye(2)[(q[:, 1] > 0.5).astype(int)], shape)
        found |= {f"{name} at ½": hard[name] for name in ("accuracy", "eo_gap")}
        found["auroc"] = float(auroc(q[None], y)[0])
        found["score_violation"], found["score_gap"] = score_view(q[:, 1], y, z, shape[1])
    return found


def of_decisions(y: Array, z: Array, q: Array, shape: tuple[int, int]) -> dict[str, float]:
    table = counted(y, z, q, shape)
    return {name: float(METRICS[name].of(table)) for name in DECIDED}


def counted(y: Array, z: Array, q: Array, shape: tuple[int, int]) -> Array:
    """Soft counts of label, group and draw."""
    cell, cells = y * shape[1] + z, shape[0] * shape[1]
    sums = [np.bincount(cell, column, cells) for column in q.T]
    return np.stack(sums, axis=1).reshape(*shape, -1)


def merged(views: list[dict[str, Any]], name: str) -> float:
    """A metric over folds: a mean, or that of added tables."""
    if name == "score_violation":
        return float(conditional_mutual_information(sum(one[name] for one in views)))
    return float(np.mean([one[name] for one in views]))


def floor(cell: Cell, i: int, name: str) -> float:
    """What the posteriors of one λ show with the groups shuffled within the labels."""
    if name == "score_violation":
        mixed = sum(
            shuffled_tables(views[i][name], SHUFFLES, k) for k, views in enumerate(cell.views)
        )
        return float(conditional_mutual_information(mixed).mean())
    found = [
        counted(one.y, shuffled(one.y, one.z, seed), one.q[i], cell.shape)
        for one in cell.folds
        for seed in range(SHUFFLES)
    ]
    return float(conditional_mutual_information(np.array(found)).mean())


def shuffled(y: Array, z: Array, seed: int) -> Array:
    rng, other = np.random.default_rng(seed), z.copy()
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        other[rows] = z[rng.permutation(rows)]
    return other


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
            found.setdefault(name, []).append([[one["accuracy"], one["eo_gap"]] for one in shown])
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
    """v of boosting along λ: that of draws and, for two labels, of the score."""
    shown = [("boosting, draw", "violation")] + [("boosting, score", "score_violation")] * binary
    rows: list[list[str]] = []
    settings: list[float] = []
    for path, name in shown:
        for inputs, seen in INPUTS.items():
            cell = Cell(out, dataset, path, inputs)
            if not cell.folds:
                continue
            settings, at = cell.settings, range(len(cell.settings))
            values = [merged([views[i] for views in cell.views], name) for i in at]
            floors = [floor(cell, i, name) for i in at]
            for label, line in ((METRICS[name].label, values), ("its floor", floors)):
                rows.append([label, seen, *(f"{x:.1e}" for x in line)])
    if not rows:
        return ""
    head = [f"{DATA[dataset][0]}, along λ", "", *(f"{t:g}" for t in settings)]
    return markdown(head, rows)


def write(out: Path) -> None:
    """The tables and the picture of docs/evidence/penalty.md."""
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
    write_between_markers(PAGE, "penalty", "\n\n".join(part for part in parts if part))
