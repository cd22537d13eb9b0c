"""Any classifier as a source of honest scores: every row is scored by models that did not see it.

`cv` clones are fitted, each without one fold, which it then scores. A rule fitted to these scores
corrects the errors that will occur on unseen rows. A prediction is therefore that of one of the
clones drawn at random: the mean of the rule over the clones. A clone fitted on all rows would have
other scores than those that the rule was fitted to.

With ``ensemble=R`` the rows are dealt R times. The score of a row is the mean of the R clones that
did not see it, and the k-th score of a new row the mean of the R clones without their fold k.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_y,
    check_consistent_length,
    has_fit_parameter,
    validate_data,
)

from separatrix import datasets
from separatrix.columns.draws import seed_of
from separatrix.columns.frames import as_frame
from separatrix.columns.scores import check_posteriors
from separatrix.columns.values import listed, refuse_missing, row_numbers
from separatrix.core.numbers import whole_number
from separatrix.datasets import Preprocessing
from separatrix.errors import InputError
from separatrix.estimators.boosted import BoostedTrees

__all__ = [
    "PRECOMPUTED",
    "CrossFit",
    "base_model",
    "check_labels",
    "check_sizes",
    "checked_rows",
    "cross_fit",
    "deals",
    "fit_one",
    "has_text",
    "label_column",
    "posteriors_of",
    "same_rows",
    "some_posteriors_of",
    "some_rows",
]

Array = NDArray[np.float64]
_WHOLE = 2.0**53  # floats tell whole numbers apart up to here
PRECOMPUTED = "precomputed"  # X is the probabilities themselves


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Classifiers, and what they say about rows that they did not see.

    Args:
        members: members[k][r] did not see fold k of the r-th deal; empty if X is the probabilities.
        scores: P(Y | x) of every row of `fit`, array (n, K).
        classes: the K labels, sorted.
        preprocessing: raw columns to the members' matrix; None where they take rows as they are.
    """

    members: tuple[tuple[Any, ...], ...]
    scores: Array = field(repr=False)
    classes: NDArray[Any]
    preprocessing: Preprocessing | None = None

    def posteriors(self, X: Any) -> list[Array]:
        """The scores of new rows, one array (n, K) for each of the `cv` members."""
        if not self.members:
            return [as_posteriors(X, len(self.classes))]
        rows = X if self.preprocessing is None else self.preprocessing.transform(X)
        return [
            np.mean([posteriors_of(one, rows, self.classes) for one in team], axis=0)
            for team in self.members
        ]


def cross_fit(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    z: NDArray[np.intp],
    *,
    cv: int | str = 5,
    ensemble: int = 1,
    random_state: int = 0,
    sample_weight: Array | None = None,
) -> CrossFit:
    """Scores of every row by classifiers that did not see it.

    Args:
        estimator: a classifier with `predict_proba`; None for the default base model; "precomputed"
            if X is the probabilities, (n,) or (n, K), of rows that their model did not see.
        X: rows as the classifier takes them.
        y, z: labels, and codes of the groups. Folds are stratified on both.
        cv: number of folds; "prefit" if `estimator` is fitted already and did not see these rows.
        ensemble: how many times the rows are dealt.
        random_state: seed of the folds.
        sample_weight: weight of each row, passed on to the classifier.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 1)) + y[:, None]
    >>> found = cross_fit(LogisticRegression(), X, y, z, cv=4)
    >>> found.scores.shape, len(found.members), len(found.posteriors(X[:3]))
    ((200, 2), 4, 4)
    """
    classes = np.unique(y)
    if isinstance(estimator, str):
        if estimator != PRECOMPUTED:
            raise InputError(
                f"`estimator` must be a classifier, None or {PRECOMPUTED!r}, got {estimator!r}."
            )
        return CrossFit((), as_posteriors(X, len(classes), len(y)), classes)
    if cv == "prefit" or type(estimator).__name__ == "FrozenEstimator":
        if estimator is None:
            raise InputError('`cv="prefit"` needs a fitted `estimator`, got None.')
        return CrossFit(((estimator,),), posteriors_of(estimator, X, classes), classes)
    check_sizes(y, classes, cv, ensemble)
    model, preprocessing = base_model(estimator, X)
    rows = X if preprocessing is None else preprocessing.transform(X)
    scores = np.zeros((len(y), len(classes)))
    members: list[list[Any]] = [[] for _ in range(int(cv))]
    for k, train, test in deals(y, z, int(cv), ensemble, random_state):
        weight = None if sample_weight is None else sample_weight[train]
        own = fit_one(model, _safe_indexing(rows, train), y[train], weight)
        scores[test] += posteriors_of(own, _safe_indexing(rows, test), classes) / ensemble
        members[k].append(own)
    return CrossFit(tuple(map(tuple, members)), scores, classes, preprocessing)


