"""Request: what a model shall be best at, within which budgets, and what it may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import check_confidence
from separatrix.core.measures import BUDGETS, METRICS, OBJECTIVES, label_of
from separatrix.core.numbers import one_number, one_of
from separatrix.errors import InputError
from separatrix.optimum.objectives import Cost
from separatrix.report.words import budget_text

Aim = str | Cost | Callable[[NDArray[np.float64]], Any]


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked for.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost` for decisions; "auroc" for
            a score; a function of tables (folds, y, z, u) for trained points only.
        budgets: the largest value of each metric, by its name: "eo_gap", "violation",
            "parity_gap", … A budget implies its criterion. "impact_ratio" is a minimum, kept as
            "impact_gap", which is 1 − impact ratio. For a score they hold at every
            threshold. Empty: the best without a budget.
        blind: decide without the group.
        confidence: None: unseen rows are expected to keep the budgets; else they do with this
            probability.
        guarantee: of the confidence: "finite-sample" or "large-sample".
        use_whole_budget: maximise within the budgets, instead of the simplest that keeps them.

    >>> print(Request.from_arguments(max_eo_gap=0.05))
    Best accuracy with EO gap ≤ 0.05
    """

    maximize: Aim = "accuracy"
    budgets: Mapping[str, float] = field(default_factory=dict)
    blind: bool = False
    confidence: float | None = None
    guarantee: str = "finite-sample"
    use_whole_budget: bool = False

    def __post_init__(self) -> None:
        for name, most in self.budgets.items():
            if name not in BUDGETS:
                raise InputError(f"`budgets` holds {name!r}; a budget is one of {', '.join(map(repr, BUDGETS))}.")
            if not 0.0 <= one_number(most, f"max_{name}") < np.inf:
                raise InputError(f"A budget is a number of at least 0, got {most} for {name!r}.")
            if most > 1.0 and not METRICS[name].nats:
                hint = f"For {most:g} % pass {most / 100:g}."
                raise InputError(f"A budget on {name!r} lies between 0 and 1, got {most:g}. {hint}")
        if isinstance(self.maximize, str) and self.maximize not in (*OBJECTIVES, "auroc"):
            names = ", ".join(repr(name) for name in OBJECTIVES if name != "cost")
            known = f"{names}, 'auroc', a Cost(...), or a function of tables"
            raise InputError(f"`maximize` must be one of {known}, got {self.maximize!r}.")
        if self.maximize == "cost":
            raise InputError("Pass the costs: maximize=Cost(false_positive=1, false_negative=5).")
        one_of(self.guarantee, "guarantee", "finite-sample", "large-sample")
        if self.confidence is None:
            return
        check_confidence(self.confidence)
        if not self.budgets:
            raise InputError("`confidence` says how surely a budget is kept: pass one, such as `max_eo_gap`.")
        if self.maximize == "auroc":
            instead = "audit the score on rows that you set aside: `audit_score(...).gap_upper`"
            raise InputError(f"A `confidence` is for decisions; a score has none. Leave it out, and {instead}.")

    @classmethod
    def from_arguments(
        cls,
        maximize: Aim = "accuracy",
        max_eo_gap: float | None = None,
        max_violation: float | None = None,
        budgets: Mapping[str, float] | None = None,
        **options: Any,
    ) -> Request:
        """From the arguments that users pass; `options` are the other fields."""
        if budgets is not None and not isinstance(budgets, Mapping):
            raise InputError(f"`budgets` must map names to levels, such as {{'parity_gap': 0.05}}, got {budgets!r}.")
        given = dict(budgets or {})
        if "impact_ratio" in given:  # a minimum: its complement has a maximum, as all others
            given["impact_gap"] = 1.0 - one_number(given.pop("impact_ratio"), "impact_ratio")
        for name, level in (("eo_gap", max_eo_gap), ("violation", max_violation)):
            if level is None:
                continue
            if name in given:
                raise InputError(f"`max_{name}` and `budgets[{name!r}]` are the same: pass one.")
            given[name] = one_number(level, f"max_{name}")
        return cls(maximize, given, **options)

    @property
    def aim(self) -> str:
        """The name of the maximised metric."""
        if isinstance(self.maximize, str):
            return self.maximize
        if isinstance(self.maximize, Cost):
            return "cost"
        return getattr(self.maximize, "__name__", "metric")

    @property
    def criterion(self) -> str:
        """Whose budgets they are, see `core.measures`; separation where there are none."""
        return next((BUDGETS[name].criterion for name in self.budgets), "separation")

    @property
    def solvable(self) -> bool:
        """Whether a rule can be solved for it, rather than chosen among trained points."""
        return isinstance(self.maximize, str | Cost)

    @property
    def one_fold(self) -> bool:
        """Whether one fold certifies its own rule, rather than all folds the procedure."""
        return self.guarantee == "finite-sample"

    def __str__(self) -> str:
        verb = "Smallest" if isinstance(self.maximize, Cost) else "Best"
        name = "cost per row" if self.aim == "cost" else label_of(self.aim)
        text = f"{verb} {name}"
        if self.budgets:
            text += f" with {budget_text(self.budgets)}"
        text += " at every threshold" * (self.maximize == "auroc" and "eo_gap" in self.budgets)
        text += ", without the group" * self.blind
        return text if self.confidence is None else f"{text}, with confidence {self.confidence:g} ({self.guarantee})"
