"""The folder of a sweep: its records, and the models of the stacks that keep them.

- `records/`: one JSON file per stack, a list of its records: the run (all that decides the result),
  the status and the raw result on the fold's test rows. What follows from the tables (v, u, EO gap,
  accuracy) is computed when they are read, by `results.tidy`.
- `models/`: one safetensors file per stack that keeps its models. Its header says which runs it
  holds; an array is read when it is asked for, so that choosing a point by name loads no model.
- `datasets/` and `curves/`: labels, groups and card of every dataset, and named curves (v, u) of
  it, such as the limit of post-processing.

Every file is written whole or not at all, so a killed process leaves all of a stack or nothing, and
two processes on one folder do no harm: equal runs have equal numbers. Workers never write: they
send their records to the process that asked.

A record's status is "ok", "diverged" (NaN in training), "error" (its message says which) or
"timeout". The first two are final, the others are tried again by the next run. Fold −1 is a model
trained on all rows: it has no test rows, hence no tables, and `tidy` leaves it out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.errors import DataError
from separatrix.io import remove_stale, write_whole

Array = NDArray[np.float64]
RECORDS, MODELS, DATASETS, CURVES = "records", "models", "datasets", "curves"
FINAL = ("ok", "diverged")
_MODEL, _HELD_OUT = "model.", "held_out"  # names in a file of models
ALL_ROWS = -1  # the fold of a model that was trained on every row
FORMAT = 4  # of records: a change of their fields or of the evaluation raises it


class PointKey(NamedTuple):
    """One point of a frontier, the same in records, tables, promise, selection and card.

    Args:
        method: its file in `methods/`.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the recipe's name with its changes.
        trade_off: λ; of a rule around the base model, its budget.
        policy: "randomized" or "deterministic".
    """

    method: str
    inputs: str
    recipe: str
    trade_off: float
    policy: str

    def asked_by(self, name: str) -> bool:
        """Whether "METHOD" or "METHOD:RECIPE" names it.

        >>> key = PointKey("cmi", "xz", "score", 0.5, "randomized")
        >>> key.asked_by("cmi"), key.asked_by("cmi:score"), key.asked_by("cmi:default")
        (True, True, False)
        """
        return name in (self.method, f"{self.method}:{self.recipe}")


@dataclass(frozen=True)
class RunKey:
    """One trained policy: what it was trained on, how, and by which code.

    Args:
        dataset: the name of the data.
        fingerprint: hash of the rows.
        folds: of the cross-validation.
        method: its file in `methods/`.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the recipe's name with its changes.
        details: the recipe's fields, as plain JSON.
        trade_off: λ.
        fold: the test fold, or `ALL_ROWS`.
        seed: of the folds and the networks.
        source: hash of the code, see `source_hash`.
        format: of the records.
    """

    dataset: str
    fingerprint: str
    folds: int
    method: str
    inputs: str
    recipe: str
    details: Mapping[str, Any]
    trade_off: float
    fold: int
    seed: int
    source: str
    format: int = FORMAT

    @property
    def key(self) -> str:
        """Hash of its JSON."""
        return hash_of(asdict(self))

    @property
    def series(self) -> tuple[str, str, str, str]:
        """The path that it is a point of: (dataset, method, inputs, recipe)."""
        return self.dataset, self.method, self.inputs, self.recipe

    @property
    def protocol(self) -> dict[str, Any]:
        """What all records of one series in one folder share, by the name of the field."""
        shared = ("fingerprint", "folds", "seed", "details", "source", "format")
        return {name: getattr(self, name) for name in shared}


def hash_of(plain: Any) -> str:
    """Hash of plain data: of its JSON with sorted names.

    >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, eq=False)
