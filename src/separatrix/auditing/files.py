"""Audit of CSV and Parquet files of any size: only the small table comes into memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, overload

import numpy as np

from separatrix.auditing.arrays import count_table, refuse_label_options
from separatrix.auditing.continuous import ContinuousAudit
from separatrix.auditing.frames import Labels, Names, check_roles, count_source, named_quantities
from separatrix.auditing.result import Audit
from separatrix.columns.engines import is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import given
from separatrix.columns.quantities import Attribute, Target, check_kinds
from separatrix.columns.readers import find_files, is_large, read_table
from separatrix.columns.sources import Source
from separatrix.columns.text import read_files
from separatrix.core.counts import CountTable

__all__ = ["audit_files", "count_files"]


@overload
def audit_files(
    path: str | Path,
    *,
    y: str,
    z: Names,
    pred: Names,
    weight: str | None = None,
    labels: Labels = None,
    target: Literal["labels"] = "labels",
    sensitive: Literal["groups"] = "groups",
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> Audit: ...


@overload
def audit_files(
    path: str | Path,
    *,
    y: str,
    z: Names,
    pred: Names,
    weight: str | None = None,
    target: Target = "labels",
    sensitive: Attribute = "groups",
    confidence: float = 0.95,
    random_state: int = 0,
) -> ContinuousAudit: ...


def audit_files(
    path: str | Path,
    *,
    y: str,
    z: Names,
    pred: Names,
    weight: str | None = None,
    labels: Labels = None,
    target: Target = "labels",
    sensitive: Attribute = "groups",
    confidence: float = 0.95,
    guarantee: str = "finite-sample",
    composition: str | None = None,
    random_state: int = 0,
) -> Audit | ContinuousAudit:
    """Audit predictions in files: one CSV or Parquet file or a pattern, larger than memory too.

    The other arguments are those of `audit_frame`; `columns.text` says how CSV is understood.
    """
    if check_kinds(target, sensitive):
        refuse_label_options(labels, guarantee, composition)
        columns = partial(read_table, path)
        rows = named_quantities(columns, y, z, pred, weight, target, sensitive)
        return ContinuousAudit.of(rows, confidence, random_state)
    table = count_files(path, y=y, z=z, pred=pred, weight=weight, labels=labels)
    return Audit.of(table, confidence, random_state, guarantee=guarantee, composition=composition)


def count_files(
    path: str | Path,
    *,
    y: str,
    z: Names,
    pred: Names,
    weight: str | None = None,
    labels: Labels = None,
) -> CountTable:
    """The table behind `audit_files`, arguments as there."""
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
