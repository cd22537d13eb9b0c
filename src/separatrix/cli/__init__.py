"""The command line: argv only. Exit status 0: success, 2: bad input (one sentence), 1: else."""

from __future__ import annotations

import sys
from typing import cast

import typer
from typer.core import TyperGroup

from separatrix.cli import audits, benchmarks, deployment, traces
from separatrix.cli.app import app
from separatrix.errors import SeparatrixError

__all__ = ["app", "audits", "benchmarks", "deployment", "main", "traces"]


# what Python's arguments are called here, where it is not their own name
FLAGS = {
    "sensitive": ("sensitive_features",), "folds": ("cv",), "jobs": ("n_jobs",),
    "seed": ("random_state",), "weight": ("sample_weight",), "unit": ("groups",),
    "salt_file": ("salt",),
}  # fmt: skip


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
        return f"separatrix: {_with_flags(str(error), sys.argv[1:])}"
    # errors of the arguments themselves: click's in older typers, typer's own copy in newer ones
    if not hasattr(error, "format_message"):
        return None
    text, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    path = context.command_path if context is not None else "separatrix"
    return f"separatrix: {text}. See `{path} --help`." if text.strip() else ""


def _with_flags(text: str, arguments: list[str]) -> str:
    """A sentence that names Python's arguments, with the options of the command instead."""
    commands = cast(TyperGroup, typer.main.get_command(app)).commands
    named = next((commands[word] for word in arguments if word in commands), None)
    for option in () if named is None else named.params:
        if option.opts[0].startswith("--"):
            for name in (str(option.name), *FLAGS.get(str(option.name), ())):
                text = text.replace(f"`{name}`", option.opts[0])
    return text.replace('give missing its own level: `column.fillna("missing")`', 'write "missing" into those fields')