class Record:
    """One trained policy on the test rows of its fold.

    Args:
        run: all that decides the result.
        status: "ok", "diverged", "error" or "timeout".
        message: what went wrong.
        soft, hard: N[y, z, u] of the randomised and the deterministic policy; None unless "ok".
        auroc: of the posterior; the macro average for more than two labels.
        threshold: t* of the deterministic policy; NaN for argmax.
        seconds: CPU time of its stack's training, shared out over the stack's lanes.
        squares: Σ q_u² of each cell, for the sampling error of `soft`; None where not measured.
        ordered: N[y, z, bin] of the score in 20 quantile bins, for two labels.
        score_gap: the score's largest EO gap over all thresholds, for two labels.
    """

    run: RunKey
    status: str
    message: str = ""
    soft: Array | None = None
    hard: Array | None = None
    auroc: float = float("nan")
    threshold: float = float("nan")
    seconds: float = 0.0
    squares: Array | None = None
    ordered: Array | None = None
    score_gap: float = float("nan")


@dataclass(frozen=True, eq=False)
class ReferenceCurve:
    """A curve in the plane that belongs to a dataset rather than to a method.

    Args:
        dataset, name: what it is of, and what it is.
        violation, utility: its points.
        key: what it was computed from.
    """

    dataset: str
    name: str
    violation: Array
    utility: Array
    key: str = ""


