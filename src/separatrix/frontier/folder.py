"""The folder of one trace, with its rows, its preprocessing, its models and its checksums.

Beside the fits in `base/` it holds `frontier.json` (names, preprocessing, base models; of numbers
also the points) and `rows.safetensors` (outcome, group and fold of every row); of labels also the
records, the models of trained paths and the answers. `checksums.json` is written when
everything else is there and removed before anything is added, so a folder without it is one that is
being written: a changed byte is refused, it changes no number. Pages and figures are no data.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import from_plain
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.errors import DataError, InputError
from separatrix.frontier.base_models import BaseRows
from separatrix.io import as_folder, as_path, copy_folder, write_whole

FORMAT = 5
MANIFEST, ROWS = "frontier.json", "rows.safetensors"
CHECKSUMS = "checksums.json"
_DATA = (".json", ".model", ".safetensors")
_OTHER = {  # what a folder holds that cannot be added to
    "task": "the frontier of {task}",
    "fingerprint": "the frontier of other rows ({name!r}, {rows:,} rows)",
    "key": "a frontier of another base model, other folds or another seed ({note} Asked now: {told})",
}


T = TypeVar("T")


class Folder:
    """The folder of one trace, of labels or of numbers: its manifest, rows and base models.

    Args:
        folder: that `trace` wrote.
    """

    task = "labels"

    def __init__(self, folder: str | Path) -> None:
        self.folder = as_path(folder, "folder")
        self.manifest = read_manifest(self.folder)
        if self.manifest["task"] != self.task:
            raise InputError(
                f"{str(folder)!r} holds the frontier of {self.manifest['task']}, not of "
                f"{self.task}: open it with `Frontier.load`."
            )
        self._scores: dict[str, NestedScores] = {}

    @property
    def name(self) -> str:
        """What the data are called."""
        return str(self.manifest["name"])

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The groups in the order of their codes."""
        return tuple(map(from_plain, self.manifest["groups"]))

    @cached_property
    def rows(self) -> dict[str, NDArray[Any]]:
        """`y`, `z` (codes, or numbers) and `fold` of every row."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(self.folder / ROWS))
        except (OSError, SafetensorError) as error:
            raise DataError(f"{self.folder / ROWS} is damaged: {error}.") from error

    def scores(self, kind: str) -> NestedScores:
        """The base models' honest scores of a kind; see `base_models`."""
        if kind not in self._scores:
            self._scores[kind] = self.base(kind).read()
        return self._scores[kind]

    def base(self, kind: str) -> BaseRows:
        """The fits of a kind, to be read."""
        shape, base = (len(self.manifest["labels"]), len(self.groups)), self.manifest["base"]
        codes = self.rows["y"], self.rows["z"], shape, self.rows["fold"]
        return BaseRows(self.folder, None, *codes, base["key"], base["bases"], kind)

    def ended(self, answers: T | None) -> T:
        """The answers; one sentence where there are none yet."""
        if not answers:
            raise DataError(
                f"{str(self.folder)!r} has no answers: its trace did not end. Trace the data again with the same "
                "folder."
            )
        return answers

    def save(self, folder: str | Path) -> Path:
        """Copy the frontier to a folder that does not exist yet; whole or not at all."""
        return copy_folder(self.folder, as_path(folder, "folder"))

    def __repr__(self) -> str:
        size = f"{self.manifest['rows']:,} rows, {self.manifest['folds']} folds"
        return f"<{type(self).__name__} of {self.name!r}: {size}>"


FolderT = TypeVar("FolderT", bound=Folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `write_manifest` wrote; one sentence if absent, damaged or of another format."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"There is no frontier in {str(folder)!r}: no {MANIFEST}. Pass the folder of `separatrix trace`."
        )
    check_sums(folder)
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    if version != FORMAT:
        raise DataError(f"{path} has format {version!r}; this separatrix reads {FORMAT}. Trace the data again.")
    return dict(manifest)


def write_manifest(folder: Path, rows: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write what is the same for all points: rows, names, preprocessing, base models.

    Args:
        folder: of the trace.
        rows: `y`, `z` and `fold` of each.
        about: `task`, `name`, `labels`, `groups`, `seed`, `fingerprint` of the rows, `notes` (what
            the user was told) and `base`: `bases` (the base model of each outer fold, and of all
            rows), `key` (hash of what they are fitted to), `note` (how they were chosen); and more
            that each task needs.
    """
    from safetensors.numpy import save

    fold = rows["fold"]
    manifest = {"format": FORMAT, "rows": len(fold), "folds": int(fold.max()) + 1, **about}
    write_whole(folder / ROWS, save({name: np.ascontiguousarray(v) for name, v in rows.items()}))
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1))


def check_same(folder: Path, reason: str = "", **now: Any) -> None:
    """A folder belongs to one task, dataset and base model: points of two would be averaged.

    Args:
        folder: to write to.
        reason: of the base model that is asked for.
        now: what the manifest must hold, by name.
    """
    if not (folder / MANIFEST).is_file():
        return
    manifest = read_manifest(folder)
    known = {**manifest["base"], **manifest}
    for name, value in now.items():
        if known[name] != value:
            raise InputError(
                f"{str(folder)!r} holds {_OTHER[name].format(**known, told=reason)}. Pass another "
                "folder, or remove that one."
            )


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


def kept_with(frontier: FolderT, out: str | Path | None) -> FolderT:
    """The frontier; a temporary folder lives as long as it."""
    if out is None:
        weakref.finalize(frontier, shutil.rmtree, frontier.folder, ignore_errors=True)
    return frontier


def write_checksums(folder: Path) -> None:
    """Write the checksum of every data file in a folder."""
    write_whole(folder / CHECKSUMS, json.dumps(_checksums(folder), indent=1))


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
    present = _checksums(folder)
    for name in sorted(known.keys() | present.keys()):
        if present.get(name) != known.get(name):
            done = "removed" if name not in present else "changed" if name in known else "added"
            raise DataError(
                f"{folder / name} was {done} after the trace had finished: its checksum does not match. Take another "
                "copy of the folder, or trace the data again."
            )


def _checksums(folder: Path) -> dict[str, str]:
    """Of every data file, by its name within the folder."""
    # a model that was saved inside the folder of its frontier is no part of the frontier
    models = {card.parent for card in folder.rglob("MODEL_CARD.md")}
    sums = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(name_part.startswith(".") for name_part in name.parts)
        if path.suffix not in _DATA or path.name == CHECKSUMS or hidden or path.parent in models or not path.is_file():
            continue
        with path.open("rb") as file:
            sums[name.as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums
