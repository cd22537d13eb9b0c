"""Shared by the estimators: checked inputs, scaling, codes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from separatrix import datasets, methods
from separatrix.columns.draws import seed_of
from separatrix.crossfit.out_of_fold import check_labels, has_text
from separatrix.crossfit.sensitive_columns import SensitiveColumns
from separatrix.errors import InputError
from separatrix.methods import Recipe

__all__ = ["Array", "Base"]

Array = NDArray[np.float64]


class Base(SensitiveColumns, ClassifierMixin, BaseEstimator):
    """Checked inputs, scaling and codes of the estimators."""

    def _prepare(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp], Array | None]:
        """Scaled features and codes; sets `classes_`, `groups_`, `n_features_in_`."""
        self.preprocessing_ = datasets.plan(X).fit(X) if has_text(X) else None
        X, y = self._checked(X, y)
        check_labels(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        kept = slice(None) if weight is None else weight > 0  # rows of weight 0 are left out
        z = self._groups(sensitive_features, len(y), weight)
        X, y, weight = X[kept], y[kept], None if weight is None else weight[kept]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                "A classifier needs at least two classes; this data has 1 class, "
                f"{self.classes_[:1]}."
            )
        dense = X.toarray() if hasattr(X, "toarray") else X
        self.mean_, self.scale_ = np.zeros(dense.shape[1]), np.ones(dense.shape[1])
        if methods.get(self.method).standardise:
            self.mean_ = np.average(dense, axis=0, weights=weight)
            spread = np.sqrt(np.average((dense - self.mean_) ** 2, axis=0, weights=weight))
            least = 1e-12 * np.maximum(1.0, np.abs(self.mean_))
            self.scale_ = np.where(spread > least, spread, 1.0)
        return self._scaled(dense), codes.astype(np.intp), z, weight

    def _checked(self, X: Any, y: Any = "no_validation") -> Any:
        """A matrix of numbers, with `y` where given; text and categories become columns of it."""
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        fitting = not isinstance(y, str)
        if self.preprocessing_ is None:
            return validate_data(self, X, y, reset=fitting, **how)
        if not isinstance(X, Mapping):
            validate_data(self, X, reset=fitting, skip_check_array=True)
        rows = self.preprocessing_.transform(X)
        return check_X_y(rows, y, **how) if fitting else check_array(rows, **how)

    def _groups(self, values: Any, n: int, weight: Array | None) -> NDArray[np.intp]:
        if values is None:
            warnings.warn(
                f"{type(self).__name__} was fitted without `sensitive_features`: it is plain ERM "
                "and controls no violation.",
                UserWarning,
                stacklevel=4,
            )
            self.groups_, self.group_names_, self.grouping_ = (0,), (), None
            return np.zeros(n if weight is None else (weight > 0).sum(), dtype=np.intp)
        return self._learn_groups(values, n, weight)

    def _scaled(self, dense: NDArray[Any]) -> NDArray[np.float32]:
        return np.ascontiguousarray((dense - self.mean_) / self.scale_, dtype=np.float32)

    def _rows(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        checked = self._checked(X)
        return self._scaled(checked.toarray() if hasattr(checked, "toarray") else checked)

    def _codes(self, sensitive_features: Any, n: int) -> NDArray[np.intp] | None:
        if not self.uses_groups_:
            return None
        if sensitive_features is None:
            raise InputError(
                "This classifier was fitted with use_sensitive=True, so it needs "
                "`sensitive_features` to predict. Fit it with use_sensitive=False to predict from "
                "X alone."
            )
        return self._known_groups(sensitive_features, n)

    def _recipe(self) -> Recipe:
        return Recipe(
            hidden=tuple(self.hidden),
            epochs=self.epochs,
            min_steps=self.min_steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            patience=self.patience,
            piecewise_linear=self.piecewise_linear,
            level=self.level,
            running=0.9 if self.level == "score" else 0.0,  # 16 bins need more rows than a batch
        )

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, int | np.integer):
            return seed_of(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
