"""A monitor as a page that opens offline: the sentence, the numbers, v over time, the rates."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.core.information import conditional_rates
from separatrix.report.audit_page import named_rows, nats
from separatrix.statistics.e_process import rate_sequences
from separatrix.statistics.gap_evidence import GAPS

if TYPE_CHECKING:
    from separatrix.production.alarms import Report
    from separatrix.production.monitor import Monitor

__all__ = ["SCOPE", "page"]

SCOPE = (
    "The promise: while the rates of each group given the label are constant and keep the "
    "budget, an alarm is ever raised with probability at most {error:g}, however often one looks. "
    "Where rates and the shares of the groups drift together, pooled rows can show a v that no "
    "moment has; a horizon bounds the rows that a test pools."
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 200, 56, 10


def page(monitor: Monitor) -> str:
    """The whole page. Names are the user's, so all of them are escaped."""
    from jinja2 import Environment

    report = monitor.report()
    template = files("separatrix.production").joinpath("monitor.html.jinja")
    source = template.read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    done = 0.0
    if report.rows:
        done = 1.0 if report.alarm else min(max(report.evidence / report.needed, 0.0), 1.0)
    return environment.from_string(source).render(
        sentence=str(report),
        alarm=report.alarm,
        done=done,
        measures=_measures(report, monitor.horizon) if report.rows else [],
        chart=_chart(monitor.history, report) if len(monitor.history) > 1 else None,
        bars=_bars(monitor) if report.rows else [],
        scope=SCOPE.format(error=round(1.0 - report.confidence, 6)),
    )


def _measures(report: Report, horizon: int | None) -> list[dict[str, str]]:
    sure = f"{report.confidence:.0%}".replace("%", " %")
    low, high = report.interval
    v, rows = report.recent
    return named_rows([
        ("rows seen", f"{report.rows:,}", "" if horizon is None else f"horizon {horizon:,}"),
        ("budget", nats(report.budget), _at_selection(report)),
        (
            "violation v of all rows", nats(report.violation),
            f"nats; {sure} at all times {nats(low)} … {nats(high)}",
        ),
        (f"{_name(report)}, latest rows", nats(v), f"{rows:,} rows"),
        ("equalized-odds gap", f"{report.eo_gap:.4f}", "of all rows"),
        (
            "evidence", f"{max(report.evidence, 0.0):.1f}",
            f"of {report.needed:.1f} that an alarm needs",
        ),
    ])  # fmt: skip


def _name(report: Report) -> str:
    return GAPS.get(report.measure, "violation v")


def _at_selection(report: Report) -> str:
    known = "" if np.isnan(report.reference) else f"; at selection it was {nats(report.reference)}"
    return f"of the {_name(report)}{known}"


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

    at = report.alarm.rows / last if report.alarm else None
    return {
        "width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - 12,
        "bottom": f"{float(height(0.0)):.1f}", "top": _TOP,
        "all": line(everything), "recent": line(recent),
        "budget": f"{float(height(report.budget)):.1f}", "budget_name": nats(report.budget),
        "highest": nats(top / 1.08), "highest_at": f"{float(height(top / 1.08)):.1f}",
        "last": f"{last:,} rows", "name": _name(report),
        "alarm": None if at is None else f"{_LEFT + (_WIDTH - _LEFT - 12) * at:.1f}",
    }  # fmt: skip


def _bars(monitor: Monitor) -> list[dict[str, Any]]:
    """The rate of each prediction per label and group; for two predictions the second tells all."""
    table = monitor.table
    rates = conditional_rates(table.counts)
    low, high = rate_sequences(table.counts, monitor.confidence)
    own = table.counts.sum(1) / np.maximum(table.counts.sum((1, 2)), 1.0)[:, None]
    found = []
    for y, z, u in np.argwhere(~np.isnan(rates)).tolist():
        if len(table.predictions) == 2 and u == 0:
            continue
        found.append({
            "label": str(table.labels[y]), "group": group_name(table.groups[z]),
            "prediction": group_name(table.predictions[u]), "rate": float(rates[y, z, u]),
            "low": float(low[y, z, u]), "high": float(high[y, z, u]),
            "label_rate": float(own[y, u]), "rows": f"{table.counts[y, z].sum():,.0f}",
        })  # fmt: skip
    return found[:200]
