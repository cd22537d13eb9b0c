"""Procedures: all that lies between honest scores and what ships, in one object that can be run
again.

A procedure is run on the training rows of every fold and measured on its test rows; run once more
on all rows it is what ships. Nothing in it is taken from elsewhere, so what is measured is what is
shipped.

`Plain` is the base model as it is, `Decisions` the best rule for an objective within budgets: both
predict a distribution of labels. `Scoring` is the score with the best AUROC within budgets, a
distribution of levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Coded, Levels
from separatrix.core import score_tables
from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import METRICS
from separatrix.core.numerics import bisect
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.margin import PromisedRule, up
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import BlindPromises, LabelPromises, Promises, Promising
from separatrix.optimum.rules import BlindRule, PlainRule
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores
from separatrix.optimum.scores.separated import SeparatedScore, separate
from separatrix.report.words import budget_text
from separatrix.statistics.unseen import unseen

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Budgets = Mapping[str, float]
# budgets → the rule that keeps them. A fold is also given the rule of all rows, and takes over what
# that has settled.
Solver = Callable[[Budgets, Any], Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """The people that procedures are fitted to and measured on.

    Args:
        y, z: codes of labels and groups.
        labels, groups: what the codes stand for.
        weight: of each row; None for one each.
        share: independent observations per row, below 1 where a person has several rows.
    """

    y: Codes
    z: Codes
    labels: Levels
    groups: Levels
    weight: Array | None = None
    share: float = 1.0

    @property
    def weights(self) -> Array:
        """The weight of each row."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def counts(self) -> Array:
        """What each row counts for in errors and bounds: together as many as they are worth."""
        w = self.weights
        return np.asarray(w * (self.share * w.sum() / (w**2).sum()))

    @property
    def cells(self) -> tuple[int, int]:
        """How many labels and groups."""
        return len(self.labels), len(self.groups)

    def __getitem__(self, places: Codes) -> Rows:
        weight = None if self.weight is None else self.weight[places]
        return replace(self, y=self.y[places], z=self.z[places], weight=weight)


class Procedure(ABC):
    """What can be fitted to honest scores, and measured.

    Attributes:
        maximize, budgets, confidence: what is asked of it.
    """

    maximize: str | Cost = "accuracy"
    budgets: Budgets = MappingProxyType({})
    confidence: float | None = None

    @property
    def promises(self) -> bool:
        """Whether the budgets are for unseen rows: a promise above them is tightened."""
        return bool(self.budgets)

    @property
    def is_score(self) -> bool:
        """Whether it predicts levels of a score rather than labels."""
        return False

    @property
    def is_fitted(self) -> bool:
        """Whether its rule depends on the rows."""
        return True

    @abstractmethod
    def solver(self, scores: Array, rows: Rows) -> Solver:
        """The rule of any budgets of the same kinds; what these share is computed once.

        The rule raises `InfeasibleError` where the budgets cannot be promised.
        """

    @abstractmethod
    def law(self, rule: Any, scores: Array, z: Codes) -> Array:
        """P(U = u | row) of rows with these scores (m, C)."""


@dataclass(frozen=True)
class Plain(Procedure):
    """The base model as it is: what others are compared with.

    Args:
        maximize: the objective; all but costs and balanced accuracy take the most probable label.
        show: "decisions"; "posterior": labels drawn from it, the paper's randomised policy;
            "score": that of two labels, in 100 bins.
    """

    maximize: str | Cost = "accuracy"
    show: str = "decisions"

    @property
    def is_score(self) -> bool:
        return self.show == "score"

    @property
    def is_fitted(self) -> bool:
        return self.is_score or self.maximize not in ("accuracy", "utility")

    def solver(self, scores: Array, rows: Rows) -> Solver:
        """The threshold of the objective, or the edges of the bins of a score."""

        def rule(budgets: Budgets, whole: Any = None) -> PlainRule | Array | None:
            if self.show == "posterior":
                return None
            if self.is_score:
                return np.unique(np.quantile(scores[:, 1], np.arange(1, 100) / 100))
            w = rows.weights
            prior, share = (
                np.bincount(codes, w, n) / w.sum() for codes, n in zip((rows.y, rows.z), rows.cells, strict=True)
            )
            return PlainRule.for_objective(self.maximize, prior, rows.groups, share)

        return rule

    def law(self, rule: PlainRule | Array | None, scores: Array, z: Codes) -> Array:
        """Decisions or bins as zeros and ones, or the posterior."""
        if rule is None:
            return scores
        if isinstance(rule, PlainRule):
            return rule.predict_proba(scores)
        return np.eye(len(rule) + 1)[np.searchsorted(rule, scores[:, 1], side="right")]


