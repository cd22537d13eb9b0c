"""What a monitor says: its report, and its first alarm."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any

from separatrix.columns.groups import from_plain, group_name, to_plain

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
        label, group: the cell that causes most of this v.
    """

    rows: int
    window: int
    violation: float
    log_e_process: float
    log_needed: float
    label: Hashable
    group: Hashable

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        named = {"label": to_plain(self.label), "group": to_plain(self.group)}
        return asdict(self) | named

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Alarm:
        """The inverse of `to_dict`."""
        named = {name: from_plain(data[name]) for name in ("label", "group")}
        return cls(**(data | named))


@dataclass(frozen=True)
class Report:
    """What the stream says now.

    Args:
        rows: rows seen.
        violation, utility, eo_gap: plug-in, of all rows; NaN before the first one.
        violation_corrected: v less its bias.
        interval: for v given the rows' labels and groups; holds at all times at once.
        recent: plug-in v of the shortest test with at least 1,000 rows, and its rows.
        reference: v of the reference.
        evidence, needed: log E of the test that is closest to an alarm, and what it needs.
        label, group: the cell that causes most of v in the rows of that test; None before.
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
    evidence: float
    needed: float
    label: Hashable
    group: Hashable
    alarm: Alarm | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or a metrics endpoint; None instead of NaN and infinity."""
        named = {
            "label": to_plain(self.label) if self.rows else None,
            "group": to_plain(self.group) if self.rows else None,
            "alarm": None if self.alarm is None else self.alarm.to_dict(),
        }
        return {name: _finite(value) for name, value in (asdict(self) | named).items()}

    def __str__(self) -> str:
        """One plain sentence.

        It names the group and the label that cause most of what is seen.
        """
        if not self.rows:
            return "No rows so far: nothing is known."
        seen = f"{self.rows:,} row{'s' * (self.rows != 1)} seen"
        cell = f"label {self.label}, group {group_name(self.group)}"
        if self.alarm is not None:
            a = self.alarm
            cell = f"label {a.label}, group {group_name(a.group)}"
            return (
                f"ALARM: {seen}; after {a.rows:,} of them the last {a.window:,} showed "
                f"v = {_nats(a.violation)} nats, above the budget of {self.budget:g} with evidence "
                f"{a.log_e_process:.1f} of {a.log_needed:.1f} needed; mostly {cell}."
            )
        return (
            f"Quiet: {seen}, v = {_nats(self.violation)} nats at a budget of {self.budget:g}, "
            f"evidence {max(self.evidence, 0.0):.1f} of {self.needed:.1f} that an alarm needs; "
            f"most of v comes from {cell}."
        )


def _nats(x: float) -> str:
    return f"{x:.4f}" if x >= 0.001 or x == 0 else f"{x:.1e}"


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
