"""The base models of a trace: which one, what it sees, and its fits fold by fold.

A piece is one fit of `crossfit.nested`: the scores of the rows that the model did not see and,
where the model may ship, the model itself. Each is a file of its own in `base/`, written when it is
done, so a killed trace goes on where it was. The name of a file is the hash of all that decides its
numbers: rows, folds, model, what it predicts, and the folds left out.

Models are kept as `predictor.models` keeps them. Nothing is ever loaded through pickle.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from separatrix.columns.frames import as_frame, column_names
from separatrix.crossfit.base_models import (
    JointModel,
    base_model_named,
    fit_one,
    holding_columns,
    scores_of,
    with_group,
    without_categories,
    without_columns,
)
from separatrix.crossfit.nested import Fit, Piece, assemble, choose_bases, fit_piece, plan_fits
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.frontier.store import hash_of
from separatrix.io import in_processes, write_whole
from separatrix.predictor.models import model_bytes, model_from_bytes

BASE = "base"
KEPT = 0  # the outer fold whose model is kept too: its rows certify it
# what a model predicts: P(y | x, z), P(y | x) from x alone, P(y, z | x), or a number
LABELS, WITHOUT, JOINT, NUMBERS = "labels", "without", "joint", "numbers"
_READS = {JOINT: "joint", NUMBERS: "value"}  # the others read "x"
Array = NDArray[np.float64]


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
        left_out: places of the columns of the caller's rows that hold the group; models without
            the group do not see them.
    """

    bases: tuple[str, ...]
    models: dict[str, Any]
    X: Any
    reads: str
    note: str
    pieces: Mapping[Fit, Piece] = field(default_factory=dict, repr=False)
    left_out: tuple[int, ...] = ()


def base_of(data: Data, estimator: Any, raw: Any, fold: NDArray[np.intp], random_state: int) -> Base:
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
            raise InputError("An `estimator` object needs rows to see: call `trace(X, y, ...)`, or pass a name.")
        name = type(estimator).__name__
        names, note = (name,) * (len(folds) + 1), f"Base model: {name}."
        held = holding_columns(raw, data.z, {}, _sensitive_columns(data, raw))
        return Base(names, {name: estimator}, raw, "x", note, left_out=held)
    X = with_group(data.X, data.z, len(data.groups))
    if isinstance(estimator, str):
        model = base_model_named(estimator)
        note = f"Base model: {estimator}."
        return Base((estimator,) * (len(folds) + 1), {estimator: model}, X, "xz", note)
    chosen = choose_bases(X, data.y, data.z, fold, random_state=random_state)
    models = {name: base_model_named(name) for name in set(chosen.names)}
    return Base(chosen.names, models, X, "xz", str(chosen), chosen.pieces)


def _sensitive_columns(data: Data, rows: Any) -> list[str] | None:
    """Those of the sensitive columns that rows with names hold too."""
    if data.grouping is None or as_frame(rows, "X") is None:
        return None
    known = column_names(rows, "X")
    return [column for column in data.grouping.columns if column in known]


def base_key(data: Data, base: Base, fold: NDArray[np.intp]) -> str:
    """Hash of the rows, the folds and the models: of all that decides the scores."""
    described = {name: repr(model) for name, model in base.models.items()}
    known = [data.fingerprint, fold.tolist(), described, base.reads, list(base.left_out)]
    return hash_of(known)


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
        if base.left_out:
            names = column_names(X, "X") if as_frame(X, "X") is not None else []
            left_out = [names[place] for place in base.left_out if names]
            models = {name: without_categories(model, left_out) for name, model in models.items()}
            X = without_columns(X, base.left_out)
    if kind == JOINT:
        models = {name: JointModel(model) for name, model in models.items()}
    shape = (len(data.labels), len(data.groups))
    rows = BaseRows(folder, X, data.y, data.z, shape, fold, key, base.bases, kind)
    return rows.fit(models, known=pieces, n_jobs=n_jobs, done=done)