@dataclass(frozen=True)
class Decisions(Procedure):
    """The best decisions for an objective within budgets.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost`.
        budgets: levels by the names of `core.measures.BUDGETS`; empty for the best rule.
        blind: without the group; the scores are then P(y, z | x), (n, labels × groups).
        margin: None: budgets are kept in expectation; 0: on the rows of the fit only.
        confidence: with which the budgets are kept instead.
    """

    maximize: str | Cost = "accuracy"
    budgets: Budgets = field(default_factory=dict)
    blind: bool = False
    margin: float | None = None
    confidence: float | None = None

    @property
    def promises(self) -> bool:
        return bool(self.budgets) and self.margin is None

    def solver(self, scores: Array, rows: Rows) -> Solver:
        """The rule of any budgets of the same kinds; curves and resamples are computed once."""
        kind: Any = BlindPromises if self.blind else Promises if scores.shape[1] == 2 else LabelPromises
        shaped = scores.reshape(len(scores), -1, len(rows.groups)) if self.blind else scores
        aim = {"maximize": self.maximize, "budget": min(self.budgets, default="eo_gap")}
        best = kind(shaped, rows.y, rows.z, rows.weights, rows.groups, **aim)

        def rule(budgets: Budgets, whole: PromisedRule | None = None) -> PromisedRule:
            if whole is not None and self.promises:
                # the margin was taken off the level once, on all rows
                return whole._replace(rule=best.at_level(whole.level), expected=np.nan)
            if not budgets:
                return best.rule()
            (_, asked), *others = sorted(budgets.items())
            promised = best.rule(asked, promised=self.margin is None, confidence=self.confidence)
            for other, most in others:
                promised = _stricter(best, promised, partial(self._used, other, scores, rows), other, most)
            return promised

        return rule

    def law(self, rule: PromisedRule, scores: Array, z: Codes) -> Array:
        """P(label | row)."""
        if isinstance(rule.rule, BlindRule):
            joint = scores.reshape(len(scores), *rule.rule.columns.shape[2:])
            return np.asarray(rule.rule.predict_proba(joint))
        return np.asarray(rule.rule.law(scores, Coded(z, rule.rule.groups)))

    def _used(self, name: str, scores: Array, rows: Rows, rule: PromisedRule) -> float:
        """What a rule is expected to use of another budget on unseen rows."""
        table, square = decision_sums(self.law(rule, scores, rows.z), rows, np.ones(len(rows.z)))
        return unseen(table[None], square[None], {name: METRICS[name]})[name].value


def _stricter(
    best: Promising, promised: PromisedRule, used: Callable[[PromisedRule], float], name: str, most: float
) -> PromisedRule:
    """The rule of the largest smaller level that is also expected to keep another budget."""
    if used(promised) <= most:
        return promised

    def at(level: float) -> PromisedRule:
        return promised._replace(rule=best.at_level(level), level=level, expected=np.nan)

    if (least := used(at(0.0))) > most:
        raise refusal({name: most}, {name: least})
    level, _ = bisect(lambda level: used(at(float(level))) <= most, 0.0, promised.level, 10)
    return at(float(level))


def refusal(asked: Budgets, smallest: Budgets) -> InfeasibleError:
    """The refusal of budgets that these rows cannot promise, with the smallest that they can."""
    least = " and ".join(f"{METRICS[name].label} {up(most)}" for name, most in smallest.items())
    said = f"With these rows no rule can promise {budget_text(asked)} in the population: the strictest promises {least}"
    hint = "Ask for that or more, bring more rows of the small groups, or join them."
    return InfeasibleError(f"{said}. {hint}", dict(smallest))


def decision_sums(law: Array, rows: Rows, counts: Array) -> tuple[Array, Array]:
    """Expected counts N[y, z, u] of decisions, and the same of squared probabilities."""
    cell, cells = rows.y * len(rows.groups) + rows.z, len(rows.labels) * len(rows.groups)
    first, second = np.zeros((2, *rows.cells, law.shape[1]))
    for u, share in enumerate(law.T):
        first[..., u] = np.bincount(cell, counts * share, cells).reshape(rows.cells)
        second[..., u] = np.bincount(cell, counts * share**2, cells).reshape(rows.cells)
    return first, second


_DRAWS = 200
_BLIND = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_PENALTIES = (None, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.0)


