"""Records: what a sweep found out, one per (dataset, method, inputs, recipe, λ, fold, seed), in one
SQLite file.

A folder of results holds `records.sqlite`:

- table `record`: the question (its hash is the key), the status and the raw answer: the soft and
  the hard table N[y, z, u] of the fold's test rows, AUROC, threshold, training time. What follows
  from the tables (v, u, EO gap, accuracy) is computed when they are read, by `read`.
- table `dataset`: labels, groups and card of every dataset.
- table `curve`: named curves (v, u) of a dataset, such as the limit of post-processing.

Why SQLite: it is in the standard library, a stack of records is one transaction, so a killed
process leaves all of it or nothing, and its locks keep two processes apart. Workers never write:
they send their records to the process that asked.

A record's status is "ok", "diverged" (NaN in training), "error" (its message says which) or
"timeout". The first two are final, the others are tried again by the next run. Fold −1 stands for a
model trained on all rows: it has no test rows, hence no tables, and `read` leaves it out.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.metrics import METRICS, measure
from separatrix.errors import DataError, InputError

__all__ = [
    "ALL_ROWS",
    "FILE",
    "FINAL",
    "POLICIES",
    "Columns",
    "Curve",
    "Record",
    "Store",
    "means",
    "read",
    "select",
    "tidy",
]

Array = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

FILE = "records.sqlite"
POLICIES = ("randomized", "deterministic")
FINAL = ("ok", "diverged")
ALL_ROWS = -1  # the fold of a model that was trained on every row
_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    key TEXT PRIMARY KEY, dataset TEXT NOT NULL, method TEXT NOT NULL, inputs TEXT NOT NULL, recipe TEXT NOT NULL,
    trade_off REAL NOT NULL, fold INTEGER NOT NULL, seed INTEGER NOT NULL, question TEXT NOT NULL,
    status TEXT NOT NULL, message TEXT NOT NULL, shape TEXT NOT NULL, soft BLOB, hard BLOB,
    auroc REAL, threshold REAL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS dataset (name TEXT PRIMARY KEY, about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS curve (
    dataset TEXT NOT NULL, name TEXT NOT NULL, question TEXT NOT NULL, violation BLOB NOT NULL, utility BLOB NOT NULL,
    PRIMARY KEY (dataset, name));
"""


@dataclass(frozen=True, eq=False)
class Record:
    """One trained policy on the test rows of its fold.

    Args:
        question: all that decides the answer (names, hash of the data, split, λ, seed, recipe,
            version), as plain JSON.
        status: "ok", "diverged", "error" or "timeout".
        message: what went wrong.
        soft, hard: tables N[y, z, u] of the randomised and the deterministic policy; None unless
            "ok".
        auroc: of the posterior; the macro average for more than two labels.
        threshold: t* of the deterministic policy; NaN for argmax.
        seconds: training time of its stack, shared out over the stack's lanes.
    """

    question: Mapping[str, Any]
    status: str
    message: str = ""
    soft: Array | None = None
    hard: Array | None = None
    auroc: float = float("nan")
    threshold: float = float("nan")
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """Hash of the question."""
        return key_of(self.question)


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve in the plane that belongs to a dataset rather than to a method."""

    dataset: str
    name: str
    violation: Array
    utility: Array


def key_of(question: Mapping[str, Any]) -> str:
    """Hash of a question: of its JSON with sorted keys.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(
        json.dumps(question, sort_keys=True, ensure_ascii=True).encode()
    ).hexdigest()[:32]


