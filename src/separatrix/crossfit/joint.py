"""Who is it, and what will happen, from the features alone: q(y, z | x) = P(z | x) P(y | x, z).

Two classifiers: one for the group given the features, one for the label given the features and the
group. The second is fitted once, with the group as 0/1 columns, and asked about every group. A row
is therefore described without its group. One classifier of the pairs (y, z) has fewer rows for each
answer and does worse.
"""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from separatrix.crossfit.out_of_fold import (
    CrossFit,
    base_model,
    fit_one,
    is_precomputed,
    known_labels,
    out_of_fold,
    some_posteriors_of,
    splits_of,
)
from separatrix.crossfit.sensitive_columns import without_columns
from separatrix.errors import InputError
from separatrix.optimum.rules import check_joint

__all__ = ["JointModel", "cross_fit_joint"]

Array = NDArray[np.float64]
_COLUMN = "separatrix_group_"  # names of the 0/1 columns in a frame


class JointModel(BaseEstimator):
    """q(y, z | x) from two classifiers.

    Args:
        label_model: a classifier with `predict_proba` for P(y | x, z); None for boosted trees.
        group_model: the same for P(z | x); None for the kind of `label_model`.

    Attributes:
        classes_, groups_: the labels and the groups, sorted.
        label_model_, group_model_: the fitted classifiers.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 500))
    >>> X = rng.normal(size=(500, 2)) + np.stack([2 * y, 3 * z], 1)
    >>> model = JointModel(LogisticRegression()).fit(X, y, z)
    >>> model.joint_proba([[2.0, 0.0], [0.0, 3.0]]).round(1).tolist()
    [[[0.1, 0.0], [0.9, 0.0]], [[0.0, 0.9], [0.0, 0.1]]]
    """

    def __init__(self, label_model: Any = None, group_model: Any = None) -> None:
        self.label_model = label_model
        self.group_model = group_model

    def fit(
        self, X: Any, y: NDArray[Any], z: NDArray[Any], sample_weight: Array | None = None
    ) -> JointModel:
        """Fit both classifiers.

        Args:
            X: a matrix of numbers, or rows as both classifiers take them.
            y, z: labels and groups, one per row; codes 0, 1, … of the groups where cross-fitted.
            sample_weight: weight of each row.
        """
        y, z = np.asarray(y), np.asarray(z)
        self.classes_, self.groups_ = np.unique(y), np.unique(z)
        code = np.searchsorted(self.groups_, z)
        own = self.label_model if self.group_model is None else self.group_model
        self.group_model_ = _fitted(own, X, code, sample_weight)
        self.label_model_ = _fitted(self.label_model, self._with_group(X, code), y, sample_weight)
        return self

    def joint_proba(self, X: Any) -> Array:
        """q(y, z | x), array (n, labels, groups)."""
        check_is_fitted(self, "label_model_")
        count = len(self.groups_)
        of_z = some_posteriors_of(self.group_model_, X, np.arange(count))
        joint = np.empty((len(of_z), len(self.classes_), count))
        for g in range(count):
            rows = self._with_group(X, np.full(len(of_z), g))
            joint[:, :, g] = some_posteriors_of(self.label_model_, rows, self.classes_)
        return joint * of_z[:, None, :]

    def _with_group(self, X: Any, code: NDArray[np.intp]) -> Any:
        """Rows with one 0/1 column per group behind the others."""
        each = np.eye(len(self.groups_))[code]
        if sparse.issparse(X):
            return sparse.hstack([X, each], format="csr")
        frame = nw.from_native(X, pass_through=True, eager_only=True)
        if isinstance(frame, nw.DataFrame):
            new = (
                nw.new_series(f"{_COLUMN}{g}", each[:, g], backend=frame.implementation)
                for g in range(each.shape[1])
            )
            return nw.concat(
                [frame, *(column.to_frame() for column in new)], how="horizontal"
            ).to_native()
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.dtype.kind not in "fiub":
            raise InputError(
                "Without the group at decision time the rows must be a matrix of numbers or a "
                f"frame, since the group is learned as further columns; got shape {rows.shape} of "
                f"{rows.dtype}."
            )
        return np.hstack([rows, each.astype(rows.dtype if rows.dtype.kind == "f" else float)])


def cross_fit_joint(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    z: NDArray[np.intp],
    *,
    group_estimator: Any = None,
    cv: Any = 5,
    groups: ArrayLike | None = None,
    random_state: Any = 0,
    sample_weight: Array | None = None,
    n_jobs: int | None = None,
    left_out: tuple[int, ...] = (),
) -> CrossFit:
    """q(y, z | x) of every row by joint models that did not see it; the scheme of `cross_fit`.

    Args:
        estimator: the classifier for P(y | x, z); None for the default base model; "precomputed"
            if X is q itself, array (n, labels, groups).
        X, y, z, cv, groups, random_state, sample_weight, n_jobs: as in `cross_fit`. With
            ``cv="prefit"`` the estimator is a fitted `JointModel` that did not see these rows.
        group_estimator: the classifier for P(z | x); None for the kind of `estimator`.
        left_out: places of columns that both classifiers do not see.
    """
    classes, count = np.unique(y), len(np.unique(z))
    if is_precomputed(estimator):
        return CrossFit(None, check_joint(X, (len(classes), count)), "joint")
    if isinstance(cv, str) and cv == "prefit":
        if not isinstance(estimator, JointModel):
            raise InputError(
                '`cv="prefit"` with `blind=True` needs a fitted `JointModel`, got '
                f"{type(estimator).__name__}."
            )
        return CrossFit(estimator, estimator.joint_proba(X), "joint")
    splits = splits_of(cv, X, y, z, groups, random_state)
    X = without_columns(X, left_out) if left_out else X
    model, preprocessing = base_model(estimator, X)
    y, classes = known_labels(model, y)
    rows = X if preprocessing is None else preprocessing.transform(X)

    whole, scores = out_of_fold(
        rows,
        splits,
        lambda some, w, at: JointModel(model, group_estimator).fit(some, y[at], z[at], w),
        lambda fitted, some: _of_all_groups(fitted, some, count),
        sample_weight,
        n_jobs,
    )
    places = () if preprocessing is not None else left_out
    return CrossFit(whole, scores, "joint", preprocessing, places)


def _of_all_groups(model: JointModel, rows: Any, count: int) -> Array:
    """q with zeros for the groups, by code, that a model never saw."""
    q = model.joint_proba(rows)
    found = np.zeros((*q.shape[:2], count))
    found[:, :, model.groups_] = q
    return found


def _fitted(model: Any, X: Any, target: NDArray[Any], weight: Array | None) -> Any:
    return fit_one(base_model(model, X)[0], X, target, weight)
