r"""Which columns give the group away?

Leaving the group out of X does not hide it where other columns stand in for it. For each column,
and for all of them together, this measures how well the group is told from it on rows that were
not used to learn it:

.. math:: \mathrm{AUROC} = P(S_1 > S_0) + \tfrac12 P(S_1 = S_0), \qquad S = \hat P(Z = 1 \mid x)

0.5 is a coin, 1 gives the group away. For more than two groups it is the mean over groups of one
against the rest. A column is a histogram (at most 32 quantile bins, or its categories), all
columns are small boosted trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import Values, raw_columns, take
from separatrix.columns.frames import column_names
from separatrix.columns.groups import as_groups
from separatrix.columns.values import Coded, check_lengths
from separatrix.core.numerics import dealt
from separatrix.crossfit.base_models import posteriors
from separatrix.nn.networks import auroc

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

_ROWS = 20_000  # looked at, at most
_FOLDS = 3
_BINS = 32  # of a column of numbers
_PSEUDO = 2.0  # rows of the pooled shares that each bin starts with
_LEVELS = 60  # of a category in the trees; rarer ones are one level
_LEAK = 0.99  # AUROC of one column
_HARDLY, _SHOWN = 0.55, 0.6  # AUROC below which nothing is said to be told


@dataclass(frozen=True)
class Proxies:
    """How well the group is told from the features, by AUROC on rows not learnt from.

    Args:
        overall: from all columns together.
        by_column: from each column alone, the largest first.
        rows: rows that were looked at.
    """

    overall: float
    by_column: Mapping[str, float]
    rows: int

    def __str__(self) -> str:
        shown = [(name, area) for name, area in self.by_column.items() if area >= _SHOWN][:3]
        if self.overall < _HARDLY and not shown:
            return f"The group can hardly be told from X (AUROC {self.overall:.2f})."
        text = f"The group can be told from X with AUROC {self.overall:.2f}"
        if not shown:
            return f"{text}; no single column says much about it."
        return f"{text}; most from {', '.join(f'`{name}` ({area:.2f})' for name, area in shown)}."


def proxies(X: Any, z: Any, *, random_state: int = 0) -> Proxies:
    """How well the group is told from each column and from all of them.

    Args:
        X: a frame, a mapping of column name to values (text, numbers, dates), or a matrix, whose
            columns are called x0, x1, …
        z: the group of every row; several columns make their intersection.
        random_state: seed of the folds and of the 20,000 rows that are looked at, at most.

    >>> rng = np.random.default_rng(0)
    >>> sex = rng.choice(["f", "m"], 2_000)
    >>> title = np.where(rng.random(2_000) < 0.6, np.where(sex == "f", "Ms", "Mr"), "Dr")
    >>> print(proxies({"title": title, "age": rng.normal(size=2_000)}, sex))
    The group can be told from X with AUROC 0.93; most from `title` (0.93).
    """
    columns, codes, fold = _looked_at(X, as_groups(z, "z").codes, random_state)
    areas = {name: _of_column(values, codes, fold) for name, values in columns.items()}
    ordered = dict(sorted(areas.items(), key=lambda item: -item[1]))
    overall = _of_all(columns, codes, fold, random_state)
    return Proxies(overall, ordered, len(codes))


def leaks(X: Any, y: Codes, *, random_state: int = 0) -> dict[str, float]:
    """The columns that alone predict the label, with their AUROC on rows not learnt from.

    Args:
        X: as in `proxies`.
        y: codes of the labels.
        random_state: as in `proxies`.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> list(leaks({"age": rng.normal(size=500), "outcome_code": y + 3}, y))
    ['outcome_code']
    """
    columns, codes, fold = _looked_at(X, y, random_state)
    areas = {name: _of_column(values, codes, fold) for name, values in columns.items()}
    return {name: area for name, area in areas.items() if area >= _LEAK}


def _looked_at(X: Any, codes: NDArray[Any], random_state: int) -> tuple[dict[str, Values], Codes, Codes]:
    """Columns by name, what is told from them, and the fold of every row; at most 20,000 rows."""
    by_place = isinstance(X, list | np.ndarray)
    names = [f"x{i}" for i in range(np.shape(X)[1])] if by_place else column_names(X, "X")
    columns = raw_columns(X, names)
    n = check_lengths({**columns, "z": codes})
    rng = np.random.default_rng(random_state)
    if n > _ROWS:
        rows = np.sort(rng.choice(n, _ROWS, replace=False))
        columns, codes = take(columns, rows), codes[rows]
    return columns, np.unique(codes, return_inverse=True)[1], dealt(codes, _FOLDS, rng)


def _area(z: Codes, fold: Codes, learned: Callable[[NDArray[np.bool_]], Array]) -> float:
    """Mean AUROC of each fold's rows, of the shares (n, groups) learned from the other folds."""
    train = [fold != k for k in range(_FOLDS)]
    return float(np.mean([auroc(learned(rows)[None, ~rows], z[~rows])[0] for rows in train]))


