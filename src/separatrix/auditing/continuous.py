"""Audit of numbers: a numeric outcome, or a continuous attribute such as age."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from separatrix.auditing.base import AuditResult
from separatrix.columns.draws import seed_of
from separatrix.columns.frames import tidy
from separatrix.columns.groups import group_name
from separatrix.columns.scores import Quantities
from separatrix.core.conditional_cmi import conditional_rank, is_tied, outcome_blocks
from separatrix.core.crosstab import crosstab
from separatrix.core.information import check_confidence
from separatrix.report import audits
from separatrix.report.audit_page import AuditPage
from separatrix.statistics import inference
from separatrix.statistics.rank_tables import RankTable, Resolution, resolution_of

Array = NDArray[np.float64]
_FINE = 200  # bins of ranks behind the medians
_QUARTILES = np.array([0.25, 0.75])


class RankCurve(NamedTuple):
    """One group's median rank in each band of outcomes; None where it has no rows.

    `outcome` is the band's mean outcome, or its label; `low` and `high` are the interval's ends.
    """

    outcome: list[Any]
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousAudit(AuditResult):
    """How far predictions are from separation where the outcome or the attribute is a number.

    Made by `audit_regression`. A rank is the place of a prediction among people with about the same
    outcome, from 0 to 1. All information is in nats.

    Attributes:
        violation_lower: v = I(U; Z | Y) is at least this, at `confidence`, for large samples. There
            is no upper bound without assumptions.
        p_value: of v = 0, with the attribute shuffled among people with about the same outcome.
        violation_at_resolution: bias-corrected I(V̂; Z | B), what the ranks say about the attribute
            in the bands and bins of `resolution`; may be slightly negative.
        violation_interval: of I(V̂; Z | B), at `confidence`.
        resolution: bands of the outcome, groups (or bins of the attribute), bins of ranks.
        blocks: of neighbouring outcomes in which predictions are ranked.
        outcome_dependence: I(Y; Z | block), what the outcome says about the attribute inside a
            block; bias-corrected.
        rank_dependence: I(V̂; Y | block), what the ranks say about the outcome inside a block;
            bias-corrected. The smaller of the two is taken off `violation_lower`.
        distinct: how many different predictions there are.
        r2, rmse: of the prediction as a prediction of the outcome; None for labels.
        curves: each group's median rank along the outcome (`RankCurve`).
        notes: what the reader must know about these numbers, one sentence each.
        table: the counts N[band, group, bin of ranks] behind the violation.
    """

    rows: int
    target: str
    sensitive: str
    groups: tuple[Hashable, ...]
    violation_lower: float
    violation_at_resolution: float
    resolution: Resolution
    blocks: int
    outcome_dependence: float
    rank_dependence: float
    distinct: int
    r2: float | None
    rmse: float | None
    curves: dict[Hashable, RankCurve] = field(repr=False)
    ranks: dict[Hashable, tuple[float, ...]] = field(repr=False)

    @classmethod
    def from_rows(cls, rows: Quantities, confidence: float = 0.95, random_state: int = 0) -> ContinuousAudit:
        """Measure columns that are numbers, labels and groups already."""
        check_confidence(confidence)
        ranks = _rank_table(rows, np.random.default_rng(seed_of(random_state)))
        distinct = len(np.unique(rows.u))
        error = ranks.error
        known = error.estimable and distinct > 1
        curves, quartiles = _curves(rows, ranks, confidence)
        r2, rmse = _fit(rows) if rows.labels is None else (None, None)
        return cls(
            table=ranks.table,
            rows=len(rows.y),
            target="continuous" if rows.labels is None else "labels",
            sensitive="groups" if rows.z is None else "continuous",
            groups=rows.group.levels,
            confidence=confidence,
            violation_lower=ranks.violation_lower(confidence) if known else 0.0,
            p_value=ranks.p_value() if known else 1.0,
            violation_at_resolution=error.corrected if known else 0.0,
            violation_interval=error.interval(confidence) if known else (0.0, error.ceiling),
            resolution=Resolution(len(ranks.table.labels), ranks.shape.groups, ranks.shape.ranks),
            blocks=int(ranks.block.max()) + 1,
            outcome_dependence=ranks.outcome_dependence,
            rank_dependence=ranks.rank_dependence,
            distinct=distinct,
            r2=r2,
            rmse=rmse,
            curves=curves,
            ranks=quartiles,
            estimable=known,
            notes=_notes(rows, ranks, distinct, error),
        )

    @property
    def by_group(self) -> Any:
        """Frame: per group its rows, its median rank with an interval, and its quartiles."""
        return tidy(self.group_columns())

    def group_columns(self) -> dict[str, list[Any]]:
        """The columns of `by_group`; a group is a quarter where the attribute is continuous."""
        names = "rows", "median", "low", "high", "lower_quartile", "upper_quartile"
        columns = zip(*self.ranks.values(), strict=True)
        return {"group": list(map(group_name, self.groups))} | {
            name: list(column) for name, column in zip(names, columns, strict=True)
        }

    def _page(self) -> AuditPage:
        return audits.numbers_page(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        plain = self._fields("table", "curves", "ranks", "groups", "resolution")
        curves = {group_name(group): curve._asdict() for group, curve in self.curves.items()}
        more = {"groups": list(self.groups), "resolution": asdict(self.resolution)}
        return plain | more | {"by_group": self.group_columns(), "curves": curves}


def _rank_table(rows: Quantities, rng: np.random.Generator) -> RankTable:
    shape = resolution_of(len(rows.y), rows.group.counts() if rows.z is None else None)
    if rows.labels is None:
        block = outcome_blocks(rows.y)
    else:
        block = rows.y.astype(np.intp)
        shape = Resolution(len(rows.labels), shape.groups, shape.ranks)
    how: dict[str, Any] = {"weight": rows.weight, "block": block, "random_state": rng}
    rank = conditional_rank(rows.u, rows.y, **how)
    # a numeric attribute by its rank, W = F(Z | Y)
    attribute = rows.group.codes.astype(np.intp) if rows.z is None else conditional_rank(rows.z, rows.y, **how)
    numeric = rows.labels is None
    lines = numeric and not is_tied(rows.u), numeric and rows.z is not None and not is_tied(rows.z)
    return RankTable(rows.y, block, rank, attribute, shape, rows.weight, lines)


def _curves(
    rows: Quantities, ranks: RankTable, confidence: float
) -> tuple[dict[Hashable, RankCurve], dict[Hashable, tuple[float, ...]]]:
    """Median ranks by band, and (rows, median, low, high, quartiles) over all of them."""
    band, group = ranks.band, rows.group.codes
    fine = (ranks.rank * _FINE).astype(np.intp)
    shape = len(ranks.table.labels), len(rows.group.levels), _FINE
    counts = crosstab([band, group, fine], shape, rows.weight)
    squares = counts if rows.weight is None else crosstab([band, group, fine], shape, rows.weight**2)
    mass = np.bincount(band, rows.weight)
    outcome: list[Any] = list(rows.labels or ())
    if rows.labels is None:
        scale = float(np.abs(rows.y).max())  # sums stay finite
        y = rows.y / scale if rows.weight is None else rows.y / scale * rows.weight
        outcome = (np.bincount(band, y) / mass * scale).tolist()
    curves: dict[Hashable, RankCurve] = {}
    whole: dict[Hashable, Any] = {}
    for z, name in enumerate(rows.group.levels):
        bands = [_medians(counts[b, z], squares[b, z], confidence) for b in range(shape[0])]
        curves[name] = RankCurve(outcome, *map(list, zip(*bands, strict=True)))
        in_group = counts[:, z].sum(0)
        middle = _medians(in_group, squares[:, z].sum(0), confidence)
        ends = _quantiles(in_group, _QUARTILES).tolist()
        whole[name] = float(np.sum(group == z)), *middle, *ends
    return curves, whole


def _medians(counts: Array, squares: Array, confidence: float) -> tuple[float | None, float | None, float | None]:
    """The median of binned ranks and the ends of its interval; None without rows."""
    if counts.sum() <= 0:
        return None, None, None
    reach = ndtri(0.5 + 0.5 * confidence) * 0.5 * np.sqrt(squares.sum()) / counts.sum()
    median, low, high = _quantiles(counts, np.clip([0.5, 0.5 - reach, 0.5 + reach], 0.0, 1.0)).tolist()
    return median, low, high


def _quantiles(counts: Array, shares: Array) -> Array:
    below = np.append(0.0, np.cumsum(counts)) / counts.sum()
    return np.interp(shares, below, np.linspace(0.0, 1.0, len(below)))


def _fit(rows: Quantities) -> tuple[float | None, float]:
    """R² and root mean squared error of U as a prediction of Y; no R² where U dwarfs Y."""
    w = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    scale = max(float(np.abs(rows.y).max()), float(np.abs(rows.u).max()))  # squares stay finite
    y, u = rows.y / scale, rows.u / scale
    error, spread = (np.average((y - x) ** 2, weights=w) for x in (u, np.average(y, weights=w)))
    r2 = float(1.0 - error / spread) if spread > 1e-300 else None
    return r2, float(np.sqrt(error) * scale)


def _notes(rows: Quantities, ranks: RankTable, distinct: int, error: inference.Noise) -> tuple[str, ...]:
    notes = []
    if distinct == 1:
        notes.append("All predictions are equal: they say nothing about outcome or attribute.")
    elif not error.estimable:
        notes.append(
            f"{len(rows.y):,} rows are too few to say anything: at the coarsest resolution a cell "
            f"would hold fewer than {inference.MIN_FITTED:.0f} rows."
        )
    elif rows.z is None and (joined := np.unique(ranks.group[ranks.counted != ranks.group])).size:
        names = ", ".join(group_name(rows.group.levels[z]) for z in joined[:4])
        notes.append(
            f"Groups with few rows at some outcomes are counted with a larger one there ({names}"
            f"{', …' if len(joined) > 4 else ''}). The bound holds, but it sees less of them."
        )
    if rows.weight is not None:
        notes.append("The rows are weighted; limits and test assume weights that depend on outcome and attribute only.")
    return tuple(notes)
