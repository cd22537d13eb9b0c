"""Planes in which methods are compared: a budget beside an objective.

docs/evidence/how_we_measured.md says in words what each of them is good for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from separatrix.core import information
from separatrix.errors import InputError

__all__ = ["PLANES", "Plane", "expected_cost", "majority_rate"]

Array = NDArray[np.float64]


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
