"""`trace`: a method's path over all folds into a folder."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from separatrix import datasets
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.io import write_whole
from separatrix.runs.jobs import Job, Source, grid
from separatrix.runs.runner import plain, run
from separatrix.runs.store import ALL_ROWS, Store
from separatrix.tracing.frontier import FORMAT, MANIFEST, ROWS, Frontier, read_manifest
from separatrix.tracing.rows import as_data

__all__ = ["trace", "trace_data"]


def trace(
    X: Any,
    y: ArrayLike,
    *,
    sensitive_features: Any,
    method: str | Sequence[str] = "cmi",
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    references: bool = True,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Train a method along its path of trade-offs, on every fold, and measure each point on the
    rows it did not see.

    Args:
        X: features: a dataframe of any library that narwhals takes, a mapping of columns, or a
            numeric array. Text is one-hot, numbers are scaled with the statistics of the training
            rows.
        y: labels, two or more.
        sensitive_features: groups; several columns make their intersection. A column of X of the
            same name is left out of X.
        method: one or more of `methods.names()`.
        trade_offs: λ; by default the method's own grid.
        cv: folds, stratified on (label, group).
        random_state: seed of the folds and of the networks.
        references: also trace `postprocessing` (the post-processing of ERM, which costs next to
            nothing), ERM with and without the group as an input, and the exact limit of
            post-processing.
        jobs: processes.
        out: folder that the frontier is written to; calling again with the same folder resumes. By
            default a temporary one: `Frontier.save` keeps it.
        progress: a live table on stderr; by default if that is a terminal.

    Returns:
        The frontier.
    """
    return trace_data(
        as_data(X, y, sensitive_features),
        name="data",
        method=method,
        trade_offs=trade_offs,
        cv=cv,
        random_state=random_state,
        references=references,
        jobs=jobs,
        out=out,
        progress=progress,
    )


def trace_data(
    data: Data,
    *,
    name: str,
    method: str | Sequence[str] = "cmi",
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    references: bool = True,
    jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
    backend: str = "local",
    scheduler: str | None = None,
) -> Frontier:
    """`trace` of data that are loaded already, under a name."""
    wanted = list(dict.fromkeys([method] if isinstance(method, str) else method))
    if not wanted:
        raise InputError("`method` is empty: pass at least one name, such as 'cmi'.")
    grid_of = None if trade_offs is None else tuple(float(t) for t in trade_offs)
    todo = [Job(m, grid_of, keep=True) for m in wanted]
    if references:
        todo += [Job(m, keep=True) for m in ("postprocessing", "erm") if m not in wanted]
        todo.append(Job("erm", inputs="x", keep=True))
    source = Source(name, data=data)
    stacks = grid(
        [source], todo, folds=cv, seeds=(random_state,), split_seed=random_state, final=True
    )
    missing = [m for m in wanted if m not in {stack.job.method for stack in stacks}]
    if missing:
        raise InputError(
            f"The method {missing[0]!r} cannot learn {len(data.labels)} labels and "
            f"{len(data.groups)} groups. "
            "`separatrix methods` lists what each takes; 'cmi' takes any."
        )
    folder = Path(tempfile.mkdtemp(prefix="separatrix-") if out is None else out)
    try:
        _check_same(folder, name, data)
        run(stacks, folder, jobs=jobs, progress=progress, backend=backend, scheduler=scheduler)
        _check_outcome(folder, wanted)
        _describe(folder, name, data, cv, random_state)
        frontier = Frontier(folder)
        if references:
            frontier.add_limit()
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:  # a temporary folder lives as long as its frontier
        weakref.finalize(frontier, shutil.rmtree, folder, ignore_errors=True)
    return frontier


def _describe(folder: Path, name: str, data: Data, cv: int, seed: int) -> None:
    """Write what is the same for all points: rows, names, preprocessing of each fold."""
    from safetensors.numpy import save

    fold = datasets.folds(data.y, data.z, cv, seed)
    fitted = {k: data.prepared(np.flatnonzero(fold != k))[1] for k in (ALL_ROWS, *range(cv))}
    manifest = {
        "format": FORMAT,
        "name": name,
        "data": Source(name, data=data).fingerprint(),
        "rows": len(data),
        "folds": cv,
        "seed": seed,
        "labels": [plain(label) for label in data.labels],
        "groups": [plain(group) for group in data.groups],
        "features": list(data.features),
        "target": data.target,
        "grouping": None if data.grouping is None else data.grouping.to_dict(),
        "preprocessing": {str(k): None if p is None else p.to_dict() for k, p in fitted.items()},
        "card": data.card.to_dict(),
    }
    arrays = {
        "y": data.y.astype(np.int64),
        "z": data.z.astype(np.int64),
        "fold": fold.astype(np.int64),
    }
    write_whole(folder / ROWS, save(arrays))
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _check_outcome(folder: Path, wanted: Sequence[str]) -> None:
    """A frontier without a single point of what was asked for is no frontier."""
    with Store(folder) as store:
        records = store.records()
    for name in wanted:
        own = [record for record in records if record.question["method"] == name]
        if not any(record.status == "ok" for record in own):
            raise DataError(f"Every run of {name!r} is lost ({own[0].status}): {own[0].message}.")


def _check_same(folder: Path, name: str, data: Data) -> None:
    """A folder belongs to one dataset: its models and its preprocessing would not fit another's."""
    if (folder / MANIFEST).is_file():
        known = read_manifest(folder)
        if known["data"] != Source(name, data=data).fingerprint():
            raise InputError(
                f"{str(folder)!r} holds the frontier of other rows ({known['name']!r}, "
                f"{known['rows']:,} rows). "
                "Pass another folder, or remove that one."
            )
