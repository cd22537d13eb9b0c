r"""How strict a rule must be on the rows to keep a budget in the population.

A rule that was fitted to have the rates x on the rows has other rates in the population. The cell
(y, z) has n rows, and m pseudo-rows where it borrows (`borrowing`); q(s) is the rule's P(U=1). Then

.. math:: r_{yz} \approx x_{yz} + \sqrt{\operatorname{Var}(q \mid y, z) / (n_{yz} + m_{yz} + 1)}
          \; N(0, 1), \qquad E(b) = \mathbb E \bigl[ \text{budget}(r) \bigr]

for the rule fitted for the level b. The largest of several noisy rates is far above their common
mean, so E(b) > b, and much so for many or small groups. `keep_budget` finds the largest b with
E(b) ≤ asked. A confidence asks for more: that quantile of budget(r) is at most what was asked.

Where E(0) is above what was asked, no b will do: `InfeasibleError` says the smallest E, and asking
for that succeeds. The normal law is an approximation; benchmarks/margins.py simulates what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.borrowing import GroupCurves

__all__ = ["Kept", "keep_budget", "rate_errors"]

Array = NDArray[np.float64]
_DRAWS = 1000
_SAFETY = 1.0
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


def keep_budget(
    solve_at: Callable[[float], Array],
    measure: Callable[[Array], Array],
    errors: Callable[[Array], Array],
    asked: float,
    *,
    name: str = "eo_gap",
    confidence: float | None = None,
) -> Kept:
    """The largest level whose rule is expected to keep what was asked.

    Args:
        solve_at: level → the best rates (groups, 2) within it on the rows.
        measure: rates (..., groups, 2) → what they use of the budget.
        errors: rates → the standard errors of the population's rates around them.
        asked: the budget to keep in the population.
        name: of the budget, for the error.
        confidence: None for the expectation; 0.9 for a budget that is kept in nine of ten samples.

    Raises:
        InfeasibleError: not even the strictest rule is expected to keep it.

    >>> def same(level): return np.array([[0.2, 0.7], [0.2, 0.7 + 2 * level]])
    >>> def gap(r): return 0.5 * np.ptp(r, axis=-2).sum(-1)
    >>> kept = keep_budget(same, gap, lambda r: np.full((2, 2), 0.01), 0.05)
    >>> bool(0.04 < kept.level < 0.05), round(kept.expected, 3), round(kept.smallest, 3)
    (True, 0.05, 0.011)
    """
    if confidence is not None and not 0.0 < confidence < 1.0:
        raise InputError(f"`confidence` is a probability between 0 and 1, got {confidence}.")
    noise: Array | None = None

    def promised(level: float) -> tuple[float, Array]:
        nonlocal noise
        x = solve_at(level)
        if noise is None:
            noise = np.random.default_rng(0).standard_normal((_DRAWS, *x.shape))
        found = measure(np.clip(x + _SAFETY * errors(x) * noise, 0.0, 1.0))
        value = found.mean() if confidence is None else np.quantile(found, confidence)
        return float(value), x

    smallest, strictest = promised(0.0)
    if smallest > asked:
        sure = "" if confidence is None else f" with probability {confidence:g}"
        raise InfeasibleError(
            f"With these rows no rule can promise {name} ≤ {asked:g} in the population{sure}: even a rule "
            f"that is exactly equal on the rows is expected to show {_up(smallest)}. Ask for that or "
            "more, bring more rows of the small groups, join them, or pass margin=0 to keep the budget "
            "on these rows only.",
            {name: smallest},
            float("nan"),
        )
    value, x = promised(asked)
    if value <= asked:
        return Kept(asked, value, smallest, x)
    best = Kept(0.0, smallest, smallest, strictest)
    high, above = asked, value
    for _ in range(12):  # E rises with b, nearly linearly: false position, kept off the ends
        share = np.clip((asked - best.expected) / (above - best.expected), 0.1, 0.9)
        level = best.level + float(share) * (high - best.level)
        value, x = promised(level)
        if value <= asked:
            best = Kept(level, value, smallest, x)
        else:
            high, above = level, value
        if asked - best.expected < _CLOSE * asked:
            break
    return best


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
