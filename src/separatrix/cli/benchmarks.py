"""`separatrix benchmark`, `report`, `datasets` and `methods`."""

from __future__ import annotations

from pathlib import Path

import typer

from separatrix.cli.app import JSON, answer, app, say
from separatrix.io import working

__all__ = ["benchmark", "list_datasets", "list_methods", "report"]


@app.command()
def benchmark(
    dataset: list[str] = typer.Argument([], help="Datasets; by default the paper's that are here."),
    out: Path = typer.Option(Path("benchmark"), help="Folder for records, tables and figures."),
    method: list[str] = typer.Option(
        [],
        help="Method, or cmi:score for a recipe; repeat it. By default all but "
        "exponentiated_gradient.",
    ),
    quick: bool = typer.Option(False, "--quick", help="Two folds, few trade-offs, short training."),
    ablations: bool = typer.Option(
        False, "--ablations", help="Also batch sizes and gradient norms on ACS."
    ),
    recipes: bool = typer.Option(
        False, "--recipes", help="Also the paper's recipe of each comparison method."
    ),
    blind: bool = typer.Option(False, "--blind", help="Also every method without the group."),
    folds: int = typer.Option(5, help="Cross-validation folds."),
    seed: int = typer.Option(0, help="Of folds and networks."),
    jobs: int = typer.Option(-1, help="Processes; -1 for all cores."),
    timeout: float | None = typer.Option(
        None, help="Seconds after which one stack of networks is given up."
    ),
    backend: str = typer.Option("local", help="Where the work is done: local or dask."),
    scheduler: str | None = typer.Option(
        None, help="Address of a Dask scheduler, with --backend dask."
    ),
    json: bool = JSON,
) -> None:
    """Is the method good? Writes the paper's tables and figures. Run it again to resume.

    Example: separatrix benchmark adult compas --quick --out results
    """
    from separatrix.frontier.paper import benchmark as run
    from separatrix.frontier.sweep.runner import Execution

    where = Execution(jobs, backend, scheduler, timeout)
    lines: list[str] = []
    for line in run(
        dataset or None, out, chosen_methods=method or None, quick=quick, ablations=ablations,
        recipes=recipes, blind=blind, folds=folds, seed=seed, execution=where,
    ):  # fmt: skip
        lines.append(line)
        if not json:
            say(line)
    if json:
        answer("", {"folder": out, "lines": lines}, json)


@app.command()
def report(
    folder: Path = typer.Argument(
        ..., help="Folder of `separatrix trace` or `separatrix benchmark`."
    ),
    out: Path | None = typer.Option(None, help="The page; by default report.html in the folder."),
    json: bool = JSON,
) -> None:
    """One self-contained page of a frontier: opens offline.

    Example: separatrix report frontier
    """
    from separatrix.frontier import page_content
    from separatrix.frontier.frontier import NUMERIC, load_frontier
    from separatrix.frontier.traced import MANIFEST

    with working(f"Reading {folder}"):
        place = out or folder / "report.html"
        frontier = (folder / MANIFEST).is_file() or (folder / NUMERIC).is_file()
        if frontier:  # its held-out posteriors say more
            load_frontier(folder).report(place)
        else:
            page_content.write(folder, place)
    answer(str(place), {"report": place}, json)


@app.command("datasets")
def list_datasets(json: bool = JSON) -> None:
    """Datasets that `trace` and `benchmark` know; for missing ones, what to put where."""
    from separatrix import datasets
    from separatrix.cli.listings import dataset_table

    answer(dataset_table(), datasets.listing(), json)


@app.command("methods")
def list_methods(json: bool = JSON) -> None:
    """The methods, what they take, and where they come from."""
    from separatrix.cli.listings import method_rows, method_table

    answer(method_table(), method_rows(), json)
