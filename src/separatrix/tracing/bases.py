"""The base model of a trace: which one, what it sees, and how it was chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from separatrix.datasets import Data
from separatrix.errors import InputError
from separatrix.estimators.base_models import base_model_named, choose_base
from separatrix.estimators.joint import JointModel
from separatrix.runs.bases import JOINT, LABELS, BaseRows, fit_bases
from separatrix.runs.jobs import fingerprint
from separatrix.runs.keys import hash_of

__all__ = ["Base", "base_of", "fit_base"]


@dataclass(frozen=True, eq=False)
class Base:
    """The base models of all outer folds, and of all rows.

    Args:
        bases: their names, one per outer fold, and last of all rows.
        models: unfitted, by name.
        X: what they see.
        reads: "xz": the prepared matrix with a column per group in front; "x": the caller's rows.
        note: how they were chosen, one line.
    """

    bases: tuple[str, ...]
    models: dict[str, Any]
    X: Any
    reads: str
    note: str


def base_of(
    data: Data,
    estimator: Any,
    raw: Any,
    fold: NDArray[np.intp],
    random_state: int,
) -> Base:
    """The base model that was asked for, or the best of the usual ones.

    Args:
        data: the rows.
        estimator: None: the best of a few by inner log-loss, chosen on the training rows of every
            outer fold anew; a name ("trees", "logistic", "network", "MODULE:CLASS"); or a
            classifier, which sees the caller's rows as they are.
        raw: the caller's rows, for a classifier of the caller's.
        fold: of each row.
        random_state: seed.
    """
    folds = range(int(fold.max()) + 1)
    if estimator is not None and not isinstance(estimator, str):
        if raw is None:
            raise InputError(
                "An `estimator` object needs rows to see: call `trace(X, y, ...)`, or pass a name."
            )
        name = type(estimator).__name__
        return Base((name,) * (len(folds) + 1), {name: estimator}, raw, "x", f"Base model: {name}.")
    X = with_groups(data)
    if isinstance(estimator, str):
        model = base_model_named(estimator)
        note = f"Base model: {estimator}."
        return Base((estimator,) * (len(folds) + 1), {estimator: model}, X, "xz", note)
    names, models, note = [], {}, ""
    for k in (*folds, None):
        rows = np.arange(len(fold)) if k is None else np.flatnonzero(fold != k)
        own = _safe_indexing(X, rows), data.y[rows], data.z[rows]
        chosen = choose_base(*own, random_state=random_state)
        names.append(chosen.name)
        models[chosen.name] = chosen.model
        note = str(chosen)
    return Base(tuple(names), models, X, "xz", note)


def with_groups(data: Data) -> NDArray[np.float32]:
    """The prepared matrix with a 0/1 column per group in front."""
    return np.hstack([np.eye(len(data.groups), dtype=np.float32)[data.z], data.X])


def fit_base(
    folder: Path,
    data: Data,
    base: Base,
    fold: NDArray[np.intp],
    *,
    kind: str = LABELS,
    n_jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> str:
    """Fit all that the nested scores need; gives the key of the rows that they belong to."""
    described = {name: repr(model) for name, model in base.models.items()}
    key = hash_of([fingerprint(data), fold.tolist(), described, base.reads])
    X, models = base.X, base.models
    if kind == JOINT:
        X = data.X if base.reads == "xz" else base.X
        models = {name: JointModel(model) for name, model in models.items()}
    shape = (len(data.labels), len(data.groups))
    rows = BaseRows(X, data.y, data.z, shape, fold, key, kind)
    fit_bases(folder, rows, base.bases, models, n_jobs=n_jobs, done=done)
    return key
