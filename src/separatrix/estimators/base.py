"""Shipping: what an estimator has fitted is a `Predictor`, and predicts through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples, check_is_fitted

from separatrix.columns.draws import UNSET, Unset
from separatrix.columns.groups import Grouping, group_columns
from separatrix.columns.scores import check_weight
from separatrix.columns.values import Levels
from separatrix.crossfit.out_of_fold import (
    CrossFit,
    checked_rows,
    label_column,
    same_rows,
    seed_from,
    some_rows,
    splits_of_seen,
)
from separatrix.crossfit.sensitive_columns import SensitiveColumns
from separatrix.errors import InputError
from separatrix.optimum.rules import Rule
from separatrix.predictor.branch import Base, Branch
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.predictor import Predictor

__all__ = ["Learned", "Shipping", "grouping_of"]

Array = NDArray[np.float64]


class Learned(NamedTuple):
    """The rows of `fit` that have a weight.

    Args:
        rows: as they go on to the classifier.
        labels: one per row.
        z: codes of the groups; None where nobody passed groups.
        weight: of each row; None for one each.
        cv: for these rows.
        held: places of the columns that hold the group.
    """

    rows: Any
    labels: NDArray[Any]
    z: NDArray[np.intp] | None
    weight: Array | None
    cv: Any = None
    held: tuple[int, ...] = ()


class Shipping(SensitiveColumns):
    """Predictions of the fitted `predictor_`, on rows as `fit` took them.

    Attributes:
        predictor_: the model and the rule that ship.
    """

    predictor_: Predictor
    random_state: Any
    cv: Any

    def _learn(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, groups: Any
    ) -> Learned:
        """The checked rows of a classifier's `fit`; sets `classes_` and those of the groups."""
        rows = checked_rows(self, X, reset=True)
        labels = label_column(self, y)
        same_rows(rows, labels)
        weight = None if sample_weight is None else self._weight(sample_weight, labels)
        self.classes_ = np.unique(labels)
        sensitive = self._sensitive(X, sensitive_features)
        if sensitive is None:
            return Learned(rows, labels, None, weight)
        z = self._learn_groups(sensitive, len(labels), weight)
        cv = splits_of_seen(self.cv, rows, labels, groups, weight, self.random_state)
        if weight is not None and len(z) < len(labels):
            seen = np.flatnonzero(weight > 0)
            rows, labels, weight = some_rows(rows, seen), labels[seen], weight[seen]
            X = some_rows(X, seen)
            sensitive = {k: some_rows(x, seen) for k, x in group_columns(sensitive).items()}
            self.classes_ = np.unique(labels)
        return Learned(rows, labels, z, weight, cv, self._holding(X, rows, z, sensitive))

    def _weight(self, sample_weight: Any, labels: NDArray[Any]) -> Array:
        return check_weight(sample_weight, len(labels))

    def _ship(self, found: CrossFit, rule: Rule, labels: Levels, choice: dict[str, Any]) -> None:
        """The refitted model and its rule; sets `predictor_`."""
        self.predictor_ = Predictor(
            labels,
            tuple(self.groups_),
            (Branch(Base(found.model, found.reads, found.left_out), rule),),
            preprocessing=found.preprocessing,
            grouping=grouping_of(self),
            about={"choice": choice},
        )

    def to_predictor(self, features: Sequence[str] = ()) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        if not hasattr(self, "predictor_"):
            raise InputError(f"This {type(self).__name__} is not fitted: call `fit` first.")
        if self.predictor_.branches[0].base.model is None:
            raise InputError(
                f"This {type(self).__name__} was fitted around bare scores and has no model to "
                "save: fit it around the model."
            )
        return replace(self.predictor_, features=tuple(features))

    def _seen(self, X: Any, sensitive_features: Any) -> tuple[Any, NDArray[Any] | None]:
        """What the model takes of new rows, and codes of their groups where they are needed."""
        check_is_fitted(self, "predictor_")
        rows = self.predictor_.rows(checked_rows(self, X), named=False)
        if not self.predictor_.uses_groups:
            return rows, None
        return rows, self._codes(X, sensitive_features, _num_samples(rows))

    def _codes(self, X: Any, sensitive_features: Any, n: int) -> NDArray[Any]:
        return self.predictor_.group_codes(X, self._sensitive(X, sensitive_features), n)

    def _law(self, X: Any, sensitive_features: Any) -> NDArray[np.float64]:
        """P(U | x, z) of new rows, (n, U)."""
        rows, z = self._seen(X, sensitive_features)
        return np.asarray(self.predictor_.laws(rows, z)[0])

    def _drawn(
        self,
        X: Any,
        sensitive_features: Any,
        random_state: Any = UNSET,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Drawn:
        """Decisions or scores; without identities or a seed the coins are those of the own seed."""
        if ids is None and salt is None and isinstance(random_state, Unset):
            random_state = self.random_state
        if not isinstance(random_state, int | np.integer | Unset | None):
            random_state = seed_from(random_state)
        rows, z = self._seen(X, sensitive_features)
        how = {"random_state": random_state, "ids": ids, "salt": salt}
        return self.predictor_.decided(rows, z, lambda n: self.predictor_.coins(n, **how))


def grouping_of(model: SensitiveColumns) -> Grouping | None:
    """How a predictor finds the group in raw rows, where the fitted estimator does."""
    if model.grouping_ is not None or model.sensitive_columns is None:
        return model.grouping_
    names = np.ravel(np.asarray(model.sensitive_columns, dtype=object)).tolist()
    by_name = all(isinstance(name, str) for name in names)
    return Grouping(tuple(names), tuple(model.groups_)) if by_name else None
