"""Files and folders written whole or not at all, and progress on the standard error.

What is being written has a temporary name beside its target, ``.name.xxxxxxxx.unfinished``, and is
locked. A killed process loses its locks: the next one that writes into that folder removes the
temporary names that are not locked.
"""

from __future__ import annotations

import ctypes
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from separatrix.errors import DataError, InputError

__all__ = ["Stages", "remove_stale", "whole_file", "whole_folder", "working", "write_whole"]

_END = ".unfinished"
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux


def write_whole(path: Path, content: bytes | str, *, parents: bool = True) -> None:
    """Write a whole file or nothing; `parents` makes the folders that it lies in."""
    with whole_file(path, parents=parents) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """A temporary name to write to, which takes the file's place at the end or disappears."""
    with _sentence(path), _beside(path, parents=parents, folder=False) as temporary:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)


@contextmanager
def whole_folder(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """A temporary folder to fill, which takes the place of `path` in one step at the end.

    A kill leaves the old folder or the new one. Where the system cannot exchange two folders it
    takes two steps, and the old one is beside it in between.
    """
    with _sentence(path), _beside(path, parents=parents, folder=True) as temporary:
        yield temporary
        for one in temporary.rglob("*"):
            if one.is_file():
                _flush(one)
        _replace(temporary, path)  # what then has the temporary name, if anything, is the old one


def remove_stale(folder: Path) -> None:
    """Remove what a killed process left in a folder: temporary names that are not locked."""
    for path in folder.glob(f".*{_END}"):
        with suppress(OSError):  # of another user, locked, or gone already
            handle = _lock(path)
            if handle is not None:
                _remove(path)
                os.close(handle)


@contextmanager
def _beside(path: Path, *, parents: bool, folder: bool) -> Iterator[Path]:
    target = path.absolute()
    if parents:
        target.parent.mkdir(parents=True, exist_ok=True)
    elif not target.parent.is_dir():
        raise InputError(
            f"There is no folder {str(path.parent)!r} to write {path.name!r} into. Create it first."
        )
    remove_stale(target.parent)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_END}")
        if folder:
            temporary.mkdir()
        else:
            temporary.open("xb").close()  # not mkstemp: others may read it as usual
        with suppress(OSError):  # removed as stale before it was locked: once more
            handle = _lock(temporary)
            break
    try:
        yield temporary
    finally:
        _remove(temporary)
        if handle is not None:
            os.close(handle)


def _lock(path: Path) -> int | None:
    """Lock what is there until the handle is closed; None where the system has no such locks.

    An OSError says that another process holds it, or that it is gone.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.stat(path)):
            raise FileNotFoundError(path)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _replace(new: Path, target: Path) -> None:
    if not target.exists():
        os.rename(new, target)
        return
    linux = platform.system() == "Linux"
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if linux else None
    both = (_HERE, os.fsencode(new), _HERE, os.fsencode(target), _EXCHANGE)
    if exchange is not None and exchange(*both) == 0:
        return
    old = new.with_name(f"{new.name}.old")
    os.rename(target, old)
    os.rename(new, target)
    shutil.rmtree(old)


@contextmanager
def _sentence(path: Path) -> Iterator[None]:
    """One sentence instead of the system's."""
    try:
        yield
    except OSError as error:
        reason = "The disk is full" if error.errno == 28 else error.strerror or str(error)
        raise DataError(
            f"{str(path)!r} cannot be written: {reason}. What was finished before is not lost."
        ) from error


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with the elapsed time on stderr, if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    console, hidden = Console(stderr=True), not sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        progress.add_task(what, total=None)
        yield


class Stages:
    """What is being done, one stage after the other, on stderr.

    On a terminal a line with a spinner, a count and the time; elsewhere one line per stage, if
    asked for.

    Args:
        show: None: on a terminal only; True: everywhere; False: nowhere.
    """

    def __init__(self, show: bool | None = None) -> None:
        self.live = sys.stderr.isatty() and show is not False
        self.lines = show is True and not self.live

    @contextmanager
    def stage(
        self, what: str, total: int | None = None, *, live: bool = False
    ) -> Iterator[Callable[[], None]]:
        """One stage; call what it gives after each of `total` steps.

        Args:
            what: in words.
            total: number of steps, if it is known.
            live: the stage shows its own progress on a terminal.
        """
        started = time.perf_counter()
        if not self.live or live:
            yield lambda: None
        else:
            from rich import progress as bars
            from rich.console import Console

            text = bars.TextColumn("{task.description}", markup=False)
            count = bars.MofNCompleteColumn() if total else bars.TextColumn("")
            columns = bars.SpinnerColumn(), text, count, bars.TimeElapsedColumn()
            with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
                task = shown.add_task(what, total=total)
                yield lambda: shown.advance(task)
        if self.lines:
            print(f"{what} … {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
