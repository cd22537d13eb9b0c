"""Figures with matplotlib: the paper's of a folder of records, and what a trace could ship."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix import methods
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.frontier.answers import Answer
from separatrix.frontier.results import (
    MARKERS,
    REFERENCES,
    Columns,
    Results,
    Series,
    batch_series,
    each_path,
    main_series,
    select,
)  # fmt: skip
from separatrix.frontier.shippable import Shippable
from separatrix.methods import POLICIES
from separatrix.report.figures import blank_figure, finish, new_axes, root_scale, shared_legend, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# lightness shows the order of batch sizes, also to colour-blind readers
_SHADES = ("#9ecae1", "#4292c6", "#08519c", "#08224f", "#e69f00", "#d55e00")
LIMITS = {("eo_gap", "accuracy"): "limit of accuracy by EO gap", ("violation", "utility"): "limit"}
BLIND = "#cc79a7"
_TITLES = {"accuracy": "Decisions: what a budget costs", "utility": "The same in nats"}


def draw(results: Results, out: Path) -> list[Path]:
    """Write every figure that the records allow.

    Returns:
        The files: `<dataset>.png`, `<dataset>-batch-size.png`, `<dataset>-gradient-norm.png`, ….
    """
    written = []
    for dataset in results.datasets:
        six = dataset, six_panels(results, dataset)
        for name, figure in (six, *ablations(results, dataset)):
            for ending in ("png", "svg"):
                written.append(out / f"{name}.{ending}")
                write_figure(figure, written[-1])
    return written


def ablations(results: Results, dataset: str) -> Iterator[tuple[str, Figure]]:
    """The paper's ablations that the records of a dataset hold, by file name."""
    for name, make in (("batch-size", batch_sizes), ("gradient-norm", gradient_norms)):
        figure = make(results, dataset)
        if figure is not None:
            yield f"{dataset}-{name}", figure


def six_panels(results: Results, dataset: str) -> Figure:
    """The paper's figure of a dataset: planes, envelopes, operating metrics for both policies.

    For two labels the last row has the accuracy of the decisions and the AUROC of the posterior
    against their EO gaps; for more labels, as in the paper's ACSOccupation, expected accuracy and
    macro-AUROC of the posterior against v.
    """
    figure = blank_figure(11.0, 13.0)
    axes = figure.subplots(3, 2)
    for column, policy in enumerate(POLICIES):
        raw, hull = axes[0, column], axes[1, column]
        _paths(raw, results, dataset, policy, "violation", "utility")
        finish(raw, f"Information plane, {policy} policy", "violation", "utility")
        _paths(hull, results, dataset, policy, "violation", "utility", faint=True)
        for series, envelope in _hulls(results, dataset, policy):
            if series.method not in REFERENCES:
                look = {"ms": 5, "lw": 1.8, "zorder": 3} | _look(series)
                hull.plot(envelope.violation, envelope.utility, **look)
        finish(hull, f"Concave envelopes, {policy} policy", "violation", "utility")
        for ax in (raw, hull):
            _crop(ax, results, dataset, policy)
            _limit_of_erm(ax, results, dataset)
    many = results.labels(dataset) > 2
    x = "violation" if many else "eo_gap"
    for ax, metric, policy in (
        (axes[2, 0], "accuracy", POLICIES[0] if many else POLICIES[1]),
        (axes[2, 1], "auroc", POLICIES[0]),
    ):
        _paths(ax, results, dataset, policy, x, metric)
        name = ("macro-AUROC" if many else "AUROC") if metric == "auroc" else "Accuracy"
        finish(ax, f"{name}, {policy} policy", x, metric)
    figure.suptitle(dataset, parse_math=False)
    shared_legend(figure, axes.flat)
    return figure


def batch_sizes(results: Results, dataset: str) -> Figure | None:
    """The batch-size ablation: one path per size in the plane; None for fewer than two sizes."""
    runs = batch_series(results.mean, dataset)
    if not runs:
        return None
    figure = blank_figure(7.0, 5.2)
    ax = figure.subplots()
    points = select(results.mean, dataset=dataset, policy=POLICIES[0], lost=0)
    looks = zip(cycle(_SHADES), cycle(MARKERS), strict=False)
    for (size, series), (colour, marker) in zip(runs.items(), looks, strict=False):
        label = f"batch {size:,}" if size else "batch all rows"
        path = select(points, **series._asdict())
        _bars(ax, path, "violation", "utility", ls="-", label=label, color=colour, marker=marker)
    _limit_of_erm(ax, results, dataset)
    title = f"{dataset}: {next(iter(runs.values())).name} by batch size, {POLICIES[0]} policy"
    finish(ax, title, "violation", "utility")
    ax.legend(frameon=False)
    return figure


