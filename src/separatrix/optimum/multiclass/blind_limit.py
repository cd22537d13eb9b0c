"""The exact limit of decisions that never see the group, for a known finite law: a certified curve.

A linear objective under a budget on the groups' differences is a linear programme over the atoms x;
`column_generation` solves it, and every other case, with a bound that no rule of x exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError
from separatrix.optimum.multiclass.blind_law import BlindAtoms
from separatrix.optimum.multiclass.blind_rules import BlindRule
from separatrix.optimum.multiclass.column_generation import BlindColumns, best_blind
from separatrix.optimum.objectives import Cost, budget_named

__all__ = ["BlindLimit", "blind_curve"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BlindLimit:
    """The best decisions of x alone, one for each level of the budget.

    Args:
        levels: the budgets, rising.
        values: the objective of the best rule found within each.
        upper: a proven upper bound on the objective of any rule of x within that budget.
        rates: P(U=u | Y=y, Z=z) of each rule, array (n, labels, groups, U).
        rules: the rules, of q(y, z | x).
        maximize, budget: what is maximised and what is kept small.
    """

    levels: Array
    values: Array
    upper: Array
    rates: Array = field(repr=False)
    rules: tuple[BlindRule, ...] = field(repr=False)
    maximize: str | Cost = "utility"
    budget: str = "violation"

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit."""
        return float((self.upper - self.values).max())


def blind_curve(p: Array, levels: Array, maximize: str | Cost, budget: str) -> BlindLimit:
    """The curve of a law p[x, y, z] for rising levels."""
    if (p.sum((0, 2)) <= 0).any():
        raise InputError("One of the labels has probability zero: leave it out of `p_xyz`.")
    of_x = p.sum((1, 2))
    law = BlindAtoms((p / np.where(of_x > 0, of_x, 1.0)[:, None, None])[of_x > 0], of_x[of_x > 0])
    columns, groups = BlindColumns(law, budget_named(budget)), tuple(range(p.shape[2]))
    found = [best_blind(columns, maximize, float(level), groups) for level in levels]
    values, upper = np.array([one.value for one in found]), np.array([one.upper for one in found])
    best = list(range(len(found)))
    for j in range(1, len(found)):  # a stricter rule serves every laxer level
        if values[best[j - 1]] > values[j]:
            best[j] = best[j - 1]
    values = values[best]
    upper = np.maximum(np.minimum.accumulate(upper[::-1])[::-1], values)
    rates = np.stack([found[j].rates for j in best])
    rules = tuple(found[j].rule for j in best)
    return BlindLimit(levels, values, upper, rates, rules, maximize, budget)
