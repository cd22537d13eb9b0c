"""A separated score around any classifier, cross-fitted, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from separatrix.columns.draws import UNSET, uniforms
from separatrix.columns.groups import as_groups
from separatrix.columns.scores import check_weight
from separatrix.columns.values import listed
from separatrix.errors import InputError
from separatrix.estimators.crossfit import (
    CrossFit,
    checked_rows,
    cross_fit,
    label_column,
    same_rows,
    some_rows,
)
from separatrix.estimators.joint import JointFit, cross_fit_joint
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores
from separatrix.optimum.scores.separate import separate
from separatrix.optimum.scores.separated import SeparatedScore

__all__ = ["SeparatedScorer"]

Array = NDArray[np.float64]
_PATH = (1.0, 10.0, 100.0)  # the β that a blind score climbs by


class SeparatedScorer(BaseEstimator):
    """A score whose law given the label is the same in all groups, at every threshold.

    The classifier is cross-fitted: `cv` clones, each scores the fold that it did not see. One
    kernel (`separate`) is fitted to these scores of all rows. A new row is scored by one clone,
    drawn at random, and its level is drawn from the kernel. So new rows are treated just as the
    rows that the kernel was fitted to, and the mean over the clones is separated as these were.

    One kernel for all clones, and not one each: a clone's own kernel would be fitted to its fold
    alone, a fifth of the rows. Nor may the mean of the clones' scores replace the drawn clone: it
    has another law than the scores that the kernel was fitted to. On simulated rows with few
    distinct values these show four and five times the violation in the population
    (`tests/estimators/test_scorer.py`).

    Small groups borrow from the pooled curve (`separate` with ``borrow=True``).

    With ``blind=True`` the score is one of X alone (`blind_scores`): the group is needed to fit and
    never to score. It needs no coin, is the mean over the clones, and is not exactly separated: a
    larger β brings v closer to zero.

    Args:
        estimator: a classifier with `predict_proba`; None for boosted trees, which also take
            frames with text; "precomputed" if X is the probabilities of unseen rows.
        penalty: β of AUROC − β I(S; Z | Y); None for exact separation, or for 100 if blind.
        cv: folds of the cross-fitting; "prefit" for a fitted `estimator` that did not see the rows.
        random_state: seed of the folds.
        blind: whether rows are scored without the group.
        group_estimator: if blind, the classifier that learns the group from X; None for the kind
            of `estimator`.

    Attributes:
        score_: the `SeparatedScore`, with its `levels`, `auroc`, `utility`, `violation`; if blind
            the `BlindScore`.
        crossfit_: the clones.
        classes_, groups_: the two labels and the groups.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.integers(0, 2, (2, 4000))
        >>> X = rng.normal(size=(4000, 1)) + (y * (1 + z))[:, None]
        >>> model = SeparatedScorer(LogisticRegression()).fit(X, y, sensitive_features=z)
        >>> model.decision_function([[4.0], [-3.0]], sensitive_features=[0, 0]).round(1)
        array([1., 0.])
    """

    def __init__(
        self,
        estimator: Any = None,
        penalty: float | None = None,
        cv: int | str = 5,
        random_state: int = 0,
        blind: bool = False,
        group_estimator: Any = None,
    ) -> None:
        self.estimator = estimator
        self.penalty = penalty
        self.cv = cv
        self.random_state = random_state
        self.blind = blind
        self.group_estimator = group_estimator

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> SeparatedScorer:
        """Cross-fit the classifier, then fit the kernel to the scores of unseen rows."""
        if sensitive_features is None:
            raise InputError("A separated score needs groups: pass `sensitive_features`.")
        X = checked_rows(self, X, reset=True)
        labels = label_column(self, y)
        groups = as_groups(sensitive_features)
        same_rows(X, labels, groups.codes)
        weight = None
        if sample_weight is not None:
            weight = check_weight(sample_weight, len(labels))
            seen = np.flatnonzero(weight > 0)  # a row that weighs nothing is no row
            X, labels, weight = some_rows(X, seen), labels[seen], weight[seen]
            groups = groups[seen].compact()
        self.classes_ = np.unique(labels)
        if len(self.classes_) != 2:
            raise InputError(
                f"A separated score is for two labels; `y` has {len(self.classes_)} "
                f"({listed(self.classes_.tolist())})."
            )
        z = np.asarray(groups.codes, dtype=np.intp)
        options: dict[str, Any] = {
            "cv": self.cv,
            "random_state": self.random_state,
            "sample_weight": weight,
        }
        self.groups_ = groups.levels
        self.crossfit_: CrossFit | JointFit
        self.score_: SeparatedScore | BlindScore
        if self.blind:
            options["group_estimator"] = self.group_estimator
            self.crossfit_ = cross_fit_joint(self.estimator, X, labels, z, **options)
            self.score_ = blind_scores(
                self.crossfit_.scores,
                np.searchsorted(self.classes_, labels),
                z,
                np.ones(len(labels)) if weight is None else weight,
                [b for b in _PATH if b < self._penalty()] + [self._penalty()],
            )[-1]
            return self
        self.crossfit_ = cross_fit(self.estimator, X, labels, z, **options)
        self.score_ = separate(
            labels,
            self.crossfit_.scores,
            sensitive_features=groups,
            sample_weight=weight,
            penalty=self.penalty,
            borrow=True,
        )
        return self

    def level_proba(self, X: Any, sensitive_features: Any) -> Array:
        """P(S = level | x, z), array (n, m): the mean over the clones, levels rising."""
        check_is_fitted(self, "score_")
        if isinstance(self.score_, BlindScore):
            raise InputError("A blind score is not drawn from levels: use `decision_function(X)`.")
        z = as_groups(sensitive_features)
        each = [
            self.score_.level_proba(p, sensitive_features=z) for p in self.crossfit_.posteriors(X)
        ]
        return np.asarray(np.mean(each, axis=0))

    def decision_function(
        self,
        X: Any,
        sensitive_features: Any = None,
        random_state: int | None = None,
        *,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """A drawn score per row, array (n,): one of `score_.levels`, P(Y = second label | S).

        A blind score is not drawn and reads X alone.

        Args:
            X, sensitive_features: rows and their groups.
            random_state: seed of the coins; None throws fresh ones at every call.
            ids, salt: one identity per row and a secret: then a person always gets the same coins.
        """
        check_is_fitted(self, "score_")
        posteriors = self.crossfit_.posteriors(X)
        if isinstance(self.score_, BlindScore):
            return np.asarray(np.mean([self.score_.transform(q) for q in posteriors], axis=0))
        if sensitive_features is None:
            raise InputError(
                "The score needs the group of every row: pass `sensitive_features` "
                f"({listed(self.groups_)})."
            )
        coins = uniforms(
            len(posteriors[0]),
            ("branch", "level"),
            random_state=random_state if ids is None else UNSET,
            ids=ids,
            salt=salt,
            model=self.score_.levels.tobytes(),
        )
        member = (coins[:, 0] * len(posteriors)).astype(np.intp)
        p = np.stack(posteriors)[member, np.arange(len(member))]
        return self.score_.drawn(p, coins[:, 1], sensitive_features=sensitive_features)

    def _penalty(self) -> float:
        return _PATH[-1] if self.penalty is None else float(self.penalty)
