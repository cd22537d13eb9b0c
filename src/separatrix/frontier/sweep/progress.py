"""The live table of a sweep on the standard error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from separatrix.frontier.sweep.jobs import Stack
from separatrix.frontier.sweep.work import Answer

__all__ = ["live_table"]

_ALL = "all"


@contextmanager
def live_table(
    stacks: Sequence[Stack], todo: Sequence[Stack], show: bool
) -> Iterator[Callable[[Stack, Answer], None]]:
    """One line per dataset and method, with what is done, lost, and the time that is left."""
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(bar_width=24),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[lost]}", markup=False),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    )
    total, left, lost = _sizes(stacks), _sizes(todo), Counter[str]()
    console = Console(stderr=True)
    with bars.Progress(*columns, console=console, disable=not show, transient=True) as shown:
        task = {
            line: shown.add_task(line, total=size, completed=size - left[line], lost="")
            for line, size in total.items()
        }

        def advance(stack: Stack, answer: Answer) -> None:
            bad = sum(record.status != "ok" for record in answer.records)
            lost.update({_line(stack): bad})
            note = f"{lost[_line(stack)]} lost" if lost[_line(stack)] else ""
            shown.update(task[_line(stack)], advance=len(answer.records), lost=note)
            shown.advance(task[_ALL], len(answer.records))

        yield advance


def _sizes(stacks: Sequence[Stack]) -> Counter[str]:
    """How many runs each line has, the line of all of them first."""
    sizes = Counter({_ALL: sum(len(stack.runs) for stack in stacks)})
    for stack in stacks:
        sizes[_line(stack)] += len(stack.runs)
    return sizes


def _line(stack: Stack) -> str:
    recipe = "" if stack.job.name == "default" else f" ({stack.job.name})"
    inputs = "[Z|X]" if stack.job.inputs == "xz" else "X"
    return f"{stack.source.name}  {stack.job.method}{recipe}  {inputs}"
