"""`separatrix trace`: what is possible on a file or a dataset."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from separatrix.cli.app import JSON, answer, app, readable, say
from separatrix.errors import InputError

if TYPE_CHECKING:
    from separatrix.datasets import Data

__all__ = ["trace"]


@app.command()
def trace(
    data: str = typer.Argument(
        ..., help="CSV or Parquet file, - for stdin, or a dataset (`separatrix datasets`)."
    ),
    out: Path = typer.Option(..., help="Folder for the frontier; the same folder again resumes."),
    target: str | None = typer.Option(None, help="Column to predict; of a file."),
    sensitive: list[str] = typer.Option(
        [], help="Column of groups, of a file; repeat it to intersect several."
    ),
    estimator: str | None = typer.Option(
        None,
        help="Base model: trees, logistic, network or MODULE:CLASS; by default the best of them.",
    ),
    blind: bool = typer.Option(
        False, "--blind", help="Also what is possible without the group at decision time."
    ),
    criterion: str = typer.Option(
        "separation", help="separation, independence, sufficiency or equal_opportunity."
    ),
    method: list[str] = typer.Option(
        [],
        help="Trained path beside the base model; repeat it, or none. By default the paper's "
        "penalty.",
    ),
    drop: list[str] = typer.Option([], help="Column to leave out; repeat it."),
    keep: list[str] = typer.Option([], help="Column to use although it looks like an id."),
    categorical: list[str] = typer.Option(
        [], help="Integer column whose numbers are codes; repeat it."
    ),
    missing_groups: str | None = typer.Option(
        None, help="Rows without a group: drop leaves them out, own makes them a group."
    ),
    folds: int = typer.Option(5, help="Cross-validation folds."),
    seed: int = typer.Option(0, help="Of folds and networks."),
    jobs: int = typer.Option(-1, help="Processes; -1 for all cores."),
    backend: str = typer.Option("local", help="Where the work is done: local or dask."),
    scheduler: str | None = typer.Option(
        None, help="Address of a Dask scheduler, with --backend dask."
    ),
    json: bool = JSON,
) -> None:
    """What is possible on my data? Says it in words, and writes models and a report.

    Example: separatrix trace people.csv --target hired --sensitive sex --out frontier
    """
    from separatrix.runs.runner import Execution
    from separatrix.tracing.tables import describe, write_tables
    from separatrix.tracing.training import trace_data

    with readable(data) as path:
        rows = _open(path, target, sensitive, drop, keep, categorical, missing_groups)
    for line in () if json else describe(rows, data):
        say(line)
    name = data if target is None else Path(data).name
    frontier = trace_data(
        rows, name=name, estimator=estimator, blind=blind, criterion=criterion,
        method=_paths(method), cv=folds,
        random_state=seed, out=out, execution=Execution(jobs, backend, scheduler, progress=True),
    )  # fmt: skip
    lines = list(write_tables(frontier))
    found = [one.to_dict() for one in frontier.answers]
    answer("\n".join(lines), {"folder": out, "answers": found}, json)


def _paths(method: list[str]) -> list[str] | None:
    """The trained paths that were named; `none` is none of them, nothing is the default."""
    return [] if method == ["none"] else method or None


def _open(
    source: str, target: str | None, sensitive: list[str], drop: list[str], keep: list[str],
    categorical: list[str], missing_groups: str | None,
) -> Data:  # fmt: skip
    from separatrix import datasets

    if source in datasets.names() and not Path(source).is_file():
        if target is not None or sensitive or drop or keep or categorical or missing_groups:
            raise InputError(
                f"{source!r} is a dataset that knows its columns; --target and the like are for "
                "files."
            )
        return datasets.load(source)
    if not Path(source).is_file():
        raise InputError(
            f"{source!r} is neither a file nor a dataset; the datasets are "
            f"{', '.join(datasets.names())}."
        )
    if target is None or not sensitive:
        raise InputError(f"Name the columns of {source!r}: --target COLUMN --sensitive COLUMN.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is left out is printed as notes
        return datasets.from_file(
            source, target=target, sensitive=sensitive, drop=drop, keep=keep,
            categorical=categorical, missing_groups=cast(Any, missing_groups),
        )  # fmt: skip
