"""OperatingPoint: what will be shipped, what it promises, and what must be said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.auditing.result import Audit
from separatrix.columns.values import Levels
from separatrix.deploy.points import Selection
from separatrix.deploy.predictor import Predictor
from separatrix.deploy.questions import Question
from separatrix.deploy.words import LABELS, estimate_text, majority, recognised
from separatrix.errors import InputError
from separatrix.statistics.unseen import Estimate

__all__ = ["OperatingPoint"]

Array = NDArray[np.float64]
_ORDER = ("accuracy", "balanced_accuracy", "cost", "auroc", "eo_gap", "violation", "utility")


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A chosen procedure.

    Args:
        question: what was asked.
        name: what ships, in words.
        promise: what `predictor` will show on unseen rows: estimate and standard error by metric,
            measured by running the same procedure on the training rows of every outer fold.
        tables: expected counts N[y, z, u] of each fold's test rows; of a score's levels likewise.
        labels, groups: their names.
        build: makes the predictor.
        notes: what must be said: a constant, a budget that folds could not keep, …
        selection: the options among trained points, where one of them was chosen.
        audit: of the shipped decisions on rows that they were not fitted to; None for a score.
    """

    question: Question
    name: str
    promise: Mapping[str, Estimate]
    tables: Array = field(repr=False)
    labels: Levels
    groups: Levels
    build: Callable[[], Predictor] = field(repr=False)
    notes: tuple[str, ...] = ()
    selection: Selection | None = field(default=None, repr=False)
    audit: Audit | None = field(default=None, repr=False)

    @cached_property
    def predictor(self) -> Predictor:
        """What to ship: the same procedure, run on all rows."""
        return self.build()

    @property
    def metrics(self) -> dict[str, float]:
        """The promised values without their errors."""
        return {name: found.value for name, found in self.promise.items()}

    @property
    def violation(self) -> float:
        """The promised v."""
        return self.promise["violation"].value

    @property
    def utility(self) -> float:
        """The promised u, of decisions."""
        if "utility" not in self.promise:
            raise InputError("This point is a score; it promises AUROC, EO gap and v.")
        return self.promise["utility"].value

    @property
    def is_score(self) -> bool:
        """Whether it ships a score rather than decisions."""
        return "auroc" in self.promise

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest, the card and JSON."""
        always, share = majority(self.tables, self.labels)
        out: dict[str, Any] = {
            "asked": str(self.question),
            "model": self.name,
            "promise": {name: list(found) for name, found in self.promise.items()},
            "majority": {"label": always, "share": share},
            "notes": list(self.notes),
        }
        if self.selection is not None:
            out["choice"] = self.selection.to_dict()
        return out

    def __str__(self) -> str:
        always, share = majority(self.tables, self.labels)
        lines = [f"{self.question}: {self.name}."]
        lines += [f"! {note}" for note in self.notes]
        lines.append("Promise for unseen rows (estimate ± standard error over outer folds):")
        for name in _ORDER:
            if name in self.promise:
                more = f"   (always {always!r}: {share:.4f})" if name == "accuracy" else ""
                if self.is_score and name == "eo_gap":
                    more = "   (the largest over all thresholds)"
                shown = estimate_text(name, self.promise[name])
                lines.append(f"  {LABELS[name]:18}{shown}{more}")
        if not self.is_score:
            said = recognised(self.tables.sum(0), self.labels, self.groups)
            lines.append(f"Recognised: {said}.")
        if self.selection is not None:
            lines += ["", str(self.selection)]
        return "\n".join(lines)
