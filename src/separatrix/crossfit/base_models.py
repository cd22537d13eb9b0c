"""Base models: by name, fitted, saved as arrays, and what they say about a row.

A classifier says P(y | x), a regressor a number, and a `JointModel` q(y, z | x).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from separatrix.columns.scores import check_posteriors, quantity_column
from separatrix.crossfit.array_models import ArrayModel, Logistic, Network
from separatrix.crossfit.boosted import BoostedTrees
from separatrix.errors import InputError, MissingExtraError
from separatrix.optimum.rules import check_joint

__all__ = [
    "NAMES", "JointModel", "base_model_named", "fit_one", "from_arrays", "last_step", "posteriors",
    "scores_of", "to_arrays", "without_categories",
]  # fmt: skip

Array = NDArray[np.float64]
_COLUMN = "separatrix_group_"  # names of the 0/1 columns in a frame

NAMES = {  # in words
    "trees": "boosted trees", "logistic": "logistic regression", "network": "network"
}  # fmt: skip
_OWN: dict[str, type[ArrayModel]] = {
    model.kind: model for model in (BoostedTrees, Logistic, Network)
}


def base_model_named(name: str) -> Any:
    """A classifier that is not fitted yet: "trees", "logistic", "network" or "MODULE:CLASS".

    >>> base_model_named("trees")
    BoostedTrees()
    >>> base_model_named("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    if name == "trees":
        return BoostedTrees()
    if name == "logistic":
        return Logistic()
    if name == "network":
        if find_spec("torch") is None:
            raise MissingExtraError(
                "The base model 'network' needs torch: pip install 'separatrix[torch]'."
            )
        return Network()
    return _imported(name)


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise InputError(
            f"There is no base model {name!r}. Pass {', '.join(NAMES)} or MODULE:CLASS, such as "
            "sklearn.ensemble:RandomForestClassifier."
        )
    try:
        found = import_module(module)
    except ImportError as error:
        raise InputError(
            f"The module {module!r} of the base model {name!r} cannot be imported ({error}). Is it "
            "installed, and is its folder on PYTHONPATH?"
        ) from error
    if not hasattr(found, attribute):
        raise InputError(f"The module {module!r} has no class {attribute!r}.")
    kind = getattr(found, attribute)
    if not callable(kind):
        raise InputError(f"{name!r} is no class: it cannot be called.")
    try:
        model = kind()
    except TypeError as error:
        raise InputError(
            f"{name!r} cannot be called without arguments ({error}). Write a class or a function "
            "that needs none."
        ) from error
    for method in ("fit", "predict_proba"):
        if not hasattr(model, method):
            raise InputError(
                f"{name!r} has no `{method}`: a base model needs `fit` and `predict_proba`. "
                "sklearn.calibration.CalibratedClassifierCV makes probabilities."
            )
    return model


def to_arrays(model: Any) -> dict[str, NDArray[Any]] | None:
    """A fitted base model as arrays with names; None for models of other libraries (use skops)."""
    return model.arrays() if isinstance(model, ArrayModel) else None


def from_arrays(
    kind: str, arrays: Mapping[str, NDArray[Any]], classes: ArrayLike | None = None
) -> Any:
    """The model whose `kind` and `to_arrays` these are; `classes` are the labels, else 0, 1, …

    >>> model = Logistic().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> from_arrays(model.kind, to_arrays(model), ["a", "b"]).predict([[0.0], [3.0]]).tolist()
    ['a', 'b']
    """
    if kind not in _OWN:
        raise InputError(f"There is no base model of kind {kind!r}; known are {', '.join(_OWN)}.")
    return _OWN[kind].restore(arrays, classes)


def fit_one(model: Any, X: Any, y: NDArray[Any], sample_weight: Array | None) -> Any:
    """A fitted clone; weights reach the last step of a pipeline."""
    fitted = _cloned(model)
    if sample_weight is None:
        return fitted.fit(X, y)
    prefix, last = last_step(fitted)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"{type(last).__name__} takes no `sample_weight`: fit without weights, or use another "
            "`estimator`."
        )
    return fitted.fit(X, y, **{f"{prefix}sample_weight": sample_weight})


def _cloned(model: Any) -> Any:
    try:
        return clone(model)
    except RuntimeError:  # CatBoost keeps a copy of the list `cat_features`, which `clone` refuses
        return deepcopy(model)


