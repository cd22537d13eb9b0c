"""The result of `limit` for more than two labels: certified for linear objectives, not for u."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.columns.values import Levels, listed
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.display import preformatted, wrapped
from separatrix.errors import InputError
from separatrix.optimum.experimental.free_alphabet import FreeAlphabet
from separatrix.optimum.multiclass.dual import LabelDual
from separatrix.optimum.multiclass.label_columns import EoColumns
from separatrix.optimum.objectives import BUDGETS
from separatrix.optimum.roc.decision_limit import checked_level
from separatrix.optimum.rules import HardMixture, SoftmaxChannel

__all__ = ["LabelLimit", "Solver", "label_limit"]

Array = NDArray[np.float64]
Solver = LabelDual | EoColumns | FreeAlphabet
_STRICTEST = 1e-6  # nats: below, rounding decides


@dataclass(frozen=True, eq=False)
class LabelLimit:
    """The best decisions among more than two labels under a budget.

    Args:
        levels: the budgets, rising.
        values: the objective of the best rule found, on the law of the posteriors.
        upper: a proven upper bound on the objective of any rule within the budget, on that law;
            NaN for the utility of decisions, whose best rule is found but not proven best.
        violation, utility: v and u of the rules, on that law.
        labels, groups: names of the axes.
    """

    levels: Array
    values: Array
    upper: Array
    violation: Array
    utility: Array
    labels: Levels
    groups: Levels
    dual: Solver = field(repr=False)
    budget: str = "violation"

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit; NaN if nothing is proven."""
        return float((self.upper - self.values).max())

    def envelope(self) -> Envelope:
        """u by v of what a public coin between two of the rules reaches on average."""
        return concave_envelope(self.violation, self.utility)

    def rule(self, level: float) -> SoftmaxChannel | HardMixture:
        """The best rule found within the budget, solved for exactly that level."""
        return self.dual.rule(label_level(level, self.budget), self.groups)

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        rows = [
            f"{e:>15.4g} {x:>12.4f} {'not known' if np.isnan(u) else format(u, '.4f'):>12}"
            for e, x, u in zip(self.levels, self.values, self.upper, strict=True)
        ]
        what = "predictions of any values" if isinstance(self.dual, FreeAlphabet) else "decisions"
        head = (
            f"Best {what} for {len(self.labels)} labels, {len(self.groups)} groups "
            f"({listed(tuple(map(group_name, self.groups)))}), on the law of the posteriors"
        )
        return "\n".join(
            [
                *wrapped(head),
                f"{BUDGETS[self.budget].label + ' at most':>15} {'objective':>12} {'at most':>12}",
                *rows,
            ]
        )


def label_limit(
    dual: Solver,
    levels: Array | None,
    points: int,
    labels: Levels,
    groups: Levels,
    budget: str,
) -> LabelLimit:
    """Solve at each level, laxest first; by default up to where the budget is slack."""
    if levels is None:
        spaced = np.linspace(0.0, 1.0, points + 1)[1:] ** 2
        if isinstance(dual, EoColumns):
            levels = dual.slack() * spaced
        else:
            levels = max(dual.solve(np.inf).violation, 2 * _STRICTEST) * spaced
            levels = np.maximum(levels, _STRICTEST)
    solved = [dual.solve(label_level(e, budget)) for e in levels[::-1].tolist()][::-1]
    values, upper, violation, utility = (
        np.array([getattr(point, name) for point in solved])
        for name in ("value", "upper", "violation", "utility")
    )
    upper = np.minimum.accumulate(upper[::-1])[::-1]  # a laxer bound serves every stricter level
    upper = np.maximum(upper, values)  # NaN stays NaN
    return LabelLimit(levels, values, upper, violation, utility, labels, groups, dual, budget)


def label_level(level: float, budget: str) -> float:
    """A level that can be answered."""
    v = checked_level(level, budget)
    if budget == "violation" and v < _STRICTEST:
        raise InputError(
            f"For more than two labels the budget on v must be at least {_STRICTEST:g} nats, "
            f"got {level:g}: below that, rounding decides."
        )
    return v