@dataclass(frozen=True, eq=False)
class BaseRows:
    """What the base models of one kind are fitted to, and their fits in the folder of the trace.

    Args:
        folder: of the trace.
        X: rows as the models take them; None to read what was fitted.
        y, z: codes.
        shape: how many labels and groups.
        fold: of each row.
        key: hash of rows and folds.
        bases: the name of the model of each outer fold, and last of all rows.
        kind: "labels" for P(y | x, z), "without" for P(y | x) from rows without the
            group's columns, "joint" for P(y, z | x), which knows the groups in training only,
            "numbers" for a numeric outcome y.
    """

    folder: Path
    X: Any
    y: NDArray[Any]
    z: NDArray[Any]
    shape: tuple[int, int]
    fold: NDArray[np.intp]
    key: str
    bases: Sequence[str]
    kind: str = LABELS

    def train(self, model: Any, X: Any, places: NDArray[np.intp]) -> Any:
        """A fitted clone."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if self.kind == JOINT:
                return clone(model).fit(X, self.y[places], self.z[places])
            return fit_one(model, X, self.y[places], None)

    def score(self, model: Any, X: Any) -> Array:
        """Scores (m, C), C = labels or labels × groups, columns of unseen labels zero."""
        scores = scores_of(model, X, _READS.get(self.kind, "x"), self.shape)
        return scores.reshape(len(scores), -1)

    def fit(
        self, models: Mapping[str, Any], *, known: Mapping[Fit, Piece] | None = None, n_jobs: int = 1,
        done: Callable[[], None] = lambda: None,
    ) -> NestedScores:  # fmt: skip
        """Make every fit that the nested scores need; finished pieces are read, not computed.

        Args:
            models: unfitted, by name.
            known: pieces that were fitted to these rows already.
            n_jobs: processes.
            done: called after each fit.
        """
        from joblib import delayed

        (self.folder / BASE).mkdir(parents=True, exist_ok=True)
        fits = plan_fits(self.bases)
        for fit, (scores, model) in (known or {}).items():
            if fit in fits:
                self._write(fit, scores, model_bytes(model) if _ships(fit) else None)
        missing = [fit for fit in fits if not self._file(fit).is_file()]
        for _ in range(len(fits) - len(missing)):
            done()
        work = (delayed(_piece)(self, fit, models[fit.base]) for fit in missing)
        with in_processes(work, n_jobs if len(missing) > 1 else 1) as answers:
            for fit, (scores, model) in zip(missing, answers, strict=True):
                self._write(fit, scores, model)
                done()
        return self.read()

    def read(self) -> NestedScores:
        """The nested scores from finished pieces."""
        pieces: dict[Fit, Piece] = {fit: (_scores(self._file(fit)), None) for fit in plan_fits(self.bases)}
        return assemble(self.fold, self.bases, pieces)

    def model(self, k: int | None) -> Any:
        """The model fitted to all rows (k None), or the one that did not see the fold `KEPT`."""
        path = self._file(Fit(self.bases[-1], ()) if k is None else Fit(self.bases[k], (k,))).with_suffix(".model")
        return model_from_bytes(_read(path), (), path)

    def _file(self, fit: Fit) -> Path:
        name = hash_of([self.key, self.kind, fit.base, list(fit.without)])
        return self.folder / BASE / f"{name}.safetensors"

    def _write(self, fit: Fit, scores: Array, model: bytes | None) -> None:
        from safetensors.numpy import save

        path = self._file(fit)
        if model is not None:  # first, since the scores say that the piece is done
            write_whole(path.with_suffix(".model"), model)
        write_whole(path, save({"scores": np.ascontiguousarray(scores)}))


def _piece(rows: BaseRows, fit: Fit, model: Any) -> tuple[Array, bytes | None]:
    """One fit; the model as bytes where it ships."""
    with threadpool_limits(1):
        scores, fitted = fit_piece(fit, rows.X, rows.fold, lambda X, places: rows.train(model, X, places), rows.score)
    return scores, model_bytes(fitted) if _ships(fit) else None


def _ships(fit: Fit) -> bool:
    """Whether the model may ship: M() of all rows, or M(0), which the rows of fold 0 certify."""
    return fit.without in ((), (KEPT,))


def _scores(path: Path) -> Array:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return np.asarray(load(_read(path))["scores"])
    except (SafetensorError, KeyError) as error:
        raise DataError(f"{path} is not a file of scores as `trace` writes it: {error}.") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): run the trace again to make it anew.") from error
