"""What a trace says on the terminal, and the files that it writes beside its records."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from separatrix.columns.groups import group_name
from separatrix.datasets import Data
from separatrix.frontier.frontier import Frontier
from separatrix.io import write_whole
from separatrix.report.terminal import WIDTH, wrapped

__all__ = ["describe", "write_tables"]


def describe(data: Data, name: str) -> Iterator[str]:
    """Rows, labels, groups and what was left out, line by line."""
    cells = data.cells
    yield from wrapped(
        f"{name}: {len(data):,} rows, {len(data.features)} features; labels "
        f"{_shares(data.labels, cells.sum(1))}; groups {_shares(data.groups, cells.sum(0))}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield from wrapped(f"note: {note}", "  ")


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv and the page of a frontier; gives what to print, the answer first."""
    out = frontier.folder
    page = frontier.report(out / "report.html")  # compares the criteria, so it comes first
    shippable = frontier.shippable
    write_whole(out / "frontier.csv", shippable.csv())
    yield from wrapped(shippable.sentence())
    price = shippable.price_of_blindness()
    if price is not None:
        yield from wrapped(price)
    yield ""
    yield shippable.table().lines(WIDTH)
    for line in shippable.explained():
        yield from wrapped(line, "  ")
    for answer in shippable.rows():
        if answer.note:
            yield from wrapped(f"{answer.name}: {answer.note}", "  ")
    yield ""
    notes = [frontier.manifest["base"]["note"], *frontier.manifest["notes"]]
    lost = int((frontier.columns["status"] != "ok").sum()) // 2
    if lost:
        notes.append(f"{lost} runs are lost (diverged, failed or timed out): see `points`.")
    for line in (line for note in notes for line in str(note).splitlines()):
        yield from wrapped(line)
    yield f"Report: {page}"
    yield f"All points: {out / 'frontier.csv'}"
    command = shippable.command(str(out))
    if command is not None:
        yield f"Next: {command}"


def _shares(names: Sequence[Hashable], sizes: Any) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    shown = [f"{group_name(name)} {share:.1%}" for name, share in shares]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
