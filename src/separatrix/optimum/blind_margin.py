r"""How strict a rule without the group must be on the rows: a margin by a normal approximation.

A rule that has the rates x on the rows has other rates in the population. With q(s) the rule's P(U)
and n rows in the cell (y, z),

.. math:: r_{yz} \approx x_{yz} + \sqrt{\operatorname{Var}(q \mid y, z) / (n_{yz} + 1)} \; N(0, 1),
          \qquad E(b) = \mathbb E \bigl[ \text{budget}(r) \bigr]

for the rule fitted for the level b. Parity and predictive values also depend on the shares of the
labels in each group: these are drawn too, from Beta laws of the group's rows (`drawn_mass`).

`BudgetKeeper` finds the largest b with E(b) ≤ asked. Errors are taken 10 % larger, since a rule
that was chosen on the rows flatters a little. Rules that use the group have a measured margin
(`margin`): fitting rules without the group to twenty resamples would take too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import check_confidence
from separatrix.optimum.margin import refusal

__all__ = ["BudgetKeeper", "KeptRates", "drawn_mass"]

Array = NDArray[np.float64]
_DRAWS = 1000
_SAFETY = 1.1  # chosen on distributions with normal scores
_CLOSE = 0.002  # of what was asked: close enough


class KeptRates(NamedTuple):
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

    def keep(self, asked: float, confidence: float | None = None) -> KeptRates:
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
            raise refusal(self.name, asked, smallest, confidence)
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
        return KeptRates(level, shown, smallest, self._known[level][0])

    def _shown(self, level: float, confidence: float | None) -> float:
        """What the population is expected to show of the budget, or a quantile of that."""
        if level not in self._known:
            x = self.solve_at(level)
            noise = np.random.default_rng(0).standard_normal((_DRAWS, *x.shape))
            drawn = np.clip(x + _SAFETY * self.errors(x) * noise, 0.0, 1.0)
            self._known[level] = x, self.measure(drawn)
        found = self._known[level][1]
        return float(found.mean() if confidence is None else np.quantile(found, confidence))


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
