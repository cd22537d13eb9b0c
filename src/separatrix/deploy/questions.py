"""Question: what a point shall be best at, within which budgets, and what it may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import check_confidence
from separatrix.deploy.words import LABELS, budget_text
from separatrix.errors import InputError
from separatrix.optimum.objectives import OBJECTIVES, Cost, budgets_of
from separatrix.statistics.certificates import check_promise

__all__ = ["Question"]

Aim = str | Cost | Callable[[NDArray[np.float64]], Any]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a frontier.

    Args:
        maximize: "accuracy", "balanced_accuracy", "utility" or a `Cost` for decisions; "auroc" for
            a score; a function of tables (folds, y, z, u) for trained points only.
        budgets: those of the criterion, its gap and its information, one or both. For a score
            they hold at every threshold, and for the score in 20 bins.
        blind: decide without the group.
        confidence: None: budgets are kept by what unseen rows are expected to show; else with this
            probability, by rows that certify.
        guarantee: of the confidence: "finite-sample" or "large-sample".
        criterion: whose budgets they are, see `core.criteria`.
    """

    maximize: Aim = "accuracy"
    budgets: Mapping[str, float] = field(default_factory=dict)
    blind: bool = False
    confidence: float | None = None
    guarantee: str = "finite-sample"
    criterion: str = "separation"

    def __post_init__(self) -> None:
        if not self.budgets:
            raise InputError(
                "Pass a budget: `max_eo_gap`, `max_violation` (nats), or both; `max_gap` for "
                "another criterion than separation."
            )
        if self.criterion != "separation" and (
            self.confidence is not None or self.maximize == "auroc" or not self.solvable
        ):
            raise InputError(
                f"criterion={self.criterion!r} is for decisions that are solved and expected to "
                "keep the budget: leave `confidence` out, and maximise 'accuracy', "
                "'balanced_accuracy', 'utility' or a Cost(...)."
            )
        for name, most in self.budgets.items():
            if not 0.0 <= most < np.inf:
                raise InputError(f"`max_{name}` must be a number that is not negative, got {most}.")
        if isinstance(self.maximize, str) and self.maximize not in (*OBJECTIVES, "auroc"):
            names = [name for name in OBJECTIVES if name != "cost"]
            raise InputError(
                f"`maximize` must be one of {', '.join(names)}, auroc, a Cost(...), or a function "
                f"of tables, got {self.maximize!r}."
            )
        if self.maximize == "cost":
            raise InputError("Pass the costs: maximize=Cost(false_positive=1, false_negative=5).")
        check_promise(self.guarantee, "population")
        if self.confidence is not None:
            check_confidence(self.confidence)
            if self.maximize == "auroc":
                raise InputError(
                    "A `confidence` is for decisions; a score has none. Leave it out, and audit "
                    "the score on rows that you set aside: `audit_score(...).gap_upper`."
                )

    @classmethod
    def of(
        cls,
        maximize: Aim,
        max_eo_gap: float | None,
        max_violation: float | None,
        blind: bool,
        confidence: float | None,
        guarantee: str,
        criterion: str = "separation",
        max_gap: float | None = None,
    ) -> Question:
        """From the arguments that a user passes."""
        budgets = budgets_of(criterion, max_gap, max_violation, max_eo_gap)
        return cls(maximize, budgets, blind, confidence, guarantee, criterion)

    @property
    def aim(self) -> str:
        """The maximised metric in words."""
        if isinstance(self.maximize, Cost):
            return "cost"
        if isinstance(self.maximize, str):
            return self.maximize
        return getattr(self.maximize, "__name__", "metric")

    @property
    def solvable(self) -> bool:
        """Whether a rule can be solved for it, rather than chosen among trained points."""
        return isinstance(self.maximize, str | Cost)

    @property
    def one_fold(self) -> bool:
        """Whether one fold certifies its own rule, rather than all folds the procedure."""
        return self.guarantee == "finite-sample"

    def better(self, a: float, b: float) -> float:
        """How much better the first value is."""
        return b - a if isinstance(self.maximize, Cost) else a - b

    def __str__(self) -> str:
        verb = "Smallest" if isinstance(self.maximize, Cost) else "Best"
        name = LABELS.get(self.aim, self.aim)
        where = (
            " at every threshold" if self.maximize == "auroc" and "eo_gap" in self.budgets else ""
        )
        blind = ", without the group" if self.blind else ""
        sure = (
            ""
            if self.confidence is None
            else (f", with confidence {self.confidence:g} ({self.guarantee})")
        )
        return f"{verb} {name} with {budget_text(self.budgets)}{where}{blind}{sure}"
