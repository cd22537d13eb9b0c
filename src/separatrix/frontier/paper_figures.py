"""The figures of a folder of records, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.core.envelope import concave_envelope
from separatrix.errors import InputError
from separatrix.frontier.results import Results
from separatrix.frontier.series import (
    MARKERS,
    REFERENCES,
    Series,
    batch_series,
    legend_names,
    main_series,
)
from separatrix.frontier.tidy import Columns
from separatrix.io import interactive, write_whole
from separatrix.methods import POLICIES
from separatrix.report.figures import (
    blank_figure,
    figure_bytes,
    finish,
    shared_legend,
    write_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["batch_sizes", "draw", "frontier", "gradient_norms", "six_panels"]

# lightness shows the order of batch sizes, also to colour-blind readers
_SHADES = ("#9ecae1", "#4292c6", "#08519c", "#08224f", "#e69f00", "#d55e00")


def draw(
    records: str | Path | Results,
    out: str | Path,
    formats: Sequence[str] = ("png", "svg"),
    progress: bool | None = None,
) -> list[Path]:
    """Write every figure that the records allow.

    Args:
        records: a folder of them, or what was read from one.
        out: folder of the figures, made if need be.
        formats: endings that matplotlib knows.
        progress: a bar on stderr; by default if that is a terminal.

    Returns:
        The files: `<dataset>.png`, `<dataset>-batch-size.png`, `<dataset>-gradient-norm.png`, ….
    """
    from rich.console import Console
    from rich.progress import track

    results = records if isinstance(records, Results) else Results.read(records)
    show = interactive() if progress is None else progress
    written, console = [], Console(stderr=True)
    for dataset in track(
        results.datasets, "Drawing", console=console, transient=True, disable=not show
    ):
        for name, figure in _figures(results, dataset):
            for ending in formats:
                path = Path(out) / f"{_file_name(name)}.{ending}"
                write_whole(path, figure_bytes(figure, ending))
                written.append(path)
    return written


def frontier(
    folder: str | Path, path: str | Path | None = None, dataset: str | None = None
) -> Figure:
    """The plane of one dataset for both policies: points, each method's envelope, the limit.

    Args:
        folder: of the records.
        path: where to write it, with an ending that matplotlib knows.
        dataset: which one, where the folder holds several.
    """
    results = Results.read(folder)
    dataset = _one(results, dataset)
    figure = blank_figure(11.0, 4.6)
    for ax, policy in zip(figure.subplots(1, 2), POLICIES, strict=True):
        _paths(ax, results, dataset, policy, "violation", "utility", bars=True, lines=False)
        _envelopes(ax, results, dataset, policy)
        _limit(ax, results, dataset)
        finish(ax, f"{policy} policy", "violation", "utility")
    shared_legend(figure, figure.axes)
    if path is not None:
        write_figure(figure, path)
    return figure


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
        _paths(raw, results, dataset, policy, "violation", "utility", bars=True)
        finish(raw, f"Information plane, {policy} policy", "violation", "utility")
        _paths(hull, results, dataset, policy, "violation", "utility", lines=False, faint=True)
        _envelopes(hull, results, dataset, policy)
        finish(hull, f"Concave envelopes, {policy} policy", "violation", "utility")
        for ax in (raw, hull):
            _crop(ax, results, dataset, policy)
            _limit(ax, results, dataset)
    many = results.labels(dataset) > 2
    x = "violation" if many else "eo_gap"
    for ax, metric, policy in (
        (axes[2, 0], "accuracy", POLICIES[0] if many else POLICIES[1]),
        (axes[2, 1], "auroc", POLICIES[0]),
    ):
        _paths(ax, results, dataset, policy, x, metric, bars=True)
        name = ("macro-AUROC" if many else "AUROC") if metric == "auroc" else "Accuracy"
        finish(ax, f"{name}, {policy} policy", x, metric)
    figure.suptitle(dataset, parse_math=False)
    shared_legend(figure, axes.flat)
    return figure


def batch_sizes(results: Results, dataset: str, policy: str = "randomized") -> Figure | None:
    """The batch-size ablation: one path per size in the plane; None for fewer than two sizes."""
    runs = batch_series(results.mean, dataset)
    if not runs:
        return None
    figure = blank_figure(7.0, 5.2)
    ax = figure.subplots()
    for i, series in enumerate(runs):
        points = results.points(dataset, *series, policy)
        size = "all rows" if series.batch is None else f"{series.batch:,}"
        style = {"color": _SHADES[i % len(_SHADES)], "marker": MARKERS[i % len(MARKERS)]}
        _bars(ax, points, "violation", "utility", ls="-", label=f"batch {size}", **style)
    _limit(ax, results, dataset)
    finish(ax, f"{dataset}: {runs[0].name} by batch size, {policy} policy", "violation", "utility")
    ax.legend(frameon=False)
    return figure


def gradient_norms(results: Results, dataset: str, policy: str = "randomized") -> Figure | None:
    """The gradient-norm ablation: `cmi` and `raw_cmi`; None where one of them was not run."""
    runs = [
        s
        for s in main_series(results.mean, dataset)
        if s.method in ("cmi", "raw_cmi") and s.inputs == "xz" and s.base != "score"
    ]
    if len({s.method for s in runs}) < 2:
        return None
    figure = blank_figure(11.0, 4.6)
    metrics = ("utility", "auroc")
    for ax, metric in zip(figure.subplots(1, 2), metrics, strict=True):
        for series, name in zip(runs, legend_names(runs), strict=True):
            points = results.points(dataset, *series, policy)
            label = f"{name}, {'with gradient norms' if series.method == 'cmi' else 'without'}"
            _bars(ax, points, "violation", metric, label=label, **_look(series))
        many = metric == "auroc" and results.labels(dataset) > 2
        title = "Information plane" if metric == "utility" else "macro-AUROC" if many else "AUROC"
        finish(ax, f"{dataset}: {title}, {policy} policy", "violation", metric)
    _limit(figure.axes[0], results, dataset)
    shared_legend(figure, figure.axes)
    return figure


def _figures(results: Results, dataset: str) -> Iterator[tuple[str, Figure]]:
    yield dataset, six_panels(results, dataset)
    for name, figure in (
        ("batch-size", batch_sizes(results, dataset)),
        ("gradient-norm", gradient_norms(results, dataset)),
    ):
        if figure is not None:
            yield f"{dataset}-{name}", figure


def _paths(
    ax: Axes,
    results: Results,
    dataset: str,
    policy: str,
    x: str,
    y: str,
    *,
    bars: bool = False,
    lines: bool = True,
    faint: bool = False,
) -> None:
    main = main_series(results.mean, dataset)
    for series, name in zip(main, legend_names(main), strict=True):
        points = results.points(dataset, *series, policy)
        single = series.method in REFERENCES
        style: dict[str, Any] = {
            "color": series.colour,
            "marker": series.marker,
            "ms": 11 if series.method == "erm" else 5,
            "ls": series.dash if lines and not single else "",
            "alpha": 0.3 if faint and not single else 1.0,
            "label": name,
            "zorder": 4 if single else 3,
        }
        if series.inputs == "x" or (series.base == "paper" and not single):
            style["mfc"] = "white"
        elif series.base == "paper":
            style["mfc"] = "0.6"
        if bars:
            _bars(ax, points, x, y, **style)
        else:
            ax.plot(points[x], points[y], **style)


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


def _envelopes(ax: Axes, results: Results, dataset: str, policy: str) -> None:
    for series in main_series(results.mean, dataset):
        points = results.points(dataset, *series, policy)
        if series.method in REFERENCES or np.isnan(points["violation"]).all():
            continue
        hull = concave_envelope(points["violation"], points["utility"])
        ax.plot(hull.violation, hull.utility, ms=5, lw=1.8, zorder=3, **_look(series))


def _crop(ax: Axes, results: Results, dataset: str, policy: str) -> None:
    """Show the plane as far right as an envelope goes, so that a lost path does not squeeze it."""
    main = main_series(results.mean, dataset)
    paths = [results.points(dataset, *series, policy) for series in main]
    every = np.concatenate([points["violation"] for points in paths])
    ends = []
    for points in paths:
        if not np.isnan(points["violation"]).all():
            hull = concave_envelope(points["violation"], points["utility"])
            ends.append(float(hull.violation[-1]))
    right = 1.1 * max(ends, default=0.0)
    if right <= 0.0:
        return
    ax.set_xlim(-0.04 * right, right)
    beyond = int((every > right).sum())
    if beyond:
        text = f"{beyond} point{'s' * (beyond > 1)} further right"
        look: dict[str, Any] = {"ha": "right", "fontsize": 8, "color": "0.4"}
        ax.text(0.99, 0.02, text, transform=ax.transAxes, **look)


def _limit(ax: Axes, results: Results, dataset: str) -> None:
    """The limit of decisions around ERM, as far right as there are points."""
    curve = results.limit(dataset)
    if curve is None:
        return
    right = max(ax.get_xlim()[1], 1e-6)
    hull = concave_envelope(curve.violation, curve.utility)
    x = np.append(hull.violation[hull.violation < right], right)
    look: dict[str, Any] = {"color": "0.25", "ls": (0, (5, 2)), "lw": 1.6, "zorder": 2}
    ax.plot(x, hull.at(x), label="limit of ERM's decisions", **look)
    ax.set_xlim(right=right)


def _file_name(name: str) -> str:
    """A file name from a dataset's name, which may hold any character."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).lstrip(".") or "_"


def _one(results: Results, dataset: str | None) -> str:
    found = results.datasets
    if dataset is None and len(found) == 1:
        return found[0]
    if dataset not in found:
        raise InputError(f"`dataset` must be one of {', '.join(found)}, got {dataset!r}.")
    return dataset
