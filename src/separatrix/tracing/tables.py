"""What a trace says on the terminal, and the files that it writes beside its records."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from separatrix.columns.groups import group_name
from separatrix.datasets import Data
from separatrix.io import write_whole
from separatrix.runs.store import POLICIES
from separatrix.show import tables
from separatrix.tracing.answers import Answer
from separatrix.tracing.frontier import Frontier

__all__ = ["describe", "first_line", "next_command", "summary", "write_tables"]

_ROWS = 10


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
    """Write frontier.csv and the page of a frontier; gives what to print."""
    out, columns, name = frontier.folder, frontier.columns, frontier.name
    both = {policy: tables.paths(columns, name, policy) for policy in POLICIES}
    rows = tuple((policy, *row) for policy, table in both.items() for row in table.rows)
    head = both[POLICIES[0]].head
    write_whole(out / "frontier.csv", tables.Table("", ("Policy", *head), rows).csv())
    page = frontier.report(out / "report.html")
    yield str(frontier.manifest["base"]["note"])
    yield first_line(frontier)
    yield summary(frontier).text(100)
    lost = int((columns["status"] != "ok").sum()) // 2
    if lost:
        yield f"{lost} runs are lost (diverged, failed or timed out); `points` says which and why."
    yield f"All points are in {out / 'frontier.csv'}; open {page}"
    yield f"Next: {next_command(frontier)}"


def first_line(frontier: Frontier) -> str:
    """The answer in words: what the plain model does, and what the usual budget would cost."""
    answers = frontier.answers
    plain = next(a for a in answers if a.kind == "plain" and not a.blind)
    always = next(a for a in answers if a.kind == "constant")
    if len(frontier.labels) != 2:
        return (
            f"The plain model: accuracy {_value(plain, 'accuracy')}, EO gap "
            f"{_value(plain, 'eo_gap')} ({always.name} has {_value(always, 'accuracy')})."
        )
    best = _usual(answers)
    label = str(frontier.labels[1])
    text = f"Of people with {label!r}, {_rates(frontier, plain)} are recognised by the plain model."
    majority = f"({always.name} has {_value(always, 'accuracy')})"
    if best is None:
        return f"{text} Its accuracy is {_value(plain, 'accuracy')} {majority}."
    return (
        f"{text} With an {best.name}: {_rates(frontier, best)}, accuracy "
        f"{_value(plain, 'accuracy')} → {_value(best, 'accuracy')} {majority}."
    )


def summary(frontier: Frontier) -> tables.Table:
    """At most ten rows of what could be shipped, in decisions first."""
    answers = frontier.answers
    aim = "accuracy" if len(frontier.labels) == 2 else "utility"
    kept = [a for a in answers if a.kind != "decisions" or a.maximize == aim]
    while len(kept) > _ROWS:  # the tightest budgets leave first
        loose = [a for a in kept if a.kind == "decisions"]
        kept.remove(loose[-1] if loose else kept[-2])
    head = ["", "accuracy", "AUROC", "EO gap", "noise", "v", "u"]
    two = len(frontier.labels) == 2
    if two:
        head.insert(1, "recognised")
    rows = []
    for a in kept:
        cells: list[Any] = [a.name + (f" ({a.note})" if a.note else "")]
        if two:
            cells.append(_rates(frontier, a, short=True) if a.rates else None)
        cells += [_cell(a, m) for m in ("accuracy", "auroc", "eo_gap")]
        cells.append(None if a.floor is None or np.isnan(a.floor) else round(a.floor, 4))
        cells += [_cell(a, m) for m in ("violation", "utility")]
        rows.append(tuple(cells))
    shown = (
        "recognised: share of each group's people with the second label who get it; " if two else ""
    )
    title = f"What you could ship, as unseen rows will show it ({shown}noise: gap of pure chance)"
    return tables.Table(title, tuple(head), tuple(rows))


def next_command(frontier: Frontier) -> str:
    """A command that will succeed on these data."""
    best = _usual(frontier.answers)
    if best is None:
        levels = [a for a in frontier.answers if a.kind == "decisions"]
        if not levels:
            return f"separatrix select {frontier.folder} --max-eo-gap 0.1 --out model"
        best = levels[0]
    (name, level), *_ = best.budgets.items()
    option = f"--max-{name.replace('_', '-')} {level:g}"
    return f"separatrix select {frontier.folder} {option} --maximize {best.maximize} --out model"


def _usual(answers: Sequence[Answer]) -> Answer | None:
    """The tightest budget from 0.05 on that decides and was kept in all folds."""
    good = [a for a in answers if a.kind == "decisions" and a.maximize == "accuracy"]
    good = [a for a in good if not a.blind and not a.note.startswith("always")]
    wanted = [a for a in good if a.budgets.get("eo_gap", 0.0) >= 0.05]
    if wanted:
        return min(wanted, key=lambda a: a.budgets["eo_gap"])
    return good[0] if good else None


def _rates(frontier: Frontier, answer: Answer, short: bool = False, most: int = 4) -> str:
    row = answer.rates[1]
    sizes = np.bincount(frontier.rows["z"], minlength=len(frontier.groups))
    order = [int(k) for k in np.argsort(-sizes, kind="stable") if row[k] is not None]
    if short:
        return " / ".join(f"{row[k]:.0%}" for k in order[:most])
    parts = [f"{100 * (row[k] or 0):.0f} % of {group_name(frontier.groups[k])}" for k in order]
    more = [f"{len(parts) - most} more groups"] if len(parts) > most else []
    parts = parts[:most] + more
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _value(answer: Answer, metric: str) -> str:
    return f"{answer.promise[metric][0]:.3f}"


def _cell(answer: Answer, metric: str) -> tuple[float, float] | None:
    found = answer.promise.get(metric)
    return None if found is None else (float(found[0]), float(found[1]))


def _shares(names: Sequence[Hashable], sizes: Any) -> str:
    shares = zip(names, sizes / sizes.sum(), strict=True)
    shown = [f"{group_name(name)} {share:.1%}" for name, share in shares]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
