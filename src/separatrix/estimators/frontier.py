"""The best decisions of any classifier within a budget, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from separatrix.columns.bins import bin_labels, edges_of
from separatrix.columns.draws import drawn, uniforms
from separatrix.columns.grouping import Grouping
from separatrix.columns.groups import as_groups, group_codes, group_columns, intersect
from separatrix.columns.values import Levels, listed
from separatrix.core.criteria import criterion_named
from separatrix.core.numbers import one_number
from separatrix.errors import InputError
from separatrix.estimators.crossfit import (
    CrossFit,
    base_model,
    checked_rows,
    cross_fit,
    fit_one,
    label_column,
    posteriors_of,
    same_rows,
    some_rows,
)
from separatrix.estimators.joint import JointFit, cross_fit_joint
from separatrix.optimum.blind import BlindPromises
from separatrix.optimum.limit import limit
from separatrix.optimum.objectives import Cost, budgets_of
from separatrix.optimum.promised import Promises
from separatrix.optimum.result import Limit
from separatrix.optimum.rules import BlindRule

__all__ = ["FrontierClassifier"]

Array = NDArray[np.float64]
_BUDGETS = ("max_gap", "max_eo_gap", "max_violation", "max_eo_max", "max_fpr_gap")


class FrontierClassifier(ClassifierMixin, BaseEstimator):
    """The best decisions that a classifier's scores allow within a budget, for each group.

    The classifier is cross-fitted, so the rule is fitted to scores of unseen rows. The rule is the
    certified optimum for the objective: thresholds per group, with a coin between two of them where
    that is better. By default it is fitted for a smaller budget than asked, such that the
    population is expected to keep what was asked; where the rows cannot promise that, `fit` refuses
    and says the smallest budget that they can.

    Args:
        estimator: a classifier with `predict_proba` (a pipeline, LightGBM, XGBoost, …); None for
            boosted trees, which also take frames with text; "precomputed" if X is the
            probabilities.
        maximize: "accuracy", "balanced_accuracy", "utility" or `Cost(...)`.
        max_eo_gap: budget: mean over both labels of the range of the groups' rates.
        max_violation: budget: I(U;Z|Y), or the criterion's own information, in nats. One budget at
            most; none for the best rule without.
        confidence: None: the population keeps the budget in expectation; 0.9: in nine of ten
            samples.
        cv: folds of the cross-fitting; "prefit" for a fitted `estimator` that did not see the rows.
        random_state: seed of the folds.
        margin: None: computed as above. A number is taken off the budget instead; 0 keeps the
            budget on the rows of `fit` only.
        ensemble: how many times the rows are dealt into folds; scores are means over the deals.
        max_eo_max, max_fpr_gap: other budgets: the larger of both ranges, the range of the
            false-positive rates.
        criterion: "separation", "independence" (demographic parity), "sufficiency" (predictive
            parity) or "equal_opportunity"; all but the first for two labels.
        max_gap: budget of the criterion's own gap: EO gap, parity gap, the larger range of
            P(Y=1|U=1) and P(Y=1|U=0), TPR gap.
        blind: whether decisions are made without the group. `fit` still needs it; `predict` never
            asks for it. The estimator is then fitted with the group as further columns, a second
            classifier learns the group from X, and the rule sees q(y, z | x) (`JointModel`). A
            column of X that holds the group is not removed.
        group_estimator: the second classifier; None for the kind of `estimator`.

    Attributes:
        classes_, groups_: the labels and the groups. A sensitive column with more than 12 different
            numbers, such as age, is cut at its quartiles, with a warning.
        grouping_: the edges of these, None where no column is cut.
        promise_: the `PromisedRule`: level on the rows, expectation in the population.
        limit_: `limit` of these rows for this objective and budget, computed when asked for.
        scores_: the out-of-fold P(Y | x), array (n, K); if blind q(y, z | x), (n, K, groups).
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.choice(["f", "m"], 4000), rng.integers(0, 2, 4000)
    >>> X = rng.normal(size=(4000, 1)) + (y * (1 + (z == "m")))[:, None]
    >>> model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.05)
    >>> model = model.fit(X, y, sensitive_features=z)
    >>> round(model.promise_.expected, 3), model.predict(X[:1], sensitive_features=z[:1]).shape
    (0.05, (1,))
    """

    def __init__(
        self,
        estimator: Any = None,
        maximize: str | Cost = "accuracy",
        max_eo_gap: float | None = None,
        max_violation: float | None = None,
        *,
        confidence: float | None = None,
        cv: int | str = 5,
        random_state: int = 0,
        margin: float | None = None,
        ensemble: int = 1,
        max_eo_max: float | None = None,
        max_fpr_gap: float | None = None,
        criterion: str = "separation",
        max_gap: float | None = None,
        blind: bool = False,
        group_estimator: Any = None,
    ) -> None:
        self.estimator = estimator
        self.maximize = maximize
        self.max_eo_gap = max_eo_gap
        self.max_violation = max_violation
        self.confidence = confidence
        self.cv = cv
        self.random_state = random_state
        self.margin = margin
        self.ensemble = ensemble
        self.max_eo_max = max_eo_max
        self.max_fpr_gap = max_fpr_gap
        self.criterion = criterion
        self.max_gap = max_gap
        self.blind = blind
        self.group_estimator = group_estimator

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> FrontierClassifier:
        """Cross-fit the classifier, then fit the rule to the scores.

        Without `sensitive_features` it warns and is the plain classifier.
        """
        X, labels, weight = self._checked(X, y, sample_weight)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError(
                f"A classifier needs at least two labels; this data has {len(self.classes_)} class"
                f"{'' if len(self.classes_) else 'es: it is empty'}."
            )
        if sensitive_features is None:
            self._fit_plain(X, labels, weight)
            return self
        self.grouping_: Grouping | None
        z, self.groups_ = self._groups(sensitive_features, labels)
        if weight is not None:
            seen = np.flatnonzero(weight > 0)  # a row that weighs nothing is no row
            X, labels, z, weight = some_rows(X, seen), labels[seen], z[seen], weight[seen]
        budget, asked = self._budget()
        options: dict[str, Any] = {
            "cv": self.cv,
            "ensemble": self.ensemble,
            "random_state": self.random_state,
            "sample_weight": weight,
        }
        self.crossfit_: CrossFit | JointFit | None
        if self.blind:
            options["group_estimator"] = self.group_estimator
            self.crossfit_ = cross_fit_joint(self.estimator, X, labels, z, **options)
        else:
            self.crossfit_ = cross_fit(self.estimator, X, labels, z, **options)
        self.scores_ = self.crossfit_.scores
        self.best_ = (BlindPromises if self.blind else Promises)(
            self.scores_,
            np.searchsorted(self.classes_, labels),
            z,
            np.ones(len(labels)) if weight is None else weight,
            tuple(range(len(self.groups_))),
            maximize=self.maximize,
            budget=budget,
        )
        self.promise_ = self.best_.rule(asked, margin=self.margin, confidence=self.confidence)
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x, z): the law of the decision before any coin is thrown, array (n, K).

        A blind classifier neither needs nor reads `sensitive_features`.
        """
        check_is_fitted(self, "classes_")
        X = self._rows(X)
        if self.crossfit_ is None:
            return posteriors_of(self.plain_, self._prepared(X), self.classes_)
        rule = self.promise_.rule
        if isinstance(rule, BlindRule):
            each = [rule.predict_proba(q) for q in self.crossfit_.posteriors(X)]
            return np.asarray(np.mean(each, axis=0))
        if sensitive_features is None:
            raise InputError(
                "The rule needs the group of every row: pass `sensitive_features` "
                f"({listed(self.groups_)})."
            )
        scores = self.crossfit_.posteriors(X)
        z = self._codes(sensitive_features, len(scores[0]))
        q = [rule.predict_proba(one, sensitive_features=z) for one in scores]
        return np.asarray(np.mean(q, axis=0))

    def predict(
        self, X: Any, sensitive_features: Any = None, random_state: int | None = None
    ) -> NDArray[Any]:
        """A decision per row.

        Args:
            X, sensitive_features: rows and their groups.
            random_state: seed of the coins; None throws fresh ones at every call, so that requests
                of one row do not all get the same coin.
        """
        q = self.predict_proba(X, sensitive_features)
        if self.crossfit_ is None:
            return np.asarray(self.classes_[q.argmax(1)])
        coin = uniforms(len(q), ("label",), random_state=random_state)
        return np.asarray(self.classes_[drawn(q, coin[:, 0])])

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The accuracy of `predict`; where it draws, the mean over its coins."""
        if self.crossfit_ is None:
            decided = self.predict(X, sensitive_features)
            return float(accuracy_score(y, decided, sample_weight=sample_weight))
        right = np.asarray(y)[:, None] == self.classes_
        q = self.predict_proba(X, sensitive_features)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average((q * right).sum(1), weights=weight))

    @property
    def limit_(self) -> Limit:
        """The best of the objective at every level of the budget, on these rows: `limit`."""
        check_is_fitted(self, "best_")
        if isinstance(self.best_, BlindPromises):
            raise InputError(
                "`limit_` is for rules that see the group; a blind classifier has "
                "`best_.certificate(level)`."
            )
        return limit(
            self.classes_[self.best_.y],
            self.best_.scores,
            sensitive_features=[self.groups_[code] for code in self.best_.z.tolist()],
            sample_weight=self.best_.weight,
            maximize=self.maximize,
            budget=self.best_.budget,
        )

    def budgets(self) -> dict[str, float | None]:
        """All budgets by name; None where it is not given."""
        return {name: getattr(self, name) for name in _BUDGETS}

    def _checked(
        self, X: Any, y: ArrayLike, sample_weight: Any
    ) -> tuple[Any, NDArray[Any], Array | None]:
        """Rows as the classifier will take them, labels, weights; sets `n_features_in_`."""
        X = self._rows(X, reset=True)
        labels = label_column(self, y)
        same_rows(X, labels)
        if sample_weight is None:
            return X, labels, None
        return X, labels, _check_sample_weight(sample_weight, labels, ensure_non_negative=True)

    def _rows(self, X: Any, reset: bool = False) -> Any:
        return checked_rows(self, X, reset)

    def _fit_plain(self, X: Any, labels: NDArray[Any], weight: Array | None) -> None:
        warnings.warn(
            f"{type(self).__name__} was fitted without `sensitive_features`: it is the plain "
            "classifier and keeps no budget.",
            UserWarning,
            stacklevel=3,
        )
        self.groups_, self.crossfit_ = (), None
        self.grouping_ = None
        if isinstance(self.estimator, str):
            raise InputError(
                "Probabilities alone, without `sensitive_features`, leave nothing to fit."
            )
        if self.cv == "prefit":
            self.plain_, self.preprocessing_ = self.estimator, None
            return
        model, self.preprocessing_ = base_model(self.estimator, X)
        self.plain_ = fit_one(model, self._prepared(X), labels, weight)

    def _prepared(self, X: Any) -> Any:
        return X if self.preprocessing_ is None else self.preprocessing_.transform(X)

    def _groups(self, values: Any, labels: NDArray[Any]) -> tuple[NDArray[np.intp], Levels]:
        columns = group_columns(values)
        edges = edges_of(columns)
        self.grouping_ = None
        if edges:
            grouping = Grouping(tuple(columns), (), edges)
            coded = intersect({own: grouping.part(x, own) for own, x in columns.items()})
            self.grouping_ = replace(grouping, groups=coded.levels)
            bands = "; ".join(f"{own}: {', '.join(bin_labels(e))}" for own, e in edges.items())
            warnings.warn(
                f"Many different numbers in `sensitive_features` are cut at quantiles ({bands}); "
                "pass categories for other groups.",
                UserWarning,
                stacklevel=3,
            )
        else:
            coded = as_groups(values)
        codes, levels = coded
        if len(codes) != len(labels):
            raise InputError(
                f"`sensitive_features` must have one group per row, {len(labels):,}, got "
                f"{len(codes):,}."
            )
        return np.asarray(codes, dtype=np.intp), levels

    def _codes(self, values: Any, n: int) -> NDArray[np.intp]:
        if self.grouping_ is not None:
            return self.grouping_.codes_of(values, n)
        return group_codes(values, self.groups_, n, "sensitive_features")

    def _budget(self) -> tuple[str, float | None]:
        """The one budget that was given: its name and its level."""
        given = {name: value for name, value in self.budgets().items() if value is not None}
        if len(given) > 1:
            raise InputError(f"One budget at a time, got {', '.join(given)}: choose one of them.")
        shared = (self.max_gap, self.max_violation, self.max_eo_gap)
        for name, value in budgets_of(self.criterion, *shared).items():
            return name, value
        for name, value in given.items():
            if self.criterion != "separation":
                raise InputError(f"`{name}` belongs to separation; pass `max_gap` instead.")
            return name.removeprefix("max_"), one_number(value, name)
        return criterion_named(self.criterion).gap_name, None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.allow_nan = True
        elif not isinstance(self.estimator, str):
            inner = get_tags(self.estimator)
            tags.input_tags.allow_nan = inner.input_tags.allow_nan
            tags.input_tags.sparse = inner.input_tags.sparse
        return tags
