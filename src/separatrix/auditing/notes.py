"""What an audit refuses to measure, and what its reader must know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from separatrix.columns.bins import FEW
from separatrix.columns.groups import group_name
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.statistics import inference

__all__ = ["number_notes", "refuse_degenerate", "sparse_notes", "without_dust"]

SMALL = 5  # a cell (y, z) with fewer rows is named in the notes
_MANY_LABELS = 50  # numbers beyond which labels look like a quantity
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
        "labels": (table.labels, _MANY_LABELS, 'target="continuous"'),
        "groups": (table.groups, FEW, 'sensitive="continuous"'),
    }
    return tuple(
        f"The {len(levels)} {name} are numbers, such as {levels[0]} and {levels[1]}; each is taken "
        f"for one of the {name}. Say {words} if they are one quantity."
        for name, (levels, most, words) in asked.items()
        if len(levels) > most and all(type(level) in (int, float) for level in levels)
    )


def sparse_notes(table: CountTable, noise: inference.Noise) -> tuple[str, ...]:
    """What is not estimable, in sentences."""
    notes = []
    rows = table.counts.sum(2)
    effective = rows**2 / np.where(rows > 0, table.weight_squares, 1.0)
    empty = [(y, z) for y, z in np.argwhere(rows == 0).tolist() if rows[y].sum() > 0]
    small = np.argwhere((rows > 0) & (effective < SMALL)).tolist()
    if not noise.estimable:
        why = "every label has a single prediction or a single group"
        if noise.varies:
            least = f"fewer than {inference.MIN_FITTED:.0f}"
            why = (
                "with the label's own rates a cell (label, group, prediction) would hold "
                f"{noise.fitted:.2g} rows, {least}"
            )
        notes.append(
            f"The violation is not estimable: {why}. Trust the certified bound, not the plug-in "
            "value."
        )
    if small:
        notes.append(
            f"{len(small)} cell{'s' * (len(small) > 1)} (label, group) with fewer than {SMALL} "
            f"rows: {_name(table, small)}."
        )
    if empty:
        notes.append(
            f"{len(empty)} cell{'s' * (len(empty) > 1)} (label, group) without rows, about which "
            f"nothing can be said: {_name(table, empty)}."
        )
    return tuple(notes)


def _name(table: CountTable, cells: list[Any]) -> str:
    named = [f"({table.labels[y]}, {group_name(table.groups[z])})" for y, z in cells[:4]]
    return ", ".join(named) + (", …" if len(cells) > 4 else "")
