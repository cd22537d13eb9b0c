"""What a monitor says: its report and first alarm, a page that opens offline, Prometheus lines."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import from_plain, group_name, to_plain
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_rates, violation_by_cell
from separatrix.report.audit_page import named_rows, nats
from separatrix.report.page import render_template
from separatrix.report.words import percent, preformatted
from separatrix.statistics.e_process import rate_sequences
from separatrix.statistics.gap_evidence import GAPS

if TYPE_CHECKING:
    from separatrix.production.monitor import Monitor

_SCOPE = (
    "The promise: while the rates of each group given the label are constant and keep the "
    "budget, an alarm is ever raised with probability at most {error:g}, however often one looks. "
    "Where rates and the shares of the groups drift together, pooled rows can show a v that no "
    "moment has; a horizon bounds the rows that a test pools."
)
_ONE_LABEL = {"fpr_gap": 0, "tpr_gap": 1}  # gaps of the rates of one label
_MOST_BARS = 200
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 200, 56, 10


@dataclass(frozen=True)
class Cell:
    """The label and group that differ most in what is watched, and the prediction that shows it.

    Args:
        label: None where the budget is about decisions whatever the label is (parity).
        rate: P(prediction | label, group).
        overall: P(prediction | label), of all groups.
    """

    label: Hashable | None
    group: Hashable
    prediction: Hashable
    rate: float
    overall: float

    @classmethod
    def from_table(cls, table: CountTable, measure: str = "violation") -> Cell:
        """That cell of a table of counts: of one label for a gap of its rates, of none for parity."""
        counts, labels, only = table.counts, tuple(table.labels), _ONE_LABEL.get(measure)
        if measure == "parity_gap":
            counts, labels = counts.sum(0, keepdims=True), (None,)
        elif only is not None and counts[only].sum() > 0:
            counts, labels = counts[[only]], (labels[only],)
        seen = counts.sum(-1) > 0  # where nothing differs, still a cell that has rows
        violation = np.where(seen, violation_by_cell(counts), -1.0)
        y, z = np.unravel_index(int(violation.argmax()), violation.shape)
        rates = counts[y, z] / counts[y, z].sum()
        overall = counts[y].sum(0) / counts[y].sum()
        away = np.abs(rates - overall)
        u = int(np.flatnonzero(away >= away.max() - 1e-12)[-1])  # of two, the last label's
        names = labels[y], table.groups[z], table.predictions[u]
        return cls(*names, float(rates[u]), float(overall[u]))

    def __str__(self) -> str:
        who = "" if self.label is None else f"with label {self.label}, "
        return (
            f"{who}group {group_name(self.group)} gets "
            f"{group_name(self.prediction)} in {self.rate:.1%}, all groups in {self.overall:.1%}"
        ).replace("%", " %")


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
        cell: the label and group that differ most in this measure.
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
        return dict(to_plain(asdict(self)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Alarm:
        """The inverse of `to_dict`."""
        cell = Cell(**{name: from_plain(value) for name, value in data["cell"].items()})
        return cls(**(data | {"cell": cell}))


@dataclass(frozen=True)
class Report:
    """What the stream says now.

    Args:
        rows: rows seen.
        measure, budget: what must not be exceeded.
        confidence: one minus the error of the alarm.
        reference: the measure's value in the reference; NaN where that is a model.
        value: plug-in value of the measure in all rows.
        violation, utility, eo_gap: plug-in, of all rows; NaN before the first one.
        violation_corrected: v less its bias.
        interval: for v given the rows' labels and groups; holds at all times at once.
        recent: plug-in value of the measure in the shortest test with at least 1,000 rows, and
            the rows of that test.
        evidence, needed: log E of the test that is closest to an alarm, and what it needs.
        cell: the label and group that differ most in the measure in the rows of that test; None
            before.
        alarm: None, or the first alarm.
    """

    rows: int
    measure: str
    budget: float
    confidence: float
    reference: float
    value: float = nan
    violation: float = nan
    violation_corrected: float = nan
    utility: float = nan
    eo_gap: float = nan
    interval: tuple[float, float] = (0.0, float("inf"))
    recent: tuple[float, int] = (nan, 0)
    evidence: float = nan
    needed: float = nan
    cell: Cell | None = None
    alarm: Alarm | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or a metrics endpoint; None instead of NaN and infinity."""
        return dict(to_plain(asdict(self)))

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        """One plain sentence."""
        if not self.rows or self.cell is None:
            return "No rows so far: nothing is known."
        seen = f"{self.rows:,} row{'s' * (self.rows != 1)} seen"
        if (a := self.alarm) is not None:
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


def page(monitor: Monitor) -> str:
    """The whole page. Names are the user's, so all of them are escaped."""
    report = monitor.report()
    values: dict[str, Any] = {"done": 0.0, "measures": [], "bars": [], "chart": None}
    if report.rows:
        done = 1.0 if report.alarm else min(max(report.evidence / report.needed, 0.0), 1.0)
        values |= {"done": done, "measures": _measures(report, monitor.horizon), "bars": _bars(monitor)}
    if len(monitor.history) > 1:
        values["chart"] = _chart(monitor.history, report)
    scope = _SCOPE.format(error=round(1.0 - report.confidence, 6))
    return render_template("monitor.html.jinja", sentence=str(report), alarm=report.alarm, scope=scope, **values)


