"""From scores to the decision rule that keeps an asked budget in the population.

Two labels: the exact optimum of `decisions` on curves that borrow (`borrowing`), at the level that
`margin` finds. More labels: the best of the channels of `softmax` whose table, drawn anew from its
own counts, is expected to keep the budget.

`margin=0` keeps the budget on the given rows, with their own curves; another number is taken off
the budget first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel
from separatrix.optimum.softmax import softmax_path
from separatrix.columns.values import Levels
from separatrix.core.counts import soft_counts
from separatrix.errors import InfeasibleError, InputError
from separatrix.core.information import (
    accuracy,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.optimum.limits import threshold_channel
from separatrix.optimum.borrowing import GroupCurves, group_curves_borrowing
from separatrix.optimum.decisions import solve
from separatrix.optimum.margin import keep_budget, rate_errors
from separatrix.optimum.objectives import Cost, budget_named
from separatrix.optimum.geometry import Regions

__all__ = ["PromisedRule", "promised_rule"]

Array = NDArray[np.float64]
Rule = ThresholdChannel | SoftmaxChannel
_DRAWS = 200


class PromisedRule(NamedTuple):
    """A rule and what it promises.

    Args:
        rule: P(U | score, group).
        level: the budget that it was fitted for on the rows.
        expected: what the population is expected to show of the budget; NaN if nobody asked.
        smallest: the least that could be promised with these rows; NaN if nobody asked.
        borrowed: pseudo-rows of the pooled curve in each cell (groups, 2).
    """

    rule: Rule
    level: float
    expected: float
    smallest: float
    borrowed: Array


def promised_rule(
    scores: Array,
    y: NDArray[np.intp],
    z: NDArray[np.intp],
    weight: Array,
    groups: Levels,
    *,
    maximize: str | Cost = "accuracy",
    budget: str = "eo_gap",
    asked: float | None = None,
    margin: float | None = None,
    confidence: float | None = None,
) -> PromisedRule:
    """The best rule for an objective that keeps a budget on unseen rows.

    Args:
        scores: P(Y | x), array (n, K), of rows that trained nothing.
        y, z: codes of the labels and of the groups.
        weight: weight of each row.
        groups: the names of the groups, for the rule.
        maximize, budget: as in `limit`.
        asked: the budget; None for the best rule without one.
        margin: None to keep it in the population; a number that is taken off it, 0 for none.
        confidence: the probability that the population keeps it; None for its expectation.

    Raises:
        InfeasibleError: the rows are too few to promise it.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> s = 1 / (1 + np.exp(-rng.normal(size=4000) - (2 * y - 1) * (1 + z)))
    >>> found = promised_rule(np.stack([1 - s, s], 1), y, z, np.ones(4000), ("f", "m"), asked=0.05)
    >>> bool(found.level < 0.05), round(found.expected, 3)
    (True, 0.05)
    """
    _check(asked, margin, confidence)
    if scores.shape[1] > 2:
        return _of_many_labels(
            scores, y, z, weight, groups, maximize, budget, asked, margin, confidence
        )
    computed = asked is not None and margin is None
    known = group_curves_borrowing(scores[:, 1], y, z, weight, borrow=computed)
    kind, regions = budget_named(budget), regions_of(known)

    def solve_at(level: float) -> Array:
        levels = np.array([level])
        found = solve(
            known.curves, known.mass, maximize=maximize, budget=budget, levels=levels, groups=groups
        )
        return found.rates[0]

    def rule_at(x: Array) -> ThresholdChannel:
        return threshold_channel(x, known.curves, regions, groups)

    if not computed:
        level = 1.0 if asked is None else asked - (margin or 0.0)
        rule = rule_at(solve_at(level))
        return PromisedRule(rule, level, np.nan, np.nan, known.borrowed)
    assert asked is not None
    kept = keep_budget(
        solve_at,
        lambda x: kind.measure(x, known.mass),
        lambda x: rate_errors(known, rule_at(x)),
        asked,
        name=budget,
        confidence=confidence,
    )
    return PromisedRule(
        rule_at(kept.rates), kept.level, kept.expected, kept.smallest, known.borrowed
    )


def regions_of(known: GroupCurves) -> Regions:
    """What randomised thresholds of these curves can do."""
    return Regions([curve.rates[curve.hull] for curve in known.curves], known.mass)


_VALUES: dict[str, Callable[[Any], Array]] = {
    "accuracy": accuracy,
    "utility": mutual_information,
    "balanced_accuracy": lambda table: _balanced(np.asarray(table)),
}
_GAPS = {"eo_gap": eo_gap, "violation": conditional_mutual_information}


def _of_many_labels(
    scores: Array,
    y: NDArray[np.intp],
    z: NDArray[np.intp],
    weight: Array,
    groups: Levels,
    maximize: str | Cost,
    budget: str,
    asked: float | None,
    margin: float | None,
    confidence: float | None,
) -> PromisedRule:
    """The best channel of the softmax path that is expected to keep the budget."""
    if not isinstance(maximize, str) or maximize not in _VALUES or budget not in _GAPS:
        raise InputError(
            f"More than two labels: `maximize` must be one of {', '.join(map(repr, _VALUES))} and the "
            f"budget one of {', '.join(map(repr, _GAPS))}, got {maximize!r} and {budget!r}."
        )
    path = softmax_path(scores, y, z, sample_weight=weight)
    rules = [SoftmaxChannel(groups, *one) for one in zip(path.weight, path.bias, path.mix, strict=True)]
    names = np.array(groups, dtype=object)[z]
    tables = np.stack([soft_counts(r.predict_proba(scores, names), y, z, weight) for r in rules])
    values, used = _VALUES[maximize](tables), _GAPS[budget](tables)
    shown = used
    if asked is not None and margin is None:
        drawn = [_GAPS[budget](_drawn(t, weight)) for t in tables]
        shown = np.array([d.mean() if confidence is None else np.quantile(d, confidence) for d in drawn])
    most = np.inf if asked is None else asked - (margin or 0.0)
    smallest = float(shown.min())
    fits = np.flatnonzero(shown <= most + 1e-12)
    if not len(fits):
        raise InfeasibleError(
            f"No channel found keeps {budget} ≤ {most:g}; the strictest is expected to show "
            f"{smallest:.3g}. Ask for that or more, or bring more rows.",
            {budget: smallest},
            float("nan"),
        )
    best = int(fits[values[fits].argmax()])
    promised = (float(shown[best]), smallest) if asked is not None and margin is None else (np.nan,) * 2
    return PromisedRule(rules[best], float(used[best]), *promised, np.zeros((len(groups), 2)))


def _drawn(table: Array, weight: Array) -> Array:
    """Tables (draws, y, z, u) of as many rows, drawn from the rates of one; cells have their Kish size."""
    share = weight.sum() ** 2 / (weight**2).sum() / weight.sum()
    rows = table.sum(-1)
    law = table / np.where(rows > 0, rows, 1.0)[..., None]
    law[rows <= 0, 0] = 1.0
    rng, n = np.random.default_rng(0), np.maximum(np.round(rows * share), rows > 0).astype(np.int64)
    counts = rng.multinomial(n, law, size=(_DRAWS, *rows.shape)).astype(np.float64)
    return counts / np.where(n > 0, n, 1)[..., None] * rows[..., None]


def _balanced(table: Array) -> Array:
    """The mean over labels of the share decided right."""
    return np.diagonal(table.sum(-2) / table.sum((-2, -1))[..., None], axis1=-2, axis2=-1).mean(-1)


def _check(asked: float | None, margin: float | None, confidence: float | None) -> None:
    if asked is not None and not asked >= 0.0:
        raise InputError(f"A budget is a number of at least 0, got {asked}.")
    if margin is not None and not (0.0 <= margin and (asked is None or margin <= asked)):
        raise InputError(
            f"`margin` is taken off the budget of {asked} and must be between 0 and that, got {margin}."
        )
    if confidence is not None and (asked is None or margin is not None):
        raise InputError(
            "`confidence` needs a budget and the computed margin (margin=None): it says how surely the "
            "budget is kept."
        )
