"""The command itself, and what all commands share: answers, JSON, standard input, silence."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from separatrix import __version__
from separatrix.errors import InputError
from separatrix.io import LOG


class _InOrder(TyperGroup):
    """The commands in the order in which people need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        first = ["audit", "trace", "select", "predict", "report", "limit", "monitor", "replay"]
        return sorted(self.commands, key=lambda name: (*first, name).index(name))


app = typer.Typer(
    name="separatrix",
    cls=_InOrder,
    help="What a prediction says about a person's group beyond the true outcome, and what removing it costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
JSON = Option(False, "--json", help="Print JSON instead of text.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = Option(
        False, "--version", help="Print the version and stop.", callback=_print_version, is_eager=True
    ),
    quiet: bool = Option(False, "--quiet", "-q", help="Print nothing but errors."),
) -> None:
    """Options of the command itself."""
    LOG.setLevel(logging.ERROR if quiet else logging.NOTSET)


def say(text: str, *, err: bool = False) -> None:
    """Print a line, unless quiet."""
    if LOG.isEnabledFor(logging.WARNING):
        typer.echo(text, err=err)


def answer(text: str, values: Mapping[str, Any] | Sequence[Any], as_json: bool) -> None:
    """Print what a command found: as text or as JSON, where what is not finite is null."""
    from separatrix.columns.groups import to_plain

    say(json.dumps(to_plain(values), ensure_ascii=False, indent=2) if as_json else text)


@contextmanager
def readable(file: str) -> Iterator[str]:
    """The name of a file to read; `-` is the standard input, CSV or Parquet, kept for a while."""
    if file != "-":
        yield file
        return
    content = sys.stdin.buffer.read()
    if not content:
        raise InputError("The standard input is empty: pipe a CSV or Parquet file into `-`.")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / ("stdin.parquet" if content[:4] == b"PAR1" else "stdin.csv")
        place.write_bytes(content)
        yield str(place)
