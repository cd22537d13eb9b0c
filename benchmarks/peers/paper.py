"""The results pages from folders of `separatrix benchmark`: our run beside the paper's.

    separatrix benchmark --seed 1101 --out results
    separatrix benchmark --paper --seed 1101 --out results
    python -m benchmarks.peers paper results --again other-seed another-seed
    python -m benchmarks.peers paper large --only tables

It writes the CSV files and pictures that results.md, results-large.md and results-tables.md show.
The sentences of the pages are by hand. The settings of the methods were chosen on the folds of
seed 0; a folder of that seed among `--again` shows what this was worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks._measuring import DOCS, publish
from benchmarks.peers import paper_figures, paper_summary
from benchmarks.peers.yardsticks import PLANES, plane_table
from separatrix.frontier import figures, paper
from separatrix.frontier.results import Results, select
from separatrix.io import write_whole
from separatrix.report.figures import write_figure

PLACE = DOCS / "evidence" / "results"
PARTS = ("tables", "figures", "summary")
QUICK = None  # reads a folder of `separatrix benchmark`
LEVELS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02)


def by_dataset(folders: list[Path]) -> dict[str, Results]:
    """The folder that holds each dataset; the first one counts."""
    found: dict[str, Results] = {}
    for folder in folders:
        results = Results.read(folder)
        for name in results.datasets:
            found.setdefault(name, results)
    order = [*paper.DATASETS, *found]
    return {name: found[name] for name in dict.fromkeys(order) if name in found}


def cost_of(results: Results, dataset: str) -> str:
    """How many models, how long, what was lost."""
    own = select(results.columns, dataset=dataset, policy="randomized")
    lost = own["status"] != "ok"
    return (
        f"{dataset}: {len(lost):,} models, {len(set(own['fold'].tolist()))} folds, "
        f"{own['train_seconds'].sum() / 60:.1f} minutes of CPU for training; "
        f"lost: {sorted(set(own['method'][lost].tolist())) or 'none'}."
    )


def of_dataset(results: Results, dataset: str) -> None:
    """Our yardsticks, the paper's rows, envelopes and figures of a dataset, and its long tables."""
    columns = results.columns
    planes = PLANES if results.labels(dataset) == 2 else ("information",)
    short = {plane: plane_table(columns, dataset, plane) for plane in planes}
    if paper.paper_rows(dataset):
        short["paper"] = paper.beside(results, dataset)
    short["envelope"] = results.envelopes(dataset, LEVELS)
    for kind, table in short.items():
        publish(f"../results/{dataset}-{kind}", table.head, table.cells(), write=True)
    long = {
        "operating-points": results.operating_points(dataset),
        "randomized": results.paths(dataset, "randomized"),
        "deterministic": results.paths(dataset, "deterministic"),
    }
    for kind, table in long.items():
        write_whole(PLACE / f"{dataset}-{kind}.csv", table.csv())
    drawn = {
        dataset: figures.six_panels(results, dataset),
        f"{dataset}-batch-size": figures.batch_sizes(results, dataset),
        f"{dataset}-gradient-norm": figures.gradient_norms(results, dataset),
    }
    for name, figure in drawn.items():
        if figure is not None:
            write_figure(figure, PLACE / f"{name}.png")
    print(cost_of(results, dataset))


def main(folders: Sequence[Path], /, again: Sequence[Path] = (), only: Sequence[str] = PARTS) -> None:
    """Write tables and figures of results, or the parts that were asked for."""
    found = by_dataset(folders)
    if "tables" in only:
        for name, results in found.items():
            of_dataset(results, name)
        trade_offs = paper.same_trade_off(next(iter(found.values())))
        if trade_offs.rows:
            publish("paper-trade-offs", trade_offs.head, trade_offs.cells(), write=True)
    if "figures" in only:
        paper_figures.draw(found, PLACE)
    if "summary" in only:
        others = [by_dataset([folder]) for folder in again]
        for name, table in paper_summary.summaries(found, others).items():
            publish(f"results-{name}", table.head, table.cells(), write=True)
