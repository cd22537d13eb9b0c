"""Rules for more than two labels on ACS occupations: u and accuracy by v on unseen rows.

    python -m benchmarks.peers labels acs_occupation_large --folds 2

Each outer fold: boosted trees cross-fitted on its training rows make the posteriors; `LabelRules`
chooses temperature and pseudo-rows on halves of these rows; what is printed is measured on the
fold's test rows, with soft counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import separatrix as sx
from separatrix.core.information import accuracy, conditional_mutual_information, mutual_information
from separatrix.crossfit.array_models import BoostedTrees
from separatrix.crossfit.out_of_fold import cross_fit
from separatrix.optimum.multiclass.cross_fitted import LabelRules

QUICK = None  # posteriors of 20 labels take minutes
Arrays = dict[str, np.ndarray]
PRICES = {  # of v
    "utility": (0.3, 1.0, 3.0, 5.0, 7.0, 10.0, 12.0, 15.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0),
    "accuracy": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
}
MIDDLE = {"utility": 3.0, "accuracy": 0.1}  # where factor and pseudo-rows are chosen


def posteriors(name: str, fold: int, folds: int) -> Arrays:
    """Out-of-fold posteriors of the training rows, and those of the test rows, (1, n, K)."""
    data = sx.datasets.load(name)
    X = np.column_stack([data.X, np.eye(len(data.groups), dtype=np.float32)[data.z]])
    of_row = sx.datasets.folds(data.y, data.z, folds)
    train, test = np.flatnonzero(of_row != fold), np.flatnonzero(of_row == fold)
    y, z = data.y[train], data.z[train]
    fitted = cross_fit(BoostedTrees(), X[train], y, z, cv=5)
    q = fitted.model.predict_proba(X[test])[None].astype(np.float32)
    found = {"p": fitted.scores.astype(np.float32), "y": y, "z": z}
    return found | {"q": q, "yt": data.y[test], "zt": data.z[test]}


def measured(rows: Arrays, decide: Callable[[np.ndarray], np.ndarray]) -> tuple[float, ...]:
    """v, u and accuracy on the test rows; the model of all training rows decides."""
    q = rows["q"][0].astype(np.float64)
    q /= q.sum(1, keepdims=True)
    table = sx.theory.soft_counts(rows["yt"], decide(q), sensitive_features=rows["zt"])
    v, u = conditional_mutual_information(table), mutual_information(table)
    return float(v), float(u), float(accuracy(table))


def points(rows: Arrays, maximize: str) -> np.ndarray:
    """v, u, accuracy and CPU seconds of the rule of each price, on the test rows."""
    groups = int(max(rows["z"].max(), rows["zt"].max())) + 1
    p, y, z = rows["p"].astype(np.float64), rows["y"], rows["z"]
    p /= p.sum(1, keepdims=True)
    rules = LabelRules(p, y, z, np.ones(len(p)), groups, maximize)
    start = time.process_time()
    choice = rules.choice(MIDDLE[maximize])
    print(
        f"  {maximize}: factor {choice[0]:g}, {choice[1]:g} pseudo-rows, chosen in "
        f"{time.process_time() - start:.1f} s of CPU",
        flush=True,
    )
    out = []
    for price in PRICES[maximize]:
        start = time.process_time()
        rule = rules.point(price, choice).rule(tuple(range(groups)))
        took = time.process_time() - start
        v, u, right = measured(rows, partial(rule.predict_proba, sensitive_features=rows["zt"]))
        out.append((v, u, right, took))
        print(f"  price {price:7g}: v {v:.4f} u {u:.4f} accuracy {right:.4f}, {took:.1f} s of CPU",
              flush=True)  # fmt: skip
    return np.array(out)


def main(dataset: str, /, folds: int = 2, only: int = -1, maximize: Sequence[str] = tuple(PRICES)) -> None:
    """Print what each price of v reaches on unseen rows."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in maximize}
    for fold in range(folds) if only < 0 else [only]:
        rows = posteriors(dataset, fold, folds)
        print(f"{dataset}, fold {fold}: {len(rows['y']):,} rows, {len(rows['yt']):,} unseen")
        v, u, right = measured(rows, lambda q: np.eye(q.shape[1])[q.argmax(1)])
        print(f"  the most likely label: v {v:.4f} u {u:.4f} accuracy {right:.4f}", flush=True)
        for name, own in found.items():
            own.append(points(rows, name))
    for name, own in found.items():
        print(f"{name}: mean over {len(own)} folds")
        for v, u, right, _ in np.mean(own, axis=0):
            print(f"  v {v:.4f} u {u:.4f} accuracy {right:.4f}")
