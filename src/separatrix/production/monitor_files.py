"""A monitor and files: its reference from an audit's JSON, and rows of CSV or Parquet in blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.columns.features import as_numbers
from separatrix.columns.groups import from_plain
from separatrix.columns.readers import find_files, read_blocks
from separatrix.core.counts import CountTable, Levels, diagonal, listed
from separatrix.errors import InputError
from separatrix.predictor.loading import load
from separatrix.production.monitor import Monitor, one_budget

__all__ = ["open_monitor", "read_reference", "update_from_files"]

_BLOCK = 50_000  # rows in memory at a time


def read_reference(path: str | Path) -> CountTable:
    """The table behind the JSON of an audit: `separatrix audit … --json > reference.json`."""
    try:
        audit = json.loads(Path(path).read_text(encoding="utf-8"))
        cells = {name: audit["cells"][name] for name in ("label", "group", "prediction")}
        labels, groups = (tuple(map(from_plain, audit[name])) for name in ("labels", "groups"))
        predictions = tuple(dict.fromkeys(map(from_plain, cells["prediction"])))
        counts = np.zeros((len(labels), len(groups), len(predictions)))
        axes = (labels, groups, predictions)
        places = [
            [axis.index(from_plain(level)) for level in column]
            for axis, column in zip(axes, cells.values(), strict=True)
        ]
        rates = np.asarray(audit["cells"]["rate"]) * np.asarray(audit["cells"]["rows"])
        counts[tuple(places)] = rates
        hard = audit["predictions"] == "hard"
        counts = np.round(counts) if hard else counts
        rows = int(audit["rows"])
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{str(path)!r} is not an audit ({type(error).__name__}: {error}). Write one with "
            "`separatrix audit FILE … --json > reference.json`."
        ) from error
    return CountTable(counts, *axes, rows, moments=None if hard else diagonal(counts))


def open_monitor(
    state: Path,
    *,
    audit: Path | None = None,
    model: Path | None = None,
    budgets: Mapping[str, float | None] | None = None,
    confidence: float = 0.95,
    horizon: int | None = None,
) -> Monitor:
    """The saved monitor; or a new one, which needs a reference and a budget.

    Args:
        state: file of the monitor.
        audit: JSON of the audit at selection.
        model: folder of the shipped model, whose budget is the default; instead of an audit.
        budgets: levels by measure, of which one is not None.
        confidence, horizon: as in `Monitor`.

    Raises:
        InputError: the saved one has another reference, budget, confidence or horizon.
    """
    asked = {name: level for name, level in (budgets or {}).items() if level is not None}
    reference: Any = None
    if audit is not None and model is not None:
        raise InputError("Pass --audit or --model: a monitor has one reference.")
    if model is not None:
        reference = load(model)
    elif audit is not None:
        reference = read_reference(audit)
    new = None
    if reference is not None and (asked or model is not None):
        measure, level = one_budget(asked, reference)
        level_of: dict[str, Any] = {f"max_{measure}": level}
        new = Monitor(reference, confidence=confidence, horizon=horizon, **level_of)
    if not state.exists():
        if new is None:
            raise InputError(
                f"There is no monitor {str(state)!r} yet: pass --model, or --audit and a budget "
                "such as --max-eo-gap, to start one."
            )
        return new
    old = Monitor.load(state)
    if new is not None:
        Monitor.merge([old, new])  # refuses another reference, budget, confidence or horizon
    elif asked and asked != {old.measure: old.budget}:
        ((measure, level),) = list(asked.items())[:1]
        raise InputError(
            f"The monitor {str(state)!r} has the budget {old.measure} {old.budget:g}, not "
            f"{measure} {level:g}. Another budget needs another monitor."
        )
    return old


def update_from_files(
    monitor: Monitor, paths: Sequence[str], *, y: str, z: Sequence[str], pred: Sequence[str]
) -> None:
    """Add the rows of files in their order; an error leaves the monitor somewhere in between."""
    table = monitor.reference
    soft = len(pred) > 1 or monitor.posteriors
    if soft and len(pred) == 1 and len(table.predictions) != 2:
        raise InputError(
            f"The reference has posteriors of {len(table.predictions)} predictions "
            f"({listed(table.predictions)}): repeat --pred, one column for each."
        )
    for path in paths:
        for file in find_files(path):
            for block, _ in read_blocks(file, [y, *z, *pred], _BLOCK):
                truth = _like(block[y], table.labels, y)
                if soft:
                    columns = [as_numbers(block[name], name) for name in pred]
                    columns = [1.0 - columns[0], *columns] if len(columns) == 1 else columns
                    predicted: Any = np.column_stack(columns)
                else:
                    predicted = _like(block[pred[0]], table.predictions, pred[0])
                groups = {name: block[name] for name in z}
                if len(z) == 1:
                    groups = {z[0]: _like(block[z[0]], table.groups, z[0])}
                monitor.update(truth, predicted, sensitive_features=groups)


def _like(column: Any, levels: Levels, name: str) -> Any:
    """Text as numbers where the reference has numbers: a block does not show a column's type."""
    numbers = all(
        isinstance(level, int | float) and not isinstance(level, bool) for level in levels
    )
    return as_numbers(column, name) if numbers else column