@dataclass(frozen=True)
class Scoring(Procedure):
    """The score with the best AUROC within budgets, for two labels.

    Args:
        budgets: "eo_gap": of the decision at *every* threshold; "violation": I(S;Z|Y) of the score
            in 20 bins. Empty: the best score of all.
        exact: separated exactly on the rows, whatever the budgets.
        blind: without the group; the scores are then P(y, z | x), (n, labels × groups).
    """

    budgets: Budgets = field(default_factory=dict)
    exact: bool = False
    blind: bool = False

    maximize = "auroc"

    @property
    def promises(self) -> bool:
        return bool(self.budgets) and not self.exact

    @property
    def is_score(self) -> bool:
        return True

    def solver(self, scores: Array, rows: Rows) -> Solver:
        """The least penalised score that is expected to keep any budgets of the same kinds on
        unseen rows; scores of the path are fitted once.
        """
        groups = rows.groups
        labels = scores.shape[1] // (len(groups) if self.blind else 1)
        if labels != 2:
            raise InputError(f"A separated score is for two labels, got {labels}: maximize accuracy or utility.")
        scored, count, strictest = (_blind_path if self.blind else _path)(scores, rows.y, rows.z, len(groups))

        def score(budgets: Budgets, whole: Any = None) -> SeparatedScore | BlindScore:
            def keeps(i: int) -> bool:
                return all(scored(i)[1][name] <= most for name, most in budgets.items())

            if not self.exact and not keeps(strictest):
                used = scored(strictest)[1]
                raise refusal(budgets, {name: used[name] for name in budgets})
            low, high = strictest, strictest if self.exact else count - 1
            while low < high:  # what is used rises along the path
                middle = (low + high + 1) // 2
                low, high = (middle, high) if keeps(middle) else (low, middle - 1)
            return scored(low)[0]

        return score

    def law(self, rule: SeparatedScore | BlindScore, scores: Array, z: Codes) -> Array:
        """P(level | row), in at most 100 steps."""
        if isinstance(rule, BlindScore):
            return _steps(_blind_score(rule, scores))
        levels = rule.level_proba(scores, sensitive_features=z)
        law = score_tables.merged(levels, rule.table.sum((0, 1)), 100)
        return law if law.shape[1] > 1 else np.hstack([np.zeros_like(law), law])


# the i-th score and what it is expected to use of each budget, how many there are, and the place of the strictest
Path = tuple[Callable[[int], tuple[Any, dict[str, float]]], int, int]


def _path(scores: Array, y: Codes, z: Codes, groups: int) -> Path:
    """Scores from exact separation on, each with what unseen rows are expected to show of it."""
    cells = np.bincount(y * groups + z, minlength=2 * groups).reshape(2, -1)

    @cache
    def scored(i: int) -> tuple[SeparatedScore, dict[str, float]]:
        score = separate(y, scores[:, 1], sensitive_features=z, penalty=_PENALTIES[i], borrow=True)
        return score, _expected(score.table, cells)

    return scored, len(_PENALTIES), 0


def _blind_path(scores: Array, y: Codes, z: Codes, groups: int) -> Path:
    """The same of scores that do not see the group, from the largest penalty on.

    A map per group fits the noise of its rows too, so what a score uses is measured on the other
    half of the rows than it was fitted to.
    """

    def fitted(rows: NDArray[np.bool_]) -> list[BlindScore]:
        q = scores[rows].reshape(int(rows.sum()), 2, -1)
        return blind_scores(q, y[rows], z[rows], np.ones(len(q)), _BLIND)[::-1]

    half = np.random.default_rng(0).permutation(len(y)) % 2
    tables = np.zeros((len(_BLIND), 2, groups, score_tables.BINS))
    for k in (0, 1):
        test = half != k
        for table, score in zip(tables, fitted(half == k), strict=True):
            law = _steps(_blind_score(score, scores[test]), score_tables.BINS)
            table[..., : law.shape[1]] += soft_sums(law, y[test], z[test], (2, groups))[0]
    violation = [float(conditional_mutual_information(table)) for table in tables]
    gap = [float(score_tables.gap_curve(table).max(-1)) for table in tables]
    used = [{"violation": v, "eo_gap": g} for v, g in zip(violation, gap, strict=True)]
    path = list(zip(fitted(np.ones(len(y), dtype=bool)), used, strict=True))
    # the score that used least: a large penalty on few rows may use more than a small one
    return path.__getitem__, len(path), int(np.argmin(violation))


def _blind_score(rule: BlindScore, scores: Array) -> Array:
    """A blind score (m,) from joint scores (m, labels × groups)."""
    return np.asarray(rule.transform(scores.reshape(len(scores), 2, len(rule.values))))


def _steps(score: Array, most: int = 100) -> Array:
    """Rows as a law over at most so many levels of about equal mass, in order: zeros and ones."""
    cuts = np.unique(np.quantile(score, np.arange(1, most) / most))
    return np.eye(len(cuts) + 1)[np.searchsorted(cuts, score, side="right")]


def _expected(table: Array, cells: NDArray[np.intp]) -> dict[str, float]:
    """What unseen rows are expected to show of a fitted score: its law (2, z, level) drawn anew."""
    coarse = score_tables.merged(table, table.sum((0, 1)), score_tables.BINS)
    total = coarse.sum(-1, keepdims=True)
    rates = coarse / np.where(total > 0, total, 1.0)
    rates[(total <= 0)[..., 0], 0] = 1.0
    law = rates / rates.sum(-1, keepdims=True)
    drawn = np.random.default_rng(0).multinomial(cells, law, size=(_DRAWS, *cells.shape))
    gap = score_tables.gap_curve(drawn.astype(np.float64)).max(-1)
    return {"violation": float(conditional_mutual_information(drawn).mean()), "eo_gap": float(gap.mean())}
