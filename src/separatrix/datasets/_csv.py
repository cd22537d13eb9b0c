"""Delimited text to columns, with the standard library alone: one pass, only the wanted columns,
chunks of rows.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from separatrix.datasets._columns import Values, from_codes, parsed
from separatrix.errors import DataError

__all__ = ["read_csv"]

_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL"})
_CHUNK = 2_000  # rows of text in memory at a time; more are not faster


def read_csv(
    lines: Iterable[str],
    *,
    source: str,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    missing: frozenset[str] = _MISSING,
) -> dict[str, Values]:
    """Columns of delimited text: numbers where every value is one, else categories.

    Args:
        lines: the text, line by line.
        source: what to call it in an error.
        header: the names, where the first line does not hold them.
        only: the columns to keep; the others never leave this function.
        missing: texts that stand for a missing value.

    Raises:
        DataError: a column of `only` is not there, or a row has another number of fields than the
            header.

    >>> read_csv(["age,job", "41,cook", "NA,nurse"], source="example")["age"]
    array([41., nan])
    """
    rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    names = _distinct(next(rows, []) if header is None else header)
    wanted = names if only is None else list(only)
    absent = [name for name in wanted if name not in names]
    if absent or not names:
        raise DataError(
            f"{source} has no column {absent[0]!r}: its columns are {', '.join(names[:20])}. Is "
            f"it the right file?"
            if absent
            else f"{source} is empty."
        )
    index = {name: names.index(name) for name in wanted}
    places: dict[str, defaultdict[str, int]] = {name: defaultdict() for name in wanted}
    codes: dict[str, list[NDArray[np.int32]]] = {name: [] for name in wanted}
    for place in places.values():
        place.default_factory = place.__len__
    try:
        while block := list(islice(rows, _CHUNK)):
            chunk = [row for row in block if row]  # blank lines
            if not chunk:
                continue
            if set(map(len, chunk)) != {len(names)}:
                bad = next(row for row in chunk if len(row) != len(names))
                raise DataError(
                    f"{source}, near line {rows.line_num:,}: a row has {len(bad)} fields "
                    f"({', '.join(bad)[:60]}), the "
                    f"header {len(names)}. The file is truncated or damaged, or its delimiter is "
                    f"not {delimiter!r}."
                )
            table = list(zip(*chunk, strict=True))
            for name in wanted:
                column = map(places[name].__getitem__, table[index[name]])
                codes[name].append(np.fromiter(column, dtype=np.int32, count=len(chunk)))
    except csv.Error as error:
        raise DataError(f"{source}, line {rows.line_num:,}: {error}.") from error
    return {
        name: _typed(np.concatenate(codes[name] or [np.empty(0, np.int32)]), places[name], missing)
        for name in wanted
    }


def _typed(codes: NDArray[np.int32], places: Mapping[str, int], missing: frozenset[str]) -> Values:
    texts = [None if text.strip() in missing else text.strip() for text in places]
    numbers = parsed([text for text in texts if text is not None])
    if numbers is None or not len(numbers):
        return from_codes(codes, texts)
    values = np.full(len(texts), np.nan)
    values[[place for place, text in enumerate(texts) if text is not None]] = numbers
    return values[codes]


def _distinct(names: Iterable[str]) -> list[str]:
    """Column names, a repeated one with a number behind it, as pandas writes them."""
    seen: dict[str, int] = {}
    out = []
    for name in (name.strip().removeprefix("\ufeff") for name in names):
        out.append(f"{name}.{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return out
