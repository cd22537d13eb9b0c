"""What a trace says on the terminal, and the files that it writes beside its records."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from separatrix.columns.groups import group_name
from separatrix.datasets import Data
from separatrix.io import write_whole
from separatrix.tracing.frontier import Frontier

__all__ = ["WIDTH", "describe", "write_tables"]

WIDTH = 100  # columns of the terminal; folders and commands stay whole


def describe(data: Data, name: str) -> Iterator[str]:
    """Rows, labels, groups and what was left out, line by line."""
    cells = data.cells
    yield _filled(
        f"{name}: {len(data):,} rows, {len(data.features)} features; labels "
        f"{_shares(data.labels, cells.sum(1))}; groups {_shares(data.groups, cells.sum(0))}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield _filled(f"note: {note}", "  ")


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv and the page of a frontier; gives what to print, the answer first."""
    out, shippable = frontier.folder, frontier.shippable
    write_whole(out / "frontier.csv", shippable.csv())
    page = frontier.report(out / "report.html")
    yield _filled(shippable.sentence())
    price = shippable.price_of_blindness()
    if price is not None:
        yield _filled(price)
    yield ""
    yield shippable.table().lines(WIDTH)
    for line in shippable.explained():
        yield _filled(line, "  ")
    for answer in shippable.rows():
        if answer.note:
            yield _filled(f"{answer.name}: {answer.note}", "  ")
    yield ""
    notes = [frontier.manifest["base"]["note"], *frontier.manifest["notes"]]
    lost = int((frontier.columns["status"] != "ok").sum()) // 2
    if lost:
        notes.append(f"{lost} runs are lost (diverged, failed or timed out): see `points`.")
    for line in (line for note in notes for line in str(note).splitlines()):
        yield _filled(line)
    yield f"Report: {page}"
    yield f"All points: {out / 'frontier.csv'}"
    command = shippable.command(str(out))
    if command is not None:
        yield f"Next: {command}"


def _filled(text: str, indent: str = "") -> str:
    """Broken between words, never within one."""
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _shares(names: Sequence[Hashable], sizes: Any) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    shown = [f"{group_name(name)} {share:.1%}" for name, share in shares]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
