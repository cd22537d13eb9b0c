"""Audit: one table of counts, measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from separatrix.auditing.base import CertifiedAudit, certified, number_notes
from separatrix.columns.frames import tidy
from separatrix.columns.groups import group_name, to_plain
from separatrix.columns.values import listed
from separatrix.core import information
from separatrix.core.counts import CountTable
from separatrix.core.measures import BASE_DEPENDENCE, METRICS
from separatrix.errors import InputError
from separatrix.report import audits
from separatrix.report.audit_page import AuditPage
from separatrix.statistics import bounds, gaps, inference
from separatrix.statistics.shuffling import violation_floor

MANY = 20  # predictions, beyond which `cells` lists only those that occur with the label
_DUST = 1e-150  # share of the weight below which a cell counts as empty: its square is no number


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit(CertifiedAudit):
    """How far a model is from separation, and how sure we are. All information is in nats.

    Made by `audit`, or from a table of counts with `Audit.from_table`.

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
        composition: the people that `violation_upper` is about. "population": the distribution that the rows
            were drawn from. "observed": people with the observed shares of labels and groups.
        simulated_failure: how often the large-sample bound on v failed on simulated tables like
            this one, with v at the bound; None for "finite-sample".
        estimable: whether every cell would hold 5 rows or more with the label's own rates, as the
            correction and the interval need.
        notes: what the reader must know about these numbers, one sentence each.
        table: the counts behind it all.
    """

    utility: float
    utility_corrected: float
    eo_gap: float
    eo_gap_interval: tuple[float, float]
    eo_gap_upper: float
    eo_gap_floor: float
    accuracy: float
    accuracy_interval: tuple[float, float]
    auditor_bound: float

    @classmethod
    def from_table(
        cls,
        table: CountTable,
        confidence: float = 0.95,
        random_state: int = 0,
        *,
        guarantee: str = "finite-sample",
        composition: str | None = None,
    ) -> Audit:
        """Measure a table of counts; arguments as in `audit`."""
        table = _without_dust(table)
        noise, known = certified(table, confidence, random_state, guarantee, composition)
        seed = known["random_state"]
        return cls(
            **known | {"notes": (*known["notes"], *number_notes(table))},
            utility=float(information.mutual_information(table.counts)),
            utility_corrected=inference.corrected_utility(table),
            eo_gap=float(information.eo_gap(table.counts)),
            eo_gap_interval=gaps.eo_gap_interval(table, confidence, seed),
            eo_gap_upper=gaps.eo_gap_bound(table, confidence, guarantee),
            eo_gap_floor=gaps.eo_gap_floor(table, seed),
            accuracy=float(information.accuracy(table.counts)),
            accuracy_interval=bounds.accuracy_interval(table, confidence),
            auditor_bound=float(information.auditor_bound(noise.violation)),
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
            seen = f"{len(labels)} ({listed(labels)})"
            raise InputError(f"`{name}` needs two labels, but there are {seen}. Read `by_label`.")
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
        violation = information.violation_by_cell(counts).sum(1)
        return {
            "label": list(self.table.labels),
            "rows": counts.sum((1, 2)).tolist(),
            "violation": violation.tolist(),
            "share": _share(violation),
            "eo_gap": apart.max((1, 2)).tolist(),
            "group_a": [self.table.groups[min(pair)] for pair in pairs],
            "group_b": [self.table.groups[max(pair)] for pair in pairs],
        }

    def group_columns(self) -> dict[str, list[Any]]:
        """The columns of `by_group`."""
        counts = self.table.counts
        rows = counts.sum((0, 2))
        violation = information.violation_by_cell(counts).sum(0)
        right = np.einsum("yzy->z", counts)
        return {
            "group": list(self.table.groups),
            "rows": rows.tolist(),
            "violation": violation.tolist(),
            "share": _share(violation),
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
        violation = information.violation_by_cell(counts)
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
            "violation": [float(violation[y, z]) for y, z, _ in where],
        }

    def _page(self) -> AuditPage:
        return audits.decisions_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, the frames as columns."""
        names = ["eo_max", "parity_gap", "impact_ratio", "independence", "sufficiency"]
        names += ["fpr_gap", "tpr_gap"] if len(self.table.labels) == 2 else []
        return {
            **self._plain(),
            "predictions": "hard" if self.table.moments is None else "posterior or weighted",
            **to_plain({name: getattr(self, name) for name in (*names, "base_dependence")}),
            "by_label": self.label_columns(),
            "by_group": self.group_columns(),
            "cells": self.cell_columns(),
        }


def _without_dust(table: CountTable) -> CountTable:
    """The table without cells (y, z) that weigh nothing beside the others."""
    mass = table.counts.sum(2)
    dust = (mass > 0) & (mass < _DUST * mass.sum())
    if not dust.any() or table.moments is None:
        return table
    counts, moments = table.counts.copy(), table.moments.copy()
    counts[dust], moments[dust] = 0.0, 0.0
    return replace(table, counts=counts, moments=moments)


def _readable(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Intersections as text, since not every dataframe library holds tuples."""
    return {name: [group_name(v) if isinstance(v, tuple) else v for v in column] for name, column in columns.items()}


def _share(violation: np.ndarray) -> list[float]:
    total = violation.sum()
    return (violation / total if total > 0 else np.zeros_like(violation)).tolist()
