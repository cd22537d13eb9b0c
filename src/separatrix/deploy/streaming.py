"""Predictions for a file of any size, in constant memory: blocks of rows in, blocks of decisions
out.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.datasets._columns import Coded, raw_columns
from separatrix.datasets._csv import read_csv
from separatrix.columns.draws import uniforms
from separatrix.deploy.predictor import Predictor
from separatrix.errors import DataError, InputError, MissingExtraError

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
    if not target.absolute().parent.is_dir():
        raise InputError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} into. Create it "
            f"first."
        )
    show = sys.stderr.isatty() if progress is None else progress
    rng = np.random.default_rng(random_state)
    done = 0
    with _whole(target) as temporary, _writer(temporary, target.suffix) as write:
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
    columns = list(
        predictor.features if predictor.preprocessing is None else predictor.preprocessing.columns
    )
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
    ids = None if id_column is None else _texts(block[id_column], id_column)
    q = predictor.branch_proba(block)
    coins = uniforms(q.shape[1], seed) if salt is None else uniforms(q.shape[1], ids=ids, salt=salt)
    labels, branch = predictor.decide(q, coins)
    out: dict[str, NDArray[Any]] = {} if id_column is None or ids is None else {id_column: ids}
    out["prediction"] = labels
    if len(predictor.components) > 1:
        out["branch"] = branch
    mean = np.einsum("b,bnk->nk", np.asarray(predictor.weights), q)
    return out | {f"p_{label}": mean[:, i] for i, label in enumerate(predictor.labels)}


def _texts(values: Any, name: str) -> NDArray[Any]:
    if isinstance(values, Coded):
        if (values.codes < 0).any():
            raise DataError(
                f"The id column {name!r} is missing in a row. Every record needs its identity."
            )
        return np.array(values.levels, dtype=object)[values.codes]
    numbers = np.asarray(values)
    if np.isnan(numbers).any():
        raise DataError(
            f"The id column {name!r} is missing in a row. Every record needs its identity."
        )
    whole = bool((numbers == np.floor(numbers)).all() and np.abs(numbers).max(initial=0) < 2**53)
    return numbers.astype(np.int64) if whole else numbers


def _blocks(path: Path, columns: Sequence[str], rows: int, show: bool) -> Iterator[Block]:
    reader = _parquet if path.suffix in (".parquet", ".pq") else _csv
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    look = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    with Progress(
        *look, console=Console(stderr=True), transient=True, disable=not show
    ) as progress:
        task = progress.add_task(path.name, total=1.0)
        for block, share in reader(path, columns, rows):
            yield block
            progress.update(task, completed=share)


def _parquet(path: Path, columns: Sequence[str], rows: int) -> Iterator[tuple[Block, float]]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet needs pyarrow: pip install 'separatrix[engines]'."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_present(file.schema_arrow.names, columns, path)
            total, done = max(file.metadata.num_rows, 1), 0
            for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                done += batch.num_rows
                yield raw_columns(pyarrow.Table.from_batches([batch]), columns), done / total
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        if isinstance(error, InputError):
            raise
        raise DataError(f"{str(path)!r} is not a whole Parquet file ({error}).") from error


def _csv(path: Path, columns: Sequence[str], rows: int) -> Iterator[tuple[Block, float]]:
    size = max(path.stat().st_size, 1)
    try:
        with path.open("rb") as raw:
            plain: IO[bytes] = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw  # type: ignore[assignment]
            stream = io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")
            first = stream.readline()
            if not first:
                raise DataError(f"{str(path)!r} is empty.")
            delimiter = max(",;\t|", key=first.count)
            reader = csv.reader(chain([first], stream), delimiter=delimiter, skipinitialspace=True)
            header = [name.strip() for name in next(reader)]
            _check_present(header, columns, path)
            while block := list(islice(reader, rows)):
                text = io.StringIO(newline="")
                csv.writer(text).writerows(
                    row for row in block if row
                )  # quoted line breaks stay inside one row
                text.seek(0)
                read = read_csv(text, source=str(path), header=header, only=columns)
                if len(next(iter(read.values()))):
                    yield read, raw.tell() / size
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not UTF-8 text ({error}).") from error
    except (gzip.BadGzipFile, EOFError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read to its end ({error}).") from error


def _check_present(here: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    absent = [name for name in wanted if name not in here]
    if absent:
        raise InputError(
            f"{str(path)!r} lacks the column{'s' * (len(absent) > 1)} "
            f"{', '.join(map(repr, absent[:5]))} that the model "
            f"needs; it has {', '.join(here[:10])}."
        )


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A temporary name beside the target that takes its place at the end, or disappears."""
    handle, name = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


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
        table = pyarrow.table(
            {name: pyarrow.array(column.tolist()) for name, column in columns.items()}
        )
        if not opened:
            opened.append(parquet.ParquetWriter(path, table.schema))
        opened[0].write_table(table.cast(opened[0].schema))
        return int(table.num_rows)

    try:
        yield write_block
    finally:
        for one in opened:
            one.close()
