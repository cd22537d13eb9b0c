r"""From scores to the decision rule that keeps an asked budget in the population.

Two labels: the exact optimum of `decisions` on curves that borrow (`borrowing`), at the level that
`margin` finds. More labels: the rules of `cross_fitted`, at the price of the violation at which
rules fitted to one half of the rows keep the budget on the other.

`promised=False` keeps the budget on the given rows, with their own curves.

*Without the group*, from q(y, z | x). Rates are linear in q, so the best rule of x alone for a
linear objective is a mixture of half-spaces of q (`column_generation`). The mixture is counted with
the rows' own labels and groups: the budget holds on the rows even where q is wrong, and q only says
where to look.

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

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from separatrix.columns.counting import soft_counts
from separatrix.columns.values import Coded, Levels
from separatrix.core.measures import BUDGETS, budget_named
from separatrix.core.numerics import Array, Index, effective_size
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.borrowing import GroupCurves, ScoreTable, group_curves_borrowing
from separatrix.optimum.law import BlindRows
from separatrix.optimum.margin import RATES_ONLY, Margin, PromisedRule, refusal
from separatrix.optimum.multiclass.column_generation import ColumnPoint, ColumnSolver
from separatrix.optimum.multiclass.cross_fitted import LabelRules
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.rules import BlindRule, SoftmaxChannel, ThresholdChannel, check_joint

Rule = ThresholdChannel | SoftmaxChannel | BlindRule
_MANY_LABELS = ("eo_gap", "violation")  # budgets of rules for more than two
_DRAWS = 200
_PRICES = (1e-3, 1e4)  # of v for more than two labels, for gains with a range of one
_STEPS = 10  # of the bisection between them
_SOLVED = 2e-3  # of a gap: where the solver starts changes its last digits
_OBJECTIVE_GAP = 2e-4  # of the objective under a violation: far below what the rows can tell
_BLIND_DRAWS = 1000
_SAFETY = 1.1  # of the errors; chosen on distributions with normal scores
_BUDGET_GAP = 0.002  # of what was asked: close enough


@dataclass(eq=False)
class Promising(ABC):
    """The best rules for an objective, for any budget of one kind; what they share is computed once.

    Args:
        scores: of rows that trained nothing: P(Y | x), array (n, K), or q(y, z | x), array (n,
            labels, groups).
        y, z: codes of the labels and of the groups.
        weight: weight of each row.
        groups: the names of the groups, for the rule.
        maximize, budget: as in `limit`.
    """

    scores: Array
    y: Index
    z: Index
    weight: Array
    groups: Levels
    maximize: str | Cost = "accuracy"
    budget: str = "eo_gap"

    def rule(self, asked: float = np.inf, *, promised: bool = True, confidence: float | None = None) -> PromisedRule:
        """The best rule that keeps a budget on unseen rows.

        Args:
            asked: the budget; infinite for the best rule without one.
            promised: keep it in the population; else on these rows.
            confidence: the probability that the population keeps it; None for its expectation.

        Raises:
            InfeasibleError: the rows are too few to promise it.
        """
        return self._keep(asked, confidence) if promised and np.isfinite(asked) else self._on_rows(asked)

    @abstractmethod
    def at_level(self, level: float) -> Rule:
        """The best rule within a level on the rows, or the strictest there is; no margin is taken."""

    @abstractmethod
    def _on_rows(self, asked: float) -> PromisedRule:
        """The best rule that keeps a budget on the rows as they are."""

    @abstractmethod
    def _keep(self, asked: float, confidence: float | None) -> PromisedRule:
        """The best rule that the population is expected to show no more of."""


class Promises(Promising):
    """The best rules for two labels that see the group.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> s = 1 / (1 + np.exp(-rng.normal(size=4000) - (2 * y - 1) * (1 + z)))
    >>> best = Promises(np.stack([1 - s, s], 1), y, z, np.ones(4000), ("f", "m"))
    >>> promised = best.rule(0.05)
    >>> bool(promised.level < 0.05), round(promised.expected, 3), best.rule(0.05, promised=False).level
    (True, 0.05, 0.05)
    """

    def at_level(self, level: float) -> Rule:
        """On curves that borrow."""
        return self._rule(self._known, level)

    def _on_rows(self, asked: float) -> PromisedRule:
        level = min(asked, 1.0)
        return PromisedRule(self._rule(group_curves_borrowing(self._table, borrow=False), level), level)

    def _keep(self, asked: float, confidence: float | None) -> PromisedRule:
        return self._margin.keep(asked, confidence)

    @cached_property
    def _table(self) -> ScoreTable:
        return ScoreTable.from_rows(self.scores[:, 1], self.y, self.z, self.weight)

    @cached_property
    def _known(self) -> GroupCurves:
        return group_curves_borrowing(self._table)

    @cached_property
    def _margin(self) -> Margin:
        return Margin(self._table, self.groups, self.maximize, self.budget, self._known)

    def _rule(self, known: GroupCurves, level: float) -> ThresholdChannel:
        close = _OBJECTIVE_GAP if self.budget == "violation" else None
        solver = RocSolver(*known[:2], self.maximize, self.budget, self.groups, close)
        return solver.rule(solver.curve(np.array([max(level, solver.least)])).rates[0])


class LabelPromises(Promising):
    """The best rules for more labels that see the group, at a price of v found by bisection."""

    def at_level(self, level: float) -> Rule:
        """The strictest rule shows the least that any price can."""
        try:
            return self._on_rows(level).rule
        except InfeasibleError as error:
            return self._on_rows(error.smallest[self.budget]).rule

    @cached_property
    def _rules(self) -> LabelRules:
        if self.budget not in _MANY_LABELS:
            names = ", ".join(map(repr, _MANY_LABELS))
            raise InputError(f"More than two labels: the budget must be one of {names}, got {self.budget!r}.")
        return LabelRules(self.scores, self.y, self.z, self.weight, len(self.groups), self.maximize)

    @property
    def _scale(self) -> float:
        """The range of the gains."""
        gains = self._rules.gains
        return 1.0 if gains is None else float(np.ptp(gains)) or 1.0

    def _fitted(self, price: float) -> SoftmaxChannel:
        return self._rules.point(price, self._rules.choice(self._scale)).rule(self.groups)

    def _on_rows(self, asked: float) -> PromisedRule:
        fitted: dict[float, SoftmaxChannel] = {}

        def shown(price: float) -> float:
            fitted[price] = self._fitted(price)
            return self._used(fitted[price])

        rule = fitted[self._price(asked, shown)[0]]
        return PromisedRule(rule, self._used(rule))

    def _keep(self, asked: float, confidence: float | None) -> PromisedRule:
        choice = self._rules.choice(self._scale)

        def shown(price: float) -> float:
            """The mean over both halves, sampling error included, so that it is rather too large than too small.

            With a confidence, that quantile of tables drawn anew.
            """
            tables, budget = self._rules.tables(price, choice), BUDGETS[self.budget]
            if confidence is None:
                return float(np.mean(budget(tables)))
            return float(np.mean([np.quantile(budget(_drawn(table, self.weight)), confidence) for table in tables]))

        price, expected, smallest = self._price(asked, shown)
        if np.isnan(smallest):
            smallest = shown(self._scale * _PRICES[1])
        rule = self._fitted(price)
        return PromisedRule(rule, self._used(rule), expected, smallest)

    def _price(self, most: float, shown: Callable[[float], float]) -> tuple[float, float, float]:
        """The least price at which no more than this is shown; what is, there and at the highest price.

        NaN for the highest where the lowest will do.
        """
        low, price = (self._scale * end for end in _PRICES)
        if (there := shown(low)) <= most + 1e-12:
            return low, there, np.nan
        smallest = shown(price)
        if smallest > most * (1.0 + _SOLVED) + 1e-12:
            raise InfeasibleError(
                f"No rule found keeps {budget_named(self.budget).label} ≤ {most:g}; the strictest is expected to "
                f"show {smallest:.3g}. Ask for that or more, or bring more rows.",
                {self.budget: smallest},
            )
        expected = min(smallest, most)
        for _ in range(_STEPS):
            middle = float(np.sqrt(low * price))
            if (there := shown(middle)) <= most:
                price, expected = middle, there
            else:
                low = middle
        return price, expected, smallest

    def _used(self, rule: SoftmaxChannel) -> float:
        """What the rule uses of the budget on the rows that it was fitted to."""
        q = rule.law(self.scores, Coded(self.z, self.groups))
        table = soft_counts(self.y, q, sensitive_features=self.z, sample_weight=self.weight)
        return float(BUDGETS[self.budget](table))


def _drawn(table: Array, weight: Array) -> Array:
    """Tables (draws, y, z, u) of as many effective rows, drawn from the rates of one."""
    share = effective_size(weight) / weight.sum()
    rows = table.sum(-1)
    law = table / np.where(rows > 0, rows, 1.0)[..., None]
    law[rows <= 0, 0] = 1.0
    rng, n = np.random.default_rng(0), np.maximum(np.round(rows * share), rows > 0).astype(np.int64)
    counts = rng.multinomial(n, law, size=(_DRAWS, *rows.shape)).astype(np.float64)
    return counts / np.where(n > 0, n, 1)[..., None] * rows[..., None]


class BlindPromises(Promising):
    """The best rules without the group; columns are found once.

    For more than two labels: "accuracy" or "balanced_accuracy", and "eo_gap", "eo_max" or
    "violation".

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> x = rng.normal(size=4000) + 2 * y + (1 - y) * z           # X is shifted for z = 1, y = 0
    >>> means = np.array([[0.0, 1.0], [2.0, 2.0]])                # of (y, z)
    >>> q = np.exp(-0.5 * (x[:, None, None] - means) ** 2)
    >>> q /= q.sum((1, 2), keepdims=True)
    >>> best = BlindPromises(q, y, z, np.ones(4000), (0, 1))
    >>> promised = best.rule(0.05)
    >>> bool(promised.level < 0.05), round(promised.expected, 3), promised.rule.predict_proba(q).shape
    (True, 0.05, (4000, 2))
    """

    @cached_property
    def _law(self) -> BlindRows:
        return BlindRows(check_joint(self.scores), self.weight, self.y, self.z)

    @cached_property
    def _columns(self) -> ColumnSolver:
        return ColumnSolver(self._law, self.groups, self.maximize, self.budget)

    @cached_property
    def _known(self) -> dict[float, tuple[ColumnPoint, Array]]:
        """By level: the rule, and draws of what the population shows of the budget."""
        return {}

    def at_level(self, level: float) -> BlindRule:
        """As `Promising` has it."""
        return self.point(level).rule

    def _on_rows(self, asked: float) -> PromisedRule:
        level = min(asked, 1.0)
        return PromisedRule(self.point(level).rule, level)

    def point(self, level: float) -> ColumnPoint:
        """The best mixture within a level on the rows; it has no bound."""
        return self._columns.point(level)._replace(upper=float("nan"))

    def _keep(self, asked: float, confidence: float | None) -> PromisedRule:
        """The rule of the largest level that keeps what was asked."""
        smallest = self._shown(0.0, confidence)
        if smallest > asked:
            raise refusal(self.budget, asked, smallest, confidence)
        self._shown(asked, confidence)
        for turn in range(13):  # what is shown rises with the level, nearly linearly: false position
            points = sorted((level, self._shown(level, confidence)) for level in self._known if level <= asked)
            low, below = max(point for point in points if point[1] <= asked)
            over = [point for point in points if point[0] > low]
            if not over or asked - below < _BUDGET_GAP * asked or turn == 12:
                break
            high, above = over[0]
            share = float(np.clip((asked - below) / (above - below), 0.1, 0.9))
            self._shown(low + share * (high - low), confidence)
        return PromisedRule(self._known[low][0].rule, low, below, smallest)

    def _shown(self, level: float, confidence: float | None) -> float:
        """What the population is expected to show of the budget, or a quantile of that."""
        if level not in self._known:
            point = self.point(level)
            noise = np.random.default_rng(0).standard_normal((_BLIND_DRAWS, *point.rates.shape))
            drawn = np.clip(point.rates + _SAFETY * self._errors(point) * noise, 0.0, 1.0)
            self._known[level] = point, self._used(drawn)
        shown = self._known[level][1]
        return float(shown.mean() if confidence is None else np.quantile(shown, confidence))

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
        decided, n = point.rule.predict_proba(self.scores), law.effective_rows()
        square = np.stack([np.bincount(law.cell, law.weight * p**2, law.mass.size) for p in decided.T], axis=-1)
        mass, n = law.mass[..., None], n[..., None] + 1.0
        variance = square.reshape(point.rates.shape) / np.where(mass > 0, mass, 1.0) - point.rates**2
        least = 0.5 * np.ptp(decided, axis=0) ** 2 / n
        return np.where(mass > 0, np.sqrt(np.maximum(variance, least) / n), 0.0)


def _drawn_mass(rows: Array, mass: Array) -> Array:
    """P(Y=y, Z=z) as other samples of as many rows would show it, array (draws, groups, 2).

    Args:
        rows: effective rows of each cell (groups, 2).
        mass: P(Y=y, Z=z) of these rows (groups, 2).
    """
    first, second = rows.T + 0.5
    share = np.random.default_rng(1).beta(second, first, size=(_BLIND_DRAWS, len(rows)))
    share = np.where((rows > 0).all(1), share, rows[:, 1] > 0)
    return np.stack([1.0 - share, share], -1) * mass.sum(1)[:, None]
