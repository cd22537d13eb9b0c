"""Running a sweep: skip what is finished, work on the rest here, in local processes or on a Dask
cluster, write records.

Only this process writes. A stack's models are renamed into place before its records are committed,
so what the records call finished is there; a kill at any moment loses at most the stacks in
progress, and the next run does them again. Two processes on one folder may do the same stack twice:
both find the same numbers, and the first record stays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.datasets import Data
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.io import write_whole
from separatrix.runs.jobs import Answer, Stack, work
from separatrix.runs.store import Store, key_of

__all__ = ["BACKENDS", "Kept", "Outcome", "kept", "plain", "run"]

BACKENDS = ("local", "dask")
MODELS = "models"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: how many records it found finished, how many of each status it added."""

    skipped: int
    added: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Kept:
    """What was kept of one stack: its lanes' models and the posteriors of the rows that did not
    train them.

    Args:
        questions: one per lane.
        arrays: of `Fitted.arrays`; `methods.get(question["method"]).restore` makes the models
            again.
        held_out: posteriors (M, n, K) of the rows of the test fold, in their order.
    """

    questions: tuple[Mapping[str, Any], ...]
    arrays: Mapping[str, NDArray[Any]]
    held_out: NDArray[np.float32]


def run(
    stacks: Sequence[Stack],
    folder: str | Path,
    *,
    jobs: int = 1,
    backend: str = "local",
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Answer every question that has no final record yet.

    Args:
        stacks: from `grid`.
        folder: of the records; made if need be.
        jobs: local processes; −1 for all cores.
        backend: "local" or "dask".
        scheduler: address of the Dask scheduler, such as "tcp://host:8786".
        progress: a live table on stderr; by default if that is a terminal.

    Returns:
        Counts of what was skipped and added.
    """
    if backend not in BACKENDS:
        raise InputError(f"`backend` must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    if (backend == "dask") != (scheduler is not None):
        raise InputError(
            "`scheduler` is the address of a Dask scheduler: pass it with backend='dask', and "
            "only then."
        )
    if jobs == 0 or jobs < -1:
        raise InputError(f"`jobs` must be a number of processes, or -1 for all cores, got {jobs}.")
    show = sys.stderr.isatty() if progress is None else progress
    added: dict[str, int] = {}
    with Store(folder) as store:
        _check_protocol(stacks, store)
        todo = _unfinished(stacks, store)
        skipped = sum(len(s.questions) for s in stacks) - sum(len(s.questions) for s in todo)
        for source in {id(stack.source): stack.source for stack in stacks}.values():
            store.describe(source.name, describe(source.load()))
        with _table(stacks, todo, show) as advance:
            for stack, answer in _answers(todo, jobs, scheduler):
                _write(store, stack, answer)
                advance(stack, answer)
                for record in answer.records:
                    added[record.status] = added.get(record.status, 0) + 1
    return Outcome(skipped, added)


def describe(data: Data) -> dict[str, Any]:
    """What a reader of the records must know of a dataset, as plain JSON."""
    return {
        "labels": [plain(label) for label in data.labels],
        "groups": [plain(group) for group in data.groups],
        "cells": data.cells.tolist(),
        "rows": len(data),
        "features": list(data.features),
        "target": data.target,
        "sensitive": None if data.grouping is None else list(data.grouping.columns),
        "card": data.card.to_dict(),
    }


def plain(level: Any) -> Any:
    """A level of a column as JSON has it."""
    value = level.item() if isinstance(level, np.generic) else level
    return value if isinstance(value, str | int | float | bool) else str(value)


def kept(folder: str | Path) -> list[Kept]:
    """Every stack whose models were kept, by method, inputs, recipe, fold and seed."""
    from safetensors import SafetensorError, safe_open

    found = []
    for path in sorted((Path(folder) / MODELS).glob("*.safetensors")):
        try:
            with safe_open(path, framework="numpy") as file:
                questions = tuple(json.loads((file.metadata() or {})["questions"]))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
        except (SafetensorError, KeyError, ValueError) as error:
            raise DataError(
                f"{path} is not a file of models as `trace` writes it: {error}."
            ) from error
        held_out = arrays.pop("held_out")
        found.append(
            Kept(
                questions,
                {name[len("model.") :]: array for name, array in arrays.items()},
                held_out,
            )
        )
    names = ("dataset", "method", "inputs", "recipe", "fold", "seed")
    return sorted(found, key=lambda k: tuple(k.questions[0][name] for name in names))


_SERIES = ("dataset", "method", "inputs", "recipe")
_PROTOCOL = ("data", "folds", "split", "weight", "details", "format")


def _check_protocol(stacks: Sequence[Stack], store: Store) -> None:
    """A folder holds one answer per series: means over records of two protocols would be means of
    nothing.
    """
    known = {tuple(r.question[n] for n in _SERIES): r.question for r in store.records()}
    for stack in stacks:
        asked = stack.questions[0]
        there = known.get(tuple(asked[name] for name in _SERIES))
        differs = (
            [] if there is None else [name for name in _PROTOCOL if there[name] != asked[name]]
        )
        if there is not None and differs:
            what = {"data": "other rows", "details": "another recipe or version"}
            name = differs[0]
            raise InputError(
                f"{str(store.folder)!r} holds records of {asked['method']!r} on "
                f"{asked['dataset']!r} with "
                f"{what.get(name) or f'{name} = {there[name]}'}. Pass another folder, or remove "
                f"that one."
            )


def _unfinished(stacks: Sequence[Stack], store: Store) -> list[Stack]:
    done = store.finished()
    todo = []
    for stack in stacks:
        if stack.job.keep:  # the file is of the whole stack
            missing = (
                stack.questions
                if not _place(store.folder, stack).is_file()
                or any(key_of(q) not in done for q in stack.questions)
                else ()
            )
        else:
            missing = tuple(q for q in stack.questions if key_of(q) not in done)
        if missing:
            todo.append(replace(stack, questions=missing))
    return todo


def _answers(
    stacks: list[Stack], jobs: int, scheduler: str | None
) -> Iterator[tuple[Stack, Answer]]:
    if scheduler is not None:
        return _on_dask(stacks, scheduler)
    if jobs == 1 or len(stacks) <= 1:
        return ((stack, work(stack)) for stack in stacks)
    return _in_processes(stacks, jobs)


def _in_processes(stacks: list[Stack], jobs: int) -> Iterator[tuple[Stack, Answer]]:
    from joblib import Parallel, delayed, parallel_config

    calls = (delayed(_numbered)(i, stack) for i, stack in enumerate(stacks))
    with parallel_config("loky", inner_max_num_threads=1):
        for i, answer in Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(
            calls
        ):
            yield stacks[i], answer


def _numbered(i: int, stack: Stack) -> tuple[int, Answer]:
    return i, work(stack)


def _on_dask(
    stacks: list[Stack], scheduler: str, timeout: float = 20
) -> Iterator[tuple[Stack, Answer]]:
    if not find_spec("distributed"):
        raise MissingExtraError(
            "The Dask backend needs distributed: pip install 'separatrix[engines]'."
        )
    from distributed import Client, as_completed

    try:
        client = Client(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler!r}: {error}. Start one with `dask scheduler`."
        ) from error
    with client:
        # the user's own rows travel once, as a task: should their worker die, the scheduler makes
        # them again elsewhere
        own = {id(s.source): s.source for s in stacks if s.source.data is not None}
        data = {key: client.submit(_same, source, pure=False) for key, source in own.items()}
        futures = {}
        for i, stack in enumerate(stacks):
            light = replace(stack, source=replace(stack.source, data=None))
            futures[
                client.submit(
                    _with_source, light, data.get(id(stack.source)), pure=False, retries=3
                )
            ] = i
        for future in as_completed(futures, loop=client.loop):
            yield stacks[futures[future]], future.result()
            future.release()


def _same(value: Any) -> Any:
    return value


def _with_source(stack: Stack, source: Any) -> Answer:
    return work(stack if source is None else replace(stack, source=source))


def _place(folder: Path, stack: Stack) -> Path:
    return folder / MODELS / f"{stack.key}.safetensors"


def _write(store: Store, stack: Stack, answer: Answer) -> None:
    """Models first, then the records that say they are there."""
    if answer.arrays is not None and answer.held_out is not None:
        from safetensors.numpy import save

        # safetensors writes the memory as it lies, so a transposed array would come back scrambled
        arrays = {
            f"model.{name}": np.asarray(array, order="C") for name, array in answer.arrays.items()
        }
        arrays["held_out"] = np.asarray(answer.held_out, dtype=np.float32, order="C")
        content = save(arrays, {"questions": json.dumps(stack.questions, sort_keys=True)})
        write_whole(_place(store.folder, stack), content)
    store.add(answer.records)


@contextmanager
def _table(
    stacks: Sequence[Stack], todo: Sequence[Stack], show: bool
) -> Iterator[Callable[[Stack, Answer], None]]:
    """A live table on stderr: one line per dataset and method, with what is done, lost, and the
    time that is left.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[lost]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), disable=not show, transient=True
    ) as progress:
        total = progress.add_task("all", total=sum(len(s.questions) for s in stacks), lost="")
        lines: dict[tuple[str, str, str], Any] = {}
        lost: dict[tuple[str, str, str], int] = {}
        for stack in stacks:
            lines.setdefault(_line(stack), 0)
            lines[_line(stack)] += len(stack.questions)
        for key, size in lines.items():
            lines[key] = progress.add_task("  ".join(key), total=size, lost="")
        waiting = dict.fromkeys(lines, 0)
        for stack in todo:
            waiting[_line(stack)] += len(stack.questions)
        for key, task in lines.items():
            done = int(progress.tasks[task].total or 0) - waiting[key]
            progress.advance(task, done)
            progress.advance(total, done)

        def advance(stack: Stack, answer: Answer) -> None:
            key = _line(stack)
            lost[key] = lost.get(key, 0) + sum(
                record.status not in ("ok",) for record in answer.records
            )
            progress.update(
                lines[key],
                advance=len(answer.records),
                lost=f"{lost[key]} lost" if lost[key] else "",
            )
            progress.advance(total, len(answer.records))

        yield advance


def _line(stack: Stack) -> tuple[str, str, str]:
    recipe = "" if stack.job.name == "default" else f" ({stack.job.name})"
    return (
        stack.source.name,
        stack.job.method + recipe,
        "[Z|X]" if stack.job.inputs == "xz" else "X",
    )
