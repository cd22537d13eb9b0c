"""What every audit does with its numbers: JSON, a page, a picture, text, a notebook."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from separatrix.report import audit_page
from separatrix.report.audit_page import AuditPage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AuditResult"]


class AuditResult(ABC):
    """The base of `Audit`, `ScoreAudit` and `ContinuousAudit`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""

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
