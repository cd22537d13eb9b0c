"""Decisions that are the same for everybody, or for everybody of a group: never without a word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.core.measures import label_of
from separatrix.frontier.operating_point import OperatingPoint
from separatrix.report.words import constant_text, majority

__all__ = ["is_constant", "with_warnings"]

_ALL, _NEARLY = 0.999, 0.99  # of the decisions


def is_constant(tables: NDArray[np.float64]) -> int | None:
    """The code of the label that everybody gets, from tables (folds, y, z, u); None if decided.

    >>> is_constant(np.array([[[[5.0, 0.0]], [[3.0, 0.0]]]]))
    0
    """
    share = tables.sum((0, 1, 2)) / tables.sum()
    return int(share.argmax()) if share.max() > _ALL else None


def with_warnings(point: OperatingPoint) -> OperatingPoint:
    """The point with a sentence for each part of its decisions that decides nothing."""
    notes, share = list(point.notes), majority(point.tables, point.labels)[1]
    given = point.decided.sum((0, 1, 2)) / point.decided.sum()
    if given.max() > _NEARLY:
        what = str(point.labels[int(given.argmax())])
        notes.append(
            f"It hardly decides: {given.max():.1%} of all get {what!r}, and always {what!r} is "
            f"right for {_right(point, int(given.argmax())):.1%}."
        )
    for name, most in point.question.budgets.items():
        told = point.promise[name]
        if told.value - told.error > most:
            shown = f"{label_of(name)} {told.value:.4f} ± {told.error:.2g}"
            notes.append(f"Unseen rows are expected to show {shown}, more than the {most:g} asked.")
    if point.is_score:
        return replace(point, notes=tuple(notes))
    for z, group in enumerate(point.groups):
        own = point.decided[:, :, [z]]
        label = is_constant(own) if own.sum() > 0 else None
        if label is not None:
            gets = str(point.labels[label])
            notes.append(
                f"Everybody of the group {group_name(group, point.columns)!r} gets {gets!r}."
            )
    if point.mixture is not None and len(point.mixture.points) > 1:
        for weight, part in zip(point.mixture.weights, point.mixture.points, strict=True):
            label = is_constant(part.tables)
            if label is not None:
                only = constant_text(point.labels[label], share)
                notes.append(f"One branch, drawn for {weight:.0%} of the decisions, is {only}.")
    return replace(point, notes=tuple(notes))


def _right(point: OperatingPoint, label: int) -> float:
    """How often always the same label is right."""
    rows = point.tables.sum((0, 2, 3))
    return float(rows[label] / rows.sum())
