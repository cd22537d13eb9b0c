r"""From q(y, z | x) to the decision rule that keeps an asked budget without seeing the group.

Rates are linear in q, so the best rule of x alone for a linear objective is a mixture of
half-spaces of q (`column_generation`). The mixture is counted with the rows' own labels and groups:
the budget holds on the rows even where q is wrong, and q only says where to look.

*In the population* a rule with the rates x on the rows has other rates. With n rows in the cell
(y, z),

.. math:: r_{yzu} \approx x_{yzu} + \sqrt{\operatorname{Var}(P(U{=}u|x) \mid y, z) / (n_{yz} + 1)}
          \; N(0, 1), \qquad E(b) = \mathbb E \bigl[ \text{budget}(r) \bigr]

for the rule fitted for the level b, and the largest b with E(b) ≤ asked is taken. Parity and
predictive values also depend on the shares of the labels in each group: these are drawn too, from
Beta laws of the group's rows. Errors are taken 10 % larger, since a rule that was chosen on the
rows flatters a little. Rules that use the group have a measured margin (`margin`): fitting rules
without the group to twenty resamples would take too long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Levels
from separatrix.core.information import check_confidence
from separatrix.core.measures import budget_named
from separatrix.optimum.law import BlindRows
from separatrix.optimum.margin import RATES_ONLY, refusal
from separatrix.optimum.multiclass.column_generation import ColumnPoint, Columns, best_blind
from separatrix.optimum.objectives import Cost
from separatrix.optimum.promised import PromisedRule, check_question
from separatrix.optimum.rules import BlindRule, check_joint

__all__ = ["BlindPromises"]

Array = NDArray[np.float64]
_DRAWS = 1000
_SAFETY = 1.1  # of the errors; chosen on distributions with normal scores
_CLOSE = 0.002  # of what was asked: close enough


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
        # by level: the rule, and draws of what the population shows of the budget
        self._known: dict[float, tuple[ColumnPoint, Array]] = {}

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
        level, expected, smallest = self._kept(asked, confidence)
        return PromisedRule(self._known[level][0].rule, level, expected, smallest, nothing)

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

    def _kept(self, asked: float, confidence: float | None) -> tuple[float, float, float]:
        """The largest level that keeps what was asked, what it shows, and the least that can be."""
        if confidence is not None:
            check_confidence(confidence)
        smallest = self._shown(0.0, confidence)
        if smallest > asked:
            raise refusal(self.budget, asked, smallest, confidence)
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
        return level, shown, smallest

    def _shown(self, level: float, confidence: float | None) -> float:
        """What the population is expected to show of the budget, or a quantile of that."""
        if level not in self._known:
            point = self.point(level)
            noise = np.random.default_rng(0).standard_normal((_DRAWS, *point.rates.shape))
            drawn = np.clip(point.rates + _SAFETY * self._errors(point) * noise, 0.0, 1.0)
            self._known[level] = point, self._used(drawn)
        found = self._known[level][1]
        return float(found.mean() if confidence is None else np.quantile(found, confidence))

    def _used(self, rates: Array) -> Array:
        """What drawn rates (draws, labels, groups, U) use of the budget."""
        law, kind = self._law, budget_named(self.budget)
        if len(law.mass) == 2:
            x, mass = np.swapaxes(rates[..., 1], -1, -2), law.mass.T
            if kind.criterion not in RATES_ONLY:
                mass = _drawn_mass(law.effective_rows().T, mass)
            return kind.measure(x, mass)
        tables = law.mass[..., None] * rates / np.maximum(rates.sum(-1, keepdims=True), 1e-300)
        return kind(tables)

    def _errors(self, point: ColumnPoint) -> Array:
        """The standard error of each population rate (labels, groups, U).

        At least that of half a row, unless all rows are decided alike.
        """
        law = self._law
        decided, n = point.rule.predict_proba(self.q), law.effective_rows()
        square = np.stack(
            [
                np.bincount(law.cell, law.weight * one**2, law.mass.size).reshape(law.mass.shape)
                for one in decided.T
            ],
            axis=-1,
        )
        here = law.mass[..., None] > 0
        variance = np.where(
            here, square / np.where(here, law.mass[..., None], 1.0) - point.rates**2, 0.0
        )
        least = 0.5 * np.ptp(decided, axis=0) ** 2 / (n[..., None] + 1.0)
        return np.where(here, np.sqrt(np.maximum(variance, least) / (n[..., None] + 1.0)), 0.0)


def _drawn_mass(rows: Array, mass: Array) -> Array:
    """P(Y=y, Z=z) as other samples of as many rows would show it, array (draws, groups, 2).

    Args:
        rows: effective rows of each cell (groups, 2).
        mass: P(Y=y, Z=z) of these rows (groups, 2).
    """
    first, second = rows.T + 0.5
    share = np.random.default_rng(1).beta(second, first, size=(_DRAWS, len(rows)))
    share = np.where((rows > 0).all(1), share, rows[:, 1] > 0)
    return np.stack([1.0 - share, share], -1) * mass.sum(1)[:, None]
