"""Files of any size in constant memory, by blocks of rows: predicted, replayed, watched."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.draws import UNSET, Salt, Seed, check_sources, id_texts, plain_values
from separatrix.columns.features import as_numbers
from separatrix.columns.groups import from_plain
from separatrix.columns.readers import find_files, read_blocks
from separatrix.columns.text import harmless
from separatrix.columns.values import objects
from separatrix.core.counts import CountTable, Levels, diagonal, listed
from separatrix.errors import DataError, InputError, require
from separatrix.io import interactive, one_at_a_time, whole_file
from separatrix.predictor import decision_log
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.predictor import Predictor, load
from separatrix.production.monitor import Monitor

_ROWS = 50_000  # at a time
Block = Mapping[str, Any]


def predict_file(
    predictor: Predictor,
    source: str | Path,
    out: str | Path,
    *,
    id_column: str | None = None,
    keep: Sequence[str] = (),
    salt: Salt = None,
    random_state: Seed = UNSET,
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
    place, target, log_path = Path(source), Path(out), None if log is None else Path(log)
    copied = [name for name in dict.fromkeys(keep) if name != id_column]
    columns = list(dict.fromkeys([*_needed(predictor, id_column), *copied]))
    if rows < 1:
        raise InputError(f"`rows` must be at least 1, got {rows}.")
    if salt is not None and id_column is None:
        raise InputError("A secret is for identities: name their column with `id_column` as well.")
    if predictor.randomized:
        check_sources(random_state, None if salt is None else (), salt)
    _check_names(predictor, [id_column, *copied])
    if not place.is_file():
        raise DataError(f"There is no file {str(place)!r}.")
    if target.suffix not in (".csv", ".parquet"):
        raise InputError(f"`out` must end in .csv or .parquet, got {target.name!r}.")
    show = interactive() if progress is None else progress
    done = 0
    with ExitStack() as stack:
        temporary = stack.enter_context(whole_file(target))
        if log_path is not None:
            half = stack.enter_context(whole_file(log_path))
            noted = stack.enter_context(half.open("w", encoding="utf-8", newline=""))
        write = stack.enter_context(_writer(temporary, target.suffix))
        for block in _blocks(place, columns, rows, show):
            ids = None if id_column is None else id_texts(block[id_column], id_column)
            draws = {"random_state": random_state} if salt is None else {"ids": ids, "salt": salt}
            drawn = predictor.drawn(block, None, **draws, first=done)
            if log_path is not None:
                decision_log.write(noted, log_path, decision_log.records(predictor, drawn, ids, salt), first=not done)
            people = {} if id_column is None else {id_column: objects(ids or [])}
            people |= {name: objects(plain_values(block[name])) for name in copied}
            write(people | _columns(predictor, drawn))
            done += len(drawn.labels)
        if not done:
            raise DataError(f"{str(place)!r} has no rows.")
    return done


def _check_names(predictor: Predictor, copied: Sequence[str | None]) -> None:
    """Refuse an output with two columns of one name."""
    names = [*_score_names(predictor), "decision", "decided_by_coin", "branch", "prediction"]
    for name in {*copied} & {*names}:
        raise InputError(f"The column {name!r} has the name of an output ({', '.join(names)}). Rename it.")


def _needed(predictor: Predictor, id_column: str | None) -> list[str]:
    if not predictor.columns:
        raise InputError("This predictor was trained on a matrix without column names, so it cannot read a file.")
    of_group: Sequence[str] = ()
    if predictor.uses_groups:
        if predictor.grouping is None:
            raise InputError("This predictor uses the group but does not know its columns, so it cannot read a file.")
        of_group = predictor.grouping.columns
    return list(dict.fromkeys(filter(None, [*predictor.columns, *of_group, id_column])))


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


def replay_file(
    predictor: Predictor,
    log: str | Path,
    source: str | Path | None = None,
    *,
    id_column: str | None = None,
    salt: Salt = None,
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
    if source is None:
        return decision_log.replay(predictor, Path(log), None, salt)
    if not Path(source).is_file():
        raise DataError(f"There is no file {str(source)!r}.")
    blocks = (
        (block, None, None if id_column is None else id_texts(block[id_column], id_column))
        for block, _ in read_blocks(Path(source), _needed(predictor, id_column), rows)
    )
    return decision_log.replay(predictor, Path(log), blocks, salt)


def _blocks(path: Path, columns: Sequence[str], rows: int, show: bool) -> Iterator[Block]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    look = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    with Progress(*look, console=Console(stderr=True), transient=True, disable=not show) as progress:
        task = progress.add_task(path.name, total=1.0)
        for block, share in read_blocks(path, columns, rows):
            yield block
            progress.update(task, completed=share)


def _cells(column: NDArray[Any]) -> list[Any]:
    return [harmless(x) if isinstance(x, str) else x for x in column.tolist()]


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Callable[[Mapping[str, NDArray[Any]]], None]]:
    """A function that adds the columns of a block of rows to a file."""
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)

            def write(columns: Mapping[str, NDArray[Any]]) -> None:
                if not file.tell():
                    out.writerow(map(harmless, columns))
                out.writerows(zip(*map(_cells, columns.values()), strict=True))

            yield write
        return
    pyarrow = require("pyarrow", "engines", "A Parquet file")
    parquet = require("pyarrow.parquet", "engines", "A Parquet file")
    opened: list[Any] = []
    with ExitStack() as stack:

        def write_block(columns: Mapping[str, NDArray[Any]]) -> None:
            table = pyarrow.table({name: x.tolist() for name, x in columns.items()})
            if not opened:
                opened.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            opened[0].write_table(table.cast(opened[0].schema))

        yield write_block


def watch(
    state: Path,
    files: Sequence[str] = (),
    *,
    y: str = "",
    z: Sequence[str] = (),
    pred: Sequence[str] = (),
    audit: Path | None = None,
    model: Path | None = None,
    budgets: Mapping[str, float | None] | None = None,
    confidence: float = 0.95,
    horizon: int | None = None,
) -> Monitor:
    """Add the rows of files, in their order, to the monitor in a file; all of them or none.

    Other processes that add to a monitor in that folder wait for their turn.

    Args:
        state: file of the monitor; a new one needs a reference and a budget.
        files: CSV or Parquet; none to look only.
        y, z, pred: names of their columns.
        audit: the reference, JSON of the audit at selection.
        model: the reference, folder of the shipped model, whose budget is the default.
        budgets: levels by measure, of which one is not None.
        confidence, horizon: as in `Monitor`.

    Raises:
        InputError: the monitor has another reference, budget, confidence or horizon.
    """
    if audit is not None and model is not None:
        raise InputError("Pass --audit or --model: a monitor has one reference.")
    if files and not (y and z and pred):
        raise InputError("New rows need --y, --z and --pred: the names of their columns.")
    asked = {name: level for name, level in (budgets or {}).items() if level is not None}
    with one_at_a_time(state):
        old = Monitor.load(state) if state.exists() else None
        reference: Any = None
        if model is not None:
            reference = load(model)
        elif audit is not None:
            reference = read_reference(audit)
        elif old is not None:
            reference, confidence, horizon = old.reference, old.confidence, old.horizon
        else:
            how = "pass --model, or --audit and a budget such as --max-eo-gap, to start one"
            raise InputError(f"There is no monitor {str(state)!r} yet: {how}.")
        if old is not None and model is None:
            asked = asked or {old.measure: old.budget}
        level_of: dict[str, Any] = {f"max_{name}": level for name, level in asked.items()}
        new = Monitor(reference, confidence=confidence, horizon=horizon, **level_of)
        if old is not None and (different := old.difference(new)):
            raise InputError(f"The monitor {str(state)!r} has {different}. Start another one in another file.")
        monitor = new if old is None else old
        for file in (file for pattern in files for file in find_files(pattern)):
            for block, _ in read_blocks(file, [y, *z, *pred], _ROWS):
                _add(monitor, block, y, z, pred)
        monitor.save(state)
    return monitor


def _add(monitor: Monitor, block: Block, y: str, z: Sequence[str], pred: Sequence[str]) -> None:
    table = monitor.reference
    if len(pred) > 1 or monitor.posteriors:
        if len(pred) == 1 and len(table.predictions) != 2:
            raise InputError(f"The reference has posteriors of {listed(table.predictions)}: repeat --pred for each.")
        columns = [as_numbers(block[name], name) for name in pred]
        predicted: Any = np.column_stack(columns if len(columns) > 1 else [1.0 - columns[0], *columns])
    else:
        predicted = _like(block[pred[0]], table.predictions, pred[0])
    groups = {z[0]: _like(block[z[0]], table.groups, z[0])} if len(z) == 1 else {name: block[name] for name in z}
    monitor.update(_like(block[y], table.labels, y), predicted, sensitive_features=groups)


def read_reference(path: str | Path) -> CountTable:
    """The table behind the JSON of an audit: `separatrix audit … --json > reference.json`."""
    try:
        audit = json.loads(Path(path).read_text(encoding="utf-8"))
        cells = audit["cells"]
        columns = [tuple(map(from_plain, cells[name])) for name in ("label", "group", "prediction")]
        names = audit["labels"], audit["groups"], dict.fromkeys(cells["prediction"])
        labels, groups, predictions = axes = [tuple(map(from_plain, levels)) for levels in names]
        places = [tuple(map(axis.index, column)) for axis, column in zip(axes, columns, strict=True)]
        counts = np.zeros([len(axis) for axis in axes])
        counts[tuple(places)] = np.asarray(cells["rate"]) * np.asarray(cells["rows"])
        hard = audit["predictions"] == "hard"
        counts = np.round(counts) if hard else counts
        rows = int(audit["rows"])
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        which = f"{str(path)!r} is not an audit ({type(error).__name__}: {error})"
        raise InputError(f"{which}. Write one with `separatrix audit FILE … --json > reference.json`.") from error
    return CountTable(counts, labels, groups, predictions, rows, moments=None if hard else diagonal(counts))


def _like(column: Any, levels: Levels, name: str) -> Any:
    """Text as numbers where the reference has numbers: a block does not show a column's type."""
    numbers = all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels)
    return as_numbers(column, name) if numbers else column