class Store:
    """The records of one folder. Any number of processes may have it open.

    Args:
        folder: where `records.sqlite` is, or will be.
        create: make folder and file; otherwise their absence is an error.
    """

    def __init__(self, folder: str | Path, *, create: bool = True) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        if not create and not self.path.is_file():
            raise DataError(
                f"There are no results in {str(self.folder)!r}: no {FILE}. Pass the folder that "
                "`separatrix trace` or `separatrix benchmark` wrote."
            )
        with self._clear():
            if create:
                self.folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=120.0, isolation_level=None)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise DataError(
                    f"{self.path} has format {version}; this separatrix reads up to {_VERSION}. "
                    f"Update it."
                )
            if create:
                with self._transaction():
                    for statement in _SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {_VERSION}")

    def close(self) -> None:
        """Close the file; what was written stays."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, records: Sequence[Record]) -> None:
        """Write the records of one stack: all of them or none. A final record is never replaced."""
        rows = [_row(record) for record in records]
        sql = (
            f"INSERT INTO record VALUES ({', '.join('?' * 17)}) ON CONFLICT (key) DO UPDATE SET "
            "status = excluded.status, message = excluded.message, shape = excluded.shape, soft = "
            "excluded.soft, "
            "hard = excluded.hard, auroc = excluded.auroc, threshold = excluded.threshold, "
            "seconds = excluded.seconds "
            "WHERE record.status NOT IN ('ok', 'diverged')"
        )
        with self._clear(), self._transaction():
            self._db.executemany(sql, rows)

    def finished(self) -> set[str]:
        """Keys of the questions that need no further run."""
        with self._clear():
            marks = ", ".join("?" * len(FINAL))
            return {
                key
                for (key,) in self._db.execute(
                    f"SELECT key FROM record WHERE status IN ({marks})", FINAL
                )
            }

    def records(self) -> list[Record]:
        """Every record, in an order that does not depend on who finished first."""
        with self._clear():
            rows = self._db.execute(
                "SELECT question, status, message, shape, soft, hard, auroc, threshold, seconds "
                "FROM record "
                "ORDER BY dataset, method, inputs, recipe, trade_off, fold, seed, key"
            ).fetchall()
        return [_record(*row) for row in rows]

    def describe(self, name: str, about: Mapping[str, Any]) -> None:
        """Remember labels, groups and card of a dataset, as plain JSON."""
        with self._clear(), self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO dataset VALUES (?, ?)", (name, json.dumps(about))
            )

    def datasets(self) -> dict[str, dict[str, Any]]:
        """What `describe` was told, by dataset."""
        with self._clear():
            return {
                name: json.loads(about)
                for name, about in self._db.execute("SELECT * FROM dataset ORDER BY name")
            }

    def add_curve(self, curve: Curve, question: str = "") -> None:
        """Write a named curve of a dataset; one of that name is replaced. `question` is the hash of
        what it answers.
        """
        v, u = (np.ascontiguousarray(x, dtype=np.float64) for x in (curve.violation, curve.utility))
        with self._clear(), self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO curve VALUES (?, ?, ?, ?, ?)",
                (curve.dataset, curve.name, question, v.tobytes(), u.tobytes()),
            )

    def curves(self, question: str | None = None) -> list[Curve]:
        """The curves, by dataset and name; those that answer `question` only, if given."""
        where, values = ("", ()) if question is None else ("WHERE question = ? ", (question,))
        with self._clear():
            rows = self._db.execute(
                f"SELECT dataset, name, violation, utility FROM curve {where}ORDER BY dataset, name",
                values,
            ).fetchall()
        return [
            Curve(dataset, name, np.frombuffer(v), np.frombuffer(u)) for dataset, name, v, u in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk may have rolled it back already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """One sentence instead of SQLite's: full disk, no permission, not a database."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = str(error)
            if "full" in reason or getattr(error, "errno", None) == 28:
                raise DataError(
                    f"The disk is full: {str(self.path)!r} could not be written. Nothing that was "
                    f"finished is lost; "
                    "free some space and run the same command again."
                ) from error
            raise DataError(
                f"{str(self.path)!r} cannot be used as a file of records: {reason}."
            ) from error


def read(folder: str | Path) -> Columns:
    """A folder of records as tidy columns: one row per record and policy.

    Returns:
        Columns of equal length: `dataset`, `method`, `inputs` ("xz" or "x"), `recipe`, `trade_off`,
        `fold`, `seed`, `policy` ("randomized", "deterministic"), `violation`, `utility`, `eo_gap`,
        `accuracy`, `auroc`, `threshold`, `train_seconds`, `status`, `message` and `counts`
        (objects: the table N[y, z, u] of this policy, or None). The metrics are NaN unless the
        status is "ok".
    """
    with Store(folder, create=False) as store:
        return tidy(store.records())


