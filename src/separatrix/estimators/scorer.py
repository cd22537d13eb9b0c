"""A separated score around any classifier, cross-fitted, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from separatrix.columns.draws import UNSET
from separatrix.columns.values import Coded, listed
from separatrix.core.score_gaps import area
from separatrix.errors import InputError
from separatrix.estimators.base import Shipping, tagged_as
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores
from separatrix.optimum.scores.separated import SeparatedScore, raw_score, separate
from separatrix.procedure.penalty import RAW, choose_penalty

__all__ = ["SeparatedScorer"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
_PATH = (1.0, 10.0, 100.0)  # the β that a blind score climbs by


class SeparatedScorer(Shipping, ClassifierMixin, BaseEstimator):
    """A score with the same error rates in all groups at every threshold.

    Given the label, its distribution is the same in every group. The classifier is cross-fitted,
    one kernel (`separate`) is fitted to the out-of-fold scores, and the classifier is refitted on
    all rows: cv + 1 fits. A new row's level is drawn from the kernel at its score. Estimates for
    small groups are shrunk towards the pooled one (`separate` with ``borrow=True``).

    With ``blind=True`` the score is one of X alone (`blind_scores`): the group is needed to fit and
    never to score. It needs no coin and is not exactly separated: a larger β brings v closer to
    zero.

    Args:
        estimator: a classifier with `predict_proba`; None for boosted trees, which also take
            frames with text; "precomputed" if X is the probabilities of unseen rows.
        penalty: "auto" for the highest AUROC whose violation these rows cannot tell from none
            (`procedure.penalty`); β of AUROC − β I(S; Z | Y); None for exact separation. If blind,
            "auto" and None are 100.
        sensitive_columns: the column(s) of X that hold the group; then no method needs
            `sensitive_features`.
        cv: number of folds, a splitter, an iterable of splits, or "prefit" for a fitted `estimator`
            that did not see the rows.
        n_jobs: how many fits at a time, see joblib.
        random_state: seed of the folds and of the coins; None is fresh.
        blind: whether rows are scored without the group.
        group_estimator: if blind, the classifier that learns the group from X; None for the kind
            of `estimator`.

    Attributes:
        score_: the `SeparatedScore`, with its `levels`, `auroc`, `utility`, `violation`; if blind
            the `BlindScore`.
        penalty_: β, None for exact separation, or "raw" where the score ships as it is.
        penalty_choice_: what was chosen among, where the penalty is "auto": the AUROC and p-value
            of each candidate, and the largest gap expected by chance at this sample size.
        crossfit_: the fitted classifier and the out-of-fold scores.
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
        penalty: float | str | None = "auto",
        sensitive_columns: Any = None,
        blind: bool = False,
        group_estimator: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.penalty = penalty
        self.sensitive_columns = sensitive_columns
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.blind = blind
        self.group_estimator = group_estimator

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> SeparatedScorer:
        """Cross-fit the classifier, then fit the kernel to the out-of-fold scores.

        Args:
            X, y: rows and labels.
            sensitive_features: groups; not where `sensitive_columns` names them.
            sample_weight: weight of each row.
            groups: who each row is about: one fold each. Not the sensitive groups.
        """
        learned = self._learn(X, y, sensitive_features, sample_weight, groups)
        self.classes_ = np.unique(learned.y)
        if learned.z is None:
            raise InputError(
                "A separated score needs groups: pass `sensitive_features`, or name columns of X "
                "by `sensitive_columns`."
            )
        if len(self.classes_) != 2:
            if len(self.classes_) > 2:
                raise InputError(
                    "Only binary classification is supported: a separated score is for two labels; "
                    f"`y` has {len(self.classes_)} ({listed(self.classes_.tolist())})."
                )
            raise InputError(
                "A separated score is for two labels; `y` has one class "
                f"({listed(self.classes_.tolist())})."
            )
        labels, z, weight = learned.y, learned.z, learned.weight
        codes = np.searchsorted(self.classes_, labels)
        self.penalty_: float | str | None
        self.score_: SeparatedScore | BlindScore
        if self.blind:
            last = _PATH[-1] if self.penalty in (None, "auto") else float(self.penalty)
            options = {"group_estimator": self.group_estimator, "left_out": self._holding(learned)}
            self.crossfit_ = self._cross_fit(learned, "joint", z, **options)
            path = [b for b in _PATH if b < last] + [last]
            self.penalty_ = last
            w = np.ones(len(labels)) if weight is None else weight
            self.score_ = blind_scores(self.crossfit_.scores, codes, z, w, path)[-1]
        else:
            self.crossfit_ = self._cross_fit(learned, "x", z)
            self.score_ = self._fit_score(labels, codes, z, weight)
        choice = {"maximize": "auroc", "penalty": self.penalty_}
        self._ship(self.crossfit_, self.score_, tuple(self.classes_.tolist()), choice)
        return self

    def _fit_score(
        self, labels: NDArray[Any], y: Codes, z: Codes, weight: Array | None
    ) -> SeparatedScore:
        """The score that reads the group, from out-of-fold scores; sets `penalty_`."""
        w = np.ones(len(y)) if weight is None else weight
        scores, self.penalty_ = self.crossfit_.scores[:, 1], self.penalty
        if self.penalty == "auto":
            self.penalty_choice_ = choose_penalty(scores, y, z, w, self.groups_)
            self.penalty_ = self.penalty_choice_.penalty
        if self.penalty_ == RAW:
            return raw_score(y, scores, z, w, tuple(self.classes_.tolist()), self.groups_)
        return separate(
            labels,
            self.crossfit_.scores,
            sensitive_features=Coded(z, self.groups_),
            sample_weight=weight,
            penalty=self.penalty_,  # type: ignore[arg-type]
            borrow=True,
        )

    def level_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(S = level | x, z), array (n, m), levels rising."""
        check_is_fitted(self, "score_")
        if isinstance(self.score_, BlindScore):
            raise InputError("A blind score is not drawn from levels: use `decision_function(X)`.")
        return self._law(X, sensitive_features)

    def decision_function(
        self,
        X: Any,
        sensitive_features: Any = None,
        random_state: Any = UNSET,
        *,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """A drawn score per row, array (n,): one of `score_.levels`, P(Y = second label | S).

        A blind score is not drawn and reads X alone.

        Args:
            X, sensitive_features: rows and their groups.
            random_state: seed of the coins; by default the scorer's own, where None throws fresh
                ones at every call.
            ids, salt: one identity per row and a secret: then a person always gets the same coins.
        """
        return self._drawn(X, sensitive_features, random_state, ids, salt).proba[:, 1]

    def predict_proba(
        self,
        X: Any,
        sensitive_features: Any = None,
        random_state: Any = UNSET,
        *,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """[1 − score, score] with the score of `decision_function`, array (n, 2)."""
        return self._drawn(X, sensitive_features, random_state, ids, salt).proba

    def predict(
        self,
        X: Any,
        sensitive_features: Any = None,
        random_state: Any = UNSET,
        *,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> NDArray[Any]:
        """The second label where the score of `decision_function` is at least one half, (n,)."""
        found = self._drawn(X, sensitive_features, random_state, ids, salt)
        return np.asarray(self.classes_[found.codes])

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The AUROC; of a drawn score the mean over its coins."""
        second = np.asarray(y) == self.classes_[1]
        w = (
            np.ones(len(second))
            if sample_weight is None
            else np.asarray(sample_weight, dtype=float)
        )
        if isinstance(self.score_, BlindScore):
            found = self.decision_function(X)
            return float(roc_auc_score(second, found, sample_weight=sample_weight))
        law = self.level_proba(X, sensitive_features) * w[:, None]
        return float(area(np.stack([law[~second].sum(0), law[second].sum(0)])[:, None]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tagged_as(tags, self.estimator)
