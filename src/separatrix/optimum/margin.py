r"""The margin: how strict a rule must be on the rows to keep a budget in the population.

A rule fitted at the level b on the rows shows more than b in the population: its rates were noisy,
the corners of the hull that it stands on were the lucky ones, and small groups borrowed from large
ones. All three happen again when the rule is fitted to a resample of the rows. For resample k let
r_k be the rates of its rule on all rows, i_k on the rows of the resample, o_k on the rows outside
of it. Judged by o it looks too bad, since a resample has fewer distinct rows; judged by r too good,
since most of the judges are in the resample. Efron's .632 weighs them:

.. math:: \hat r_k = r_k + .632 \, \operatorname{mean}_j (o_j - r_j), \qquad
          E(b) = \mathbb E \, \text{budget}(\hat r) .

The mean of o − r has a noise of its own: which rows were drawn. The rule of all rows meets the same
draw without any bias, so its o − r is taken off (a control variate). The expectation is over normal
combinations of the deviations of r_k from their mean, which keep their correlations. A cell in
which all resamples agree is uncertain too, by half a row.

`Margin` finds the largest b with E(b) ≤ asked. A confidence asks for more: that quantile of
budget(r̂) is at most what was asked. If E(0) is above what was asked, no b will do:
`InfeasibleError` names E(0), and asking for that succeeds. `benchmarks.simulations promises`
measures what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from separatrix.columns.values import Levels
from separatrix.core.measures import budget_named
from separatrix.core.numerics import Array
from separatrix.errors import InfeasibleError
from separatrix.optimum.borrowing import _MANY_ROWS, GroupCurves, ScoreTable, group_curves_borrowing
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.rules import BlindRule, SoftmaxChannel, ThresholdChannel

# criteria whose gaps depend on the rates of each label only, not on how frequent the label is
RATES_ONLY = ("separation", "equal_opportunity")
_RESAMPLES, _FEWER = 20, 8
_BAGS = 20_000  # of rows of a stratum, drawn together where there are many rows
_SLOW = ("violation", "independence", "predictive_gap")  # budgets that no linear programme solves
_OUTSIDE = 0.632  # weight of the rows outside of the resample
_STEPS = np.array([1 / 3, 2 / 3, 1.0])  # levels to try, as shares of what was asked
_DRAWS = 1000
_TOLERANCE = 1e-3  # of the objective, in a resample: far below what the rows can tell


class PromisedRule(NamedTuple):
    """A rule and what it promises.

    Args:
        rule: P(U | score, group), or P(U | q) without the group.
        level: the budget that it was fitted for on the rows.
        expected: what the population is expected to show of the budget, its quantile where there is
            a confidence; NaN if nobody asked.
        smallest: the least that can be promised with these rows; NaN if nobody asked.
    """

    rule: ThresholdChannel | SoftmaxChannel | BlindRule
    level: float
    expected: float = np.nan
    smallest: float = np.nan


class Margin:
    """Finds the level that keeps a budget in the population; remembers the levels it has measured.

    Args:
        table: P(Y=1 | x) of rows that trained nothing.
        groups: the names of the groups.
        maximize, budget: as in `limit`.
        known: the curves of the rows, which say how much each cell borrows.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    >>> s = 1 / (1 + np.exp(-rng.normal(size=2000) - (2 * y - 1) * (1 + z)))
    >>> table = ScoreTable.from_rows(s, y, z, np.ones(2000))
    >>> known = group_curves_borrowing(table)
    >>> promised = Margin(table, (0, 1), "accuracy", "eo_gap", known).keep(0.05)
    >>> promised.level < 0.05, promised.expected <= 0.05, promised.smallest < 0.05
    (True, True, True)
    """

    def __init__(
        self, table: ScoreTable, groups: Levels, maximize: str | Cost, budget: str, known: GroupCurves
    ) -> None:
        self.table, self.groups, self.maximize, self.known = table, groups, maximize, known
        self.kind = budget_named(budget)
        self._rising = -table.score  # within each group
        self._label = np.stack([table.y == 0, table.y == 1])
        self._ends = np.searchsorted(table.z, np.arange(len(groups) + 1))
        # by level: r̂ of each resample (resamples, groups, 2); standard errors (groups, 2) that a cell has at least
        self._measured: dict[float, tuple[Array, Array]] = {}

    def keep(self, asked: float, confidence: float | None = None) -> PromisedRule:
        """The largest level whose rule is expected to keep what was asked.

        Args:
            asked: the budget to keep in the population.
            confidence: None for the expectation; 0.9 for a budget kept in nine of ten samples.

        Raises:
            InfeasibleError: not even the strictest rule is expected to keep it.
        """
        grid = asked * _STEPS if max(self._measured, default=0.0) < asked else np.zeros(0)
        self._measure(np.r_[0.0, grid])
        smallest = self._shown(0.0, confidence)
        if smallest > asked:
            raise refusal(self.kind.name, asked, smallest, confidence)
        levels = np.array(sorted(self._measured))
        # a laxer level cannot show less but by the draws
        shown = np.maximum.accumulate([self._shown(float(b), confidence) for b in levels])
        level = asked if shown[-1] <= asked else float(np.interp(asked, shown, levels))
        # the strictest rule is one rule, whatever grid is measured by now: its promise may be asked
        level = 0.0 if asked <= smallest else min(level, asked)
        expected = float(np.interp(level, levels, shown))
        (rule,) = self._fits(self.known, np.array([level]), None)
        return PromisedRule(rule, level, min(expected, asked), smallest)

    def _shown(self, level: float, confidence: float | None) -> float:
        """What the population is expected to show of the budget, or a quantile of that."""
        rates, floor = self._measured[level]
        mean = rates.mean(0)
        deviations = (rates - mean) / np.sqrt(len(rates) - 1.0)
        rng = np.random.default_rng(0)
        noise = np.tensordot(rng.standard_normal((_DRAWS, len(rates))), deviations, 1)
        missing = np.sqrt(np.maximum(floor**2 - (deviations**2).sum(0), 0.0))
        noise += missing * rng.standard_normal(noise.shape)
        shown = self.kind.measure(np.clip(mean + noise, 0.0, 1.0), self.known.mass)
        return float(shown.mean() if confidence is None else np.quantile(shown, confidence))

    def _measure(self, levels: Array) -> None:
        """Fit the rules of these levels to every resample, and judge them."""
        new = np.array(sorted({float(b) for b in levels} - set(self._measured)))
        if not len(new):
            return
        everything = self._counts(self.table.sums())
        whole_rules = self._fits(self.known, new, None)
        on_all_rows, on_judges, totals = [], [], []
        for repeats in self._resamples():
            drawn = self.table.sums(repeats)
            curves = group_curves_borrowing(self.table, sums=drawn, borrowed=self.known.borrowed)
            judges = [self._counts(sums) for sums in (drawn, self.table.sums((repeats == 0).astype(np.float64)))]
            rules = self._fits(curves, new, _TOLERANCE)
            on_all_rows.append(self._passed(rules, everything))
            # rule of the resample less rule of all rows: the same draw, the same noise
            on_judges.append([self._passed(rules, counts) - self._passed(whole_rules, counts) for counts in judges])
            totals.append([self._totals(counts) for counts in judges])
        total = np.maximum(self._totals(everything), 1e-300)
        rates, whole_rates = np.array(on_all_rows) / total, self._passed(whole_rules, everything) / total
        within, outside = np.array(on_judges).sum(0) / np.maximum(np.array(totals).sum(0), 1e-300)[:, None]
        # of o − i, what r − i shows already: r judges by all rows
        seen = (rates - whole_rates).mean(0) - within
        rates += _OUTSIDE * (outside - within - seen)
        n = self.known.rows + self.known.borrowed + 1.0
        for j, level in enumerate(new.tolist()):
            spread = np.array([[np.ptp(np.r_[q, 0.0])] for q in whole_rules[j].levels])
            floor = np.where(self.known.rows > 0, np.sqrt(0.5) * spread / n, 0.0)
            self._measured[level] = rates[:, j], floor

    def _resamples(self) -> Iterator[Array]:
        """How often each row occurs, in balanced resamples of every cell, or of every group.

        Balanced: over all resamples each row occurs equally often, so their mean has no noise of
        the first order. From 200,000 rows on, the margin is small and fewer resamples tell it; the
        rows of a large stratum are drawn in random bags.
        """
        rng, table = np.random.default_rng(0), self.table
        many = len(table.entry) > _MANY_ROWS
        number = _FEWER if many or self.kind.name in _SLOW else _RESAMPLES
        stratum = 2 * table.z + table.y if self.kind.criterion in RATES_ONLY else table.z
        members = np.argsort(table.entry) if not many else np.arange(len(table.entry))
        of_row = stratum[table.entry[members]]
        strata = [members[of_row == k] for k in np.unique(stratum)]
        drawn, bags = [], []
        for rows in strata:
            bagged = many and len(rows) > _BAGS
            bags.append(rng.integers(_BAGS, size=len(rows)) if bagged else np.arange(len(rows)))
            units = np.arange(_BAGS if bagged else len(rows), dtype=np.int32)
            drawn.append(rng.permutation(np.tile(units, number)).reshape(number, -1))
        for k in range(number):
            repeats = np.zeros(len(table.entry))
            for rows, bag, places in zip(strata, bags, drawn, strict=True):
                repeats[rows] = np.bincount(places[k], minlength=places.shape[1])[bag]
            yield repeats

    def _fits(self, known: GroupCurves, levels: Array, close: float | None) -> list[ThresholdChannel]:
        """The best rule of each level on the curves of a resample."""
        solver = RocSolver(*known[:2], self.maximize, self.kind.name, self.groups, close)
        rates = solver.curve(np.maximum(levels, solver.least)).rates
        return [solver.rule(x) for x in rates]

    def _counts(self, sums: tuple[Array, Array]) -> Array:
        """The weight of the rows before each entry, by label: (2, entries + 1)."""
        counts = np.zeros((2, len(self.table.score) + 1))
        np.cumsum(self._label * sums[0], axis=1, out=counts[:, 1:])
        return counts

    def _passed(self, rules: list[ThresholdChannel], counts: Array) -> Array:
        """The weight (rules, groups, 2) that each rule decides with 1."""
        passed = []
        for rule in rules:
            for (start, end), cuts, q in zip(pairwise(self._ends.tolist()), rule.thresholds, rule.levels, strict=True):
                place = start + np.searchsorted(self._rising[start:end], -cuts, side="right")
                passed.append((counts[:, place] - counts[:, start, None]) @ -np.diff(np.r_[q, 0.0]))
        return np.reshape(passed, (len(rules), len(self.groups), 2))

    def _totals(self, counts: Array) -> Array:
        """The weight of each cell (groups, 2)."""
        return np.asarray(np.diff(counts[:, self._ends], axis=1).T)


def refusal(budget: str, asked: float, smallest: float, confidence: float | None = None) -> InfeasibleError:
    """The error where the rows are too few for a budget; it names the smallest that succeeds."""
    sure = "" if confidence is None else f" with probability {confidence:g}"
    return InfeasibleError(
        f"With these rows no rule can promise {budget_named(budget).label} ≤ {asked:g} in the "
        f"population{sure}: even a rule that is equal on the rows is expected to show "
        f"{up(smallest)}. Ask for that or more, bring more rows of the small groups, or join "
        "them.",
        {budget: smallest},
    )


def up(value: float) -> str:
    """Three digits, rounded up: what is printed can be asked for."""
    scale = 10.0 ** (2 - int(np.floor(np.log10(value)))) if value > 0 else 1.0
    return f"{np.ceil(value * scale) / scale:.3g}"
