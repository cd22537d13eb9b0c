"""The figure of a trace: accuracy against the EO gap as unseen rows show it, and u against v."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix import methods
from separatrix.core.envelope import concave_envelope
from separatrix.frontier.answers import Answer
from separatrix.frontier.results import Results
from separatrix.frontier.shippable import Shippable
from separatrix.report.figures import blank_figure, finish, shared_legend, write_figure
from separatrix.report.terminal import new_axes, root_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLIND", "LIMITS", "draw", "write"]

LIMITS = {
    ("eo_gap", "accuracy"): "limit of accuracy by EO gap",
    ("violation", "utility"): "limit",
}
BLIND = "#cc79a7"
_TITLES = {"accuracy": "Decisions: what a budget costs", "utility": "The same in nats"}


def draw(results: Results, shippable: Shippable, ax: Axes | None = None) -> Axes:
    """The first panel with its legend.

    Args:
        results: of the trace, for the limits.
        shippable: its answers.
        ax: where to draw; by default new axes.
    """
    ax = new_axes(5.8, 4.8) if ax is None else ax
    _plane(ax, results, shippable, *_planes(shippable)[0])
    ax.legend(frameon=False, fontsize=8)
    return ax


def write(results: Results, shippable: Shippable, path: str | Path) -> Figure:
    """Both panels in a file, whose ending is one that matplotlib knows."""
    planes = _planes(shippable)
    figure = blank_figure(5.8 * len(planes), 4.8)
    for ax, (x, y) in zip(np.ravel(figure.subplots(1, len(planes))), planes, strict=True):
        _plane(ax, results, shippable, x, y)
    shared_legend(figure, figure.axes)
    write_figure(figure, path)
    return figure


def _planes(shippable: Shippable) -> list[tuple[str, str]]:
    """Both panels; for more than two labels u against v alone."""
    return list(LIMITS) if len(shippable.labels) == 2 else [("violation", "utility")]


def _plane(ax: Axes, results: Results, shippable: Shippable, x: str, y: str) -> None:
    shown = [a for a in shippable.answers if {x, y} <= set(a.promise)]
    trained = [a for a in shown if a.kind == "trained"]
    for method in dict.fromkeys(a.point["method"] for a in trained):
        label, colour = methods.style(method)
        for policy, word, inside in (
            ("deterministic", "decided", colour), ("randomized", "drawn", "white"),
        ):  # fmt: skip
            own = [a for a in trained if a.point["method"] == method and not a.blind]
            own = [a for a in own if a.point["policy"] == policy]
            look = {"color": colour, "mfc": inside, "marker": "o", "ms": 4, "alpha": 0.6, "lw": 0}
            _points(ax, own, x, y, label=f"{label}, trained, {word}", **look)
    for blind, colour in ((False, methods.style("postprocessing").colour), (True, BLIND)):
        known = " without the group" if blind else ""
        solved = [a for a in shown if a.kind == "decisions" and a.blind == blind]
        solved = [a for a in solved if a.maximize == y]
        _bars(ax, solved, x, y, color=colour, marker="D", label=f"solved for a budget{known}")
        plain = [a for a in shown if a.kind == "plain" and a.blind == blind]
        _bars(ax, plain, x, y, color=colour, marker="*", ms=13, label=f"plain model{known}")
    constant = [a for a in shown if a.kind == "constant"]
    _points(ax, constant, x, y, color="0.3", marker="x", ms=8, mew=2, lw=0, label=constant[0].name)
    _limit(ax, results, x, y)
    root_scale(ax)
    finish(ax, _TITLES[y], x, y)


def _points(ax: Axes, answers: list[Answer], x: str, y: str, **look: Any) -> None:
    if answers:
        at = np.array([[a.promise[m][0] for m in (x, y)] for a in answers])
        ax.plot(*at.T, **look)


def _bars(ax: Axes, answers: list[Answer], x: str, y: str, **look: Any) -> None:
    if not answers:
        return
    answers = sorted(answers, key=lambda a: a.promise[x][0])
    at = np.array([[a.promise[m] for m in (x, y)] for a in answers])
    (px, dx), (py, dy) = at[:, 0].T, at[:, 1].T
    left = np.minimum(dx, px)  # a gap is not negative
    look = {"ms": 5, "lw": 1.4, "elinewidth": 0.8, "capsize": 2, "zorder": 4} | look
    ax.errorbar(px, py, dy, [left, dx], **look)


def _limit(ax: Axes, results: Results, x: str, y: str) -> None:
    curve = next((c for c in results.curves if c.name == LIMITS[x, y]), None)
    if curve is None:
        return
    right = ax.get_xlim()[1]
    hull = concave_envelope(curve.violation, curve.utility)
    levels = np.square(np.linspace(0.0, np.sqrt(max(right, 1e-9)), 200))
    levels = levels[levels >= hull.violation[0]]
    look: dict[str, Any] = {"color": "0.25", "ls": (0, (5, 2)), "lw": 1.4, "zorder": 2}
    ax.plot(levels, hull.at(levels), label="limit of these scores on these rows", **look)
