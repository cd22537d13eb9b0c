r"""The best binary decisions from a score, for an objective and a budget: exact, with a proof.

The rates of a randomised threshold rule fill the product of the groups' ROC regions (`regions`).

- Accuracy, balanced accuracy, cost under a violation: a root in its price (`lagrangian`);
  under I(U;Z) the same root with other regions (`ParityRegions`).
- The same under an EO gap, EO max, TPR, FPR or parity gap: a linear programme (`linear_programme`).
- The utility: vertices of a polygon of overall rates (`certified`).
- Any objective under a predictive gap: branch and bound over two numbers (`sufficiency`).

Each gives rates within the budget and an upper bound that holds for every binary decision of the
score and the group; both are exact, so they differ by rounding or by the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from separatrix.columns.values import Levels
from separatrix.core.measures import budget_named
from separatrix.core.numerics import Array, Index, rows_by_code
from separatrix.core.score_tables import ScoreHistogram
from separatrix.errors import InputError
from separatrix.optimum.objectives import Value
from separatrix.optimum.roc.certified import certified_curve
from separatrix.optimum.roc.lagrangian import best_linear
from separatrix.optimum.roc.linear_programme import Programme
from separatrix.optimum.roc.regions import ParityRegions, Regions, RocCurve, roc_curve
from separatrix.optimum.roc.sufficiency import PredictiveSearch
from separatrix.optimum.rules import Solution, ThresholdChannel, rising

_SHARE_GAP = 1e-6
_UTILITY_GAP = 5e-5  # nats
_PREDICTIVE_GAP = 1e-4  # of the branch and bound
_SLOW = 11  # points of a curve where each takes a third of a second
_NO_BUDGET = 1e-12  # a budget that the best decision uses less of than this is none


class DecisionCurve(NamedTuple):
    """Levels of the budget; for each the best rates (n, groups, 2), their value, an upper bound."""

    levels: Array
    rates: Array
    values: Array
    upper: Array


class RocSolver:
    """The best randomised thresholds of a score, one or two in each group.

    Args:
        curves: the ROC curve of each group.
        mass: P(Y=y, Z=z), array (groups, 2); both labels occur.
        maximize: "utility", "accuracy", "balanced_accuracy" or `Cost`.
        budget: one of `BUDGETS`.
        groups: names of the groups; None for their numbers.
        tolerance: where the search for a bound may stop; 1e-6, for the utility under a
            violation 5e-5 nats, under a predictive gap 1e-4.

    >>> from separatrix.optimum.roc.regions import roc_curve
    >>> good = roc_curve(np.array([2.0, 1.0]), np.array([9.0, 1.0]), np.array([1.0, 9.0]))
    >>> poor = roc_curve(np.array([2.0, 1.0]), np.array([6.0, 4.0]), np.array([4.0, 6.0]))
    >>> best = RocSolver((good, poor), np.full((2, 2), 0.25)).curve(np.array([0.0, 0.1, 0.5]))
    >>> best.values.round(3).tolist()
    [0.6, 0.65, 0.75]
    """

    strictest = 0.0

    def __init__(
        self,
        curves: Sequence[RocCurve],
        mass: Array,
        maximize: Any = "accuracy",
        budget: str = "eo_gap",
        groups: Levels | None = None,
        tolerance: float | None = None,
    ) -> None:
        self.curves, self.maximize, self.budget = tuple(curves), maximize, budget
        self.groups = tuple(range(len(curves))) if groups is None else groups
        self.kind, self.tolerance = budget_named(budget), tolerance
        make_regions = ParityRegions if self.kind.criterion == "independence" else Regions
        self.regions = make_regions([curve.rates[curve.hull] for curve in curves], mass)
        self.mass = self.regions.mass.T
        self.value = Value.from_objective(maximize, self.regions.mass, self.groups)

    @cached_property
    def predictive(self) -> PredictiveSearch:
        """The search under a predictive gap."""
        return PredictiveSearch(self.regions)

    @property
    def least(self) -> float:
        """The smallest level that a decision keeps: 0 for all but the predictive gap."""
        return self.predictive.smallest[0] if self.kind.criterion == "sufficiency" else 0.0

    def curve(self, levels: Array) -> DecisionCurve:
        """The best rates for rising levels, none negative."""
        if self.kind.criterion == "sufficiency":
            search, price, close = self.predictive.best, self.value.price, self.tolerance or _PREDICTIVE_GAP
            solved = [search(price, level, close) for level in levels.tolist()]
            rates, upper = map(np.array, zip(*solved, strict=True))
            upper += self.value.constant
        elif self.kind.widths is not None:
            rates, upper = self._under_widths(levels)
        elif self.value.price is None:
            rates, upper = certified_curve(self.regions, levels, self.tolerance or _UTILITY_GAP)
        else:
            price = np.broadcast_to(self.value.price, (len(levels), *self.regions.mass.shape))
            rates, upper = best_linear(self.regions, price, levels, self.tolerance or _SHARE_GAP)
            upper += self.value.constant
        values = self.value(rates)
        order, upper = rising(values, upper)
        return DecisionCurve(levels, rates[order], values[order], upper)

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """Solutions of rising levels; no search starts from another."""
        curve = self.curve(levels)
        ones = np.swapaxes(curve.rates, 1, 2)  # (n, labels, groups)
        law = np.stack([1.0 - ones, ones], axis=-1)  # P(U=u | y, z)
        rules = (partial(self.rule, x) for x in curve.rates)
        return list(map(Solution, curve.values.tolist(), curve.upper.tolist(), law, rules))

    def spaced(self, points: int) -> Array:
        """Levels from the strictest to what the best rule without a budget uses."""
        # no rate differs by more than one, and v of two labels and decisions is at most log 2
        free = self.curve(np.ones(1)).rates[0]
        wide = float(self.kind.measure(free, self.regions.mass)) - self.least
        if self.maximize == "utility" and self.budget in ("independence", "predictive_gap"):
            points = min(points, _SLOW)
        if wide <= _NO_BUDGET:
            return np.array([self.least])
        return self.least + wide * np.linspace(0.0, 1.0, points) ** 2

    def rule(self, rates: Array) -> ThresholdChannel:
        """The rule that has these rates (groups, 2): a randomised threshold per group, thinned where it must be weaker.

        A point under the chain is (1 − μ)·(0, 0) + μ·c with c on the chain: c's rule, whose ones
        are kept with probability μ.
        """
        thresholds, levels = [], []
        for curve, mass, (s, t) in zip(self.curves, self.regions.mass, rates.tolist(), strict=True):
            if mass.min() <= 0:  # one of the rates is not defined: a constant has the other
                thresholds.append(np.array([-np.inf]))
                levels.append(np.array([s if mass[0] > 0 else t]))
                continue
            chain, cut = curve.rates[curve.hull], curve.thresholds[curve.hull]
            # ratio t/s falls along the chain: find the edge that the ray from (0, 0) through the
            # point leaves the region by
            beyond = chain[1:, 1] * s - chain[1:, 0] * t <= 1e-15
            edge = int(np.argmax(beyond)) if beyond.any() else len(chain) - 2
            a, d = chain[edge], chain[edge + 1] - chain[edge]
            slant = d[1] * s - d[0] * t
            # along the first edge the ray and the edge are one: rounding must not decide the position
            straight = edge == 0 or slant >= 0
            position = 1.0 if straight else float(np.clip((a[0] * t - a[1] * s) / slant, 0.0, 1.0))
            reach = (a + position * d).sum()
            keep = min(1.0, float((s + t) / reach)) if reach > 0 else 0.0
            thresholds.append(cut[edge : edge + 2].copy())
            levels.append(np.array([keep if edge else 0.0, keep * position]))
        return ThresholdChannel(self.groups, tuple(thresholds), tuple(levels))

    def _under_widths(self, levels: Array) -> tuple[Array, Array]:
        regions, value, programme = self.regions, self.value, Programme(self.regions, self.kind)
        rates, upper = np.empty((len(levels), *regions.mass.shape)), np.empty(len(levels))
        exact = bool((programme.widths.max(0) > 0).all())  # at level 0 the groups are equal
        for j, level in enumerate(levels.tolist()):
            if level == 0 and exact:
                rates[j] = regions.equal[int(value(regions.equal).argmax())]
                upper[j] = value(rates[j])
            elif value.price is None:
                rates[j], upper[j] = programme.most_useful(level, self.tolerance or _SHARE_GAP)
            else:
                rates[j], bound = programme.support(regions.mass * value.price, level)
                upper[j] = value.constant + bound
        return rates, upper


def group_curves(s: Array, y: Index, z: Index, w: Array, n_groups: int) -> tuple[tuple[RocCurve, ...], Array]:
    """The ROC curve of each group, and P(Y=y, Z=z) (groups, 2)."""
    curves, mass = [], []
    for rows in rows_by_code(z, n_groups):
        positive, negative = w[rows] * (y[rows] == 1), w[rows] * (y[rows] == 0)
        curves.append(roc_curve(s[rows], positive, negative))
        mass.append((negative.sum(), positive.sum()))
    return tuple(curves), _shares(np.array(mass))


def histogram_curves(histogram: ScoreHistogram) -> tuple[tuple[RocCurve, ...], Array]:
    """The groups' ROC curves of a score histogram, and P(Y=y, Z=z) (groups, 2)."""
    negative, positive = histogram.counts
    lower = histogram.edges[:-1]
    seen = (positive + negative) > 0
    curves = tuple(roc_curve(lower[s], p[s], n[s]) for s, p, n in zip(seen, positive, negative, strict=True))
    return curves, _shares(histogram.counts.sum(-1).T)


def _shares(mass: Array) -> Array:
    """P(Y=y, Z=z) of counts (groups, 2)."""
    if mass.sum(0).min() <= 0:
        raise InputError("One of the two labels has no weight: there is nothing to predict.")
    return mass / mass.sum()
