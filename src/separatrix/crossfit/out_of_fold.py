"""Any model as a source of honest scores, and the one model that carries the rule.

The model is fitted once without each fold, whose rows it then scores: a rule fitted to these
out-of-fold scores corrects the errors that unseen rows will show. The same model, refitted on all
rows, scores new rows. That makes cv + 1 fits. To ship an ensemble, pass one as the classifier, such
as scikit-learn's `VotingClassifier`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import _safe_indexing, check_random_state

from separatrix import datasets
from separatrix.columns.frames import as_frame, column_names
from separatrix.columns.values import check_lengths, encode, listed
from separatrix.core.numerics import stratified_folds
from separatrix.crossfit.array_models import BoostedTrees
from separatrix.crossfit.base_models import (
    JointModel,
    by_name,
    fit_one,
    has_text,
    last_step,
    scores_of,
    with_group,
    without_categories,
    without_columns,
)
from separatrix.datasets import Preprocessing
from separatrix.errors import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]  # rows to fit on, rows to score
PRECOMPUTED = "precomputed"  # X is the scores themselves


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


@dataclass(frozen=True, eq=False)
class NestedScores:
    """What every model says about rows that it did not see.

    Args:
        fold: of each row, (n,).
        inner: (n, F, ...). [r, i] is the score of r as a training row of outer fold i; [r, fold(r)]
            is its score as a test row.
        honest: (n, ...), the scores of the procedure on all rows, by M(fold(r)). The same as those
            of the test rows, unless the choice of base models differs between folds.
        bases: the name of the base model of each outer fold, and last of all rows.
    """

    fold: Rows
    inner: Array = field(repr=False)
    honest: Array = field(repr=False)
    bases: tuple[str, ...] = ()

    @classmethod
    def from_out_of_fold(cls, fold: Rows, scores: Array) -> NestedScores:
        """One score per row, by a model that did not see it, in every outer fold.

        A rule of the other folds that decides the rows of a fold knows nothing of them, and neither
        does the model behind their scores.
        """
        code = np.unique(fold, return_inverse=True)[1]  # of the folds that have rows
        inner = np.broadcast_to(scores[:, None], (len(code), int(code.max()) + 1, *scores.shape[1:]))
        return cls(code, inner, scores)

    @property
    def folds(self) -> range:
        """The outer folds."""
        return range(self.inner.shape[1])

    def training(self, k: int | None) -> tuple[Rows, Array]:
        """Rows and honest scores that the rule of outer fold k is fitted to; None: all."""
        if k is None:
            return np.arange(len(self.fold)), self.honest
        rows = np.flatnonzero(self.fold != k)
        return rows, self.inner[rows, k]

    def tested(self, k: int) -> tuple[Rows, Array]:
        """Rows of outer fold k and their scores by the model that did not see them."""
        rows = np.flatnonzero(self.fold == k)
        return rows, self.inner[rows, k]


def cross_fit(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    z: Rows,
    reads: str = "x",
    *,
    group_estimator: Any = None,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    random_state: Any = 0,
    sample_weight: Array | None = None,
    n_jobs: int | None = None,
    left_out: tuple[int, ...] = (),
) -> CrossFit:
    """Scores of every row by models that did not see it, and the model of all rows.

    Args:
        estimator: a classifier with `predict_proba`, or a regressor; None for boosted trees;
            "precomputed" if X is what models said about rows that they did not see.
        X: rows as the model takes them.
        y, z: labels or numbers, and codes of the groups. Folds are stratified on both.
        reads: "x"; "xz", for one 0/1 column per group in front of a matrix; "joint", for
            q(y, z | x); "value", for numbers y.
        group_estimator: of "joint": the classifier for P(z | x); None for the kind of `estimator`.
        cv: number of folds; a splitter; an iterable of (train, test); "prefit" if `estimator` is
            fitted already and did not see these rows.
        groups: for a splitter such as `GroupKFold`.
        random_state: seed of the folds.
        sample_weight: weight of each row, passed on to the model.
        n_jobs: how many fits at a time, see joblib.
        left_out: places of columns that the model does not see.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 1)) + y[:, None]
    >>> fitted = cross_fit(LogisticRegression(), X, y, z, cv=4)
    >>> fitted.scores.shape, fitted.model.predict_proba(X[:3]).shape
    ((200, 2), (3, 2))
    """
    classes = np.unique(y)
    shape = (len(classes), int(z.max()) + 1)
    if is_given(estimator, cv, "regressor" if reads == "value" else "classifier"):
        model = None if isinstance(estimator, str) else estimator
        if reads == "joint" and not isinstance(model, JointModel | None):
            got = type(estimator).__name__
            raise InputError(f'`cv="prefit"` with `blind=True` needs a fitted `JointModel`, got {got}.')
        return CrossFit(model, _scored(model, X, reads, classes, shape), reads)
    splits = splits_of(cv, y, z, groups, random_state, labels=reads != "value")
    if left_out:
        names = column_names(X, "X") if by_name(X) or as_frame(X, "X") is not None else []
        estimator = without_categories(estimator, [names[i] for i in left_out if names])
        X = without_columns(X, left_out)
    model, preprocessing = default_model(estimator, X, reads)
    rows = X if preprocessing is None else preprocessing.transform(X)
    if reads == "xz":
        rows = with_group(rows, z, shape[1])
    if type(last_step(model)[1]).__module__.partition(".")[0] == "xgboost" and reads != "value":
        y, classes = np.searchsorted(classes, y), np.arange(len(classes))  # it takes codes only

    def fitted(places: Rows | None = None) -> Any:
        some, chosen = (rows, slice(None)) if places is None else (_safe_indexing(rows, places), places)
        weight = None if sample_weight is None else sample_weight[chosen]
        if reads == "joint":
            return JointModel(model, group_estimator).fit(some, y[chosen], z[chosen], weight)
        return fit_one(model, some, y[chosen], weight)

    def scored(train: Rows, test: Rows) -> Array:
        return _scored(fitted(train), _safe_indexing(rows, test), reads, classes, shape)

    jobs = [joblib.delayed(scored)(*split) for split in splits]
    *each, whole = joblib.Parallel(n_jobs)([*jobs, joblib.delayed(fitted)()])
    scores = np.zeros((len(y), *each[0].shape[1:]))
    for (_, test), of_fold in zip(splits, each, strict=True):
        scores[test] = of_fold
    return CrossFit(whole, scores, reads, preprocessing, () if preprocessing else left_out)


def _scored(model: Any, X: Any, reads: str, classes: NDArray[Any], shape: tuple[int, int]) -> Array:
    """What a fitted model says about rows; a classifier must know all labels."""
    known = np.asarray(getattr(model, "classes_", classes))
    if reads in ("x", "xz") and not np.array_equal(known, classes):
        labels = f"{listed(known.tolist())}, `y` has {listed(classes.tolist())}"
        raise InputError(f"The classifier knows the labels {labels}: both must be the same.")
    return scores_of(model, X, reads, shape)


def splits_of(
    cv: Any, y: NDArray[Any], z: Rows, groups: ArrayLike | None = None, random_state: Any = 0, *, labels: bool = True
) -> list[Split]:
    """The rows to fit on and to score of every fold; every row is scored exactly once.

    Args:
        cv: number of folds, stratified on labels and groups; a splitter; an iterable.
        y, z: outcomes, and codes of the sensitive groups.
        groups: who each row is about: one fold each; also for a splitter such as `GroupKFold`.
        random_state: seed of a number of folds.
        labels: whether y holds labels, each of which every fold must know.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool) and 2 <= cv <= len(y):
        cell = z
        if labels:
            names, code, count = np.unique(y, return_inverse=True, return_counts=True)
            if count.min() < cv:
                rarest = f"The label {names[count.argmin()].tolist()!r} has {count.min()} rows"
                raise InputError(f"{rarest}, too few for `cv={cv}` folds: pass a smaller `cv`, or more rows.")
            cell = code * (int(z.max()) + 1) + z
        who = None if groups is None else encode(groups, "groups").codes
        check_lengths({"y": y} if who is None else {"y": y, "groups": who})
        fold = stratified_folds(cell, int(cv), seed_from(random_state), who)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(cv))]
    try:
        known = hasattr(cv, "split") and not isinstance(cv, str | bytes)
        pairs = cv.split(np.zeros((len(y), 1)), y, groups) if known else cv
        splits = [(np.asarray(a, dtype=np.intp), np.asarray(b, dtype=np.intp)) for a, b in pairs]
    except (TypeError, ValueError) as error:
        folds = f"a number of folds, at least 2 and at most the {len(y):,} rows"
        other = 'a splitter, an iterable of (train, test) rows or "prefit"'
        raise InputError(f"`cv` must be {folds}, {other}, got {cv!r} ({error}).") from error
    tested = [np.zeros(0, dtype=np.intp), *(test for _, test in splits)]
    scored = np.bincount(np.concatenate(tested), minlength=len(y))
    if len(scored) != len(y) or (scored != 1).any():
        wrong = f"{np.count_nonzero(scored != 1):,} of {len(y):,} rows are not"
        raise InputError(f"Every row must be in the test rows of exactly one split of `cv`; {wrong}.")
    return splits


