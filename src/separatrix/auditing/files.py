"""CSV and Parquet files of any size: only the small table comes into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from separatrix.auditing.arrays import count_table
from separatrix.auditing.frames import Labels, Names, count_source
from separatrix.columns.engines import is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import check_roles, given
from separatrix.columns.readers import find_files, is_large
from separatrix.columns.sources import Source
from separatrix.columns.text import read_files
from separatrix.core.counts import CountTable

__all__ = ["count_files"]


def count_files(
    path: str | Path,
    *,
    y: str,
    z: Names,
    pred: Names,
    weight: str | None = None,
    labels: Labels = None,
) -> CountTable:
    """The table behind `audit` of files; the other arguments are those of `count_frame`."""
    groups, predictions = check_roles(y, z, pred, weight)
    wanted = given(y, *groups, *predictions, weight)
    files = find_files(path)
    if is_parquet(files[0]) or is_large(files):
        found = scan(files)
        return count_source(Source.of_scan(found), y, groups, predictions, weight, labels)
    columns = read_files(files, wanted)
    names = (y, " & ".join(groups), ", ".join(predictions))
    u = columns[predictions[0]]
    if len(predictions) > 1:
        u = np.column_stack([as_numbers(columns[name], name) for name in predictions])
    z_columns = {name: columns[name] for name in groups}
    w = as_numbers(columns[weight], weight) if weight is not None else None
    return count_table(columns[y], u, z_columns, w, labels, names=names)
