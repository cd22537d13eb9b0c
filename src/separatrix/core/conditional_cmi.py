r"""The violation of a numeric output given a numeric outcome, in closed form with its gradient.

Bins of Y alone would report violations that do not exist: within a wide bin, Y itself tells the
groups apart and U follows Y. So U is first cleared of Y. In blocks b of rows with like outcomes
(`conditional_rank.outcome_blocks`), with x = y − ȳ_b,

.. math:: r = u - \bar u_b - c_b x, \qquad t = r / σ_b(r), \qquad
          v = I(K; Z \mid B),\; K \text{ the soft bin of } t

c_b is the slope of least squares, σ_b the spread of r, and B a few coarse bands of blocks. t is a
location-scale version of the conditional rank F(U | Y); an outcome with few values is its own
blocks, and r = u − ū_b. v does not change when u is shifted or stretched within a block.

The gradient goes through the bins (`binned_cmi`), the spread and the fit. With h = ∂v/∂t,

.. math:: \frac{\partial v}{\partial r} = \frac{1}{σ_b}
          \Bigl(h - \frac{w\,t}{W_b} \langle h, t \rangle_b\Bigr), \qquad
          \frac{\partial v}{\partial u} = (1 - P_b)^\top \frac{\partial v}{\partial r}

with P_b the weighted projection on (1, x) and W_b the weight of the block. Centres of the bins are
constants. Numbers only; no sampling error in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.core.binned_cmi import Value, centres, cmi_of_scores
from separatrix.core.conditional_rank import conditional_rank, outcome_blocks
from separatrix.core.crosstab import crosstab
from separatrix.core.information import conditional_mutual_information, miller_madow_observed

__all__ = ["ConditionalCMI", "attribute_bins", "rank_violation"]

Array = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]
_TINY = 1e-12  # a spread below this share of the output's own is none
_BLOCKS, _BANDS, _ROWS = 32, 8, 8  # at most; rows of an average cell at least


def attribute_bins(z: Array, bins: int = 8) -> NDArray[np.intp]:
    """Bins of a numeric attribute with about as many rows each, as codes.

    >>> attribute_bins(np.array([18.0, 70.0, 33.0, 45.0]), 2)
    array([0, 1, 0, 1])
    """
    cuts = np.quantile(z, np.arange(1, bins) / bins)
    return np.unique(np.searchsorted(np.unique(cuts), z, "right"), return_inverse=True)[1]


@dataclass(frozen=True, eq=False)
class ConditionalCMI:
    """v of an output for fixed outcomes and groups.

    Args:
        block: of each row, (n,), rising with the outcome.
        x: the outcome, centred and of length one in each block; zero where it is constant.
        cell: band · n_groups + group of each row.
        shape: (bands, n_groups).
        weight: of each row; None for one each.
        mass: weight of each block.

    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 4000), rng.normal(size=4000)
    >>> y = y + z                                            # the groups' outcomes differ
    >>> v = ConditionalCMI.of(y, z, 2)
    >>> u, noise = y, rng.normal(size=4000)
    >>> round(v(u + noise, v.centres(u + noise, 8)).value, 2)           # separated
    0.0
    >>> round(v(u + noise + z, v.centres(u + noise + z, 8)).value, 2)
    0.08
    """

    block: Codes
    x: Array
    cell: Codes
    shape: tuple[int, int]
    weight: Array | None
    mass: Array

    @staticmethod
    def of(
        y: Array,
        z: Codes,
        n_groups: int,
        weight: Array | None = None,
        *,
        bins: int = 8,
    ) -> ConditionalCMI:
        """For outcomes y and groups z.

        Args:
            y: (n,), on any scale.
            z: codes of the groups, or of bins of a numeric attribute.
            n_groups: how many there are.
            weight: (n,), not negative.
            bins: soft bins that the caller will use: few rows have fewer bands.

        There are 32 blocks, fewer where a block would have less than 2 √n rows or outcomes repeat,
        and 8 bands, fewer where a cell would have less than 8 rows on average.
        """
        n = len(y)
        block = outcome_blocks(y, max(n // _BLOCKS, int(2.0 * np.sqrt(n)), 2))
        k = int(block.max()) + 1
        w = np.ones(len(y)) if weight is None else weight
        mass = np.bincount(block, w, k).astype(np.float64)
        safe = np.where(mass > 0, mass, 1.0)
        x = y - (np.bincount(block, w * y, k) / safe)[block]
        length = np.sqrt(np.bincount(block, w * x * x, k))
        flat = length <= 1e-12 * np.abs(y).max(initial=0.0) * np.sqrt(safe)
        x = x * np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, length))[block]
        bands = min(_BANDS, k, max(n // (_ROWS * bins * n_groups), 1))
        band = block * bands // k
        return ConditionalCMI(block, x, band * n_groups + z, (bands, n_groups), weight, mass)

    def cleared(self, u: Array) -> tuple[Array, Array]:
        """t of each row, and 1/σ of each block; both are zero where u is a function of y."""
        k, w = len(self.mass), 1.0 if self.weight is None else self.weight
        safe = np.where(self.mass > 0, self.mass, 1.0)
        r = u - (np.bincount(self.block, w * u, k) / safe)[self.block]
        r = r - self.x * np.bincount(self.block, w * self.x * r, k)[self.block]
        spread = np.sqrt(np.bincount(self.block, w * r * r, k) / safe)
        some = spread > _TINY * max(float(np.ptp(u)), np.finfo(float).tiny)
        inverse = np.where(some, 1.0 / np.where(some, spread, 1.0), 0.0)
        return r * inverse[self.block], inverse

    def centres(self, u: Array, bins: int) -> Array:
        """Quantiles of t: centres of the soft bins."""
        return centres(self.cleared(u)[0], bins, self.weight)

    def __call__(self, u: Array, at: Array) -> Value:
        """v in nats and ∂v/∂u for fixed centres `at`."""
        t, inverse = self.cleared(u)
        found = cmi_of_scores(t, self.cell, self.shape, at, self.weight)
        k, w = len(self.mass), 1.0 if self.weight is None else self.weight
        safe = np.where(self.mass > 0, self.mass, 1.0)
        h = found.gradient
        along = np.bincount(self.block, h * t, k) / safe
        h = (h - w * t * along[self.block]) * inverse[self.block]
        level = np.bincount(self.block, h, k) / safe
        slope = np.bincount(self.block, h * self.x, k)
        return Value(found.value, h - w * (level[self.block] + self.x * slope[self.block]))


def rank_violation(
    y: Array, u: Array, z: Codes, n_groups: int, weight: Array | None = None, *, bins: int = 8
) -> float:
    """v of conditional ranks by counting, less its leading bias: for rows that a map did not see.

    The ranks V = F(U | Y) are counted in `bins` bins and up to 8 bands of the outcome, so it is
    below I(U; Z | Y) but for sampling error; zero in expectation under separation.

    Args:
        y, u: outcome and output of each row.
        z: codes of the groups.
        n_groups: how many there are.
        weight: of each row.
        bins: of the ranks.

    >>> rng = np.random.default_rng(0)
    >>> z, y, e = rng.integers(0, 2, 8000), *rng.normal(size=(2, 8000))
    >>> round(rank_violation(y, y + e, z, 2), 2), round(rank_violation(y, y + e + z, z, 2), 2)
    (-0.0, 0.11)
    """
    block = outcome_blocks(y)
    k = int(block.max()) + 1
    bands = min(_BANDS, k, max(len(y) // (_ROWS * bins * n_groups), 1))
    rank = conditional_rank(u, y, weight=weight, block=block)
    codes = [block * bands // k, z, (rank * bins).astype(np.intp)]
    table = crosstab(codes, (bands, n_groups, bins), weight)
    if weight is not None:  # as many rows of equal weight as say as much
        table = table * (weight.sum() / (weight @ weight))
    return float(conditional_mutual_information(table) - miller_madow_observed(table))
