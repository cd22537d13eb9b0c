"""The command line: argv only. Exit status 0: success, 2: bad input (one sentence), 1: else."""

from __future__ import annotations

import sys

import typer

from separatrix.cli import audits, benchmarks, deployment, monitoring, traces
from separatrix.cli.app import app
from separatrix.errors import SeparatrixError

__all__ = ["app", "audits", "benchmarks", "deployment", "main", "monitoring", "traces"]


# what Python's arguments are called here
FLAGS = {"`cv`": "--folds", "`folds`": "--folds", "`n_jobs`": "--jobs"}


def main() -> None:
    """Entry point of the `separatrix` command."""
    try:
        sys.exit(app(prog_name="separatrix", standalone_mode=False))
    except typer.Abort:
        sys.exit(1)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        typer.echo(sentence, err=True)
        sys.exit(2)


def _sentence(error: Exception) -> str | None:
    """What was wrong with the input, in one line; None for an error that is not the user's."""
    if isinstance(error, SeparatrixError):
        text = str(error)
        for name, flag in FLAGS.items():
            text = text.replace(name, flag)
        return f"separatrix: {text}"
    # errors of the arguments themselves: click's in older typers, typer's own copy in newer ones
    if not hasattr(error, "format_message"):
        return None
    text, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    path = context.command_path if context is not None else "separatrix"
    return f"separatrix: {text}. See `{path} --help`." if text.strip() else ""