def deals(
    y: NDArray[Any], z: NDArray[np.intp], cv: int, ensemble: int, random_state: int
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """The number of each fold of every deal, the rows outside it and the rows in it."""
    first = seed_of(random_state)
    for deal in range(ensemble):
        fold = datasets.folds(y, z, cv, first + deal)
        for k in range(cv):
            yield k, np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def base_model(estimator: Any, X: Any) -> tuple[Any, Preprocessing | None]:
    """The classifier to clone, and the preprocessing that it needs.

    The default is boosted trees. They take a matrix of numbers as it is, missing values included;
    a frame with other columns is prepared by `datasets.plan`.
    """
    if estimator is not None:
        return estimator, None
    return BoostedTrees(), datasets.plan(X).fit(X) if has_text(X) else None


def fit_one(model: Any, X: Any, y: NDArray[Any], sample_weight: Array | None) -> Any:
    """A fitted clone; weights reach the last step of a pipeline."""
    own = clone(model)
    if sample_weight is None:
        return own.fit(X, y)
    name, last = "sample_weight", own
    while isinstance(last, Pipeline):
        step, last = last.steps[-1]
        name = f"{step}__{name}"
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"{type(last).__name__} takes no `sample_weight`: fit without weights, or use another "
            "`estimator`."
        )
    return own.fit(X, y, **{name: sample_weight})


def posteriors_of(model: Any, X: Any, classes: NDArray[Any]) -> Array:
    """P(Y | x) of one fitted classifier, array (n, K), columns in the order of `classes`."""
    if not hasattr(model, "predict_proba"):
        raise InputError(
            f"{type(model).__name__} has no `predict_proba`: a rule needs probabilities. Wrap it "
            "in sklearn.calibration.CalibratedClassifierCV, or pass another `estimator`."
        )
    known = np.asarray(getattr(model, "classes_", classes))
    if len(known) != len(classes) or not (known == classes).all():
        raise InputError(
            f"The classifier knows the labels {listed(known.tolist())}, `y` has "
            f"{listed(classes.tolist())}: both must be the same."
        )
    return some_posteriors_of(model, X, classes)


def some_posteriors_of(model: Any, X: Any, classes: NDArray[Any]) -> Array:
    """The same where the classifier may not have seen all `classes`: zero for those."""
    q = np.asarray(model.predict_proba(X), dtype=np.float64)
    found = np.zeros((len(q), len(classes)))
    found[:, np.searchsorted(classes, np.asarray(getattr(model, "classes_", classes)))] = q
    return found / found.sum(1, keepdims=True)  # single precision sums to one only within 1e-7