def seed_from(random_state: Any) -> int:
    """A seed from what `check_random_state` takes: None is fresh, a RandomState is drawn from."""
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        wanted = "a whole number from 0 on, None or a RandomState"
        raise InputError(f"`random_state` must be {wanted}, got {random_state!r}.") from error


def is_given(estimator: Any, cv: Any, kind: str = "classifier") -> bool:
    """Whether nothing is to be fitted: X is the scores, or the model is used as it is."""
    if isinstance(estimator, str):
        if estimator != PRECOMPUTED:
            raise InputError(f"`estimator` must be a {kind}, None or {PRECOMPUTED!r}, got {estimator!r}.")
        return True
    prefit = isinstance(cv, str) and cv == "prefit"
    if prefit and estimator is None:
        raise InputError('`cv="prefit"` needs a fitted `estimator`, got None.')
    return prefit or type(estimator).__name__ == "FrozenEstimator"


def default_model(estimator: Any, X: Any, reads: str = "x") -> tuple[Any, Preprocessing | None]:
    """The model to clone, and the preprocessing that it needs.

    The default is boosted trees. They take a matrix of numbers as it is, missing values included;
    a frame with other columns is prepared by `datasets.plan`.
    """
    if estimator is not None:
        return estimator, None
    trees = HistGradientBoostingRegressor(random_state=0) if reads == "value" else BoostedTrees()
    return trees, datasets.plan(X).fit(X) if has_text(X) else None
