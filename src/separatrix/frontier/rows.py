"""What is traced: the settings, and the caller's X, y and groups as `Data`, with names.

And what must be said about the rows before anybody believes a number: a leak, a group of a handful
of rows, a base model that has learnt nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from separatrix import datasets
from separatrix.columns.frames import as_frame, check_present, column_names, names_of
from separatrix.columns.groups import group_columns, group_name
from separatrix.columns.readers import read_table
from separatrix.columns.values import as_array, check_lengths
from separatrix.core.measures import criterion_named
from separatrix.core.numbers import whole_number
from separatrix.crossfit.proxies import leaks
from separatrix.datasets import Data
from separatrix.errors import InputError
from separatrix.frontier.sweep import HERE, Execution

_UNIT = "(unit)"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to trace; each is an argument of `trace`, and `execution` says where the work is done."""

    estimator: Any = None
    max_eo_gap: float = 0.05
    blind: bool = False
    criterion: str = "separation"
    method: str | Sequence[str] | None = None
    trade_offs: Sequence[float] | None = None
    cv: int = 5
    random_state: int = 0
    out: str | Path | None = None
    sensitive: str = "groups"
    levels: int = 16
    execution: Execution = HERE

    def __post_init__(self) -> None:
        object.__setattr__(self, "cv", whole_number(self.cv, "cv"))
        object.__setattr__(self, "levels", whole_number(self.levels, "levels", least=2))
        criterion_named(self.criterion)
        if self.trade_offs is not None and not self.methods:
            raise InputError("`trade_offs` are the λ of trained paths: pass `method` too, as 'cmi'.")

    @property
    def methods(self) -> list[str]:
        """The trained paths that were asked for, as "cmi" or with a recipe, as "cmi:score"."""
        asked = [] if self.method is None else self.method
        return list(dict.fromkeys([asked] if isinstance(asked, str) else asked))

    def check_folds(self, rows: int) -> None:
        """Refuse a number of folds that these rows do not allow."""
        if rows < 3:
            raise InputError(f"The table has {rows:,} rows, too few for the three folds of a trace: pass more rows.")
        if not 3 <= self.cv <= rows:  # a model that saw neither of two folds needs a third
            raise InputError(f"`cv` must be between 3 and the {rows:,} rows, got {self.cv}.")


def as_data(X: Any, y: Any, sensitive_features: Any, units: Any = None, min_level_rows: int = 1) -> Data:
    """Columns, labels and groups as one table with names.

    Args:
        X, y, sensitive_features: of every row.
        units: who each row is about; None where every row is about another person.
        min_level_rows: levels of fewer rows are joined as "(other)".
    """
    groups = group_columns(sensitive_features)
    target, labels = one_column(y)
    if isinstance(X, np.memmap):
        return _matrix_data(X, labels, groups)
    features = features_of(X)
    if target in features or target in groups:
        raise InputError(f"The label column {target!r} is also in `X` or in `sensitive_features`. Leave it out there.")
    table = {**features, **groups, target: labels}
    table |= {} if units is None else {_UNIT: one_column(units)[1]}
    check_lengths(table)
    return datasets.from_frame(
        table, target=target, sensitive=list(groups), name="data", min_level_rows=min_level_rows,
        unit=None if units is None else _UNIT,
    )  # fmt: skip


def _matrix_data(X: NDArray[Any], labels: Any, groups: Mapping[str, Any]) -> Data:
    """Rows that stay on disk: used as they are, without preprocessing."""
    few = {**groups, "(target)": labels, "(row)": np.arange(len(X)) % 2}
    check_lengths(few)
    coded = datasets.from_frame(few, target="(target)", sensitive=list(groups), name="data")
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    rows = coded.y, coded.z, coded.labels, coded.groups, coded.card
    return Data(*rows, matrix=X, matrix_names=names)


def split_table(table: Any, target: str, sensitive: Any) -> tuple[Any, Any, dict[str, Any]]:
    """A table by the names of its columns: features, labels and groups.

    Args:
        table: a frame, a mapping of columns, or the path of a file.
        target, sensitive: names of columns. The groups' columns stay among the features, where
            `as_data` knows them again.
    """
    table = read_table(table) if isinstance(table, str | Path) else table
    names = names_of(sensitive, "sensitive_features")
    check_present([target, *names], column_names(table, "X"), "the table")
    if isinstance(table, Mapping):
        X = {name: column for name, column in table.items() if name != target}
        return X, {target: table[target]}, {name: table[name] for name in names}
    frame = as_frame(table, "X")
    assert frame is not None  # it has names
    whole = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    groups = {name: whole[name].to_native() for name in names}
    return whole.drop(target).to_native(), {target: whole[target].to_native()}, groups


