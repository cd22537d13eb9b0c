"""The result of `limit` for two labels: the best binary decision for every budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.columns.values import Levels, listed
from separatrix.core.criteria import CRITERIA
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.core.numbers import one_number
from separatrix.display import new_axes, root_scale, wrapped
from separatrix.errors import InputError
from separatrix.optimum.objectives import BUDGETS, Cost, Value, budget_named, objective_of
from separatrix.optimum.roc.decisions import DecisionCurve, rule_of, solve
from separatrix.optimum.roc.regions import Regions, RocCurve
from separatrix.optimum.rules import ThresholdChannel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DecisionLimit", "checked_level"]

Array = NDArray[np.float64]
_SHOWN = 9  # rows of the table


@dataclass(frozen=True, eq=False)
class DecisionLimit:
    """The best binary decisions from a score, one for each level of the budget.

    Args:
        levels: the budgets, rising.
        values: the objective of the best decision found within each.
        upper: a proven upper bound on the objective of any binary decision from the score and the
            group within that budget.
        maximize, budget: what is maximised and what is kept small, see `OBJECTIVES`, `BUDGETS`.
        labels, groups: the second label is U = 1.
        rates: P(U=1|Y=y, Z=z) of each decision, array (n, groups, 2): false-positive and
            true-positive rate.
        curves, mass: the groups' ROC curves and P(Y=y, Z=z), which is all that was used.
    """

    levels: Array
    values: Array
    upper: Array
    maximize: str | Cost
    budget: str
    labels: Levels
    groups: Levels
    rates: Array = field(repr=False)
    curves: tuple[RocCurve, ...] = field(repr=False)
    mass: Array = field(repr=False)
    tolerance: float | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit."""
        return float((self.upper - self.values).max())

    @property
    def violation(self) -> Array:
        """v of the decisions; where v is the budget, the levels."""
        if self.budget == "violation":
            return self.levels
        return BUDGETS["violation"].measure(self.rates, self.mass)

    @property
    def utility(self) -> Array:
        """u of the decisions."""
        return self._value("utility")

    @cached_property
    def regions(self) -> Regions:
        """The groups' ROC regions."""
        return Regions([curve.rates[curve.hull] for curve in self.curves], self.mass)

    def solve(self, level: float) -> DecisionCurve:
        """The limit at one level, solved for it."""
        return solve(
            self.curves,
            self.mass,
            maximize=self.maximize,
            budget=self.budget,
            levels=np.array([checked_level(level, self.budget)]),
            groups=self.groups,
            tolerance=self.tolerance,
        )

    def rule(self, level: float) -> ThresholdChannel:
        """The best rule within the budget `level`, solved for exactly that level."""
        return rule_of(self.solve(level).rates[0], self.curves, self.regions, self.groups)

    def envelope(self) -> Envelope:
        """What a public coin between two of the decisions reaches on average."""
        return concave_envelope(self.levels, self.values)

    def revealed(self, level: float) -> tuple[ThresholdChannel, ThresholdChannel, float]:
        """Two rules and the probability of the second: the point of `envelope()` at `level`."""
        mixture = self.envelope().mixture(checked_level(level, self.budget))
        first, second = (
            rule_of(self.rates[i], self.curves, self.regions, self.groups)
            for i in (mixture.first, mixture.second)
        )
        return first, second, mixture.weight

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a few levels: the budget, the objective, and the groups' rates."""
        objective, budget = objective_of(self.maximize), budget_named(self.budget)
        columns: dict[str, list[str]] = {}
        rows = np.unique(np.linspace(0, len(self.levels) - 1, _SHOWN).round().astype(int))
        at = self.rates[rows]
        columns[f"{budget.label} at most"] = [f"{x:.4g}" for x in self.levels[rows]]
        columns[objective.label] = [f"{x:.4f}" for x in self.values[rows]]
        for name, label in (("accuracy", "accuracy"), ("utility", "u")):
            columns.setdefault(label, [f"{x:.4f}" for x in Value.of(name, self.mass, ())(at)])
        own = CRITERIA[budget.criterion].gap_name
        for name in dict.fromkeys((own, "eo_gap", "violation")):
            if name != self.budget:
                used = BUDGETS[name].measure(at, self.mass)
                columns[BUDGETS[name].label] = [f"{x:.4g}" for x in used]
        for y, label in enumerate(("FPR", "TPR")):
            here = at[:, self.mass[:, y] > 0, y]
            columns[label] = [
                f"{low:.3f}-{high:.3f}" for low, high in zip(here.min(1), here.max(1), strict=True)
            ]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        header, rows = self.table()
        width = [max(map(len, column)) + 2 for column in zip(header, *rows, strict=True)]
        lines = [
            "".join(cell.rjust(w) for cell, w in zip(row, width, strict=True))
            for row in (header, *rows)
        ]
        return "\n".join([*wrapped(self._title()), *lines])

    def _repr_html_(self) -> str:
        header, rows = self.table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return f"<p>{escape(self._title())}</p><table><tr>{head}</tr>{body}</table>"

    def plot(self, ax: Axes | None = None) -> Axes:
        """The objective of the best decision against the budget; returns the axes."""
        ax = new_axes(5.0, 3.4) if ax is None else ax
        objective, budget = objective_of(self.maximize), budget_named(self.budget)
        ax.plot(self.levels, self.values, color="#0072b2", label="best binary decision")
        ax.plot(self.levels, self.upper, color="#555555", lw=0.8, ls="--", label="upper bound")
        root_scale(ax)
        ax.set_xlabel(f"{budget.label} at most")
        ax.set_ylabel(objective.label)
        ax.legend(frameon=False)
        return ax

    def _title(self) -> str:
        objective, budget = objective_of(self.maximize), budget_named(self.budget)
        named = listed(tuple(map(group_name, self.groups)))
        return (
            f"Best {objective.label} of any binary decision, by {budget.label}; "
            f"{len(self.groups)} groups ({named}), U = {self.labels[1]!r}, "
            f"certified within {self.gap:.1g}"
        )

    def _value(self, maximize: str) -> Array:
        return Value.of(maximize, self.mass, ())(self.rates)


def checked_level(level: float, budget: str) -> float:
    """A budget as a number: finite and not negative."""
    x = one_number(level, "level")
    if not 0.0 <= x < np.inf:
        raise InputError(
            f"The {budget} is an upper limit: it cannot be negative or infinite, got {level}."
        )
    return x
