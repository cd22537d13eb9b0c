r"""How strict a rule must be on the rows to keep a budget in the population.

A rule that was fitted to have the rates x on the rows has other rates in the population. The cell
(y, z) has n rows, and m pseudo-rows where it borrows (`borrowing`); q(s) is the rule's P(U=1). Then

.. math:: r_{yz} \approx x_{yz} + \sqrt{\operatorname{Var}(q \mid y, z) / (n_{yz} + m_{yz} + 1)}
          \; N(0, 1), \qquad E(b) = \mathbb E \bigl[ \text{budget}(r) \bigr]

for the rule fitted for the level b. Parity and predictive values also depend on the shares of the
labels in each group: these are drawn too, from Beta laws of the group's rows (`drawn_mass`).

The largest of several noisy rates is far above their common mean, so E(b) > b, and much so for many
or small groups. `BudgetKeeper` finds the largest b with E(b) ≤ asked. A confidence asks for more:
that quantile of budget(r) is at most what was asked.

Where E(0) is above what was asked, no b will do: `InfeasibleError` says the smallest E, and asking
for that succeeds. The normal law is an approximation, and a curve whose hull was chosen on the rows
flatters a little: errors are taken 10 % larger. benchmarks/margins.py simulates what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import check_confidence
from separatrix.errors import InfeasibleError
from separatrix.optimum.borrowing import GroupCurves
from separatrix.optimum.objectives import budget_named

__all__ = ["RATES_ONLY", "BudgetKeeper", "Kept", "drawn_mass", "rate_errors"]

Array = NDArray[np.float64]
# criteria whose gaps depend on the rates of each label only, not on how frequent the label is
RATES_ONLY = ("separation", "equal_opportunity")
_DRAWS = 1000
_SAFETY = 1.1  # chosen on the laws of `benchmarks.margins --law develop`
_CLOSE = 0.002  # of what was asked: close enough


class Kept(NamedTuple):
    """A level of the budget on the rows that keeps what was asked in the population.

    Args:
        level: the budget on the rows.
        expected: what the population is expected to show; its quantile where there is a confidence.
        smallest: the least that can be promised with these rows.
        rates: the rates (groups, 2) of the rule on the rows.
    """

    level: float
    expected: float
    smallest: float
    rates: Array


class BudgetKeeper:
    """Finds the level of the rows that keeps a budget in the population; remembers what it solved.

    Args:
        solve_at: level → the best rates (groups, 2) within it on the rows.
        measure: rates (..., groups, 2) → what they use of the budget.
        errors: rates → the standard errors of the population's rates around them.
        name: of the budget, for the error.

    >>> def same(level): return np.array([[0.2, 0.7], [0.2, 0.7 + 2 * level]])
    >>> def gap(r): return 0.5 * np.ptp(r, axis=-2).sum(-1)
    >>> kept = BudgetKeeper(same, gap, lambda r: np.full((2, 2), 0.01)).keep(0.05)
    >>> bool(0.04 < kept.level < 0.05), round(kept.expected, 3), round(kept.smallest, 3)
    (True, 0.05, 0.012)
    """

    def __init__(
        self,
        solve_at: Callable[[float], Array],
        measure: Callable[[Array], Array],
        errors: Callable[[Array], Array],
        name: str = "eo_gap",
    ) -> None:
        self.solve_at, self.measure, self.errors, self.name = solve_at, measure, errors, name
        self._known: dict[float, tuple[Array, Array]] = {}

    def keep(self, asked: float, confidence: float | None = None) -> Kept:
        """The largest level whose rule is expected to keep what was asked.

        Args:
            asked: the budget to keep in the population.
            confidence: None for the expectation; 0.9 for a budget kept in nine of ten samples.

        Raises:
            InfeasibleError: not even the strictest rule is expected to keep it.
        """
        if confidence is not None:
            check_confidence(confidence)
        smallest = self._shown(0.0, confidence)
        if smallest > asked:
            raise self._refusal(asked, smallest, confidence)
        self._shown(asked, confidence)
        for _ in range(12):  # what is shown rises with the level, nearly linearly: false position
            known = sorted((level, self._shown(level, confidence)) for level in self._known)
            low, below = max(one for one in known if one[1] <= asked and one[0] <= asked)
            over = [one for one in known if one[0] > low and one[0] <= asked]
            if not over or asked - below < _CLOSE * asked:
                break
            high, above = over[0]
            share = float(np.clip((asked - below) / (above - below), 0.1, 0.9))
            self._shown(low + share * (high - low), confidence)
        known = [(x, self._shown(x, confidence)) for x in self._known if x <= asked]
        level, shown = max(one for one in known if one[1] <= asked)
        return Kept(level, shown, smallest, self._known[level][0])

    def _shown(self, level: float, confidence: float | None) -> float:
        """What the population is expected to show of the budget, or a quantile of that."""
        if level not in self._known:
            x = self.solve_at(level)
            noise = np.random.default_rng(0).standard_normal((_DRAWS, *x.shape))
            drawn = np.clip(x + _SAFETY * self.errors(x) * noise, 0.0, 1.0)
            self._known[level] = x, self.measure(drawn)
        found = self._known[level][1]
        return float(found.mean() if confidence is None else np.quantile(found, confidence))

    def _refusal(self, asked: float, smallest: float, confidence: float | None) -> InfeasibleError:
        sure = "" if confidence is None else f" with probability {confidence:g}"
        return InfeasibleError(
            f"With these rows no rule can promise {budget_named(self.name).label} ≤ {asked:g} in "
            f"the population{sure}: even a rule that is equal on the rows is expected to show "
            f"{_up(smallest)}. Ask for that or more, bring more rows of the small groups, join "
            "them, or pass margin=0 to keep the budget on these rows only.",
            {self.name: smallest},
            float("nan"),
        )


def drawn_mass(rows: Array, mass: Array) -> Array:
    """P(Y=y, Z=z) as other samples of as many rows would show it, array (draws, groups, 2).

    Args:
        rows: effective rows of each cell (groups, 2).
        mass: P(Y=y, Z=z) of these rows (groups, 2).
    """
    first, second = rows.T + 0.5
    share = np.random.default_rng(1).beta(second, first, size=(_DRAWS, len(rows)))
    share = np.where((rows > 0).all(1), share, rows[:, 1] > 0)
    return np.stack([1.0 - share, share], -1) * mass.sum(1)[:, None]


def rate_errors(known: GroupCurves, rule: Any) -> Array:
    """The standard error of each population rate (groups, 2) of a threshold rule.

    A rate that is 0 or 1 on the rows is uncertain too, unless the rule decides all alike: the
    variance of a rate is taken to be at least that of half a row.

    Args:
        known: the curves that the rule was fitted to.
        rule: `thresholds` and `levels` of each group, as in `ThresholdChannel`.
    """
    error = np.zeros_like(known.rows)
    for z, curve in enumerate(known.curves):
        n = known.rows[z] + known.borrowed[z] + 1.0
        cuts, levels = rule.thresholds[z], rule.levels[z]
        place = np.searchsorted(-curve.thresholds, -cuts, side="right") - 1
        share = np.diff(curve.rates[place], axis=0, prepend=np.zeros((1, 2)))  # P(between two cuts)
        share, q = np.vstack([share, 1.0 - share.sum(0)]), np.r_[levels, 0.0]
        used = share.sum(1) > 1e-12
        spread = float(np.ptp(q[used]))
        variance = q**2 @ share - (q @ share) ** 2
        error[z] = np.sqrt(np.maximum(variance, 0.5 * spread**2 / n) / n)
    return np.where(known.rows > 0, error, 0.0)


def _up(value: float) -> str:
    """Three digits, rounded up: what is printed can be asked for."""
    scale = 10.0 ** (2 - int(np.floor(np.log10(value)))) if value > 0 else 1.0
    return f"{np.ceil(value * scale) / scale:.3g}"
