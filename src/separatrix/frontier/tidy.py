"""Records as tidy columns, their means over folds, and the rows that have given values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import measure, recorded_metrics
from separatrix.errors import InputError
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import Record
from separatrix.methods import POLICIES
from separatrix.statistics.bias import corrected_tables

__all__ = ["CORRECTED", "Columns", "means", "select", "tidy"]

Columns = dict[str, NDArray[Any]]
CORRECTED = ("violation_corrected", "utility_corrected", "score_violation_corrected")
_TABLES = 256  # at a time, which bounds the memory


def tidy(records: Iterable[Record]) -> Columns:
    """Records as columns: one row per record and policy that it has; models of all rows have none.

    Returns:
        Columns of equal length: `dataset`, `method`, `inputs` ("xz" or "x"), `recipe`, `trade_off`,
        `fold`, `seed`, `policy` ("randomized", "deterministic"), the `recorded_metrics`, those of
        `CORRECTED` (less their bias), `threshold`, `train_seconds` (CPU), `status`, `message`, and
        as objects or None `counts` (the table N[y, z, u]), `squares` (Σ q_u²) and `ordered`
        (the score's table in bins). The metrics are NaN unless the status is "ok".
    """
    rows = [
        (r, policy)
        for r in records
        for policy, table in zip(POLICIES, (r.soft, r.hard), strict=True)
        if r.run.fold != ALL_ROWS and (table is not None or r.status != "ok")
    ]
    names = ("dataset", "method", "inputs", "recipe", "trade_off", "fold", "seed")
    columns: Columns = {name: np.array([getattr(r.run, name) for r, _ in rows]) for name in names}
    columns["policy"] = np.array([policy for _, policy in rows])
    drawn = [policy == "randomized" for _, policy in rows]
    pairs = [(r, soft) for (r, _), soft in zip(rows, drawn, strict=True)]
    counts = _objects([r.soft if soft else r.hard for r, soft in pairs])
    squares = _objects([r.squares if soft else r.hard for r, soft in pairs])
    ordered = _objects([r.ordered for r, _ in rows])
    columns |= {name: np.full(len(rows), np.nan) for name in (*recorded_metrics(), *CORRECTED)}
    for at, (tables,) in _alike(counts):
        for name, values in measure(tables).items():
            columns[name][at] = values
    for at, pair in _alike(counts, squares):
        found = corrected_tables(*pair)
        columns["violation_corrected"][at], columns["utility_corrected"][at] = found
    for at, (tables,) in _alike(ordered):
        columns["score_violation"][at] = conditional_mutual_information(tables)
        columns["score_violation_corrected"][at] = corrected_tables(tables, tables)[0]
    for name in ("auroc", "score_gap"):
        columns[name] = np.array([getattr(r, name) for r, _ in rows], dtype=np.float64)
    columns["threshold"] = np.array(
        [r.threshold if p == "deterministic" else np.nan for r, p in rows], dtype=np.float64
    )
    columns["train_seconds"] = np.array([r.seconds for r, _ in rows], dtype=np.float64)
    columns["status"] = np.array([r.status for r, _ in rows])
    columns["message"] = np.array([r.message for r, _ in rows], dtype=object)
    return columns | {"counts": counts, "squares": squares, "ordered": ordered}


_SERIES = ("dataset", "method", "inputs", "recipe", "policy", "trade_off")


def means(columns: Columns) -> Columns:
    """Mean and standard deviation over folds and seeds, per series, policy and λ.

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
    for metric in (*recorded_metrics(), *CORRECTED):
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


def _objects(tables: list[Any]) -> NDArray[Any]:
    """One object a row, whatever their shapes."""
    out = np.empty(len(tables), dtype=object)
    for i, table in enumerate(tables):
        out[i] = table
    return out


def _alike(*columns: NDArray[Any]) -> Iterator[tuple[list[int], list[NDArray[np.float64]]]]:
    """The rows that have all these tables, those of one shape at a time, with stacks of them."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for i, tables in enumerate(zip(*columns, strict=True)):
        if all(table is not None for table in tables):
            shapes.setdefault(tables[0].shape, []).append(i)
    for rows in shapes.values():
        for start in range(0, len(rows), _TABLES):
            at = rows[start : start + _TABLES]
            yield at, [np.stack([column[i] for i in at]) for column in columns]
