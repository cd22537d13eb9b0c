"""An audit for the eye: text for the terminal, HTML for a notebook or a page, and a picture."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.groups import group_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from separatrix.auditing.result import Audit

__all__ = ["html", "plot", "text"]

# Okabe and Ito's palette: told apart by every kind of colour vision
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
MOST_CELLS = 8
SCOPE = (
    "This is about the decision that was audited, not about the score behind it: `audit_score` "
    "looks at every threshold."
)


def text(a: Audit) -> str:
    """The audit as a table that a person understands."""
    lines = [headline(a), ""]
    width = max(len(row["name"]) for row in measures(a))
    lines += [
        f"  {row['name']:<{width}}  {row['value']:>9}  {row['note']}".rstrip()
        for row in measures(a)
    ]
    affected = cells(a)
    if affected:
        lines += ["", "Who is affected: the largest parts of the violation"]
        columns = [list(row.values()) for row in affected]
        widths = [max(len(column[i]) for column in columns) for i in range(len(columns[0]))]
        lines += [
            "  " + "  ".join(f"{part:<{w}}" for part, w in zip(row, widths, strict=True)).rstrip()
            for row in columns
        ]
    lines += ["", SCOPE]
    if a.notes:
        lines += ["", *(f"! {note}" for note in a.notes)]
    return "\n".join(lines)


def html(a: Audit, page: bool = False) -> str:
    """The audit as HTML: a fragment for a notebook, or a whole page that opens offline."""
    from jinja2 import Environment

    template = files("separatrix.auditing").joinpath("audit.html.jinja").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    )  # names are the user's: escape all
    bars = [
        {
            "label": str(label),
            "group": group_name(group),
            "prediction": str(prediction),
            "rate": rate,
            "low": low,
            "high": high,
            "label_rate": of_label,
        }
        for label, group, prediction, rate, low, high, of_label in zip(
            *(
                a.cell_columns()[k]
                for k in ("label", "group", "prediction", "rate", "low", "high", "label_rate")
            ),
            strict=True,
        )
        if _drawn(a, prediction)
    ]
    return environment.from_string(template).render(
        page=page,
        headline=headline(a),
        measures=measures(a),
        cells=cells(a),
        bars=bars[:200],
        notes=a.notes,
        scope=SCOPE,
    )


def plot(a: Audit, ax: Axes | None = None) -> Axes:
    """Rate of a prediction per label and group, with its interval; dashed: the label's own rate."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
    columns = a.cell_columns()
    drawn = [i for i, prediction in enumerate(columns["prediction"]) if _drawn(a, prediction)]
    panels = list(dict.fromkeys((columns["label"][i], columns["prediction"][i]) for i in drawn))
    groups = list(a.table.groups)
    reach = min(0.06 * (len(groups) - 1), 0.3)
    spread = np.linspace(-reach, reach, len(groups))
    for i in drawn:
        at, z = (
            panels.index((columns["label"][i], columns["prediction"][i])),
            groups.index(columns["group"][i]),
        )
        rate, low, high = (columns[name][i] for name in ("rate", "low", "high"))
        ax.plot(
            [at - 0.42, at + 0.42],
            [columns["label_rate"][i]] * 2,
            "--",
            color="0.6",
            lw=1,
            zorder=1,
        )
        ax.errorbar(
            at + spread[z],
            rate,
            [[max(rate - low, 0.0)], [max(high - rate, 0.0)]],
            fmt="o",
            ms=5,
            capsize=3,
            color=PALETTE[z % len(PALETTE)],
            label=group_name(columns["group"][i])
            if i == drawn[_first(columns, drawn, groups[z])]
            else None,
        )
    ax.set_xticks(
        range(len(panels)), [f"Y = {label}\nP(U = {prediction})" for label, prediction in panels]
    )
    ax.set_ylabel("rate of the prediction, given the label")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.5, len(panels) - 0.5)
    ax.set_title(f"v = {_nats(a.violation)} nats, EO gap = {a.eo_gap:.3f}", loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, ncols=2 if len(groups) > 6 else 1)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def headline(a: Audit) -> str:
    """One line: what was audited."""
    t = a.table
    many = (
        f"{len(t.labels)} labels"
        if len(t.labels) > 4
        else f"labels {', '.join(map(str, t.labels))}"
    )
    groups = (
        f"{len(t.groups)} groups"
        if len(t.groups) > 4
        else f"groups {', '.join(map(group_name, t.groups))}"
    )
    kind = "hard labels" if t.moments is None else "posteriors or weighted rows"
    return f"Separation audit of {t.rows:,} rows: {many}; {groups}; {kind}"


def measures(a: Audit) -> list[dict[str, str]]:
    """The measured values, each with what to make of it."""
    low, high = a.violation_interval
    sure = f"{a.confidence:.0%}".replace("%", " %")
    interval = f"{sure} interval {_nats(low)} … {_nats(high)}" if a.estimable else "not estimable"
    floor = a.table.moments is None and a.p_value < 1.0005e-3 and a.violation > 0
    return [
        {
            "name": "violation v = I(U;Z|Y)",
            "value": _nats(a.violation),
            "note": f"nats; {interval}; bias-corrected {_nats(a.violation_corrected)}",
        },
        {
            "name": "certified",
            "value": f"≤ {_nats(a.violation_upper)}",
            "note": f"finite-sample bound at {sure}",
        },
        {
            "name": "test of v = 0",
            "value": f"p {'≤' if floor else '='} {a.p_value:.2g}",
            "note": "" if a.p_value < 0.05 else "separation is not rejected",
        },
        {"name": "utility u = I(U;Y)", "value": _nats(a.utility), "note": "nats"},
        {
            "name": "equalized-odds gap",
            "value": f"{a.eo_gap:.4f}",
            "note": "mean over labels of the largest group difference",
        },
        {
            "name": "accuracy",
            "value": f"{a.accuracy:.4f}",
            "note": "" if a.table.moments is None else "expected, when drawn",
        },
        {"name": "any bounded auditor sees", "value": f"≤ {a.auditor_bound:.4f}", "note": "√(2v)"},
    ]


def cells(a: Audit) -> list[dict[str, str]]:
    """The cells (label, group) that cause most of v, with the rate that differs most."""
    columns = a.cell_columns()
    worst: dict[tuple[Any, Any], int] = {}
    for i, key in enumerate(zip(columns["label"], columns["group"], strict=True)):
        away = abs(columns["rate"][i] - columns["label_rate"][i])
        kept = worst.get(key)
        # of two equally far rates (always so with two labels) show the last label's
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


def _first(columns: dict[str, list[Any]], drawn: list[int], group: Any) -> int:
    return next(k for k, i in enumerate(drawn) if columns["group"][i] == group)


def _nats(x: float) -> str:
    return f"{x:.4f}" if abs(x) >= 0.001 or x == 0 else f"{x:.1e}"
