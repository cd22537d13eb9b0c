"""Audit: one table of counts, measured; and the comparison of two audits."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.auditing import view
from separatrix.columns.draws import check_seed
from separatrix.columns.frames import tidy
from separatrix.columns.groups import group_name
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.statistics import bounds, inference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Audit", "Comparison", "compare"]

SMALL = 5  # a cell (y, z) with fewer rows is named in the notes


@dataclass(frozen=True, eq=False)
class Audit:
    """How far a model is from separation, and how sure we are. All information is in nats.

    Made by `audit`, `audit_frame`, `audit_files`, or from a table of counts with `Audit.of`.

    Attributes:
        violation: plug-in v = I(U; Z | Y).
        utility: plug-in u = I(U; Y).
        violation_corrected, utility_corrected: the same less their bias; may be slightly negative.
        violation_interval: asymptotic, at `confidence`; (0, violation_upper) if not `estimable`.
        violation_upper: finite-sample bound on v at `confidence`, given the labels and groups.
        p_value: of the hypothesis v = 0.
        eo_gap: equalized-odds gap (`information.eo_gap`).
        accuracy: share of right predictions; expected, when drawn, for posteriors.
        auditor_bound: √(2 v), the most any bounded auditor can see.
        estimable: whether the cells hold enough rows for the correction and the interval.
        notes: what the reader must know about these numbers, one sentence each.
        table: the counts behind it all.
    """

    table: CountTable = field(repr=False)
    confidence: float
    violation: float
    utility: float
    violation_corrected: float
    utility_corrected: float
    violation_interval: tuple[float, float]
    violation_upper: float
    p_value: float
    eo_gap: float
    accuracy: float
    auditor_bound: float
    estimable: bool
    notes: tuple[str, ...]

    @classmethod
    def of(cls, table: CountTable, confidence: float = 0.95, random_state: int = 0) -> Audit:
        """Measure a table of counts."""
        information.check_confidence(confidence)
        check_seed(random_state)
        refuse_degenerate(table)
        noise = inference.noise(table)
        violation = float(information.conditional_mutual_information(table.counts))
        v, u = inference.corrected(table, noise)
        upper = max(bounds.upper_bound(table, confidence), violation)
        known = noise.estimable
        interval = inference.interval(table, confidence, noise) if known else (0.0, upper)
        return cls(
            table=table,
            confidence=confidence,
            violation=violation,
            utility=float(information.mutual_information(table.counts)),
            violation_corrected=v,
            utility_corrected=u,
            violation_interval=interval,
            violation_upper=upper,
            p_value=inference.p_value(table, random_state, noise),
            eo_gap=float(information.eo_gap(table.counts)),
            accuracy=float(information.accuracy(table.counts)),
            auditor_bound=float(information.auditor_bound(violation)),
            estimable=known,
            notes=sparse_notes(table, noise),
        )

    @property
    def by_label(self) -> Any:
        """Frame: per label its rows, its part of v, its gap and the two groups farthest apart."""
        return tidy(_readable(self.label_columns()))

    @property
    def by_group(self) -> Any:
        """Frame: per group its rows, its part of v, its accuracy and its smallest cell."""
        return tidy(_readable(self.group_columns()))

    @property
    def cells(self) -> Any:
        """Frame: per label, group and prediction P(u | y, z) with its interval, and P(u | y)."""
        return tidy(_readable(self.cell_columns()))

    def label_columns(self) -> dict[str, list[Any]]:
        """The columns of `by_label`."""
        counts = self.table.counts
        rates = information.conditional_rates(counts)
        apart = np.nan_to_num(0.5 * np.abs(rates[:, :, None] - rates[:, None]).sum(-1))
        pairs = [np.unravel_index(int(distance.argmax()), distance.shape) for distance in apart]
        part = information.violation_by_cell(counts).sum(1)
        return {
            "label": list(self.table.labels),
            "rows": counts.sum((1, 2)).tolist(),
            "violation": part.tolist(),
            "share": _share(part),
            "eo_gap": apart.max((1, 2)).tolist(),
            "group_a": [self.table.groups[min(pair)] for pair in pairs],
            "group_b": [self.table.groups[max(pair)] for pair in pairs],
        }

    def group_columns(self) -> dict[str, list[Any]]:
        """The columns of `by_group`."""
        counts = self.table.counts
        rows = counts.sum((0, 2))
        part = information.violation_by_cell(counts).sum(0)
        right = np.einsum("yzy->z", counts)
        return {
            "group": list(self.table.groups),
            "rows": rows.tolist(),
            "violation": part.tolist(),
            "share": _share(part),
            "accuracy": (right / np.where(rows > 0, rows, 1.0)).tolist(),
            "smallest_cell": counts.sum(2).min(0).tolist(),
        }

    def cell_columns(self) -> dict[str, list[Any]]:
        """The columns of `cells`; a cell (y, z) without rows has no rate and is left out."""
        counts = self.table.counts
        rates = information.conditional_rates(counts)
        low, high = bounds.rate_intervals(self.table, self.confidence, simultaneous=False)
        of_label = counts.sum(1) / np.maximum(counts.sum((1, 2)), 1e-300)[:, None]
        part = information.violation_by_cell(counts)
        where = [tuple(index) for index in np.argwhere(~np.isnan(rates)).tolist()]
        return {
            "label": [self.table.labels[y] for y, _, _ in where],
            "group": [self.table.groups[z] for _, z, _ in where],
            "prediction": [self.table.predictions[u] for _, _, u in where],
            "rows": [float(counts[y, z].sum()) for y, z, _ in where],
            "rate": [float(rates[i]) for i in where],
            "low": [float(low[i]) for i in where],
            "high": [float(high[i]) for i in where],
            "label_rate": [float(of_label[y, u]) for y, _, u in where],
            "violation": [float(part[y, z]) for y, z, _ in where],
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, the frames as columns."""
        plain = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("table", "notes", "violation_interval")
        }
        return {
            "rows": self.table.rows,
            "labels": list(self.table.labels),
            "groups": list(self.table.groups),
            "predictions": "hard" if self.table.moments is None else "posterior or weighted",
            **plain,
            "violation_interval": list(self.violation_interval),
            "notes": list(self.notes),
            "by_label": self.label_columns(),
            "by_group": self.group_columns(),
            "cells": self.cell_columns(),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; never NaN or Infinity."""
        return json.dumps(
            self.to_dict(), indent=indent, default=str, allow_nan=False, ensure_ascii=False
        )

    def to_html(self) -> str:
        """A whole page that opens offline."""
        return view.html(self, page=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each group's rates with their intervals, label by label."""
        return view.plot(self, ax)

    def __sub__(self, other: Audit) -> Comparison:
        return compare(self, other)

    def __str__(self) -> str:
        return view.text(self)

    def _repr_html_(self) -> str:
        return view.html(self)


@dataclass(frozen=True)
class Comparison:
    """Did v change from b to a? `change` is v_a − v_b, bias-corrected, with an interval."""

    change: float
    interval: tuple[float, float]
    confidence: float

    def __str__(self) -> str:
        low, high = self.interval
        verdict = "no clear difference"
        if high < 0 or low > 0:
            verdict = f"the violation is {'lower' if high < 0 else 'higher'}"
        interval = f"{self.confidence:.0%} interval {low:+.5f} … {high:+.5f}"
        return f"change in v: {self.change:+.5f} nats, {interval}: {verdict}"


def compare(a: Audit, b: Audit) -> Comparison:
    """Did v really drop? The interval of v_a − v_b, valid for the same people or different ones.

    Each audit's own interval is taken at half the error, so that both hold at once however the two
    depend on each other; on the same rows this is wider than it need be. The lower of the two
    confidences counts.

    >>> from separatrix import audit
    >>> y, z = np.random.default_rng(0).integers(0, 2, (2, 4000))
    >>> a, b = (audit(y, u, sensitive_features=z) for u in (y, z))
    >>> compare(a, b).interval[1] < 0
    True
    """
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, Audit):
            raise InputError(
                f"`{name}` must be an Audit, got {type(value).__name__}. Make one with "
                "`audit(...)`."
            )
    confidence = min(a.confidence, b.confidence)
    (a_low, a_high), (b_low, b_high) = (_span(x, 0.5 * (1.0 + confidence)) for x in (a, b))
    change = a.violation_corrected - b.violation_corrected
    return Comparison(change, (a_low - b_high, a_high - b_low), confidence)


def _readable(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Intersections as text, since not every dataframe library holds tuples."""
    return {
        name: [group_name(v) if isinstance(v, tuple) else v for v in column]
        for name, column in columns.items()
    }


def _span(a: Audit, confidence: float) -> tuple[float, float]:
    if a.estimable:
        return inference.interval(a.table, confidence)
    return 0.0, bounds.upper_bound(a.table, confidence)


def _share(part: np.ndarray) -> list[float]:
    total = part.sum()
    return (part / total if total > 0 else np.zeros_like(part)).tolist()


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
            held = f"holds {noise.expected:.2g} rows on average"
            least = f"fewer than {inference.MIN_EXPECTED:.0f}"
            why = f"a cell (label, group, prediction) {held}, {least}"
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
