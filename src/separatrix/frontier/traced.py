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
from separatrix.datasets import Grouping, Preprocessing
from separatrix.errors import DataError, InputError
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT, BaseRows, read_bases, read_model
from separatrix.frontier.results import Columns, Results
from separatrix.frontier.store import ALL_ROWS, ReferenceCurve, SavedRun
from separatrix.io import as_folder, as_path, copy_folder, write_whole
from separatrix.procedure.procedures import Procedure, Rows
from separatrix.procedure.promise import Measured, Run

FORMAT = 5
MANIFEST, ROWS = "frontier.json", "rows.safetensors"
CHECKSUMS = "checksums.json"
_DATA = (".json", ".model", ".safetensors")
_OTHER = {  # what a folder holds that cannot be added to
    "task": "the frontier of {task}",
    "fingerprint": "the frontier of other rows ({name!r}, {rows:,} rows)",
    "key": "a frontier of another base model, other folds or another seed ({note} Asked now: {told})",
}


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
            bases = self.manifest["base"]["bases"]
            self._scores[kind] = read_bases(self.folder, self._base_rows(kind), bases)
        return self._scores[kind]

    def base_model(self, kind: str, k: int | None = None) -> Any:
        """The fitted base model that ships: of all rows, or of the outer fold that certifies."""
        return read_model(self.folder, self._base_rows(kind), self.manifest["base"]["bases"], k)

    def _base_rows(self, kind: str) -> BaseRows:
        shape = len(self.manifest["labels"]), len(self.groups)
        codes = self.rows["y"], self.rows["z"], shape, self.rows["fold"]
        return BaseRows(None, *codes, self.manifest["base"]["key"], kind)

    def save(self, folder: str | Path) -> Path:
        """Copy the frontier to a folder that does not exist yet; whole or not at all."""
        return copy_folder(self.folder, as_path(folder, "folder"))

    def __repr__(self) -> str:
        size = f"{self.manifest['rows']:,} rows, {self.manifest['folds']} folds"
        return f"<{type(self).__name__} of {self.name!r}: {size}>"


FolderT = TypeVar("FolderT", bound=Folder)