def one_column(y: Any) -> tuple[str, Any]:
    if isinstance(y, list | tuple):
        return "target", y
    (target, labels), *more = group_columns(y, "target").items()
    if more:
        raise InputError(
            f"`y` must be one column, got {1 + len(more)}: {target}, {', '.join(name for name, _ in more)}."
        )
    return target, labels


def features_of(X: Any) -> dict[str, Any]:
    """Columns by name of a frame or a mapping; those of an array are x0, x1, …"""
    if isinstance(X, list | np.ndarray):
        array = as_array(X, "X")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise InputError(f"`X` must have one row per person, got shape {array.shape}.")
        return {f"x{i}": array[:, i] for i in range(array.shape[1])}
    return group_columns(X, "x")


_FEW = 20  # rows of one label of a group: a rate of them has an error of about 0.1

_LOOKED_AT = 5_000  # rows that tell how often a column repeats a value


def repeated_rows(data: Data) -> list[str]:
    """A note about exact copies of rows, where independent columns would repeat far fewer."""
    n = len(data)
    if data.units is not None or n < 2:
        return []
    rng, columns = np.random.default_rng(0), (data.y, data.z, *data.X.T)
    sums = np.zeros(n)  # equal rows have equal sums; others almost surely not
    for column in columns:
        sums += rng.standard_normal() * np.asarray(column, dtype=np.float64)
    distinct = np.unique(sums, return_index=True)[1]
    some = rng.permutation(distinct)[:_LOOKED_AT]
    pairs = 0.5 * n * (n - 1.0)  # that would agree in all columns, were these independent
    for column in columns:
        counts = np.unique(column[some], return_counts=True)[1]
        pairs *= (counts * (counts - 1.0)).sum() / max(len(some) * (len(some) - 1.0), 1.0)
    copies = n - len(distinct)
    if copies <= 0.01 * n + 10.0 * pairs:
        return []
    return [
        f"{copies:,} of {n:,} rows are exact copies of others. If they are about the same people, the promises are "
        "too good: leave the copies out, or say who each row is about with `groups` (--unit COLUMN)."
    ]


def leaking_columns(data: Data, random_state: int = 0) -> list[str]:
    """A note for each column that alone predicts the label."""
    areas = leaks(data.columns or data.X, data.y, random_state=random_state)
    return [
        f"`{name}` alone predicts {data.target!r} (AUROC {area:.3f}). If it is not known when you "
        "decide, it is a leak: leave it out."
        for name, area in areas.items()
    ]


def few_rows(data: Data) -> list[str]:
    """One note about the groups whose rates of some label are those of a handful of rows."""
    least, columns = data.cells.min(0), () if data.grouping is None else data.grouping.columns
    few = [f"{group_name(group, columns)!r} ({least[z]})" for z, group in enumerate(data.groups) if least[z] < _FEW]
    if not few:
        return []
    more = f" and {len(few) - 5} more" if len(few) > 5 else ""
    return [
        f"Fewer than {_FEW} rows of some label: {', '.join(few[:5])}{more}. The rates of so few "
        "people are mostly chance. Join such groups, or read their gaps with their errors."
    ]


def useless_model(scores: NDArray[Any], y: NDArray[np.intp]) -> list[str]:
    """A note where unseen rows are predicted no better than by the share of each label.

    Args:
        scores: P(y | row) of rows that the model did not see, (n, K).
        y: codes of their labels.
    """
    share = np.bincount(y, minlength=scores.shape[1]) / len(y)
    log_likelihood = np.log(np.maximum(scores[np.arange(len(y)), y], 1e-12))
    gain = log_likelihood - np.log(share[y])
    if gain.mean() > gain.std() / np.sqrt(len(y)):
        return []
    return [
        "The base model predicts unseen rows no better than the share of each label does (log-loss "
        f"{-log_likelihood.mean():.3f} against {-np.log(share[y]).mean():.3f}). No rule can mend that: bring "
        "other columns, or pass another `estimator`."
    ]
