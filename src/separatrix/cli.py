"""The command line. Exit status 0 on success, 2 on bad input with one sentence on stderr, 3 where
an audit is above a value of --fail-above, 1 on anything else.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from separatrix import __version__
from separatrix.errors import InputError, SeparatrixError

app = typer.Typer(
    name="separatrix",
    help="What a prediction says about a person's group beyond the true outcome, and what "
    "removing it costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def audit(
    file: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet file, or a quoted pattern such as 'component-*.parquet'."
        ),
    ],
    y: Annotated[str, typer.Option("--y", help="Column of true labels.")],
    z: Annotated[
        list[str],
        typer.Option("--z", help="Column of groups; repeat it for the intersection of several."),
    ],
    pred: Annotated[
        list[str],
        typer.Option(
            "--pred",
            help="Column of predictions: labels, or P(last label) as a float; repeat it for "
            "posteriors in label order.",
        ),
    ],
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    score: Annotated[
        bool,
        typer.Option("--score", help="Audit --pred as a score, at every threshold; two labels."),
    ] = False,
    confidence: Annotated[
        float, typer.Option(help="Of the interval and the certified bound.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the Monte Carlo test.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page that opens offline.")] = None,
    fail_above: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, such as eo_gap=0.05: exit 3 if it is larger; repeat it."),
    ] = None,
) -> None:
    """How far from separation are these predictions, or this score, and how sure are we?

    Example: separatrix audit predictions.csv --y income --z sex --z race --pred score
    """
    from separatrix.auditing import ceilings, score_view, view
    from separatrix.auditing.files import audit_files
    from separatrix.auditing.score_frames import audit_score_files
    from separatrix.auditing.scores import ScoreAudit

    names = ceilings.SCORE_NAMES if score else ceilings.DECISION_NAMES
    highest = ceilings.parse_ceilings(fail_above or [], names)
    if score and len(pred) != 1:
        raise InputError(f"--score takes one --pred, the column of the score, got {len(pred)}.")
    with _working(f"Counting {file}"):
        result = (
            audit_score_files(
                file,
                y=y,
                z=z,
                score=pred[0],
                weight=weight,
                confidence=confidence,
                random_state=seed,
            )
            if score
            else audit_files(
                file,
                y=y,
                z=z,
                pred=pred[0] if len(pred) == 1 else pred,
                weight=weight,
                confidence=confidence,
                random_state=seed,
            )
        )
    if html is not None:
        page = (
            score_view.html(result, page=True)
            if isinstance(result, ScoreAudit)
            else view.html(result, page=True)
        )
        _write(html, page)
    typer.echo(result.to_json() if json else str(result))
    if above := ceilings.exceeded(result, highest):
        typer.echo(f"separatrix: {above}", err=True)
        raise typer.Exit(3)


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
    from separatrix.commands import trace_source

    for line in trace_source(
        data,
        out,
        target=target,
        sensitive=sensitive or [],
        method=method or ["cmi"],
        drop=drop or [],
        keep=keep or [],
        categorical=categorical or [],
        folds=folds,
        seed=seed,
        jobs=jobs,
        references=references,
        backend=backend,
        scheduler=scheduler,
    ):
        typer.echo(line)


@app.command()
def select(
    folder: Annotated[Path, typer.Argument(help="Folder of `separatrix trace`.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the model; an older model there is replaced.")
    ],
    max_violation: Annotated[
        float | None, typer.Option(help="Budget on v = I(U;Z|Y), in nats.")
    ] = None,
    max_eo_gap: Annotated[
        float | None, typer.Option(help="Budget on the equalized-odds gap.")
    ] = None,
    maximize: Annotated[str, typer.Option(help="utility, auroc or accuracy.")] = "utility",
    confidence: Annotated[
        float | None,
        typer.Option(help="Keep the budget with this probability, not only by fold means."),
    ] = None,
    rule: Annotated[str, typer.Option(help="With a confidence: sequence or holm.")] = "sequence",
    option: Annotated[
        str | None, typer.Option(help="Only this will do: deterministic, single or mixture.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Only points of this method; repeat it.")
    ] = None,
) -> None:
    """Which point do I ship? Chooses within the budgets, shows the alternatives with their prices,
    saves the model.

    Example: separatrix select frontier --max-violation 0.005 --maximize auroc --out model
    """
    from separatrix.tracing.frontier import load_frontier

    with _working(f"Choosing from {folder}"):
        point = load_frontier(folder).select(
            max_violation=max_violation,
            max_eo_gap=max_eo_gap,
            maximize=maximize,
            confidence=confidence,
            rule=rule,
            option=option,
            method=method or None,
        )
        point.predictor.save(out)
    typer.echo(str(point))
    typer.echo(f"The model is in {out}; read {out / 'MODEL_CARD.md'}")
    typer.echo(f"Next: separatrix predict {out} FILE --out predictions.csv")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of `separatrix select`.")],
    file: Annotated[
        Path,
        typer.Argument(help="CSV (plain or .gz) or Parquet file with the columns of training."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Predictions, .csv or .parquet.")],
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column that identifies a person; copied to the output."),
    ] = None,
    salt_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a secret; with --id the same person then always gets the same draw."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draws, where there is no secret.")] = 0,
) -> None:
    """Predict a file of any size, in constant memory.

    Example: separatrix predict model people.csv --id person --salt-file secret.txt --out
    predictions.csv
    """
    from separatrix.deploy.saving import load
    from separatrix.deploy.streaming import predict_file

    salt = None if salt_file is None else _secret(salt_file)
    rows = predict_file(load(model), file, out, id_column=id_column, salt=salt, random_state=seed)
    typer.echo(f"{rows:,} predictions are in {out}")


@app.command()
def benchmark(
    dataset: Annotated[
        list[str] | None, typer.Argument(help="Datasets; by default the paper's that are here.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for records, tables and figures.")
    ] = Path("benchmark"),
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method; repeat it. By default all but EG.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two folds, few trade-offs, short training.")
    ] = False,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Also batch sizes and gradient norms on ACS.")
    ] = False,
    folds: Annotated[int, typer.Option(help="Cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Of folds and networks.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which one stack of networks is given up.")
    ] = None,
    backend: Annotated[str, typer.Option(help="Where the work is done: local or dask.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, with --backend dask.")
    ] = None,
) -> None:
    """Is the method good? Runs datasets × methods, writes the paper's tables and figures. Run it
    again to resume.

    Example: separatrix benchmark adult compas --quick --out results
    """
    from separatrix.benchmarking import benchmark as run

    for line in run(
        dataset or None,
        out,
        chosen_methods=method or None,
        quick=quick,
        ablations=ablations,
        folds=folds,
        seed=seed,
        jobs=jobs,
        timeout=timeout,
        backend=backend,
        scheduler=scheduler,
    ):
        typer.echo(line)


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of `separatrix trace` or `separatrix benchmark`.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page; by default report.html in the folder.")
    ] = None,
) -> None:
    """One self-contained page of a frontier: opens offline.

    Example: separatrix report frontier
    """
    from separatrix.commands import report_of

    with _working(f"Reading {folder}"):
        path = report_of(folder, out or folder / "report.html")
    typer.echo(f"{path}")


@app.command()
def limit(
    file: Annotated[
        str, typer.Argument(help="CSV or Parquet file with scores, labels and groups.")
    ],
    y: Annotated[str, typer.Option("--y", help="Column of true labels.")],
    z: Annotated[
        list[str],
        typer.Option("--z", help="Column of groups; repeat it for the intersection of several."),
    ],
    score: Annotated[
        list[str],
        typer.Option(
            "--score", help="Column of P(last label); repeat it for posteriors in label order."
        ),
    ],
) -> None:
    """The best that any post-processing of a score can do, for every violation.

    Example: separatrix limit scores.csv --y income --z sex --score p
    """
    from separatrix.commands import limit_of_file

    with _working(f"Computing the limit of {file}"):
        text = limit_of_file(file, y=y, z=z, score=score)
    typer.echo(text)


@app.command("datasets")
def list_datasets() -> None:
    """The datasets that `trace` and `benchmark` know, whether they are here, and what to put where
    if not.
    """
    from separatrix.commands import dataset_table

    typer.echo(dataset_table())


@app.command("methods")
def list_methods() -> None:
    """The methods, what they take, and where they come from."""
    from separatrix.commands import method_table

    typer.echo(method_table())


def main() -> None:
    """Entry point of the `separatrix` command."""
    try:
        app()
    except SeparatrixError as error:
        typer.echo(f"separatrix: {error}", err=True)
        sys.exit(2)


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A spinner with the elapsed time on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        progress.add_task(what, total=None)
        yield


def _secret(path: Path) -> bytes:
    """What a file holds, without the line break at its end."""
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise InputError(f"The secret {str(path)!r} cannot be read: {error.strerror}.") from error


def _write(path: Path, content: str) -> None:
    """Write a whole file or nothing: to a temporary name beside it, then rename."""
    if not path.parent.is_dir():
        raise InputError(
            f"There is no folder {str(path.parent)!r} to write {path.name!r} into. Create it first."
        )
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
