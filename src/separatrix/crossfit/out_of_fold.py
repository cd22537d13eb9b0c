"""Any classifier as a source of honest scores, and the one model that carries the rule.

The classifier is fitted once without each fold, whose rows it then scores: a rule fitted to these
out-of-fold scores corrects the errors that unseen rows will show. The same classifier, refitted on
all rows, scores new rows. That makes cv + 1 fits. To ship an ensemble, pass one as the classifier,
such as scikit-learn's `VotingClassifier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import joblib
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, get_tags
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
from separatrix.crossfit.boosted import BoostedTrees
from separatrix.crossfit.sensitive_columns import as_rows, without_columns
from separatrix.datasets import Preprocessing
from separatrix.errors import InputError

__all__ = [
    "PRECOMPUTED",
    "CrossFit",
    "Split",
    "as_posteriors",
    "base_model",
    "check_labels",
    "checked_rows",
    "cross_fit",
    "fit_one",
    "fold_codes",
    "has_text",
    "is_precomputed",
    "is_prefit",
    "known_labels",
    "label_column",
    "out_of_fold",
    "posteriors_of",
    "same_rows",
    "seed_from",
    "some_posteriors_of",
    "some_rows",
    "splits_of",
    "splits_of_seen",
    "tagged_as",
    "with_group",
]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]  # rows to fit on, rows to score
_WHOLE = 2.0**53  # floats tell whole numbers apart up to here
PRECOMPUTED = "precomputed"  # X is the probabilities themselves


@dataclass(frozen=True, eq=False)
class CrossFit:
    """One model, and what clones of it said about rows that they did not see.

    Args:
        model: fitted to all rows; None if X is the scores.
        scores: out of fold, of every row of `fit`: P(Y | x) (n, K) of a classifier, q(y, z | x)
            (n, K, groups) of a joint model, the prediction (n,) of a regressor.
        reads: what the model takes, and says: "x"; "xz", one 0/1 column per group in front of x;
            "joint"; "value", a number.
        preprocessing: raw columns to the model's matrix; None where it takes rows as they are.
        left_out: places of the columns that the model does not see, where it does not find its own
            by name.
    """

    model: Any
    scores: Array = field(repr=False)
    reads: str = "x"
    preprocessing: Preprocessing | None = None
    left_out: tuple[int, ...] = ()


def cross_fit(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    z: Rows,
    *,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    random_state: Any = 0,
    sample_weight: Array | None = None,
    n_jobs: int | None = None,
    see_group: bool = False,
    left_out: tuple[int, ...] = (),
) -> CrossFit:
    """Scores of every row by classifiers that did not see it, and the classifier of all rows.

    Args:
        estimator: a classifier with `predict_proba`; None for the default base model; "precomputed"
            if X is the probabilities, (n,) or (n, K), of rows that their model did not see.
        X: rows as the classifier takes them.
        y, z: labels, and codes of the groups. Folds are stratified on both.
        cv: number of folds; a splitter; an iterable of (train, test); "prefit" if `estimator` is
            fitted already and did not see these rows.
        groups: for a splitter such as `GroupKFold`.
        random_state: seed of the folds.
        sample_weight: weight of each row, passed on to the classifier.
        n_jobs: how many fits at a time, see joblib.
        see_group: give the classifier one 0/1 column per group in front of a matrix.
        left_out: places of columns that the classifier does not see.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 1)) + y[:, None]
    >>> fitted = cross_fit(LogisticRegression(), X, y, z, cv=4)
    >>> fitted.scores.shape, fitted.model.predict_proba(X[:3]).shape
    ((200, 2), (3, 2))
    """
    classes = np.unique(y)
    if is_precomputed(estimator):
        return CrossFit(None, as_posteriors(X, len(classes), len(y)))
    if is_prefit(estimator, cv):
        return CrossFit(estimator, posteriors_of(estimator, X, classes))
    splits = splits_of(cv, X, y, z, groups, random_state)
    X = without_columns(X, left_out) if left_out else X
    model, preprocessing = base_model(estimator, X)
    y, classes = known_labels(model, y)
    rows = X if preprocessing is None else preprocessing.transform(X)
    count = int(z.max()) + 1 if see_group else 0
    rows = with_group(rows, z, count) if see_group else rows

    whole, scores = out_of_fold(
        rows,
        splits,
        lambda some, w, at: fit_one(model, some, y[at], w),
        lambda fitted, some: posteriors_of(fitted, some, classes),
        sample_weight,
        n_jobs,
    )
    places = () if preprocessing is not None else left_out
    return CrossFit(whole, scores, "xz" if see_group else "x", preprocessing, places)


def out_of_fold(
    rows: Any,
    splits: list[Split],
    fit: Callable[[Any, Array | None, Rows], Any],
    score: Callable[[Any, Any], Array],
    sample_weight: Array | None = None,
    n_jobs: int | None = None,
) -> tuple[Any, Array]:
    """The model of all rows, and the scores of every row by a model that did not see it.

    Args:
        rows: as the model takes them.
        splits: places to fit on and places to score; every row is scored once.
        fit: some rows, their weights and their places → a model fitted to them.
        score: a model and rows → its scores of them, (m, …).
        sample_weight: of each row.
        n_jobs: how many fits at a time, see joblib.
    """

    def fitted(at: Rows) -> Any:
        weight = None if sample_weight is None else sample_weight[at]
        return fit(_safe_indexing(rows, at), weight, at)

    def scored(train: Rows, test: Rows) -> Array:
        return score(fitted(train), _safe_indexing(rows, test))

    n = sum(len(test) for _, test in splits)
    jobs = [joblib.delayed(scored)(*split) for split in splits]
    *each, whole = joblib.Parallel(n_jobs=n_jobs)([*jobs, joblib.delayed(fitted)(np.arange(n))])
    scores = np.zeros((n, *each[0].shape[1:]))
    for (_, test), found in zip(splits, each, strict=True):
        scores[test] = found
    return whole, scores


def splits_of(
    cv: Any,
    X: Any,
    y: NDArray[Any],
    z: Rows,
    groups: ArrayLike | None = None,
    random_state: Any = 0,
    *,
    labels: bool = True,
) -> list[Split]:
    """The rows to fit on and to score of every fold; every row is scored exactly once.

    Args:
        cv: number of folds, stratified on labels and groups; a splitter; an iterable.
        X, y, z: rows, outcomes, codes of the sensitive groups.
        groups: who each row is about: one fold each; also for a splitter such as `GroupKFold`.
        random_state: seed of a number of folds.
        labels: whether y holds labels, each of which every fold must know.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        _check_folds(y, int(cv), labels)
        stratum = y if labels else np.zeros(len(y), dtype=np.intp)
        fold = datasets.folds(stratum, z, int(cv), seed_from(random_state), groups)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]
    if hasattr(cv, "split") and not isinstance(cv, str | bytes):
        pairs = cv.split(np.zeros((len(y), 1)), y, groups)
    elif isinstance(cv, Iterable) and not isinstance(cv, str | bytes):
        pairs = cv
    else:
        raise InputError(
            '`cv` must be a number of folds, at least 2, a splitter, an iterable or "prefit", got '
            f"{cv!r}."
        )
    try:
        splits = [(np.asarray(a, dtype=np.intp), np.asarray(b, dtype=np.intp)) for a, b in pairs]
    except (TypeError, ValueError) as error:
        raise InputError(f"`cv` must give pairs of train and test rows: {error}.") from error
    scored = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    if len(scored) != len(y) or (scored != 1).any():
        raise InputError(
            f"Every row must be in the test rows of exactly one split of `cv`; "
            f"{np.count_nonzero(scored != 1):,} of {len(y):,} rows are not."
        )
    return splits


