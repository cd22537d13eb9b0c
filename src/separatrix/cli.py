"""The command line. Exit status 0 on success, 2 on bad input with one sentence on stderr, 1 on anything else."""

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
    help="What a prediction says about a person's group beyond the true outcome, and what removing it costs.",
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
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def audit(
    file: Annotated[str, typer.Argument(help="CSV or Parquet file, or a quoted pattern such as 'part-*.parquet'.")],
    y: Annotated[str, typer.Option("--y", help="Column of true labels.")],
    z: Annotated[list[str], typer.Option("--z", help="Column of groups; repeat it for the intersection of several.")],
    pred: Annotated[
        list[str],
        typer.Option(
            "--pred",
            help="Column of predictions: labels, or P(last label) as a float; repeat it for posteriors in label order.",
        ),
    ],
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the interval and the certified bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the Monte Carlo test.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page that opens offline.")] = None,
) -> None:
    """How far from separation are these predictions, and how sure are we?

    Example: separatrix audit predictions.csv --y income --z sex --z race --pred score
    """
    from separatrix.auditing import audit_files

    with _working(f"Counting {file}"):
        result = audit_files(
            file,
            y=y,
            z=z,
            pred=pred[0] if len(pred) == 1 else pred,
            weight=weight,
            confidence=confidence,
            random_state=seed,
        )
    if html is not None:
        from separatrix.auditing.view import html as render

        _write(html, render(result, page=True))
    typer.echo(result.to_json() if json else str(result))


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
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        progress.add_task(what, total=None)
        yield


def _write(path: Path, content: str) -> None:
    """Write a whole file or nothing: to a temporary name beside it, then rename."""
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into. Create it first.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
