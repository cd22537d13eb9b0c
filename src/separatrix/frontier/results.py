"""Results: the one reader of a folder that `trace` or `benchmark` wrote, as columns.

Columns are arrays of equal length by name: one row per record and policy (`tidy`), or one per point
with its mean over the folds (`means`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.information import conditional_mutual_information
from separatrix.core.measures import measure, recorded_metrics
from separatrix.errors import InputError
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import Record, ReferenceCurve, SavedRun, Store
from separatrix.methods import POLICIES
from separatrix.statistics.bias import corrected_tables

__all__ = ["CORRECTED", "Columns", "Results", "means", "select", "tidy"]

Columns = dict[str, NDArray[Any]]
CORRECTED = ("violation_corrected", "utility_corrected", "score_violation_corrected")
_POINT = ("dataset", "method", "inputs", "recipe", "policy", "trade_off")


@dataclass(frozen=True, eq=False)
class Results:
    """All that a folder of results says.

    Args:
        folder: where it is.
        columns: one row per record and policy, see `tidy`.
        curves: the reference curves.
        about: labels, groups, cells and card of each dataset.
        final: the threshold of each model that was trained on all rows, by method, inputs, recipe
            and λ.
    """

    folder: Path
    columns: Columns
    curves: tuple[ReferenceCurve, ...]
    about: dict[str, dict[str, Any]]
    final: dict[tuple[str, str, str, float], float]

    @classmethod
    def read(cls, folder: str | Path) -> Results:
        """Read a folder; one without a finished run is an error."""
        store = Store(folder, create=False)
        records = store.records()
        columns = tidy(records)
        if not len(columns["dataset"]):
            raise InputError(
                f"The records in {str(folder)!r} are empty: no run has finished yet. Run it again "
                "first."
            )
        final = {
            (r.run.method, r.run.inputs, r.run.recipe, r.run.trade_off): r.threshold
            for r in records
            if r.run.fold == ALL_ROWS
        }
        return cls(Path(folder), columns, tuple(store.curves()), store.datasets(), final)

    @cached_property
    def mean(self) -> Columns:
        """Fold means and standard deviations, see `means`."""
        return means(self.columns)

    @cached_property
    def saved(self) -> list[SavedRun]:
        """The stacks whose models were kept; nothing but their headers is read."""
        return Store(self.folder).saved_runs()

    @property
    def datasets(self) -> list[str]:
        """The datasets with records."""
        return sorted(set(self.mean["dataset"].tolist()))

    def labels(self, dataset: str) -> int:
        """How many labels it has."""
        return len(self.about[dataset]["labels"])

    def limit(self, dataset: str) -> ReferenceCurve | None:
        """Its limit of post-processing, where it was computed."""
        return next((c for c in self.curves if c.dataset == dataset and c.name == "limit"), None)

    def points(self, dataset: str, method: str, inputs: str, recipe: str, policy: str) -> Columns:
        """Fold means of one path by λ, without points that lost a fold."""
        named = {"dataset": dataset, "method": method, "inputs": inputs, "recipe": recipe}
        part = select(self.mean, policy=policy, lost=0, **named)
        order = np.argsort(part["trade_off"], kind="stable")
        return {name: column[order] for name, column in part.items()}


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
        (r, policy == "randomized")
        for r in records
        for policy, table in zip(POLICIES, (r.soft, r.hard), strict=True)
        if r.run.fold != ALL_ROWS and (table is not None or r.status != "ok")
    ]
    names = ("dataset", "method", "inputs", "recipe", "trade_off", "fold", "seed")
    columns: Columns = {name: np.array([getattr(r.run, name) for r, _ in rows]) for name in names}
    columns["policy"] = np.array([POLICIES[0] if drawn else POLICIES[1] for _, drawn in rows])
    columns |= {name: np.full(len(rows), np.nan) for name in (*recorded_metrics(), *CORRECTED)}
    counts = _objects(r.soft if drawn else r.hard for r, drawn in rows)
    squares = _objects(r.squares if drawn else r.hard for r, drawn in rows)
    ordered = _objects(r.ordered for r, _ in rows)
    for at, (tables,) in _alike(counts):
        for name, values in measure(tables).items():
            columns[name][at] = values
    for at, pair in _alike(counts, squares):
        found = corrected_tables(*pair)
        columns["violation_corrected"][at], columns["utility_corrected"][at] = found
    for at, (tables,) in _alike(ordered):
        columns["score_violation"][at] = conditional_mutual_information(tables)
        columns["score_violation_corrected"][at] = corrected_tables(tables, tables)[0]
    numbers = {"auroc": "auroc", "score_gap": "score_gap", "train_seconds": "seconds"}
    for name, field in numbers.items():
        columns[name] = np.array([getattr(r, field) for r, _ in rows], dtype=np.float64)
    cuts = [np.nan if drawn else r.threshold for r, drawn in rows]
    columns["threshold"] = np.array(cuts, dtype=np.float64)
    columns["status"] = np.array([r.status for r, _ in rows])
    columns["message"] = np.array([r.message for r, _ in rows], dtype=object)
    return columns | {"counts": counts, "squares": squares, "ordered": ordered}


def means(columns: Columns) -> Columns:
    """Mean and standard deviation over folds and seeds, per series, policy and λ.

    Returns:
        The columns that say what it is; `folds`, how many records the mean is of; for each metric
        its mean under its own name and its standard deviation (n − 1) as `<metric>_sd`. Runs that
        are not "ok" take no part; `lost` counts them.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(columns[name].tolist() for name in _POINT), strict=True)):
        groups.setdefault(key, []).append(i)
    out: Columns = {
        name: np.array([key[place] for key in groups], dtype=columns[name].dtype)
        for place, name in enumerate(_POINT)
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


def _objects(tables: Iterable[Any]) -> NDArray[Any]:
    """One object a row, whatever their shapes."""
    found = list(tables)
    out = np.empty(len(found), dtype=object)
    for i, table in enumerate(found):
        out[i] = table
    return out


def _alike(*columns: NDArray[Any]) -> Iterator[tuple[list[int], list[NDArray[np.float64]]]]:
    """The rows that have all these tables, those of one shape at a time, with stacks of them."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for i, tables in enumerate(zip(*columns, strict=True)):
        if all(table is not None for table in tables):
            shapes.setdefault(tables[0].shape, []).append(i)
    for rows in shapes.values():
        yield rows, [np.stack([column[i] for i in rows]) for column in columns]
