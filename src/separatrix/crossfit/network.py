"""The method `erm` as a base model: a network trained without a penalty; needs torch to fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix import methods
from separatrix.crossfit.matrices import (
    ArrayModel,
    as_matrix,
    constant,
    standard,
    standardised,
)
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import Networks

__all__ = ["Network"]

Array = NDArray[np.float64]


class Network(ArrayModel):
    """A network of one or two hidden layers on standardised columns and their ramps.

    The `erm` of the benchmark takes at least 540 updates, which on 700 rows is far too many: its
    log-loss there is 4 where 60 to 100 updates have 0.3. Here the updates follow the rows.

    Args:
        random_state: seed of weights and batches.
    """

    kind: ClassVar[str] = "network"

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> Network:
        """Learn from numbers X and labels y."""
        return self.fit_folds(X, y, [None], sample_weight)[0]

    def fit_folds(
        self,
        X: Any,
        y: ArrayLike,
        rows: Sequence[NDArray[Any] | None],
        sample_weight: NDArray[Any] | None = None,
    ) -> list[Network]:
        """One network for each set of training rows (None: all), trained as one stack."""
        matrix, labels = as_matrix(X), np.asarray(y)
        classes, codes = np.unique(labels, return_inverse=True)
        mean, scale = standard(matrix)
        trained: Networks | None = None
        if len(classes) > 1:
            features = standardised(matrix, mean, scale)
            groups = np.zeros(len(codes), dtype=np.intp)  # the groups are columns of X, if at all
            sample = Sample(features, codes, groups, len(classes), 1, sample_weight)
            lanes = [Lane(0.0, own, self.random_state) for own in rows]
            size = min(len(codes) if own is None else len(own) for own in rows)
            fitted = methods.fit("erm", sample, lanes, recipe=_recipe(size), use_sensitive=False)
            assert isinstance(fitted, Networks)
            if set(fitted.status) != {"ok"}:
                raise InputError("The training of the network diverged. Use another base model.")
            trained = fitted.unscaled(mean, scale)
        out = []
        for i in range(len(rows)):
            model = Network(self.random_state)
            model.classes_, model.n_features_in_, model.mean_ = classes, matrix.shape[1], mean
            model.networks_ = None if trained is None else trained[[i]]
            out.append(model)
        self.__dict__.update(out[0].__dict__)
        return [self, *out[1:]]

    def predict_proba(self, X: Any) -> Array:
        """P(Y | x), columns as in `classes_`."""
        rows = as_matrix(X, self.n_features_in_)
        if self.networks_ is None:
            return constant(len(rows))
        known = np.where(np.isnan(rows), self.mean_, rows)
        q = self.networks_.posteriors(known)[0].astype(np.float64)
        return np.asarray(q / q.sum(1, keepdims=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        own = {} if self.networks_ is None else self.networks_.arrays()
        return own | {"mean": self.mean_}

    def _set(self, arrays: Mapping[str, NDArray[Any]]) -> int:
        self.mean_ = arrays["mean"]
        self.n_features_in_ = len(self.mean_)
        self.networks_ = Networks.restore(arrays) if "weight_0" in arrays else None
        return 1 if self.networks_ is None else self.networks_.weights[-1].shape[2]


def _recipe(rows: int) -> Recipe:
    """About eight epochs, at least 100 updates; few rows get a smaller network and batches."""
    common: dict[str, Any] = {
        "epochs": 8, "min_steps": 100, "learning_rate": 3e-3, "cosine": True, "piecewise_linear": 8
    }  # fmt: skip
    if rows < 1_500:
        return Recipe(hidden=(32,), batch=128, **(common | {"piecewise_linear": 0}))
    return Recipe(**common)
