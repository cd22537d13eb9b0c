"""Audit of a score: how far from separation at every threshold, not at one decision only."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from separatrix.auditing.base import CertifiedAudit, certified
from separatrix.columns.groups import group_name, to_plain
from separatrix.columns.values import listed
from separatrix.core import information
from separatrix.core.counts import CountTable, diagonal
from separatrix.core.numerics import effective_rows
from separatrix.core.score_tables import Binned, ScoreTable, gap_curve, largest_gap, tail_rates
from separatrix.errors import InputError
from separatrix.report import audits
from separatrix.report.audit_page import AuditPage
from separatrix.statistics.bounds import auroc_interval, gap_bound
from separatrix.statistics.dependence import Dependence, Gap, dependences, mean_gap
from separatrix.statistics.shuffling import shuffled_tables

_FINE = 1_024  # quantile bins of the ROC curves and of the shuffled gap
_DRAWS = 400  # shuffles behind the floor of v


class RocCurve(NamedTuple):
    """One group's false- and true-positive rates of the decision S > threshold, from all to none.

    The first threshold is None: everybody is accepted.
    """

    threshold: list[float | None]
    fpr: list[float]
    tpr: list[float]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreAudit(CertifiedAudit):
    """How far a score is from separation, over all thresholds, and how sure we are.

    Made by `audit_score`; from a table of scores directly with `ScoreAudit.from_table(table)`.
    The second label is the positive one.

    Attributes:
        gap: largest equalized-odds gap over all thresholds: mean over the two labels of the largest
            group difference of P(S > t | y, z).
        gap_at: the threshold t where it is; the decision is S > t.
        gap_upper: finite-sample bound on the gap at every threshold at once, at `confidence`.
        gap_floor: the largest gap that groups shuffled within labels show on average.
        violation: plug-in v = I(S; Z | Y) in nats, of the score in quantile bins.
        violation_floor: the same with groups shuffled within labels, on average.
        violation_corrected, violation_interval, violation_upper, p_value: as in `Audit`, in bins.
        guarantee, composition, simulated_failure: of `violation_upper`, as in `Audit`. `gap_upper`
            holds for any number of rows and any composition.
        auroc: area under the ROC curve of all rows.
        auroc_interval: its large-sample interval at `confidence` (DeLong).
        auroc_by_group: the same of each group; NaN for a group without one of the labels.
        curves: each group's ROC curve (`RocCurve`), at quantiles of the score.
        rates: each group's (false-positive rate, true-positive rate) at `gap_at`.
        distinct: how many different scores there are, or bins of a histogram with rows.
        exact: whether every score was told apart; False where an engine counted a histogram.
        notes: what the reader must know about these numbers, one sentence each.
        table: the counts N[y, z, bin] behind the violation.
    """

    bins: int
    gap: float
    gap_at: float
    gap_upper: float
    gap_floor: float
    violation_floor: float
    auroc: float
    auroc_interval: tuple[float, float]
    auroc_by_group: dict[Hashable, float]
    curves: dict[Hashable, RocCurve] = field(repr=False)
    rates: dict[Hashable, tuple[float, float]] = field(repr=False)
    distinct: int
    exact: bool

    @classmethod
    def from_table(
        cls,
        scores: ScoreTable,
        bins: int = 20,
        confidence: float = 0.95,
        random_state: int = 0,
        *,
        guarantee: str = "finite-sample",
        composition: str | None = None,
    ) -> ScoreAudit:
        """Measure a table of scores; arguments as in `audit_score`."""
        _check(scores, bins)
        coarse = scores.binned(bins)
        moments = None if scores.squares is None else diagonal(coarse.squares)
        names = tuple(range(coarse.counts.shape[2]))
        table = CountTable(coarse.counts, scores.labels, scores.groups, names, scores.rows, moments)
        _, known = certified(table, confidence, random_state, guarantee, composition)
        seed = known["random_state"]
        gap, threshold = largest_gap(scores)
        fine = scores.binned(_FINE)
        effective = None if scores.squares is None else effective_rows(coarse.counts.sum(2), coarse.squares.sum(2))
        auroc, by_group = scores.auroc()
        null = shuffled_tables(coarse.counts, _DRAWS, seed, effective)
        draws = int(np.clip(2_000_000 // fine.counts.size, 20, 200))
        null_gap = gap_curve(shuffled_tables(fine.counts, draws, seed, effective)).max(-1)
        return cls(
            **known | {"notes": (*_few_bins(scores, coarse, bins), *known["notes"])},
            bins=coarse.counts.shape[2],
            gap=gap,
            gap_at=threshold,
            gap_upper=max(gap_bound(scores, confidence), gap),
            gap_floor=float(null_gap.mean()),
            violation_floor=float(information.conditional_mutual_information(null).mean()),
            auroc=auroc,
            auroc_interval=auroc_interval(scores, confidence),
            auroc_by_group=by_group,
            curves=_curves(scores, fine),
            rates=_rates(scores, threshold),
            distinct=len(scores.values),
            exact=scores.exact,
        )

    @cached_property
    def criteria(self) -> dict[str, Dependence]:
        """Independence, sufficiency and base dependence of the score in bins.

        The parity gap is the largest over all thresholds; the calibration gap is the mean over bins
        of the largest difference of P(second label | bin) between two groups.
        """
        measured = dependences(self.table, self.confidence, self.random_state)
        del measured["equal_opportunity"]  # `gap` and `rates` speak of true-positive rates
        calibration = mean_gap([*measured["sufficiency"].gaps.values()])
        return measured | {
            "independence": replace(measured["independence"], gaps={"parity_gap": self._parity()}),
            "sufficiency": replace(measured["sufficiency"], gaps={"calibration_gap": calibration}),
        }

    def _parity(self) -> Gap:
        """The largest difference of P(S > t) between two groups over all thresholds."""
        mass = self.table.counts.sum(2)
        share = mass / mass.sum(0)
        curves = np.array([[curve.fpr, curve.tpr] for curve in self.curves.values()])
        above = np.einsum("yz,zyt->zt", share, np.nan_to_num(curves))
        merged = self.table.counts.sum(0, keepdims=True)
        effective = None
        if self.table.moments is not None:
            effective = effective_rows(mass.sum(0), self.table.weight_squares.sum(0))
        null = shuffled_tables(merged, _DRAWS, self.random_state, None if effective is None else effective[None])
        return Gap(float(np.ptp(above, axis=0).max()), float(gap_curve(null).max(-1).mean()))

    def _page(self) -> AuditPage:
        return audits.score_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values; a rate or an area that is not defined is None."""
        by_group: dict[str, dict[Hashable, Any]] = {
            "auroc_by_group": self.auroc_by_group,
            "rates": {group: {"fpr": fpr, "tpr": tpr} for group, (fpr, tpr) in self.rates.items()},
            "curves": {group: curve._asdict() for group, curve in self.curves.items()},
        }
        return self._plain(*by_group) | {
            name: to_plain({group_name(group): value for group, value in values.items()})
            for name, values in by_group.items()
        }


