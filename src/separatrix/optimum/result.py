"""The result of every limit: the best decisions for each level of a budget, and their rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.columns.values import Levels, listed
from separatrix.core.envelope import Envelope, concave_envelope, rising
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.measures import BUDGETS, CRITERIA, budget_named
from separatrix.core.numbers import one_number
from separatrix.errors import InputError
from separatrix.optimum.objectives import Value, objective_of
from separatrix.optimum.rules import Rule
from separatrix.optimum.solvers import Solution, Solver
from separatrix.report.terminal import new_axes, root_scale, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Limit", "checked_level"]

Array = NDArray[np.float64]
_SHOWN = 9  # rows of the table


@dataclass(frozen=True, eq=False)
class Limit:
    """The best decisions within each level of a budget.

    Args:
        levels: the budgets, rising.
        values: the objective of the best decision found within each; they rise.
        upper: a proven upper bound on the objective of any decision within that budget; NaN for the
            utility of decisions among more than two labels, found but not proven best.
        labels, groups: names of the axes.
        rates: P(U=u | Y=y, Z=z) of each decision, array (n, labels, groups, U).
        solver: what was solved.
    """

    levels: Array
    values: Array
    upper: Array
    labels: Levels
    groups: Levels
    rates: Array = field(repr=False)
    solver: Solver = field(repr=False)
    solutions: tuple[Solution, ...] = field(repr=False)

    @classmethod
    def of(cls, solver: Solver, levels: Array | None, points: int, labels: Levels) -> Limit:
        """Solve for these levels, or for so many from the strictest to a slack budget."""
        if levels is None:
            levels = solver.spaced(points)
        for level in levels.tolist():
            _answerable(level, solver)
        found = solver.solve(levels)
        values = np.array([one.value for one in found])
        order, upper = rising(values, np.array([one.upper for one in found]))
        best = tuple(found[j]._replace(upper=float(e)) for j, e in zip(order, upper, strict=True))
        rates = np.stack([one.rates for one in best])
        return cls(levels, values[order], upper, labels, solver.groups, rates, solver, best)

    @property
    def maximize(self) -> Any:
        """What is maximised."""
        return self.solver.maximize

    @property
    def budget(self) -> str:
        """What is kept small."""
        return self.solver.budget

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit; NaN if nothing is proven."""
        return float((self.upper - self.values).max())

    @property
    def tables(self) -> Array:
        """P(y, z, u) of each decision, array (n, labels, groups, U)."""
        return self.solver.mass[..., None] * self.rates

    @property
    def violation(self) -> Array:
        """v of the decisions."""
        if self._binary:
            return BUDGETS["violation"].measure(*self._two())
        return conditional_mutual_information(self.tables)

    @property
    def utility(self) -> Array:
        """u of the decisions."""
        if self._binary:
            rates, mass = self._two()
            return Value.of("utility", mass, ())(rates)
        return mutual_information(self.tables)

    def solution(self, level: float) -> Solution:
        """The best decisions within a level: those of the curve, or solved for it.

        The decisions of a stricter level of the curve serve too, so values rise between the levels
        as well.
        """
        e = _answerable(level, self.solver)
        place = int(np.searchsorted(self.levels, e))
        if place < len(self.levels) and self.levels[place] == e:
            return self.solutions[place]
        start = self.solutions[min(place, len(self.levels) - 1)].start
        (found,) = self.solver.solve(np.array([e]), start)
        upper = found.upper
        if place < len(self.levels):
            upper = min(upper, float(self.upper[place]))
        if place and self.values[place - 1] > found.value:
            found = self.solutions[place - 1]
        return found._replace(upper=max(upper, found.value))

    def rule(self, level: float) -> Rule:
        """The best rule within the budget `level`, solved for exactly that level."""
        return self.solution(level).rule()

    def envelope(self) -> Envelope:
        """What a public coin between two of the decisions reaches on average."""
        return concave_envelope(self.levels, self.values)

    def revealed(self, level: float) -> tuple[Rule, Rule, float]:
        """Two rules and the probability of the second: the point of `envelope()` at `level`."""
        mixture = self.envelope().mixture(checked_level(level, self.budget))
        first, second = (self.solutions[i].rule() for i in (mixture.first, mixture.second))
        return first, second, mixture.weight

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a few levels: the budget, the objective, and the groups' rates."""
        rows = np.unique(np.linspace(0, len(self.levels) - 1, _SHOWN).round().astype(int))
        budget = budget_named(self.budget)
        columns = {f"{budget.label} at most": [f"{x:.4g}" for x in self.levels[rows]]}
        columns[self._objective()] = [f"{x:.4f}" for x in self.values[rows]]
        if not self._binary:
            columns["at most"] = [
                "not known" if np.isnan(x) else f"{x:.4f}" for x in self.upper[rows]
            ]
            return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]
        rates, mass = self._two()
        rates = rates[rows]
        for name, label in (("accuracy", "accuracy"), ("utility", "u")):
            columns.setdefault(label, [f"{x:.4f}" for x in Value.of(name, mass, ())(rates)])
        gap = CRITERIA[budget.criterion].gap_name
        for name in dict.fromkeys((gap, "eo_gap", "violation")):
            if name != self.budget:
                used = BUDGETS[name].measure(rates, mass)
                columns[BUDGETS[name].label] = [f"{x:.4g}" for x in used]
        for y, label in enumerate(("FPR", "TPR")):
            seen = rates[:, mass[:, y] > 0, y]
            columns[label] = [
                f"{low:.3f}-{high:.3f}" for low, high in zip(seen.min(1), seen.max(1), strict=True)
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
        ax.plot(self.levels, self.values, color="#0072b2", label="best decision")
        ax.plot(self.levels, self.upper, color="#555555", lw=0.8, ls="--", label="upper bound")
        root_scale(ax)
        ax.set_xlabel(f"{budget_named(self.budget).label} at most")
        ax.set_ylabel(self._objective())
        ax.legend(frameon=False)
        return ax

    @property
    def _binary(self) -> bool:
        return self.rates.shape[1:2] == self.rates.shape[-1:] == (2,)

    def _two(self) -> tuple[Array, Array]:
        """P(U=1 | y, z) (n, groups, 2) and P(y, z) (groups, 2) of binary decisions."""
        return np.swapaxes(self.rates[..., 1], 1, 2), self.solver.mass.T

    def _objective(self) -> str:
        known = self.maximize if not isinstance(self.maximize, str) else None
        if known is not None and not self._binary:
            return "gain"
        objective = objective_of(self.maximize)
        return f"-{objective.label}" if objective.lower_is_better else objective.label

    def _title(self) -> str:
        named = listed(tuple(map(group_name, self.groups)))
        if self._binary:
            return (
                f"Best {self._objective()} of any binary decision, by "
                f"{budget_named(self.budget).label}; {len(self.groups)} groups ({named}), "
                f"U = {self.labels[1]!r}, certified within {self.gap:.1g}"
            )
        return (
            f"Best {self._objective()} of decisions for {len(self.labels)} labels, "
            f"{len(self.groups)} groups ({named}), on the law of the posteriors"
        )


def checked_level(level: float, budget: str) -> float:
    """A budget as a number: finite and not negative."""
    x = one_number(level, "level")
    if not 0.0 <= x < np.inf:
        raise InputError(
            f"The {budget} is an upper limit: it cannot be negative or infinite, got {level}."
        )
    return x


def _answerable(level: float, solver: Solver) -> float:
    """A level that the solver can answer."""
    x = checked_level(level, solver.budget)
    if x < solver.strictest:
        raise InputError(
            f"For more than two labels the budget on v must be at least {solver.strictest:g} nats, "
            f"got {level:g}: below that, rounding decides."
        )
    return x
