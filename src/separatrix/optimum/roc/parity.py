r"""Independence: what thresholds can do when the share of U = 1 is what groups must agree on.

With w_z = P(Z=z) and r_z = P(U=1 | z), the information I(U;Z) = Σ w_z KL(r_z ‖ r̄) sees a group's
rates only through r_z. At a given r_z a linear objective is best on the hull of the group's ROC
curve, where it is a concave, piecewise linear function G_z(r_z). So

.. math:: \max_r \sum_z G_z(r_z) - \sum_z w_z \, \mathrm{KL}(r_z \| m)

has for every m a closed form: on an edge with slope :math:`w_z f` the best r_z is expit(logit m +
f), clipped to the edge. It is concave in m, and its maximum over m, where m = r̄, is that of
:math:`c \cdot x - I(U;Z)`: one root. `lagrangian` then needs another, in the price of I.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from separatrix.core.numerics import bisect
from separatrix.core.rates import rates_violation, selection_rates
from separatrix.optimum.roc.regions import Regions

__all__ = ["ParityRegions"]

Array = NDArray[np.float64]
_FAR = 40.0  # log odds beyond which a share of U = 1 is none or all
_TINY = 1e-300


class ParityRegions(Regions):
    """The ROC regions of all groups; what counts is I(U;Z) instead of I(U;Z|Y)."""

    def __init__(self, chains: Sequence[Array], mass: Array) -> None:
        super().__init__(chains, mass)
        self._hulls = [_Hull.of(*one) for one in zip(self.chains, self.mass, strict=True)]

    def violation(self, x: Array) -> Array:
        """I(U;Z) of the rates x (..., groups, 2)."""
        return rates_violation(selection_rates(x, self.mass), self.mass.sum(1, keepdims=True))

    def mean(self, x: Array) -> Array:
        """r̄ = P(U=1), array (n, 1)."""
        return np.asarray((x * self.mass).sum((-2, -1)))[:, None]

    def maximise(self, kappa: Array, mean: Array, steps: int = 60) -> tuple[Array, Array]:
        """The rates (n, groups, 2) that maximise Σ a κ x − I(U;Z), and logit r̄ (n, 1).

        Bisection for logit m, `steps` times; it needs no start.
        """
        price = self._per_group(kappa) * self.mass
        slopes = [hull.slopes(price[:, z]) for z, hull in enumerate(self._hulls)]

        def rises(log_odds: Array) -> NDArray[np.bool_]:
            return np.asarray(self.mean(self._best(slopes, log_odds))[:, 0] > expit(log_odds))

        ends = np.full(len(kappa), -_FAR), np.full(len(kappa), _FAR)
        low, high = bisect(rises, *ends, steps)
        return high[:, None], self._best(slopes, 0.5 * (low + high))

    def bound(self, kappa: Array, x: Array) -> Array:
        """Upper bounds (n,) on Σ a κ x' − I(U;Z) over all x', as in `Regions.bound`."""
        r = np.clip(selection_rates(x, self.mass), _TINY, 1.0 - 2.0**-53)
        mean = np.clip(self.mean(x), _TINY, 1.0 - 2.0**-53)[:, None]
        gradient = self.mass * (self._per_group(kappa) + logit(mean) - logit(r))
        gap = (self.linear_max(gradient) - (gradient * x).sum(-1)).sum(-1)
        value = (self.mass * self._per_group(kappa) * x).sum((1, 2)) - self.violation(x)
        return np.asarray(value + np.maximum(gap, 0.0))

    def equal(self) -> Array:
        """Rates (n, groups, 2) of all common shares r at which some group's hull has a vertex.

        The best objective with I(U;Z) = 0 is among them: between two of them all rates are linear
        in r, and the objectives are convex.
        """
        shares = np.unique(np.concatenate([hull.share for hull in self._hulls]))
        return np.stack([hull.at(shares) for hull in self._hulls], axis=1)

    def _best(self, slopes: list[Array], log_odds: Array) -> Array:
        """x for given logit m (n,): in each group the edge where the slope passes zero."""
        x, row = np.empty((len(log_odds), *self.mass.shape)), np.arange(len(log_odds))
        for z, (hull, slope) in enumerate(zip(self._hulls, slopes, strict=True)):
            edge = (log_odds[:, None] + slope > hull.odds[1:]).sum(1)
            edge = np.minimum(edge, len(hull.odds) - 2)
            own = np.clip(log_odds + slope[row, edge], hull.odds[edge], hull.odds[edge + 1])
            x[:, z] = hull.at(expit(own))
        return x


class _Hull(NamedTuple):
    """One group's hull by the share of U = 1: vertices (k, 2), shares and their log odds (k,)."""

    chain: Array
    share: Array
    odds: Array
    weight: float

    @classmethod
    def of(cls, chain: Array, mass: Array) -> _Hull:
        """Without edges along which the share does not change; a group without rows is a line."""
        weight = float(mass.sum())
        if weight <= 0:
            chain, share = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.0, 1.0])
        else:
            share = np.clip(chain @ mass / weight, 0.0, 1.0)
            wide = np.r_[True, np.diff(share) > 0]
            chain, share = chain[wide], share[wide]
        with np.errstate(divide="ignore"):
            return cls(chain, share, logit(share), weight or 1.0)

    def slopes(self, price: Array) -> Array:
        """f of each edge (n, k − 1) for prices (n, 2) of the rates."""
        gain = price @ self.chain.T
        return np.asarray(np.diff(gain, axis=1) / (self.weight * np.diff(self.share)))

    def at(self, share: Array) -> Array:
        """The rates (n, 2) at given shares of U = 1."""
        return np.stack([np.interp(share, self.share, own) for own in self.chain.T], axis=-1)
