r"""Linear objectives under an equalized-odds budget for more than two labels: column generation.

Notation as in `dual`: a rule q has the table N[y,z,u] and the rates R[y,z,u] = N[y,z,u] / P(y,z).
Total variation between two groups is a maximum of linear functions of the rates,
:math:`TV_{yzz'} = \sum_u (R_{yzu} - R_{yz'u})_+`. With prices μ ≥ 0 on the differences, every rule
within the budget ε gains at most

.. math:: \sum_i w_i \max_u \sum_y p_{iy} W[y,z_i,u] + λε, \quad
   W[y,z,u] = g[y,u] - \frac{1}{P(y,z)} \sum_{z'} (μ_{yzz'u} - μ_{yz'zu}),

where λ is the least number with Σ_pairs max_u μ ≤ λ/K for each label (mean over labels) or
Σ_y Σ_pairs max_u μ ≤ λ (largest label). That holds for *any* μ and is the upper bound. The rule
argmax_u p W_z of the bound is a new column; a linear programme mixes the columns found so far so
that the budget holds exactly, and its dual gives the next μ.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, kron, vstack
from scipy.sparse import eye_array as eye

from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.optimum.multiclass.label_law import by_group
from separatrix.optimum.rules import HardMixture

__all__ = ["EoColumns", "EoPoint"]

Array = NDArray[np.float64]
_ROUNDS = 200  # columns at most, for one level
_MOST = 400  # differences between groups; with more the programmes take minutes
_CLOSE = 1e-6  # bound and value this close, in the range of the gains, are good enough
_HOLD = 0.7  # how much of the best prices so far the next ones keep: plain prices swing


class EoPoint(NamedTuple):
    """A mixture of columns: weights (m,) and their W (m, groups, U, labels); and its numbers."""

    weights: Array
    columns: Array
    value: float
    violation: float
    utility: float
    upper: float


class EoColumns:
    """The columns for given rows and gains; they serve every level."""

    def __init__(
        self, p: Array, z: NDArray[Any], weight: Array, n_groups: int, gains: Array, worst: bool
    ) -> None:
        """
        Args:
            p, z, weight, n_groups, gains: the law (`LabelLaw`) and g[y, u].
            worst: the budget is on the largest label's gap instead of the mean over the labels.
        """
        self.rows = by_group(p, z, weight, n_groups)
        self.offset, self.scale = float(gains.min()), float(np.ptp(gains)) or 1.0
        self.gains, self.worst = (gains - self.offset) / self.scale, worst
        self.mass = np.array([w @ own for own, w in self.rows]).T  # P(y, z)
        self._shape = (*self.mass.shape, gains.shape[1])
        self._pairs = np.array(
            [
                (y, a, b)
                for y in range(len(self.mass))
                for a, b in combinations(np.flatnonzero(self.mass[y] > 0), 2)
            ],
            dtype=np.intp,
        ).reshape(-1, 3)
        if len(self._pairs) * gains.shape[1] > _MOST:
            raise InputError(
                f"An EO budget for {len(gains)} labels and {n_groups} groups has too many "
                "differences between groups to be solved. Use `budget='violation'`, or join groups."
            )
        self._labels = int((self.mass.sum(1) > 0).sum())
        constants = [np.eye(gains.shape[1])[u] * np.ones(self._shape) for u in range(len(gains))]
        self.prices: list[Array] = []
        self.tables: list[Array] = []
        for start in (*constants, np.broadcast_to(self.gains[:, None], self._shape)):
            self._add(start)

    def solve(self, level: float) -> EoPoint:
        """The best mixture within the budget, and the upper bound of every rule within it."""
        upper, best_mu, weights, value = np.inf, None, np.ones(1), -np.inf
        for _ in range(_ROUNDS):
            weights, value, mu = self._master(level)
            held = mu if best_mu is None else _HOLD * best_mu + (1.0 - _HOLD) * mu
            for prices in (held, mu):
                bound, priced = self._bound(prices, level)
                if bound < upper:
                    upper, best_mu = bound, prices
                fresh = self._add(priced)
                if fresh:
                    break
            if upper - value <= _CLOSE or not fresh:
                break
        kept = np.flatnonzero(weights > 1e-12)
        mix = weights[kept] / weights[kept].sum()
        table = np.einsum("m,myzu->yzu", mix, np.stack([self.tables[i] for i in kept]))
        columns = np.moveaxis(np.stack([self.prices[i] for i in kept]), 1, -1)
        return EoPoint(
            mix,
            columns,
            self.offset + self.scale * value,
            float(conditional_mutual_information(table)),
            float(mutual_information(table)),
            self.offset + self.scale * max(upper, value),
        )

    def rule(self, level: float, groups: Levels) -> HardMixture:
        """The rule behind a level."""
        point = self.solve(level)
        return HardMixture(groups, point.weights, point.columns)

    def slack(self) -> float:
        """The budget that the best rule without any budget uses."""
        gains = np.broadcast_to(self.gains[:, None], self._shape)
        y, a, b = self._pairs.T
        at = next(i for i, own in enumerate(self.prices) if np.array_equal(own, gains))
        rates = self._rates()[at]
        width = np.zeros(len(self.mass))
        np.maximum.at(width, y, np.abs(rates[y, a] - rates[y, b]).sum(-1) / 2)
        return float(width.max() if self.worst else width.sum() / self._labels)

    def _add(self, priced: Array) -> bool:
        """Add the column argmax_u p W_z; whether its table is a new one."""
        table = np.zeros(self._shape)
        for z, (p, w) in enumerate(self.rows):
            chosen = (p @ priced[:, z]).argmax(1)
            for u in range(self._shape[-1]):
                table[:, z, u] = w[chosen == u] @ p[chosen == u]
        if any(np.abs(table - old).max() < 1e-12 for old in self.tables):
            return False
        self.prices.append(np.asarray(priced, dtype=np.float64))
        self.tables.append(table)
        return True

    def _rates(self) -> Array:
        mass = np.where(self.mass > 0, self.mass, 1.0)[..., None]
        return np.stack(self.tables) / mass

    def _master(self, level: float) -> tuple[Array, float, Array]:
        """Weights of the columns, their gain, and the prices μ (pairs, 2, U) of the differences.

        Variables: weights c (m), positive parts d (pairs, U) of the differences, widths t (labels).
        """
        y, a, b = self._pairs.T
        rates, m, k = self._rates(), len(self.tables), self._shape[-1]
        value = np.array([(table.sum(1) * self.gains).sum() for table in self.tables])
        difference = (rates[:, y, a] - rates[:, y, b]).reshape(m, -1).T
        pairs, labels = len(self._pairs), len(self.mass)
        none = csr_array((pairs * k, labels))
        above = hstack([csr_array(difference), -eye(pairs * k), none])
        width = csr_array((np.ones(pairs), (np.arange(pairs), y)), shape=(pairs, labels))
        total = hstack([csr_array((pairs, m)), kron(eye(pairs), np.ones((1, k))), -width])
        share = eye(labels) if self.worst else csr_array(np.full((1, labels), 1.0 / self._labels))
        budget = hstack([csr_array((share.shape[0], m + pairs * k)), share])
        limits = np.r_[np.zeros(pairs * k + pairs), np.full(share.shape[0], level)]
        found = linprog(
            np.r_[-value, np.zeros(pairs * k + labels)],
            A_ub=csr_array(vstack([above, total, budget])),
            b_ub=limits,
            A_eq=csr_array(np.r_[np.ones(m), np.zeros(pairs * k + labels)][None]),
            b_eq=[1.0],
            method="highs",
        )
        mu = -found.ineqlin.marginals[: pairs * k].reshape(pairs, k)
        return found.x[:m], -float(found.fun), np.maximum(mu, 0.0)

    def _bound(self, mu: Array, level: float) -> tuple[float, Array]:
        """The upper bound that the prices give, and W."""
        y, a, b = self._pairs.T
        priced = np.broadcast_to(self.gains[:, None], self._shape).copy()
        np.subtract.at(priced, (y, a), mu / self.mass[y, a][:, None])
        np.add.at(priced, (y, b), mu / self.mass[y, b][:, None])
        spent = np.zeros(len(self.mass))
        np.add.at(spent, y, mu.max(1))
        price = spent.sum() if self.worst else self._labels * spent.max()
        best = sum(float(w @ (p @ priced[:, z]).max(1)) for z, (p, w) in enumerate(self.rows))
        return best + price * level, priced