def tidy(records: Iterable[Record]) -> Columns:
    """`read` of records at hand."""
    rows = [(r, policy) for r in records if r.question["fold"] != ALL_ROWS for policy in POLICIES]
    asked = ("dataset", "method", "inputs", "recipe", "trade_off", "fold", "seed")
    columns: Columns = {name: np.array([r.question[name] for r, _ in rows]) for name in asked}
    columns["policy"] = np.array([policy for _, policy in rows])
    counts = np.empty(len(rows), dtype=object)
    for i, (record, policy) in enumerate(rows):
        counts[i] = record.soft if policy == "randomized" else record.hard
    columns |= _metrics(counts)
    columns["auroc"] = np.array([r.auroc for r, _ in rows], dtype=np.float64)
    columns["threshold"] = np.array(
        [r.threshold if p == "deterministic" else np.nan for r, p in rows], dtype=np.float64
    )
    columns["train_seconds"] = np.array([r.seconds for r, _ in rows], dtype=np.float64)
    columns["status"] = np.array([r.status for r, _ in rows])
    columns["message"] = np.array([r.message for r, _ in rows], dtype=object)
    columns["counts"] = counts
    return columns


_SERIES = ("dataset", "method", "inputs", "recipe", "policy", "trade_off")


def means(columns: Columns) -> Columns:
    """Mean and standard deviation over folds and seeds: one row per dataset, method, inputs,
    recipe, policy and λ.

    Returns:
        The columns that say what it is; `folds`, how many records the mean is of; for each metric
        its mean under its own name and its standard deviation (n − 1) as `<metric>_sd`. Runs that
        are not "ok" take no part; `lost` counts them.
    """
    keys = list(zip(*(columns[name].tolist() for name in _SERIES), strict=True))
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    out: Columns = {
        name: np.array([key[place] for key in groups], dtype=columns[name].dtype)
        for place, name in enumerate(_SERIES)
    }
    good = [[i for i in rows if columns["status"][i] == "ok"] for rows in groups.values()]
    out["folds"] = np.array([len(rows) for rows in good])
    out["lost"] = np.array([len(rows) for rows in groups.values()]) - out["folds"]
    for metric in METRICS:
        values = [columns[metric][rows] for rows in good]
        out[metric] = np.array([x.mean() if len(x) else np.nan for x in values])
        out[f"{metric}_sd"] = np.array([x.std(ddof=1) if len(x) > 1 else np.nan for x in values])
    return out


def select(columns: Columns, **values: Any) -> Columns:
    """The rows in which each named column has the value, or one of a list of values.

    >>> select({"fold": np.array([0, 1]), "auroc": np.array([0.8, 0.9])}, fold=1)["auroc"]
    array([0.9])
    """
    keep = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for name, value in values.items():
        if name not in columns:
            raise InputError(f"There is no column {name!r}; there are {', '.join(columns)}.")
        keep &= np.isin(columns[name], value)
    return {name: column[keep] for name, column in columns.items()}


def _metrics(counts: NDArray[Any]) -> Columns:
    """The metrics of every table, tables of one shape at a time."""
    out: Columns = {name: np.full(len(counts), np.nan) for name in METRICS}
    shapes: dict[tuple[int, ...], list[int]] = {}
    for i, table in enumerate(counts):
        if table is not None:
            shapes.setdefault(table.shape, []).append(i)
    for rows in shapes.values():
        for name, values in measure(np.stack([counts[i] for i in rows])).items():
            out[name][rows] = values
    return out


def _row(record: Record) -> tuple[Any, ...]:
    q = record.question
    tables = [
        None if t is None else np.ascontiguousarray(t, dtype=np.float64)
        for t in (record.soft, record.hard)
    ]
    shape = () if tables[0] is None else tables[0].shape
    return (
        record.key, q["dataset"], q["method"], q["inputs"], q["recipe"], q["trade_off"], q["fold"], q["seed"],
        json.dumps(q, sort_keys=True), record.status, record.message, json.dumps(shape),
        *(None if t is None else t.tobytes() for t in tables), record.auroc, record.threshold, record.seconds,
    )  # fmt: skip


def _record(
    question: str,
    status: str,
    message: str,
    shape: str,
    soft: bytes | None,
    hard: bytes | None,
    auroc: float | None,
    threshold: float | None,
    seconds: float,
) -> Record:
    a, b = (
        None if blob is None else np.frombuffer(blob).reshape(json.loads(shape))
        for blob in (soft, hard)
    )
    known = [
        float("nan") if x is None else x for x in (auroc, threshold)
    ]  # SQLite keeps NaN as NULL
    return Record(json.loads(question), status, message, a, b, known[0], known[1], seconds)