def gradient_norms(results: Results, dataset: str) -> Figure | None:
    """The gradient-norm ablation: `cmi` and `raw_cmi`; None where one of them was not run."""
    runs = [
        s
        for s in main_series(results.mean, dataset)
        if s.method in ("cmi", "raw_cmi") and s.inputs == "xz" and s.base != "score"
    ]
    if len({s.method for s in runs}) < 2:
        return None
    figure = blank_figure(11.0, 4.6)
    area = "macro-AUROC" if results.labels(dataset) > 2 else "AUROC"
    titles = {"utility": "Information plane", "auroc": area}
    points = select(results.mean, dataset=dataset, policy=POLICIES[0], lost=0)
    for ax, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for series, name, path in each_path(points, runs):
            label = f"{name}, {'with gradient norms' if series.method == 'cmi' else 'without'}"
            _bars(ax, path, "violation", metric, label=label, **_look(series))
        finish(ax, f"{dataset}: {title}, {POLICIES[0]} policy", "violation", metric)
    _limit_of_erm(figure.axes[0], results, dataset)
    shared_legend(figure, figure.axes)
    return figure


def _hulls(results: Results, dataset: str, policy: str) -> list[tuple[Series, Envelope]]:
    """The concave envelope of every path that has a point."""
    return [
        (series, concave_envelope(points["violation"], points["utility"]))
        for series, _, points in results.main_paths(dataset, policy)
        if not np.isnan(points["violation"]).all()
    ]


def _paths(ax: Axes, results: Results, dataset: str, policy: str, x: str, y: str, *, faint: bool = False) -> None:
    """Every path with its error bars; `faint`: the points alone, behind something else."""
    for series, name, points in results.main_paths(dataset, policy):
        single = series.method in REFERENCES
        style = _look(series) | {
            "ms": 11 if series.method == "erm" else 5,
            "ls": "" if faint or single else series.dash,
            "alpha": 0.3 if faint and not single else 1.0,
            "label": name,
            "zorder": 4 if single else 3,
        }
        if single and series.base == "paper" and series.inputs != "x":
            style["mfc"] = "0.6"
        if faint:
            ax.plot(points[x], points[y], **style)
        else:
            _bars(ax, points, x, y, **style)


def _look(series: Series) -> dict[str, Any]:
    """Colour, marker and line; the paper's recipe and what has no group are white inside."""
    inside = "white" if series.base == "paper" or series.inputs == "x" else series.colour
    return {"color": series.colour, "marker": series.marker, "ls": series.dash, "mfc": inside}


def _bars(ax: Axes, points: Columns, x: str, y: str, **style: Any) -> None:
    """A path with error bars in both directions; a single fold has none."""
    dy, dx = (np.nan_to_num(points[f"{name}_sd"]) for name in (y, x))
    style = {"ms": 5, "lw": 1.3, "elinewidth": 0.8} | style
    _, _, bars = ax.errorbar(points[x], points[y], dy, dx, **style)
    for bar in bars:
        bar.set_alpha(0.35)


def _crop(ax: Axes, results: Results, dataset: str, policy: str) -> None:
    """Show the plane as far right as an envelope goes, so that a lost path does not squeeze it."""
    ends = (hull.violation[-1] for _, hull in _hulls(results, dataset, policy))
    right = 1.1 * float(max(ends, default=0.0))
    if right <= 0.0:
        return
    ax.set_xlim(-0.04 * right, right)
    drawn = results.main_paths(dataset, policy)
    beyond = sum(int((points["violation"] > right).sum()) for _, _, points in drawn)
    if beyond:
        text = f"{beyond} point{'s' * (beyond > 1)} further right"
        look: dict[str, Any] = {"ha": "right", "fontsize": 8, "color": "0.4"}
        ax.text(0.99, 0.02, text, transform=ax.transAxes, **look)


def _limit_of_erm(ax: Axes, results: Results, dataset: str) -> None:
    """The limit of decisions around ERM, as far right as there are points."""
    curve = results.limit(dataset)
    if curve is not None:
        right = max(ax.get_xlim()[1], 1e-6)
        _draw_limit(ax, curve, right, "limit of ERM's decisions")
        ax.set_xlim(right=right)


