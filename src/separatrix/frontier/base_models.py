"""The base model of a trace: which one, what it sees, and how it was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.crossfit.base_models import base_model_named
from separatrix.crossfit.joint import JointModel
from separatrix.crossfit.model_choice import choose_bases
from separatrix.crossfit.nested import Fit, NestedScores, Piece
from separatrix.datasets import Data
from separatrix.errors import InputError
from separatrix.frontier.base_scores import JOINT, LABELS, WITHOUT, BaseRows, fit_bases
from separatrix.frontier.sweep.jobs import fingerprint
from separatrix.frontier.sweep.keys import hash_of

__all__ = ["Base", "base_key", "base_of", "fit_base"]


@dataclass(frozen=True, eq=False)
class Base:
    """The base models of all outer folds, and of all rows.

    Args:
        bases: their names, one per outer fold, and last of all rows.
        models: unfitted, by name.
        X: what they see.
        reads: "xz": the prepared matrix with a column per group in front; "x": the caller's rows.
        note: how they were chosen, one line.
        pieces: fits of the choice that need not be made again.
    """

    bases: tuple[str, ...]
    models: dict[str, Any]
    X: Any
    reads: str
    note: str
    pieces: Mapping[Fit, Piece] = field(default_factory=dict, repr=False)


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
    chosen = choose_bases(X, data.y, data.z, fold, random_state=random_state)
    models = {name: base_model_named(name) for name in set(chosen.names)}
    return Base(chosen.names, models, X, "xz", str(chosen), chosen.pieces)


def with_groups(data: Data) -> NDArray[np.float32]:
    """The prepared matrix with a 0/1 column per group in front."""
    return np.hstack([np.eye(len(data.groups), dtype=np.float32)[data.z], data.X])


def base_key(data: Data, base: Base, fold: NDArray[np.intp]) -> str:
    """Hash of the rows, the folds and the models: of all that decides the scores."""
    described = {name: repr(model) for name, model in base.models.items()}
    return hash_of([fingerprint(data), fold.tolist(), described, base.reads])


def fit_base(
    folder: Path,
    data: Data,
    base: Base,
    fold: NDArray[np.intp],
    *,
    kind: str = LABELS,
    n_jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> NestedScores:
    """Fit all that the nested scores need."""
    key = base_key(data, base, fold)
    X, models, pieces = base.X, base.models, base.pieces
    if kind in (WITHOUT, JOINT):
        X, pieces = data.X if base.reads == "xz" else base.X, {}
    if kind == JOINT:
        models = {name: JointModel(model) for name, model in models.items()}
    shape = (len(data.labels), len(data.groups))
    rows = BaseRows(X, data.y, data.z, shape, fold, key, kind)
    return fit_bases(folder, rows, base.bases, models, known=pieces, n_jobs=n_jobs, done=done)
