"""`separatrix benchmark`, `report`, `datasets` and `methods`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from separatrix.cli.app import JSON, answer, app, say
from separatrix.errors import InputError, MissingExtraError
from separatrix.io import working
from separatrix.report.table import Table


@app.command()
def benchmark(
    dataset: list[str] = Argument([], help="Datasets; default: all of the paper's available."),
    out: Path = Option(Path("benchmark"), help="Folder for records, tables and figures."),
    method: list[str] = Option(
        [], help="Method, or cmi:score for a recipe; repeat it. Else all but exponentiated_gradient."
    ),
    quick: bool = Option(False, "--quick", help="Few trade-offs, short training, two folds."),
    paper: bool = Option(False, "--paper", help="Only the paper: its six datasets, methods, ablations, and paper.md."),
    blind: bool = Option(False, "--blind", help="Also every method without the group."),
    folds: int | None = Option(None, help="Cross-validation folds; by default 5, with --quick 2."),
    seed: int = Option(0, help="Seed of folds and networks."),
    option: list[str] = Option([], help="Dataset option, such as celeba.weights=PATH; repeat it."),
    jobs: int = Option(-1, help="Processes; -1 for all cores."),
    timeout: float | None = Option(None, help="Give up a stack of networks after this many seconds."),
    backend: str = Option("local", help="Where the work is done: local or dask."),
    scheduler: str | None = Option(None, help="Address of a Dask scheduler, with --backend dask."),
    json: bool = JSON,
) -> None:
    """Does the paper's method work? Writes tables and figures. Run it again to resume.

    Example: separatrix benchmark --paper --out results
    """
    from separatrix.frontier import paper as benchmarking
    from separatrix.frontier.sweep import Execution

    if paper and (method or blind):
        raise InputError("--paper has the paper's own methods: leave out --method and --blind.")
    execution = Execution(jobs, backend, scheduler, timeout)
    protocol = benchmarking.Protocol(quick, folds, seed, _options(option), execution)
    if paper:
        made = benchmarking.paper_benchmark(dataset or None, out, protocol)
    else:
        made = benchmarking.benchmark(dataset or None, out, protocol, chosen_methods=method or None, blind=blind)
    if json:
        answer("", {"folder": out, "lines": list(made)}, json)
    for line in () if json else made:
        say(line)


def _options(given: list[str]) -> dict[str, dict[str, str]]:
    """`celeba.weights=PATH` by dataset."""
    options: dict[str, dict[str, str]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        dataset, dot, option = name.partition(".")
        if not (equals and dot and dataset and option):
            raise InputError(f"--option must be DATASET.NAME=VALUE, got {text!r}.")
        options.setdefault(dataset, {})[option] = value
    return options


@app.command()
def report(
    folder: Path = Argument(..., help="Folder of `separatrix trace` or `separatrix benchmark`."),
    out: Path | None = Option(None, help="The page; by default report.html in the folder."),
    json: bool = JSON,
) -> None:
    """Write a frontier's report: one page that opens offline.

    Example: separatrix report frontier
    """
    from separatrix.frontier import page
    from separatrix.frontier.folder import MANIFEST
    from separatrix.frontier.frontier import Frontier

    with working(f"Reading {folder}"):
        place = out or folder / "report.html"
        if (folder / MANIFEST).is_file():  # its held-out posteriors say more
            Frontier.load(folder).report(place)
        else:
            page.write(folder, place)
    answer(str(place), {"report": place}, json)


@app.command("datasets")
def list_datasets(json: bool = JSON) -> None:
    """Datasets that `trace` and `benchmark` know; for missing ones, what to put where."""
    from separatrix import datasets

    head = ("Name", "Rows", "Features", "Labels", "Groups", "Here", "Where", "Licence")
    names = "name", "rows", "features", "labels", "groups", "available", "where", "licence"
    known = datasets.listing()
    shown = [row | {"available": "yes" if row["available"] else "no"} for row in known]
    table = Table("Datasets", head, tuple(tuple(row[n] for n in names) for row in shown))
    answer(table.text(), known, json)


@app.command("methods")
def list_methods(json: bool = JSON) -> None:
    """The methods, what they take, and where they come from."""
    from separatrix import methods

    names = ("name", "label", "labels", "groups", "trade_offs", "reference")
    rows: list[tuple[str, ...]] = []
    for name in methods.names():
        try:
            method = methods.get(name)
        except MissingExtraError as error:
            rows.append((name, "–", "–", "–", "–", str(error)))
            continue
        takes = "any" if method.multiclass else "two", "any"
        rows.append((name, method.label, *takes, str(len(method.trade_offs)), method.reference))
    head = ("Name", "Label", "Labels", "Groups", "Trade-offs", "Reference")
    plain = [dict(zip(names, row, strict=True)) for row in rows]
    answer(Table("Methods", head, tuple(rows)).text(), plain, json)
