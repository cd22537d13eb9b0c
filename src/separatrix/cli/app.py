"""The command itself; each command adds itself to it."""

from __future__ import annotations

import typer

from separatrix import __version__

__all__ = ["app"]

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
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and stop.",
        callback=_print_version,
        is_eager=True,
    ),
) -> None:
    """Options of the command itself."""
