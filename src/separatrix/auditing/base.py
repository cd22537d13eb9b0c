"""What every audit does with its numbers: JSON, a page, a picture, text, a notebook."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from separatrix.auditing.notes import refuse_degenerate
from separatrix.core.counts import CountTable
from separatrix.report import audit_page
from separatrix.report.audit_page import AuditPage
from separatrix.statistics import certificates, inference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AuditResult", "Certified", "certify"]


class Certified(NamedTuple):
    """What the audits of decisions and of scores know of v.

    Args:
        noise: of the table.
        upper: certified bound on v.
        interval: of v; up to the bound where it has none.
        failure: how often the bound failed on simulated tables; None for "finite-sample".
        composition: the people that the bound is about.
    """

    noise: inference.Noise
    upper: float
    interval: tuple[float, float]
    failure: float | None
    composition: str


def certify(
    table: CountTable, confidence: float, random_state: int, guarantee: str, composition: str | None
) -> Certified:
    """Bound and interval of v; arguments as in `audit`."""
    refuse_degenerate(table)
    people = composition
    if people is None:
        people = certificates.default_composition(table, guarantee)
    upper = certificates.violation_bound(table, confidence, guarantee=guarantee, composition=people)
    noise, failure = inference.noise(table), None
    if guarantee == "large-sample":
        failure = certificates.simulated_failure(
            table, confidence, composition=people, random_state=random_state
        )
    interval = inference.interval(table, confidence, noise) if noise.estimable else (0.0, upper)
    return Certified(noise, upper, interval, failure, people)


class AuditResult(ABC):
    """The base of `Audit`, `ScoreAudit` and `ContinuousAudit`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""

    def _fields(self, *left_out: str) -> dict[str, Any]:
        """The fields but these as plain values."""
        return {
            one.name: list(value) if isinstance(value := getattr(self, one.name), tuple) else value
            for one in fields(cast(Any, self))
            if one.name not in left_out
        }

    @abstractmethod
    def _page(self) -> AuditPage:
        """What is said about it."""

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; never NaN or Infinity."""
        return json.dumps(
            self.to_dict(), indent=indent, default=str, allow_nan=False, ensure_ascii=False
        )

    def to_html(self) -> str:
        """A whole page that opens offline."""
        return audit_page.html(self._page(), whole=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw rates by label (decisions), ROC curves (a score) or median ranks (numbers)."""
        return audit_page.draw(self._page().figure(), ax)

    def __str__(self) -> str:
        return audit_page.text(self._page())

    def _repr_html_(self) -> str:
        return audit_page.html(self._page())
