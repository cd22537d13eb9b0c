"""Base models by name, and the choice among them by inner cross-validated log-loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from separatrix import datasets
from separatrix.errors import InputError, MissingExtraError
from separatrix.estimators.boosted import BoostedTrees
from separatrix.estimators.logistic import Logistic
from separatrix.estimators.matrices import ArrayModel
from separatrix.estimators.network import Network

__all__ = ["NAMES", "BaseChoice", "base_model_named", "choose_base", "from_arrays", "to_arrays"]

NAMES = {  # in words
    "trees": "boosted trees", "logistic": "logistic regression", "network": "network"
}  # fmt: skip
_OWN: dict[str, type[ArrayModel]] = {
    model.kind: model for model in (BoostedTrees, Logistic, Network)
}
_ROWS = 6_000  # rows that the choice looks at
_FOLDS, _WIDE = 3, 50  # two folds for tables of more columns, where a fit is dear
_SMALL = 1_500  # below so many rows: five folds, and no network
_FLOOR = 1e-6  # least probability in the log-loss: one wrong certainty must not decide


@dataclass(frozen=True)
class BaseChoice:
    """The base model with the smallest inner log-loss.

    Args:
        name: "trees", "logistic" or "network".
        model: it, not fitted.
        log_loss: mean inner log-loss of every candidate.
    """

    name: str
    model: Any = field(repr=False)
    log_loss: Mapping[str, float]

    def __str__(self) -> str:
        own = f"Base model: {_words(self.name)} (log-loss {self.log_loss[self.name]:.3f}"
        ranked = sorted(self.log_loss, key=self.log_loss.__getitem__)
        rest = [f"{_words(n)} {self.log_loss[n]:.3f}" for n in ranked if n != self.name]
        return f"{own}{'; ' if rest else ''}{', '.join(rest)})."


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


def choose_base(
    X: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    *,
    candidates: Sequence[str] | None = None,
    random_state: int = 0,
) -> BaseChoice:
    """The best of boosted trees, logistic regression and the network on these rows.

    Judged by the mean log-loss on folds that are stratified on label and group, of at most 6,000
    rows. All candidates have the same folds.

    Args:
        X: the prepared matrix.
        y, z: labels and codes of the groups.
        candidates: names to choose from; by default trees, logistic and, where torch is installed
            and there are at least 1,500 rows, network.
        random_state: seed of the sample and of the folds.

    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    >>> y = (X[:, 0] + X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    >>> print(choose_base(X, y, z, candidates=["trees", "logistic"]))
    Base model: logistic regression (log-loss 0.585; boosted trees 0.590).
    """
    matrix, groups = np.asarray(X, dtype=np.float32), np.asarray(z)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    names = list(NAMES) if candidates is None else list(candidates)
    if candidates is None and (len(codes) < _SMALL or find_spec("torch") is None):
        names.remove("network")
    if not names:
        raise InputError("`candidates` is empty: name at least one base model.")
    models = {name: base_model_named(name) for name in names}
    some = _sample(codes, groups, random_state)
    matrix, codes, groups = matrix[some], codes[some], groups[some]
    losses = dict.fromkeys(names, 0.0)
    folds = _FOLDS if matrix.shape[1] <= _WIDE else 2
    if len(codes) < _SMALL:
        folds = min(5, len(codes))
    fold = datasets.folds(codes, groups, folds, random_state)
    for name, model in models.items():
        losses[name] = _loss(model, matrix, codes, fold, len(classes))
    best = min(names, key=losses.__getitem__)
    return BaseChoice(best, base_model_named(best), losses)


def _sample(y: NDArray[Any], z: NDArray[Any], random_state: int) -> NDArray[np.intp]:
    """At most 6,000 rows, with the shares of each label and group."""
    if len(y) <= _ROWS:
        return np.arange(len(y))
    parts = datasets.folds(y, z, -(-len(y) // 100), random_state)  # about 100 rows each
    return np.flatnonzero(parts < _ROWS // 100)


def _loss(
    model: Any, X: NDArray[Any], y: NDArray[np.intp], fold: NDArray[np.intp], n_labels: int
) -> float:
    """Mean log-loss of the rows, each predicted by a model that did not see its fold."""
    parts = [np.flatnonzero(fold != k) for k in range(fold.max() + 1)]
    whole = all(len(np.unique(y[rows])) == n_labels for rows in parts)
    if isinstance(model, Network) and whole:
        fitted: list[Any] = clone(model).fit_folds(X, y, parts)
    else:
        fitted = [clone(model).fit(X[rows], y[rows]) for rows in parts]
    q = np.zeros((len(y), n_labels))
    for k, one in enumerate(fitted):
        test = np.flatnonzero(fold == k)
        q[np.ix_(test, np.asarray(one.classes_))] = one.predict_proba(X[test])
    own = np.clip(q[np.arange(len(y)), y], _FLOOR, 1.0)
    return float(-np.log(own).mean())


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


def _words(name: str) -> str:
    return NAMES.get(name, name)