def _measures(report: Report, horizon: int | None) -> list[dict[str, str]]:
    low, high = report.interval
    v, rows = report.recent
    known = "" if np.isnan(report.reference) else f"; at selection it was {nats(report.reference)}"
    always = f"nats; {percent(report.confidence)} at all times {nats(low)} … {nats(high)}"
    return named_rows([
        ("rows seen", f"{report.rows:,}", "" if horizon is None else f"horizon {horizon:,}"),
        ("budget", nats(report.budget), f"of the {_name(report)}{known}"),
        ("violation v of all rows", nats(report.violation), always),
        (f"{_name(report)}, latest rows", nats(v), f"{rows:,} rows"),
        ("equalized-odds gap", f"{report.eo_gap:.4f}", "of all rows"),
        ("evidence", f"{max(report.evidence, 0.0):.1f}", f"of {report.needed:.1f} that an alarm needs"),
    ])  # fmt: skip


def _name(report: Report) -> str:
    return GAPS.get(report.measure, "violation v")


def _chart(history: list[tuple[int, float, float]], report: Report) -> dict[str, Any]:
    """The measure of all rows and of the latest ones over the rows seen, as points of an SVG."""
    rows, everything, recent = map(np.asarray, zip(*history, strict=True))
    top = 1.08 * max(float(everything.max()), float(recent.max()), 1.5 * report.budget, 1e-6)
    last = max(report.rows, int(rows[-1]))
    x = _LEFT + (_WIDTH - _LEFT - 12) * rows / last

    def height(v: Any) -> Any:
        return _TOP + (_HEIGHT - 2 * _TOP - 18) * (1.0 - np.asarray(v) / top)

    def line(v: Any) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, height(v), strict=True))

    return {
        "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - 12,
        "bottom": f"{float(height(0.0)):.1f}", "top": _TOP,
        "all": line(everything), "recent": line(recent),
        "budget": f"{float(height(report.budget)):.1f}", "budget_name": nats(report.budget),
        "highest": nats(top / 1.08), "highest_at": f"{float(height(top / 1.08)):.1f}",
        "last": f"{last:,} rows", "name": _name(report),
        "alarm": report.alarm and f"{_LEFT + (_WIDTH - _LEFT - 12) * (report.alarm.rows / last):.1f}",
    }  # fmt: skip


def _bars(monitor: Monitor) -> list[dict[str, Any]]:
    """The rate of each prediction per label and group; for two predictions the second tells all."""
    table = monitor.table
    low, high = rate_sequences(table.counts, monitor.confidence)
    label_rates = table.counts.sum(1) / np.maximum(table.counts.sum((1, 2)), 1.0)[:, None]
    return [
        names | {
            "rate": rate, "low": float(low[cell]), "high": float(high[cell]),
            "label_rate": float(label_rates[cell[0], cell[2]]), "rows": f"{table.counts[cell[:2]].sum():,.0f}",
        }
        for cell, names, rate in _rates(table)
        if not (len(table.predictions) == 2 and cell[2] == 0)
    ][:_MOST_BARS]  # fmt: skip


def _rates(table: CountTable) -> Iterator[tuple[tuple[int, ...], dict[str, Any], float]]:
    """Place, names and P(prediction | label, group) of each cell that has rows."""
    rates = conditional_rates(table.counts)
    for y, z, u in np.argwhere(np.isfinite(rates)).tolist():
        names = {"label": str(table.labels[y]), "group": group_name(table.groups[z])}
        names["prediction"] = group_name(table.predictions[u])
        yield (y, z, u), names, float(rates[y, z, u])


def metrics(monitor: Monitor) -> str:
    """Every gauge with its help; a number that is not known is left out."""
    report = monitor.report()
    gauges = [
        ("rows_total", "Rows seen.", report.rows),
        (report.measure, "The measure that the budget is of, in all rows.", report.value),
        (f"{report.measure}_budget", "What must not be exceeded.", report.budget),
        ("evidence", "log E of the test that is closest to an alarm.", report.evidence),
        ("evidence_needed", "log E that an alarm needs.", report.needed),
        ("alarm", "Whether there was an alarm.", int(report.alarm is not None)),
    ]
    out = []
    head = "# HELP separatrix_{0} {1}\n# TYPE separatrix_{0} {2}"
    for name, help_text, value in gauges:
        if np.isfinite(value):
            out.append(head.format(name, help_text, "counter" if name.endswith("_total") else "gauge"))
            out.append(f"separatrix_{name} {value:.10g}")
    if report.rows:
        out.append(head.format("rate", "P(prediction | label, group).", "gauge"))
        for _, names, rate in _rates(monitor.table):
            labels = ",".join(f'{name}="{_escaped(level)}"' for name, level in names.items())
            out.append(f"separatrix_rate{{{labels}}} {rate:.10g}")
    return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
