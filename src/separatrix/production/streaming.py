"""Predictions for a file of any size in constant memory, by blocks of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.draws import (
    UNSET,
    Unset,
    check_sources,
    id_texts,
    plain_values,
    seeded,
)
from separatrix.columns.readers import read_blocks
from separatrix.columns.text import harmless
from separatrix.columns.values import objects
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.io import interactive, whole_file
from separatrix.predictor import decision_log
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.predictor import Predictor

__all__ = ["predict_file", "replay_file"]

_ROWS = 50_000  # at a time
Block = Mapping[str, Any]
Draw = Callable[..., NDArray[np.float64]]  # of the number of rows and their `ids`


def predict_file(
    predictor: Predictor,
    source: str | Path,
    out: str | Path,
    *,
    id_column: str | None = None,
    keep: Sequence[str] = (),
    salt: str | bytes | None = None,
    random_state: int | Unset | None = UNSET,
    log: str | Path | None = None,
    rows: int = _ROWS,
    progress: bool | None = None,
) -> int:
    """Predict every row of a CSV (plain or .gz) or Parquet file and write CSV or Parquet.

    The output has the id column as text, the columns to keep, and

    - `decision`, the label; `decided_by_coin`, whether another draw could have given another label;
      `branch` of a mixture; `score`, what the model behind the rule says: P(second label), or
      `score_<label>` for each of several labels, where there is one such model;
    - of a score only `score`, of a predicted number only `prediction`.

    In CSV a text that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a
    line break, and is no number) gets an apostrophe in front.

    Args:
        predictor: a predictor that reads raw columns.
        source: the rows; columns are found by name, others ignored.
        out: .csv or .parquet; appears when it is whole.
        id_column: column of identities, read as text; with `salt`, it decides the draws.
        keep: columns to copy, such as outcome and group for an audit of the output.
        salt: the secret of the draws.
        random_state: seed of the draws, where there is no salt; None for fresh entropy. The same
            seed gives the same draws as `predictor.predict` of all rows at once.
        log: a new decision log, .jsonl or .csv, for `replay_file`.
        rows: at a time.
        progress: a bar on stderr; by default if that is a terminal.

    Returns:
        The number of rows.
    """
    place, target = Path(source), Path(out)
    kept = [name for name in dict.fromkeys(keep) if name != id_column]
    columns = list(dict.fromkeys([*_needed(predictor, id_column), *kept]))
    if rows < 1:
        raise InputError(f"`rows` must be at least 1, got {rows}.")
    if salt is not None and id_column is None:
        raise InputError(
            "A salt is for identities: name their column with `id_column` (--id) as well."
        )
    if predictor.randomized:
        check_sources(random_state, None if salt is None else (), salt)
    _check_names(predictor, [id_column, *kept])
    if not place.is_file():
        raise DataError(f"There is no file {str(place)!r}.")
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(f"`out` must end in .csv or .parquet, got {target.name!r}.")
    show = interactive() if progress is None else progress
    draw = _coins(predictor, salt, random_state)
    done = 0
    with (
        whole_file(target) as temporary,
        _log_writer(None if log is None else Path(log)) as note,
        _writer(temporary, target.suffix) as write,
    ):
        for block in _blocks(place, columns, rows, show):
            ids = None if id_column is None else id_texts(block[id_column], id_column)
            drawn = predictor.drawn(block, None, partial(draw, ids=ids))
            copied = {} if id_column is None else {id_column: objects(ids or [])}
            copied |= {name: objects(plain_values(block[name])) for name in kept}
            done += write(copied | _columns(predictor, drawn))
            note(decision_log.records(predictor, drawn, ids, salt) if log is not None else [])
        if not done:
            raise DataError(f"{str(place)!r} has no rows.")
    return done


def _coins(
    predictor: Predictor, salt: str | bytes | None, random_state: int | Unset | None
) -> Draw:
    """Coins of a block of rows by their identities, or by their places in the file."""
    if salt is not None:
        return lambda n, ids: predictor.coins(n, ids=ids, salt=salt)
    if not predictor.randomized:
        return lambda n, ids: predictor.coins(n)
    sizes: list[int] = []
    coins = seeded(random_state, predictor.purposes, iter(sizes.pop, None))

    def draw(n: int, ids: Any) -> NDArray[np.float64]:
        sizes.append(n)
        return predictor.paired(next(coins))

    return draw


def _check_names(predictor: Predictor, copied: Sequence[str | None]) -> None:
    """Refuse an output with two columns of one name."""
    names = [*(_score_names(predictor)), "decision", "decided_by_coin", "branch", "prediction"]
    for name in copied:
        if name in names:
            raise InputError(
                f"The column {name!r} has the name of an output column ({', '.join(names)}). "
                "Rename it in the file."
            )


def _needed(predictor: Predictor, id_column: str | None) -> list[str]:
    if not predictor.columns:
        raise InputError(
            "This predictor was trained on a matrix without column names, so it cannot read a file."
        )
    columns = list(predictor.columns)
    if predictor.uses_groups:
        if predictor.grouping is None:
            raise InputError(
                "This predictor uses the group but does not know its columns, so it cannot read a "
                "file."
            )
        columns += list(predictor.grouping.columns)
    return list(dict.fromkeys(columns + ([id_column] if id_column else [])))


def _columns(predictor: Predictor, drawn: Drawn) -> dict[str, NDArray[Any]]:
    if predictor.is_value:
        return {"prediction": drawn.labels}
    if predictor.is_score:
        return {"score": drawn.proba[:, 1]}
    out = {"decision": drawn.labels, "decided_by_coin": drawn.proba.max(1) < 1.0}
    if len(predictor.branches) > 1:
        out["branch"] = drawn.branch
    if drawn.scores is not None:
        columns = drawn.scores.T if len(predictor.labels) > 2 else drawn.scores[:, 1:].T
        out |= dict(zip(_score_names(predictor), columns, strict=True))
    return out


def _score_names(predictor: Predictor) -> list[str]:
    labels = predictor.labels
    return ["score"] if len(labels) == 2 else [f"score_{label}" for label in labels]


@contextmanager
def _log_writer(path: Path | None) -> Iterator[Callable[..., None]]:
    """note(records) adds decisions to the log, if there is one."""
    if path is None:
        yield lambda *_: None
        return
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:

        def note(found: Sequence[decision_log.Record]) -> None:
            decision_log.write(file, path, found, first=file.tell() == 0)

        yield note


def replay_file(
    predictor: Predictor,
    log: str | Path,
    source: str | Path | None = None,
    *,
    id_column: str | None = None,
    salt: str | bytes | None = None,
    rows: int = _ROWS,
) -> int:
    """Compare a decision log with the model and, block by block, with the file that was decided.

    Args:
        predictor: the model of the log.
        log: what `predict_file` or `predict` wrote.
        source: the rows in the order of the log; without them only branches are compared.
        id_column, salt: as in `predict_file`; with them the coins are computed again.
        rows: at a time.

    Returns:
        The number of decisions; the first difference is a `DataError`.
    """
    comparison = decision_log.Comparison(predictor, Path(log), salt)
    if source is None:
        comparison.rest()
        return comparison.done
    if not Path(source).is_file():
        raise DataError(f"There is no file {str(source)!r}.")
    for block, _ in read_blocks(Path(source), _needed(predictor, id_column), rows):
        ids = None if id_column is None else id_texts(block[id_column], id_column)
        comparison.block(block, None, ids)
    comparison.end()
    return comparison.done


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


def _cells(column: NDArray[Any]) -> list[Any]:
    return [harmless(x) if isinstance(x, str) else x for x in column.tolist()]


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Any]:
    """write(columns) → number of rows."""
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)

            def write(columns: Mapping[str, NDArray[Any]]) -> int:
                if not file.tell():
                    out.writerow(map(harmless, columns))
                out.writerows(zip(*map(_cells, columns.values()), strict=True))
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