def _check(scores: ScoreTable, bins: int) -> None:
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or not 2 <= bins <= 1_000:
        raise InputError(f"`bins` must be a whole number from 2 to 1,000, got {bins!r}.")
    if len(scores.labels) > 2:
        last = scores.labels[-1]
        raise InputError(
            f"One score ranks two labels, but there are {len(scores.labels)} ({listed(scores.labels)}); audit one "
            f"label against the rest: pass `y_true == {last!r}` with that label's score."
        )


def _curves(scores: ScoreTable, fine: Binned) -> dict[Hashable, RocCurve]:
    rates = tail_rates(fine.counts)
    start = [None, *fine.values.tolist()]
    ones = np.where(np.isnan(rates[..., :1]), np.nan, 1.0)
    fpr, tpr = np.concatenate([ones, rates], axis=-1)
    return {group: RocCurve(start, fpr[z].tolist(), tpr[z].tolist()) for z, group in enumerate(scores.groups)}


def _rates(scores: ScoreTable, threshold: float) -> dict[Hashable, tuple[float, float]]:
    """Each group's (FPR, TPR) of the decision S > at."""
    above = np.searchsorted(scores.atom, np.searchsorted(scores.values, threshold, side="right"))
    weight = None if scores.weight is None else scores.weight[above:]
    mass = scores.totals[0]
    over = np.bincount(scores.cell[above:], weight, minlength=mass.size).reshape(mass.shape)
    rate = np.divide(over, mass, out=np.full(mass.shape, np.nan), where=mass > 0)
    return {g: (float(rate[0, z]), float(rate[1, z])) for z, g in enumerate(scores.groups)}


def _few_bins(scores: ScoreTable, coarse: Binned, bins: int) -> list[str]:
    got, notes = coarse.counts.shape[2], []
    if got == 1:
        notes.append("All rows have the same score: it says nothing about the label or the group.")
    elif got < bins:
        notes.append(f"Few different scores: equal ones stay together, so {got} bins instead of {bins}.")
    if not scores.exact:
        notes.append(
            "The engine counted the scores in bins of equal width; scores in one bin count as "
            "equal. The certified bound covers the thresholds inside the bins too."
        )
    return notes
