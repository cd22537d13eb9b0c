"""Predictions for a file of any size in constant memory, by blocks of rows."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.draws import uniforms
from separatrix.columns.readers import read_blocks
from separatrix.columns.values import Coded, encode, one_column
from separatrix.deploy.predictor import Predictor
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.io import whole_file

__all__ = ["predict_file"]

_ROWS = 50_000  # at a time
Block = Mapping[str, Any]


def predict_file(
    predictor: Predictor,
    source: str | Path,
    out: str | Path,
    *,
    id_column: str | None = None,
    salt: str | bytes | None = None,
    random_state: int = 0,
    rows: int = _ROWS,
    progress: bool | None = None,
) -> int:
    """Predict every row of a CSV (plain or .gz) or Parquet file and write CSV or Parquet.

    The output has the id column if there is one, `prediction`, `branch` for a mixture, and
    `p_<label>`: P(U = label).

    Args:
        predictor: a predictor that reads raw columns.
        source: the rows; columns are found by name, others ignored.
        out: .csv or .parquet; appears when it is whole.
        id_column: column of identities; with `salt`, it decides the draws.
        salt: the secret of the draws.
        random_state: seed of the draws, where there is no salt.
        rows: at a time.
        progress: a bar on stderr; by default if that is a terminal.

    Returns:
        The number of rows.
    """
    place, target = Path(source), Path(out)
    columns = _needed(predictor, id_column)
    if rows < 1:
        raise InputError(f"`rows` must be at least 1, got {rows}.")
    if salt is not None and id_column is None:
        raise InputError(
            "A salt is for identities: name their column with `id_column` (--id) as well."
        )
    if not place.is_file():
        raise DataError(f"There is no file {str(place)!r}.")
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(f"`out` must end in .csv or .parquet, got {target.name!r}.")
    show = sys.stderr.isatty() if progress is None else progress
    rng = np.random.default_rng(random_state)
    done = 0
    with whole_file(target) as temporary, _writer(temporary, target.suffix) as write:
        for block in _blocks(place, columns, rows, show):
            seed = int(rng.integers(2**63))
            done += write(_decisions(predictor, block, id_column, salt, seed))
        if not done:
            raise DataError(f"{str(place)!r} has no rows.")
    return done


def _needed(predictor: Predictor, id_column: str | None) -> list[str]:
    if predictor.preprocessing is None and not predictor.features:
        raise InputError(
            "This predictor was trained on a matrix without column names, so it cannot read a file."
        )
    prepared = predictor.preprocessing
    columns = list(predictor.features if prepared is None else prepared.columns)
    if predictor.uses_groups:
        if predictor.grouping is None:
            raise InputError(
                "This predictor uses the group but does not know its columns, so it cannot read a "
                "file."
            )
        columns += list(predictor.grouping.columns)
    return list(dict.fromkeys(columns + ([id_column] if id_column else [])))


def _decisions(
    predictor: Predictor, block: Block, id_column: str | None, salt: str | bytes | None, seed: int
) -> dict[str, NDArray[Any]]:
    ids = None if id_column is None else _identities(block[id_column], id_column)
    q = predictor.branch_proba(block)
    coins = uniforms(q.shape[1], seed) if salt is None else uniforms(q.shape[1], ids=ids, salt=salt)
    labels, branch = predictor.decide(q, coins)
    out: dict[str, NDArray[Any]] = {} if id_column is None or ids is None else {id_column: ids}
    out["prediction"] = labels
    if len(predictor.components) > 1:
        out["branch"] = branch
    mean = np.einsum("b,bnk->nk", np.asarray(predictor.weights), q)
    return out | {f"p_{label}": mean[:, i] for i, label in enumerate(predictor.labels)}


def _identities(values: Any, name: str) -> NDArray[Any]:
    """One identity per row, as it stands in the file."""
    if isinstance(values, Coded):
        coded = encode(values, name)
        return np.array(coded.levels, dtype=object)[coded.codes]
    return one_column(values, name)


def _blocks(path: Path, columns: Sequence[str], rows: int, show: bool) -> Iterator[Block]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    look = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*look, console=console, transient=True, disable=not show) as progress:
        task = progress.add_task(path.name, total=1.0)
        for block, share in read_blocks(path, columns, rows):
            yield block
            progress.update(task, completed=share)


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Any]:
    """write(columns) → number of rows."""
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)

            def write(columns: Mapping[str, NDArray[Any]]) -> int:
                if not file.tell():
                    out.writerow(columns)
                out.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
                return len(next(iter(columns.values())))

            yield write
        return
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet needs pyarrow: pip install 'separatrix[engines]'."
        ) from error
    opened: list[Any] = []

    def write_block(columns: Mapping[str, NDArray[Any]]) -> int:
        table = pyarrow.table({name: pyarrow.array(x.tolist()) for name, x in columns.items()})
        if not opened:
            opened.append(parquet.ParquetWriter(path, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))
        return int(table.num_rows)

    try:
        yield write_block
    finally:
        for one in opened:
            one.close()
