"""Base models that are nothing but arrays when fitted.

Boosted trees, logistic regression and a network take a matrix of numbers in which NaN is a missing
value.

Boosted trees are fast on one-hot columns. scikit-learn's histogram boosting costs as much for a 0/1
column as for any other; one-hot columns exclude each other, so they are joined into one column of
codes first: Adult's 108 columns become 14, with the same log-loss in a fifth of the time.
Prediction runs through scikit-learn's own compiled loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from separatrix import methods
from separatrix.crossfit.compiled import sound_predictor
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import Networks

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]
_BINS = 127
_RIDGE = 0.3  # inverse strength of the penalty of logistic regression
_WIDE, _MANY = 50, 1_000_000  # columns, and cells, from which fewer and larger steps are taken
_THREADS = 8_000_000  # cells from which threads are worth their start
_NODE = {  # what prediction reads of a node
    "value": np.float64, "feature_idx": np.int64, "num_threshold": np.float64,
    "missing_go_to_left": np.uint8, "left": np.int64, "right": np.int64, "is_leaf": np.uint8,
}  # fmt: skip


class ArrayModel(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that is nothing but arrays when fitted."""

    kind: ClassVar[str]

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""

    @abstractmethod
    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        """The inverse of `arrays`, checked; gives the number of labels."""

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], classes: ArrayLike | None = None) -> Self:
        """The model that `arrays` described; `classes` are the labels, by default 0, 1, …"""
        model = cls()
        n_labels = model._set(arrays)
        model.classes_ = np.arange(n_labels) if classes is None else np.asarray(classes)
        if model.classes_.shape != (n_labels,):
            raise InputError(f"`classes` must name the {n_labels} labels of this model, got {classes!r}.")
        return model

    @abstractmethod
    def _proba(self, rows: Matrix) -> Array:
        """P(Y | x) of a model that knows at least two labels."""

    def predict_proba(self, X: Any) -> Array:
        """P(Y | x), columns as in `classes_`."""
        rows = as_matrix(X, self.n_features_in_)
        return self._proba(rows) if len(self.classes_) > 1 else np.ones((len(rows), 1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return labels


class Logistic(ArrayModel):
    """Logistic regression; columns are standardised, a missing value takes its column's mean.

    >>> X = np.array([[0.0], [1.0], [2.0], [np.nan]]); y = ["no", "no", "yes", "yes"]
    >>> Logistic().fit(X, y).predict([[-1.0], [5.0]]).tolist()
    ['no', 'yes']
    """

    kind: ClassVar[str] = "logistic"

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> Logistic:
        """Learn from numbers X and labels y."""
        rows, labels = as_matrix(X), np.asarray(y)
        self.classes_, self.n_features_in_ = np.unique(labels), rows.shape[1]
        mean, scale = _standard(rows)
        self.mean_ = mean
        if len(self.classes_) < 2:
            self.weight_, self.bias_ = np.zeros((rows.shape[1], 1)), np.zeros(1)
            return self
        # few steps of a second-order method; lbfgs where the Hessian would be large
        solver = "newton-cholesky" if rows.shape[1] * len(self.classes_) <= 200 else "lbfgs"
        model = LogisticRegression(C=_RIDGE, solver=solver, max_iter=2_000)
        model.fit(_standardised(rows, mean, scale), labels, sample_weight)
        weight = model.coef_.T / scale[:, None]
        self.weight_, self.bias_ = weight, model.intercept_ - mean @ weight
        if len(self.classes_) == 2:
            self.weight_, self.bias_ = np.hstack([np.zeros_like(weight), weight]), np.append(0.0, self.bias_)
        return self

    def _proba(self, rows: Matrix) -> Array:
        known = np.where(np.isnan(rows), self.mean_, rows)
        return np.asarray(softmax(known @ self.weight_ + self.bias_, axis=1))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        return {"weight": self.weight_, "bias": self.bias_, "mean": self.mean_}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.weight_, self.bias_, self.mean_ = (arrays[k] for k in ("weight", "bias", "mean"))
        self.n_features_in_, n_labels = self.weight_.shape
        if self.mean_.shape != (self.n_features_in_,) or self.bias_.shape != (n_labels,):
            raise InputError(f"The arrays of this logistic regression are damaged: weights {self.weight_.shape}.")
        return n_labels


class Network(ArrayModel):
    """A network of one or two hidden layers on standardised columns and their ramps.

    The `erm` of the benchmark takes at least 540 updates, which on 700 rows is far too many: its
    log-loss there is 4 where 60 to 100 updates have 0.3. Here the updates follow the rows.
    """

    kind: ClassVar[str] = "network"

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> Network:
        """Learn from numbers X and labels y."""
        return self.fit_folds(X, y, [None], sample_weight)[0]

    def fit_folds(
        self, X: Any, y: ArrayLike, rows: Sequence[NDArray[Any] | None], sample_weight: NDArray[Any] | None = None
    ) -> list[Network]:
        """One network for each set of training rows (None: all), trained as one stack."""
        matrix, labels = as_matrix(X), np.asarray(y)
        classes, codes = np.unique(labels, return_inverse=True)
        mean, scale = _standard(matrix)
        trained: Networks | None = None
        if len(classes) > 1:
            features = _standardised(matrix, mean, scale)
            groups = np.zeros(len(codes), dtype=np.intp)  # the groups are columns of X, if at all
            sample = Sample(features, codes, groups, len(classes), 1, sample_weight)
            lanes = [Lane(0.0, training_rows, 0) for training_rows in rows]
            size = min(len(codes) if training_rows is None else len(training_rows) for training_rows in rows)
            fitted = methods.fit("erm", sample, lanes, recipe=_recipe(size), use_sensitive=False)
            assert isinstance(fitted, Networks)
            if set(fitted.status) != {"ok"}:
                raise InputError("The training of the network diverged. Use another base model.")
            trained = fitted.unscaled(mean, scale)
        out = [self, *(Network() for _ in rows[1:])]
        for i, model in enumerate(out):
            model.classes_, model.n_features_in_, model.mean_ = classes, matrix.shape[1], mean
            model.networks_ = None if trained is None else trained[[i]]
        return out

    def _proba(self, rows: Matrix) -> Array:
        assert self.networks_ is not None
        known = np.where(np.isnan(rows), self.mean_, rows)
        q = self.networks_.posteriors(known)[0].astype(np.float64)
        return np.asarray(q / q.sum(1, keepdims=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        networks = {} if self.networks_ is None else self.networks_.arrays()
        return networks | {"mean": self.mean_}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.mean_ = arrays["mean"]
        self.n_features_in_ = len(self.mean_)
        self.networks_ = Networks.restore(arrays) if "weight_0" in arrays else None
        return 1 if self.networks_ is None else self.networks_.weights[-1].shape[2]


def as_matrix(X: Any, columns: int | None = None) -> Matrix:
    """A matrix of floats; NaN is a missing value, an infinite one is refused."""
    rows = np.asarray(X)
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if rows.ndim != 2 or columns not in (None, rows.shape[1]):
        wanted = "its columns" if columns is None else f"{columns} columns"
        raise InputError(f"`X` must be a matrix with {wanted}, got shape {rows.shape}.")
    if np.isinf(rows).any():
        row = int(np.flatnonzero(np.isinf(rows).any(1))[0])
        raise InputError(f"`X` holds an infinite value in row {row:,}. Replace it, or make it missing (NaN).")
    return rows


def _standard(rows: Matrix) -> tuple[Array, Array]:
    """Mean and spread of each column over its known values; 0 and 1 for 0/1 columns.

    Scaled by its spread, a rare level would weigh as much as a frequent one.
    """
    known = ~np.isnan(rows)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, rows, 0.0).sum(0, dtype=np.float64) / count
    spread = np.sqrt(np.where(known, (rows - mean) ** 2, 0.0).sum(0) / count)
    flat = spread <= 1e-6 * np.maximum(1.0, np.abs(mean))
    binary = ((rows == 0) | (rows == 1) | ~known).all(0)
    return np.where(binary, 0.0, mean), np.where(flat | binary, 1.0, spread)


def _standardised(rows: Matrix, mean: Array, scale: Array) -> Array:
    """Columns of mean 0 and spread 1; a missing value is 0."""
    return np.where(np.isnan(rows), 0.0, (rows - mean) / scale)


def _recipe(rows: int) -> Recipe:
    """About eight epochs, at least 100 updates; few rows get a smaller network and batches."""
    size: dict[str, Any] = {"hidden": (32,), "batch": 128} if rows < 1_500 else {"piecewise_linear": 8}
    return Recipe(epochs=8, min_steps=100, learning_rate=3e-3, cosine=True, **size)


class BoostedTrees(ArrayModel):
    """Gradient boosting whose size follows from the number of rows.

    Small tables get small trees, few of them, and stronger shrinkage: see `_settings`.
    Missing values (NaN) are allowed.

    Attributes:
        classes_: the labels.
        bundle_, code_: of each column of X: the column of the trees' matrix that it belongs to, and
            its code there.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)); y = (X[:, 0] > 0).astype(int)
    >>> model = BoostedTrees().fit(X, y)
    >>> bool((model.predict(X) == y).mean() > 0.95)
    True
    >>> again = BoostedTrees.restore(model.arrays())
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """

    kind: ClassVar[str] = "boosted_trees"

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> BoostedTrees:
        """Learn from numbers X and labels y."""
        rows, labels = as_matrix(X), np.asarray(y)
        self.classes_, self.n_features_in_ = np.unique(labels), rows.shape[1]
        self.bundle_, self.code_ = _bundles(rows)
        if len(self.classes_) < 2:
            self.baseline_, self.trees_ = np.zeros(1), []
            return self
        joined = self._joined(rows)
        joined[:, np.isnan(joined).all(0)] = 0.0  # scikit-learn cannot bin what is never known
        settings = _settings(*joined.shape)
        model = HistGradientBoostingClassifier(**settings, max_bins=_BINS, early_stopping=False, random_state=0)
        few = joined.size < _THREADS
        with threadpool_limits(1, "openmp") if few else nullcontext():
            model.fit(joined, labels, sample_weight)
        self.baseline_ = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
        self.trees_ = [tree for step in model._predictors for tree in step]
        return self

    def _proba(self, rows: Matrix) -> Array:
        joined = self._joined(rows)
        k = len(self.baseline_)
        logits = np.tile(self.baseline_, (len(rows), 1))
        none, columns = np.zeros((0, 8), np.uint32), np.zeros(0, np.uint32)
        for i, tree in enumerate(self.trees_):
            logits[:, i % k] += tree.predict(joined, none, columns, 1)
        logits = np.hstack([np.zeros_like(logits), logits]) if k == 1 else logits
        return np.asarray(softmax(logits, axis=1))

    def _joined(self, rows: Matrix) -> Array:
        first = np.searchsorted(self.bundle_, np.arange(self.bundle_.max(initial=-1) + 2))
        out = np.asarray(rows[:, first[:-1]], dtype=np.float64)
        for column in np.flatnonzero(np.diff(first) > 1):
            mine = slice(first[column], first[column + 1])  # a bundle is a run of columns
            out[:, column] = (rows[:, mine] * self.code_[mine]).max(1)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        nodes = [tree.nodes for tree in self.trees_]
        every = np.concatenate(nodes) if nodes else np.zeros(0, PREDICTOR_RECORD_DTYPE)
        named = {f"node_{field}": every[field].astype(kind) for field, kind in _NODE.items()}
        sizes = np.array([len(nodes_of_tree) for nodes_of_tree in nodes], dtype=np.int64)
        named |= {"sizes": sizes, "baseline": self.baseline_, "code": self.code_}
        return named | {"bundle": self.bundle_, "n_labels": np.array(len(self.classes_))}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.bundle_, self.code_ = arrays["bundle"], arrays["code"]
        self.n_features_in_, self.baseline_ = len(self.bundle_), arrays["baseline"]
        n_labels = int(arrays["n_labels"])
        _check_arrays(arrays, n_labels)
        every = np.zeros(len(arrays["node_value"]), dtype=PREDICTOR_RECORD_DTYPE)
        for field in _NODE:
            every[field] = arrays[f"node_{field}"]
        nodes = np.split(every, np.cumsum(arrays["sizes"])[:-1]) if len(every) else []
        none = np.zeros((0, 8), np.uint32)
        self.trees_ = [TreePredictor(np.ascontiguousarray(each), none, none) for each in nodes]
        numeric = np.zeros(self.bundle_.max(initial=-1) + 1, dtype=bool)
        if not all(sound_predictor(tree, numeric) for tree in self.trees_):
            raise InputError("The arrays of these boosted trees are damaged: a node leads nowhere.")
        return n_labels


def _check_arrays(arrays: Mapping[str, NDArray[Any]], n_labels: int) -> None:
    """Refuse arrays that are not those of one model: shapes, sizes, bundles, numbers."""
    nodes = [arrays[f"node_{field}"] for field in _NODE]
    bundle, sizes, baseline = arrays["bundle"], arrays["sizes"], arrays["baseline"]
    steps = np.diff(bundle, prepend=-1)
    whole = (
        all(array.ndim == 1 for array in (*nodes, bundle, sizes, baseline, arrays["code"]))
        and len({len(array) for array in nodes}) == 1
        and {bundle.dtype.kind, sizes.dtype.kind} <= {"i"}
        and len(arrays["code"]) == len(bundle)
        and bool((sizes > 0).all())
        and int(sizes.sum()) == len(nodes[0])
        # bundles are runs of columns, numbered without a gap
        and bool(((steps == 0) | (steps == 1)).all() and (bundle[:1] == 0).all())
        and len(baseline) == (n_labels if n_labels > 2 else 1)
        and len(sizes) % len(baseline) == 0
        and bool(np.isfinite(baseline).all() and np.isfinite(arrays["node_value"]).all())
    )
    if not whole:
        raise InputError("The arrays of these boosted trees are damaged: their sizes disagree.")


def _bundles(X: Matrix) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Neighbouring 0/1 columns of which each row has at most one, joined."""
    bundle = np.zeros(X.shape[1], dtype=np.int64)
    code = np.zeros(X.shape[1], dtype=np.float32)
    taken = np.zeros(len(X), dtype=bool)  # the rows of the open bundle
    current, place, open_ = -1, 0, False
    binary = ((X == 0) | (X == 1)).all(0)
    for column in range(X.shape[1]):
        on = X[:, column] == 1 if binary[column] else taken
        if open_ and binary[column] and place < _BINS - 1 and not (taken & on).any():
            place, taken = place + 1, taken | on
        else:
            current, place, taken, open_ = current + 1, 1, on, bool(binary[column])
        bundle[column], code[column] = current, place
    return bundle, code


def _settings(rows: int, columns: int) -> dict[str, Any]:
    """Size of the boosting: small trees for few rows, fewer and larger steps for wide tables.

    Chosen by log-loss on simulated laws and on rows of Adult, Bank and COMPAS.
    """
    leaves = 4 if rows < 2_000 else 8 if rows < 8_000 else 31
    trees, rate = (50 if rows < 400 else 100), 0.1
    if rows >= 2_000 and (columns > _WIDE or rows * columns > _MANY):
        leaves, trees, rate = min(leaves, 12), 60, 0.2 if rows < 8_000 else 0.25
    return {"max_leaf_nodes": leaves, "max_iter": trees, "learning_rate": rate, "l2_regularization": 10.0}
