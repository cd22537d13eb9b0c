"""The audit of numbers as text for the terminal, as HTML for a notebook, and as rank curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.auditing import layout
from separatrix.auditing.layout import PALETTE, nats
from separatrix.columns.groups import group_name
from separatrix.report.terminal import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from separatrix.auditing.continuous import ContinuousAudit

__all__ = ["html", "plot", "text"]

_MOST_GROUPS = 24
_SIDE = 200  # of the square of an SVG


def text(a: ContinuousAudit) -> str:
    """The audit as a table that a person understands."""
    lead = (sentence(a), headline(a))
    return layout.lines_of(lead, measures(a), _title(a), groups(a), ((), ""), a.notes, scope(a))


def html(a: ContinuousAudit, page: bool = False) -> str:
    """The audit as HTML: a fragment for a notebook, or a whole page that opens offline."""
    curves = [
        {
            "group": group_name(group),
            "colour": PALETTE[i % len(PALETTE)],
            "points": " ".join(_points(list(curve.median))),
        }
        for i, (group, curve) in enumerate(a.curves.items())
    ]
    values: dict[str, Any] = {"sentence": sentence(a), "headline": headline(a)}
    values |= {"measures": measures(a), "title": _title(a), "groups": groups(a)}
    values |= {"curves": curves[:_MOST_GROUPS], "notes": a.notes, "scope": scope(a), "page": page}
    return layout.render("continuous.html.jinja", values)


def plot(a: ContinuousAudit, ax: Axes | None = None) -> Axes:
    """Each group's median rank along the outcome; under separation all lie on the dashed line."""
    ax = new_axes(7.0, 4.0) if ax is None else ax
    ax.axhline(0.5, ls="--", color="0.6", lw=1, zorder=1)
    labelled = a.target == "labels"
    for i, (group, curve) in enumerate(a.curves.items()):
        x = np.arange(len(curve.outcome)) if labelled else np.asarray(curve.outcome, dtype=float)
        middle, low, high = (
            np.array([np.nan if one is None else one for one in ends])
            for ends in (curve.median, curve.low, curve.high)
        )
        colour = PALETTE[i % len(PALETTE)]
        ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        ax.plot(x, middle, "o-", ms=4, lw=1.6, color=colour, label=group_name(group))
    if labelled:
        names = next(iter(a.curves.values())).outcome
        ax.set_xticks(range(len(names)), list(map(str, names)))
    ax.set_xlabel("outcome")
    ax.set_ylabel("median rank of the prediction\namong people with the same outcome")
    ax.set_ylim(0.0, 1.0)
    ax.set_title(f"v ≥ {nats(a.violation_lower)} nats, {_p(a)}", loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, ncols=2 if len(a.groups) > 6 else 1)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def sentence(a: ContinuousAudit) -> str:
    """The finding in the user's words."""
    if not a.estimable:
        return "Nothing can be said about these predictions; the notes say why."
    medians = {group_name(g): a.ranks[g][1] for g in a.groups}
    low, high = (min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__))
    who = f"for {high} are typically at the {_percentile(medians[high])} percentile"
    if low != high:
        who += f", for {low} at the {_percentile(medians[low])}"
    verdict = "Chance alone does not show this" if a.p_value < 0.05 else "Chance shows as much"
    if a.p_value < 0.05 and medians[high] - medians[low] < 0.02:
        verdict = "The groups differ at some outcomes or in their spread, beyond chance"
    return f"Among people with the same outcome, predictions {who}. {verdict}."


def headline(a: ContinuousAudit) -> str:
    """One line: what was audited."""
    kind = "a numeric outcome" if a.target == "continuous" else f"{len(a.table.labels)} labels"
    who = layout.few_groups(a.groups)
    if a.sensitive == "continuous":
        who = "a continuous attribute, shown by its quarters"
    return (
        f"Separation audit of {a.rows:,} rows: {kind}; {who}; {a.distinct:,} distinct predictions"
    )


def measures(a: ContinuousAudit) -> list[dict[str, str]]:
    """The measured values, each with what to make of it."""
    low, high = a.violation_interval
    sure = f"{a.confidence:.0%}".replace("%", " %")
    shape, what = a.resolution, "groups" if a.sensitive == "groups" else "bins of the attribute"
    cells = f"{shape.bands} bands of outcomes × {shape.groups} {what} × {shape.ranks} bins of ranks"
    seen = f"nats; {sure} interval {nats(low)} … {nats(high)}; {cells}"
    smooth = f"nats, inside {a.blocks:,} blocks of outcomes"
    rows = [
        ("violation v = I(U;Z|Y)", f"≥ {nats(a.violation_lower)}", f"nats, at {sure}"),
        ("test of v = 0", _p(a), "" if a.p_value < 0.05 else "separation is not rejected"),
        ("v at this resolution", nats(a.violation_at_resolution), seen),
        ("outcome about attribute", nats(a.outcome_dependence), smooth),
        (
            "ranks about outcome",
            nats(a.rank_dependence),
            f"{smooth}; the smaller, if above 0, is taken off v",
        ),
    ]
    if a.rmse is not None:
        of_all = "" if a.r2 is None else f"R² {a.r2:.4f}"
        rows.insert(0, ("root mean squared error", f"{a.rmse:.4g}", of_all))
    return layout.named_rows(*rows)


def groups(a: ContinuousAudit) -> list[dict[str, str]]:
    """Each group's typical place among people with the same outcome."""
    found = []
    for group in a.groups[:_MOST_GROUPS]:
        rows, median, low, high, first, last = a.ranks[group]
        found.append(
            {
                "group": group_name(group),
                "rows": f"{rows:,.0f} rows",
                "median": f"{_percentile(median)} percentile",
                "interval": f"[{100 * low:.1f}, {100 * high:.1f}]",
                "half": f"middle half from {100 * first:.0f} to {100 * last:.0f}",
            }
        )
    return found


def scope(a: ContinuousAudit) -> str:
    """What the bound promises, and what it cannot."""
    return (
        "The bound on v is a lower one, for large samples: v is larger wherever the bands and bins "
        "are too coarse to see a difference.\n"
        f"No upper bound holds without assumptions: with {a.distinct:,} distinct predictions a "
        "digit far behind the point can tell the attribute. Predictions released at a few values "
        "can be bounded."
    )


def _title(a: ContinuousAudit) -> str:
    what = "Groups" if a.sensitive == "groups" else "Quarters of the attribute"
    return f"{what} among people with the same outcome: typical percentile of the prediction"


def _p(a: ContinuousAudit) -> str:
    return "p < 0.001" if a.p_value < 1e-3 else f"p = {a.p_value:.2g}"


def _percentile(rank: float) -> str:
    """A rank as a percentile: 0.58 is "58th"."""
    whole = round(100 * rank)
    ending = "th" if 10 <= whole % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(whole % 10, "th")
    return f"{whole}{ending}"


def _points(medians: list[float | None]) -> list[str]:
    """Points of an SVG polyline in a square, the bands at even steps."""
    step = _SIDE / max(len(medians) - 1, 1)
    return [
        f"{10 + step * i:.1f},{10 + _SIDE * (1 - one):.1f}"
        for i, one in enumerate(medians)
        if one is not None
    ]
