"""The audit of a score as text for the terminal, as HTML for a notebook, and as ROC curves."""

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

    from separatrix.auditing.scores import ScoreAudit

__all__ = ["html", "plot", "text"]

_POINTS = 120  # of each ROC curve in a page
_MOST_GROUPS = 24


def text(a: ScoreAudit) -> str:
    """The audit as a table that a person understands."""
    title = f"Groups at the threshold {a.gap_at:.4g}, where they are farthest apart"
    others = layout.criteria(a, "S"), identity(a.table.counts)
    return layout.lines_of(
        (sentence(a), headline(a)), measures(a), title, groups(a), others, a.notes,
        layout.certified(a),
    )  # fmt: skip


def html(a: ScoreAudit, page: bool = False) -> str:
    """The audit as HTML: a fragment for a notebook, or a whole page that opens offline."""
    curves = [
        {
            "group": group_name(group),
            "colour": PALETTE[i % len(PALETTE)],
            "points": _path(curve.fpr, curve.tpr),
            "at": _dot(a.rates[group]),
        }
        for i, (group, curve) in enumerate(a.curves.items())
        if not np.isnan([*curve.fpr, *curve.tpr]).any()
    ]
    values: dict[str, Any] = {"sentence": sentence(a), "headline": headline(a)}
    values |= {"measures": measures(a), "groups": groups(a)}
    values |= {"threshold": f"{a.gap_at:.4g}", "curves": curves[:_MOST_GROUPS], "notes": a.notes}
    more = {"page": page, "scope": layout.certified(a), "others": layout.OTHERS}
    more |= {"criteria": layout.criteria(a, "S"), "identity": identity(a.table.counts)}
    return layout.render("score.html.jinja", {**values, **more})


def plot(a: ScoreAudit, ax: Axes | None = None) -> Axes:
    """Each group's ROC curve; the dots are the groups at the threshold of the largest gap."""
    ax = new_axes(5.0, 4.6) if ax is None else ax
    ax.plot([0, 1], [0, 1], "--", color="0.7", lw=1, zorder=1)
    for i, (group, curve) in enumerate(a.curves.items()):
        if np.isnan([*curve.fpr, *curve.tpr]).any():
            continue
        colour = PALETTE[i % len(PALETTE)]
        name = f"{group_name(group)} ({a.auroc_by_group[group]:.3f})"
        ax.plot(curve.fpr, curve.tpr, color=colour, lw=1.6, label=name)
        ax.plot(*a.rates[group], "o", ms=5, color=colour, mec="white", zorder=3)
    negative, positive = a.table.labels
    ax.set_xlabel(f"false-positive rate: P(S > t | Y = {negative})")
    ax.set_ylabel(f"true-positive rate: P(S > t | Y = {positive})")
    title = f"largest EO gap {a.gap:.3f} at t = {a.gap_at:.3g}; v = {nats(a.violation)} nats"
    ax.set_title(title, loc="left", fontsize=10)
    ax.set_aspect("equal")
    ax.legend(title="AUROC", frameon=False, fontsize=8, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def headline(a: ScoreAudit) -> str:
    """One line: what was audited."""
    negative, positive = a.table.labels
    who = layout.few_groups(a.table.groups)
    weighted = "" if a.table.moments is None else "; weighted rows"
    kind = "distinct scores" if a.exact else "bins of scores"
    return (
        f"Score audit of {a.table.rows:,} rows: {positive} against {negative}; {who}; "
        f"{a.distinct:,} {kind}{weighted}"
    )


def sentence(a: ScoreAudit) -> str:
    """The finding in words."""
    found = layout.verdict(a.gap, a.gap_floor, a.p_value)
    return f"At its worst threshold, given the same outcome, {found}"


def measures(a: ScoreAudit) -> list[dict[str, str]]:
    """The measured values, each with what to make of it."""
    sure, interval, test = layout.certainty(a)
    corrected = f"nats; bias-corrected v {nats(a.violation_corrected)}"
    binned = f"nats, score in {a.bins} quantile bins; {interval}"
    low, high = a.auroc_interval
    areas = "; ".join(filter(None, [f"{sure} interval {low:.4f} … {high:.4f}", _areas(a)]))
    bound = f"finite-sample bound at {sure}, at every threshold at once"
    worst = f"over all thresholds; deciding S > {a.gap_at:.4g}"
    return layout.named_rows(
        ("largest equalized-odds gap", f"{a.gap:.4f}", worst),
        ("certified gap", f"≤ {a.gap_upper:.4f}", bound),
        ("shuffled groups show", f"{a.gap_floor:.4f}", "a gap of this size is noise"),
        ("AUROC", f"{a.auroc:.4f}", areas),
        ("violation v = I(S;Z|Y)", nats(a.violation), binned),
        ("certified v", f"≤ {nats(a.violation_upper)}", f"{a.guarantee} bound at {sure}"),
        ("shuffled groups show", nats(a.violation_floor), corrected),
        test,
    )


def groups(a: ScoreAudit) -> list[dict[str, str]]:
    """Each group's rates at the threshold of the largest gap, and its AUROC."""
    rows = a.table.counts.sum((0, 2))
    return [
        {
            "group": group_name(group),
            "rows": f"{weight:,.0f} rows",
            "fpr": f"FPR {_rate(a.rates[group][0])}",
            "tpr": f"TPR {_rate(a.rates[group][1])}",
            "auroc": f"AUROC {_rate(a.auroc_by_group[group])}",
        }
        for group, weight in zip(a.table.groups, rows, strict=True)
    ]


def _areas(a: ScoreAudit) -> str:
    known = {g: x for g, x in a.auroc_by_group.items() if x == x}
    if len(known) < 2:
        return ""
    least, most = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return (
        f"of groups from {known[least]:.4f} ({group_name(least)}) to {known[most]:.4f} "
        f"({group_name(most)})"
    )


def _rate(x: float) -> str:
    return f"{x:.3f}" if x == x else "not defined"


def _path(fpr: list[float], tpr: list[float]) -> str:
    """Points of an SVG polyline in a square of 200, at even steps along the curve."""
    x, y = np.asarray(fpr), np.asarray(tpr)
    along = np.r_[0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))]
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], _POINTS)))
    kept = np.unique(np.r_[0, np.minimum(kept, len(x) - 1), len(x) - 1])
    return " ".join(f"{10 + 200 * x[i]:.1f},{210 - 200 * y[i]:.1f}" for i in kept)


def _dot(rates: tuple[float, float]) -> dict[str, Any]:
    return {"x": f"{10 + 200 * rates[0]:.1f}", "y": f"{210 - 200 * rates[1]:.1f}"}
