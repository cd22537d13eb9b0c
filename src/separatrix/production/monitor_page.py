"""A monitor as a page that opens offline, and as text lines for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_rates
from separatrix.report.audit_page import named_rows, nats
from separatrix.statistics.e_process import rate_sequences
from separatrix.statistics.gap_evidence import GAPS

if TYPE_CHECKING:
    from separatrix.production.alarms import Report
    from separatrix.production.monitor import Monitor

__all__ = ["SCOPE", "metrics", "page"]

SCOPE = (
    "The promise: while the rates of each group given the label are constant and keep the "
    "budget, an alarm is ever raised with probability at most {error:g}, however often one looks. "
    "Where rates and the shares of the groups drift together, pooled rows can show a v that no "
    "moment has; a horizon bounds the rows that a test pools."
)
_MOST_BARS = 200
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
    low, high = rate_sequences(table.counts, monitor.confidence)
    own = table.counts.sum(1) / np.maximum(table.counts.sum((1, 2)), 1.0)[:, None]
    two = len(table.predictions) == 2
    return [
        names | {
            "rate": rate, "low": float(low[at]), "high": float(high[at]),
            "label_rate": float(own[at[0], at[2]]), "rows": f"{table.counts[at[:2]].sum():,.0f}",
        }
        for at, names, rate in _rates(table)
        if not (two and at[2] == 0)
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
    for name, told, value in gauges:
        if np.isfinite(value):
            kind = "counter" if name.endswith("_total") else "gauge"
            out += [f"# HELP separatrix_{name} {told}", f"# TYPE separatrix_{name} {kind}"]
            out.append(f"separatrix_{name} {value:.10g}")
    if report.rows:
        out.append("# HELP separatrix_rate P(prediction | label, group).")
        out.append("# TYPE separatrix_rate gauge")
        for _, names, rate in _rates(monitor.table):
            labels = ",".join(f'{name}="{_escaped(level)}"' for name, level in names.items())
            out.append(f"separatrix_rate{{{labels}}} {rate:.10g}")
    return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
