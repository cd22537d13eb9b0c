"""The folder of a trace, and its checksums: a changed byte is refused, it changes no number.

`checksums.json` is written when everything else is there and removed before anything is added, so
a folder without it is one that is being written. Pages and figures are not data and are left out.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from separatrix.errors import DataError
from separatrix.io import as_folder, write_whole

__all__ = ["CHECKSUMS", "check_sums", "remove_checksums", "write_checksums", "writing"]

CHECKSUMS = "checksums.json"
_DATA = (".json", ".model", ".safetensors")


@contextmanager
def writing(out: str | Path | None) -> Iterator[Path]:
    """The folder that a trace writes to, with checksums at the end.

    Args:
        out: None for a temporary one, which goes if the trace fails.
    """
    folder = as_folder(tempfile.mkdtemp(prefix="separatrix-") if out is None else out, "out")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
        write_checksums(folder)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def write_checksums(folder: Path) -> None:
    """Write the checksum of every data file in a folder."""
    found = {path.relative_to(folder).as_posix(): _sha256(path) for path in _files(folder)}
    write_whole(folder / CHECKSUMS, json.dumps(found, indent=1))


def remove_checksums(folder: Path) -> None:
    """Before a folder is added to."""
    (folder / CHECKSUMS).unlink(missing_ok=True)


def check_sums(folder: Path) -> None:
    """Refuse a finished folder with a data file that was changed, removed or added."""
    path = folder / CHECKSUMS
    if not path.is_file():
        return
    try:
        known = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}. Trace the data again.") from error
    present = {one.relative_to(folder).as_posix(): one for one in _files(folder)}
    for name in sorted(known.keys() | present.keys()):
        if name not in present or name not in known or _sha256(present[name]) != known[name]:
            done = "removed" if name not in present else "changed" if name in known else "added"
            raise DataError(
                f"{folder / name} was {done} after the trace had finished: its checksum does not "
                "match. Take another copy of the folder, or trace the data again."
            )


def _files(folder: Path) -> Iterator[Path]:
    # a model that was saved inside the folder of its frontier is no part of the frontier
    models = {card.parent for card in folder.rglob("MODEL_CARD.md")}
    for path in sorted(folder.rglob("*")):
        if path.parent in models:
            continue
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _DATA and path.name != CHECKSUMS and not hidden and path.is_file():
            yield path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
