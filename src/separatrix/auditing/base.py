"""What every audit has: certified v, notes, and its numbers as JSON, a page, a picture, text."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from separatrix.columns.draws import seed_of
from separatrix.columns.groups import FEW, group_name
from separatrix.core.counts import CountTable
from separatrix.core.information import check_confidence
from separatrix.core.measures import identity
from separatrix.errors import InputError
from separatrix.report import audit_page
from separatrix.report.audit_page import AuditPage
from separatrix.statistics import certificates, inference
from separatrix.statistics.dependence import Dependence, dependences
from separatrix.statistics.shuffling import p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 5  # a cell (y, z) with fewer rows is named in the notes
_MANY_LABELS = 50  # numbers beyond which labels look like a quantity
_READABLE = 0.1  # of v: what small cells may add to it


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditResult(ABC):
    """The base of `Audit`, `ScoreAudit` and `ContinuousAudit`.

    Args:
        table: the counts behind it.
        confidence: of intervals and bounds.
        estimable: whether every cell would hold 5 rows or more with the label's own rates, as the
            correction and the interval need.
        notes: what the reader must know about these numbers, one sentence each.
        sensitive_columns: names of the columns of groups, where they have names.
    """

    table: CountTable = field(repr=False)
    confidence: float
    violation_interval: tuple[float, float]
    p_value: float
    estimable: bool
    notes: tuple[str, ...]
    sensitive_columns: tuple[str, ...] = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""

    def _fields(self, *left_out: str) -> dict[str, Any]:
        """The fields but these as plain values."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in left_out}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @abstractmethod
    def _page(self) -> AuditPage:
        """What is said about it."""

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; never NaN or Infinity."""
        return json.dumps(self.to_dict(), indent=indent, default=str, allow_nan=False, ensure_ascii=False)

    def to_html(self) -> str:
        """A whole page that opens offline."""
        return audit_page.html(self._page(), whole=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw rates by label (decisions), ROC curves (a score) or median ranks (numbers)."""
        return audit_page.draw(self._page().figure(), ax)

    def __str__(self) -> str:
        return audit_page.text(self._page())

    def _repr_html_(self) -> str:
        return audit_page.html(self._page())


@dataclass(frozen=True, eq=False, kw_only=True)
class CertifiedAudit(AuditResult):
    """The base of `Audit` and `ScoreAudit`: v of a table of counts, with a certified bound."""

    violation: float
    violation_corrected: float
    violation_upper: float
    guarantee: str
    composition: str
    simulated_failure: float | None
    random_state: int = field(default=0, repr=False)

    @cached_property
    def criteria(self) -> dict[str, Dependence]:
        """Independence, sufficiency, equal opportunity (two labels) and base dependence, measured.

        Each has its value in nats, correction, interval, p-value, and the gaps that people know:
        `a.criteria["independence"].gaps["parity_gap"].interval`. Separation is the audit itself.
        """
        return dependences(self.table, self.confidence, self.random_state)

    @property
    def promise(self) -> str:
        """What `violation_upper` promises, in plain words."""
        return certificates.promise(self.guarantee, self.composition)

    @property
    def unseen(self) -> str:
        """The cells (label, group) without rows by name, whose rates are not known; or empty."""
        cells = _empty_cells(self.table)
        return named_cells(self.table.labels, self.table.groups, cells, self.sensitive_columns)

    def _plain(self, *left_out: str) -> dict[str, Any]:
        """What both have, as plain Python values."""
        return {
            "rows": self.table.rows,
            "labels": list(self.table.labels),
            "groups": list(self.table.groups),
            **self._fields("table", "random_state", *left_out),
            "criteria": {name: asdict(measured) for name, measured in self.criteria.items()},
            "identity": identity(self.table.counts),
            "promise": self.promise,
        }


def certified(
    table: CountTable, confidence: float, random_state: Any, guarantee: str, composition: str | None
) -> tuple[inference.Noise, dict[str, Any]]:
    """The noise of a table, and the fields of a `CertifiedAudit`; arguments as in `audit`."""
    check_confidence(confidence)
    seed = seed_of(random_state)
    _refuse_degenerate(table)
    people = certificates.default_composition(table, guarantee) if composition is None else composition
    upper = certificates.violation_bound(table, confidence, guarantee=guarantee, composition=people)
    noise, failure = inference.noise(table), None
    if guarantee == "large-sample":
        failure = certificates.simulated_failure(table, confidence, composition=people, random_state=seed)
    return noise, {
        "table": table,
        "confidence": confidence,
        "violation": noise.violation,
        "violation_corrected": noise.corrected,
        "violation_interval": noise.interval(confidence) if noise.estimable else (0.0, upper),
        "violation_upper": upper,
        "p_value": p_value(table, seed, noise),
        "guarantee": guarantee,
        "composition": people,
        "simulated_failure": failure,
        "estimable": noise.estimable,
        "notes": _sparse_notes(table, noise),
        "random_state": seed,
    }


def _refuse_degenerate(table: CountTable) -> None:
    """Refuse a table with one group or one label."""
    for what, levels, others in (("group", table.groups, (0, 2)), ("label", table.labels, (1, 2))):
        weight = table.counts.sum(others)
        if (weight > 0).sum() < 2:
            only = levels[int(weight.argmax())]
            raise InputError(f"There is only one {what} ({only!r}): pass rows of at least two.")


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


def _sparse_notes(table: CountTable, noise: inference.Noise) -> tuple[str, ...]:
    """What has no interval, and which cells are small, in sentences."""
    notes = []
    rows = table.counts.sum(2)
    empty = _empty_cells(table)
    small = np.argwhere((rows > 0) & (table.effective_rows < SMALL)).tolist()
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


def _empty_cells(table: CountTable) -> list[tuple[int, int]]:
    """The cells (label, group) without rows, of labels that have some."""
    rows = table.counts.sum(2)
    return [(y, z) for y, z in np.argwhere(rows == 0).tolist() if rows[y].sum() > 0]


def _no_interval(table: CountTable, noise: inference.Noise) -> str:
    """Why v has no interval, and whether v itself can be read."""
    if not noise.varies:
        return "No interval for v: every label has a single prediction or a single group. Trust the certified bound."
    rows = inference.fitted_rows(table)
    few = int((rows < inference.MIN_FITTED).sum())
    # the mean of v̂ that the small cells can be blamed for
    chance = inference.MOST_EXCESS * few / noise.weight
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


def named_cells(
    known: Sequence[Hashable], groups: Sequence[Hashable], cells: Sequence[Any], columns: Sequence[str] = ()
) -> str:
    """Cells (label, group) by name, four of them at most."""
    named = [f"({known[y]}, {group_name(groups[z], columns)})" for y, z in cells[:4]]
    return ", ".join(named) + (", …" if len(cells) > 4 else "")