class Traced(Folder):
    """The folder of a trace of labels."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self._measured: dict[str, Measured] = {}  # solving twice takes twice the time

    @cached_property
    def results(self) -> Results:
        """The records, curves and models."""
        return Results.read(self.folder)

    @property
    def columns(self) -> Columns:
        """The points as arrays: a row per method, inputs, λ, fold and policy; see `tidy`."""
        return self.results.columns

    @property
    def means(self) -> Columns:
        """Fold means and standard deviations, one row per (method, inputs, λ, policy)."""
        return self.results.mean

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels in the order of their codes."""
        return tuple(self.manifest["labels"])

    @cached_property
    def table(self) -> Rows:
        """Labels and groups of every row, for procedures."""
        share = self.manifest["people"] / self.manifest["rows"]
        return Rows(self.rows["y"], self.rows["z"], self.labels, self.groups, share=share)

    @property
    def grouping(self) -> Grouping | None:
        """Finds the group of raw rows by column name, where the groups came from columns."""
        known = self.manifest["grouping"]
        return None if known is None else Grouping.from_dict(known)

    def preprocessing(self, fold: int = ALL_ROWS) -> Preprocessing | None:
        """From raw columns to X, by the training rows of `fold`; None where X was a matrix."""
        known = self.manifest["preprocessing"].get(str(fold))
        return None if known is None else Preprocessing.from_dict(known)

    @property
    def nested(self) -> NestedScores:
        """The base models' honest scores P(y | x, z), for every outer fold and for all rows."""
        return self.scores(LABELS)

    def scores(self, kind: str) -> NestedScores:
        """The honest scores of a kind; see `base_models`.

        A base model of the caller's sees the caller's rows as they are: where these do not hold the
        group, it is the same model with and without.
        """
        if kind == JOINT and not self.blind:
            raise InputError(
                "This frontier was traced with the group only. Trace it again with blind=True "
                "(--blind) for decisions without the group."
            )
        return super().scores(LABELS if kind == WITHOUT and not self.reads_group else kind)

    def measured(self, kind: str, procedure: Procedure) -> Measured:
        """A procedure around the base model, run on every outer fold and on all rows; once."""
        asked = f"{kind} {procedure}"
        if asked not in self._measured:
            self._measured[asked] = Run(procedure, self.scores(kind), self.table).measured()
        return self._measured[asked]

    @property
    def sees_groups(self) -> bool:
        """Whether the base model was given the group beside the features."""
        return bool(self.manifest["base"]["reads"] == "xz")

    @property
    def left_out(self) -> tuple[int, ...]:
        """Places of the columns of the caller's rows that hold the group."""
        return tuple(self.manifest["base"]["left_out"])

    @property
    def reads_group(self) -> bool:
        """Whether the plain model needs the group, beside the features or among them."""
        return self.sees_groups or bool(self.left_out)

    @property
    def impossible(self) -> str:
        """Why there is no model without the columns that hold the group; "" if there is one."""
        return str(self.manifest["base"]["impossible"])

    @property
    def criterion(self) -> str:
        """The criterion whose gap the usual questions are about."""
        return str(self.manifest.get("criterion", "separation"))

    @property
    def blind(self) -> bool:
        """Whether decisions without the group were traced too."""
        return bool(self.manifest["blind"])

    @property
    def limit(self) -> ReferenceCurve | None:
        """The limit of post-processing ERM's held-out posteriors, where it was computed."""
        return self.results.limit(self.name)

    def saved_run(
        self, method: str, trade_off: float, *, inputs: str = "xz", fold: int = ALL_ROWS
    ) -> tuple[SavedRun, int]:
        """The stack that holds a run, and its lane there.

        Args:
            method: "METHOD" or "METHOD:RECIPE"; without a recipe the default one, or the only one.
            trade_off, inputs, fold: of the run.
        """
        name, _, recipe = method.partition(":")
        known = list(dict.fromkeys(s.first.recipe for s in self.results.saved
                                   if s.first.method == name))  # fmt: skip
        recipe = recipe or (known[0] if len(known) == 1 else "default")
        wanted = name, recipe, inputs, fold, trade_off
        for saved in self.results.saved:
            for lane, run in enumerate(saved.runs):
                if (run.method, run.recipe, run.inputs, run.fold, run.trade_off) == wanted:
                    return saved, lane
        raise InputError(
            f"This frontier has no model {method!r} with λ = {trade_off:g}, inputs {inputs!r} and "
            f"fold {fold}. Its points are in `points`."
        )

    def held_out(self, method: str, trade_off: float, *, inputs: str = "xz") -> NDArray[np.float32]:
        """Posteriors (n, K) of every row, in order, by the model that was not trained on it."""
        out = np.full((len(self.rows["y"]), len(self.labels)), np.nan, dtype=np.float32)
        for fold in range(int(self.manifest["folds"])):
            saved, lane = self.saved_run(method, trade_off, inputs=inputs, fold=fold)
            out[self.rows["fold"] == fold] = saved.held_out[lane]
        return out


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


def check_same(folder: Path, told: str = "", **now: Any) -> None:
    """A folder belongs to one task, dataset and base model: points of two would be averaged.

    Args:
        folder: to write to.
        told: of the base model that is asked for.
        now: what the manifest must hold, by name.
    """
    if not (folder / MANIFEST).is_file():
        return
    manifest = read_manifest(folder)
    known = {**manifest["base"], **manifest}
    for name, value in now.items():
        if known[name] != value:
            raise InputError(
                f"{str(folder)!r} holds {_OTHER[name].format(**known, told=told)}. Pass another "
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
