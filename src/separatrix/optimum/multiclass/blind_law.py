"""Rows, or the atoms of a law, that are decided without their group: what a decision does to them.

`BlindRows` counts with the rows' own labels and groups; `BlindAtoms` with q(y, z | x) itself, which
is exact where q is the law. Both price decisions with q: ⟨W, q(x)⟩ is all that a decision may see.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["BlindAtoms", "BlindRows"]

Array = NDArray[np.float64]


class BlindAtoms:
    """Atoms x with weights and q(y, z | x); tables and bounds of their law.

    Args:
        q: array (n, labels, groups).
        weight: of each atom; normalised here.
    """

    def __init__(self, q: Array, weight: Array) -> None:
        self.q, self.weight = q.reshape(len(q), -1), weight / weight.sum()
        self.labels, self.groups = q.shape[1:]
        self.mass = self._mass().reshape(q.shape[1:])  # P(y, z)

    def decide(self, priced: Array) -> NDArray[np.intp]:
        """argmax_u ⟨W_u, q⟩ of every atom, for W (U, labels, groups)."""
        flat = priced.reshape(len(priced), -1)
        if len(flat) == 2:
            return (self.q @ (flat[1] - flat[0]) > 0).astype(np.intp)
        return (self.q @ flat.T).argmax(1)

    def table(self, decided: NDArray[np.intp], outputs: int) -> Array:
        """N[y, z, u] of decisions."""
        found = np.stack([self._mass(decided == u) for u in range(outputs)], axis=-1)
        return found.reshape(*self.mass.shape, outputs)

    def _mass(self, rows: NDArray[np.bool_] | None = None) -> Array:
        if rows is None:
            return self.weight @ self.q
        return self.weight[rows] @ self.q[rows]


class BlindRows(BlindAtoms):
    """Rows with their own labels and groups; q only prices.

    Args:
        q, weight: as in `BlindAtoms`, of rows that trained nothing.
        y, z: codes of the labels and of the groups.
    """

    def __init__(self, q: Array, weight: Array, y: NDArray[np.intp], z: NDArray[np.intp]) -> None:
        self.joint, self.cell = q, y * q.shape[2] + z
        super().__init__(q, weight)

    def effective_rows(self) -> Array:
        """(Σw)² / Σw² of each cell (labels, groups)."""
        total, square = (
            np.bincount(self.cell, w, self.q.shape[1]) for w in (self.weight, self.weight**2)
        )
        rows = np.divide(total**2, square, out=np.zeros_like(total), where=square > 0)
        return rows.reshape(self.mass.shape)

    def _mass(self, rows: NDArray[np.bool_] | None = None) -> Array:
        if rows is None:
            return np.asarray(np.bincount(self.cell, self.weight, self.q.shape[1]), dtype=float)
        found = np.bincount(self.cell[rows], self.weight[rows], self.q.shape[1])
        return np.asarray(found, dtype=float)
