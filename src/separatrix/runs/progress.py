"""The live table of a sweep on the standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from separatrix.runs.jobs import Stack
from separatrix.runs.work import Answer

__all__ = ["live_table"]


@contextmanager
def live_table(
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
        total = progress.add_task("all", total=sum(len(s.runs) for s in stacks), lost="")
        lines: dict[tuple[str, str, str], Any] = {}
        lost: dict[tuple[str, str, str], int] = {}
        for stack in stacks:
            lines.setdefault(_line(stack), 0)
            lines[_line(stack)] += len(stack.runs)
        for key, size in lines.items():
            lines[key] = progress.add_task("  ".join(key), total=size, lost="")
        waiting = dict.fromkeys(lines, 0)
        for stack in todo:
            waiting[_line(stack)] += len(stack.runs)
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
