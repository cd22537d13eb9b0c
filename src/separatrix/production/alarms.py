"""What a monitor says: its report, and its first alarm."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from separatrix.columns.groups import from_plain, group_name, to_plain
from separatrix.core.counts import CountTable
from separatrix.core.information import violation_by_cell
from separatrix.report.audit_page import nats
from separatrix.report.terminal import preformatted
from separatrix.statistics.gap_evidence import GAPS

__all__ = ["Alarm", "Cell", "Report", "shown"]


@dataclass(frozen=True)
class Cell:
    """The label and group that cause most of v, and the prediction whose rate differs most there.

    Args:
        rate: P(prediction | label, group).
        overall: P(prediction | label), of all groups.
    """

    label: Hashable
    group: Hashable
    prediction: Hashable
    rate: float
    overall: float

    @classmethod
    def of(cls, table: CountTable) -> Cell:
        """That cell of a table of counts."""
        part = violation_by_cell(table.counts)
        y, z = np.unravel_index(int(part.argmax()), part.shape)
        rates = table.counts[y, z] / table.counts[y, z].sum()
        overall = table.counts[y].sum(0) / table.counts[y].sum()
        away = np.abs(rates - overall)
        u = int(np.flatnonzero(away >= away.max() - 1e-12)[-1])  # of two, the last label's
        names = table.labels[y], table.groups[z], table.predictions[u]
        return cls(*names, float(rates[u]), float(overall[u]))

    def __str__(self) -> str:
        return (
            f"with label {self.label}, group {group_name(self.group)} gets "
            f"{group_name(self.prediction)} in {self.rate:.1%}, all groups in {self.overall:.1%}"
        ).replace("%", " %")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        names = {name: to_plain(getattr(self, name)) for name in _NAMES}
        return asdict(self) | names

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Cell:
        """The inverse of `to_dict`."""
        return cls(**(data | {name: from_plain(data[name]) for name in _NAMES}))


_NAMES = ("label", "group", "prediction")


@dataclass(frozen=True)
class Alarm:
    """The first time that the evidence was enough.

    Args:
        rows: rows seen when it was raised.
        window: rows of the test that raised it; all rows, or the last ones.
        measure: what the budget is of, such as "eo_gap".
        value: plug-in value of the measure in those rows.
        log_e_process: log E against the budget, and what was needed.
        log_needed: log of the inverse of that test's share of the error.
        cell: the label and group that cause most of this v.
    """

    rows: int
    window: int
    measure: str
    value: float
    log_e_process: float
    log_needed: float
    cell: Cell

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"cell": self.cell.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Alarm:
        """The inverse of `to_dict`."""
        return cls(**(data | {"cell": Cell.from_dict(data["cell"])}))


@dataclass(frozen=True)
class Report:
    """What the stream says now.

    Args:
        rows: rows seen.
        measure, value: what the budget is of, and its plug-in value in all rows.
        violation, utility, eo_gap: plug-in, of all rows; NaN before the first one.
        violation_corrected: v less its bias.
        interval: for v given the rows' labels and groups; holds at all times at once.
        recent: plug-in value of the measure in the shortest test with at least 1,000 rows, and
            the rows of that test.
        reference: the measure's value in the reference; NaN where that is a model.
        evidence, needed: log E of the test that is closest to an alarm, and what it needs.
        cell: the label and group that cause most of v in the rows of that test; None before.
        alarm: None, or the first alarm.
    """

    rows: int
    measure: str
    value: float
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
    cell: Cell | None
    alarm: Alarm | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or a metrics endpoint; None instead of NaN and infinity."""
        named = {
            "cell": None if self.cell is None else self.cell.to_dict(),
            "alarm": None if self.alarm is None else self.alarm.to_dict(),
        }
        return {name: _finite(value) for name, value in (asdict(self) | named).items()}

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        """One plain sentence."""
        if not self.rows or self.cell is None:
            return "No rows so far: nothing is known."
        seen = f"{self.rows:,} row{'s' * (self.rows != 1)} seen"
        if self.alarm is not None:
            a = self.alarm
            return (
                f"ALARM: {seen}; after {a.rows:,} of them the last {a.window:,} showed "
                f"{shown(self.measure, a.value)}, above the budget of {self.budget:g} with "
                f"evidence {a.log_e_process:.1f} of {a.log_needed:.1f} needed; mostly {a.cell}."
            )
        return (
            f"Quiet: {seen}, {shown(self.measure, self.value)} at a budget of {self.budget:g}, "
            f"evidence {max(self.evidence, 0.0):.1f} of {self.needed:.1f} that an alarm needs; "
            f"the largest difference: {self.cell}."
        )


def shown(measure: str, value: float) -> str:
    """A measure and its value in words.

    >>> shown("eo_gap", 0.2)
    'an equalized-odds gap of 0.2000'
    """
    if measure == "violation":
        return f"v = {nats(value)} nats"
    return f"a{'n' * (measure == 'eo_gap')} {GAPS[measure]} of {value:.4f}"


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
