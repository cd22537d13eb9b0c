"""What solves for the best rule at a level of a budget: one face for all of them.

A solver is asked for rising levels and gives one `Solution` each. State is passed and returned: a
solution's `start` is where the search for a near level may start, and nothing else is remembered
that could change an answer by more than its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.measures import budget_named
from separatrix.optimum.law import BlindLaw, LabelLaw, gains_of
from separatrix.optimum.multiclass.column_generation import ColumnPoint, Columns, best_blind
from separatrix.optimum.multiclass.dual import DualPoint, DualState, LabelDual
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import DecisionCurve, least_level, rule_of, solve
from separatrix.optimum.roc.regions import RocCurve
from separatrix.optimum.rules import Rule

__all__ = ["ColumnSolver", "DualSolver", "RocSolver", "Solution", "Solver"]

Array = NDArray[np.float64]
_CLOSE = 1e-6  # of the range of the gains, between the value and the bound of a mixture of columns
_STRICTEST = 1e-6  # nats: below, rounding decides the dual
_SLOW = 11  # points of a curve where each takes a third of a second
_NO_BUDGET = 1e-12  # a budget that the best decision uses less of than this is none


class Solution(NamedTuple):
    """The best decisions found for one level.

    Args:
        value: the objective.
        upper: a bound that no decision within the level exceeds; NaN where nothing is proven.
        rates: P(U=u | Y=y, Z=z), array (labels, groups, U).
        rule: makes the rule that has these rates.
        start: where the search for a near level may start.
    """

    value: float
    upper: float
    rates: Array
    rule: Callable[[], Rule]
    start: Any = None


class Solver(Protocol):
    """The best decisions of one law, for one objective and one budget.

    Args:
        mass: P(Y=y, Z=z), array (labels, groups).
        groups: their names.
        maximize, budget: as in `limit`.
        strictest: the smallest level that can be answered.
    """

    mass: Array
    groups: Levels
    maximize: Any
    budget: str
    strictest: float

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """One solution for each of rising levels."""

    def spaced(self, points: int) -> Array:
        """Levels from the strictest to what the best decision without a budget uses."""


class RocSolver:
    """Two labels and a score: randomised thresholds per group (`roc.decisions`).

    Args:
        curves: the groups' ROC curves.
        mass: P(Y=y, Z=z), array (groups, 2).
        maximize, budget, groups, tolerance: as in `limit`.
    """

    strictest = 0.0

    def __init__(
        self,
        curves: tuple[RocCurve, ...],
        mass: Array,
        maximize: str | Cost,
        budget: str,
        groups: Levels,
        tolerance: float | None = None,
    ) -> None:
        self.curves, self.mass, self.groups = curves, mass.T, groups
        self.maximize, self.budget, self.tolerance = maximize, budget, tolerance

    def curve(self, levels: Array) -> DecisionCurve:
        """The best rates (n, groups, 2) for rising levels."""
        return solve(
            self.curves, self.mass.T, maximize=self.maximize, budget=self.budget, levels=levels,
            groups=self.groups, tolerance=self.tolerance,
        )  # fmt: skip

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """As in `Solver`; no search starts from another."""
        curve = self.curve(levels)
        ones = np.swapaxes(curve.rates, 1, 2)  # (n, labels, groups)
        rates = np.stack([1.0 - ones, ones], axis=-1)
        return [
            Solution(float(value), float(upper), own, self._rule(x))
            for value, upper, own, x in zip(
                curve.values, curve.upper, rates, curve.rates, strict=True
            )
        ]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        # no rate differs by more than one, and v of two labels and decisions is at most log 2
        free = self.curve(np.ones(1))
        top = float(budget_named(self.budget).measure(free.rates[0], self.mass.T))
        least = least_level(self.curves, self.mass.T, self.budget)
        if self.maximize == "utility" and self.budget in ("independence", "predictive_gap"):
            points = min(points, _SLOW)
        wide = max(top - least, 0.0)
        steps = wide * np.linspace(0.0, 1.0, points) ** 2 if wide > _NO_BUDGET else np.zeros(1)
        return least + steps

    def _rule(self, rates: Array) -> Callable[[], Rule]:
        return lambda: rule_of(rates, self.curves, self.mass.T, self.groups)


class DualSolver:
    """More labels under a violation: a convex dual (`multiclass.dual`).

    Args:
        dual: of a law and an objective.
        groups: their names.
        maximize: as in `limit`.
    """

    budget, strictest = "violation", _STRICTEST

    def __init__(self, dual: LabelDual, groups: Levels, maximize: Any) -> None:
        self.dual, self.groups, self.maximize = dual, groups, maximize
        self.mass = dual.law.mass

    def solve(self, levels: Array, start: DualState | None = None) -> list[Solution]:
        """As in `Solver`: the loosest first, each the start of the next.

        The utility has many local optima. Where a level ends below a stricter one, it is searched
        once more from there.
        """
        found: list[DualPoint] = []
        for level in levels[::-1].tolist():
            found.append(self.dual.solve(level, found[-1].start if found else start))
        found.reverse()
        for j in range(1, len(found)):
            if found[j].value < found[j - 1].value:
                again = self.dual.solve(float(levels[j]), found[j - 1].start)
                found[j] = max(found[j], again, key=lambda point: point.value)
        return [self._solution(point) for point in found]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        top = max(self.dual.solve(np.inf).violation, 2 * _STRICTEST)
        return np.maximum(top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2, _STRICTEST)

    def _solution(self, point: DualPoint) -> Solution:
        rates = point.table / np.where(self.mass > 0, self.mass, 1.0)[..., None]
        return Solution(
            point.value, point.upper, rates, lambda: point.rule(self.groups), point.start
        )


class ColumnSolver:
    """Mixtures of decisions, with the group or of x alone: `multiclass.column_generation`.

    Args:
        law: of the posteriors, for more than two labels under an EO budget, or atoms x with
            q(y, z | x).
        groups, maximize, budget: as in `limit`.
    """

    strictest = 0.0

    def __init__(
        self, law: LabelLaw | BlindLaw, groups: Levels, maximize: Any, budget: str
    ) -> None:
        self.mass, self.groups, self.maximize, self.budget = law.mass, groups, maximize, budget
        self.columns = Columns(law, budget_named(budget))

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """As in `Solver`; the columns found so far serve every level."""
        found = [self._point(level) for level in levels[::-1].tolist()][::-1]
        return [Solution(p.value, p.upper, p.rates, self._rule(p)) for p in found]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        (free,) = self.solve(np.ones(1))
        top = float(budget_named(self.budget)(self.mass[..., None] * free.rates))
        return top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2

    def _point(self, level: float) -> ColumnPoint:
        if isinstance(self.columns.law, BlindLaw):
            return best_blind(self.columns, self.maximize, level, self.groups)
        gains = gains_of(self.maximize, self.columns.law.prior)
        assert gains is not None
        each = np.broadcast_to(gains[:, None], (*self.mass.shape, len(gains)))
        return self.columns.best(each, level, _CLOSE)

    def _rule(self, point: ColumnPoint) -> Callable[[], Rule]:
        if isinstance(self.columns.law, BlindLaw):
            return lambda: point.rule
        return lambda: point.group_rule(self.groups)