def splits_of_seen(
    cv: Any,
    X: Any,
    y: NDArray[Any],
    groups: ArrayLike | None,
    weight: Array | None,
    random_state: Any = 0,
    *,
    labels: bool = True,
) -> Any:
    """`cv` for the rows that have a weight: a row of weight 0 is in no split.

    A number of folds stays one, unless `groups` keep people together. A splitter or an iterable is
    about all rows; its splits are renumbered.
    """
    if groups is not None and isinstance(cv, str):
        raise InputError("`groups` is for folds: pass a number or a splitter as `cv`.")
    counted = isinstance(cv, int | np.integer)
    if isinstance(cv, str) or (groups is None and (counted or weight is None)):
        return cv
    z = np.zeros(len(y), dtype=np.intp)
    splits = splits_of(cv, X, y, z, groups, random_state, labels=labels)
    if weight is None:
        return splits
    place = np.cumsum(weight > 0) - 1
    return [(place[a[weight[a] > 0]], place[b[weight[b] > 0]]) for a, b in splits]


def fold_codes(splits: list[Split], n: int) -> Rows:
    """The fold that scores each row, (n,)."""
    fold = np.zeros(n, dtype=np.intp)
    for k, (_, test) in enumerate(splits):
        fold[test] = k
    return fold


def seed_from(random_state: Any) -> int:
    """A seed from what `check_random_state` takes: None is fresh, a RandomState is drawn from."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return seed_of(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(
            f"`random_state` must be a whole number, None or a RandomState, got {random_state!r}."
        ) from error


def is_precomputed(estimator: Any, kind: str = "classifier") -> bool:
    """Whether X is the scores themselves; no other text is an estimator."""
    if isinstance(estimator, str) and estimator != PRECOMPUTED:
        raise InputError(
            f"`estimator` must be a {kind}, None or {PRECOMPUTED!r}, got {estimator!r}."
        )
    return isinstance(estimator, str)


def is_prefit(estimator: Any, cv: Any) -> bool:
    """Whether the classifier is used as it is."""
    if isinstance(cv, str) and cv == "prefit" and estimator is None:
        raise InputError('`cv="prefit"` needs a fitted `estimator`, got None.')
    return (isinstance(cv, str) and cv == "prefit") or (
        type(estimator).__name__ == "FrozenEstimator"
    )


def with_group(rows: Any, z: Rows, count: int) -> Array:
    """A matrix with one 0/1 column per group in front."""
    return np.hstack([np.eye(count, dtype=np.float32)[z], np.asarray(rows)])


def base_model(estimator: Any, X: Any) -> tuple[Any, Preprocessing | None]:
    """The classifier to clone, and the preprocessing that it needs.

    The default is boosted trees. They take a matrix of numbers as it is, missing values included;
    a frame with other columns is prepared by `datasets.plan`.
    """
    if estimator is not None:
        return estimator, None
    return BoostedTrees(), datasets.plan(X).fit(X) if has_text(X) else None


def known_labels(model: Any, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labels as the classifier takes them, and the sorted levels: XGBoost takes codes only."""
    classes = np.unique(y)
    if _last_step(model).__module__.partition(".")[0] != "xgboost":
        return y, classes
    return np.searchsorted(classes, y), np.arange(len(classes))


