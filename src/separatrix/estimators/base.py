"""What the estimators share: groups from columns of X, checked rows, a `Predictor` that ships."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from separatrix.columns.draws import UNSET, Ids, Salt, Unset
from separatrix.columns.frames import as_frame, named_columns
from separatrix.columns.groups import Grouping, bin_labels, edges_of, group_columns, intersect
from separatrix.columns.scores import check_weight
from separatrix.columns.values import Levels, check_lengths, encode, refuse_missing, row_numbers
from separatrix.crossfit.base_models import Base, as_rows, by_name, has_text, holding_columns, listed_names, some_rows
from separatrix.crossfit.out_of_fold import CrossFit, cross_fit, seed_from, splits_of
from separatrix.errors import InputError
from separatrix.optimum.rules import Rule
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.predictor import Branch, Predictor

Array = NDArray[np.float64]
_WHOLE = 2.0**53  # floats tell whole numbers apart up to here


class Learned(NamedTuple):
    """The rows of `fit` that have a weight.

    Args:
        X, sensitive: the rows and the sensitive columns as passed, with their names.
        rows: as they go on to the model.
        y: labels or numbers.
        z: codes of the groups, or numbers; None where nobody passed groups.
        weight: of each row; None for one each.
        cv, groups: for these rows.
        share: of people among the rows that were passed.
    """

    X: Any
    sensitive: Any
    rows: Any
    y: NDArray[Any]
    z: NDArray[Any] | None
    weight: Array | None
    cv: Any
    groups: Any
    share: float


class Shipping(ABC):
    """Predictions of the fitted `predictor_`, on rows as `fit` took them.

    Groups may be columns of X, so that `fit(X, y)` and `predict(X)` need nothing else.

    Attributes:
        predictor_: the model and the rule that ship.
        groups_: the groups in the order of their codes.
        group_names_: the names of the sensitive columns.
        grouping_: the edges of columns of numbers that were cut; None where none was.
    """

    estimator: Any = None
    sensitive_columns: Any = None
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = None
    predictor_: Predictor
    groups_: Levels
    group_names_: tuple[str, ...]
    grouping_: Grouping | None

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn the model and the rule that ship.

        Args:
            X, y: rows and outcomes.
            sensitive_features: the groups; not where `sensitive_columns` names them.
            sample_weight: weight of each row; a row that weighs nothing is no row.
            groups: who each row is about, where several rows may be about one person; not the
                sensitive groups. A person is in one fold, and counts once in errors and bounds.
        """
        self.grouping_ = None
        rows = self._rows(X, reset=True)
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        target = self._target(y)
        n = len(target)
        check_consistent_length(next(iter(rows.values()), ()) if by_name(rows) else rows, target)
        weight = None if sample_weight is None else self._weight(sample_weight, n)
        cv, share = self.cv, 1.0
        if groups is not None:
            if isinstance(cv, str):
                raise InputError("`groups` is for folds: pass a number or a splitter as `cv`.")
            who = encode(groups, "groups").codes
            share = len(np.unique(who)) / len(who)
        given = self._sensitive(X, sensitive_features)
        sensitive = None if given is None else group_columns(given)
        if sensitive is not None and (count := check_lengths(sensitive)) != n:
            raise InputError(f"`sensitive_features` must have one group per row, {n:,}, got {count:,}.")
        if weight is not None and not weight.all():  # a row that weighs nothing is no row
            seen = np.flatnonzero(weight)
            if not isinstance(cv, int | np.integer | str):  # it is about all rows
                place = np.cumsum(weight > 0) - 1
                splits = splits_of(cv, target, np.zeros(n, np.intp), groups)
                cv = [tuple(place[places[weight[places] > 0]] for places in split) for split in splits]
                groups = None
            X, rows = some_rows(X, seen), some_rows(rows, seen)
            target, weight = target[seen], weight[seen]
            groups = None if groups is None else some_rows(groups, seen)
            sensitive = sensitive and some_rows(sensitive, seen)
        z = None if sensitive is None else self._learn_groups(sensitive)
        self._fit(Learned(X, sensitive, rows, target, z, weight, cv, groups, share))
        return self

    @abstractmethod
    def _fit(self, learned: Learned) -> None:
        """Sets `predictor_`, and what else the estimator shows."""

    def _sensitive(self, X: Any, sensitive_features: Any) -> Any:
        """The groups that were passed, or the columns of X that `sensitive_columns` names."""
        if self.sensitive_columns is None:
            return sensitive_features
        if sensitive_features is not None:
            named = f"{self.sensitive_columns!r} of `X` (`sensitive_columns`)"
            raise InputError(f"The groups are the columns {named}: leave `sensitive_features` out.")
        names = listed_names(self.sensitive_columns)
        if by_name(X) or as_frame(X, "X") is not None:
            return named_columns(X, [str(name) for name in names], "X")
        rows = as_rows(X)
        width = rows.shape[1] if len(rows.shape) == 2 else 0
        if not width:
            raise InputError(f"`X` has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
        columns = {}
        for name in names:
            if not isinstance(name, int | np.integer) or not -width <= name < width:
                has = f"a matrix of {width} columns has the columns 0 to {width - 1}, and only a frame has names"
                raise InputError(f"`sensitive_columns` names {name!r}; {has}.")
            column = (rows[:, [name]].toarray() if issparse(rows) else rows[:, [name]]).ravel()
            columns[f"column {name}"] = column
            if column.dtype.kind == "f" and (bad := ~np.isfinite(column)).any():
                where = f"in column {name}, the group's, in row {row_numbers(bad)}"
                raise InputError(f"`X` holds NaN or inf {where}. Drop those rows, or give them a group of their own.")
        return columns

    def _learn_groups(self, columns: Mapping[str, Any]) -> NDArray[np.intp]:
        """The group's code of each row of `fit`; sets the attributes.

        A column with more than 12 different numbers, such as age, is cut at its quartiles.
        """
        edges = edges_of(columns)
        grouping = Grouping(tuple(columns), (), edges)
        coded = intersect({name: grouping.part(x, name) for name, x in columns.items()})
        if edges:
            bands = "; ".join(f"{name}: {', '.join(bin_labels(e))}" for name, e in edges.items())
            warnings.warn(
                f"Many different numbers in `sensitive_features` are cut at quantiles ({bands}); "
                "pass categories for other groups.",
                UserWarning,
                stacklevel=3,
            )
        self.group_names_, self.groups_ = tuple(columns), coded.levels
        self.grouping_ = replace(grouping, groups=coded.levels) if edges else None
        return np.asarray(coded.codes, dtype=np.intp)

    def _grouping(self) -> Grouping | None:
        """How a predictor finds the group in raw rows, where this estimator does."""
        if self.grouping_ is not None or self.sensitive_columns is None:
            return self.grouping_
        names = listed_names(self.sensitive_columns)
        by_text = all(isinstance(name, str) for name in names)
        return Grouping(tuple(names), tuple(self.groups_)) if by_text else None

    def _rows(self, X: Any, reset: bool = False) -> Any:
        """X as it goes on to `estimator`; sets or compares `n_features_in_`.

        Only the default trees' matrix is checked; other estimators check their own.
        """
        if isinstance(self.estimator, str):
            return X
        if by_name(X):
            if self.estimator is not None:
                name = type(self.estimator).__name__
                raise InputError(f"`X` is a mapping of columns, which {name} cannot take: pass a frame or a matrix.")
            return X
        if self.estimator is None and not has_text(X):
            return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False)
        rows = X if as_frame(X, "X") is not None else as_rows(X)
        if rows.shape in ((), (0,)):
            raise InputError(f"`X` must have one row per person, got {X!r}.")
        if len(rows.shape) != 1:  # a column of texts has no features to count
            validate_data(self, rows, reset=reset, skip_check_array=True)
        elif not reset and hasattr(self, "n_features_in_"):
            got = f"got one axis of {len(rows):,} values. Reshape your data: X.reshape(1, -1) is one row"
            raise InputError(f"`X` must have {self.n_features_in_} columns, {got}.")
        return rows

    @abstractmethod
    def _target(self, y: Any) -> NDArray[Any]:
        """The checked outcomes (n,)."""

    def _weight(self, sample_weight: Any, n: int) -> Array:
        return check_weight(sample_weight, n)

    def _holding(self, learned: Learned) -> tuple[int, ...]:
        """The places of the columns that hold the group; bare scores have none."""
        if isinstance(self.estimator, str) or learned.z is None:
            return ()
        table = learned.X if hasattr(learned.X, "columns") or by_name(learned.X) else learned.rows
        return holding_columns(table, learned.z, learned.sensitive or {}, self.sensitive_columns)

    def _cross_fit(self, learned: Learned, reads: str, z: NDArray[np.intp], **options: Any) -> CrossFit:
        """Out-of-fold scores, and the model of all rows."""
        how = {"cv": learned.cv, "groups": learned.groups, "random_state": self.random_state}
        how |= {"sample_weight": learned.weight, "n_jobs": self.n_jobs}
        return cross_fit(self.estimator, learned.rows, learned.y, z, reads, **(how | options))

    def _ship(self, fitted: CrossFit, rule: Rule, labels: Levels, choice: dict[str, Any]) -> None:
        """The refitted model and its rule; sets `predictor_`."""
        branch = Branch(Base(fitted.model, fitted.reads, fitted.left_out), rule)
        raw: dict[str, Any] = {"preprocessing": fitted.preprocessing, "grouping": self._grouping()}
        self.predictor_ = Predictor(labels, tuple(self.groups_), (branch,), about={"choice": choice}, **raw)

    def to_predictor(self, features: Sequence[str] = ()) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        if not hasattr(self, "predictor_"):
            raise InputError(f"This {type(self).__name__} is not fitted: call `fit` first.")
        if self.predictor_.branches[0].base.model is None:
            name = type(self).__name__
            raise InputError(f"This {name} was fitted around bare scores and has no model to save: fit it around one.")
        return replace(self.predictor_, features=tuple(features))

    def save(self, folder: str | Path) -> Path:
        """Write what ships as a folder without pickle; `separatrix.load(folder)` is a Predictor."""
        return self.to_predictor().save(folder)

    def _seen(self, X: Any, sensitive_features: Any) -> tuple[Any, NDArray[Any] | None]:
        """What the model takes of new rows, and codes of their groups where they are needed."""
        check_is_fitted(self, "predictor_")
        if getattr(self, "blind", False):
            X = self._with_empty_groups(X)
        rows = self.predictor_.rows(self._rows(X), named=False)
        if not self.predictor_.uses_groups:
            return rows, None
        return rows, self._codes(X, sensitive_features, _num_samples(rows))

    def _with_empty_groups(self, X: Any) -> Any:
        """Rows of a blind estimator; sensitive columns, which nobody reads, may be missing."""
        frame, names = as_frame(X, "X"), list(getattr(self, "feature_names_in_", ()))
        missing = set() if frame is None else {*names}.difference(frame.collect_schema().names())
        if frame is None or not missing or not missing.issubset(listed_names(self.sensitive_columns)):
            return X
        empty = dict.fromkeys(missing, nw.lit(np.nan))
        return frame.with_columns(**empty).select(names).to_native()

    def _codes(self, X: Any, sensitive_features: Any, n: int) -> NDArray[Any]:
        return self.predictor_.group_codes(X, self._sensitive(X, sensitive_features), n)

    def _law(self, X: Any, sensitive_features: Any) -> NDArray[np.float64]:
        """P(U | x, z) of new rows, (n, U)."""
        rows, z = self._seen(X, sensitive_features)
        return np.asarray(self.predictor_.laws(self.predictor_.scores(rows, z), z)[0])

    def _drawn(self, X: Any, sensitive_features: Any, random_state: Any = UNSET, **person: Any) -> Drawn:
        """Decisions or scores; without `ids`, `salt` or a seed the coins are those of the own seed."""
        if isinstance(random_state, Unset) and all(value is None for value in person.values()):
            random_state = self.random_state
        if not isinstance(random_state, int | np.integer | Unset | None):
            random_state = seed_from(random_state)
        rows, z = self._seen(X, sensitive_features)
        coins = self.predictor_.coins(_num_samples(rows), random_state=random_state, **person)
        return self.predictor_.decided(rows, z, coins)

    def __sklearn_tags__(self) -> Any:
        """Its rows go on to the estimator: it takes what that does."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if self.estimator is None:
            tags.input_tags.allow_nan = True
        elif not isinstance(self.estimator, str):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.allow_nan, tags.input_tags.sparse = inner.allow_nan, inner.sparse
        return tags


class ShippingClassifier(Shipping, ClassifierMixin, BaseEstimator):
    """Labels by the fitted `predictor_`.

    Attributes:
        classes_: the labels.
    """

    classes_: NDArray[Any]

    def _target(self, y: Any) -> NDArray[Any]:
        """The labels (n,), none missing and none infinite; measurements are refused."""
        labels: NDArray[Any] = np.asarray(_check_y(y, estimator=self))
        if labels.dtype.kind in "mM":
            refuse_missing(np.isnat(labels), "y")
        wide = labels.dtype.kind == "f" and labels.dtype.itemsize > 2
        if wide and (large := np.abs(labels) > _WHOLE).any():
            where = f"{labels[large][0]:g} in row {row_numbers(large)}"
            raise InputError(f"`y` holds {where}; labels are categories, or whole numbers below 2^53.")
        check_classification_targets(labels)
        return labels

    def _label_codes(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """The code of each row's label; sets `classes_`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if (count := len(self.classes_)) < 2:
            plural = "" if count else "es: it is empty"
            raise InputError(f"A classifier needs at least two labels; this data has {count} class{plural}.")
        return codes

    def _without_groups(self, what: str) -> None:
        name = type(self).__name__
        warnings.warn(f"{name} was fitted without `sensitive_features`: it is {what}.", UserWarning, stacklevel=4)

    def _weight(self, sample_weight: Any, n: int) -> Array:
        """As they are, since a penalised classifier may not be indifferent to their scale."""
        return np.asarray(_check_sample_weight(sample_weight, np.empty(n), ensure_non_negative=True))

    def predict(
        self, X: Any, sensitive_features: Any = None, random_state: Any = UNSET, *, ids: Ids = None, salt: Salt = None
    ) -> NDArray[Any]:
        """A decision per row; a score decides for the second label from one half on.

        Args:
            X, sensitive_features: rows and their groups.
            random_state: seed of the coins, which then depend on the row's place; by default the
                classifier's own, where None throws fresh ones at every call.
            ids, salt: one identity per row and a secret: a person always gets the same coin.
        """
        decisions = self._drawn(X, sensitive_features, random_state, ids=ids, salt=salt)
        return np.asarray(self.classes_[decisions.codes])
