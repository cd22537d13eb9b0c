"""Trained points: what can be chosen, what is offered, what was chosen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable
from separatrix.core.measures import label_of, measure
from separatrix.errors import InputError
from separatrix.report.words import budget_text, number

__all__ = ["BUDGETS", "KINDS", "Candidate", "Metric", "Option", "Selection"]

Array = NDArray[np.float64]
Metric = str | Callable[[Array], Any]
KINDS = ("deterministic", "single", "mixture")
BUDGETS = {"max_violation": "violation", "max_eo_gap": "eo_gap"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """One policy that could be shipped, and what was measured of it.

    Args:
        path: what it is a point of, such as (method, inputs, recipe); the candidates of one path
            differ in λ alone.
        trade_off: λ.
        policy: "randomized" or "deterministic".
        tables: counts N[y, z, u] of each fold's test rows, array (folds, y, z, u).
        metrics: further metrics, one value per fold, such as AUROC.
        held_out: counts of rows that certify it; a confidence needs them. One table of rows that
            did not train the shipped model, or one for each fold, of rows that did not train the
            fold's model.
        strict: the end of the path at which the method is strictest, "high" or "low" λ.
    """

    path: Hashable
    trade_off: float
    policy: str
    tables: Array
    metrics: Mapping[str, Any] = field(default_factory=dict)
    held_out: tuple[CountTable, ...] = ()
    strict: str = "high"

    @property
    def strictness(self) -> float:
        """Rises along the path towards its strict end."""
        return self.trade_off if self.strict == "high" else -self.trade_off

    @cached_property
    def means(self) -> dict[str, float]:
        """Fold means of violation, utility, EO gap, accuracy and the further metrics."""
        measured = {**measure(self.tables), **self.metrics}
        return {name: float(np.mean(values)) for name, values in measured.items()}

    def value(self, metric: Metric) -> float:
        """The fold mean of a metric: a name, or a function of the tables (folds, y, z, u)."""
        if callable(metric):
            return float(np.mean(metric(self.tables)))
        if metric not in self.means:
            raise InputError(
                f"`maximize` must be one of {', '.join(self.means)} or a function, got {metric!r}."
            )
        return self.means[metric]

    def __str__(self) -> str:
        name = " ".join(map(str, self.path)) if isinstance(self.path, tuple) else str(self.path)
        return f"{name} λ={self.trade_off:g} {self.policy}"


@dataclass(frozen=True, eq=False)
class Option:
    """One way to keep the budget.

    Args:
        kind: "deterministic", "single" or "mixture".
        components: its candidates.
        weights: how often each is drawn.
        value: the maximised metric.
        price: what it gives up of that metric against the best candidate without a budget.
        means: fold means of all metrics.
        bounds: upper bounds that hold with the confidence, by budget; empty if none was asked for.
    """

    kind: str
    components: tuple[Candidate, ...]
    weights: tuple[float, ...]
    value: float
    price: float
    means: Mapping[str, float]
    bounds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        branches = zip(self.weights, self.components, strict=True)
        return " + ".join(f"{w:.3g} × ({component})" for w, component in branches)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "model": str(self),
            "value": self.value,
            "price": self.price,
            **{name: value for name, value in self.means.items() if np.isfinite(value)},
            **{f"{name} at most": bound for name, bound in self.bounds.items()},
        }


@dataclass(frozen=True, eq=False)
class Selection:
    """The answer: what to ship, and what else there was.

    Args:
        chosen: the option that was asked for, or the best.
        options: every kind that was asked for and keeps the budget.
        asked: the kinds that were asked for.
        budgets: what was asked for, by name.
        maximize: the name of the maximised metric.
        best: its best value without a budget.
        confidence, rule: of the guarantee; None for fold means.
        candidates: all that were looked at.
    """

    chosen: Option
    options: Mapping[str, Option]
    asked: tuple[str, ...]
    budgets: Mapping[str, float]
    maximize: str
    best: float
    confidence: float | None
    rule: str
    candidates: tuple[Candidate, ...] = field(repr=False)

    def __str__(self) -> str:
        asked = budget_text({BUDGETS[name]: value for name, value in self.budgets.items()})
        sure = "by fold mean" if self.confidence is None else f"with confidence {self.confidence:g}"
        aim = label_of(self.maximize)
        told = ("accuracy", "eo_gap", "violation", "utility")
        lines = [
            f"Trained points: best {aim} with {asked}, {sure} (without a budget: {self.best:.4f})",
            f"  {'':15}" + "".join(f"{label_of(name):>10}" for name in told) + "  model",
        ]
        for kind in self.asked:
            option = self.options.get(kind)
            if option is None:
                lines.append(f"  {kind:15}none keeps the budget")
                continue
            numbers = "".join(f"{number(name, option.means[name]):>10}" for name in told)
            mark = "→ " if option is self.chosen else "  "
            first, *rest = textwrap.wrap(str(option), 41, break_long_words=False)
            lines += [f"{mark}{kind:15}{numbers}  {first}", *(f"{'':59}{more}" for more in rest)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest and the model card."""
        sure = self.confidence
        rule = "fold mean" if sure is None else f"{self.rule}, confidence {sure:g}"
        return {
            "maximize": self.maximize,
            "budgets": dict(self.budgets),
            "rule": rule,
            "without a budget": self.best,
            "chosen": self.chosen.to_dict(),
        }
