"""The figures of the results page: a plane for each question, a panel for each dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.paper_summary import paths
from benchmarks.peers.yardsticks import BOUNDED, PLANES, majority_rate
from separatrix.core.envelope import pareto
from separatrix.frontier.results import REFERENCES, Results, Series, legend_names, means, select, series
from separatrix.report.figures import blank_figure, finish, root_scale, shared_legend, write_figure

METHOD = paths("cmi:paper", "cmi", "fr_train", "infofair", "adversarial", "fair_dro", "erm", "erm@x")
USE = paths(
    "postprocessing", "cmi_boosting", "cmi_boosting:score", "cmi", "cmi:score",
    "threshold_optimizer", "erm", "erm@x",
)  # fmt: skip
COST = paths("postprocessing", "cmi_boosting", "erm")
BLIND = paths("cmi_boosting", "cmi_boosting@x", "cmi_boosting:score", "cmi_boosting:score@x", "erm", "erm@x")


def draw(found: dict[str, Results], out: Path) -> None:
    """Write the figures."""
    two = [name for name, r in found.items() if r.labels(name) == 2]
    questions: dict[str, tuple[list[str], list[str], list[Series]]] = {
        "method": ([*found], ["information"], METHOD),
        "use": (two, ["decisions", "scores"], USE),
        "cost": (two, ["decisions"], COST),
        "blind": (two, ["decisions", "scores"], BLIND),
    }
    for name, (datasets, planes, wanted) in questions.items():
        if datasets:
            figure = panels(found, datasets, planes, wanted)
            write_figure(figure, out / f"question-{name}.png")


def panels(found: dict[str, Results], datasets: list[str], planes: list[str], wanted: list[Series]) -> Any:
    """The best fold means of each method: what no other point of the same method beats."""
    figure = blank_figure(3.7 * len(datasets), 3.6 * len(planes) + 0.6)
    axes = figure.subplots(len(planes), len(datasets), squeeze=False)
    for row, plane in zip(axes, planes, strict=True):
        for ax, dataset in zip(row, datasets, strict=True):
            _panel(ax, found[dataset], dataset, plane, wanted)
    shared_legend(figure, axes.flat)
    return figure


def _panel(ax: Any, results: Results, dataset: str, plane: str, wanted: list[Series]) -> None:
    kind = PLANES[plane]
    columns = select(results.columns, dataset=dataset, status="ok")
    many = results.labels(dataset) > 2
    most = kind.most_of_many if many and kind.most_of_many else kind.most
    used = BOUNDED[plane]
    if kind.score:  # a score of few values that sees the group tells it: v would fill one corner
        used, most = "score_gap", 0.2
    here = [s for s in wanted if s in series(columns)]
    top = []
    for own, name in zip(wanted, legend_names(wanted), strict=True):
        if own not in here:
            continue
        part = select(columns, **own._asdict())
        mean = means(select(part, policy="randomized") if kind.score else part)
        x, y = np.maximum(mean[used], 0.0), mean[kind.objective]
        front = pareto(x, y)
        look = {"color": own.colour, "marker": own.marker, "ms": 9 if own.method == "erm" else 4}
        look |= {"ls": "" if own.method in REFERENCES else own.dash, "lw": 1.4}
        look |= {"mfc": "white"} if own.inputs == "x" or own.base == "paper" else {}
        ax.plot(x[front], y[front], label=name, **look)
        top += y[front][x[front] <= 1.5 * most].tolist()
    if kind.least is None:
        rate = float(majority_rate(np.sum(list(columns["counts"]), 0)))
        ax.axhline(rate, color="0.6", lw=1, ls=(0, (2, 2)), label="always the majority")
        top = [y for y in top if y >= rate - 0.002] + [rate - 0.002]
    if kind.score:
        top = [y for y in top if y >= 0.6]
    finish(ax, dataset, used if kind.score else kind.budget, kind.objective)
    root_scale(ax, (-0.0005 * most, 1.5 * most))
    marks = [share * most for share in (0.0, 0.05, 0.2, 0.5, 1.0)]
    ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
    if top:
        low, high = min(top), max(top)
        ax.set_ylim(low - 0.06 * (high - low) - 1e-4, high + 0.06 * (high - low) + 1e-4)
    ax.xaxis.label.set_fontsize(8.5)
