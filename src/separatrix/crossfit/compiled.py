"""What compiled prediction code reads without a look, looked at once after loading.

scikit-learn's trees, its boosting and libsvm use the places that a fitted model holds (children,
columns, support vectors) as they are: one beyond its array reads foreign memory, or ends the
process. `unsound` walks a loaded model and checks each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.generic)
_BITS = 256  # levels that a bitset of 8 words has room for


def unsound(model: Any) -> str | None:
    """What in a loaded model points outside of it, in words; None where nothing does."""
    owned: set[int] = set()
    for value in _walk(model):
        for kind, name, check in _CHECKS:
            if isinstance(value, kind) and (field := getattr(value, name, None)) is not None:
                try:
                    sound = check(value, field, owned)
                except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                    sound = False  # a part is missing or of another kind
                if not sound:
                    return f"a {type(value).__name__} that points outside of its arrays"
    for value in _walk(model):
        if isinstance(value, Tree | TreePredictor) and id(value) not in owned:
            return f"a {type(value).__name__} without an owner"
    return None


def _walk(model: Any) -> Iterator[Any]:
    """Every object in a model, once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, np.ndarray):
            if value.dtype == object:
                waiting += value.ravel().tolist()
        else:
            waiting += getattr(value, "__dict__", {}).values()
            for name in ("func", "args", "keywords", "__self__"):  # of partials and methods
                if not isinstance(value, type) and hasattr(type(value), name):
                    waiting.append(getattr(value, name))


def _sound_tree(model: BaseDecisionTree, tree: Any, owned: set[int]) -> bool:
    owned.add(id(tree))
    n, width = len(tree.children_left), model.n_features_in_
    inner = np.flatnonzero(tree.children_left != -1)
    children, feature = np.stack([tree.children_left, tree.children_right])[:, inner], tree.feature[inner]
    inside = (children > inner) & (children < n)  # children come later, so every path ends
    sizes = n > 0 and (tree.value.shape[0], tree.n_features) == (n, width)
    return sizes and bool(inside.all() and ((feature >= 0) & (feature < width)).all())


def _sound_forest(model: BaseForest | BaseGradientBoosting, estimators: Any, owned: set[int]) -> bool:
    """An ensemble looks at its rows once: its trees must have its columns and its outputs."""
    trees, width = np.ravel(np.asarray(estimators, dtype=object)).tolist(), model.n_features_in_
    if not all(isinstance(tree, BaseDecisionTree) and tree.n_features_in_ == width for tree in trees):
        return False
    if isinstance(model, BaseForest):
        return True
    outputs = model._loss.n_classes if model._loss.is_multiclass else 1
    sizes = model.n_trees_per_iteration_, estimators.shape[1:]
    return sizes == (outputs, (outputs,)) and all(tree.tree_.value.shape[1:] == (1, 1) for tree in trees)


def _sound_boosting(model: BaseHistGradientBoosting, predictors: Any, owned: set[int]) -> bool:
    mapper, features = model._bin_mapper, int(model.n_features_in_)
    categorical = np.asarray(mapper.is_categorical_)
    if categorical.shape != (features,) or not _sound_preprocessor(model, features):
        return False
    levels = np.concatenate([[0.0], *(mapper.bin_thresholds_[column] for column in np.flatnonzero(categorical))])
    trees = [tree for step in predictors for tree in step]
    owned.update(map(id, trees))
    inside = bool(((levels >= 0) & (levels < _BITS)).all())
    return inside and all(sound_predictor(tree, categorical != 0) for tree in trees)


def _sound_preprocessor(model: Any, features: int) -> bool:
    """Columns that are encoded on the way stay as many as the trees know."""
    encoder = getattr(model, "_preprocessor", None)
    if encoder is None:
        return True
    parts = [(transformer, np.asarray(columns)) for _, transformer, columns in encoder.transformers_]
    kinds = all(isinstance(transformer, OrdinalEncoder | FunctionTransformer) for transformer, _ in parts)
    masks = all(columns.dtype == bool and columns.shape == (features,) for _, columns in parts)
    return kinds and masks and bool((np.sum([columns for _, columns in parts], axis=0) == 1).all())


def sound_predictor(tree: TreePredictor, categorical: np.ndarray) -> bool:
    """Whether the nodes of a boosted tree point to nodes, columns and levels that are there."""
    nodes = tree.nodes
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes):
        return False
    leaf, children = nodes["is_leaf"] != 0, np.stack([nodes["left"], nodes["right"]])
    feature = np.where(leaf, 0, nodes["feature_idx"].astype(np.int64))
    inside = leaf | ((children > np.arange(len(nodes))) & (children < len(nodes))).all(0)
    if not (inside & (feature >= 0) & (feature < len(categorical))).all():
        return False
    by_level = ~leaf & (nodes["is_categorical"] != 0)
    bitsets = tree.raw_left_cat_bitsets, tree.binned_left_cat_bitsets
    sets = min(map(len, bitsets))
    levels = categorical[feature[by_level]] & (nodes["bitset_idx"][by_level] < sets)
    right_kind = all(bitset.dtype == np.uint32 and bitset.shape[1:] == (8,) for bitset in bitsets)
    return bool(levels.all()) and right_kind


def _sound_libsvm(model: BaseLibSVM, vectors: Any, owned: set[int]) -> bool:
    counts, support = np.asarray(model._n_support), np.asarray(model.support_)
    dual, n = model._dual_coef_, vectors.shape[0]
    by_class = model._impl in ("c_svc", "nu_svc")
    classes = len(counts) if by_class else 2
    pairs = classes * (classes - 1) // 2
    return bool(
        (support >= 0).all()
        and (support < model.shape_fit_[0]).all()
        and (counts >= 0).all()
        and {counts.dtype, support.dtype} == {np.dtype("i4")}
        and (counts.sum() == n or not by_class)
        and vectors.shape[1] in (model.n_features_in_, model.shape_fit_[0])
        and (support.shape, dual.shape) == ((n,), (classes - 1, n))
        and (not sparse.issparse(dual) or dual.nnz == (classes - 1) * n)
        and np.shape(model._intercept_) == (pairs,)
        and np.shape(model._probA) == np.shape(model._probB)
        and np.shape(model._probA) in ((0,), (pairs,))
    )


def _sound_sparse(matrix: Any, shape: Any, owned: set[int]) -> bool:
    matrix.check_format(full_check=True)  # other formats than rows and columns have none
    return True


# what is looked at, the part without which it is not fitted, and whether that part is sound
_CHECKS: list[tuple[Any, str, Callable[[Any, Any, set[int]], bool]]] = [
    (BaseDecisionTree, "tree_", _sound_tree),
    (BaseForest | BaseGradientBoosting, "estimators_", _sound_forest),
    (BaseHistGradientBoosting, "_predictors", _sound_boosting),
    (BaseLibSVM, "support_vectors_", _sound_libsvm),
    (sparse.sparray | sparse.spmatrix, "shape", _sound_sparse),
]
