r"""Linear objectives under a violation for any number of labels: one convex dual and a certificate.

Rows have posteriors p_i, groups z_i and weights w_i that sum to one; a rule q_i(u) has the table
N[y,z,u] = Σ_i w_i p_iy 1{z_i = z} q_i(u). The violation is a maximum of linear functions of it,
:math:`v(N) = H(Z|Y) + \max_t \langle \log t, N \rangle` over laws t(z|y,u). With
:math:`t \propto P(z|y) e^{ν/β}` every rule with v ≤ ε therefore gains at most

.. math:: D_0(ν, β) + βε, \quad D_τ = \sum_i w_i τ \operatorname{lse}_u \Bigl( \sum_y p_{iy}
   W[y,z_i,u] / τ \Bigr), \quad W = g - ν + β \log \sum_z P(z|y) e^{ν/β},

for gains g[y,u] and *any* ν and β > 0: that is the upper bound. D_τ + βε is convex in (ν, β);
where it is least, the rule softmax(p W_z / τ) has v = ε. The temperature τ is lowered in steps.

The law is that of the posteriors: P(y|x,z) = p. Posteriors that are not calibrated give a bound for
a law that is not the data's.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.optimum.rules import SoftmaxChannel

__all__ = ["DualPoint", "LinearDual", "by_group"]

Array = NDArray[np.float64]
_TEMPERATURES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)  # of the range of the gains
_CLOSE = 1e-5  # bound and value this close, in the range of the gains, are good enough
_EVALUATIONS = 300  # at each temperature
_STUCK = -4.0  # a start with a lower log price stays there, since its slope in log β vanishes
_LOG_PRICE = (-14.0, 14.0)  # of the violation, for gains with a range of one


class DualPoint(NamedTuple):
    """A rule softmax(weight_z p) mix: weight (groups, U, labels), mix (U, U); and its numbers."""

    weight: Array
    mix: Array
    value: float
    violation: float
    utility: float
    upper: float


class LinearDual:
    """The dual for given rows and gains; `solve` answers one level, from the last answer."""

    def __init__(
        self, p: Array, z: NDArray[Any], weight: Array, n_groups: int, gains: Array
    ) -> None:
        """
        Args:
            p: posteriors (n, labels).
            z: codes of the groups.
            weight: of the rows; normalised here.
            n_groups: how many groups.
            gains: g[y, u], what deciding u for a row with label y is worth.
        """
        self.p, self.wp, self.w = by_group(p, z, weight, n_groups)
        self.offset, self.scale = float(gains.min()), float(np.ptp(gains)) or 1.0
        self.gains = (gains - self.offset) / self.scale
        mass = np.array([part.sum(0) for part in self.wp]).T  # P(y, z)
        self.prior = mass.sum(1)
        self.share = mass / np.maximum(self.prior, 1e-300)[:, None]  # P(z | y)
        within = mass / np.maximum(mass.sum(0), 1e-300)  # P(y | z)
        lift = np.clip(1.0 - self.prior[:, None] / np.maximum(within, 1e-6), -10.0, 10.0)
        self._start = np.r_[(self.gains[:, None] * lift[..., None]).ravel(), 0.0]
        self._shape = (*mass.shape, gains.shape[1])
        self.evaluations = 0

    def solve(self, level: float) -> DualPoint:
        """The best rule with v ≤ level > 0, and the upper bound of every such rule."""
        x, best = self._start, self._free(level)
        upper = float(sum(w @ (p @ self.gains).max(1) for p, w in zip(self.p, self.w, strict=True)))
        for tau in _TEMPERATURES:
            if upper - best.value <= _CLOSE:
                break
            x = np.r_[x[:-1], max(x[-1], _STUCK)]
            found = minimize(
                self._dual,
                x,
                args=(level, tau),
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, None)] * (len(x) - 1) + [_LOG_PRICE],
                options={
                    "maxfun": _EVALUATIONS,
                    "maxiter": _EVALUATIONS,
                    "maxcor": 20,
                    "ftol": 1e-12,
                },
            )
            x = found.x
            upper = min(upper, self._dual(x, level, 0.0)[0])
            point = self._primal(self._prices(*self._split(x))[0] / tau, level)
            best = point if point.value > best.value else best
            if tau == _TEMPERATURES[1]:
                self._start = x
        return best._replace(
            value=self.offset + self.scale * best.value,
            upper=self.offset + self.scale * max(upper, best.value),
        )

    def rule(self, level: float, groups: Levels) -> SoftmaxChannel:
        """The rule behind a level."""
        point = self.solve(level)
        bias, mix = np.zeros(point.weight.shape[:2]), np.tile(point.mix, (len(groups), 1, 1))
        return SoftmaxChannel(groups, point.weight, bias, mix)

    def _dual(self, x: Array, level: float, tau: float) -> tuple[float, Array]:
        """D_τ + βε and its gradient in (ν, log β)."""
        self.evaluations += 1
        nu, beta = self._split(x)
        prices, t, divergence = self._prices(nu, beta)
        table, total = np.zeros(self._shape), beta * level
        for z, (p, wp, w) in enumerate(zip(self.p, self.wp, self.w, strict=True)):
            s = p @ prices[:, z]
            if tau:
                total += tau * float(w @ logsumexp(s / tau, axis=1))
                table[:, z] = wp.T @ softmax(s / tau, axis=1)
            else:
                total += float(w @ s.max(1))
        pooled = table.sum(1, keepdims=True)
        slope = level - float((pooled[:, 0] * divergence).sum())
        return total, np.r_[(t * pooled - table).ravel(), beta * slope]

    def _prices(self, nu: Array, beta: float) -> tuple[Array, Array, Array]:
        """W, t(z|y,u), and KL(t ‖ P(z|y)) for each (y, u)."""
        ratio = nu / beta
        level = logsumexp(ratio, axis=1, b=self.share[..., None], keepdims=True)
        likelihood = ratio - level  # log t/P
        t = self.share[..., None] * np.exp(likelihood)
        return self.gains[:, None] - beta * likelihood, t, (t * likelihood).sum(1)

    def _split(self, x: Array) -> tuple[Array, float]:
        return x[:-1].reshape(self._shape), float(np.exp(x[-1]))

    def _free(self, level: float) -> DualPoint:
        """The rule of the largest gain, without a price of the violation."""
        prices = np.broadcast_to(self.gains[:, None], self._shape)
        return self._primal(prices / _TEMPERATURES[-1] * 100.0, level)

    def _primal(self, weight: Array, level: float) -> DualPoint:
        """softmax(p · weight), thinned towards the best constant until v ≤ level."""
        table = np.zeros(self._shape)
        for z, (p, wp) in enumerate(zip(self.p, self.wp, strict=True)):
            table[:, z] = wp.T @ softmax(p @ weight[:, z], axis=1)
        constant = int((self.prior @ self.gains).argmax())
        fixed = np.zeros(self._shape)
        fixed[..., constant] = table.sum(-1)
        share, below = 0.0, 1.0
        if conditional_mutual_information(table) > level:
            for _ in range(50):
                middle = (share + below) / 2
                v = conditional_mutual_information((1 - middle) * table + middle * fixed)
                share, below = (share, middle) if v <= level else (middle, below)
            share = below
        mixed = (1.0 - share) * table + share * fixed
        mix = (1.0 - share) * np.eye(self._shape[-1])
        mix[:, constant] += share
        return DualPoint(
            np.moveaxis(weight, 0, -1),
            mix,
            float((mixed.sum(1) * self.gains).sum()),
            float(conditional_mutual_information(mixed)),
            float(mutual_information(mixed)),
            np.nan,
        )


def by_group(
    p: Array, z: NDArray[Any], weight: Array, n_groups: int
) -> tuple[list[Array], list[Array], list[Array]]:
    """Posteriors, posteriors times weight, and weights of each group's rows; weights sum to one."""
    order = np.argsort(z, kind="stable")
    ends = np.searchsorted(z[order], np.arange(n_groups + 1))
    rows = [order[a:b] for a, b in pairwise(ends)]
    w = weight / weight.sum()
    return [p[r] for r in rows], [w[r, None] * p[r] for r in rows], [w[r] for r in rows]
