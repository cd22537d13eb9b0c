"""Running a sweep: skip what is finished, work on the rest (locally or on Dask), write records.

Only this process writes. A stack's models are renamed into place before its records are committed,
so what the records call finished is there; a kill at any moment loses at most the stacks in
progress, and the next run does them again. Two processes on one folder may do the same stack twice:
both find the same numbers, and the first record stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from separatrix.columns.groups import to_plain
from separatrix.datasets import Data
from separatrix.errors import InputError, MissingExtraError
from separatrix.frontier.sweep.jobs import Stack
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.progress import live_table
from separatrix.frontier.sweep.saved import MODELS, model_file, write_run
from separatrix.frontier.sweep.store import Store
from separatrix.frontier.sweep.work import Answer, forget, work
from separatrix.io import interactive, remove_stale
from separatrix.processes import in_processes

__all__ = ["BACKENDS", "Execution", "Outcome", "describe", "run"]

BACKENDS = ("local", "dask")


@dataclass(frozen=True)
class Outcome:
    """How a run ended: how many records it found finished, how many of each status it added."""

    skipped: int
    added: Mapping[str, int]


@dataclass(frozen=True)
class Execution:
    """Where and how the work is done; nothing in here changes a number.

    Args:
        n_jobs: local processes; −1 for all cores.
        backend: "local" or "dask".
        scheduler: address of the Dask scheduler, such as "tcp://host:8786".
        timeout: seconds after which a stack is given up; None for never.
        progress: a live table on stderr; by default if that is a terminal.
    """

    n_jobs: int = 1
    backend: str = "local"
    scheduler: str | None = None
    timeout: float | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise InputError(
                f"`backend` must be one of {', '.join(BACKENDS)}, got {self.backend!r}."
            )
        if (self.backend == "dask") != (self.scheduler is not None):
            raise InputError(
                "`scheduler` is the address of a Dask scheduler: pass it with backend='dask', and "
                "only then."
            )
        if self.n_jobs == 0 or self.n_jobs < -1:
            raise InputError(
                f"`n_jobs` must be a number of processes, or -1 for all cores, got {self.n_jobs}."
            )


HERE = Execution()


def run(stacks: Sequence[Stack], folder: str | Path, execution: Execution = HERE) -> Outcome:
    """Work on every run that has no final record yet.

    Args:
        stacks: from `grid`.
        folder: of the records; made if need be.
        execution: where and how.

    Returns:
        Counts of what was skipped and added.
    """
    show = interactive() if execution.progress is None else execution.progress
    added: dict[str, int] = {}
    with Store(folder) as store:
        remove_stale(store.folder)
        remove_stale(store.folder / MODELS)
        _check_protocol(stacks, store)
        todo = _unfinished(stacks, store)
        skipped = sum(len(s.runs) for s in stacks) - sum(len(s.runs) for s in todo)
        for source in {id(stack.source): stack.source for stack in stacks}.values():
            store.describe(source.name, describe(source.load()))
        try:
            with live_table(stacks, todo, show) as advance:
                for stack, answer in _answers(todo, execution):
                    _write(store, stack, answer)
                    advance(stack, answer)
                    for record in answer.records:
                        added[record.status] = added.get(record.status, 0) + 1
        finally:
            forget()
    return Outcome(skipped, added)


def describe(data: Data) -> dict[str, Any]:
    """What a reader of the records must know of a dataset, as plain JSON."""
    return {
        "labels": [to_plain(label) for label in data.labels],
        "groups": [to_plain(group) for group in data.groups],
        "cells": data.cells.tolist(),
        "rows": len(data),
        "features": list(data.features),
        "target": data.target,
        "sensitive": None if data.grouping is None else list(data.grouping.columns),
        "card": data.card.to_dict(),
    }


_SAID = {
    "fingerprint": "other rows",
    "details": "another recipe",
    "source": "other code of that method",
    "version": "another version of separatrix",
}


def _check_protocol(stacks: Sequence[Stack], store: Store) -> None:
    """A folder holds one result per series: means over two protocols mean nothing."""
    known = {record.run.series: record.run for record in store.records()}
    for stack in stacks:
        asked = stack.runs[0]
        there = known.get(asked.series, asked).protocol
        for name, value in asked.protocol.items():
            if there[name] != value:
                raise InputError(
                    f"{str(store.folder)!r} holds records of {asked.method!r} on {asked.dataset!r} "
                    f"with {_SAID.get(name) or f'{name} = {there[name]}'}. Pass another folder, or "
                    "remove that one."
                )


def _unfinished(stacks: Sequence[Stack], store: Store) -> list[Stack]:
    """What is left to do, the stacks of one fold together: they share the prepared rows."""
    done = store.finished()
    todo = []
    for stack in stacks:
        missing = tuple(run for run in stack.runs if run.key not in done)
        if stack.job.keep:  # the file is of the whole stack
            there = model_file(store.folder, stack.key).is_file()
            missing = stack.runs if missing or not there else ()
        if missing:
            todo.append(replace(stack, runs=missing))
    return sorted(todo, key=lambda stack: (stack.source.name, stack.fold == ALL_ROWS, stack.fold))


def _answers(stacks: list[Stack], how: Execution) -> Iterator[tuple[Stack, Answer]]:
    if how.scheduler is not None:
        return _on_dask(stacks, how)
    if how.n_jobs == 1 or len(stacks) <= 1:
        return ((stack, work(stack, how.timeout)) for stack in stacks)
    return _in_processes(stacks, how)


def _in_processes(stacks: list[Stack], how: Execution) -> Iterator[tuple[Stack, Answer]]:
    from joblib import delayed

    calls = (delayed(_numbered)(i, stack, how.timeout) for i, stack in enumerate(stacks))
    with in_processes(calls, how.n_jobs, in_order=False) as answers:
        for i, answer in answers:
            yield stacks[i], answer


def _numbered(i: int, stack: Stack, timeout: float | None) -> tuple[int, Answer]:
    return i, work(stack, timeout)


def _on_dask(
    stacks: list[Stack], how: Execution, patience: float = 20
) -> Iterator[tuple[Stack, Answer]]:
    if not find_spec("distributed"):
        raise MissingExtraError(
            "The Dask backend needs distributed: pip install 'separatrix[engines]'."
        )
    from distributed import Client, as_completed

    try:
        client = Client(how.scheduler, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {how.scheduler!r}: {error}. Start one with `dask "
            "scheduler`."
        ) from error
    with client:
        # the user's own rows travel once, as a task: should their worker die, the scheduler makes
        # them again elsewhere
        own = {id(s.source): s.source for s in stacks if s.source.data is not None}
        data = {key: client.submit(_same, source, pure=False) for key, source in own.items()}
        futures = {}
        for i, stack in enumerate(stacks):
            light = replace(stack, source=replace(stack.source, data=None))
            rows = data.get(id(stack.source))
            task = client.submit(_with_source, light, rows, how.timeout, pure=False, retries=3)
            futures[task] = i
        for future in as_completed(futures, loop=client.loop):
            yield stacks[futures[future]], future.result()
            future.release()


def _same(value: Any) -> Any:
    return value


def _with_source(stack: Stack, source: Any, timeout: float | None) -> Answer:
    return work(stack if source is None else replace(stack, source=source), timeout)


def _write(store: Store, stack: Stack, answer: Answer) -> None:
    """Models first, then the records that say they are there."""
    if answer.arrays is not None and answer.held_out is not None:
        place = model_file(store.folder, stack.key)
        write_run(place, stack.runs, answer.arrays, answer.held_out)
    store.add(answer.records)
