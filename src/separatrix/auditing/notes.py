"""What an audit refuses to measure, and what its reader must know."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from separatrix.columns.groups import FEW, group_name
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.statistics import inference
from separatrix.statistics.bias import MOST_EXCESS, fitted_rows

__all__ = ["named_cells", "number_notes", "refuse_degenerate", "sparse_notes", "without_dust"]

SMALL = 5  # a cell (y, z) with fewer rows is named in the notes
_MANY_LABELS = 50  # numbers beyond which labels look like a quantity
_READABLE = 0.1  # of v: what small cells may add to it
_DUST = 1e-150  # share of the weight below which a cell counts as empty: its square is no number


def without_dust(table: CountTable) -> CountTable:
    """The table without cells (y, z) that weigh nothing beside the others."""
    mass = table.counts.sum(2)
    dust = (mass > 0) & (mass < _DUST * mass.sum())
    if not dust.any() or table.moments is None:
        return table
    counts, moments = table.counts.copy(), table.moments.copy()
    counts[dust], moments[dust] = 0.0, 0.0
    return replace(table, counts=counts, moments=moments)


def refuse_degenerate(table: CountTable) -> None:
    """Refuse a table with one group or one label."""
    weight = table.counts.sum((0, 2))
    if (weight > 0).sum() < 2:
        raise InputError(
            f"There is only one group ({table.groups[int(weight.argmax())]!r}): separation "
            "compares groups. Pass a `sensitive_features` column with at least two groups."
        )
    weight = table.counts.sum((1, 2))
    if (weight > 0).sum() < 2:
        raise InputError(
            f"There is only one label ({table.labels[int(weight.argmax())]!r}): nothing can be "
            "predicted. Pass rows of at least two labels."
        )


def number_notes(table: CountTable) -> tuple[str, ...]:
    """Columns of many numbers that were taken for labels or groups: they may be quantities."""
    asked = {
        "labels": (table.labels, _MANY_LABELS, "audit_regression(...)"),
        "groups": (table.groups, FEW, "audit_regression(..., numeric_sensitive=True)"),
    }
    return tuple(
        f"The {len(levels)} {name} are numbers, such as {levels[0]} and {levels[1]}; each is taken "
        f"for one of the {name}. Use {words} if they are one quantity."
        for name, (levels, most, words) in asked.items()
        if len(levels) > most and all(type(level) in (int, float) for level in levels)
    )


def sparse_notes(table: CountTable, noise: inference.Noise) -> tuple[str, ...]:
    """What has no interval, and which cells are small, in sentences."""
    notes = []
    rows = table.counts.sum(2)
    effective = rows**2 / np.where(rows > 0, table.weight_squares, 1.0)
    empty = [(y, z) for y, z in np.argwhere(rows == 0).tolist() if rows[y].sum() > 0]
    small = np.argwhere((rows > 0) & (effective < SMALL)).tolist()
    if not noise.estimable:
        notes.append(_no_interval(table, noise))
    if small:
        notes.append(
            f"{len(small)} cell{'s' * (len(small) > 1)} (label, group) with fewer than {SMALL} "
            f"rows: {named_cells(table.labels, table.groups, small)}."
        )
    if empty:
        notes.append(
            f"{len(empty)} cell{'s' * (len(empty) > 1)} (label, group) without rows: "
            f"{named_cells(table.labels, table.groups, empty)}. Gaps are those of the other cells; "
            "intervals and bounds let these rates be anything from 0 to 1."
        )
    return tuple(notes)


def _no_interval(table: CountTable, noise: inference.Noise) -> str:
    """Why v has no interval, and whether v itself can be read."""
    if not noise.varies:
        return (
            "No interval for v: every label has a single prediction or a single group. Trust the "
            "certified bound."
        )
    rows = fitted_rows(table)
    few = int((rows < inference.MIN_FITTED).sum())
    chance = MOST_EXCESS * few / noise.weight  # mean of v̂ that the small cells can be blamed for
    verdict = f"By chance they add at most {chance:.1g} nats to v"
    if chance <= _READABLE * noise.violation:
        verdict += ", so v itself can be read; for a limit use the certified bound."
    else:
        verdict += ": trust the certified bound, not the plug-in value."
    return (
        f"No interval for v: if the groups had the same rates, {few:,} of {rows.size:,} cells "
        f"(label, group, prediction) would hold fewer than {inference.MIN_FITTED:.0f} rows, the "
        f"smallest {noise.fitted:.2g}. {verdict}"
    )


def named_cells(known: Sequence[Hashable], groups: Sequence[Hashable], cells: Sequence[Any]) -> str:
    """Cells (label, group) by name, four of them at most."""
    named = [f"({known[y]}, {group_name(groups[z])})" for y, z in cells[:4]]
    return ", ".join(named) + (", …" if len(cells) > 4 else "")
