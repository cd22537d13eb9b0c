r"""What rates a monitor bets on when the true ones are p, and what the bet has won so far.

For rates p inside the budget, rows of a label y are bet on a mixture of rates around p:

.. math:: M_y(p) = π_0
          + π_1 \prod_z \frac{\mathrm{DM}(N_{yz}; m p_{yz})}{\prod_u p_{yzu}^{N_{yzu}}}
          + π_2 \, \mathrm{mean}_θ \prod_z
            \frac{e^{θ_z N_{yzu}}}{(1 - p_{yzu} + p_{yzu} e^{θ_z})^{n_{yz}}}
          + π_3 \prod_z \frac{\mathrm{DM}(N_{yz}; ½)}{\prod_u p_{yzu}^{N_{yzu}}}

DM is the Dirichlet-multinomial likelihood: rates spread around p. A tilt θ moves one group against
the others at one prediction. Each term is a likelihood ratio (of a mixture) against p, so it has
mean one under p and its running value is a martingale. **Each term is log-convex in p**, with a
diagonal Hessian: a factor of DM is :math:`\prod_{i<N} (m + i/p)` and
:math:`\log(mp + i) - \log p` is convex; :math:`-\log(1 + p (e^θ - 1))` and :math:`-N \log p` are
convex. So is their mean, since a sum of log-convex functions is log-convex, and their product.

The size of the bets is that of a violation of k times the budget, for a few k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma, xlogy

__all__ = ["Alternatives", "Bet"]

Array = NDArray[np.float64]
_TIMES = (10.0, 4.0, 2.0)  # multiples of the budget that the bets are made for
_SHARES = (0.43, 0.33, 0.24)  # of the evidence
_NOTHING, _FAR = 0.20, 0.03  # π of no bet and of Dir(½)
_TILTED = {True: 0.45, False: 0.25}  # π of the tilts: with two groups they say all, else a part
_LEAST_BUDGET = 1e-3  # below it the bets grow no smaller
_STEEPEST = 3.0  # of a tilt, in log-odds
_MOST = 50_000  # numbers that the tilts of a table may need; larger tables have none


class Bet(NamedTuple):
    """log Π_y M_y at some p: one value per label; gradient (y, z, u); Hessian (y, zu, zu)."""

    value: Array
    gradient: Array
    hessian: Array


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The bets, fixed before the first row: from the reference's counts and the budget.

    Args:
        shares: log share of the evidence of each size k.
        spread: m of each size.
        tilts: θ[k, y, t, z], and the prediction `at[t]` that each is about; may be none.
        at: predictions of the tilts.
    """

    shares: Array
    spread: Array
    tilts: Array
    at: NDArray[np.intp]

    @classmethod
    def of(cls, reference: Array, budget: float) -> Alternatives:
        """The bets for a budget, around a reference table of counts N[y, z, u]."""
        n = np.asarray(reference, dtype=np.float64)
        size = np.sqrt(2.0 * max(budget, _LEAST_BUDGET)) * (np.sqrt(np.array(_TIMES)) - 1.0)
        spread = (n.shape[2] - 1) / size**2
        tilts, at = _contrasts(n, size)
        return cls(np.log(np.array(_SHARES)), spread, tilts, at)

    def log_mixture(self, k: int, n: Array, p: Array) -> Array:
        """log M_y of size k, per label; leading axes are independent tables."""
        return _log_sum(self._terms(k, n, p))

    def _terms(self, k: int, n: Array, p: Array) -> Array:
        """log of the weighted terms of M_y, on a last axis."""
        m, mass = self.spread[k], n.sum(-1)
        log_p = -xlogy(n, p)
        around = (gammaln(m * p + n) - gammaln(m * p) + log_p).sum(-1)
        around = (around + gammaln(m) - gammaln(mass + m)).sum(-1)
        half = 0.5 * n.shape[-1]
        far = (gammaln(n + 0.5) - gammaln(0.5) + log_p).sum(-1)
        far = (far + gammaln(half) - gammaln(mass + half)).sum(-1)
        # not convex with a fraction of a row: left out, which only lowers the mean
        broken = ((n > 0) & (n < 1)).any((-2, -1))
        weight = self._weights
        around = np.where(broken, -np.inf, around + np.log(weight[1]))
        terms = [np.full_like(far, np.log(weight[0])), around, far + np.log(weight[2])]
        stacked = np.stack(terms, -1)
        if not self.at.size:
            return stacked
        theta = self.tilts[k]
        chosen_n, chosen_p = (np.moveaxis(x[..., self.at], -1, -2) for x in (n, p))
        won = theta * chosen_n - mass[..., None, :] * np.log1p(chosen_p * np.expm1(theta))
        tilted = won.sum(-1) + np.log(weight[3] / len(self.at))
        return np.concatenate([stacked, tilted], -1)

    @property
    def _weights(self) -> tuple[float, float, float, float]:
        """π of no bet, around p, Dir(½) and the tilts."""
        tilted = _TILTED[self.tilts.shape[-1] == 2] if self.at.size else 0.0
        return _NOTHING, 1.0 - _NOTHING - _FAR - tilted, _FAR, tilted

    def bet(self, k: int, n: Array, p: Array) -> Bet:
        """log M_y of size k with its derivatives in p, for one table."""
        terms = self._terms(k, n, p)
        value = _log_sum(terms)
        posterior = np.exp(terms - value[:, None])  # (y, term)
        m, mass = self.spread[k], n.sum(-1)
        seen = n / p
        shape = (*posterior.shape, *n.shape[1:])
        slope, bend = np.zeros(shape), np.zeros(shape)
        slope[:, 1] = m * (digamma(m * p + n) - digamma(m * p)) - seen
        bend[:, 1] = m**2 * (polygamma(1, m * p + n) - polygamma(1, m * p)) + seen / p
        slope[:, 2], bend[:, 2] = -seen, seen / p
        if self.at.size:
            t = np.arange(len(self.at))
            e = np.expm1(self.tilts[k])
            part = e / (1.0 + np.moveaxis(p[..., self.at], -1, -2) * e)
            slope[:, 3 + t, :, self.at] = np.moveaxis(-mass[:, None] * part, 1, 0)
            bend[:, 3 + t, :, self.at] = np.moveaxis(mass[:, None] * part**2, 1, 0)
        gradient = np.einsum("yk,ykzu->yzu", posterior, slope)
        flat = slope.reshape(*posterior.shape, -1)
        mean = gradient.reshape(len(n), -1)
        hessian = np.einsum("yk,yki,ykj->yij", posterior, flat, flat)
        hessian -= mean[:, :, None] * mean[:, None]
        index = np.arange(mean.shape[1])
        diagonal = np.einsum("yk,ykzu->yzu", posterior, bend).reshape(len(n), -1)
        hessian[:, index, index] += diagonal
        return Bet(value, gradient, hessian)


