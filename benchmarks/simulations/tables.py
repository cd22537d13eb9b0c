"""Populations of tables N[y, z, u] whose violation is known: random ones, and hard ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from separatrix import CountTable
from separatrix.theory import conditional_mutual_information

Array = NDArray[np.float64]
Shape = tuple[int, int, int]


def count_table(counts: Array) -> CountTable:
    """A table of codes."""
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts.astype(float), y, z, u, rows=max(round(counts.sum()), 1))


@dataclass(frozen=True)
class TableLaw:
    """Shares p[y, z, u], of which `rows` rows are drawn."""

    p: Array
    rows: int

    def sample(self, rng: np.random.Generator) -> CountTable:
        return count_table(rng.multinomial(self.rows, self.p.ravel()).reshape(self.p.shape))

    @cached_property
    def violation(self) -> float:
        return float(conditional_mutual_information(self.p))

    def violation_given(self, table: CountTable) -> float:
        """v at the composition of labels and groups that a sample has."""
        mass = self.p.sum(2, keepdims=True)
        rates = self.p / np.where(mass > 0, mass, 1.0)
        return float(conditional_mutual_information(table.counts.sum(2, keepdims=True) * rates))


def random_law(shape: Shape, violation: float, rng: np.random.Generator) -> Array:
    """A random law with exactly this violation."""
    p_yz = rng.dirichlet(np.full(shape[0] * shape[1], 5.0)).reshape(shape[:2])
    base = rng.dirichlet(np.full(shape[2], 5.0), size=shape[0])[:, None]
    tilt = rng.normal(size=shape)

    def tilted(size: float) -> Array:
        rates = base * np.exp(size * tilt)
        return p_yz[:, :, None] * rates / rates.sum(-1, keepdims=True)

    if violation == 0:
        return tilted(0.0)
    low, high = 0.0, 6.0
    if conditional_mutual_information(tilted(high)) < violation:
        return random_law(shape, violation, rng)  # these tilts hardly differ between groups
    for _ in range(80):
        middle = 0.5 * (low + high)
        above = conditional_mutual_information(tilted(middle)) >= violation
        low, high = (low, middle) if above else (middle, high)
    return tilted(high)


def hard_laws() -> dict[str, TableLaw]:
    """Random laws of several shapes, a small group, copies of the group, and structural zeros."""
    rng = np.random.default_rng(0)
    return {
        "2×2, v = .005": TableLaw(random_law((2, 2, 2), 0.005, rng), 1_500),
        "2×5, v = .005": TableLaw(random_law((2, 5, 2), 0.005, rng), 3_000),
        "2×9, v = .005": TableLaw(random_law((2, 9, 2), 0.005, rng), 4_500),
        "4×3×4, v = .02": TableLaw(random_law((4, 3, 4), 0.02, rng), 3_000),
        "2×2, v = .1": TableLaw(random_law((2, 2, 2), 0.1, rng), 600),
        "a group of 1 %": TableLaw(_small_group(), 2_000),
        "U = Z, 1 %": TableLaw(_copies(0.01), 2_000),
        "U = Z, 30 %": TableLaw(_copies(0.3), 500),
        "structural zeros": TableLaw(_with_zeros(), 1_000),
        "8×6×8, many zeros": TableLaw(_sparse(), 20_000),
        "20×9×20, v = .005": TableLaw(random_law((20, 9, 20), 0.005, rng), 16_200),
    }


def _small_group() -> Array:
    """Two labels; a group of one percent that gets the same prediction nine times of ten."""
    w = np.array([[0.495, 0.005], [0.495, 0.005]])
    rates = np.array([[0.5, 0.9], [0.5, 0.9]])
    return w[:, :, None] * np.stack([1 - rates, rates], -1)


def _copies(share: float) -> Array:
    """The prediction is the group, of which one has this share."""
    p = np.zeros((2, 2, 2))
    p[:, 0, 0], p[:, 1, 1] = 0.5 * (1 - share), 0.5 * share
    return p


def _with_zeros() -> Array:
    """Four labels and predictions, three groups; most predictions never occur with a label."""
    p = np.zeros((4, 3, 4))
    for y in range(4):
        for z, wrong in enumerate((0.02, 0.05, 0.0)):
            p[y, z, y], p[y, z, (y + 1) % 4] = 1 - wrong, wrong
    return p / p.sum()


def _sparse() -> Array:
    """Eight labels and predictions, six groups; three rates in ten are exactly zero."""
    rng, shape = np.random.default_rng(1), (8, 6, 8)
    share = rng.dirichlet(np.full(48, 5.0)).reshape(shape[:2])
    rates = rng.dirichlet(np.ones(8), size=8)[:, None] * (rng.random(shape) > 0.3)
    rates[..., 0] += 1e-3  # no cell is all empty
    return share[:, :, None] * rates / rates.sum(-1, keepdims=True)
