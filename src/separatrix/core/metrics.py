"""The one list of metrics. Tables, `select`, report, figures and the command line read it.

A metric is one entry of `METRICS`. A function of the table N[y, z, u] is computed wherever tables
are read; a metric that needs the scores (AUROC) is measured when the model predicts.

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

__all__ = ["METRICS", "Metric", "budgets", "leading", "measure", "objectives"]

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
}


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