def _log_sum(terms: Array) -> Array:
    """log Σ exp over the last axis; the first term is finite."""
    top = terms.max(-1)
    return np.asarray(top + np.log(np.exp(terms - top[..., None]).sum(-1)))


def _contrasts(n: Array, size: Array) -> tuple[Array, NDArray[np.intp]]:
    """Tilts of one group against the others, at one prediction, of each size and sign."""
    labels, groups, predictions = n.shape
    pairs = [
        (z, u)
        for z in range(1 if groups == 2 else groups)
        for u in range(1 if predictions == 2 else 0, predictions)
    ]
    if labels * 2 * len(pairs) * groups * predictions > _MOST or groups < 2:
        return np.zeros((len(size), labels, 0, groups)), np.zeros(0, dtype=np.intp)
    smooth = n + 0.5
    of_group = smooth.sum(2) / smooth.sum((1, 2))[:, None]
    pooled = smooth.sum(1) / smooth.sum((1, 2))[:, None]
    spread = np.sqrt(pooled * (1.0 - pooled))
    tilts, at = [], []
    for z, u in pairs:
        one = np.zeros((labels, groups))
        one[:, z] = 1.0
        share = of_group[:, z : z + 1]
        steep = 1.0 / (spread[:, u : u + 1] * np.sqrt(share * (1.0 - share)))
        steep = np.minimum(size[:, None, None] * steep, _STEEPEST)
        for sign in (1.0, -1.0):
            tilts.append(sign * steep * (one - share))
            at.append(u)
    return np.stack(tilts, 2), np.array(at, dtype=np.intp)