def as_posteriors(X: Any, n_labels: int, rows: int | None = None) -> Array:
    """Probabilities (n, K) from an array of them, or from one column for two labels."""
    try:
        q = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`X` must be probabilities, since no model makes them: {error}."
        ) from error
    if q.ndim == 2 and q.shape[1] == 1:
        q = q[:, 0]
    if q.ndim == 1 and n_labels == 2:
        q = np.stack([1.0 - q, q], axis=1)
    if q.ndim != 2 or q.shape[1] != n_labels or (rows is not None and len(q) != rows):
        raise InputError(
            f"`X` must be probabilities, one row per label of `y` and {n_labels} columns, got "
            f"shape {np.shape(X)}."
        )
    return check_posteriors(q, "X")


def check_sizes(y: NDArray[Any], classes: ArrayLike, cv: int | str, ensemble: int) -> None:
    """An error where there are too few rows for the folds."""
    if not isinstance(cv, int | np.integer) or cv < 2:
        raise InputError(f'`cv` must be a number of folds, at least 2, or "prefit", got {cv!r}.')
    whole_number(ensemble, "ensemble", least=1)
    count = np.unique(y, return_counts=True)[1]
    if count.min() < cv:
        rare = np.asarray(classes)[count.argmin()].tolist()
        raise InputError(
            f"The label {rare!r} has {count.min()} rows, too few for `cv={cv}` folds: pass a "
            "smaller `cv`, or more rows."
        )


def checked_rows(model: Any, X: Any, reset: bool = False) -> Any:
    """X as it goes on to `model.estimator`; sets or compares `n_features_in_`.

    Only the default trees' matrix is checked; other estimators check their own.
    """
    if isinstance(model.estimator, str):
        return X
    if _by_name(X):
        if model.estimator is not None:
            raise InputError(
                f"`X` is a mapping of columns, which {type(model.estimator).__name__} cannot take: "
                "pass a frame or a matrix."
            )
        return X
    if model.estimator is None and not has_text(X):
        return validate_data(
            model, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
    axes = len(getattr(X, "shape", (0, 0)))
    if axes == 0 or (isinstance(X, list | tuple) and not X):
        raise InputError(f"`X` must have one row per person, got {X!r}.")
    if axes != 1:  # a column of texts has no features to count
        validate_data(model, X, reset=reset, skip_check_array=True)
    return X


def same_rows(X: Any, *columns: NDArray[Any]) -> None:
    """Refuse rows of another number than the columns have; columns by name are counted as rows."""
    check_consistent_length(next(iter(X.values()), ()) if _by_name(X) else X, *columns)


def some_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """These rows of a matrix, a frame or columns by name."""
    if _by_name(X):
        return {name: _safe_indexing(column, rows) for name, column in X.items()}
    return _safe_indexing(X, rows)


def _by_name(X: Any) -> bool:
    return isinstance(X, Mapping) and not issparse(X)  # one kind of sparse matrix is a mapping


def label_column(model: Any, y: Any) -> NDArray[Any]:
    """The labels (n,) that a classifier is fitted to, none missing and none infinite."""
    if y is None:
        raise InputError(
            f"{type(model).__name__} requires y to be passed, but the target y is None."
        )
    labels = np.asarray(_check_y(y, estimator=model))
    check_labels(labels)
    return labels


def check_labels(labels: NDArray[Any]) -> None:
    """Refuse a checked column that holds measurements, not labels."""
    if labels.dtype.kind in "mM":
        refuse_missing(np.isnat(labels), "y")
    wide = labels.dtype.kind == "f" and labels.dtype.itemsize > 2
    if wide and (large := np.abs(labels) > _WHOLE).any():
        raise InputError(
            f"`y` holds {labels[large][0]:g} in row {row_numbers(large)}; labels are categories, "
            "or whole numbers below 2^53."
        )
    check_classification_targets(labels)


def has_text(X: Any) -> bool:
    """Whether rows are columns by name, and not all of them numbers."""
    if isinstance(X, Mapping):
        return _by_name(X)
    frame = as_frame(X, "X")
    if not isinstance(frame, nw.DataFrame):
        return False
    return any(not (d.is_numeric() or d == nw.Boolean) for d in frame.schema.values())
