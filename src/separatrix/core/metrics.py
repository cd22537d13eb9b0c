"""The one list of metrics. Tables, `select`, report, figures and the command line read it.

A metric is one entry of `METRICS`. A function of the table N[y, z, u] is computed wherever tables
are read; a metric that needs the scores (AUROC) is measured when the model predicts.

A *plane* is a budget beside an objective: `PLANES` are those in which methods are compared.
docs/evidence/yardsticks.md says in words what each of them is good for.

>>> METRICS["eo_gap"].label, METRICS["eo_gap"].lower_is_better
('EO gap', True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from separatrix.core import information
from separatrix.core.criteria import CRITERIA
from separatrix.errors import InputError

__all__ = [
    "METRICS", "PLANES", "Metric", "Plane", "budgets", "expected_cost", "leading", "majority_rate",
    "measure", "objectives",
]  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """One thing that is measured of a policy.

    Args:
        label: short, for the head of a table or a button.
        axis: long, for the axis of a figure.
        of: function of tables (..., y, z, u); None where it needs the scores.
        lower_is_better: a budget bounds it from above; otherwise it is an objective.
        nats: its unit; small values are then written with an exponent.
        mixes: a revealed mixture of two policies has the weighted mean of their values (a budget:
            at most that).
        leads: shown in every table and figure; the others are in `points`, promises and where
            their criterion was asked for.
    """

    label: str
    axis: str
    of: Callable[[Array], Array] | None
    lower_is_better: bool = False
    nats: bool = False
    mixes: bool = True
    leads: bool = True

    @property
    def head(self) -> str:
        """The label with a capital letter, single letters as they are."""
        return self.label if len(self.label) == 1 else self.label[0].upper() + self.label[1:]


_OTHERS = [c for c in CRITERIA.values() if c.name != "separation"]
METRICS: dict[str, Metric] = {
    "violation": Metric(
        "v",
        "violation v = I(U;Z|Y), nats",
        information.conditional_mutual_information,
        lower_is_better=True,
        nats=True,
    ),
    "utility": Metric("u", "utility u = I(U;Y), nats", information.mutual_information, nats=True),
    "eo_gap": Metric("EO gap", "equalized-odds gap", information.eo_gap, lower_is_better=True),
    "accuracy": Metric("accuracy", "accuracy", information.accuracy),
    "balanced_accuracy": Metric(
        "balanced accuracy", "balanced accuracy", information.balanced_accuracy
    ),
    "auroc": Metric("AUROC", "AUROC", None, mixes=False),
    **{
        c.gap_name: Metric(c.gap_label, c.gap_label, c.gap, lower_is_better=True, leads=False)
        for c in _OTHERS
    },
    **{
        c.name: Metric(
            c.symbol, f"{c.name} {c.symbol}, nats", c.information, True, nats=True, leads=False
        )
        for c in _OTHERS
        if c.name != "equal_opportunity"
    },
    "score_violation": Metric(
        "score v",
        "v of the score in 20 quantile bins, nats",
        None,
        lower_is_better=True,
        nats=True,
        mixes=False,
        leads=False,
    ),
    "score_gap": Metric(
        "largest gap",
        "largest EO gap over all thresholds",
        None,
        lower_is_better=True,
        mixes=False,
        leads=False,
    ),
}


@dataclass(frozen=True)
class Plane:
    """Methods are compared by the area above the reference point (most, least) of a plane.

    Args:
        budget, objective: metrics; the smaller the first and the larger the second, the better.
        most: budgets up to here count.
        most_of_many: the same for more than two labels, whose v is of another size.
        least: what counts as nothing; None for the majority rate, which a constant reaches.
        score: whether it judges scores, for two labels, or decisions.
    """

    budget: str
    objective: str
    most: float
    most_of_many: float | None = None
    least: float | None = 0.0
    score: bool = False


PLANES: dict[str, Plane] = {
    "information": Plane("violation", "utility", most=0.02, most_of_many=0.1),
    "decisions": Plane("eo_gap", "accuracy", most=0.1, least=None),
    "scores": Plane("score_violation", "auroc", most=0.02, least=0.5, score=True),
}


def majority_rate(tables: Array) -> Array:
    """The accuracy of always saying the most frequent label: what any rule must beat.

    >>> float(majority_rate(np.array([[[60.0, 15.0]], [[5.0, 20.0]]])))
    0.75
    """
    labels = np.asarray(tables, dtype=np.float64).sum((-2, -1))
    return np.asarray(labels.max(-1) / labels.sum(-1))


def expected_cost(tables: Array, false_positive: float = 1.0, false_negative: float = 1.0) -> Array:
    """The mean cost of a row's error, of tables (..., y, z, u) for two labels.

    >>> float(expected_cost(np.array([[[60.0, 15.0]], [[5.0, 20.0]]]), 1, 5))
    0.4
    """
    p = information.law(tables).sum(-2)
    if p.shape[-2:] != (2, 2):
        raise InputError(f"A cost needs two labels and two decisions, got {p.shape[-2:]}.")
    return np.asarray(false_positive * p[..., 0, 1] + false_negative * p[..., 1, 0])


def leading() -> list[str]:
    """The metrics of every table and figure."""
    return [name for name, metric in METRICS.items() if metric.leads]


def measure(tables: Array) -> dict[str, Array]:
    """Every metric that is a function of the tables (..., y, z, u), by name."""
    return {name: m.of(tables) for name, m in METRICS.items() if m.of is not None}


def budgets() -> list[str]:
    """The leading metrics that a budget bounds from above."""
    return [name for name, metric in METRICS.items() if metric.lower_is_better and metric.leads]


def objectives() -> list[str]:
    """The metrics to maximise."""
    return [name for name, metric in METRICS.items() if not metric.lower_is_better]
