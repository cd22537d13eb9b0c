"""What the system does for us: whole files and folders, several processes, progress on stderr.

What is being written has a temporary name beside its target, ``.name.xxxxxxxx.unfinished``, and is
locked. A killed process loses its locks: the next one that writes into that folder removes the
temporary names that are not locked.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
import secrets
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from separatrix.errors import DataError, InputError, SeparatrixError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

_END = ".unfinished"
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux
_TRIES, _PAUSE = 1_000, 0.005  # of a reader whose folder is exchanged while it reads
T = TypeVar("T")

# At INFO it tells what is being done; at ERROR (`separatrix --quiet`) bars are hidden, too.
LOG = logging.getLogger("separatrix")


def as_path(place: str | Path, name: str) -> Path:
    """The path that a caller named.

    >>> as_path("model", "folder").name
    'model'
    """
    if not isinstance(place, str | os.PathLike) or "\0" in os.fspath(place):
        raise InputError(f"`{name}` must be a path, as text or a Path, got {place!r}.")
    return Path(place)


def as_folder(place: str | Path, name: str) -> Path:
    """The folder that a caller named to write to: a new one, or one that is there."""
    path = as_path(place, name)
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"`{name}` must be a folder, and {str(there)!r} is a file. Pass another.")
    return path


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
def appending(path: Path) -> Iterator[BinaryIO]:
    """A file to add to at its end; other processes that add to it wait for their turn."""
    with _sentence(path), path.open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0, os.SEEK_END)
        yield file
        file.flush()


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Read a file, change it and write it again while others that do so in its folder wait."""
    folder = _folder_of(path)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def whole_folder(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """A temporary folder to fill, which takes the place of `path` in one step at the end.

    A kill leaves the old folder or the new one. Where the system cannot exchange two folders it
    takes two steps, and the old one is beside it in between.
    """
    with _sentence(path), _beside(path, parents=parents, folder=True) as temporary:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        _replace(temporary, path)  # what then has the temporary name, if anything, is the old one


def copy_folder(folder: Path, place: Path) -> Path:
    """Copy a folder to one that does not exist yet, or is empty; whole or not at all."""
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{str(place)!r} exists already. Pass a folder that does not exist, or is empty.")
    with whole_folder(place, parents=True) as half:
        shutil.copytree(folder, half, dirs_exist_ok=True)
    return place


def remove_stale(folder: Path) -> None:
    """Remove what a killed process left in a folder: temporary names that are not locked."""
    for path in folder.glob(f".*{_END}"):
        with suppress(OSError):  # of another user, locked, or gone already
            handle = _lock(path)
            if handle is not None:
                _remove(path)
                os.close(handle)


class OpenFolder:
    """A folder that is being read; `is_current` tells whether another one took its name meanwhile.

    Args:
        path: its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = _identity(path)
        self.names = sorted(name for name in os.listdir(path) if not name.startswith("."))

    def is_current(self) -> bool:
        """Whether the name still stands for this folder."""
        try:
            return self._identity == _identity(self.path)
        except FileNotFoundError:
            return False

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a plain file, at most this many; links, pipes and the like are refused."""
        place = self.path / name
        flags = (getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        try:
            if place.is_symlink():  # where the system has no O_NOFOLLOW
                raise OSError(errno.ELOOP, "a link")
            handle = os.open(place, os.O_RDONLY | sum(flags))
        except FileNotFoundError as error:
            raise DataError(f"{place} is missing. Load another copy of the model.") from error
        except OSError as error:
            why = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
            raise DataError(f"{place} cannot be read: {why}. Put a plain file there.") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise DataError(f"{place} cannot be read: it is not a plain file.")
        with os.fdopen(handle, "rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise DataError(f"{place} was changed: it has more than {most:,} bytes.")
        return content


def _identity(folder: Path) -> tuple[int, int, int]:
    """Of a folder, whatever its name; the number of a removed one may be given again."""
    about = folder.stat()
    return about.st_dev, about.st_ino, about.st_mtime_ns


def read_whole(path: Path, read: Callable[[OpenFolder], T]) -> T:
    """What `read` makes of a folder, begun again where a writer exchanged it in the middle."""
    for left in reversed(range(_TRIES)):
        try:
            folder = OpenFolder(path)
        except FileNotFoundError as error:
            # in between the two steps of a system that cannot exchange two folders
            if left and any(path.absolute().parent.glob(f".{path.name}.*{_END}*")):
                time.sleep(_PAUSE)
                continue
            wrote = "Pass one that `save` or `separatrix select` wrote."
            raise DataError(f"There is no folder {str(path)!r}. {wrote}") from error
        except OSError as error:
            raise DataError(f"{str(path)!r} is no folder: {error.strerror}.") from error
        try:
            return read(folder)
        except DataError:
            if not left or folder.is_current():
                raise
    raise AssertionError("unreachable: the last try returns or raises")


@contextmanager
def _beside(path: Path, *, parents: bool, folder: bool) -> Iterator[Path]:
    target = path.absolute()
    if parents:
        target.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(_folder_of(path))
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_END}")
        if folder:
            temporary.mkdir()
        else:
            temporary.touch(exist_ok=False)  # not mkstemp: others may read it as usual
        with suppress(OSError):  # removed as stale before it was locked: once more
            handle = _lock(temporary)
            break
    try:
        yield temporary
    finally:
        _remove(temporary)
        if handle is not None:
            os.close(handle)


def _folder_of(path: Path) -> Path:
    """The folder that a file is to be written into."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into. Create it first.")
    return folder


def _lock(path: Path) -> int | None:
    """Lock what is there until the handle is closed; None where the system has no such locks.

    An OSError says that another process holds it, or that it is gone.
    """
    if fcntl is None:
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
    if path.is_dir() and not path.is_symlink():  # a link goes, what it points to stays
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
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if platform.system() == "Linux" else None
    if exchange and exchange(_HERE, os.fsencode(new), _HERE, os.fsencode(target), _EXCHANGE) == 0:
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
        reason = "The disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        if isinstance(error, shutil.Error):  # a list of files, each with its reason
            reason = str(error.args[0][0][-1]).partition("] ")[2].partition(":")[0] or reason
        raise DataError(f"{str(path)!r} cannot be written: {reason}. What was finished before is not lost.") from error


def interactive() -> bool:
    """Whether somebody watches: a terminal, or a notebook that can show bars; not if quiet."""
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    return LOG.isEnabledFor(logging.WARNING) and (notebook or sys.stderr.isatty())


def working(what: str) -> AbstractContextManager[Callable[[], None]]:
    """A spinner with the elapsed time on stderr, if somebody watches."""
    return Stages().stage(what)


class Stages:
    """What is being done, one stage after the other, on stderr.

    On a terminal a line with a spinner, a count and the time; elsewhere one line per stage, if
    asked for.

    Args:
        show: None: on a terminal only; True: everywhere; False: nowhere.
    """

    def __init__(self, show: bool | None = None) -> None:
        self.live = interactive() and show is not False
        self.lines = show is True and not self.live and LOG.isEnabledFor(logging.WARNING)

    @contextmanager
    def stage(self, what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
        """One stage; call what it gives after each of `total` steps.

        Args:
            what: in words.
            total: number of steps, if it is known.
        """
        started = time.perf_counter()
        LOG.info("%s", what)
        if not self.live:
            yield lambda: None
        else:
            from rich import progress as bars
            from rich.console import Console

            text = bars.TextColumn("{task.description}", markup=False)
            count = (bars.MofNCompleteColumn(), bars.TimeRemainingColumn()) if total else ()
            columns = bars.SpinnerColumn(), text, bars.TimeElapsedColumn(), *count
            with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
                task = shown.add_task(what, total=total)
                yield lambda: shown.advance(task)
        if self.lines:
            print(f"{what} … {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


@contextmanager
def in_processes(calls: Iterable[Any], n_jobs: int, *, in_order: bool = True) -> Iterator[Iterator[Any]]:
    """The answers of joblib's `delayed` calls as they come; each process has one thread.

    Where the system ended a process, most often for want of memory, one sentence says so. An error
    meanwhile stops the others without a warning of joblib.

    Args:
        calls: what to do.
        n_jobs: processes; 1 for this one, -1 for all cores.
        in_order: answers come in the order of the calls.
    """
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel, parallel_config

    order = "generator" if in_order else "generator_unordered"
    with parallel_config("loky", inner_max_num_threads=1):
        answers = Parallel(n_jobs=n_jobs, return_as=order, batch_size=1)(calls)
        try:
            yield answers
        except BrokenProcessPool as error:  # loky's own is a kind of it
            what = "The system ended a worker process, most often because memory ran out"
            resume = "What was written is kept: run again to resume, with fewer processes (`n_jobs`, --jobs)"
            raise SeparatrixError(f"{what}. {resume}.") from error
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=r"\d+ tasks which were still")
                answers.close()
