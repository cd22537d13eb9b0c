"""Scoring: the procedure that makes the score with the best AUROC within budgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.core import ordered
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.optimum.scores.blind_scores import BlindScore, blind_scores
from separatrix.optimum.scores.separate import separate
from separatrix.optimum.scores.separated import SeparatedScore
from separatrix.procedure.procedures import Budgets, Rows, Solver, too_few

__all__ = ["Scoring"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

_DRAWS = 200
_BLIND = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_PENALTIES = (None, 30.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.0)


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

    is_score = True

    @property
    def promises(self) -> bool:
        return bool(self.budgets) and not self.exact

    def solver(self, scores: Array, rows: Rows) -> Solver:
        """The least penalised score that is expected to keep any budgets of the same kinds on
        unseen rows; scores of the path are fitted once.
        """
        groups = rows.groups
        labels = scores.shape[1] // (len(groups) if self.blind else 1)
        if labels != 2:
            raise InputError(
                f"A separated score is for two labels, got {labels}: maximize accuracy or utility "
                "instead."
            )
        path = (_BlindPath if self.blind else _Path)(scores, rows.y, rows.z, len(groups))
        strictest = path.strictest

        def score(budgets: Budgets, whole: Any = None) -> SeparatedScore | BlindScore:
            def keeps(i: int) -> bool:
                return all(path.at(i)[1][name] <= most for name, most in budgets.items())

            if self.exact:
                return path.at(strictest)[0]
            if not keeps(strictest):
                used = path.at(strictest)[1]
                raise too_few(budgets, {name: used[name] for name in budgets}, np.nan)
            low, high = strictest, len(path) - 1
            while low < high:  # what is used rises along the path
                middle = (low + high + 1) // 2
                low, high = (middle, high) if keeps(middle) else (low, middle - 1)
            return path.at(low)[0]

        return score

    def law(self, rule: SeparatedScore | BlindScore, scores: Array, z: Codes) -> Array:
        """P(level | row), in at most 100 steps."""
        if isinstance(rule, BlindScore):
            return _steps(_blind_score(rule, scores))
        levels = rule.level_proba(scores, sensitive_features=z)
        law = ordered.merged(levels, rule.table.sum((0, 1)), 100)
        return law if law.shape[1] > 1 else np.hstack([np.zeros_like(law), law])


class _Path:
    """Scores from exact separation on, each with what unseen rows are expected to show of it."""

    def __init__(self, scores: Array, y: Codes, z: Codes, groups: int) -> None:
        self.scores, self.y, self.z = scores, y, z
        self.cells = np.bincount(y * groups + z, minlength=2 * groups).reshape(2, -1)
        self.known: dict[int, tuple[Any, dict[str, float]]] = {}

    def __len__(self) -> int:
        return len(_PENALTIES)

    @property
    def strictest(self) -> int:
        """The place of exact separation."""
        return 0

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
    """The same of scores that do not see the group, from the largest penalty on.

    A map per group fits the noise of its rows too, so what a score uses is measured on the other
    half of the rows than it was fitted to.
    """

    def __init__(self, scores: Array, y: Codes, z: Codes, groups: int) -> None:
        super().__init__(scores, y, z, groups)
        half = np.random.default_rng(0).permutation(len(y)) % 2
        tables = np.zeros((len(_BLIND), 2, groups, ordered.BINS))
        for k in (0, 1):
            test = half != k
            for i, one in enumerate(self._fitted(half == k)):
                law = _steps(_blind_score(one, scores[test]), ordered.BINS)
                table = soft_sums(law, y[test], z[test], (2, groups))[0]
                tables[i, ..., : table.shape[-1]] += table
        for i, score in enumerate(self._fitted(np.ones(len(y), dtype=bool))):
            used = {
                "violation": float(conditional_mutual_information(tables[i])),
                "eo_gap": float(ordered.largest_gap(tables[i])),
            }
            self.known[i] = score, used

    def __len__(self) -> int:
        return len(self.known)

    @property
    def strictest(self) -> int:
        """The score that used least: a large penalty on few rows may use more than a small one."""
        return min(self.known, key=lambda i: self.known[i][1]["violation"])

    def _fitted(self, rows: NDArray[np.bool_]) -> list[BlindScore]:
        q = self.scores[rows].reshape(int(rows.sum()), 2, -1)
        return blind_scores(q, self.y[rows], self.z[rows], np.ones(len(q)), _BLIND)[::-1]


def _blind_score(rule: BlindScore, scores: Array) -> Array:
    """A blind score (m,) from joint scores (m, labels × groups)."""
    return np.asarray(rule.transform(scores.reshape(len(scores), 2, len(rule.values))))


def _steps(score: Array, most: int = 100) -> Array:
    """Rows as a law over at most so many levels of about equal mass, in order: zeros and ones."""
    cuts = np.unique(np.quantile(score, np.arange(1, most) / most))
    return np.eye(len(cuts) + 1)[np.searchsorted(cuts, score, side="right")]


def _expected(table: Array, cells: NDArray[np.intp]) -> dict[str, float]:
    """What unseen rows are expected to show of a fitted score: its law (2, z, level) drawn anew."""
    coarse = ordered.merged(table, table.sum((0, 1)), ordered.BINS)
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
