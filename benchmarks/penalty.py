"""The penalty in networks and in boosted trees, of draws and of scores: one comparison.

    python -m benchmarks.penalty measure [compas adult-paper …] [--only boosting] [--first 3]
    python -m benchmarks.penalty table

Five outer folds report (seed 21, which no setting has seen); three inner folds of the training rows
choose λ. For each budget the λ is the best on the inner folds among those within it there; if none
is, the one that comes closest. The model of that λ, trained on all training rows, is measured on
the outer fold; the table shows what it reached of the goal and of the budget.

`measure` writes one record for each dataset, inputs, path and fold; a record that is there is kept,
so a killed run goes on. (v, u), accuracy and EO gap are those of a draw from the posterior; AUROC,
v20 = I(S; Z | Y) in 20 quantile bins and the largest EO gap over all thresholds those of the score.
Decisions on top: the best for accuracy within an EO gap, fitted to the scores of the inner folds,
behind the mean of the three inner models; "of score and group", or of the score alone. FairGBM, the
only peer for trees, needs a Python of its own: FAIRGBM_PYTHON, see `fairgbm_path.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from separatrix import methods
from separatrix.core.information import (
    accuracy,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable
from separatrix.methods import Lane, Sample
from separatrix.optimum.blind_limit import blind_curve

Array = NDArray[Any]
DATA: dict[str, tuple[str, str, dict[str, str]]] = {
    "compas": ("COMPAS", "compas", {}),
    "adult-paper": ("Adult paper", "adult", {"features": "paper"}),
    "bank": ("Bank", "bank", {}),
    "adult-full": ("Adult all", "adult", {"features": "full"}),
    "acs": ("ACS occupation", "acs_occupation", {}),
}
BOOSTED = methods.get("cmi_boosting").grid()
NETWORK = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)
PATHS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "boosting, draw": ("cmi_boosting", "default", BOOSTED),
    "boosting, score": ("cmi_boosting", "score", BOOSTED),
    "cmi, draw": ("cmi", "default", NETWORK),
    "cmi, score": ("cmi", "score", NETWORK),
    "mi_objective": ("mi_objective", "default", NETWORK),
    "FairGBM": ("", "", ()),
}
INPUTS = {"xz": "[Z\\|X]", "x": "X alone"}
SEED, FOLDS, INNER, BINS, SHUFFLES = 21, 5, 3, 20, 5
ON_TOP, BUDGETS = (0.0, 0.1, 0.3), (0.01, 0.02, 0.05)


class Problem(NamedTuple):
    """A dataset prepared for one outer fold."""

    X: Array
    y: Array
    z: Array
    shape: tuple[int, int]
    train: Array
    test: Array
    inner: Array  # the inner fold of each training row


def problem(dataset: str, fold: int) -> Problem:
    data = sx.datasets.load(DATA[dataset][1], **DATA[dataset][2])
    outer = sx.datasets.folds(data.y, data.z, FOLDS, SEED)
    train, test = np.flatnonzero(outer != fold), np.flatnonzero(outer == fold)
    inner = sx.datasets.folds(data.y[train], data.z[train], INNER, SEED + 1)
    shape = len(data.labels), len(data.groups)
    return Problem(data.prepared(train)[0], data.y, data.z, shape, train, test, inner)


class Fitted(NamedTuple):
    """Posteriors of all settings of a path."""

    settings: list[Any]
    unseen: Array  # (settings, training rows, K): each row by the inner model that did not see it
    inner: Array  # (INNER, settings, test rows, K): the outer fold by the inner models
    test: Array  # (settings, test rows, K): the outer fold by the models of all training rows
    seconds: float  # of CPU, for the last


def fitted(p: Problem, path: str, inputs: str) -> Fitted:
    parts = [p.train[p.inner != j] for j in range(INNER)] + [p.train]
    asked = [np.r_[p.train[p.inner == j], p.test] for j in range(INNER)] + [p.test]
    work = fairgbm if path == "FairGBM" else trained
    settings, found, seconds = work(p, path, inputs, parts, asked)
    tests = [q[:, -len(p.test) :] for q in found]
    unseen = np.empty((len(settings), len(p.train), p.shape[0]))
    for j in range(INNER):
        unseen[:, p.inner == j] = found[j][:, : -len(p.test)]
    return Fitted(settings, unseen, np.stack(tests[:-1]), tests[-1], seconds)


def trained(
    p: Problem, path: str, inputs: str, parts: list[Array], asked: list[Array]
) -> tuple[list[Any], list[Array], float]:
    method, recipe, grid = PATHS[path]
    sample, found, seconds = Sample(p.X, p.y, p.z, *p.shape), [], 0.0
    for rows, at in zip(parts, asked, strict=True):
        start = time.process_time()
        lanes, use = [Lane(t, rows) for t in grid], inputs == "xz"
        model = methods.fit(method, sample, lanes, recipe=recipe, use_sensitive=use)
        seconds = time.process_time() - start
        found.append(np.asarray(model.posteriors(p.X[at], p.z[at]), dtype=np.float64))
    return list(grid), found, seconds


def fairgbm(
    p: Problem, path: str, inputs: str, parts: list[Array], asked: list[Array]
) -> tuple[list[Any], list[Array], float]:
    groups = np.eye(p.shape[1], dtype=np.float32)[p.z]
    X = np.concatenate([groups, p.X], axis=1) if inputs == "xz" else p.X
    masks = np.stack([np.isin(np.arange(len(p.y)), rows) for rows in parts])
    worker = Path(__file__).with_name("fairgbm_path.py")
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder, "rows.npz"), Path(folder, "posteriors.npz")
        np.savez(rows, X=X, y=p.y, z=p.z, train=masks)
        subprocess.run([os.environ["FAIRGBM_PYTHON"], worker, rows, out], check=True)
        with np.load(out) as found:
            q = found["q"].astype(np.float64)
            settings, seconds = found["settings"].tolist(), float(found["seconds"][-1])
    both = [np.stack([1.0 - one[:, at], one[:, at]], -1) for one, at in zip(q, asked, strict=True)]
    return settings, both, seconds


def binned(y: Array, z: Array, s: Array, groups: int) -> Array:
    """Counts of label, group and quantile bin of a score."""
    u = np.searchsorted(np.unique(np.quantile(s, np.arange(1, BINS) / BINS)), s)
    size = 2 * groups * BINS
    return np.bincount((y * groups + z) * BINS + u, minlength=size).reshape(2, groups, BINS)


def drawn(y: Array, z: Array, q: Array, shape: tuple[int, int]) -> Array:
    """Soft counts of label, group and drawn label."""
    cell, cells = y * shape[1] + z, shape[0] * shape[1]
    sums = [np.bincount(cell, column, cells) for column in q.T]
    return np.stack(sums, axis=1).reshape(*shape, q.shape[1])


def shuffled(y: Array, z: Array, seed: int) -> Array:
    rng, other = np.random.default_rng(seed), z.copy()
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        other[rows] = z[rng.permutation(rows)]
    return other


def of_draw(table: Array) -> dict[str, float]:
    """What a table of decisions shows."""
    return {
        "v": float(conditional_mutual_information(table)),
        "u": float(mutual_information(table)),
        "eo": float(eo_gap(table)),
        "accuracy": float(accuracy(table)),
    }


def inner_view(p: Problem, q: Array) -> dict[str, float]:
    """One λ on the inner folds: tables added, AUROC as a mean."""
    y, z, binary = p.y[p.train], p.z[p.train], p.shape[0] == 2
    found = of_draw(drawn(y, z, q, p.shape))
    if binary:
        parts = [(y[p.inner == j], z[p.inner == j], q[p.inner == j, 1]) for j in range(INNER)]
        tables = sum(binned(*part, p.shape[1]) for part in parts)
        found["auroc"] = float(np.mean([ranked(p, *part).auroc()[0] for part in parts]))
        found["v20"] = float(conditional_mutual_information(tables))
    return found


def outer_view(p: Problem, q: Array) -> dict[str, Any]:
    """One λ on the outer fold; tables of the binned score and of shuffled groups for adding."""
    y, z = p.y[p.test], p.z[p.test]
    found: dict[str, Any] = of_draw(drawn(y, z, q, p.shape))
    if p.shape[0] == 2:
        score = ranked(p, y, z, q[:, 1])
        mixed = [z, *(shuffled(y, z, j) for j in range(SHUFFLES))]
        tables = [binned(y, other, q[:, 1], p.shape[1]).tolist() for other in mixed]
        found |= {"auroc": score.auroc()[0], "gap": largest_gap(score)[0], "tables": tables}
    return found


def ranked(p: Problem, y: Array, z: Array, s: Array) -> ScoreTable:
    return ScoreTable.from_codes(s, y, z, tuple(range(p.shape[0])), tuple(range(p.shape[1])))


def on_top(p: Problem, unseen: Array, q: Array, inputs: str) -> dict[str, list[list[float]]]:
    """Accuracy and EO gap of decisions behind one λ, a pair for each budget."""
    y, z, shape = p.y[p.train], p.z[p.train], p.shape
    law = {"maximize": "accuracy", "budget": "eo_gap"}
    levels = np.array(BUDGETS)
    best = sx.limit(y, unseen, sensitive_features=z, levels=levels, **law)
    found: dict[str, list[list[float]]] = {"score and group": []}
    for budget in BUDGETS:
        rule = best.rule(budget)
        laws = [rule.predict_proba(one, sensitive_features=p.z[p.test]) for one in q]
        found["score and group"].append(judged(p, laws))
    if inputs == "x":  # the score in bins is what a rule of the score alone sees
        edges = np.unique(np.quantile(unseen[:, 1], np.arange(1, 3 * BINS) / (3 * BINS)))
        at, atoms = np.searchsorted(edges, unseen[:, 1]), len(edges) + 1
        count = np.bincount((at * 2 + y) * shape[1] + z, minlength=atoms * 2 * shape[1])
        p_xyz = count.reshape(atoms, 2, shape[1]) / len(y)
        seen = np.maximum(p_xyz.sum((1, 2), keepdims=True), 1e-300)
        blind, found["score alone"] = blind_curve(p_xyz, levels, **law), []
        for rule in blind.rules:
            of_atom = rule.predict_proba(np.where(seen > 1e-300, p_xyz / seen, 0.25))
            laws = [of_atom[np.searchsorted(edges, one[:, 1])] for one in q]
            found["score alone"].append(judged(p, laws))
    return found


def judged(p: Problem, laws: list[Array]) -> list[float]:
    shown = of_draw(drawn(p.y[p.test], p.z[p.test], np.mean(laws, axis=0), p.shape))
    return [shown["accuracy"], shown["eo"]]


def measure(dataset: str, path: str, inputs: str, fold: int) -> dict[str, Any]:
    """The record of one cell and fold."""
    p = problem(dataset, fold)
    found = fitted(p, path, inputs)
    record = {
        "settings": found.settings,
        "seconds": found.seconds,
        "inner": [inner_view(p, q) for q in found.unseen],
        "test": [outer_view(p, q) for q in found.test],
    }
    if p.shape[0] == 2 and path != "FairGBM":
        record["on top"] = {
            str(t): on_top(p, found.unseen[i], found.inner[:, i], inputs)
            for i, t in enumerate(found.settings)
            if t in ON_TOP
        }
    return record


def name(dataset: str, path: str, inputs: str, fold: int) -> str:
    return f"{dataset}_{inputs}_{path.replace(', ', '-')}_{fold}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("measure", "table"))
    parser.add_argument("dataset", nargs="*", choices=[*DATA, []])
    parser.add_argument("--only", default="", help="paths whose name begins so")
    parser.add_argument("--first", type=int, default=FOLDS, help="so many of the outer folds")
    parser.add_argument("--out", type=Path, default=Path("results/penalty"))
    given = parser.parse_args()
    if given.job == "table":
        from benchmarks import penalty_table

        penalty_table.write(given.out)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for dataset in given.dataset or DATA:
        for path in (path for path in PATHS if path.startswith(given.only)):
            if path == "FairGBM" and ("FAIRGBM_PYTHON" not in os.environ or dataset == "acs"):
                continue
            for inputs in INPUTS:
                for fold in range(given.first):
                    file = given.out / name(dataset, path, inputs, fold)
                    if file.exists():
                        continue
                    record = measure(dataset, path, inputs, fold)
                    part = file.with_suffix(".part")
                    part.write_text(json.dumps(record), encoding="utf-8")
                    part.replace(file)
                    print(file.name, f"{record['seconds']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
