"""What a monitor says: its report, and its first alarm."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Alarm", "Report"]


@dataclass(frozen=True)
class Alarm:
    """The first time that the evidence was enough.

    Args:
        rows: rows seen when it was raised.
        window: rows of the test that raised it; all rows, or the last ones.
        violation: plug-in v of those rows.
        log_e_process: log E against v ≤ budget, and what was needed.
        log_needed: log of the inverse of that test's share of the error.
    """

    rows: int
    window: int
    violation: float
    log_e_process: float
    log_needed: float


@dataclass(frozen=True)
class Report:
    """What the stream says now.

    Args:
        rows: rows seen.
        violation, utility, eo_gap: plug-in, of all rows; NaN before the first one.
        violation_corrected: v less its bias.
        interval: for v given the composition of the rows seen; holds at all times at once with the
            monitor's confidence.
        recent: plug-in v of the shortest window with at least 1,000 rows, and its rows.
        reference: v of the reference.
        alarm: None, or the first alarm.
    """

    rows: int
    violation: float
    violation_corrected: float
    utility: float
    eo_gap: float
    interval: tuple[float, float]
    recent: tuple[float, int]
    reference: float
    budget: float
    confidence: float
    alarm: Alarm | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or a metrics endpoint."""
        return asdict(self)