def without_categories(model: Any, names: Collection[str]) -> Any:
    """The model, no longer told that columns of these names are categories.

    CatBoost and others look for every column of `cat_features` in X.
    """
    if isinstance(model, Pipeline) or not hasattr(model, "get_params"):
        return model
    shorter = {
        option: [column for column in value if column not in names]
        for option, value in model.get_params(deep=False).items()
        if "cat" in option and isinstance(value, list | tuple) and {*names}.intersection(value)
    }
    return _cloned(model).set_params(**shorter) if shorter else model


def last_step(model: Any) -> tuple[str, Any]:
    """What a pipeline puts before a parameter of its last step, and that step; "" for others."""
    prefix = ""
    while isinstance(model, Pipeline):
        name, model = model.steps[-1]
        prefix += f"{name}__"
    return prefix, model


def scores_of(model: Any, X: Any, reads: str, shape: tuple[int, int]) -> Array:
    """What a base model says about rows.

    Args:
        model: fitted; None where X is the scores themselves.
        X: rows as it takes them.
        reads: "x", "xz", "joint" or "value", see `cross_fit`.
        shape: how many labels and groups there are.

    Returns:
        P(y | x) (n, labels), q(y, z | x) (n, labels, groups), or numbers (n,).
    """
    if reads == "value":
        return quantity_column(X, "X") if model is None else _predictions(model, X)
    if reads == "joint":
        return check_joint(X, shape) if model is None else np.asarray(model.joint_proba(X, shape))
    return _as_posteriors(X, shape[0]) if model is None else posteriors(model, X, shape[0])


def posteriors(model: Any, X: Any, n_labels: int) -> Array:
    """P(Y | x) (n, K) of a classifier; one that was fitted to codes may lack rare ones."""
    if not hasattr(model, "predict_proba"):
        raise InputError(
            f"{type(model).__name__} has no `predict_proba`: a rule needs probabilities. Wrap it "
            "in sklearn.calibration.CalibratedClassifierCV, or pass another `estimator`."
        )
    q = np.asarray(model.predict_proba(X), dtype=np.float64)
    if q.shape[1] < n_labels:
        known, q = q, np.zeros((len(q), n_labels))
        q[:, np.asarray(model.classes_, dtype=np.intp)] = known
    return q / q.sum(1, keepdims=True)  # single precision sums to one only within 1e-7


def _as_posteriors(X: Any, n_labels: int) -> Array:
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
    if q.ndim != 2 or q.shape[1] != n_labels:
        raise InputError(
            f"`X` must be probabilities, in {n_labels} columns, got shape {np.shape(X)}."
        )
    return check_posteriors(q, "X")


def _predictions(model: Any, X: Any) -> Array:
    """One finite number per row."""
    if hasattr(model, "predict_proba"):
        raise InputError(
            f"{type(model).__name__} is a classifier: a numeric outcome needs a regressor, such "
            "as sklearn.ensemble.HistGradientBoostingRegressor."
        )
    return quantity_column(np.ravel(model.predict(X)), "predictions")


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
        label_model = BoostedTrees() if self.label_model is None else self.label_model
        group_model = label_model if self.group_model is None else self.group_model
        self.group_model_ = fit_one(group_model, X, code, sample_weight)
        self.label_model_ = fit_one(label_model, self._with_group(X, code), y, sample_weight)
        return self

    def joint_proba(self, X: Any, shape: tuple[int, int] | None = None) -> Array:
        """q(y, z | x), array (n, labels, groups).

        Args:
            X: rows.
            shape: of all labels and groups; zero for those, fitted as codes, that it never saw.
        """
        check_is_fitted(self, "label_model_")
        count = len(self.groups_)
        of_z = posteriors(self.group_model_, X, count)
        joint = np.empty((len(of_z), len(self.classes_), count))
        for g in range(count):
            rows = self._with_group(X, np.full(len(of_z), g))
            joint[:, :, g] = posteriors(self.label_model_, rows, len(self.classes_))
        joint *= of_z[:, None, :]
        if shape in (None, joint.shape[1:]):
            return joint
        places = np.ix_(np.arange(len(joint)), *map(_codes, (self.classes_, self.groups_), shape))
        whole = np.zeros((len(joint), *shape))
        whole[places] = joint
        return whole

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


def _codes(levels: NDArray[Any], count: int) -> NDArray[np.intp]:
    """The places of a model's levels among all of them."""
    return np.arange(count) if len(levels) == count else np.asarray(levels, dtype=np.intp)
