"""Procedures: all that lies between honest scores and what ships, in one object that can be run
again.

A procedure is run on the training rows of every outer fold and measured on its test rows; run once
more on all rows it is what ships (`nested` has the scores of both). Nothing in it is taken from
elsewhere, so what is measured is what is shipped.

- `Decisions`: the best rule for an objective within budgets. Its prediction is a law of labels.
- `Scoring`: the score with the best AUROC within budgets. Its prediction is a law of levels.
- `Plain`: the base model as it is, for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Levels
from separatrix.core import ordered
from separatrix.core.information import conditional_mutual_information
from separatrix.core.metrics import METRICS
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.blind import BlindPromises
from separatrix.optimum.blind_rules import BlindRule
from separatrix.optimum.blind_scores import BlindScore, blind_scores
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import PromisedRule, Promises
from separatrix.optimum.separated import SeparatedScore
from separatrix.optimum.separating import separate
from separatrix.statistics.unseen import unseen

__all__ = ["Decisions", "Plain", "Posterior", "Procedure", "Scoring"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Budgets = Mapping[str, float]
_BINS = 20  # of a score, where its violation is counted
_DRAWS = 200
_PENALTIES = (None, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.0)


class Procedure(Protocol):
    """What can be fitted to honest scores, and measured."""

    @property
    def budgets(self) -> Budgets: ...

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> Any:
        """The fitted rule; `InfeasibleError` where the budget cannot be promised."""
        ...

    def law(self, rule: Any, scores: Array, z: Codes) -> Array:
        """P(U = u | row) of test rows, (m, u), from their scores by each member (members, m, C)."""
        ...

    def at_least(self, smallest: Budgets) -> Procedure:
        """The same with budgets that are not below these."""
        ...


@dataclass(frozen=True)
class Decisions:
    """The best decisions for an objective within budgets.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost`.
        budgets: levels by the names of `optimum.objectives.BUDGETS`; empty for the best rule.
        blind: without the group; the scores are then P(y, z | x), (n, labels × groups).
        margin: None: budgets are kept in expectation; 0: on the rows of the fit only.
    """

    maximize: str | Cost = "accuracy"
    budgets: Budgets = field(default_factory=dict)
    blind: bool = False
    margin: float | None = None

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> PromisedRule:
        """The rule that is expected to keep every budget on unseen rows."""
        if not self.budgets:
            return self._promises(scores, y, z, groups, "eo_gap").rule(None)
        (name, asked), *others = sorted(self.budgets.items())
        best = self._promises(scores, y, z, groups, name)
        found = best.rule(asked, margin=self.margin)
        for other, most in others:
            used = partial(self._used, other, scores, y, z, groups)
            found = _stricter(best, found, used, other, most)
        return found

    def _used(
        self, name: str, scores: Array, y: Codes, z: Codes, groups: Levels, rule: PromisedRule
    ) -> float:
        """What a rule is expected to use of another budget on unseen rows."""
        law = self.law(rule, scores[None], z)
        table, moments = soft_sums(law, y, z, (law.shape[1], len(groups)))
        assert moments is not None
        square = np.diagonal(moments, axis1=-2, axis2=-1)
        return unseen(table[None], square[None], {name: _of(name)})[name].value

    def law(self, rule: PromisedRule, scores: Array, z: Codes) -> Array:
        """The mean over the members."""
        if isinstance(rule.rule, BlindRule):
            shape = rule.rule.columns.shape[2:]
            each = [rule.rule.predict_proba(one.reshape(len(one), *shape)) for one in scores]
        else:
            each = [rule.rule.predict_proba(one, sensitive_features=z) for one in scores]
        return np.asarray(np.mean(each, axis=0))

    def at_least(self, smallest: Budgets) -> Decisions:
        return replace(self, budgets=_raised(self.budgets, smallest))

    def _promises(
        self, scores: Array, y: Codes, z: Codes, groups: Levels, budget: str
    ) -> Promises | BlindPromises:
        codes = tuple(range(len(groups)))
        aim: Any = _coded(self.maximize, groups)
        weight = np.ones(len(y))
        if self.blind:
            q = scores.reshape(len(scores), -1, len(groups))
            return BlindPromises(q, y, z, weight, codes, maximize=aim, budget=budget)
        return Promises(scores, y, z, weight, codes, maximize=aim, budget=budget)


@dataclass(frozen=True)
class Scoring:
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

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> SeparatedScore | BlindScore:
        """The least penalised score that is expected to keep every budget on unseen rows."""
        labels = scores.shape[1] // (len(groups) if self.blind else 1)
        if labels != 2:
            raise InputError(
                f"A separated score is for two labels, got {labels}: maximize accuracy or utility "
                "instead."
            )
        path = (_BlindPath if self.blind else _Path)(scores, y, z, len(groups))
        if self.exact:
            return path.at(0)[0]

        def keeps(i: int) -> bool:
            return all(path.at(i)[1][name] <= most for name, most in self.budgets.items())

        if self.budgets and not keeps(0):
            used = path.at(0)[1]
            raise _too_few(self.budgets, {name: used[name] for name in self.budgets}, np.nan)
        low, high = 0, len(path) - 1
        while low < high:  # what is used rises along the path
            middle = (low + high + 1) // 2
            low, high = (middle, high) if keeps(middle) else (low, middle - 1)
        return path.at(low)[0]

    def law(self, rule: SeparatedScore | BlindScore, scores: Array, z: Codes) -> Array:
        """The law of the levels, the mean over the members, in at most 100 steps."""
        if isinstance(rule, BlindScore):
            return _steps(blind_score(rule, scores))
        each = [rule.level_proba(one, sensitive_features=z) for one in scores]
        mass = rule.table.sum((0, 1))
        law = ordered.merged(np.mean(each, axis=0), mass, 100)
        return law if law.shape[1] > 1 else np.hstack([np.zeros_like(law), law])

    def at_least(self, smallest: Budgets) -> Scoring:
        return replace(self, budgets=_raised(self.budgets, smallest))


@dataclass(frozen=True)
class Plain:
    """The base model as it is: its most probable label, or its score in 100 bins.

    Args:
        score: the score of two labels instead of decisions.
        blind: the scores are P(y, z | x), (n, labels × groups), and are summed over the groups.
    """

    score: bool = False
    blind: bool = False
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> tuple[Array, int]:
        """The edges of the bins of a score, and the number of groups of joint scores."""
        own = self._labels(scores, len(groups))
        cuts = np.quantile(own[:, 1], np.arange(1, 100) / 100) if self.score else np.array([])
        return np.unique(cuts), len(groups)

    def law(self, rule: tuple[Array, int], scores: Array, z: Codes) -> Array:
        """The mean over the members of decisions or bins."""
        cuts, groups = rule
        scores = self._labels(scores, groups)
        if not self.score:
            return np.asarray(np.mean([np.eye(s.shape[1])[s.argmax(1)] for s in scores], axis=0))
        bins = np.eye(len(cuts) + 1)
        each = [bins[np.searchsorted(cuts, s[:, 1], side="right")] for s in scores]
        return np.asarray(np.mean(each, axis=0))

    def _labels(self, scores: Array, groups: int) -> Array:
        return _label_scores(scores, groups) if self.blind else scores

    def at_least(self, smallest: Budgets) -> Plain:
        return self


@dataclass(frozen=True)
class Posterior:
    """The base model's posterior itself, drawn from: the paper's randomised policy."""

    blind: bool = False
    budgets: Budgets = field(default_factory=dict)

    def fit(self, scores: Array, y: Codes, z: Codes, groups: Levels) -> int:
        """The number of groups of joint scores."""
        return len(groups)

    def law(self, rule: int, scores: Array, z: Codes) -> Array:
        """The mean posterior of the members."""
        q = scores.mean(0)
        return _label_scores(q, rule) if self.blind else np.asarray(q)

    def at_least(self, smallest: Budgets) -> Posterior:
        return self


def _label_scores(scores: Array, groups: int) -> Array:
    """P(y | x) from joint scores P(y, z | x), (..., labels × groups)."""
    return np.asarray(scores.reshape(*scores.shape[:-1], -1, groups).sum(-1))


def _of(name: str) -> Callable[[Array], Array]:
    measure = METRICS[name].of
    assert measure is not None
    return measure


class _Path:
    """Scores from exact separation on, each with what unseen rows are expected to show of it."""

    def __init__(self, scores: Array, y: Codes, z: Codes, groups: int) -> None:
        self.scores, self.y, self.z = scores, y, z
        self.cells = np.bincount(y * groups + z, minlength=2 * groups).reshape(2, -1)
        self.known: dict[int, tuple[Any, dict[str, float]]] = {}

    def __len__(self) -> int:
        return len(_PENALTIES)

    def at(self, i: int) -> tuple[Any, dict[str, float]]:
        """The i-th score and what it is expected to use of each budget; the first is strictest."""
        if i not in self.known:
            score = separate(
                self.y, self.scores[:, 1], sensitive_features=self.z, penalty=_PENALTIES[i],
                borrow=True,
            )  # fmt: skip
            self.known[i] = score, _expected(score.table, self.cells)
        return self.known[i]


class _BlindPath(_Path):
    """The same of scores that do not see the group, from the largest penalty on."""

    def __init__(self, scores: Array, y: Codes, z: Codes, groups: int) -> None:
        super().__init__(scores, y, z, groups)
        q = scores.reshape(len(scores), 2, groups)
        found = blind_scores(q, y, z, np.ones(len(y)))[::-1]
        for i, score in enumerate(found):
            table = soft_sums(_steps(blind_score(score, scores[None])), y, z, (2, groups))[0]
            self.known[i] = score, _expected(table, self.cells)

    def __len__(self) -> int:
        return len(self.known)


def blind_score(rule: BlindScore, scores: Array) -> Array:
    """The mean over the members (members, m, labels × groups) of a blind score, (m,)."""
    groups = len(rule.values)
    return np.asarray(np.mean([rule.transform(s.reshape(len(s), 2, groups)) for s in scores], 0))


def _steps(score: Array) -> Array:
    """Rows as a law over at most 100 levels of about equal mass, in order: zeros and ones."""
    cuts = np.unique(np.quantile(score, np.arange(1, 100) / 100))
    return np.eye(len(cuts) + 1)[np.searchsorted(cuts, score, side="right")]


def _expected(table: Array, cells: NDArray[np.intp]) -> dict[str, float]:
    """What unseen rows are expected to show of a fitted score: its law (2, z, level) drawn anew."""
    coarse = ordered.merged(table, table.sum((0, 1)), _BINS)
    total = coarse.sum(-1, keepdims=True)
    rates = coarse / np.where(total > 0, total, 1.0)
    rates[(total <= 0)[..., 0], 0] = 1.0
    law = rates / rates.sum(-1, keepdims=True)
    drawn = np.random.default_rng(0).multinomial(cells, law, size=(_DRAWS, *cells.shape))
    gap = ordered.largest_gap(drawn.astype(np.float64))
    return {
        "violation": float(conditional_mutual_information(drawn).mean()),
        "eo_gap": float(gap.mean()),
    }


def _stricter(
    best: Promises | BlindPromises,
    found: PromisedRule,
    used: Callable[[PromisedRule], float],
    name: str,
    most: float,
) -> PromisedRule:
    """The rule of the largest smaller level that is also expected to keep another budget."""
    if used(found) <= most:
        return found
    low, high, kept = 0.0, found.level, best.rule(0.0, margin=0.0)
    if used(kept) > most:
        raise _too_few({name: most}, {name: used(kept)}, float("nan"))
    for _ in range(10):
        middle = 0.5 * (low + high)
        rule = best.rule(middle, margin=0.0)
        if used(rule) <= most:
            low, kept = middle, rule
        else:
            high = middle
    return kept


def _too_few(asked: Budgets, smallest: Budgets, value: float) -> InfeasibleError:
    wanted = " and ".join(f"{name} ≤ {most:g}" for name, most in asked.items())
    least = " and ".join(f"{name} ≤ {most:.4g}" for name, most in smallest.items())
    return InfeasibleError(
        f"With these rows nothing can promise {wanted} on unseen rows: even exact equality on the "
        f"rows is expected to show {least}. Ask for that or more, or bring more rows.",
        dict(smallest),
        value,
    )


def _raised(budgets: Budgets, smallest: Budgets) -> dict[str, float]:
    return {name: max(most, smallest.get(name, 0.0) * (1 + 1e-9)) for name, most in budgets.items()}


def _coded(maximize: str | Cost, groups: Levels) -> str | Cost:
    """A cost by group, with codes instead of names."""
    if not isinstance(maximize, Cost):
        return maximize
    by_code: list[Any] = [
        dict(enumerate(column)) for column in maximize.per_group(groups).T.tolist()
    ]
    return Cost(*by_code)
