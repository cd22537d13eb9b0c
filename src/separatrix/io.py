"""Files written whole or not at all, and progress on the standard error."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from separatrix.errors import DataError

__all__ = ["working", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: to a temporary name beside it, then rename."""
    name = path.with_name(
        f".{path.name}.{secrets.token_hex(4)}"
    )  # opened, not mkstemp: others may read it as usual
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with name.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        if name.is_file():  # nothing was opened where the folder itself could not be made
            name.unlink()
        reason = "The disk is full" if error.errno == 28 else error.strerror
        raise DataError(
            f"{str(path)!r} cannot be written: {reason}. What was finished before is not lost."
        ) from error


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with the elapsed time on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        progress.add_task(what, total=None)
        yield
