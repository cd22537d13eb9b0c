r"""What a sample says about any criterion: information and gaps, each with its sampling error.

A criterion is the violation of a table with its axes collapsed or permuted (`core.measures`), so
its bias, interval, test and gap are those of that table (`inference`, `gaps`).

One thing is not in the permuted table. For sufficiency a posterior q counts in the cells of all
predictions u at once, and these cells covary. The variance of the pointwise information is
therefore taken from the unpermuted table, exactly. The degrees of freedom are divided by the number
of predictions K: for a positive matrix of K × K blocks, ‖M‖² ≤ K Σ ‖M_uu‖², so the test is
conservative. Intervals of gaps take variances K times as large, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, eo_gap, violation_gradient
from separatrix.core.measures import BASE_DEPENDENCE, CRITERIA, Criterion
from separatrix.core.numerics import Mask
from separatrix.statistics import gaps, inference, shuffling


@dataclass(frozen=True)
class Gap:
    """A distance between groups, what shuffled groups show, and a large-sample interval if any.

    `value` is None where nothing tells: fewer than two groups have rows to compare.
    """

    value: float | None
    floor: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Dependence:
    """One criterion, measured.

    Args:
        value: plug-in information in nats; 0 under the criterion.
        corrected: the same less its bias; may be slightly negative.
        interval: asymptotic; None where cells are too small (`estimable` is False).
        p_value: of the hypothesis that the criterion holds.
        estimable: whether correction and interval can be trusted, as in `inference.Noise`.
        gaps: the distances between groups that people know, by name.
    """

    value: float
    corrected: float
    interval: tuple[float, float] | None
    p_value: float
    estimable: bool
    gaps: dict[str, Gap]


def dependence(table: CountTable, criterion: Criterion, confidence: float = 0.95, random_state: int = 0) -> Dependence:
    """Measure one criterion.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 2_000))
    >>> measured = dependence(count_labels(y, u, sensitive_features=z), CRITERIA["independence"])
    >>> measured.p_value > 0.05, measured.interval[0], list(measured.gaps)
    (True, 0.0, ['parity_gap'])
    """
    view = criterion.table(table)
    error = inference.noise(view)
    if table.moments is not None and _shared(table, criterion):
        # the variance of one row's pointwise information, with all second moments of the table, in
        # units of the view's effective rows, as `inference.noise` has it
        g = criterion.view(violation_gradient(view.counts) - float(conditional_mutual_information(view.counts)))
        variance = float(np.einsum("yzu,yzuw,yzw->", g, table.moments, g) / view.weight_squares.sum())
        freedom = error.freedom / int((view.counts.sum((1, 2)) > 0).sum())
        error = replace(error, variance=variance, freedom=freedom)
    groups = table.counts.sum((0, 2)) > 0
    distances = {
        name: _gap(gap_view, confidence, random_state, len(view.labels) * shared, groups)
        for name, gap_view, shared in _views(table, view, criterion)
    }
    interval = error.interval(confidence) if error.estimable else None
    p_value = shuffling.p_value(view, random_state, error)
    return Dependence(error.violation, error.corrected, interval, p_value, error.estimable, distances)


def dependences(table: CountTable, confidence: float = 0.95, random_state: int = 0) -> dict[str, Dependence]:
    """All criteria but separation, and the base dependence, by name.

    Equal opportunity is about the second of two labels.
    """
    second = len(table.labels) == 2 and table.counts[-1].sum() > 0
    left_out = ("separation",) if second else ("separation", "equal_opportunity")
    measured = [c for name, c in CRITERIA.items() if name not in left_out] + [BASE_DEPENDENCE]
    return {c.name: dependence(table, c, confidence, random_state) for c in measured}


def mean_gap(several: Sequence[Gap]) -> Gap:
    """The mean of gaps of different rows; the means of the ends are on the wide side."""
    values = [gap.value for gap in several if gap.value is not None]
    ends = [gap.interval for gap in several if gap.interval is not None]
    value = float(np.mean(values)) if len(values) == len(several) else None
    interval = tuple(np.mean(ends, axis=0).tolist()) if len(ends) == len(several) else None
    return Gap(value, float(np.mean([gap.floor for gap in several])), interval)


def _views(table: CountTable, view: CountTable, criterion: Criterion) -> list[tuple[str, CountTable, bool]]:
    """The gaps of a criterion: name, table, and whether its cells covary.

    With two predictions sufficiency has two gaps, of the positive and the negative predictive
    value; with more, the mean over predictions.
    """
    if criterion.name != "sufficiency" or len(table.predictions) != 2:
        return [(criterion.gap_name, view, _shared(table, criterion))]
    views = []
    for k, name in ((1, "ppv_gap"), (0, "npv_gap")):
        moments = None if view.moments is None else view.moments[k : k + 1]
        views.append((name, replace(view, counts=view.counts[k : k + 1], labels=(k,), moments=moments), False))
    return views


def _gap(view: CountTable, confidence: float, random_state: int, covarying: int, groups: Mask) -> Gap:
    """The gap of a view, and its interval; `groups` are those with rows in the whole table."""
    if view.counts.sum() <= 0:  # a prediction that nobody gets
        return Gap(None, 0.0, (0.0, 1.0))
    wide = replace(view, moments=covarying * view.second_moments) if covarying else view
    known = ((view.counts.sum(2) > 0).sum(1) > 1).any()
    return Gap(
        float(eo_gap(view.counts)) if known else None,
        gaps.eo_gap_floor(view, random_state),
        gaps.eo_gap_interval(wide, confidence, random_state, groups),
    )


def _shared(table: CountTable, criterion: Criterion) -> bool:
    """Whether a row counts in several cells of what is known: posteriors, for sufficiency."""
    if table.moments is None or criterion.name != "sufficiency":
        return False
    squares = np.diagonal(table.moments, axis1=-2, axis2=-1).sum()
    return bool(np.abs(table.moments).sum() > squares * (1.0 + 1e-12))
