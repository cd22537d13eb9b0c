"""What a trace says on the terminal, and the files that it writes beside its records."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from separatrix.columns.groups import group_name
from separatrix.datasets import Data
from separatrix.io import write_whole
from separatrix.runs.store import POLICIES
from separatrix.show import tables
from separatrix.tracing.frontier import Frontier

__all__ = ["describe", "write_tables"]


def describe(data: Data, name: str) -> Iterator[str]:
    """Rows, labels, groups and what was left out, line by line."""
    cells = data.cells
    yield (
        f"{name}: {len(data):,} rows, {len(data.features)} features; labels "
        f"{_shares(data.labels, cells.sum(1))}; groups {_shares(data.groups, cells.sum(0))}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield f"  note: {note}"


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv, the figure and the page of a frontier; gives the tables to print."""
    out, columns, name = frontier.folder, frontier.columns, frontier.name
    both = {policy: tables.paths(columns, name, policy) for policy in POLICIES}
    rows = tuple((policy, *row) for policy, table in both.items() for row in table.rows)
    first = both[POLICIES[0]]
    write_whole(out / "frontier.csv", tables.Table("", ("Policy", *first.head), rows).csv())
    page = frontier.report(out / "report.html")
    yield first.text()
    yield tables.envelopes(columns, name, limit=frontier.limit).text()
    lost = int((columns["status"] != "ok").sum()) // 2
    if lost:
        yield f"{lost} runs are lost (diverged, failed or timed out); `points` says which and why."
    yield f"Models, records and frontier.csv are in {out}; open {page}"
    yield f"Next: separatrix select {out} --max-violation 0.005 --out model"


def _shares(names: Sequence[Hashable], sizes: Any) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    shown = [f"{group_name(name)} {share:.1%}" for name, share in shares]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
