r"""From q(y, z | x) to the decision rule that keeps an asked budget without seeing the group.

Rates are linear in q, so the best rule of x alone for a linear objective is a mixture of
half-spaces of q (`column_generation`). The mixture is counted with the rows' own labels and groups:
the budget holds on the rows even where q is wrong, and q only says where to look.

*In the population* each rate of the rule P(U=u|x) differs from that of the rows by about
:math:`\sqrt{\operatorname{Var}(P(U{=}u|x) \mid y, z) / (n_{yz} + 1)}`; the rule is fitted for
the largest level at which the expected budget of such rates is what was asked (`blind_margin`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.core.measures import budget_named
from separatrix.optimum.blind_margin import BudgetKeeper, drawn_mass
from separatrix.optimum.law import BlindRows
from separatrix.optimum.margin import RATES_ONLY
from separatrix.optimum.multiclass.column_generation import ColumnPoint, Columns, best_blind
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import PromisedRule, check_question
from separatrix.optimum.rules import BlindRule, check_joint

__all__ = ["BlindPromises", "best_blind"]

Array = NDArray[np.float64]


class BlindPromises:
    """The best rules without the group, for any budget of one kind; columns are found once.

    Args:
        q: q(y, z | x), array (n, labels, groups), of rows that trained nothing.
        y, z: codes of the labels and of the groups.
        weight: weight of each row.
        groups: the names of the groups, for costs that differ between them.
        maximize, budget: as in `limit`; for more than two labels "accuracy" or
            "balanced_accuracy", and "eo_gap", "eo_max" or "violation".

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> x = rng.normal(size=4000) + 2 * y + (1 - y) * z           # X is shifted for z = 1, y = 0
    >>> means = np.array([[0.0, 1.0], [2.0, 2.0]])                # of (y, z)
    >>> q = np.exp(-0.5 * (x[:, None, None] - means) ** 2)
    >>> q /= q.sum((1, 2), keepdims=True)
    >>> best = BlindPromises(q, y, z, np.ones(4000), (0, 1))
    >>> found = best.rule(0.05)
    >>> bool(found.level < 0.05), round(found.expected, 3), found.rule.predict_proba(q).shape
    (True, 0.05, (4000, 2))
    """

    def __init__(
        self,
        q: Array,
        y: NDArray[np.intp],
        z: NDArray[np.intp],
        weight: Array,
        groups: Levels,
        *,
        maximize: str | Cost = "accuracy",
        budget: str = "eo_gap",
    ) -> None:
        self.q = check_joint(q)
        self.y, self.z, self.weight = y, z, np.asarray(weight, dtype=np.float64)
        self.groups, self.maximize, self.budget = groups, maximize, budget
        self._law = BlindRows(self.q, self.weight, y, z)
        self._columns = Columns(self._law, budget_named(budget))
        self._rules: dict[bytes, BlindRule] = {}

    def rule(
        self,
        asked: float | None = None,
        *,
        margin: float | None = None,
        confidence: float | None = None,
    ) -> PromisedRule:
        """The best rule that keeps a budget on unseen rows, as in `Promises.rule`.

        Args:
            asked: the budget; None for the best rule without one.
            margin: None to keep it in the population; a number that is taken off it, 0 for none.
            confidence: the probability that the population keeps it; None for its expectation.

        Raises:
            InfeasibleError: the rows are too few to promise it.
        """
        check_question(asked, margin, confidence)
        nothing = np.zeros((len(self.groups), 2))
        if asked is None or margin is not None:
            level = 1.0 if asked is None else asked - (margin or 0.0)
            return PromisedRule(self.point(level).rule, level, np.nan, np.nan, nothing)
        kept = self._keeper.keep(asked, confidence)
        rule = self._rules[kept.rates.tobytes()]
        return PromisedRule(rule, kept.level, kept.expected, kept.smallest, nothing)

    def at_level(self, level: float) -> BlindRule:
        """The best rule within a level on the rows; no margin is taken."""
        return self.point(level).rule

    def point(self, level: float) -> ColumnPoint:
        """The best mixture within a level on the rows; it has no bound, see `certificate`."""
        found = best_blind(self._columns, self.maximize, level, self.groups)
        return found._replace(upper=float("nan"))

    def certificate(self, level: float) -> tuple[float, float]:
        """The best value within a level under the law q, and a bound that no rule of x exceeds.

        The law is that of q: P(y, z | x) = q for rows x of these weights. Where q is calibrated the
        value of `point` differs from these by the sampling error of the labels only.
        """
        assert self._columns.guide is not None
        found = best_blind(self._columns.guide, self.maximize, level, self.groups)
        return found.value, found.upper

    @cached_property
    def _keeper(self) -> BudgetKeeper:
        return BudgetKeeper(self._solved, self._used, self._errors, self.budget)

    def _solved(self, level: float) -> Array:
        """The best rates (labels, groups, U) within a level on the rows."""
        found = self.point(level)
        self._rules[found.rates.tobytes()] = found.rule
        return found.rates

    def _used(self, rates: Array) -> Array:
        """What drawn rates (draws, labels, groups, U) use of the budget."""
        law = self._law
        if len(law.mass) == 2:
            x = np.swapaxes(rates[..., 1], -1, -2)
            kind, mass = budget_named(self.budget), law.mass.T
            if kind.criterion not in RATES_ONLY:
                mass = drawn_mass(law.effective_rows().T, mass)
            return kind.measure(x, mass)
        tables = law.mass[..., None] * rates / np.maximum(rates.sum(-1, keepdims=True), 1e-300)
        if self.budget == "violation":
            return conditional_mutual_information(tables)
        if self.budget == "eo_gap":
            return eo_gap(tables)
        each = [eo_gap(tables[..., y : y + 1, :, :]) for y in range(len(law.mass))]
        return np.max(each, axis=0)

    def _errors(self, rates: Array) -> Array:
        """The standard error of each population rate (labels, groups, U).

        At least that of half a row, unless all rows are decided alike.
        """
        law = self._law
        decided, n = self._rules[rates.tobytes()].predict_proba(self.q), law.effective_rows()
        square = np.stack(
            [
                np.bincount(law.cell, law.weight * one**2, law.mass.size).reshape(law.mass.shape)
                for one in decided.T
            ],
            axis=-1,
        )
        here = law.mass[..., None] > 0
        variance = np.where(here, square / np.where(here, law.mass[..., None], 1.0) - rates**2, 0.0)
        least = 0.5 * np.ptp(decided, axis=0) ** 2 / (n[..., None] + 1.0)
        return np.where(here, np.sqrt(np.maximum(variance, least) / (n[..., None] + 1.0)), 0.0)
