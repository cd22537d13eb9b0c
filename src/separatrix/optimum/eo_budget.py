r"""The best rates under a budget on the groups' differences: a small linear programme per level.

Over x_z in the ROC regions R_z and lo_y ≤ x_zy ≤ hi_y, maximise c·x subject to R (hi − lo) ≤ ε.
A region is given by its hull's half-planes; only those that a solution breaks are added.

*Upper bound.* For multipliers μ⁺, μ⁻ ≥ 0 of x ≤ hi and x ≥ lo and β ≥ 0 of the budget, every x
within the budget has

.. math:: c \cdot x \le \sum_z \max_{R_z} (c_z - μ^+_z + μ^-_z) \cdot x
   + \sum_y \Bigl[ \sum_z μ^+_{zy} - (βR)_y \Bigr]_+
   + \sum_y \Bigl[ (βR)_y - \sum_z μ^-_{zy} \Bigr]_+ + ε \sum_i β_i .

It is evaluated afresh from the solver's multipliers: it holds to rounding whatever the solver did.
The utility is convex in the overall rates (s, t), so its maximum is at a vertex of the polygon that
the rates within the budget project to (`polygon`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from separatrix.errors import SeparatrixError
from separatrix.optimum.geometry import Regions
from separatrix.optimum.objectives import Budget
from separatrix.optimum.polygon import most_useful_vertex

__all__ = ["Programme"]

Array = NDArray[np.float64]
_FIRST = 8  # half-planes of each hull to begin with
_OUTSIDE = 1e-10  # a solution this far above a hull is in the region


class Programme:
    """The linear programme for given regions and budget; half-planes once found are kept."""

    def __init__(self, regions: Regions, budget: Budget) -> None:
        self.regions = regions
        self.widths = np.array(budget.widths, dtype=np.float64)
        k = len(regions.chains)
        self.solved = 0  # how many programmes, for the tests
        bound = np.flatnonzero(((regions.mass > 0) & (self.widths.max(0) > 0)).ravel())
        label, column, m = bound % 2, 2 * k, len(bound)
        low, high = np.zeros((m, 2 * k + 4)), np.zeros((m, 2 * k + 4))
        high[np.arange(m), bound], high[np.arange(m), column + 2 + label] = 1.0, -1.0
        low[np.arange(m), bound], low[np.arange(m), column + label] = -1.0, 1.0
        width = np.hstack([np.zeros((len(self.widths), 2 * k)), -self.widths, self.widths])
        above = np.zeros((k, 2 * k + 4))  # s ≤ t: nothing is gained below the diagonal
        above[np.arange(k), 2 * np.arange(k)], above[np.arange(k), 2 * np.arange(k) + 1] = 1.0, -1.0
        self._coupling, self._bound = np.vstack([width, high, low, above]), bound
        self._cuts: list[set[int]] = []
        for chain in regions.chains:
            edges = len(chain) - 1
            self._cuts.append(
                set(np.linspace(0, edges - 1, min(edges, _FIRST)).astype(int).tolist())
            )

    def support(self, direction: Array, level: float) -> tuple[Array, float]:
        """Rates (groups, 2) that maximise direction·x within the budget, and an upper bound.

        Args:
            direction: array (groups, 2), not above zero for s and not below for t.
            level: the budget ε.
        """
        k, rows = len(self.regions.chains), len(self._coupling)
        scale = float(np.abs(direction).max()) or 1.0
        for _ in range(60):
            cuts, height = self._half_planes()
            matrix = csr_array(np.vstack([self._coupling, cuts]))
            right = np.r_[
                np.full(len(self.widths), level), np.zeros(rows - len(self.widths)), height
            ]
            goal = np.r_[-direction.ravel() / scale, np.zeros(4)]
            found = linprog(goal, matrix, right, bounds=(0.0, 1.0), method="highs-ds")
            self.solved += 1
            if found.status != 0:
                raise SeparatrixError(f"The linear programme failed: {found.message}")
            x = found.x[: 2 * k].reshape(k, 2)
            if not self._cut(x):
                break
        multiplier = np.maximum(-found.ineqlin.marginals[:rows], 0.0) * scale
        return self._within(x, level), self._upper(direction, multiplier, level)

    def most_useful(self, level: float, tolerance: float) -> tuple[Array, float]:
        """Rates of the largest utility within the budget, and an upper bound."""
        share = self.regions.share

        def touch(angle: float) -> tuple[Array, Array, float]:
            x, value = self.support(share * [-np.cos(angle), np.sin(angle)], level)
            return x, (x * share).sum(0), value

        return most_useful_vertex(touch, self.regions.prior, tolerance)

    def _half_planes(self) -> tuple[Array, Array]:
        """The cuts of all groups: rows over the variables, and right-hand sides."""
        rows, right = [], []
        width = 2 * len(self.regions.chains) + 4
        for z, (chain, cuts) in enumerate(zip(self.regions.chains, self._cuts, strict=True)):
            at = np.array(sorted(cuts))
            edge = chain[at + 1] - chain[at]
            normal = np.stack([-edge[:, 1], edge[:, 0]], axis=1) / np.hypot(*edge.T)[:, None]
            block = np.zeros((len(at), width))
            block[:, 2 * z : 2 * z + 2] = normal
            rows.append(block)
            right.append((normal * chain[at]).sum(1))
        return np.vstack(rows), np.concatenate(right)

    def _cut(self, x: Array) -> bool:
        """Add the half-plane that each x_z breaks most; whether there was one."""
        new = False
        for z, (chain, cuts) in enumerate(zip(self.regions.chains, self._cuts, strict=True)):
            if x[z, 1] <= np.interp(x[z, 0], *chain.T) + _OUTSIDE:
                continue
            edge = np.diff(chain, axis=0)
            beyond = edge[:, 0] * (x[z, 1] - chain[:-1, 1]) - edge[:, 1] * (x[z, 0] - chain[:-1, 0])
            worst = int((beyond / np.hypot(*edge.T)).argmax())
            new |= worst not in cuts
            cuts.add(worst)
        return new

    def _within(self, x: Array, level: float) -> Array:
        """The solver's point, brought into the regions and the budget to rounding."""
        x = np.clip(x, 0.0, 1.0)
        x[:, 1] = np.minimum(x[:, 1], self.regions.height(x[None, :, 0])[0])
        here = self.regions.mass > 0
        high, low = np.where(here, x, -1.0).max(0), np.where(here, x, 2.0).min(0)
        used = float((self.widths @ (high - low)).max())
        if used > level:
            pull = (1.0 - level / used) * (self.widths.max(0) > 0)
            x += pull * here * (np.array([high[0], low[1]]) - x)  # s up, t down: inside the region
        return np.clip(x, 0.0, 1.0)

    def _upper(self, direction: Array, multiplier: Array, level: float) -> float:
        m, n = len(self.widths), len(self._bound)
        beta, plus, minus = multiplier[:m], multiplier[m : m + n], multiplier[m + n : m + 2 * n]
        price, paid = direction.ravel().copy(), beta @ self.widths
        price[self._bound] += minus - plus
        total = [np.bincount(self._bound % 2, part, minlength=2) for part in (plus, minus)]
        slack = np.maximum(total[0] - paid, 0.0).sum() + np.maximum(paid - total[1], 0.0).sum()
        best = self.regions.linear_max(price.reshape(1, -1, 2)).sum()
        return float(best + slack + level * beta.sum())
