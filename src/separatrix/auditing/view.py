"""An audit as text for the terminal, as HTML for a notebook or a page, and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.auditing import layout
from separatrix.auditing.layout import PALETTE, nats
from separatrix.columns.groups import group_name
from separatrix.core.measures import identity
from separatrix.report.terminal import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from separatrix.auditing.result import Audit

__all__ = ["html", "measures", "plot", "sentence", "text"]

MOST_CELLS = 8
SCOPE = (
    "This is about the decision that was audited, not about the score behind it: `audit_score` "
    "looks at every threshold."
)


def text(a: Audit) -> str:
    """The audit as a table that a person understands."""
    title = "Who is affected: the largest parts of the violation"
    return layout.lines_of(
        (sentence(a), headline(a)),
        measures(a),
        title,
        cells(a),
        (layout.criteria(a), identity(a.table.counts)),
        a.notes,
        f"{layout.certified(a)}\n{SCOPE}",
    )


def html(a: Audit, page: bool = False) -> str:
    """The audit as HTML: a fragment for a notebook, or a whole page that opens offline."""
    columns = a.cell_columns()
    drawn = [i for i, prediction in enumerate(columns["prediction"]) if _drawn(a, prediction)]
    shown = {name: columns[name] for name in ("rate", "low", "high", "label_rate")}
    shown |= {name: [str(x) for x in columns[name]] for name in ("label", "prediction")}
    shown["group"] = list(map(group_name, columns["group"]))
    bars = [{name: column[i] for name, column in shown.items()} for i in drawn[:200]]
    values: dict[str, Any] = {"measures": measures(a), "cells": cells(a), "bars": bars}
    values |= {"sentence": sentence(a), "headline": headline(a)}
    more = {"page": page, "notes": a.notes, "scope": f"{layout.certified(a)}\n{SCOPE}"}
    more |= {"others": layout.OTHERS, "criteria": layout.criteria(a)}
    more |= {"identity": identity(a.table.counts)}
    return layout.render("audit.html.jinja", values | more)


def plot(a: Audit, ax: Axes | None = None) -> Axes:
    """Rate of a prediction per label and group, with its interval; dashed: the label's own rate."""
    ax = new_axes(7.0, 4.0) if ax is None else ax
    columns = a.cell_columns()
    drawn = [i for i, prediction in enumerate(columns["prediction"]) if _drawn(a, prediction)]
    panels = list(dict.fromkeys((columns["label"][i], columns["prediction"][i]) for i in drawn))
    groups = list(a.table.groups)
    reach = min(0.06 * (len(groups) - 1), 0.3)
    spread = np.linspace(-reach, reach, len(groups))
    for i in drawn:
        at = panels.index((columns["label"][i], columns["prediction"][i]))
        z = groups.index(columns["group"][i])
        rate, low, high = (columns[name][i] for name in ("rate", "low", "high"))
        own = [columns["label_rate"][i]] * 2
        ax.plot([at - 0.42, at + 0.42], own, "--", color="0.6", lw=1, zorder=1)
        errors = [[max(rate - low, 0.0)], [max(high - rate, 0.0)]]
        first = i == next(k for k in drawn if columns["group"][k] == groups[z])
        name, colour = group_name(groups[z]) if first else None, PALETTE[z % len(PALETTE)]
        x = at + spread[z]
        ax.errorbar(x, rate, errors, fmt="o", ms=5, capsize=3, color=colour, label=name)
    names = [f"of those with {label}:\npredicted {prediction}" for label, prediction in panels]
    ax.set_xticks(range(len(panels)), names)
    ax.set_ylabel("share of the group")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.5, len(panels) - 0.5)
    title = f"EO gap {a.eo_gap:.3f}; v = {nats(a.violation)} nats"
    ax.set_title(title, loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, ncols=2 if len(groups) > 6 else 1)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def headline(a: Audit) -> str:
    """One line: what was audited."""
    t = a.table
    labels = f"{len(t.labels)} labels"
    if len(t.labels) <= 4:
        labels = f"labels {', '.join(map(str, t.labels))}"
    kind = "hard labels" if t.moments is None else "posteriors or weighted rows"
    return f"Separation audit of {t.rows:,} rows: {labels}; {layout.few_groups(t.groups)}; {kind}"


def sentence(a: Audit) -> str:
    """The finding in words."""
    return f"Given the same outcome, {layout.verdict(a.eo_gap, a.eo_gap_floor, a.p_value)}"


def measures(a: Audit) -> list[dict[str, str]]:
    """The measured values, each with what to make of it."""
    sure, interval, test = layout.certainty(a)
    corrected = f"bias-corrected {nats(a.violation_corrected)}"
    bound = f"{a.guarantee} bound at {sure}"
    gap, accuracy = (
        f"{sure} interval {low:.4f} … {high:.4f}"
        for low, high in (a.eo_gap_interval, a.accuracy_interval)
    )
    drawn = "" if a.table.moments is None else "; expected, when drawn"
    floor = ("shuffled groups show", nats(a.violation_floor), "a violation of this size is noise")
    return layout.named_rows(
        ("equalized-odds gap", f"{a.eo_gap:.4f}", f"between groups, mean over labels; {gap}"),
        ("certified gap", f"≤ {a.eo_gap_upper:.4f}", bound),
        ("shuffled groups show", f"{a.eo_gap_floor:.4f}", "a gap of this size is noise"),
        ("accuracy", f"{a.accuracy:.4f}", accuracy + drawn),
        ("violation v = I(U;Z|Y)", nats(a.violation), f"nats; {interval}; {corrected}"),
        *([floor] if len(a.table.labels) > 2 else []),
        ("certified v", f"≤ {nats(a.violation_upper)}", bound),
        test,
        ("any bounded auditor sees", f"≤ {a.auditor_bound:.4f}", "√(2v)"),
        ("utility u = I(U;Y)", nats(a.utility), "nats"),
    )


def cells(a: Audit) -> list[dict[str, str]]:
    """The cells (label, group) that cause most of v, with the rate that differs most."""
    columns = a.cell_columns()
    worst: dict[tuple[Any, Any], int] = {}
    for i, key in enumerate(zip(columns["label"], columns["group"], strict=True)):
        away = abs(columns["rate"][i] - columns["label_rate"][i])
        kept = worst.get(key)
        # with two labels both rates are equally far: show the last label's
        if kept is None or away >= abs(columns["rate"][kept] - columns["label_rate"][kept]) - 1e-12:
            worst[key] = i
    order = sorted(worst.values(), key=lambda i: -columns["violation"][i])[:MOST_CELLS]
    return [
        {
            "share": f"{columns['violation'][i] / a.violation:.0%}",
            "cell": f"Y = {columns['label'][i]}, {group_name(columns['group'][i])}",
            "rows": f"{columns['rows'][i]:,.0f} rows",
            "rate": f"P(U = {columns['prediction'][i]}) = {columns['rate'][i]:.3f}",
            "interval": f"[{columns['low'][i]:.3f}, {columns['high'][i]:.3f}]",
            "label_rate": f"label's own rate {columns['label_rate'][i]:.3f}",
        }
        for i in order
        if columns["violation"][i] > 0
    ]


def _drawn(a: Audit, prediction: Any) -> bool:
    """With two predictions the second tells all."""
    return len(a.table.predictions) != 2 or prediction == a.table.predictions[1]
