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
    from separatrix.frontier.numeric_frontier import NumericFrontier

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
    max_eo_gap: float = typer.Option(
        0.05, help="Gap that the first sentence is about; the curve has all budgets."
    ),
    blind: bool = typer.Option(
        False, "--blind", help="Also what is possible without the group at decision time."
    ),
    criterion: str = typer.Option(
        "separation", help="separation, independence, sufficiency or equal_opportunity."
    ),
    method: list[str] = typer.Option(
        [],
        help="Trained path beside the base model, such as cmi; repeat it. By default none.",
    ),
    drop: list[str] = typer.Option([], help="Column to leave out; repeat it."),
    keep: list[str] = typer.Option([], help="Column to use although it looks like an id."),
    categorical: list[str] = typer.Option(
        [], help="Integer column whose numbers are codes; repeat it."
    ),
    missing_groups: str | None = typer.Option(
        None, help="Rows without a group: drop leaves them out, own makes them a group."
    ),
    min_level_rows: int = typer.Option(
        5, help="Levels of a column with fewer rows are joined as (other); 1 keeps all."
    ),
    unit: str | None = typer.Option(
        None, help="Column that says who a row is about: one fold, and one count, a person."
    ),
    positive: str | None = typer.Option(
        None, help="Label that decisions are about, of two; by default the second."
    ),
    folds: int = typer.Option(5, help="Cross-validation folds."),
    seed: int = typer.Option(0, help="Of folds and networks."),
    jobs: int = typer.Option(-1, help="Processes; -1 for all cores."),
    backend: str = typer.Option("local", help="Where the work is done: local or dask."),
    scheduler: str | None = typer.Option(
        None, help="Address of a Dask scheduler, with --backend dask."
    ),
    continuous: bool = typer.Option(
        False, "--continuous", help="The target is a number: R², RMSE and v around a regressor."
    ),
    continuous_sensitive: bool = typer.Option(
        False, "--continuous-sensitive", help="The attribute is a number, such as age."
    ),
    levels: int = typer.Option(16, help="With --continuous, at most so many predictions."),
    json: bool = JSON,
) -> None:
    """What is possible on my data? Says it in words, and writes models and a report.

    Example: separatrix trace people.csv --target hired --sensitive sex --out frontier
    """
    if continuous or continuous_sensitive:
        other = criterion != "separation" or backend != "local" or scheduler
        columns = keep or categorical or missing_groups or unit or positive
        if not continuous or blind or method or columns or other:
            raise InputError(
                "--continuous takes --target, --sensitive, --estimator trees or linear, --drop, "
                "--levels, --folds, --seed and --jobs; --continuous-sensitive needs it."
            )
        kind = "continuous" if continuous_sensitive else "groups"
        with readable(data) as path:
            numbers = _numbers(
                path, out, target, sensitive, kind, drop, estimator, levels, folds, seed, jobs
            )
        page = numbers.report(out / "report.html")
        ask = f"separatrix select {out} --max-violation 0.003 --out MODEL"
        text = f"{numbers}\n\nReport: {page}\nNext: {ask}"
        answer(text, {"folder": out, "points": numbers.manifest["points"]}, json)
        return
    from separatrix.frontier.printed import describe, write_tables
    from separatrix.frontier.sweep.runner import Execution
    from separatrix.frontier.trace import trace_data

    with readable(data) as path:
        rows = _open(
            path, target, sensitive, drop, keep, categorical, missing_groups, min_level_rows, unit,
            positive,
        )  # fmt: skip
    for line in () if json else describe(rows, data):
        say(line)
    name = data if target is None else Path(data).name
    frontier = trace_data(
        rows, name=name, estimator=estimator, max_eo_gap=max_eo_gap, blind=blind,
        criterion=criterion, method=method, cv=folds,
        random_state=seed, out=out, execution=Execution(jobs, backend, scheduler, progress=True),
    )  # fmt: skip
    lines = list(write_tables(frontier))
    found = [one.to_dict() for one in frontier.answers]
    answer("\n".join(lines), {"folder": out, "answers": found}, json)


def _numbers(
    data: str, out: Path, target: str | None, sensitive: list[str], kind: str, drop: list[str],
    estimator: str | None, levels: int, folds: int, seed: int, jobs: int,
) -> NumericFrontier:  # fmt: skip
    """Trace a numeric target of a file."""
    from separatrix.columns.frames import check_present
    from separatrix.columns.readers import read_table
    from separatrix.frontier.numeric import trace_numeric

    if target is None or not sensitive:
        raise InputError(f"Name the columns of {data!r}: --target COLUMN --sensitive COLUMN.")
    columns = read_table(data)
    check_present([target, *sensitive, *drop], list(columns), repr(data))
    groups = {column: columns[column] for column in sensitive}
    rest = {name: x for name, x in columns.items() if name != target and name not in drop}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # columns that are left out
        return trace_numeric(
            rest, {target: columns[target]}, sensitive_features=groups, sensitive=kind,
            name=Path(data).name, estimator=estimator, levels=levels, cv=folds, random_state=seed,
            n_jobs=jobs, out=out, progress=True,
        )  # fmt: skip


def _open(
    source: str, target: str | None, sensitive: list[str], drop: list[str], keep: list[str],
    categorical: list[str], missing_groups: str | None, min_level_rows: int, unit: str | None,
    positive: str | None,
) -> Data:  # fmt: skip
    from separatrix import datasets

    if source in datasets.names() and not Path(source).is_file():
        columns = sensitive or drop or keep or categorical or missing_groups
        if target is not None or columns or unit or positive:
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
            min_level_rows=min_level_rows, unit=unit, positive=positive,
        )  # fmt: skip
