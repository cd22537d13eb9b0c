"""Base models by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.crossfit.boosted import BoostedTrees
from separatrix.crossfit.logistic import Logistic
from separatrix.crossfit.matrices import ArrayModel
from separatrix.crossfit.network import Network
from separatrix.errors import InputError, MissingExtraError

__all__ = [
    "NAMES",
    "base_model_named",
    "from_arrays",
    "joint_posteriors",
    "posteriors",
    "to_arrays",
]

Array = NDArray[np.float64]

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


def posteriors(model: Any, X: Any, n_labels: int) -> Array:
    """P(Y | x) (n, K) of a classifier; one that was fitted to codes may lack rare ones."""
    q = np.asarray(model.predict_proba(X), dtype=np.float64)
    if q.shape[1] < n_labels:
        known, seen = q, np.asarray(model.classes_, dtype=np.intp)
        q = np.zeros((len(known), n_labels))
        q[:, seen] = known
    return q / q.sum(1, keepdims=True)  # single precision sums to one only within 1e-7


def joint_posteriors(model: Any, X: Any, shape: tuple[int, int]) -> Array:
    """P(y, z | x) (n, labels × groups) of a `JointModel`; fitted to codes it may lack rare ones."""
    q = model.joint_proba(X)
    if q.shape[1:] != shape:
        known = q
        labels, groups = (np.asarray(x, dtype=np.intp) for x in (model.classes_, model.groups_))
        q = np.zeros((len(known), *shape))
        q[np.ix_(np.arange(len(known)), labels, groups)] = known
    return np.asarray(q.reshape(len(q), -1))
