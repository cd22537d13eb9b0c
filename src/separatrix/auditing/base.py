"""What every audit does with its numbers: JSON, a page, a picture, text, a notebook."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AuditResult"]


class AuditResult(ABC):
    """The base of `Audit`, `ScoreAudit` and `ContinuousAudit`; `_view` renders each of them."""

    _view: ClassVar[ModuleType]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; never NaN or Infinity."""
        return json.dumps(
            self.to_dict(), indent=indent, default=str, allow_nan=False, ensure_ascii=False
        )

    def to_html(self) -> str:
        """A whole page that opens offline."""
        return str(self._view.html(self, page=True))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw rates by label (decisions), ROC curves (a score) or median ranks (numbers)."""
        drawn: Axes = self._view.plot(self, ax)
        return drawn

    def __str__(self) -> str:
        return str(self._view.text(self))

    def _repr_html_(self) -> str:
        return str(self._view.html(self))