def _last_step(model: Any) -> type:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return type(model)


def fit_one(model: Any, X: Any, y: NDArray[Any], sample_weight: Array | None) -> Any:
    """A fitted clone; weights reach the last step of a pipeline."""
    try:
        own = clone(model)
    except RuntimeError:  # CatBoost keeps a copy of the list `cat_features`, which `clone` refuses
        own = deepcopy(model)
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


def _check_folds(y: NDArray[Any], cv: int, labels: bool) -> None:
    """An error where there are too few rows for the folds."""
    most = len(y)
    if not 2 <= cv <= most:
        raise InputError(
            f"`cv` must be a number of folds, at least 2 and at most the {most:,} rows, a splitter "
            f'or "prefit", got {cv!r}.'
        )
    if not labels:
        return
    names, count = np.unique(y, return_counts=True)
    if count.min() < cv:
        raise InputError(
            f"The label {names[count.argmin()].tolist()!r} has {count.min()} rows, too few for "
            f"`cv={cv}` folds: pass a smaller `cv`, or more rows."
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
    rows = X if as_frame(X, "X") is not None else as_rows(X)
    if rows.shape in ((), (0,)):
        raise InputError(f"`X` must have one row per person, got {X!r}.")
    if len(rows.shape) != 1:  # a column of texts has no features to count
        validate_data(model, rows, reset=reset, skip_check_array=True)
    elif not reset and hasattr(model, "n_features_in_"):
        raise InputError(
            f"`X` must have {model.n_features_in_} columns, got one axis of {len(rows):,} values. "
            "Reshape your data: X.reshape(1, -1) is one row."
        )
    return rows


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


def tagged_as(tags: Any, estimator: Any) -> Any:
    """scikit-learn's tags of an estimator whose rows go to another one: it takes what that does."""
    if estimator is None:
        tags.input_tags.allow_nan = True
    elif not isinstance(estimator, str):
        inner = get_tags(estimator).input_tags
        tags.input_tags.allow_nan, tags.input_tags.sparse = inner.allow_nan, inner.sparse
    return tags


def has_text(X: Any) -> bool:
    """Whether rows are columns by name, and not all of them numbers."""
    if isinstance(X, Mapping):
        return _by_name(X)
    frame = as_frame(X, "X")
    if not isinstance(frame, nw.DataFrame):
        return False
    return any(not (d.is_numeric() or d == nw.Boolean) for d in frame.schema.values())