def _draw_limit(ax: Axes, curve: Any, right: float, label: str) -> None:
    hull = concave_envelope(curve.violation, curve.utility)
    # on a scale of square roots the straight lines between the corners are bent
    levels = right * np.linspace(0.0, 1.0, 200) ** 2
    x = np.union1d(hull.violation[hull.violation < right], levels[levels >= hull.violation[0]])
    look: dict[str, Any] = {"color": "0.25", "ls": (0, (5, 2)), "lw": 1.5, "zorder": 2}
    ax.plot(x, hull.at(x), label=label, **look)


def plot(results: Results, shippable: Shippable, path: str | Path | None = None, ax: Axes | None = None) -> Any:
    """What a trace could ship: accuracy against the EO gap; for more labels u against v.

    Args:
        results: of the trace, for the limits.
        shippable: its answers.
        path: write both planes into a file whose ending is one that matplotlib knows.
        ax: where to draw the first; by default new axes.

    Returns:
        The axes; with a path the figure.
    """
    planes = list(LIMITS) if len(shippable.labels) == 2 else [("violation", "utility")]
    if path is None:
        ax = new_axes(5.8, 4.8) if ax is None else ax
        _plane(ax, results, shippable, *planes[0])
        ax.legend(frameon=False, fontsize=8)
        return ax
    figure = blank_figure(5.8 * len(planes), 4.8)
    for panel, (x, y) in zip(np.ravel(figure.subplots(1, len(planes))), planes, strict=True):
        _plane(panel, results, shippable, x, y)
    shared_legend(figure, figure.axes)
    write_figure(figure, path)
    return figure


def _plane(ax: Axes, results: Results, shippable: Shippable, x: str, y: str) -> None:
    shown = [a for a in shippable.answers if {x, y} <= set(a.promise)]
    dots = {"marker": "o", "ms": 4, "alpha": 0.6, "lw": 0, "elinewidth": 0}
    trained = [a for a in shown if a.kind == "trained" and not a.blind]
    for method in dict.fromkeys(a.point["method"] for a in trained):
        label, colour = methods.style(method)
        words = {"deterministic": ("decided", colour), "randomized": ("drawn", "white")}
        for policy, (word, inside) in words.items():
            shown_answers = [a for a in trained if (a.point["method"], a.point["policy"]) == (method, policy)]
            look = dots | {"color": colour, "mfc": inside, "label": f"{label}, trained, {word}"}
            _answers(ax, shown_answers, x, y, error=False, **look)
    for blind, colour in ((False, methods.style("postprocessing").colour), (True, BLIND)):
        known = " without the group" if blind else ""
        solved = [a for a in shown if a.kind == "decisions" and a.blind == blind]
        solved = [a for a in solved if a.maximize == y]
        _answers(ax, solved, x, y, color=colour, marker="D", label=f"solved for a budget{known}")
        plain = [a for a in shown if a.kind == "plain" and a.blind == blind]
        _answers(ax, plain, x, y, color=colour, marker="*", ms=13, label=f"plain model{known}")
    constant = [a for a in shown if a.kind == "constant"]
    cross = {"color": "0.3", "marker": "x", "ms": 8, "mew": 2, "lw": 0, "label": constant[0].name}
    _answers(ax, constant, x, y, error=False, **cross)
    curve = next((c for c in results.curves if c.name == LIMITS[x, y]), None)
    if curve is not None:
        _draw_limit(ax, curve, max(ax.get_xlim()[1], 1e-9), "limit of these scores on these rows")
    root_scale(ax)
    finish(ax, _TITLES[y], x, y)


def _answers(ax: Axes, answers: Sequence[Answer], x: str, y: str, *, error: bool = True, **look: Any) -> None:
    """The promises of answers, from the strictest on, with their standard errors."""
    if not answers:
        return
    promised = np.array([[a.promise[m] for m in (x, y)] for a in answers])
    promised = promised[np.argsort(promised[:, 0, 0], kind="stable")]
    (px, dx), (py, dy) = promised[:, 0].T, promised[:, 1].T
    look = {"ms": 5, "lw": 1.4, "elinewidth": 0.8, "capsize": 2, "zorder": 4} | look
    left = np.minimum(dx, px)  # a gap is not negative
    ax.errorbar(px, py, dy if error else None, [left, dx] if error else None, **look)