def _of_column(values: Values, z: Codes, fold: Codes) -> float:
    """AUROC of the group's share in the row's bin."""
    size = int(z.max()) + 1

    def shares(train: NDArray[np.bool_]) -> Array:
        bins, last = _bins(values, train)
        pooled = np.bincount(z[train], minlength=size) / train.sum()
        table = np.bincount(bins[train] * size + z[train], minlength=(last + 1) * size)
        table = table.reshape(-1, size) + _PSEUDO * pooled
        return np.asarray((table / table.sum(1, keepdims=True))[bins])

    return _area(z, fold, shares)


def _bins(values: Values, train: NDArray[np.bool_]) -> tuple[Codes, int]:
    """The bin of every row, and the last one, which holds missing values."""
    if isinstance(values, Coded):
        last = len(values.levels)
        return np.where(values.codes < 0, last, values.codes), last
    numbers = _numbers(values)
    known = numbers[train & ~np.isnan(numbers)]
    cuts = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(known) else known
    bins = np.searchsorted(cuts, numbers, side="left")  # a cut belongs to the bin below it
    return np.where(np.isnan(numbers), len(cuts) + 1, bins), len(cuts) + 1


def _numbers(values: NDArray[Any]) -> Array:
    """A column of numbers or dates as float64; missing is NaN."""
    if values.dtype.kind != "M":
        return np.asarray(values, dtype=np.float64)
    return np.where(np.isnat(values), np.nan, values.astype("datetime64[s]").astype(np.float64))


def _of_all(columns: Mapping[str, Values], z: Codes, fold: Codes, random_state: int) -> float:
    """AUROC of boosted trees on all columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    matrix, category = _matrix(columns)
    size = int(z.max()) + 1

    def shares(train: NDArray[np.bool_]) -> Array:
        known = np.where(np.isnan(matrix[train]).all(0), 0.0, matrix)  # the trees need some value
        trees = HistGradientBoostingClassifier(
            max_iter=40 if size == 2 else 15, learning_rate=0.2, max_bins=64, max_leaf_nodes=15,
            categorical_features=category, early_stopping=False, random_state=random_state,
        )  # fmt: skip
        return posteriors(trees.fit(known[train], z[train]), known, size)

    return _area(z, fold, shares)


def _matrix(columns: Mapping[str, Values]) -> tuple[Array, NDArray[np.bool_]]:
    """Numbers, and codes of categories with the commonest first; which columns are categories."""
    parts, category = [], []
    for values in columns.values():
        category.append(isinstance(values, Coded))
        if isinstance(values, Coded):
            count = np.bincount(values.codes[values.codes >= 0], minlength=len(values.levels))
            rank = np.argsort(np.argsort(-count, kind="stable"))
            code = np.minimum(rank[values.codes], _LEVELS) if len(rank) else values.codes
            parts.append(np.where(values.codes < 0, np.nan, code))
        else:
            parts.append(_numbers(values))
    return np.column_stack(parts), np.array(category)
