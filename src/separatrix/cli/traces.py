"""`separatrix trace`: what is possible on a file or a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from separatrix.cli.app import app
from separatrix.errors import InputError

if TYPE_CHECKING:
    from separatrix.datasets import Data

__all__ = ["trace"]


@app.command()
def trace(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet file, or the name of a dataset (`separatrix datasets`)."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the frontier; the same folder again resumes.")
    ],
    target: Annotated[
        str | None, typer.Option("--target", help="Column to predict; of a file.")
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            "--sensitive", help="Column of groups, of a file; repeat it to intersect several."
        ),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to trace; repeat it for several.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Column to leave out; repeat it.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", help="Column to use although it looks like an id.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option("--categorical", help="Integer column whose numbers are codes; repeat it."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Of folds and networks.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    references: Annotated[
        bool, typer.Option(help="Also channel, ERM with and without the group, and the limit.")
    ] = True,
    backend: Annotated[str, typer.Option(help="Where the work is done: local or dask.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, with --backend dask.")
    ] = None,
) -> None:
    """What is possible on my data? Trains the path, measures it on unseen rows, writes models,
    tables and a report.

    Example: separatrix trace people.csv --target hired --sensitive sex --out frontier
    """
    from separatrix.runs.runner import Execution
    from separatrix.tracing.tables import describe, write_tables
    from separatrix.tracing.training import trace_data

    rows = _open(data, target, sensitive or [], drop, keep, categorical)
    for line in describe(rows, data):
        typer.echo(line)
    frontier = trace_data(
        rows,
        name=data if target is None else Path(data).name,
        method=method or ["cmi"],
        cv=folds,
        random_state=seed,
        references=references,
        out=out,
        execution=Execution(jobs, backend, scheduler),
    )
    for line in write_tables(frontier):
        typer.echo(line)


def _open(
    source: str,
    target: str | None,
    sensitive: list[str],
    drop: list[str] | None,
    keep: list[str] | None,
    categorical: list[str] | None,
) -> Data:
    from separatrix import datasets

    if source in datasets.names() and not Path(source).is_file():
        if target is not None or sensitive or drop or keep or categorical:
            raise InputError(
                f"{source!r} is a dataset that knows its columns; --target and the like are for "
                f"files."
            )
        return datasets.load(source)
    if not Path(source).is_file():
        raise InputError(
            f"{source!r} is neither a file nor a dataset; the datasets are "
            f"{', '.join(datasets.names())}."
        )
    if target is None or not sensitive:
        raise InputError(f"Name the columns of {source!r}: --target COLUMN --sensitive COLUMN.")
    return datasets.from_file(
        source,
        target=target,
        sensitive=sensitive,
        drop=drop or [],
        keep=keep or [],
        categorical=categorical or [],
    )
