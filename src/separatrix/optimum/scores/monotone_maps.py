r"""Rising maps of a score that trade squared error for separation: the programme behind `align`.

.. math:: \min_m \; \frac{\mathrm{E}\,(Y - m_Z(S))^2}{\mathrm{Var}(Y)} + β\, I(K; Z \mid B)

over maps m that never fall (`aligned`), with K the soft bin of the output cleared of Y and B bands
of the outcome (`core.conditional_cmi`). The first term is 1 − R². A map is its value at the lowest
knot and its steps between knots, which are not negative: bounds of L-BFGS, so every iterate rises.
Each β starts where a smaller one ended, with the bins at the quantiles of that start, twice. The
penalty is not convex, so what is found is a local optimum. Ten pseudo-rows per map pull it to the
straight line of all rows, so that a group of few rows does not follow its noise.

The output is then cut into cells with the least squared error within cells (a dynamic programme
over 200 quantiles), and a cell's value is the mean outcome of its rows; cells whose means do not
rise are joined. All of it is a function of the map, so it cannot raise I(U; Z | Y).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, minimize

from separatrix.core.binned_cmi import Value, centres, spread_out
from separatrix.core.conditional_cmi import ConditionalCMI, attribute_bins, rank_violation
from separatrix.core.levels import Levels
from separatrix.core.numerics import best_partition
from separatrix.optimum.scores.aligned import AlignedScore, hats

__all__ = ["RisingMaps"]

Array = NDArray[np.float64]
_KNOTS, _BINS = 8, 8  # of a map; of the output in the penalty
_ATTRIBUTE_KNOTS = 12
_ROUNDS, _STEPS = 2, 100
_CELLS, _PSEUDO = 200, 10.0


class RisingMaps:
    """The programme on given rows.

    Args:
        y, s: outcome and score of each row.
        z: code of its group; or its number, where `groups` is empty.
        groups: the names behind the codes.
        weight: of each row.
    """

    def __init__(
        self, y: Array, s: Array, z: NDArray[Any], groups: Levels, weight: Array | None = None
    ) -> None:
        self.y, self.groups, self.weight = y, groups, weight
        w = np.ones(len(y)) if weight is None else weight
        self.share = w / w.sum()
        self.attribute_knots = np.array([])
        if groups:
            self.codes, members = np.asarray(z), np.eye(len(groups))[z]
        else:
            self.codes = attribute_bins(z)
            at = centres(z, _ATTRIBUTE_KNOTS, weight)
            self.attribute_knots = at if len(at) > 1 else np.array([at[0], at[0] + 1.0])
            unit = np.tile([0.0, 1.0], (len(self.attribute_knots), 1))
            members = hats(np.zeros(len(z)), z, unit, self.attribute_knots).toarray()[:, ::2]
        self.knots = np.stack([_knots(s, w * own) for own in members.T])
        self.basis = hats(s, z, self.knots, self.attribute_knots)
        self.adjoint = self.basis.T.tocsr()
        self.mean = float(self.share @ y)
        self.spread = float(np.sqrt(self.share @ (y - self.mean) ** 2)) or 1.0
        self.target = (y - self.mean) / self.spread
        away = s - self.share @ s
        slope = max(float(self.share @ (away * self.target)), 0.0) / (self.share @ away**2 or 1.0)
        self.line = slope * (self.knots - self.share @ s)
        self.pull = _PSEUDO / (len(y) * self.knots.shape[1])
        self.n_codes = int(self.codes.max()) + 1 if not groups else len(groups)
        self.violation = ConditionalCMI.of(y, self.codes, self.n_codes, weight, bins=_BINS)

    def start(self) -> Array:
        """The steps (maps, J) of the line of all rows."""
        return np.concatenate([self.line[:, :1], np.diff(self.line, axis=1)], axis=1)

    def loss(self, steps: Array, penalty: float, at: Array) -> Value:
        """1 − R² + β v and its derivative at the steps, for fixed centres of the bins."""
        values = np.cumsum(steps, axis=1)
        u, off = self.basis @ values.ravel(), values - self.line
        rest = u - self.target
        value = float(self.share @ rest**2 + self.pull * (off**2).sum())
        slope = 2.0 * self.share * rest
        if penalty:
            v = self.violation(u, at)
            value, slope = value + penalty * v.value, slope + penalty * v.gradient
        at_knots = (self.adjoint @ slope).reshape(steps.shape) + 2.0 * self.pull * off
        return Value(value, np.cumsum(at_knots[:, ::-1], axis=1)[:, ::-1])

    def descend(self, steps: Array, penalty: float) -> Array:
        """The steps of a local optimum for one β, from given ones."""
        bounds = [(None if j == 0 else 0.0, None) for _ in steps for j in range(steps.shape[1])]
        for _ in range(_ROUNDS if penalty else 1):
            at = self.violation.centres(self.basis @ np.cumsum(steps, axis=1).ravel(), _BINS)
            at, shape = at[spread_out(at)], steps.shape

            def loss(x: Array, at: Array = at, shape: tuple[int, ...] = shape) -> Any:
                found = self.loss(x.reshape(shape), penalty, at)
                return found.value, found.gradient.ravel()

            options = {"maxiter": _STEPS}
            found = minimize(
                loss, steps.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            steps = found.x.reshape(shape)
        return steps

    def released(self, steps: Array, penalty: float, levels: int) -> AlignedScore:
        """The map of these steps, released at no more than `levels` values."""
        values = np.cumsum(steps, axis=1)
        u = self.basis @ values.ravel()
        cuts = _cells(u, self.share, levels)
        place = np.searchsorted(cuts, u, side="right")
        mass = np.bincount(place, self.share, len(cuts) + 1)
        mean = np.bincount(place, self.share * self.y, len(cuts) + 1) / mass
        mean = isotonic_regression(mean, weights=mass).x
        rises = np.flatnonzero(np.diff(mean) > 0)
        cuts, level = cuts[rises], mean[np.append(0, rises + 1)]
        out = level[np.searchsorted(cuts, u, side="right")]
        r2 = 1.0 - float(self.share @ (self.y - out) ** 2) / self.spread**2
        v = rank_violation(self.y, out, self.codes, self.n_codes, self.weight)
        return AlignedScore(
            self.groups, self.attribute_knots, self.knots, values, cuts, level, penalty, r2, v
        )


def _knots(s: Array, weight: Array) -> Array:
    """Quantiles of the scores of a map's rows, or of all rows where these are few.

    Where few scores differ, more knots lie on the lines between them.
    """
    own = weight > 0
    few = own.sum() < 2 * _KNOTS
    at = centres(s, _KNOTS) if few else centres(s[own], _KNOTS, weight[own])
    at = at[spread_out(at)]
    return np.interp(np.linspace(0, len(at) - 1, _KNOTS), np.arange(len(at)), at)


def _cells(u: Array, weight: Array, levels: int) -> Array:
    """Edges of at most `levels` cells of u with the least squared error within cells.

    >>> _cells(np.array([0.0, 0.1, 5.0, 5.1, 9.0]), np.ones(5) / 5, 3)
    array([5., 9.])
    """
    edges = centres(u, _CELLS + 1, weight)
    edges = edges[(edges > u.min()) & (edges <= u.max())]
    place, k = np.searchsorted(edges, u, side="right"), len(edges) + 1
    w = np.append(0.0, np.cumsum(np.bincount(place, weight, k)))
    m = np.append(0.0, np.cumsum(np.bincount(place, weight * u, k)))
    mass = w[None] - w[:, None]  # [i, j]: of the cells i … j − 1
    some = np.triu(mass > 0, 1)
    gain = np.where(some, (m[None] - m[:, None]) ** 2 / np.where(some, mass, 1.0), -np.inf)
    return np.asarray(edges[best_partition(gain, min(levels, k))[1:-1] - 1])
