"""The rows, folds and shared scores of a dataset as one file that any environment can read.

The trees are LightGBM as it comes, for everybody, in three ways: fitted to 70 % of the training
rows with the other 30 % for the rule, as the peers' guides advise ("held out"); cross-fitted in
five parts, so that a rule has all rows ("cross-fitted"); and, for decisions without the group,
cross-fitted models of label and group, q(y, z | x) ("joint").
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray

from benchmarks.peers.protocol import Rows
from separatrix import datasets
from separatrix.crossfit.out_of_fold import cross_fit

DATA: dict[str, tuple[str, dict[str, Any], str]] = {
    "compas": ("compas", {}, "COMPAS"),
    "adult-paper": ("adult", {"features": "paper"}, "Adult, the paper's features"),
    "adult-full": ("adult", {"features": "full"}, "Adult, all features"),
    "bank": ("bank", {}, "Bank"),
}
TREES = "LGBMClassifier(random_state=0)"


def booster() -> LGBMClassifier:
    """The same trees for everybody."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def rows_of(name: str, seed: int, folder: Path, joint: bool) -> Path:
    """The file of a dataset and a seed of the folds; made where it is not there.

    Args:
        joint: whether scores for decisions without the group are made too.
    """
    file = folder / "rows" / f"{name}-{seed}.npz"
    if file.is_file():
        return file
    dataset, options, _ = DATA[name]
    data = datasets.load(dataset, **options)
    rows = Rows(np.asarray(data.X, np.float32), data.y.astype(np.int64), data.z.astype(np.int64))
    fold, X = datasets.folds(rows.y, rows.z, 5, seed), rows.with_group
    blind = _columns_without_group(name, data)
    found: dict[str, Any] = {**rows._asdict(), "fold": fold, "blind": blind}
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        y, z = rows.y[train], rows.z[train]
        start = time.process_time()
        held = np.isin(datasets.folds(y, z, 10, seed), (0, 3, 6))
        model = booster().fit(X[train[~held]], y[~held])
        own = model.predict_proba(X[train[held]])[:, 1]
        _keep(found, "held out", k, train[held], own, [model.predict_proba(X[test])[:, 1]], start)
        start = time.process_time()
        crossed = cross_fit(booster(), X[train], y, z, random_state=seed)
        members = [crossed.model.predict_proba(X[test])[:, 1]]
        _keep(found, "cross-fitted", k, train, crossed.scores[:, 1], members, start)
        if joint:
            start = time.process_time()
            of_both = cross_fit(
                booster(), rows.X[train][:, blind], y, z, "joint", random_state=seed
            )
            members = [of_both.model.joint_proba(rows.X[test][:, blind])]
            _keep(found, "joint", k, train, of_both.scores, members, start)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez(part, **found)
    os.replace(part, file)
    return file


def _keep(
    found: dict[str, Any], kind: str, k: int, rows: Any, scores: Any, test: Any, start: float
) -> None:
    found[f"{kind} {k} cpu"] = time.process_time() - start
    found[f"{kind} {k} rows"] = rows
    found[f"{kind} {k} scores"] = scores
    found[f"{kind} {k} test"] = np.stack(test)


def _columns_without_group(name: str, data: datasets.Data) -> NDArray[np.intp]:
    """All columns but, on Bank, those that say who is married: there the group is marital."""
    told = "marital" if name == "bank" else " "
    return np.flatnonzero([not feature.startswith(told) for feature in data.features])
