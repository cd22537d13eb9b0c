"""Base models by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError, MissingExtraError
from separatrix.estimators.boosted import BoostedTrees
from separatrix.estimators.logistic import Logistic
from separatrix.estimators.matrices import ArrayModel
from separatrix.estimators.network import Network

__all__ = ["NAMES", "base_model_named", "from_arrays", "to_arrays"]

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
