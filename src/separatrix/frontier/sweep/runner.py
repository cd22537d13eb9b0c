"""Running a sweep: skip what is finished, work on the rest (locally or on Dask), write records.

Only this process writes. A stack's models are renamed into place before its records are committed,
so what the records call finished is there. A kill at any moment loses at most the stacks in
progress, and the next run does them again. Two processes on one folder may do the same stack twice:
both find the same numbers, and the first record stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from separatrix.columns.groups import to_plain
from separatrix.datasets import Data
from separatrix.errors import InputError, require
from separatrix.frontier.sweep.jobs import Source, Stack
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import FINAL, Record, Store
from separatrix.frontier.sweep.work import Answer, work
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
        progress: what is being done, on stderr; by default if that is a terminal.
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


def run(
    stacks: Sequence[Stack],
    folder: str | Path,
    execution: Execution = HERE,
    done: Callable[[], None] = lambda: None,
) -> Outcome:
    """Work on every run that has no final record yet.

    Args:
        stacks: from `grid`.
        folder: of the records; made if need be.
        execution: where and how.
        done: called after each stack, also of those that were finished before.

    Returns:
        Counts of what was skipped and added.
    """
    store = Store(folder)
    store.remove_stale()
    known = store.records()
    _check_protocol(stacks, known, store.folder)
    todo = _unfinished(stacks, {one.run.key for one in known if one.status in FINAL}, store)
    for source in {id(stack.source): stack.source for stack in stacks}.values():
        store.describe(source.name, describe(source.load()[0]))
    for _ in range(len(stacks) - len(todo)):
        done()
    added: Counter[str] = Counter()
    for stack, answer in _answers(todo, execution):
        if answer.arrays is not None and answer.held_out is not None:
            # models first, then the records that say they are there
            store.add_models(stack.runs, answer.arrays, answer.held_out)
        store.add(answer.records)
        added.update(record.status for record in answer.records)
        done()
    skipped = sum(len(s.runs) for s in stacks) - sum(len(s.runs) for s in todo)
    return Outcome(skipped, dict(added))


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
    "source": "other code",
}


def _check_protocol(stacks: Sequence[Stack], records: Sequence[Record], folder: Path) -> None:
    """A folder holds one result per series: means over two protocols mean nothing."""
    known = {record.run.series: record.run for record in records}
    for stack in stacks:
        asked = stack.runs[0]
        there = known.get(asked.series, asked).protocol
        for name, value in asked.protocol.items():
            if there[name] != value:
                raise InputError(
                    f"{str(folder)!r} holds records of {asked.method!r} on {asked.dataset!r} "
                    f"with {_SAID.get(name) or f'{name} = {there[name]}'}. Pass another folder, or "
                    "remove that one."
                )


def _unfinished(stacks: Sequence[Stack], done: set[str], store: Store) -> list[Stack]:
    """What is left to do, the models of all rows last."""
    todo = []
    for stack in stacks:
        missing = tuple(run for run in stack.runs if run.key not in done)
        if stack.job.keep:  # the file is of the whole stack
            missing = stack.runs if missing or not store.has_models(stack.runs) else ()
        if missing:
            todo.append(replace(stack, runs=missing))
    return sorted(todo, key=lambda stack: (stack.source.name, stack.runs[0].fold == ALL_ROWS))


def _answers(stacks: list[Stack], how: Execution) -> Iterator[tuple[Stack, Answer]]:
    """The stacks with their answers, as they come."""
    from joblib import Parallel, delayed

    # a user's own rows travel once: the stack goes without them, and they are an argument
    light = [replace(s, source=replace(s.source, data=None)) for s in stacks]
    calls = (
        delayed(_numbered)(i, stack, stacks[i].source, how.timeout) for i, stack in enumerate(light)
    )
    if how.scheduler is None:
        many = len(stacks) > 1
        with in_processes(calls, how.n_jobs if many else 1, in_order=False) as answers:
            for i, answer in answers:
                yield stacks[i], answer
        return
    with _dask(how.scheduler, list({id(s.source): s.source for s in stacks}.values())):
        for i, answer in Parallel(return_as="generator_unordered", batch_size=1)(calls):
            yield stacks[i], answer


def _numbered(i: int, stack: Stack, source: Source, timeout: float | None) -> tuple[int, Answer]:
    return i, work(replace(stack, source=source), timeout)


@contextmanager
def _dask(scheduler: str, sources: list[Source], patience: float = 20) -> Iterator[None]:
    """joblib on a Dask cluster whose workers all hold the sources, should one of them die."""
    from joblib import parallel_config

    distributed = require("distributed", "engines", "The Dask backend")
    try:
        client = distributed.Client(scheduler, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler!r}: {error}. Start one with `dask scheduler`."
        ) from error
    with client, parallel_config("dask", client=client, scatter=sources, retries=3):
        yield
