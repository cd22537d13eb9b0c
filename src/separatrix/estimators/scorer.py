r"""A separated score around any classifier, cross-fitted, as a scikit-learn estimator.

*The penalty*, where it is "auto": the highest AUROC whose violation these rows cannot tell from
none. Exact separation gives AUROC away for a violation that no sample of this size could see, and
its own fit has a noise of that size. Candidates are the raw score, scores with a penalty β, and the
exact one. Each is fitted to four fifths of the rows and seen on the fifth, five times: counts
N[y, z, bin] of the level in 20 bins by its rank. Two statistics,

.. math:: v = I(S; Z \mid Y), \qquad
          g = \max_t \tfrac12 \sum_y \operatorname{range}_z P(S \ge t \mid y, z),

are compared with those of groups that are shuffled within the labels of each fold, once of the
pooled counts and once as means over folds: the noise of a fit cancels in pooled counts. A gamma law
with the mean and the variance of the shuffles gives the p-value. The candidate with the highest
AUROC among those with all four p ≥ .3 is taken; if there is none, the one with the largest smallest
p. The raw score has no noise of a fit: it needs p ≥ .4 in the pooled counts, which see most. Where
some group has fewer than 25 rows of a label, nothing can be told and the exact score is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import gamma
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from separatrix.columns.draws import UNSET, Ids, Salt
from separatrix.columns.values import Coded, Levels, listed
from separatrix.core.information import conditional_mutual_information
from separatrix.core.numerics import midpoints
from separatrix.core.score_tables import area, gap_curve
from separatrix.errors import InputError
from separatrix.estimators.base import Learned, Shipping, ShippingClassifier
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores
from separatrix.optimum.scores.separated import SeparatedScore, raw_score, separate, separation_path

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
_PATH = (1.0, 10.0, 100.0)  # the β that a blind score climbs by
RAW = "raw"
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
_FOLDS, _BINS, _SHUFFLES = 5, 20, 60
_FEWEST = 25  # rows of a cell: with fewer nothing can be told
_TOLD, _RAW_TOLD = 0.3, 0.4  # p-values below which a violation counts as seen


@dataclass(eq=False, repr=False)
class SeparatedScorer(ShippingClassifier):
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
            (`choose_penalty`); β of AUROC − β I(S; Z | Y); None for exact separation. If blind,
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

    estimator: Any = None
    penalty: float | str | None = "auto"
    sensitive_columns: Any = None
    blind: bool = False
    group_estimator: Any = None
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = None

    def _fit(self, learned: Learned) -> None:
        """Cross-fit the classifier, then fit the kernel to the out-of-fold scores."""
        codes, z, weight = self._label_codes(learned.y), learned.z, learned.weight
        w = np.ones(len(codes)) if weight is None else weight
        if z is None:
            raise InputError("A separated score needs groups: pass `sensitive_features`, or name `sensitive_columns`.")
        if len(self.classes_) != 2:
            has = f"`y` has {len(self.classes_)} classes ({listed(self.classes_.tolist())})"
            raise InputError(f"Only binary classification is supported: a separated score is for two labels; {has}.")
        self.penalty_: float | str | None
        self.score_: SeparatedScore | BlindScore
        if self.blind:
            self.penalty_ = _PATH[-1] if self.penalty in (None, "auto") else float(self.penalty)
            options = {"group_estimator": self.group_estimator, "left_out": self._holding(learned)}
            self.crossfit_ = self._cross_fit(learned, "joint", z, **options)
            path = [*(b for b in _PATH if b < self.penalty_), self.penalty_]
            self.score_ = blind_scores(self.crossfit_.scores, codes, z, w, path)[-1]
        else:
            self.crossfit_ = self._cross_fit(learned, "x", z)
            scores, self.penalty_ = self.crossfit_.scores, self.penalty
            if self.penalty == "auto":
                self.penalty_choice_ = choose_penalty(scores[:, 1], codes, z, w, self.groups_)
                self.penalty_ = self.penalty_choice_.penalty
            if self.penalty_ == RAW:
                self.score_ = raw_score(codes, scores[:, 1], z, w, tuple(self.classes_.tolist()), self.groups_)
            else:
                how: dict[str, Any] = {"penalty": self.penalty_, "sample_weight": weight, "borrow": True}
                self.score_ = separate(learned.y, scores, sensitive_features=Coded(z, self.groups_), **how)
        choice = {"maximize": "auroc", "penalty": self.penalty_}
        self._ship(self.crossfit_, self.score_, tuple(self.classes_.tolist()), choice)

    _weight = Shipping._weight  # the score takes them with the largest as one

    def level_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(S = level | x, z), array (n, m), levels rising."""
        check_is_fitted(self, "score_")
        if isinstance(self.score_, BlindScore):
            raise InputError("A blind score is not drawn from levels: use `decision_function(X)`.")
        return self._law(X, sensitive_features)

    def decision_function(
        self, X: Any, sensitive_features: Any = None, random_state: Any = UNSET, *, ids: Ids = None, salt: Salt = None
    ) -> Array:
        """A drawn score per row, array (n,): one of `score_.levels`, P(Y = second label | S).

        A blind score is not drawn and reads X alone.

        Args:
            X, sensitive_features: rows and their groups.
            random_state: seed of the coins; by default the scorer's own, where None throws fresh
                ones at every call.
            ids, salt: one identity per row and a secret: then a person always gets the same coins.
        """
        return self.predict_proba(X, sensitive_features, random_state, ids=ids, salt=salt)[:, 1]

    def predict_proba(
        self, X: Any, sensitive_features: Any = None, random_state: Any = UNSET, *, ids: Ids = None, salt: Salt = None
    ) -> Array:
        """[1 − score, score] with the score of `decision_function`, array (n, 2)."""
        return self._drawn(X, sensitive_features, random_state, ids=ids, salt=salt).proba

    def score(
        self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """The AUROC; of a drawn score the mean over its coins."""
        second = np.asarray(y) == self.classes_[1]
        if isinstance(self.score_, BlindScore):
            score = self.decision_function(X)
            return float(roc_auc_score(second, score, sample_weight=sample_weight))
        w = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64)
        law = self.level_proba(X, sensitive_features) * w[..., None]
        return float(area(np.stack([law[~second].sum(0), law[second].sum(0)])[:, None]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class PenaltyChoice(NamedTuple):
    """The penalty that was chosen, and what the others would have been.

    Args:
        penalty: β, "raw" for the score as it is, None for exact separation.
        candidates: by rising AUROC, (penalty, cross-validated AUROC, smallest p-value).
        chance_gap: the largest gap of so many rows that a score without any violation stays below
            in 95 % of samples: no smaller gap can be told from none. NaN where nothing was tried.
    """

    penalty: float | str | None
    candidates: tuple[tuple[float | str | None, float, float], ...]
    chance_gap: float


def choose_penalty(
    scores: Array, y: Codes, z: Codes, weight: Array, groups: Levels, random_state: int = 0
) -> PenaltyChoice:
    """The penalty with the highest AUROC whose violation these rows cannot tell from none.

    Args:
        scores: P(Y=1 | x) of rows that trained nothing.
        y, z: codes of labels (0, 1) and groups.
        weight: of each row.
        groups: their names.
        random_state: seed of folds and shuffles.

    >>> rng = np.random.default_rng(1)
    >>> y, z = rng.integers(0, 2, (2, 2000))
    >>> alike = 1 / (1 + np.exp(-rng.normal(size=2000) - 2 * y + 1))
    >>> choose_penalty(alike, y, z, np.ones(2000), (0, 1)).penalty
    'raw'
    >>> shifted = 1 / (1 + np.exp(-rng.normal(size=2000) - 2 * y + 1 - z))
    >>> choose_penalty(shifted, y, z, np.ones(2000), (0, 1)).penalty != 'raw'
    True
    """
    if np.bincount(2 * z + y, minlength=2 * len(groups)).min() < _FEWEST:
        return PenaltyChoice(None, (), np.nan)
    rng = np.random.default_rng(random_state)
    # dealt out by cell, so that every fold has rows of each
    order = np.lexsort((rng.random(len(y)), y, z))
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % _FOLDS
    names: list[float | str | None] = [RAW, *_PENALTIES, None]
    laws = np.zeros((len(names), len(y), _BINS))
    aurocs = np.zeros((_FOLDS, len(names)))
    for k in range(_FOLDS):
        train, test = fold != k, fold == k
        rows = y[train], scores[train], z[train], weight[train], (0, 1), groups
        exact, relaxed = separation_path(*rows, borrow=True, penalties=_PENALTIES)
        for i, score in enumerate([raw_score(*rows), *relaxed, exact]):
            q = score.level_proba(scores[test], sensitive_features=Coded(z[test], groups))
            law = q * weight[test][:, None]
            sides = np.stack([law[y[test] == label].sum(0) for label in (0, 1)])
            aurocs[k, i] = float(area(sides[:, None]))
            laws[i, test] = law @ _bins(sides.sum(0))
    seen, shuffled = _statistics(laws, y, z, fold, len(groups), rng)
    each = _p_values(seen, shuffled)
    p = np.r_[each[0, :2].min(), each[1:].min(-1)]  # of the raw score, the first, pooled counts
    mean = aurocs.mean(0)
    needed = np.array([_RAW_TOLD if name == RAW else _TOLD for name in names])
    passing = np.flatnonzero(p >= needed)
    chosen = int(passing[mean[passing].argmax()]) if len(passing) else int((p / needed).argmax())
    table = sorted(zip(names, mean.tolist(), p.tolist(), strict=True), key=lambda row: row[1])
    chance = float(np.quantile(shuffled[:, chosen, 1], 0.95))
    return PenaltyChoice(names[chosen], tuple(table), chance)


def _bins(mass: Array) -> Array:
    """Level → one of 20 bins by the middle of its rank, as zeros and ones (levels, 20)."""
    return np.eye(_BINS)[np.minimum((midpoints(mass) / mass.sum() * _BINS).astype(np.intp), _BINS - 1)]


def _statistics(
    laws: Array, y: Codes, z: Codes, fold: Codes, groups: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Pooled v and g and their means over folds, (candidates, 4); and the same of shuffles."""
    strata = [np.flatnonzero((fold == k) & (y == label)) for k in range(_FOLDS) for label in (0, 1)]
    # candidates side by side: one product of matrices counts them all
    flat = [np.moveaxis(laws[:, rows], 1, 0).reshape(len(rows), -1) for rows in strata]
    statistics = []
    for draw in range(_SHUFFLES + 1):
        tables = np.empty((_FOLDS, 2, groups, len(laws), _BINS))
        for s, rows in enumerate(strata):
            shuffled = z[rows] if draw == 0 else rng.permutation(z[rows])
            counts = np.eye(groups)[shuffled].T @ flat[s]
            tables[s // 2, s % 2] = counts.reshape(groups, len(laws), _BINS)
        by_fold = np.moveaxis(tables, -2, 1)  # (fold, candidate, y, z, bin)
        pooled = by_fold.sum(0)
        each = [conditional_mutual_information(by_fold).mean(0), gap_curve(by_fold).max(-1).mean(0)]
        whole = [conditional_mutual_information(pooled), gap_curve(pooled).max(-1)]
        statistics.append(np.stack([*whole, *each], -1))
    return statistics[0], np.array(statistics[1:])


def _p_values(seen: Array, shuffled: Array) -> Array:
    mean, variance = shuffled.mean(0), np.maximum(shuffled.var(0, ddof=1), 1e-300)
    return np.asarray(gamma.sf(seen, mean**2 / variance, scale=variance / mean))
