"""The command line: argv only. Exit status 0: success, 2: bad input (one sentence), 1: else."""

from __future__ import annotations

import sys

import typer

from separatrix.cli import audits, benchmarks, deployment, monitoring, traces
from separatrix.cli.app import app
from separatrix.errors import SeparatrixError

__all__ = ["app", "audits", "benchmarks", "deployment", "main", "monitoring", "traces"]


def main() -> None:
    """Entry point of the `separatrix` command."""
    try:
        app()
    except SeparatrixError as error:
        typer.echo(f"separatrix: {error}", err=True)
        sys.exit(2)
