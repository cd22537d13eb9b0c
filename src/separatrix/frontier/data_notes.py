"""What must be said about the rows before anybody believes a number: a leak, a group of a handful
of rows, a base model that has learnt nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.crossfit.proxies import leaks
from separatrix.datasets import Data

__all__ = ["few_rows", "leaking_columns", "repeated_rows", "useless_model"]

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
        f"{copies:,} of {n:,} rows are exact copies of others. If they are about the same people, "
        "the promises are too good: leave the copies out, or say who each row is about with "
        "`groups` (--unit COLUMN)."
    ]


def leaking_columns(data: Data, random_state: int = 0) -> list[str]:
    """A note for each column that alone predicts the label."""
    found = leaks(data.columns or data.X, data.y, random_state=random_state)
    return [
        f"`{name}` alone predicts {data.target!r} (AUROC {area:.3f}). If it is not known when you "
        "decide, it is a leak: leave it out."
        for name, area in found.items()
    ]


def few_rows(data: Data) -> list[str]:
    """One note about the groups whose rates of some label are those of a handful of rows."""
    least, columns = data.cells.min(0), () if data.grouping is None else data.grouping.columns
    few = [
        f"{group_name(group, columns)!r} ({least[z]})"
        for z, group in enumerate(data.groups)
        if least[z] < _FEW
    ]
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
    own = np.log(np.maximum(scores[np.arange(len(y)), y], 1e-12))
    gain = own - np.log(share[y])
    if gain.mean() > gain.std() / np.sqrt(len(y)):
        return []
    return [
        "The base model predicts unseen rows no better than the share of each label does (log-loss "
        f"{-own.mean():.3f} against {-np.log(share[y]).mean():.3f}). No rule can mend that: bring "
        "other columns, or pass another `estimator`."
    ]
