"""An audit as text for the terminal, as HTML for a notebook or a page, and as a figure.

Decisions, scores and numbers are audited with different words and pictures, and shown in the same
way: a sentence, measures, a table, the other criteria, notes, and rates or curves of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.report.figures import new_axes
from separatrix.report.page import render_template
from separatrix.report.words import WIDTH, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHERS = "Other criteria, in nats, and their gaps"
# Okabe and Ito's palette: told apart by every kind of colour vision
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
_MOST_BARS, _MOST_CURVES = 200, 24
_POINTS = 120  # of each curve in a page
_SIDE = 200  # of the square of an SVG

Row = tuple[str, ...]


@dataclass(frozen=True)
class Rates:
    """Rates of each group with their intervals, beside the rate of all people with the label.

    Args:
        title: of the figure.
        groups: in the order of their colours.
        rows: `label`, `group`, `prediction`, `rate`, `low`, `high`, `label_rate` of each.
    """

    title: str
    groups: Sequence[str]
    rows: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Curve:
    """One group's curve.

    Args:
        name: of the group; `label` in a legend.
        x, y: its points; NaN where there is none.
        low, high: ends of the intervals of y, where there are any.
        dot: a point to mark.
    """

    name: str
    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dot: tuple[float, float] | None = None


@dataclass(frozen=True)
class Curves:
    """Curves of the groups.

    Args:
        title, across, up: of the figure and its axes.
        heading, caption: above and below them in HTML.
        curves: one a group.
        even: whether HTML shows the points at even steps.
        ticks: names of the places 0, 1, … along x.
        legend: its title.
    """

    title: str
    across: str
    up: str
    heading: str
    caption: str
    curves: Sequence[Curve]
    even: bool = False
    ticks: Sequence[str] = ()
    legend: str | None = None


@dataclass(frozen=True)
class AuditPage:
    """What is said about an audit.

    Args:
        kind: what the page is called.
        sentence, headline: the finding, and what was audited.
        measures: name, value and note of each.
        title, table: the cells or groups in question.
        columns: CSS classes of the table's columns.
        criteria: name, value, test and gaps of the criteria beside separation.
        identity: how they hang together.
        notes, scope: what the reader must know, and what the bound promises.
        figure: makes the picture.
    """

    kind: str
    sentence: str
    headline: str
    measures: Sequence[Row]
    title: str
    table: Sequence[Row]
    columns: Sequence[str]
    notes: Sequence[str]
    scope: str
    figure: Callable[[], Rates | Curves]
    criteria: Sequence[Row] = ()
    identity: str = ""


def text(page: AuditPage) -> str:
    """Headlines, measures, an aligned table, the other criteria, scope and notes."""
    width = max(len(name) for name, _, _ in page.measures)
    lines = [*wrapped(page.sentence), *wrapped(page.headline), ""]
    for name, value, note in page.measures:
        lines += _fitted(f"  {name:<{width}}  {value:>9}  ", note)
    lines += [*_aligned(page.title, page.table), *_aligned(OTHERS, page.criteria)]
    lines += [*wrapped(page.identity), ""]
    lines += [line for paragraph in page.scope.splitlines() for line in wrapped(paragraph)]
    if page.notes:
        lines += ["", *(line for note in page.notes for line in wrapped(f"! {note}"))]
    return "\n".join(lines)


def _aligned(title: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["", title]
    for row in rows:
        *cells, last = (f"{x:<{w}}" for x, w in zip(row, widths, strict=True))
        lines += _fitted("  " + "".join(f"{cell}  " for cell in cells), last.rstrip())
    return lines


def _fitted(start: str, last: str) -> list[str]:
    """A row as lines: where it is too long, the parts of its last column stand below each other."""
    if len(start + last) <= WIDTH:
        return [(start + last).rstrip()]
    indent = " " * min(len(start), 2 * WIDTH // 3)
    first, *more = last.replace("; ", ";\n").splitlines()
    rows = [start + first, *(indent + row for row in more)]
    return [line for row in rows for line in wrap(row, WIDTH, subsequent_indent=indent, break_on_hyphens=False)]


def html(page: AuditPage, whole: bool = False) -> str:
    """HTML: a fragment for a notebook, or a whole page that opens offline.

    Names are the user's, so all of them are escaped.
    """
    figure = page.figure()
    shown: dict[str, Any] = {"bars": [], "curves": [], "figure": figure, "others": OTHERS}
    if isinstance(figure, Rates):
        shown["bars"] = figure.rows[:_MOST_BARS]
    else:
        for curve, colour in zip(figure.curves[:_MOST_CURVES], cycle(PALETTE), strict=False):
            dot = None if curve.dot is None else _place(*curve.dot)
            line = {"name": curve.name, "colour": colour, "points": _path(curve, figure.even), "dot": dot}
            shown["curves"].append(line)
    return render_template("audit.html.jinja", **vars(page) | shown, whole=whole)


def _path(curve: Curve, even: bool) -> str:
    """Points of an SVG polyline; of many points some, at even steps along the curve."""
    x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
    if even:
        x = np.arange(len(y)) / max(len(y) - 1, 1)
    points = np.flatnonzero(~np.isnan(y))
    if len(points) > _POINTS:
        along = np.r_[0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))]
        steps = np.searchsorted(along, np.linspace(0.0, along[-1], _POINTS))
        points = np.unique(np.r_[0, np.minimum(steps, len(x) - 1), len(x) - 1])
    return " ".join(",".join(_place(x[i], y[i])) for i in points)


def _place(x: float, y: float) -> tuple[str, str]:
    """A point of the unit square in an SVG with a margin of 10."""
    return f"{10 + _SIDE * x:.1f}", f"{10 + _SIDE * (1 - y):.1f}"


def draw(figure: Rates | Curves, ax: Axes | None = None) -> Axes:
    """The figure with matplotlib."""
    wide = isinstance(figure, Rates) or figure.even
    ax = new_axes(*((7.0, 4.0) if wide else (5.0, 4.6))) if ax is None else ax
    if isinstance(figure, Rates):
        _draw_rates(figure, ax)
    else:
        _draw_curves(figure, ax)
    ax.set_title(figure.title, loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_rates(figure: Rates, ax: Axes) -> None:
    """Rate of a prediction per label and group, with its interval; dashed: all groups together."""
    panels = list(dict.fromkeys((row["label"], row["prediction"]) for row in figure.rows))
    reach = min(0.06 * (len(figure.groups) - 1), 0.3)
    spread = np.linspace(-reach, reach, len(figure.groups))
    unnamed = {*figure.groups}
    for row in figure.rows:
        x, z = panels.index((row["label"], row["prediction"])), figure.groups.index(row["group"])
        ax.plot([x - 0.42, x + 0.42], [row["label_rate"]] * 2, "--", color="0.6", lw=1, zorder=1)
        rate, name = row["rate"], row["group"] if row["group"] in unnamed else None
        errors = [[max(rate - row["low"], 0.0)], [max(row["high"] - rate, 0.0)]]
        unnamed.discard(row["group"])
        colour = PALETTE[z % len(PALETTE)]
        ax.errorbar(x + spread[z], rate, errors, ms=5, capsize=3, color=colour, label=name, fmt="o")
    names = [f"of those with {label}:\npredicted {prediction}" for label, prediction in panels]
    ax.set_xticks(range(len(panels)), names)
    ax.set_ylabel("share of the group")
    ax.set_ylim(bottom=0.0)
    ax.set_xlim(-0.5, len(panels) - 0.5)
    ax.legend(frameon=False, fontsize=8, ncols=2 if len(figure.groups) > 6 else 1)


def _draw_curves(figure: Curves, ax: Axes) -> None:
    """The curve of each group with its interval or dot; dashed: no difference."""
    if figure.even:
        ax.axhline(0.5, ls="--", color="0.6", lw=1, zorder=1)
    else:
        ax.plot([0, 1], [0, 1], "--", color="0.7", lw=1, zorder=1)
    for i, curve in enumerate(figure.curves):
        colour = PALETTE[i % len(PALETTE)]
        if curve.low is not None and curve.high is not None:
            ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
        marks = "o-" if figure.even else "-"
        ax.plot(curve.x, curve.y, marks, ms=4, lw=1.6, color=colour, label=curve.label)
        if curve.dot is not None:
            ax.plot(*curve.dot, "o", ms=5, color=colour, mec="white", zorder=3)
    if figure.ticks:
        ax.set_xticks(range(len(figure.ticks)), list(figure.ticks))
    ax.set_xlabel(figure.across)
    ax.set_ylabel(figure.up)
    many: dict[str, Any] = {"ncols": 2 if len(figure.curves) > 6 else 1}
    if figure.even:
        ax.set_ylim(0.0, 1.0)
    else:
        ax.set_aspect("equal")
        many = {"loc": "lower right", "title": figure.legend}
    ax.legend(frameon=False, fontsize=8, **many)


def named_rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Rows of a name, a value and a note, for JSON and templates."""
    return [dict(zip(("name", "value", "note"), row, strict=True)) for row in rows]


def nats(x: float) -> str:
    """Information as text: four digits behind the point, or a power of ten."""
    return f"{x:.4f}" if abs(x) >= 0.001 or x == 0 else f"{x:.1e}"
