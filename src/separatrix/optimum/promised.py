r"""From scores to the decision rule that keeps an asked budget in the population.

Two labels: the exact optimum of `decisions` on curves that borrow (`borrowing`), at the level that
`margin` finds. More labels: the rules of `cross_fitted`, at the price of the violation at which
rules fitted to one half of the rows keep the budget on the other.

`margin=0` keeps the budget on the given rows, with their own curves; another number is taken off
the budget first.

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

from functools import cached_property

import numpy as np

from separatrix.columns.counting import soft_counts
from separatrix.columns.values import Levels
from separatrix.core.information import check_confidence
from separatrix.core.measures import BUDGETS, budget_named
from separatrix.core.numbers import one_number
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


class Promises:
    """The best rules for an objective, for any budget of one kind; curves are computed once.

    Args:
        scores: P(Y | x), array (n, K), of rows that trained nothing.
        y, z: codes of the labels and of the groups.
        weight: weight of each row.
        groups: the names of the groups, for the rule.
        maximize, budget: as in `limit`.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> s = 1 / (1 + np.exp(-rng.normal(size=4000) - (2 * y - 1) * (1 + z)))
    >>> best = Promises(np.stack([1 - s, s], 1), y, z, np.ones(4000), ("f", "m"))
    >>> promised = best.rule(0.05)
    >>> bool(promised.level < 0.05), round(promised.expected, 3), best.rule(0.05, margin=0).level
    (True, 0.05, 0.05)
    """

    def __init__(
        self,
        scores: Array,
        y: Index,
        z: Index,
        weight: Array,
        groups: Levels,
        *,
        maximize: str | Cost = "accuracy",
        budget: str = "eo_gap",
    ) -> None:
        self.scores, self.y, self.z, self.weight = scores, y, z, weight
        self.groups, self.maximize, self.budget = groups, maximize, budget

    def rule(
        self, asked: float | None = None, *, margin: float | None = None, confidence: float | None = None
    ) -> PromisedRule:
        """The best rule that keeps a budget on unseen rows.

        Args:
            asked: the budget; None for the best rule without one.
            margin: None to keep it in the population; a number that is taken off it, 0 for none.
            confidence: the probability that the population keeps it; None for its expectation.

        Raises:
            InfeasibleError: the rows are too few to promise it.
        """
        check_question(asked, margin, confidence)
        if self.scores.shape[1] > 2:
            return self._of_many_labels(asked, margin, confidence)
        if asked is None or margin is not None:
            level = 1.0 if asked is None else asked - (margin or 0.0)
            return PromisedRule(self._rule(self._plain, level), level, np.nan, np.nan)
        return self._margin.keep(asked, confidence)

    def at_level(self, level: float) -> Rule:
        """The best rule within a level on the rows, on curves that borrow; no margin is taken."""
        if self.scores.shape[1] > 2:
            try:
                return self.rule(level, margin=0.0).rule
            except InfeasibleError as error:  # the strictest there is
                return self.rule(error.smallest[self.budget], margin=0.0).rule
        return self._rule(self._known, level)

    @cached_property
    def _table(self) -> ScoreTable:
        return ScoreTable.from_rows(self.scores[:, 1], self.y, self.z, self.weight)

    @cached_property
    def _plain(self) -> GroupCurves:
        return group_curves_borrowing(self._table, borrow=False)

    @cached_property
    def _known(self) -> GroupCurves:
        return group_curves_borrowing(self._table)

    @cached_property
    def _margin(self) -> Margin:
        return Margin(self._table, self.groups, self.maximize, self.budget, self._known)

    def _rule(self, known: GroupCurves, level: float) -> ThresholdChannel:
        """The best rule within a level on the curves, or the strictest there is."""
        close = _OBJECTIVE_GAP if self.budget == "violation" else None
        solver = RocSolver(*known[:2], self.maximize, self.budget, self.groups, close)
        return solver.rule(solver.curve(np.array([max(level, solver.least)])).rates[0])

    @cached_property
    def _label_rules(self) -> LabelRules:
        if self.budget not in _MANY_LABELS:
            names = ", ".join(map(repr, _MANY_LABELS))
            raise InputError(f"More than two labels: the budget must be one of {names}, got {self.budget!r}.")
        return LabelRules(self.scores, self.y, self.z, self.weight, len(self.groups), self.maximize)

    def _of_many_labels(self, asked: float | None, margin: float | None, confidence: float | None) -> PromisedRule:
        """The best rule that is expected to keep the budget, at a price found by bisection."""
        rules = self._label_rules
        scale = 1.0 if rules.gains is None else float(np.ptp(rules.gains)) or 1.0
        cheap, dear = scale * _PRICES[0], scale * _PRICES[1]
        choice = rules.choice(scale)
        computed = asked is not None and margin is None
        most = np.inf if asked is None else asked - (margin or 0.0)
        fitted: dict[float, SoftmaxChannel] = {}

        def shows(price: float) -> float:
            if not computed:
                fitted[price] = rules.point(price, choice).rule(self.groups)
                return self._used(fitted[price])
            return _expected(rules.tables(price, choice), self.budget, self.weight, confidence)

        smallest = np.nan
        price, shown = cheap, np.nan if asked is None else shows(cheap)
        if asked is not None and shown > most + 1e-12:
            price, smallest = dear, shows(dear)
            if smallest > most * (1.0 + _SOLVED) + 1e-12:
                raise InfeasibleError(
                    f"No rule found keeps {budget_named(self.budget).label} ≤ {most:g}; the "
                    f"strictest is expected to show {smallest:.3g}. Ask for that or more, or bring "
                    "more rows.",
                    {self.budget: smallest},
                )
            shown, low = min(smallest, most), cheap
            for _ in range(_STEPS):
                middle = float(np.sqrt(low * price))
                shown_there = shows(middle)
                if shown_there <= most:
                    price, shown = middle, shown_there
                else:
                    low = middle
        elif computed:
            smallest = shows(dear)
        rule = fitted.get(price) or rules.point(price, choice).rule(self.groups)
        promise = (shown, smallest) if computed else (np.nan, np.nan)
        return PromisedRule(rule, self._used(rule), *promise)

    def _used(self, rule: SoftmaxChannel) -> float:
        """What the rule uses of the budget on the rows that it was fitted to."""
        names = [self.groups[code] for code in self.z.tolist()]
        q = rule.predict_proba(self.scores, sensitive_features=names)
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


def _expected(tables: Array, budget: str, weight: Array, confidence: float | None) -> float:
    """What unseen rows show of a budget, from tables (half, y, z, u) of such rows.

    The mean over both halves, sampling error included, so that it is rather too large than too
    small; with a confidence, that quantile of tables drawn anew.
    """
    if confidence is not None:
        return float(np.mean([np.quantile(BUDGETS[budget](_drawn(table, weight)), confidence) for table in tables]))
    return float(np.mean(BUDGETS[budget](tables)))


def check_question(asked: float | None, margin: float | None, confidence: float | None) -> None:
    """An error where a budget, a margin or a confidence cannot be meant."""
    if asked is not None and not asked >= 0.0:
        raise InputError(f"A budget is a number of at least 0, got {asked}.")
    taken = 0.0 if margin is None else one_number(margin, "margin")
    if not (taken >= 0.0 and (asked is None or taken <= asked)):
        raise InputError(f"`margin` is taken off the budget of {asked} and must be between 0 and that, got {margin}.")
    if confidence is not None and (asked is None or margin is not None):
        raise InputError("`confidence` says how surely a budget is kept: pass a budget too, or leave it out.")


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
    >>> promised = best.rule(0.05)
    >>> bool(promised.level < 0.05), round(promised.expected, 3), promised.rule.predict_proba(q).shape
    (True, 0.05, (4000, 2))
    """

    def __init__(
        self,
        q: Array,
        y: Index,
        z: Index,
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
        self._columns = ColumnSolver(self._law, groups, maximize, budget)
        # by level: the rule, and draws of what the population shows of the budget
        self._known: dict[float, tuple[ColumnPoint, Array]] = {}

    def rule(
        self, asked: float | None = None, *, margin: float | None = None, confidence: float | None = None
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
        if asked is None or margin is not None:
            level = 1.0 if asked is None else asked - (margin or 0.0)
            return PromisedRule(self.point(level).rule, level, np.nan, np.nan)
        return self._keep(asked, confidence)

    def at_level(self, level: float) -> BlindRule:
        """The best rule within a level on the rows; no margin is taken."""
        return self.point(level).rule

    def point(self, level: float) -> ColumnPoint:
        """The best mixture within a level on the rows; it has no bound."""
        return self._columns.point(level)._replace(upper=float("nan"))

    def _keep(self, asked: float, confidence: float | None) -> PromisedRule:
        """The rule of the largest level that keeps what was asked."""
        if confidence is not None:
            check_confidence(confidence)
        smallest = self._shown(0.0, confidence)
        if smallest > asked:
            raise refusal(self.budget, asked, smallest, confidence)
        self._shown(asked, confidence)

        def curve() -> list[tuple[float, float]]:
            return sorted((level, self._shown(level, confidence)) for level in self._known if level <= asked)

        for _ in range(12):  # what is shown rises with the level, nearly linearly: false position
            points = curve()
            low, below = max(point for point in points if point[1] <= asked)
            over = [point for point in points if point[0] > low]
            if not over or asked - below < _BUDGET_GAP * asked:
                break
            high, above = over[0]
            share = float(np.clip((asked - below) / (above - below), 0.1, 0.9))
            self._shown(low + share * (high - low), confidence)
        level, shown = max(point for point in curve() if point[1] <= asked)
        return PromisedRule(self._known[level][0].rule, level, shown, smallest)

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
        decided, n = point.rule.predict_proba(self.q), law.effective_rows()
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
