"""`trace` of a numeric target: aligned predictions around a regressor, measured on outer folds.

The rows are split once (`crossfit.nested`): in every outer fold the regressor is cross-fitted on
the other folds, maps are fitted to its predictions of rows that it did not see, and the outer fold
is predicted by the regressor that did not see it. What ships is the same procedure on all rows. The
folder holds `numeric.json` (names, settings, points), `numeric.safetensors` (outcome, attribute,
fold and predictions of every row) and `base.model`, the regressor fitted to all rows.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from safetensors.numpy import save
from sklearn.linear_model import LinearRegression

from separatrix import __version__, datasets
from separatrix.columns.groups import as_groups, group_columns, to_plain
from separatrix.columns.values import Levels, check_lengths
from separatrix.core.conditional_cmi import attribute_bins
from separatrix.core.numbers import whole_number
from separatrix.crossfit.nested import Fit, Piece, assemble, fit_piece, plan_fits
from separatrix.crossfit.numeric_fit import predictions, regressor
from separatrix.crossfit.out_of_fold import fit_one
from separatrix.errors import InputError
from separatrix.frontier.checksums import remove_checksums, write_checksums
from separatrix.frontier.numeric_frontier import (
    ARRAYS,
    FORMAT,
    MANIFEST,
    MODEL,
    NumericFrontier,
)
from separatrix.frontier.rows import features_of, one_column
from separatrix.io import Stages, as_folder, write_whole
from separatrix.optimum.scores.align import SENSITIVE, outcome
from separatrix.optimum.scores.aligned import attribute
from separatrix.predictor.stored import model_bytes
from separatrix.processes import in_processes

__all__ = ["trace_numeric"]

_BASE = "regressor"


def trace_numeric(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    name: str = "data",
    sensitive: str = "groups",
    estimator: Any = None,
    levels: int = 16,
    cv: int = 5,
    random_state: int = 0,
    n_jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> NumericFrontier:
    """What is possible for a numeric target: R², RMSE and v along the penalties.

    Args:
        X: a frame, a mapping of columns or a matrix.
        y: numbers.
        sensitive_features: groups, or one column of numbers for ``sensitive="continuous"``.
        name: of the data, for people.
        sensitive: "groups" or "continuous".
        estimator: None or "trees" for boosted trees, "linear" for least squares, both on prepared
            columns; or a regressor, which gets X as it is.
        levels: at most so many released values.
        cv: outer folds, at least 3.
        random_state: seed of the folds.
        n_jobs: processes.
        out: folder of the frontier; by default a temporary one.
        progress: what is being done, on stderr.
    """
    cv, levels = whole_number(cv, "cv"), whole_number(levels, "levels", least=2)
    target, column = one_column(y)
    numbers = outcome(column, target)
    if sensitive not in SENSITIVE:
        raise InputError(f"`sensitive` must be one of {', '.join(SENSITIVE)}, got {sensitive!r}.")
    columns = group_columns(sensitive_features)
    z, groups = _attribute(columns, sensitive)
    codes = attribute_bins(z) if sensitive == "continuous" else z.astype(np.intp)
    model, rows, prepared = _rows(X, estimator, target)
    n = check_lengths({target: numbers, "sensitive_features": z})
    if (len(rows) if hasattr(rows, "__len__") else rows.shape[0]) != n:
        raise InputError(f"`X` and `y` must have as many rows, {n:,} in `y`.")
    if not 3 <= cv <= n:  # a model that saw neither of two folds needs a third
        raise InputError(f"`cv` must be between 3 and the {n:,} rows, got {cv}.")
    folder = _folder(out)
    remove_checksums(folder)
    stages = Stages(progress)
    try:
        fold = datasets.folds(np.zeros(n, dtype=np.intp), codes, cv, random_state)
        fits = plan_fits([_BASE] * (cv + 1))
        with stages.stage(f"Fitting {type(model).__name__}", len(fits)) as done:
            work = (delayed(_piece)(one, model, rows, numbers, fold) for one in fits)
            pieces: dict[Fit, Piece] = {}
            with in_processes(work, n_jobs, kept=False) as answers:
                for fit, piece in zip(fits, answers, strict=True):
                    pieces[fit] = piece
                    done()
        scores = assemble(fold, [_BASE] * (cv + 1), pieces)
        arrays = {"y": numbers, "z": z, "fold": fold}
        arrays |= {"inner": scores.inner[..., 0], "honest": scores.honest[:, 0]}
        ordered = {one: np.ascontiguousarray(a) for one, a in arrays.items()}
        write_whole(folder / ARRAYS, save(ordered))
        write_whole(folder / MODEL, model_bytes(pieces[Fit(_BASE, ())][1]))
        manifest = {
            "format": FORMAT, "version": __version__, "name": name, "target": target, "rows": n,
            "folds": cv, "seed": random_state, "levels": levels, "sensitive": sensitive,
            "columns": list(columns), "groups": [to_plain(group) for group in groups],
            "preprocessing": None if prepared is None else prepared.to_dict(),
            "base": type(model).__name__, "points": [],
        }  # fmt: skip
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))
        with stages.stage("Measuring what could be shipped"):
            manifest["points"] = NumericFrontier(folder).measured()
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))
        write_checksums(folder)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    frontier = NumericFrontier(folder)
    if out is None:  # a temporary folder lives as long as its frontier
        weakref.finalize(frontier, shutil.rmtree, folder, ignore_errors=True)
    return frontier


def _attribute(columns: dict[str, Any], sensitive: str) -> tuple[NDArray[Any], Levels]:
    """Codes and groups, or numbers."""
    if sensitive == "groups":
        coded = as_groups(columns)
        return np.asarray(coded.codes), coded.levels
    if len(columns) != 1:
        raise InputError(
            f'sensitive="continuous" takes one column of numbers, got {", ".join(columns)}.'
        )
    return attribute(next(iter(columns.values()))), ()


def _rows(X: Any, estimator: Any, target: str) -> tuple[Any, Any, Any]:
    """The regressor to clone, what it sees, and the preparation of raw columns."""
    named = {"trees": regressor(None), "linear": LinearRegression()}
    if estimator is not None and not isinstance(estimator, str):
        return estimator, X, None
    if estimator is not None and estimator not in named:
        raise InputError(
            f"There is no regressor {estimator!r}. Pass {', '.join(named)}, or a regressor object."
        )
    columns = features_of(X)
    if target in columns:
        raise InputError(f"The target {target!r} is also in `X`. Leave it out there.")
    prepared = datasets.plan(columns).fit(columns)
    return named["trees" if estimator is None else estimator], prepared.transform(columns), prepared


def _piece(fit: Fit, model: Any, rows: Any, y: NDArray[Any], fold: NDArray[np.intp]) -> Piece:
    """One fit, and its predictions of the rows that it did not see."""
    return fit_piece(fit, rows, fold, partial(_train, model, y), _score)


def _train(model: Any, y: NDArray[Any], X: Any, places: NDArray[np.intp]) -> Any:
    return fit_one(model, X, y[places], None)


def _score(model: Any, X: Any) -> NDArray[np.float64]:
    return predictions(model, X)[:, None]


def _folder(out: str | Path | None) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="separatrix-"))
    place = as_folder(out, "out")
    if place.exists() and any(place.iterdir()) and not (place / MANIFEST).is_file():
        raise InputError(
            f"{str(place)!r} holds something else than a numeric frontier. Pass another folder."
        )
    place.mkdir(parents=True, exist_ok=True)
    return place
