"""The rows, folds and shared scores of a table as one file that any environment can read.

The trees are LightGBM as it comes, for everybody, in two ways: cross-fitted in five parts, so that
a rule has all rows ("cross-fitted"); and, for decisions without the group, cross-fitted models of
label and group, q(y, z | x) ("joint"). They are fitted once for the same rows, whoever asks.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Memory
from lightgbm import LGBMClassifier
from numpy.typing import NDArray

from benchmarks.peers import public_tables
from benchmarks.peers.protocol import Rows
from separatrix import datasets
from separatrix.crossfit.out_of_fold import cross_fit

DATA: dict[str, tuple[str, dict[str, Any], str]] = {
    "compas": ("compas", {}, "COMPAS"),
    "adult-full": ("adult", {"features": "full"}, "Adult"),
    "bank": ("bank", {}, "Bank"),
}
UNSEEN = {  # of `public_tables`, with two labels
    "german": "German credit",
    "law": "law school, two groups",
    "stops": "stop and frisk",
    "credit-sex": "credit default by sex",
    "credit-age": "credit default by age",
    "admissions": "admissions",
}
TITLES = {name: title for name, (_, _, title) in DATA.items()} | UNSEEN
MOST = 8_000  # rows of an unseen table, drawn anew for each seed
TREES = "LGBMClassifier(random_state=0)"
FOLDER = Path(__file__).resolve().parents[2] / ".bench" / "peers"


class Trees(LGBMClassifier):
    """LightGBM that is fitted once for the same rows: a second `fit` reads the first one's model.

    `CPU` holds the seconds that the fits of this process have taken, or had taken before.
    """

    CPU = 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Trees:
        fitted, seconds = _fit(self.get_params(), X, y, sample_weight)
        self.__dict__.update(fitted.__dict__)
        Trees.CPU += seconds
        return self


@Memory(FOLDER / "trees", verbose=0).cache
def _fit(settings: dict[str, Any], X: Any, y: Any, sample_weight: Any) -> tuple[LGBMClassifier, float]:
    start = time.process_time()
    return LGBMClassifier(**settings).fit(X, y, sample_weight), time.process_time() - start


def booster() -> Trees:
    """The same trees for everybody."""
    return Trees(n_jobs=1, verbose=-1, random_state=0)


def table_of(name: str, seed: int, folder: Path) -> tuple[Rows, NDArray[np.intp]]:
    """Rows, and the columns that do not say the group by name."""
    if name in DATA:
        dataset, options, _ = DATA[name]
        data = datasets.load(dataset, **options)
        told = "marital" if name == "bank" else " "  # on Bank the group is marital
        blind = np.flatnonzero([not feature.startswith(told) for feature in data.features])
        X, y, z = data.X, data.y, data.z
    else:
        table = public_tables.TABLES[UNSEEN[name]](public_tables.fetch(folder / "wheels"))
        X = pd.get_dummies(table.X, dtype=float).to_numpy()
        y, z = (np.unique(column, return_inverse=True)[1] for column in (table.y, table.z))
        drawn = np.sort(np.random.default_rng(seed).permutation(len(y))[:MOST])
        X, y, z, blind = X[drawn], y[drawn], z[drawn], np.arange(X.shape[1])
    return Rows(np.asarray(X, np.float32), y.astype(np.int64), z.astype(np.int64)), blind


def rows_of(name: str, seed: int, folder: Path, joint: bool) -> Path:
    """The file of a table and a seed of the folds; made where it is not there.

    Args:
        joint: whether scores for decisions without the group are made too.
    """
    file = folder / "rows" / f"{name}-{seed}.npz"
    if file.is_file():
        return file
    rows, blind = table_of(name, seed, folder)
    fold, X = datasets.folds(rows.y, rows.z, 5, seed), rows.with_group
    found: dict[str, Any] = {**rows._asdict(), "fold": fold, "blind": blind, "seed": seed}
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        y, z = rows.y[train], rows.z[train]
        Trees.CPU = 0.0
        crossed = cross_fit(booster(), X[train], y, z, random_state=seed)
        members = [crossed.model.predict_proba(X[test])[:, 1]]
        _keep(found, "cross-fitted", k, train, crossed.scores[:, 1], members)
        if joint:
            X_blind = rows.X[:, blind]
            of_both = cross_fit(booster(), X_blind[train], y, z, "joint", random_state=seed)
            members = [of_both.model.joint_proba(X_blind[test])]
            _keep(found, "joint", k, train, of_both.scores, members)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez(part, **found)
    os.replace(part, file)
    return file


def _keep(found: dict[str, Any], kind: str, k: int, rows: Any, scores: Any, test: Any) -> None:
    found[f"{kind} {k} cpu"], Trees.CPU = Trees.CPU, 0.0
    found[f"{kind} {k} rows"] = rows
    found[f"{kind} {k} scores"] = scores
    found[f"{kind} {k} test"] = np.stack(test)
