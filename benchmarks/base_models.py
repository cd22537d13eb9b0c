"""Base models: CPU of one fit on four fifths of the rows, held-out log-loss and AUROC, the choice.

    python -m benchmarks.base_models [adult | bank | compas | table | small ...]

Beside ours stand scikit-learn's boosted trees and LightGBM as they come. "table" is 30,000 × 100,
"small" are 700 rows of Adult. One thread. The sizes of ours were chosen on simulated laws and on
rows of Adult, Bank and COMPAS, so their figures here are not independent of that choice; those of
"table" are (a seed that the choice did not see, of a family of laws that it did).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from separatrix import datasets
from separatrix.crossfit.base_models import base_model_named
from separatrix.crossfit.model_choice import choose_bases

Rows = tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp]]


def table(n: int = 30_000, d: int = 100, seed: int = 11) -> Rows:
    """A law with linear, curved and joint effects, and an effect that differs by group."""
    rng = np.random.default_rng(seed)
    X, z = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, 2, n)
    X[:, ::5] = X[:, ::5] > 0.5
    weight = rng.normal(size=d) * (rng.random(d) < 0.2)
    s = X @ weight / 2 + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * z * X[:, 6] - 0.5
    return X, (rng.random(n) < 1 / (1 + np.exp(-s))).astype(np.intp), z


def rows_of(name: str) -> Rows:
    """The prepared matrix with a 0/1 column per group in front, labels and groups."""
    if name == "table":
        X, y, z = table()
    else:
        data = datasets.load("adult" if name == "small" else name, **_options(name))
        X, y, z = data.X, data.y, data.z
    if name == "small":
        some = np.random.default_rng(0).permutation(len(y))[:700]
        X, y, z = X[some], y[some], z[some]
    return np.hstack([np.eye(z.max() + 1, dtype=np.float32)[z], X]), y, z


def _options(name: str) -> dict[str, str]:
    return {"features": "full"} if name in ("adult", "small") else {}


def models() -> dict[str, Callable[[], Any]]:
    """What is compared, by name."""
    found: dict[str, Callable[[], Any]] = {
        name: (lambda name=name: base_model_named(name))
        for name in ("trees", "logistic", *(["network"] if find_spec("torch") else []))
    }
    found["scikit-learn"] = lambda: HistGradientBoostingClassifier(random_state=0)
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        found["LightGBM"] = lambda: LGBMClassifier(n_jobs=1, verbose=-1)
    return found


def main(names: list[str]) -> None:
    """Print a table for each name."""
    for name in names or ["adult", "bank", "compas", "table", "small"]:
        X, y, z = rows_of(name)
        fold = datasets.folds(y, z, 5, 0)
        start = time.process_time()
        chosen = choose_bases(X, y, z, fold)
        spent = time.process_time() - start
        print(f"\n{name}: {X.shape[0]:,} x {X.shape[1]}. {chosen} CPU {spent:.2f} s.")
        for label, make in models().items():
            found = [_one(make(), X, y, fold, k) for k in range(5 if len(y) < 10_000 else 2)]
            seconds, loss, auc = np.mean(found, axis=0)
            print(f"  {label:14s} CPU {seconds:5.2f} s  log-loss {loss:.4f}  AUROC {auc:.4f}")


def _one(
    model: Any, X: NDArray[np.float32], y: NDArray[np.intp], fold: NDArray[np.intp], k: int
) -> tuple[float, float, float]:
    train, test = fold != k, fold == k
    start = time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - start
    q = model.predict_proba(X[test])
    return seconds, float(log_loss(y[test], q)), float(roc_auc_score(y[test], q[:, 1]))


if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1:])
