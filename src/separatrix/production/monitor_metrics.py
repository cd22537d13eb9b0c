"""A monitor as text lines for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.core.information import conditional_rates

if TYPE_CHECKING:
    from separatrix.production.monitor import Monitor

__all__ = ["lines"]


def lines(monitor: Monitor) -> str:
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
        table = monitor.table
        rates = conditional_rates(table.counts)
        for y, z, u in np.argwhere(np.isfinite(rates)).tolist():
            names = str(table.labels[y]), group_name(table.groups[z]), str(table.predictions[u])
            label, group, prediction = map(_escaped, names)
            labels = f'label="{label}",group="{group}",prediction="{prediction}"'
            out.append(f"separatrix_rate{{{labels}}} {rates[y, z, u]:.10g}")
    return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
