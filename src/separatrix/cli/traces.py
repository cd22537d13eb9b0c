"""`separatrix trace`: what is possible on a file or a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from separatrix.cli.app import JSON, answer, app, readable, say
from separatrix.core.counts import suggestion
from separatrix.errors import InputError

if TYPE_CHECKING:
    from separatrix.datasets import Data
    from separatrix.frontier.numeric import NumericFrontier
    from separatrix.frontier.rows import Settings

_UNNAMED = "Name the columns of {!r}: --target COLUMN --sensitive COLUMN."


@app.command()
def trace(
    data: str = Argument(..., help="CSV or Parquet file, - for stdin, or a dataset (`separatrix datasets`)."),
    out: Path = Option(..., help="Folder for the frontier; the same folder again resumes."),
    target: str | None = Option(None, help="Column to predict."),
    sensitive: list[str] = Option([], help="Column of groups; repeat it to intersect several."),
    estimator: str | None = Option(None, help="trees, logistic, network or MODULE:CLASS; by default the best of them."),
    max_eo_gap: float = Option(0.05, help="Budget of the first sentence; the curve covers all budgets."),
    blind: bool = Option(False, "--blind", help="Also trace decisions made without the group."),
    criterion: str = Option("separation", help="separation, independence, sufficiency or equal_opportunity."),
    method: list[str] = Option([], help="Trained path beside the base model, such as cmi; repeat it. By default none."),
    drop: list[str] = Option([], help="Column to leave out; repeat it."),
    keep: list[str] = Option([], help="Column to use even though it looks like an id."),
    categorical: list[str] = Option([], help="Integer column whose numbers are codes; repeat it."),
    missing_groups: str | None = Option(None, help="Rows without a group: drop leaves them out, own makes them one."),
    min_level_rows: int = Option(5, help="Levels of a column with fewer rows are joined as (other); 1 keeps all."),
    unit: str | None = Option(None, help="Column that identifies a person: each is in one fold and counts once."),
    positive: str | None = Option(None, help="Label that decisions are about, of two; by default the second."),
    folds: int = Option(5, help="Cross-validation folds."),
    seed: int = Option(0, help="Seed of folds and networks."),
    jobs: int = Option(-1, help="Processes; -1 for all cores."),
    backend: str = Option("local", help="Where the work is done: local or dask."),
    scheduler: str | None = Option(None, help="Address of a Dask scheduler, with --backend dask."),
    continuous: bool = Option(False, "--regression", help="The target is a number: R², RMSE and v around a regressor."),
    continuous_sensitive: bool = Option(False, "--continuous-sensitive", help="--sensitive is a number, such as age."),
    levels: int = Option(16, help="With --regression: most different predictions."),
    json: bool = JSON,
) -> None:
    """What is possible on my data? Says it in words, and writes models and a report.

    Example: separatrix trace people.csv --target hired --sensitive sex --out frontier
    """
    columns: dict[str, Any] = {
        "target": target, "sensitive": sensitive, "drop": drop, "keep": keep, "unit": unit,
        "categorical": categorical, "missing_groups": missing_groups, "positive": positive,
    }  # fmt: skip
    if continuous or continuous_sensitive:
        other = criterion != "separation" or backend != "local" or scheduler
        odd = keep or categorical or missing_groups or unit or positive
        if not continuous or blind or method or odd or other:
            takes = "--target, --sensitive, --estimator trees or linear, --drop, --levels, --folds, --seed and --jobs"
            raise InputError(f"--regression takes {takes}; --continuous-sensitive needs it.")
    from separatrix.frontier.rows import Settings
    from separatrix.frontier.shippable import describe, write_tables
    from separatrix.frontier.sweep import Execution
    from separatrix.frontier.trace import trace_data

    shared = partial(
        Settings, estimator=estimator, cv=folds, random_state=seed, out=out, levels=levels,
        execution=Execution(jobs, backend, scheduler, progress=True),
    )  # fmt: skip
    if continuous:
        kind = "continuous" if continuous_sensitive else "groups"
        with readable(data) as path:
            numbers = _numbers(path, target, sensitive, drop, shared(sensitive=kind))
        page = numbers.report(out / "report.html")
        text = f"{numbers}\n\nReport: {page}\nNext: {numbers.command()}"
        answer(text, {"folder": out, "points": numbers.manifest["points"]}, json)
        return
    with readable(data) as path:
        rows = _open(path, columns, min_level_rows)
    for line in () if json else describe(rows, data):
        say(line)
    name = data if target is None else Path(data).name
    settings = shared(max_eo_gap=max_eo_gap, blind=blind, criterion=criterion, method=method)
    frontier = trace_data(rows, settings, name=name)
    text = "\n".join(write_tables(frontier))
    answer(text, {"folder": out, "answers": list(map(asdict, frontier.answers))}, json)


def _numbers(data: str, target: str | None, groups: list[str], drop: list[str], settings: Settings) -> NumericFrontier:
    """Trace a numeric target of a file."""
    from separatrix.columns.frames import check_present
    from separatrix.columns.readers import read_table
    from separatrix.frontier.numeric import trace_numeric

    if target is None or not groups:
        raise InputError(_UNNAMED.format(data))
    columns = read_table(data)
    check_present([target, *groups, *drop], list(columns), repr(data))
    rest = {name: x for name, x in columns.items() if name not in (target, *drop)}
    z = {column: columns[column] for column in groups}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # columns that are left out
        return trace_numeric(rest, {target: columns[target]}, z, settings, Path(data).name)


def _open(source: str, columns: Mapping[str, Any], min_level_rows: int) -> Data:
    from separatrix import datasets

    if source in datasets.names() and not Path(source).is_file():
        if any(columns.values()):
            raise InputError(f"{source!r} is a dataset that knows its columns; --target and the like are for files.")
        return datasets.load(source)
    if not Path(source).is_file():
        place = Path(source).parent
        there = [str(place / file.name) for file in place.iterdir()] if place.is_dir() else []
        near = suggestion(source, [*datasets.names(), *there])
        hint = f". {near}" if near else f"; the datasets are {', '.join(datasets.names())}."
        raise InputError(f"{source!r} is neither a file nor a dataset{hint}")
    if columns["target"] is None or not columns["sensitive"]:
        raise InputError(_UNNAMED.format(source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is left out is printed as notes
        return datasets.from_frame(source, min_level_rows=min_level_rows, **columns)
