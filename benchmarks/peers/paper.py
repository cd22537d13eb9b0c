"""The results pages from folders of `separatrix benchmark`: our run beside the paper's.

    separatrix benchmark --seed 1101 --out results
    separatrix benchmark --paper --seed 1101 --out results
    python -m benchmarks.peers paper results --again other-seed another-seed
    python -m benchmarks.peers paper large --only tables --page results-large.md

It writes what stands between the markers of results.md and results-tables.md, and the folder
results/; or only another page of tables. The sentences of results.md are by hand. The settings of
the methods were chosen on the folds of seed 0; a folder of that seed among `--again` shows what
this was worth.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks._measuring import DOCS, write_between_markers
from benchmarks.peers import paper_figures, paper_summary
from separatrix import __version__
from separatrix.core.planes import PLANES
from separatrix.frontier import paper_figures as figures
from separatrix.frontier import paper_page
from separatrix.frontier import path_tables as tables
from separatrix.frontier.results import Results
from separatrix.frontier.tidy import select
from separatrix.frontier.yardsticks import plane_table
from separatrix.io import write_whole

QUICK = None  # reads a folder of `separatrix benchmark`
LEVELS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02)


def by_dataset(folders: list[Path]) -> dict[str, Results]:
    """The folder that holds each dataset; the first one counts."""
    found: dict[str, Results] = {}
    for folder in folders:
        results = Results.read(folder)
        for name in results.datasets:
            found.setdefault(name, results)
    order = [*paper_page.DATASETS, *found]
    return {name: found[name] for name in dict.fromkeys(order) if name in found}


def cost_of(results: Results, dataset: str) -> str:
    """How many models, how long, what was lost."""
    own = select(results.columns, dataset=dataset, policy="randomized")
    lost = own["status"] != "ok"
    folds = sorted(set(own["fold"].tolist()))
    text = (
        f"{len(lost):,} trained models, {len(folds)} of {paper_summary.folds_of(own)} folds, "
        f"{own['train_seconds'].sum() / 60:.1f} minutes of CPU for training."
    )
    if lost.any():
        pairs = set(zip(own["method"][lost], own["status"][lost], strict=True))
        names = ", ".join(f"{method} ({status})" for method, status in sorted(pairs))
        text += f" Lost runs: {int(lost.sum())}: {names}."
    return text


def of_dataset(results: Results, dataset: str, place: Path, brief: bool) -> list[str]:
    """The part of a dataset: our yardsticks, the paper's tables, links to the rest."""
    columns = results.columns
    lines = [f"## {dataset}", "", cost_of(results, dataset), ""]
    planes = PLANES if results.labels(dataset) == 2 else ("information",)
    shown = [plane_table(columns, dataset, plane) for plane in planes]
    if paper_page.paper_rows(dataset):
        shown.append(paper_page.beside(results, dataset))
    limit = results.limit(dataset)
    shown.append(tables.envelopes(columns, dataset, levels=LEVELS, limit=limit))
    against = paper_summary.above_postprocessing(columns, dataset)
    shown += [] if against is None else [against]
    for table in shown:
        lines += [table.markdown(), ""]
    return lines if brief else [*lines, *_beside(results, dataset, place)]


def _beside(results: Results, dataset: str, place: Path) -> list[str]:
    """The paper's figures of a dataset, and its long tables as CSV."""
    columns, lines = results.columns, []
    long = {
        "operating-points": tables.operating_points(columns, dataset),
        "randomized": tables.paths(columns, dataset, "randomized"),
        "deterministic": tables.paths(columns, dataset, "deterministic"),
    }
    drawn = [
        (dataset, figures.six_panels(results, dataset)),
        (f"{dataset}-batch-size", figures.batch_sizes(results, dataset)),
        (f"{dataset}-gradient-norm", figures.gradient_norms(results, dataset)),
    ]
    for name, figure in drawn:
        if figure is not None:
            figures.write_figure(figure, place / f"{name}.png")
            lines += [f"![{name}]({place.name}/{name}.png)", ""]
    links = []
    for kind, table in long.items():
        write_whole(place / f"{dataset}-{kind}.csv", table.csv())
        links.append(f"{{download}}`{kind} <{place.name}/{dataset}-{kind}.csv>`")
    return [*lines, f"As CSV: {', '.join(links)}.", ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages of results, or the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--again", type=Path, nargs="*", default=[], help="other seeds")
    parser.add_argument("--brief", action="store_true", help="no figures and CSV of each dataset")
    parser.add_argument("--only", choices=("tables", "figures", "summary"), help="one part")
    parser.add_argument("--page", default="results-tables.md", help="of the tables")
    parser.add_argument("--docs", type=Path, default=DOCS / "evidence")
    asked = parser.parse_args(arguments)
    docs, found = asked.docs, by_dataset(asked.folders)
    if asked.only in (None, "tables"):
        place = docs / asked.page.removesuffix(".md").removesuffix("-tables")
        for old in place.glob("*"):
            if not old.name.startswith("question-"):  # these are of the other part
                old.unlink()
        write_between_markers(docs / asked.page, "peers/paper", full(found, place, asked.brief))
    if asked.only in (None, "figures"):
        paper_figures.draw(found, docs / "results")
    if asked.only in (None, "summary"):
        again = [by_dataset([folder]) for folder in asked.again]
        page, cost = docs / "results.md", paper_summary.cost(found)
        write_between_markers(page, "peers/paper_summary", cost.markdown())
        write_between_markers(page, "peers/paper", paper_summary.written(found, again))


def full(found: dict[str, Results], place: Path, brief: bool) -> str:
    """The page of tables."""
    seconds = sum(
        float(select(r.columns, dataset=name, policy="randomized")["train_seconds"].sum())
        for name, r in found.items()
    )
    lines = [
        f"separatrix {__version__}, {os.cpu_count()} cores ({platform.machine()}), "
        f"{seconds / 60:.0f} minutes of CPU for training in all.",
        "",
    ]
    for name, results in found.items():
        lines += of_dataset(results, name, place, brief)
    return "\n".join(lines)
