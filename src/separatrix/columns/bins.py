"""Numbers as a few groups: quantile bins of a sensitive column such as age.

A column of numbers with more than `FEW` distinct values makes no groups of its own: most would be
tiny. It is cut at its quartiles. The edges are values that occur, they are saved with the model,
and every number falls into one bin, so new rows are binned in the same way.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import is_number, raw_values
from separatrix.columns.values import Coded, as_levels, level_text
from separatrix.errors import InputError

__all__ = ["FEW", "bin_labels", "binned", "edges_of", "numbers_of", "quantile_edges"]

FEW = 12
_BINS = 4


def edges_of(
    columns: Mapping[str, Any], categorical: Sequence[str] = ()
) -> dict[str, tuple[float, ...]]:
    """The edges of those sensitive columns that must be put into bins.

    >>> edges_of({"age": list(range(18, 66)), "race": [1, 2, 3] * 16})
    {'age': (30.0, 42.0, 54.0)}
    """
    found = {}
    for name, values in columns.items():
        numbers = None if name in categorical else numbers_of(values, name)
        if numbers is not None and len(np.unique(numbers[~np.isnan(numbers)])) > FEW:
            found[name] = quantile_edges(numbers)
    return found


def numbers_of(values: Any, name: str) -> NDArray[np.float64] | None:
    """A column of numbers as such; None for text, booleans, dates and tuples."""
    if isinstance(values, Coded):
        return None
    if isinstance(values, list | tuple) and any(isinstance(one, tuple | bool) for one in values):
        return None
    raw = raw_values(values, name)
    if isinstance(raw, Coded) or raw.dtype.kind != "f":
        return None
    return np.where(np.isinf(raw), np.nan, raw)  # infinite ones are refused later


def quantile_edges(x: NDArray[np.float64]) -> tuple[float, ...]:
    """Inner edges of about four bins with as many rows each; NaN is left out.

    >>> quantile_edges(np.arange(18.0, 66.0))
    (30.0, 42.0, 54.0)
    >>> quantile_edges(np.array([0.0] * 90 + [1.0, 2.0, 3.0]))
    (1.0,)
    """
    known = np.sort(x[~np.isnan(x)])
    cuts = np.quantile(known, np.arange(1, _BINS) / _BINS, method="higher")
    edges = np.unique(cuts[cuts > known[0]])
    if not len(edges):  # one value has most of the rows: it against the rest
        edges = known[known > known[0]][:1]
    return tuple(edges.tolist())


def bin_labels(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of the bins.

    >>> bin_labels((28.0, 41.5))
    ('below 28', '28 to below 41.5', '41.5 or more')
    """
    texts = list(map(level_text, edges))
    middle = (f"{low} to below {high}" for low, high in pairwise(texts))
    return (f"below {texts[0]}", *middle, f"{texts[-1]} or more")


def binned(values: Any, edges: Sequence[float], name: str) -> Coded:
    """The bin of each row, codes in the order of the bins; a bin's name is taken as well.

    >>> binned(["41", 17, None, "28 to below 41.5"], (28.0, 41.5), "age").codes
    array([ 1,  0, -1,  1])
    """
    labels = bin_labels(edges)
    coded = as_levels(values, name, missing=True)
    place = [_bin(level, edges, labels, name) for level in coded.levels]
    return Coded(np.array([*place, -1], dtype=np.intp)[coded.codes], labels)


def _bin(level: Hashable, edges: Sequence[float], labels: tuple[str, ...], name: str) -> int:
    if level in labels:
        return labels.index(str(level))
    text = level_text(level)
    if isinstance(level, bool) or not is_number(text):
        raise InputError(
            f"`{name}` holds {level!r}; its groups are made of numbers: {', '.join(labels)}."
        )
    return int(np.searchsorted(edges, float(text), "right"))
