r"""Finite laws of posteriors, labels and groups, and what decisions do to them.

`LabelLaw` is for rules that see the group, `BlindLaw` and `BlindRows` for rules that do not. All
three price a decision: argmax_u ⟨W_u, ·⟩ of what the rule may see has a table N[y,z,u].

*With the group.* A row has the posterior p_i, the group z_i and the weight w_i; weights sum to one.
A rule q_i(u) ∝ π(u) exp(p_i W_z / τ_z) has the table N[y,z,u] = Σ_i w_i p_iy 1{z_i = z} q_i(u).

Groups of a few rows borrow: m pseudo-rows are added to each group, spread over rows of all groups,
whose posteriors are shifted to the group's labels,
:math:`p_y \mapsto p_y P(y|z) / P(y)`, normalised. That is the group's law if it differs from the
others in its labels alone (label shift). P(y|z) borrows m rows of the overall P(y) too. The weight
of the group and its labels stay as they are.

*Without the group.* `BlindRows` counts with the rows' own labels and groups; `BlindLaw` with
q(y, z | x) itself, which is exact where q is the law.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.numerics import Array, Index, effective_rows, effective_size, rows_by_code

_SINGLE = 200_000  # numbers from which single precision is used: its error then averages out
_ATOMS = 2_000  # rows that are borrowed from


class LabelLaw:
    """Posteriors by group, ready for `sweep`.

    Args:
        p: posteriors (n, labels).
        z: codes of the groups.
        weight: of the rows; normalised here.
        n_groups: how many groups.
        borrow: pseudo-rows of each group.
        exact: double precision however many rows there are.

    >>> law = LabelLaw(np.eye(3), np.array([0, 0, 1]), np.ones(3), 2)
    >>> table = law.table(np.tile(9 * np.eye(3)[:, None], (1, 2, 1)))
    >>> table.sum((1, 2)), table[2, :, 2].round(3)
    (array([0.33333333, 0.33333333, 0.33333333]), array([0.   , 0.333]))
    """

    def __init__(
        self, p: Array, z: NDArray[Any], weight: Array, n_groups: int, borrow: float = 0.0, exact: bool = False
    ) -> None:
        share = weight / weight.sum()
        rows = [(p[members], share[members]) for members in rows_by_code(z, n_groups)]
        if borrow:
            rows = _borrowed(rows, p, weight, borrow)
        many = sum(q.size for q, _ in rows) >= _SINGLE
        kind = np.float32 if many and not exact else np.float64
        # rows last: sums over few labels are then many times faster
        self.rows: list[tuple[NDArray[Any], NDArray[Any], Array]] = [
            (np.ascontiguousarray(q.T, kind), np.ascontiguousarray(w[:, None] * q, kind), w) for q, w in rows
        ]
        self.mass = np.array([w @ q for q, w in rows]).T  # P(y, z)
        self.prior = self.mass.sum(1)
        absent = self.prior == 0  # a label that no row has: any shares do
        self.share = (self.mass + absent[:, None]) / (self.prior + n_groups * absent)[:, None]

    def sweep(self, prices: Array, tau: Array, log_base: Array) -> tuple[float, Array]:
        """Σ w τ_z log Σ_u π(u) exp(p W_z / τ_z) and the table of the rule π(u) exp(p W_z / τ_z).

        Args:
            prices: W (labels, groups, U).
            tau: temperature of each group.
            log_base: log π (U,).
        """
        table, total = np.zeros(prices.shape), 0.0
        for z, (p, wp, w) in enumerate(self.rows):
            q = (prices[:, z] / tau[z] + log_base).astype(p.dtype).T @ p  # (U, rows)
            top = q.max(0)
            q -= top
            np.exp(q, out=q)
            norm = q.sum(0)
            q /= norm
            total += tau[z] * float(w @ (top + np.log(norm)))
            table[:, z] = (q @ wp).T
        return total, table

    def table(self, weight: Array, log_base: Array | float = 0.0) -> Array:
        """N[y, z, u] of the rule π(u) exp(p · weight_z)."""
        ones = np.ones(weight.shape[1])
        return self.sweep(weight, ones, np.broadcast_to(log_base, weight.shape[2:]))[1]

    def decided(self, priced: Array) -> Array:
        """N[y, z, u] of the decision argmax_u p W_z, for W (U, labels, groups)."""
        table = np.zeros((*self.mass.shape, len(priced)))
        for z, (p, wp, _) in enumerate(self.rows):
            chosen = (priced[:, :, z].astype(p.dtype) @ p).argmax(0)
            for u in range(len(priced)):
                table[:, z, u] = wp[chosen == u].sum(0)
        return table

    def most(self, prices: Array) -> float:
        """Σ w max_u p W_z: the sweep at temperature zero."""
        groups = [(p, w, prices[:, z].astype(p.dtype)) for z, (p, _, w) in enumerate(self.rows) if len(w)]
        return sum(float(w @ (W.T @ p).max(0)) for p, w, W in groups)


class BlindLaw:
    """Atoms x with weights and q(y, z | x); tables and bounds of their law.

    Args:
        q: array (n, labels, groups).
        weight: of each atom; normalised here.
    """

    def __init__(self, q: Array, weight: Array) -> None:
        self.q, self.weight = q.reshape(len(q), -1), weight / weight.sum()
        self.mass = self._mass().reshape(q.shape[1:])  # P(y, z)

    def decided(self, priced: Array) -> Array:
        """N[y, z, u] of the decision argmax_u ⟨W_u, q⟩, for W (U, labels, groups)."""
        chosen = best_priced(self.q, priced)
        table = np.stack([self._mass(chosen == u) for u in range(len(priced))], axis=-1)
        return table.reshape(*self.mass.shape, len(priced))

    def _mass(self, rows: Any = slice(None)) -> Array:
        return self.weight[rows] @ self.q[rows]


class BlindRows(BlindLaw):
    """Rows with their own labels and groups; q only prices.

    Args:
        q, weight: as in `BlindLaw`, of rows that trained nothing.
        y, z: codes of the labels and of the groups.
    """

    def __init__(self, q: Array, weight: Array, y: Index, z: Index) -> None:
        self.joint, self.cell = q, y * q.shape[2] + z
        super().__init__(q, weight)

    def effective_rows(self) -> Array:
        """(Σw)² / Σw² of each cell (labels, groups)."""
        total, square = (np.bincount(self.cell, w, self.q.shape[1]) for w in (self.weight, self.weight**2))
        return np.asarray(effective_rows(total, square).reshape(self.mass.shape))

    def _mass(self, rows: Any = slice(None)) -> Array:
        return np.asarray(np.bincount(self.cell[rows], self.weight[rows], self.q.shape[1]), dtype=float)


def best_priced(q: Array, priced: Array) -> Index:
    """argmax_u ⟨W_u, q⟩ of each row of q (n, labels · groups), for W (U, labels, groups).

    Solvers and rules share it: near a tie the order of additions decides.
    """
    flat = priced.reshape(len(priced), -1)
    if len(flat) == 2:
        return (q @ (flat[1] - flat[0]) > 0).astype(np.intp)
    return np.asarray((q @ flat.T).argmax(1))


def _borrowed(rows: list[tuple[Array, Array]], p: Array, weight: Array, m: float) -> list[tuple[Array, Array]]:
    """The groups' rows with m pseudo-rows each, in units of rows of mean weight."""
    prior = weight @ p / weight.sum()
    step = -(-len(p) // _ATOMS)
    atoms, share = p[::step], weight[::step] / weight[::step].sum()
    pulled = []
    for q, w in rows:
        if not len(w):
            pulled.append((q, w))
            continue
        size = effective_size(w)
        labels = (size * (w @ q) / w.sum() + m * prior) / (size + m)
        shifted = atoms * (labels / np.maximum(prior, 1e-300))
        shifted /= shifted.sum(1, keepdims=True)
        weights = np.concatenate([w * size, w.sum() * m * share]) / (size + m)
        pulled.append((np.concatenate([q, shifted]), weights))
    return pulled
