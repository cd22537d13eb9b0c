r"""AlignedScore: one rising map of the score per group, released at a few values.

.. math:: m_z(s) = \sum_k H_k(z) \, m_k(s), \qquad U = \text{the level of } m_z(s)

m_k is piecewise linear and never falls. For groups, H picks the group's own map. For a numeric
attribute the m_k belong to knots of z and H are hat functions, so the map changes smoothly with z.
The map is a number on a common scale; its level is the cell between two `cuts` that it falls into,
and the released value is the mean outcome of that cell. Everything is an array, no coin is thrown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from separatrix.columns.features import as_numbers
from separatrix.columns.groups import group_codes
from separatrix.columns.scores import quantity_column
from separatrix.columns.values import Levels, row_numbers
from separatrix.core.binned_cmi import SoftBins
from separatrix.errors import InputError
from separatrix.optimum.rules import Rule

__all__ = ["AlignedScore", "attribute", "hats"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AlignedScore(Rule):
    """What `align` returns.

    Args:
        groups: the groups in the order of their maps; empty for a numeric attribute.
        attribute_knots: rising values of the numeric attribute, one per map; empty for groups.
        knots: (maps, J), rising scores.
        values: (maps, J), what each map is at its knots; never falling.
        cuts: (levels − 1,), rising: the edges of the cells on the common scale.
        levels: the released values, rising.
        penalty: β.
        r2: R² of the released values on the rows of the fit.
        violation: v of their conditional ranks there, `core.conditional_cmi.rank_violation`.
    """

    kind: ClassVar[str] = "aligned"
    groups: Levels
    attribute_knots: Array
    knots: Array
    values: Array
    cuts: Array
    levels: Array
    penalty: float
    r2: float
    violation: float

    @property
    def certain(self) -> bool:
        return True

    def check(self) -> None:
        """Maps that never fall on rising knots; cuts and released values that rise."""
        maps = len(self.groups) or len(self.attribute_knots)
        shaped = self.knots.ndim == 2 and self.knots.shape[1] > 1
        if not shaped or self.values.shape != self.knots.shape or len(self.knots) != maps:
            raise ValueError(f"its maps have the shapes {self.knots.shape}, {self.values.shape}")
        if (np.diff(self.knots) < 0).any() or (np.diff(self.values) < 0).any():
            raise ValueError("a map of it falls")
        if self.levels.shape != (len(self.cuts) + 1,) or self.attribute_knots.ndim != 1:
            raise ValueError("it has not one released value more than cuts")
        if any((np.diff(x) <= 0).any() for x in (self.levels, self.cuts, self.attribute_knots)):
            raise ValueError("its released values or cuts do not rise")

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """One for the released value, zero for the others, array (n, levels)."""
        return np.eye(len(self.levels))[self.place(scores, sensitive_features=groups)]

    def transform(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """The released values (n,): at most `len(levels)` different ones.

        Args:
            scores: the score of each row.
            sensitive_features: its group, or its number where the attribute is numeric.
        """
        return np.asarray(self.levels[self.place(scores, sensitive_features=sensitive_features)])

    def place(self, scores: ArrayLike, *, sensitive_features: Any) -> NDArray[np.intp]:
        """The place of each row's level, 0 for the lowest."""
        s = quantity_column(scores, "scores")
        if len(self.groups):
            z: Any = group_codes(sensitive_features, self.groups, len(s), "sensitive_features")
        else:
            z = attribute(sensitive_features, len(s))
        return self.coded(s, z)

    def coded(self, scores: Array, z: NDArray[Any]) -> NDArray[np.intp]:
        """The same for checked columns: z holds codes of the groups, or numbers."""
        return np.searchsorted(self.cuts, self.aligned(scores, z), side="right")

    def aligned(self, scores: Array, z: NDArray[Any]) -> Array:
        """m_z(s) on the common scale, before it is rounded to a level."""
        return np.asarray(hats(scores, z, self.knots, self.attribute_knots) @ self.values.ravel())


def attribute(values: Any, n: int | None = None) -> Array:
    """A numeric attribute, one finite number per row."""
    z = as_numbers(values, "sensitive_features")
    if z.ndim != 1 or (n is not None and len(z) != n):
        raise InputError(
            f"`sensitive_features` must be one number per row, {n}, got shape {z.shape}."
        )
    if np.isnan(z).any():
        raise InputError(
            f"`sensitive_features` has no value in row {row_numbers(np.isnan(z))}. Drop such rows."
        )
    return quantity_column(z, "sensitive_features")


def hats(scores: Array, z: NDArray[Any], knots: Array, attribute_knots: Array) -> csr_array:
    """Weights (n, maps · J) with m_z(s) = weights @ values; each row is non-negative, sums to one.

    >>> knots = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> hats(np.array([0.5, 0.5]), np.array([0, 1]), knots, np.array([])).toarray()
    array([[0.5 , 0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.75, 0.25]])
    >>> hats(np.array([0.5]), np.array([30.0]), knots, np.array([20.0, 40.0])).toarray()
    array([[0.25 , 0.25 , 0.375, 0.125]])
    """
    maps, width = knots.shape
    if not len(attribute_knots):
        sides: list[tuple[NDArray[Any], Array]] = [(np.asarray(z), np.ones(len(z)))]
    else:
        soft = SoftBins.of(np.asarray(z, dtype=np.float64), attribute_knots)
        sides = [(soft.low, 1.0 - soft.share), (soft.low + 1, soft.share)]
    places, weights = [], []
    for which, share in sides:
        low, up = _between(scores, which, knots)
        first = which * width + low
        places += [first, first + 1]
        weights += [share * (1.0 - up), share * up]
    n = len(scores)
    data, column = np.stack(weights, axis=1).ravel(), np.stack(places, axis=1).ravel()
    start = np.arange(n + 1) * len(places)
    return csr_array((data, column, start), shape=(n, maps * width))


def _between(scores: Array, which: NDArray[Any], knots: Array) -> tuple[NDArray[np.intp], Array]:
    """The knot of its own map below each score, and how far the score is to the next one."""
    low = np.zeros(len(scores), dtype=np.intp)
    for inner in knots[:, 1:-1].T:
        low += scores >= inner[which]
    left, right = knots[which, low], knots[which, low + 1]
    gap = np.where(right > left, right - left, 1.0)
    return low, np.clip((scores - left) / gap, 0.0, 1.0)
