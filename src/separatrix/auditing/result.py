"""Audit: one table of counts, measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from separatrix.auditing import pages
from separatrix.auditing.base import AuditResult, certify
from separatrix.auditing.notes import number_notes, sparse_notes, without_dust
from separatrix.columns.draws import seed_of
from separatrix.columns.frames import tidy
from separatrix.columns.groups import group_name
from separatrix.columns.values import listed
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.core.measures import BASE_DEPENDENCE, METRICS, identity
from separatrix.errors import InputError
from separatrix.report.audit_page import AuditPage
from separatrix.statistics import bounds, certificates, gaps, inference
from separatrix.statistics.dependence import Dependence, dependences
from separatrix.statistics.proportions import accuracy_interval
from separatrix.statistics.shuffling import violation_floor

__all__ = ["Audit"]

MANY = 20  # predictions, beyond which `cells` lists only those that occur with the label


@dataclass(frozen=True, eq=False)
class Audit(AuditResult):
    """How far a model is from separation, and how sure we are. All information is in nats.

    Made by `audit`, or from a table of counts with `Audit.of`.

    Attributes:
        violation: plug-in v = I(U; Z | Y).
        utility: plug-in u = I(U; Y).
        violation_corrected, utility_corrected: the same less their bias; may be slightly negative.
        violation_interval: asymptotic, at `confidence`; (0, violation_upper) if not `estimable`.
        violation_upper: certified upper bound on v at `confidence` (`guarantee`, `composition`).
        p_value: of the hypothesis v = 0.
        eo_gap: equalized-odds gap: the mean over labels of the largest difference between the rates
            of two groups. `eo_max` is the larger label instead of the mean.
        eo_gap_interval: of the gap, for large samples, at `confidence`.
        eo_gap_upper: certified upper bound on the gap at `confidence` (`guarantee`).
        eo_gap_floor: the gap expected by chance: its mean when groups are shuffled within labels.
        accuracy: share of correct predictions; for posteriors, its expectation over the draws.
        accuracy_interval: of the accuracy, at `confidence`.
        auditor_bound: √(2 v): given the label, no bounded function of prediction and group covaries
            by more.
        guarantee: of the certified bounds. "finite-sample": any number of rows. "large-sample":
            a normal approximation, tighter.
        composition: the people that `violation_upper` is about. "population": the law that the rows
            were drawn from. "observed": people with the observed shares of labels and groups.
        simulated_failure: how often the large-sample bound on v failed on simulated tables like
            this one, with v at the bound; None for "finite-sample".
        estimable: whether every cell would hold 5 rows or more with the label's own rates, as the
            correction and the interval need.
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
    eo_gap_interval: tuple[float, float]
    eo_gap_upper: float
    eo_gap_floor: float
    accuracy: float
    accuracy_interval: tuple[float, float]
    auditor_bound: float
    guarantee: str
    composition: str
    simulated_failure: float | None
    estimable: bool
    notes: tuple[str, ...]
    random_state: int = field(default=0, repr=False)

    @classmethod
    def of(
        cls,
        table: CountTable,
        confidence: float = 0.95,
        random_state: int = 0,
        *,
        guarantee: str = "finite-sample",
        composition: str | None = None,
    ) -> Audit:
        """Measure a table of counts; arguments as in `audit`."""
        information.check_confidence(confidence)
        random_state = seed_of(random_state)
        table = without_dust(table)
        known = certify(table, confidence, random_state, guarantee, composition)
        noise = known.noise
        v, u = inference.corrected(table, noise)
        return cls(
            table=table,
            confidence=confidence,
            violation=noise.violation,
            utility=float(information.mutual_information(table.counts)),
            violation_corrected=v,
            utility_corrected=u,
            violation_interval=known.interval,
            violation_upper=known.upper,
            p_value=inference.p_value(table, random_state, noise),
            eo_gap=float(information.eo_gap(table.counts)),
            eo_gap_interval=gaps.eo_gap_interval(table, confidence, random_state),
            eo_gap_upper=gaps.eo_gap_bound(table, confidence, guarantee),
            eo_gap_floor=gaps.eo_gap_floor(table, random_state),
            accuracy=float(information.accuracy(table.counts)),
            accuracy_interval=accuracy_interval(table, confidence),
            auditor_bound=float(information.auditor_bound(noise.violation)),
            simulated_failure=known.failure,
            guarantee=guarantee,
            composition=known.composition,
            estimable=noise.estimable,
            notes=(*sparse_notes(table, noise), *number_notes(table)),
            random_state=random_state,
        )

    @cached_property
    def violation_floor(self) -> float:
        """The v that groups shuffled within labels show on average: a smaller one is noise."""
        return violation_floor(self.table)

    @property
    def eo_max(self) -> float:
        """The largest difference of rates for any label: fairlearn's equalized_odds_difference."""
        return float(METRICS["eo_max"](self.table.counts))

    @property
    def fpr_gap(self) -> float:
        """Range of the groups' false-positive rates; NaN where fewer than two groups show one."""
        return self._rate_gap("fpr_gap", 0)

    @property
    def tpr_gap(self) -> float:
        """Range of the groups' true-positive rates; NaN where fewer than two groups show one."""
        return self._rate_gap("tpr_gap", 1)

    @property
    def parity_gap(self) -> float:
        """Range of the groups' shares of each decision: the demographic-parity difference."""
        return float(METRICS["parity_gap"](self.table.counts))

    @property
    def impact_ratio(self) -> float:
        """Smallest share of the last prediction in a group, divided by the largest."""
        return float(METRICS["impact_ratio"](self.table.counts))

    @property
    def predictive_gap(self) -> float:
        """Largest difference between groups of what a decision means, over the decisions."""
        return float(METRICS["predictive_gap"](self.table.counts))

    def _rate_gap(self, name: str, label: int) -> float:
        labels = self.table.labels
        if len(labels) != 2:
            raise InputError(
                f"`{name}` needs two labels, but there are {len(labels)} ({listed(labels)}). Read "
                "`by_label`, or audit one label against the rest."
            )
        seen = self.table.counts[label].sum(-1) > 0
        return float(METRICS[name](self.table.counts)) if seen.sum() > 1 else float("nan")

    @property
    def independence(self) -> float:
        """I(U; Z): what the prediction says about the group; 0 under demographic parity."""
        return float(METRICS["independence"](self.table.counts))

    @property
    def sufficiency(self) -> float:
        """I(Y; Z | U): what the label says about the group beyond the prediction.

        independence + sufficiency = violation + base_dependence.
        """
        return float(METRICS["sufficiency"](self.table.counts))

    @property
    def base_dependence(self) -> float:
        """I(Y; Z): what the label says about the group, whatever is predicted."""
        return float(BASE_DEPENDENCE.information(self.table.counts))

    @cached_property
    def criteria(self) -> dict[str, Dependence]:
        """Independence, sufficiency, equal opportunity (two labels) and base dependence, measured.

        Each has its value in nats, correction, interval, p-value, and the gaps that people know:
        `a.criteria["independence"].gaps["parity_gap"].interval`. Separation is the audit itself.
        """
        return dependences(self.table, self.confidence, self.random_state)

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
        """The columns of `cells`; a cell (y, z) without rows has no rate and is left out.

        With more than 20 predictions, so are those that no row with the label has.
        """
        counts = self.table.counts
        rates = information.conditional_rates(counts)
        low, high = bounds.rate_intervals(self.table, self.confidence, simultaneous=False)
        of_label = counts.sum(1) / np.maximum(counts.sum((1, 2)), 1e-300)[:, None]
        part = information.violation_by_cell(counts)
        listed = ~np.isnan(rates)
        if counts.shape[2] > MANY:
            listed &= of_label[:, None] > 0
        where = [tuple(index) for index in np.argwhere(listed).tolist()]
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

    def _page(self) -> AuditPage:
        return pages.decisions_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, the frames as columns."""
        two = len(self.table.labels) == 2
        return {
            "rows": self.table.rows,
            "labels": list(self.table.labels),
            "groups": list(self.table.groups),
            "predictions": "hard" if self.table.moments is None else "posterior or weighted",
            **self._fields("table", "random_state"),
            "eo_max": self.eo_max,
            **({n: _or_none(getattr(self, n)) for n in ("fpr_gap", "tpr_gap")} if two else {}),
            "parity_gap": self.parity_gap,
            "impact_ratio": self.impact_ratio,
            "independence": self.independence,
            "sufficiency": self.sufficiency,
            "base_dependence": self.base_dependence,
            "criteria": {name: asdict(found) for name, found in self.criteria.items()},
            "identity": identity(self.table.counts),
            "promise": certificates.promise(self.guarantee, self.composition),
            "by_label": self.label_columns(),
            "by_group": self.group_columns(),
            "cells": self.cell_columns(),
        }


def _readable(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Intersections as text, since not every dataframe library holds tuples."""
    return {
        name: [group_name(v) if isinstance(v, tuple) else v for v in column]
        for name, column in columns.items()
    }


def _or_none(x: float) -> float | None:
    return None if np.isnan(x) else x


def _share(part: np.ndarray) -> list[float]:
    total = part.sum()
    return (part / total if total > 0 else np.zeros_like(part)).tolist()
