r"""The best rates under a budget on the groups' differences: a small linear programme per level.

Over x_z in the ROC regions R_z and lo_k ≤ φ_zk·x_z ≤ hi_k, maximise c·x subject to R (hi − lo) ≤ ε;
for a relative budget (1 − impact ratio) to R ((1 − ε) hi − lo) ≤ 0.
The forms φ are the rates of both labels, φ_zy·x_z = x_zy, or the share of U = 1 (demographic
parity), φ_z·x_z = Σ_y P(y|z) x_zy. A region is given by its hull's half-planes; only those that a
solution breaks are added.

*Upper bound.* For multipliers μ⁺, μ⁻ ≥ 0 of φ·x ≤ hi and φ·x ≥ lo and β ≥ 0 of the budget, every x
within the budget has

.. math:: c \cdot x \le \sum_z \max_{R_z}
   \Bigl(c_z - \sum_k (μ^+_{zk} - μ^-_{zk}) φ_{zk}\Bigr) \cdot x
   + \sum_k \Bigl[ \sum_z μ^+_{zk} - (βR)_k \Bigr]_+
   + \sum_k \Bigl[ (βR)_k - \sum_z μ^-_{zk} \Bigr]_+ + ε \sum_i β_i ,

and for a relative budget with (1 − ε) βR in the second term and without the last one.
It is evaluated afresh from the solver's multipliers: it holds to rounding whatever the solver did.
The utility is convex in the overall rates (s, t), so its maximum is at a vertex of the polygon that
the rates within the budget project to (`certified`).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from separatrix.core.information import selection_rates
from separatrix.core.measures import Metric
from separatrix.core.numerics import Array, quotient
from separatrix.errors import SeparatrixError
from separatrix.optimum.roc.certified import most_useful_vertex
from separatrix.optimum.roc.regions import Regions

_FIRST = 8  # half-planes of each hull to begin with
_SMALL = {"presolve": False}  # dearer than a programme of so few numbers
_EXACT = _SMALL | {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_OUTSIDE = 1e-10  # a solution this far above a hull is in the region


def least_cost(
    cost: Array, matrix: Array, right: Array, total: Array | None = None, exact: bool = False
) -> tuple[Array, Array]:
    """The x in [0, 1] of the least cost·x with matrix·x ≤ right, and the multipliers μ ≥ 0 of these rows.

    Args:
        cost, matrix, right: of the programme.
        total: a row whose total·x must be one; None for none.
        exact: ten digits rather than seven.

    >>> least_cost(np.array([-1.0, -2.0]), np.array([[1.0, 1.0]]), np.array([1.5]))
    (array([0.5, 1. ]), array([1.]))
    """
    equal = {} if total is None else {"A_eq": total[None], "b_eq": [1.0]}
    options = _EXACT if exact else _SMALL
    result = linprog(cost, matrix, right, **equal, bounds=(0.0, 1.0), method="highs-ds", options=options)
    if result.status != 0:
        raise SeparatrixError(f"The linear programme failed: {result.message}")
    return result.x, np.maximum(-result.ineqlin.marginals, 0.0)


class Programme:
    """The linear programme for given regions and budget; half-planes once found are kept."""

    def __init__(self, regions: Regions, budget: Metric) -> None:
        self.regions = regions
        self.widths = np.array(budget.widths, dtype=np.float64)
        self.pooled, self.relative = budget.pooled, budget.relative
        k, forms = len(regions.chains), self.widths.shape[1]
        weight = regions.mass.sum(1, keepdims=True)
        if budget.pooled:
            form, self._present = quotient(regions.mass, weight)[:, None], weight > 0  # (groups, 1, 2)
        else:
            form, self._present = np.broadcast_to(np.eye(2), (k, 2, 2)), regions.mass > 0
        group, which = np.nonzero(self._present & (self.widths.max(0) > 0))
        m, rates = len(group), 2 * k
        phi = np.zeros((m, rates))
        phi.reshape(m, k, 2)[np.arange(m), group] = form[group, which]
        ends = np.eye(forms)[which]
        low, high = np.hstack([-phi, ends, 0 * ends]), np.hstack([phi, 0 * ends, -ends])
        width = np.hstack([np.zeros((len(self.widths), rates)), -self.widths, self.widths])
        above = np.zeros((k, rates + 2 * forms))  # s ≤ t: nothing is gained below the diagonal
        above[np.arange(k), 2 * np.arange(k)], above[np.arange(k), 2 * np.arange(k) + 1] = 1.0, -1.0
        self._coupling, self._phi, self._which = np.vstack([width, high, low, above]), phi, which
        counts = [len(chain) - 1 for chain in regions.chains]
        self._cuts = [set(np.linspace(0, n - 1, min(n, _FIRST)).astype(int).tolist()) for n in counts]

    def support(self, direction: Array, level: float) -> tuple[Array, float]:
        """Rates (groups, 2) that maximise direction·x within the budget, and an upper bound.

        Args:
            direction: array (groups, 2), not above zero for s and not below for t.
            level: the budget ε.
        """
        k, rows = len(self.regions.chains), len(self._coupling)
        coupling, most = self._coupling.copy(), 0.0 if self.relative else level
        if self.relative:
            coupling[: len(self.widths), -self.widths.shape[1] :] = (1.0 - level) * self.widths
        scale = float(np.abs(direction).max()) or 1.0
        for _ in range(60):
            cuts, height = self._half_planes()
            matrix = np.vstack([coupling, cuts])
            right = np.r_[np.full(len(self.widths), most), np.zeros(rows - len(self.widths)), height]
            goal = np.r_[-direction.ravel() / scale, np.zeros(2 * self.widths.shape[1])]
            solution, multiplier = least_cost(goal, matrix, right)
            x = solution[: 2 * k].reshape(k, 2)
            if not self._cut(x):
                break
        return self._within(x, level), self._upper(direction, multiplier[:rows] * scale, level)

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
        for z, (chain, cuts) in enumerate(zip(self.regions.chains, self._cuts, strict=True)):
            start = np.array(sorted(cuts))
            edge = chain[start + 1] - chain[start]
            normal = np.stack([-edge[:, 1], edge[:, 0]], axis=1) / np.hypot(*edge.T)[:, None]
            after = self._coupling.shape[1] - 2 * z - 2
            rows.append(np.pad(normal, ((0, 0), (2 * z, after))))
            right.append((normal * chain[start]).sum(1))
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
        if self.pooled:
            return self._within_shares(x, level)
        high, low = np.where(self._present, x, -1.0).max(0), np.where(self._present, x, 2.0).min(0)
        used = float((self.widths @ (high - low)).max())
        if used > level:
            pull = (1.0 - level / used) * (self.widths.max(0) > 0)
            x += pull * self._present * (np.array([high[0], low[1]]) - x)  # s up, t down: inside the region
        return np.clip(x, 0.0, 1.0)

    def _within_shares(self, x: Array, level: float) -> Array:
        """Shares of U = 1 pulled together: towards nobody where too large, everybody if small."""
        share = selection_rates(x, self.regions.mass)
        high, low = share[self._present].max(), share[self._present].min()
        if self.relative:
            level *= high
        if high - low > level:
            wanted = low + (share - low) * (level / (high - low)) + 0.5 * (high - low - level)
            down, up = quotient(wanted, share), quotient(1.0 - wanted, 1.0 - share)
            x = np.where(wanted < share, down * x, 1.0 - up * (1.0 - x))
        return np.clip(x, 0.0, 1.0)

    def _upper(self, direction: Array, multiplier: Array, level: float) -> float:
        m, n = len(self.widths), len(self._which)
        beta, plus, minus = multiplier[:m], multiplier[m : m + n], multiplier[m + n : m + 2 * n]
        price, paid = direction.ravel() + (minus - plus) @ self._phi, beta @ self.widths
        above, below = (np.bincount(self._which, mu, minlength=len(paid)) for mu in (plus, minus))
        scale = 1.0 - level if self.relative else 1.0
        slack = np.maximum(above - scale * paid, 0.0).sum() + np.maximum(paid - below, 0.0).sum()
        best = self.regions.linear_max(price.reshape(1, -1, 2)).sum()
        return float(best + slack + (0.0 if self.relative else level * beta.sum()))