@dataclass(frozen=True, eq=False)
class SavedRun:
    """The models of one stack on disk.

    Args:
        path: its file.
        runs: what it holds, one per lane.
    """

    path: Path
    runs: tuple[RunKey, ...]

    @property
    def first(self) -> RunKey:
        """The run of its first lane; the others differ in λ alone."""
        return self.runs[0]

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The models, as `Fitted.arrays` gave them."""
        with _opened(self.path) as file:
            names = [name for name in file.keys() if name.startswith(_MODEL)]  # noqa: SIM118
            return {name[len(_MODEL) :]: file.get_tensor(name) for name in names}

    @cached_property
    def held_out(self) -> NDArray[np.float32]:
        """Posteriors (M, n, K) of the rows of the test fold, in their order."""
        with _opened(self.path) as file:
            return np.asarray(file.get_tensor(_HELD_OUT))

    def fitted(self) -> methods.Fitted:
        """The models, ready to predict."""
        return methods.get(self.first.method).restore(self.arrays)


class Store:
    """What a sweep wrote into a folder. Any number of processes may read and write it.

    Args:
        folder: where `records/` is, or will be.
        create: a folder without records is made when something is written; otherwise an error.
    """

    def __init__(self, folder: str | Path, *, create: bool = True) -> None:
        self.folder = Path(folder)
        if not create and not (self.folder / RECORDS).is_dir():
            raise DataError(
                f"There are no results in {str(self.folder)!r}: no folder {RECORDS!r}. Pass the "
                "folder that `separatrix trace` or `separatrix benchmark` wrote."
            )

    def remove_stale(self) -> None:
        """Remove what a killed process left half-written."""
        for name in (RECORDS, MODELS, DATASETS, CURVES):
            remove_stale(self.folder / name)

    def add(self, records: Sequence[Record]) -> None:
        """Write the records of one stack: all of them or none. A final record is never replaced."""
        if not records:
            return
        keys = [record.run.key for record in records]
        path = self.folder / RECORDS / f"{hash_of(keys)}.json"
        known = {record.run.key: record for record in _records(path)} if path.is_file() else {}
        final = {key: record for key, record in known.items() if record.status in FINAL}
        chosen = [final.get(key, record) for key, record in zip(keys, records, strict=True)]
        write_whole(path, json.dumps([_plain_fields(record) for record in chosen], allow_nan=False))

    def records(self) -> list[Record]:
        """Every record, in an order that does not depend on who finished first."""
        newest: dict[str, Record] = {}
        for path in sorted((self.folder / RECORDS).glob("*.json")):
            for record in _records(path):
                known = newest.get(record.run.key)
                if known is None or known.status not in FINAL:
                    newest[record.run.key] = record
        return sorted(newest.values(), key=lambda record: _order(record.run))

    def describe(self, name: str, about: Mapping[str, Any]) -> None:
        """Remember labels, groups and card of a dataset, as plain JSON."""
        self._put(DATASETS, name, {"name": name, "about": about})

    def datasets(self) -> dict[str, dict[str, Any]]:
        """What `describe` was told, by dataset."""
        about = {plain["name"]: plain["about"] for plain in self._all(DATASETS)}
        return dict(sorted(about.items()))

    def add_curve(self, curve: ReferenceCurve) -> None:
        """Write or replace a dataset's named curve."""
        self._put(CURVES, [curve.dataset, curve.name], _plain_fields(curve))

    def curves(self) -> list[ReferenceCurve]:
        """The curves, by dataset and name."""
        curves = [ReferenceCurve(**_from_plain(plain)) for plain in self._all(CURVES)]
        return sorted(curves, key=lambda curve: (curve.dataset, curve.name))

    def has_models(self, runs: Sequence[RunKey]) -> bool:
        """Whether the models of a stack are there."""
        return self._models(runs).is_file()

    def add_models(
        self, runs: Sequence[RunKey], arrays: Mapping[str, NDArray[Any]], held_out: NDArray[np.float32]
    ) -> None:
        """Write the models of one stack and the posteriors of its test rows."""
        from safetensors.numpy import save

        # safetensors writes the memory as it lies: a transposed array would come back scrambled
        tensors = {f"{_MODEL}{name}": np.asarray(array, order="C") for name, array in arrays.items()}
        tensors[_HELD_OUT] = np.asarray(held_out, dtype=np.float32, order="C")
        header = {"runs": json.dumps([asdict(run) for run in runs])}
        write_whole(self._models(runs), save(tensors, header))

    def saved_runs(self) -> list[SavedRun]:
        """Every stack whose models were kept, by dataset, method, inputs, recipe, fold and seed."""
        saved = []
        for path in sorted((self.folder / MODELS).glob("*.safetensors")):
            with _opened(path) as file:
                runs = json.loads((file.metadata() or {})["runs"])
                saved.append(SavedRun(path, tuple(RunKey(**run) for run in runs)))
        return sorted(saved, key=lambda saved: _order(saved.first))

    def _models(self, runs: Sequence[RunKey]) -> Path:
        return self.folder / MODELS / f"{hash_of([run.key for run in runs])}.safetensors"

    def _put(self, kind: str, name: Any, plain: Any) -> None:
        write_whole(self.folder / kind / f"{hash_of(name)}.json", json.dumps(plain))

    def _all(self, kind: str) -> Iterator[Any]:
        for path in sorted((self.folder / kind).glob("*.json")):
            yield _read(path)


def _plain_fields(record: Any) -> dict[str, Any]:
    """The fields of a record or a curve for JSON: arrays as lists, NaN as None."""
    plain = asdict(record)
    for name, value in plain.items():
        if isinstance(value, np.ndarray):
            plain[name] = value.tolist()
        elif isinstance(value, float) and np.isnan(value):
            plain[name] = None
    return plain


def _from_plain(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse; what is None has its default."""
    given = {name: x for name, x in plain.items() if x is not None}
    return {name: np.array(x) if isinstance(x, list) else x for name, x in given.items()}


def _order(run: RunKey) -> tuple[Any, ...]:
    return run.series, run.trade_off, run.fold, run.seed


def _records(path: Path) -> list[Record]:
    """The records of one stack."""
    plain = _read(path)
    try:
        formats = {record["run"]["format"] for record in plain}
        if formats <= {FORMAT}:
            return [Record(**_from_plain(record) | {"run": RunKey(**record["run"])}) for record in plain]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error!r}. Remove it and run again.") from error
    raise DataError(
        f"{path} has format {max(formats - {FORMAT})}; this separatrix reads {FORMAT}. Run the "
        "same command again with another folder."
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}. Remove it and run again.") from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{path} is not a file of models as `trace` writes it: {error}.") from error
