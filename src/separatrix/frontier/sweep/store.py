"""Records: one per (dataset, method, inputs, recipe, λ, fold, seed), in one SQLite file.

A folder of results holds `records.sqlite`:

- table `record`: the run (its hash is the key), the status and the raw result on the fold's test
  rows: the soft and the hard table N[y, z, u], the squares behind the soft one's error, the score's
  table in bins, its largest EO gap and AUROC, the threshold, the CPU time of training. What follows
  from the tables (v, u, EO gap, accuracy) is computed when they are read, by `tidy`.
- table `dataset`: labels, groups and card of every dataset.
- table `curve`: named curves (v, u) of a dataset, such as the limit of post-processing.

Why SQLite: it is in the standard library, a stack of records is one transaction, so a killed
process leaves all of it or nothing, and its locks keep two processes apart. Workers never write:
they send their records to the process that asked.

A record's status is "ok", "diverged" (NaN in training), "error" (its message says which) or
"timeout". The first two are final, the others are tried again by the next run. Fold −1 is a model
trained on all rows: it has no test rows, hence no tables, and `tidy` leaves it out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.ordered import BINS
from separatrix.errors import DataError
from separatrix.frontier.sweep.keys import RunKey

__all__ = ["FILE", "FINAL", "Record", "ReferenceCurve", "Store"]

Array = NDArray[np.float64]

FILE = "records.sqlite"
FINAL = ("ok", "diverged")  # its repr is also how SQL writes such a list
_VERSION = 3
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    key TEXT PRIMARY KEY, dataset TEXT NOT NULL, method TEXT NOT NULL, inputs TEXT NOT NULL,
    recipe TEXT NOT NULL, trade_off REAL NOT NULL, fold INTEGER NOT NULL,
    seed INTEGER NOT NULL, run TEXT NOT NULL,
    status TEXT NOT NULL, message TEXT NOT NULL, shape TEXT NOT NULL, soft BLOB, hard BLOB,
    squares BLOB, ordered BLOB, auroc REAL, score_gap REAL, threshold REAL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS dataset (name TEXT PRIMARY KEY, about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS curve (
    dataset TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
    violation BLOB NOT NULL, utility BLOB NOT NULL,
    PRIMARY KEY (dataset, name));
"""
_FOUND = (
    "status", "message", "shape", "soft", "hard", "squares", "ordered", "auroc", "score_gap",
    "threshold", "seconds",
)  # fmt: skip


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
    """A curve in the plane that belongs to a dataset rather than to a method."""

    dataset: str
    name: str
    violation: Array
    utility: Array


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
            if version not in (0, _VERSION):  # a new file has 0
                raise DataError(
                    f"{self.path} has format {version}; this separatrix reads {_VERSION}. Run the "
                    "same command again with another folder."
                )
            if version == 0 and create:  # opening a finished file must not change a byte of it
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
            f"INSERT INTO record VALUES ({', '.join('?' * 20)}) ON CONFLICT (key) DO UPDATE SET "
            f"{', '.join(f'{name} = excluded.{name}' for name in _FOUND)} "
            f"WHERE record.status NOT IN {FINAL}"
        )
        with self._clear(), self._transaction():
            self._db.executemany(sql, rows)

    def finished(self) -> set[str]:
        """Keys of the runs that need not run again."""
        with self._clear():
            found = self._db.execute(f"SELECT key FROM record WHERE status IN {FINAL}")
            return {key for (key,) in found}

    def records(self) -> list[Record]:
        """Every record, in an order that does not depend on who finished first."""
        with self._clear():
            rows = self._db.execute(
                f"SELECT run, {', '.join(_FOUND)} FROM record "
                "ORDER BY dataset, method, inputs, recipe, trade_off, fold, seed, key"
            ).fetchall()
        return [_record(*row) for row in rows]

    def describe(self, name: str, about: Mapping[str, Any]) -> None:
        """Remember labels, groups and card of a dataset, as plain JSON."""
        values = name, json.dumps(about)
        with self._clear(), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO dataset VALUES (?, ?)", values)

    def datasets(self) -> dict[str, dict[str, Any]]:
        """What `describe` was told, by dataset."""
        with self._clear():
            rows = self._db.execute("SELECT * FROM dataset ORDER BY name")
            return {name: json.loads(about) for name, about in rows}

    def add_curve(self, curve: ReferenceCurve, key: str = "") -> None:
        """Write or replace a dataset's named curve; `key` says what it was computed from."""
        v, u = (np.ascontiguousarray(x, dtype=np.float64) for x in (curve.violation, curve.utility))
        values = curve.dataset, curve.name, key, v.tobytes(), u.tobytes()
        with self._clear(), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO curve VALUES (?, ?, ?, ?, ?)", values)

    def curves(self, key: str | None = None) -> list[ReferenceCurve]:
        """The curves, by dataset and name; those with this key only, if given."""
        where, values = ("", ()) if key is None else ("WHERE key = ? ", (key,))
        sql = f"SELECT dataset, name, violation, utility FROM curve {where}ORDER BY dataset, name"
        with self._clear():
            rows = self._db.execute(sql, values).fetchall()
        return [ReferenceCurve(row[0], row[1], *map(np.frombuffer, row[2:])) for row in rows]

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
                    "finished is lost; free some space and run the same command again."
                ) from error
            raise DataError(
                f"{str(self.path)!r} cannot be used as a file of records: {reason}."
            ) from error


def _row(record: Record) -> tuple[Any, ...]:
    run = record.run
    shape = () if record.soft is None else record.soft.shape
    blobs = (
        None if table is None else np.ascontiguousarray(table, dtype=np.float64).tobytes()
        for table in (record.soft, record.hard, record.squares, record.ordered)
    )
    return (
        *(run.key, *run.series, run.trade_off, run.fold, run.seed, run.to_json()),
        *(record.status, record.message, json.dumps(shape), *blobs),
        *(record.auroc, record.score_gap, record.threshold, record.seconds),
    )


def _record(
    run: str, status: str, message: str, shape: str, soft: bytes | None, hard: bytes | None,
    squares: bytes | None, ordered: bytes | None, auroc: float | None, score_gap: float | None,
    threshold: float | None, seconds: float,
) -> Record:  # fmt: skip
    size = json.loads(shape)
    a, b, c = (
        None if blob is None else np.frombuffer(blob).reshape(size)
        for blob in (soft, hard, squares)
    )
    d = None if ordered is None else np.frombuffer(ordered).reshape(*size[:2], BINS)
    # SQLite keeps NaN as NULL
    area, gap, cut = (float("nan") if x is None else x for x in (auroc, score_gap, threshold))
    return Record(RunKey.from_json(run), status, message, a, b, area, cut, seconds, c, d, gap)
