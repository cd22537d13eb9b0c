"""`trace`: a method's path over all folds into a folder."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.runs.jobs import Job, Source, grid
from separatrix.runs.runner import HERE, Execution, run
from separatrix.runs.store import Store
from separatrix.runs.traced import check_same_rows, write_manifest
from separatrix.tracing.frontier import Frontier
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
    n_jobs: int = 1,
    out: str | Path | None = None,
    progress: bool | None = None,
) -> Frontier:
    """Train a method along its trade-offs on every fold; measure each point on held-out rows.

    Args:
        X: features: a dataframe of any library that narwhals takes, a mapping of columns, or a
            numeric array. Text is one-hot, numbers are scaled by the training rows' statistics.
        y: labels, two or more.
        sensitive_features: groups; several columns make their intersection. A column of X of the
            same name is left out of X.
        method: one or more of `methods.names()`.
        trade_offs: λ; by default the method's own grid.
        cv: folds, stratified on (label, group).
        random_state: seed of the folds and of the networks.
        references: also trace `postprocessing` (of ERM, at little cost), ERM with and without the
            group as an input, and the exact limit of post-processing.
        n_jobs: processes; −1 for all cores.
        out: folder that the frontier is written to; calling again with the same folder resumes. By
            default a temporary one: `Frontier.save` keeps it.
        progress: a live table on stderr; by default if that is a terminal.

    Returns:
        The frontier.
    """
    return trace_data(
        as_data(X, y, sensitive_features), name="data", method=method, trade_offs=trade_offs,
        cv=cv, random_state=random_state, references=references, out=out,
        execution=Execution(n_jobs=n_jobs, progress=progress),
    )  # fmt: skip


def trace_data(
    data: Data,
    *,
    name: str,
    method: str | Sequence[str] = "cmi",
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    references: bool = True,
    out: str | Path | None = None,
    execution: Execution = HERE,
) -> Frontier:
    """`trace` of data that are loaded already, under a name."""
    wanted = list(dict.fromkeys([method] if isinstance(method, str) else method))
    if not wanted:
        raise InputError("`method` is empty: pass at least one name, such as 'cmi'.")
    source = Source(name, data=data)
    todo = _jobs(wanted, trade_offs, references)
    seeds = (random_state,)
    stacks = grid([source], todo, folds=cv, seeds=seeds, split_seed=random_state, final=True)
    missing = [m for m in wanted if m not in {stack.job.method for stack in stacks}]
    if missing:
        raise InputError(
            f"The method {missing[0]!r} cannot learn {len(data.labels)} labels and "
            f"{len(data.groups)} groups. `separatrix methods` lists what each takes; 'cmi' takes "
            "any."
        )
    folder = Path(tempfile.mkdtemp(prefix="separatrix-") if out is None else out)
    try:
        check_same_rows(folder, data)
        run(stacks, folder, execution)
        _check_outcome(folder, wanted)
        write_manifest(folder, name, data, cv, random_state)
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


def _jobs(wanted: Sequence[str], trade_offs: Sequence[float] | None, references: bool) -> list[Job]:
    own = None if trade_offs is None else tuple(float(t) for t in trade_offs)
    jobs = [Job(method, own, keep=True) for method in wanted]
    if references:
        jobs += [Job(m, keep=True) for m in ("postprocessing", "erm") if m not in wanted]
        jobs.append(Job("erm", inputs="x", keep=True))
    return jobs


def _check_outcome(folder: Path, wanted: Sequence[str]) -> None:
    """Refuse a frontier in which a method that was asked for has no point."""
    with Store(folder) as store:
        records = store.records()
    for name in wanted:
        own = [record for record in records if record.run.method == name]
        if not any(record.status == "ok" for record in own):
            raise DataError(f"Every run of {name!r} is lost ({own[0].status}): {own[0].message}.")
