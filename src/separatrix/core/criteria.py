r"""The one list of criteria: what it may mean that decisions do not depend on the group.

Each criterion asks that one thing says nothing about the group Z once another is known. It is
the conditional information I(·; Z | ·) of the table N[y, z, u] with its axes collapsed or permuted,
so one function measures all of them, one room tests them, and one identity binds them:

.. math:: I(U;Z) + I(Y;Z \mid U) = I(U;Z \mid Y) + I(Y;Z)

independence + sufficiency = separation + what the labels themselves say about the group. Where the
last term is not zero, the first two cannot both vanish, whatever is predicted.

>>> N = np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])
>>> found = {name: float(c.information(N)) for name, c in CRITERIA.items()}
>>> base = float(BASE_DEPENDENCE.information(N))
>>> bool(np.isclose(found["independence"] + found["sufficiency"], found["separation"] + base))
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from separatrix.core.counts import CountTable, diagonal
from separatrix.core.information import conditional_mutual_information, gaps_by_label
from separatrix.errors import InputError

__all__ = ["BASE_DEPENDENCE", "CRITERIA", "Criterion", "criterion_named", "identity"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Criterion:
    """One entry of the list.

    Args:
        name: as users pass it.
        says: what it asks for, in plain words.
        statement, symbol: the same as mathematics, and the information that is 0 under it.
        elsewhere: what others call it.
        gap_name, gap_label: its distance between groups in users' terms; a budget of that name
            bounds it.
        view: counts (..., y, z, u) → (..., what is known, z, what varies).
        varies: "prediction" or "label": what must not depend on the group.
        budgets: what can be kept small for it, see `optimum.objectives`; the first is the default.
        worst: the gap is the largest over what is known; otherwise the mean.
    """

    name: str
    says: str
    statement: str
    symbol: str
    elsewhere: str
    gap_name: str
    gap_label: str
    view: Callable[[Array], Array]
    varies: str
    budgets: tuple[str, ...] = ()
    worst: bool = False

    def information(self, counts: Array) -> Array:
        """The criterion's information in nats, from counts (..., y, z, u)."""
        return conditional_mutual_information(self.view(np.asarray(counts, dtype=np.float64)))

    def gap(self, counts: Array) -> Array:
        """The largest distance between two groups: mean or maximum over what is known.

        >>> N = np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])
        >>> float(CRITERIA["independence"].gap(N).round(3))     # P(U=1): 0.50 and 0.65
        0.15
        >>> float(CRITERIA["equal_opportunity"].gap(N).round(3))        # TPR: 0.8 and 0.9
        0.1
        """
        if self.name == "equal_opportunity":  # the label may have no rows
            return gaps_by_label(counts)[..., -1]
        view = self.view(np.asarray(counts, dtype=np.float64))
        apart, known = gaps_by_label(view), view.sum((-2, -1)) > 0
        if self.worst:
            return np.asarray(apart.max(-1))
        return np.asarray(apart.sum(-1) / np.maximum(known.sum(-1), 1))

    def table(self, table: CountTable) -> CountTable:
        """The table whose violation is this criterion's information, for `statistics`.

        Second moments go with it. Where labels vary, rows that count for several predictions
        (posteriors) are in several of its cells: their covariance is not in the new table.
        """
        known, varying = {
            "separation": (table.labels, table.predictions),
            "equal_opportunity": (table.labels[-1:], table.predictions),
            "sufficiency": (table.predictions, table.labels),
        }.get(self.name, (("any",), getattr(table, f"{self.varies}s")))
        moments = table.moments
        if moments is not None and self.varies == "prediction":
            moments = np.moveaxis(self.view(np.moveaxis(moments, -1, 0)), 0, -1)
        elif moments is not None:
            squares = np.diagonal(moments, axis1=-2, axis2=-1)
            if self is BASE_DEPENDENCE:
                squares = table.weight_squares[..., None]
            moments = diagonal(self.view(squares))
        counts = self.view(table.counts)
        return replace(table, counts=counts, labels=known, predictions=varying, moments=moments)


CRITERIA: dict[str, Criterion] = {
    c.name: c
    for c in (
        Criterion(
            "separation",
            "the same error rates in every group",
            "U ⟂ Z | Y",
            "I(U;Z|Y)",
            "equalized odds",
            "eo_gap",
            "EO gap",
            lambda counts: counts,
            "prediction",
            ("violation", "eo_gap", "eo_max", "fpr_gap"),
        ),
        Criterion(
            "independence",
            "the same share of each decision in every group",
            "U ⟂ Z",
            "I(U;Z)",
            "demographic parity, statistical parity",
            "parity_gap",
            "parity gap",
            lambda counts: counts.sum(-3, keepdims=True),
            "prediction",
            ("independence", "parity_gap"),
        ),
        Criterion(
            "sufficiency",
            "a decision means the same in every group",
            "Y ⟂ Z | U",
            "I(Y;Z|U)",
            "predictive parity, calibration within groups",
            "predictive_gap",
            "predictive gap",
            lambda counts: np.swapaxes(counts, -1, -3),
            "label",
            ("predictive_gap",),
            worst=True,
        ),
        Criterion(
            "equal_opportunity",
            "the same true-positive rate in every group",
            "U ⟂ Z | Y = last label",
            "I(U;Z|Y=1)",
            "equality of opportunity",
            "tpr_gap",
            "TPR gap",
            lambda counts: counts[..., -1:, :, :],
            "prediction",
            ("tpr_gap",),
        ),
    )
}
BASE_DEPENDENCE = Criterion(
    "base_dependence",
    "the same share of each label in every group",
    "Y ⟂ Z",
    "I(Y;Z)",
    "equal base rates",
    "base_gap",
    "base-rate gap",
    lambda counts: np.swapaxes(counts.sum(-1, keepdims=True), -1, -3),
    "label",
)


def criterion_named(name: str) -> Criterion:
    """The criterion of that name, or an error that lists them.

    >>> criterion_named("independence").elsewhere
    'demographic parity, statistical parity'
    """
    if not isinstance(name, str) or name not in CRITERIA:
        names = ", ".join(map(repr, CRITERIA))
        raise InputError(f"`criterion` must be one of {names}, got {name!r}.")
    return CRITERIA[name]


def identity(counts: Array) -> str:
    """The impossibility theorem in the numbers of one table (y, z, u), as a sentence.

    >>> print(identity(np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])))
    Independence + sufficiency = separation + base dependence: 0.0116 + 0.0055 = 0.0171 + 0.0000 \
nats. Labels are equally frequent in all groups here: all three can be 0 at once.
    """
    names = "independence", "sufficiency", "separation"
    parts = [float(CRITERIA[name].information(counts)) for name in names]
    base = float(BASE_DEPENDENCE.information(counts))
    a, b, c, d = (f"{x:.4f}" for x in (*parts, base))
    said = f"Independence + sufficiency = separation + base dependence: {a} + {b} = {c} + {d} nats."
    if base < 5e-5:
        return f"{said} Labels are equally frequent in all groups here: all three can be 0 at once."
    return (
        f"{said} The labels themselves differ between groups, so whatever is predicted, "
        f"independence and sufficiency add up to at least {d}: no prediction has all three at 0."
    )
