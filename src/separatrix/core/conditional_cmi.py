r"""The violation of a numeric output given a numeric outcome, in closed form with its gradient.

Bins of Y alone would report violations that do not exist: within a wide bin, Y itself tells the
groups apart and U follows Y. So U is first cleared of Y. In blocks b of rows with like outcomes
(`outcome_blocks`), with x = y − ȳ_b,

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
constants.

*Conditional ranks* are what a number says once another number is known, on a scale free of both:

.. math:: V = F(U \mid Y) = P(U' < U \mid Y) + T \cdot P(U' = U \mid Y),
          \quad T \text{ uniform on } (0, 1)

V is uniform for every y, so V ⟂ Y, and (V, Y) determines U, so I(V; Z | Y) = I(U; Z | Y). Here the
law of U given Y is that of the rows in one block of neighbouring y. Where U and y are continuous, a
straight line inside the block first takes out what U owes to y there.

Numbers only; no sampling error in here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from separatrix.core.binned_cmi import Value, centres, cmi_of_scores
from separatrix.core.crosstab import crosstab
from separatrix.core.information import conditional_mutual_information, miller_madow
from separatrix.core.numerics import Array, midpoints

Codes = NDArray[np.integer[Any]]
Blocks = NDArray[np.intp]
_TINY = 1e-12  # a spread below this share of the output's own is none
# share of the rows with a value that others have too, above which a column is not continuous
_TIED = 0.05
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
        mass: weight of each block; one where it has none, since it divides.

    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 4000), rng.normal(size=4000)
    >>> y = y + z                                            # the groups' outcomes differ
    >>> v = ConditionalCMI.from_outcome(y, z, 2)
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
    def from_outcome(
        y: Array, z: Codes, n_groups: int, weight: Array | None = None, *, bins: int = 8
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
        w = np.ones(n) if weight is None else weight
        mass = _divisors(block, w)
        x = y - (np.bincount(block, w * y) / mass)[block]
        length = np.sqrt(np.bincount(block, w * x * x))
        flat = length <= 1e-12 * np.abs(y).max(initial=0.0) * np.sqrt(mass)
        x = x * np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, length))[block]
        bands = min(_BANDS, k, max(n // (_ROWS * bins * n_groups), 1))
        return ConditionalCMI(block, x, (block * bands // k) * n_groups + z, (bands, n_groups), weight, mass)

    def cleared(self, u: Array) -> tuple[Array, Array]:
        """t of each row, and 1/σ of each block; both are zero where u is a function of y."""
        w = 1.0 if self.weight is None else self.weight
        r = u - (np.bincount(self.block, w * u) / self.mass)[self.block]
        r = r - self.x * np.bincount(self.block, w * self.x * r)[self.block]
        spread = np.sqrt(np.bincount(self.block, w * r * r) / self.mass)
        some = spread > _TINY * max(float(np.ptp(u)), np.finfo(float).tiny)
        inverse = np.where(some, 1.0 / np.where(some, spread, 1.0), 0.0)
        return r * inverse[self.block], inverse

    def centres(self, u: Array, bins: int) -> Array:
        """Quantiles of t: centres of the soft bins."""
        return centres(self.cleared(u)[0], bins, self.weight)

    def __call__(self, u: Array, c: Array) -> Value:
        """v in nats and ∂v/∂u for fixed centres c."""
        t, inverse = self.cleared(u)
        v, h = cmi_of_scores(t, self.cell, self.shape, c, self.weight)
        w = 1.0 if self.weight is None else self.weight
        along = np.bincount(self.block, h * t) / self.mass
        h = (h - w * t * along[self.block]) * inverse[self.block]
        level = np.bincount(self.block, h) / self.mass
        slope = np.bincount(self.block, h * self.x)
        return Value(v, h - w * (level[self.block] + self.x * slope[self.block]))


def rank_violation(y: Array, u: Array, z: Codes, n_groups: int, weight: Array | None = None, *, bins: int = 8) -> float:
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
    return float(conditional_mutual_information(table) - miller_madow(table))


def outcome_blocks(y: Array, rows: int | None = None) -> Blocks:
    """The block of each row: neighbours in y, numbered in its order.

    A value of y with many rows is a block of its own. Equal values are never parted, so a block may
    have more rows than asked for.

    Args:
        y: finite numbers.
        rows: of a block, about; 2 √n by default.

    >>> outcome_blocks(np.array([3.0, 1.0, 2.0, 4.0, 0.0, 0.0]), rows=2)
    array([2, 1, 1, 2, 0, 0])
    """
    _, place, length = np.unique(y, return_inverse=True, return_counts=True)
    asked = max(int(2.0 * np.sqrt(len(y))), 2) if rows is None else rows
    alone = (2 * length >= asked) & (length > 1)
    # a stretch is an atom, or the values between two atoms
    stretch = np.cumsum(alone | np.append(False, alone[:-1]))
    of_stretch = np.bincount(stretch, length)
    before = np.cumsum(length) - length
    first = np.append(0.0, np.cumsum(of_stretch)[:-1])[stretch]
    parts = np.maximum(np.rint(of_stretch / asked), 1.0)[stretch]
    parts[alone] = 1.0
    segment = np.floor((before - first + 0.5 * length) / of_stretch[stretch] * parts)
    new = np.append(True, (np.diff(stretch) > 0) | (np.diff(segment) > 0))
    return np.asarray((np.cumsum(new) - 1)[place], dtype=np.intp)


def block_parts(y: Array, block: Blocks, parts: int) -> Blocks:
    """Which of `parts` stretches of its block a row is in; equal y are in the same stretch.

    >>> block_parts(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4, dtype=int), 2)
    array([0, 0, 1, 1])
    """
    rows = np.bincount(block)
    inside = _middle_ranks(y) - (np.cumsum(rows) - rows)[block]  # blocks are in the order of y
    return np.minimum(inside / rows[block] * parts, parts - 1).astype(np.intp)


def conditional_rank(
    u: Array,
    y: Array,
    *,
    weight: Array | None = None,
    block: Blocks | None = None,
    random_state: int | np.random.Generator = 0,
) -> Array:
    r"""V̂ = F̂(U | Y): each row's place among the rows with about the same y, in (0, 1).

    Order is all that counts: any rising function of u gives the same ranks up to the line inside a
    block, which is fitted to normal scores so that heavy tails do not tilt it.

    Args:
        u: finite numbers; ties are broken by chance.
        y: finite numbers; not used where `block` says all about the outcome.
        weight: of each row, not negative.
        block: `outcome_blocks(y)` by default.
        random_state: seed of the ties and of the place inside a rank.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=10_000)
    >>> V = conditional_rank(y**3 + 0.1 * rng.normal(size=10_000), y)
    >>> bool(abs(np.corrcoef(V, y)[0, 1]) < 0.01), round(float(np.quantile(V, 0.3)), 2)
    (True, 0.3)
    """
    rng = np.random.default_rng(random_state)
    block = outcome_blocks(y) if block is None else block
    w = np.ones(len(u)) if weight is None else weight
    # of a column with many ties no multiple of y is taken: it would break the ties in y's order
    residual = u if is_tied(u) else _residual(_normal_scores(u), _normal_scores(y), w, block)
    order = np.lexsort((rng.random(len(u)), residual, block))
    placed, mass = w[order], np.bincount(block, w).astype(np.float64)
    below = np.cumsum(placed) - placed - (np.cumsum(mass) - mass)[block[order]]
    rank = np.empty(len(u))
    rank[order] = (below + placed * rng.random(len(u))) / _divisors(block, w)[block[order]]
    return np.clip(rank, 0.0, np.nextafter(1.0, 0.0))  # sums of weights round


def _divisors(block: Blocks, weight: Array) -> Array:
    """The weight of each block; one where there is none."""
    mass = np.bincount(block, weight).astype(np.float64)
    return np.where(mass > 0, mass, 1.0)


def _residual(u: Array, y: Array, w: Array, block: Blocks) -> Array:
    """u minus its least-squares line in y, inside each block."""
    y = y - (np.bincount(block, w * y) / _divisors(block, w))[block]
    spread = np.bincount(block, w * y * y)
    slope = np.bincount(block, w * y * u) / np.where(spread > 0, spread, np.inf)
    return np.asarray(u - slope[block] * y)


def _normal_scores(x: Array) -> Array:
    """Normal scores: Φ⁻¹ of the middle rank."""
    return np.asarray(ndtri(_middle_ranks(x) / len(x)))


def _middle_ranks(x: Array) -> Array:
    """Ranks 0.5, 1.5, …; equal values share their mean."""
    _, place, length = np.unique(x, return_inverse=True, return_counts=True)
    return midpoints(length)[place]


def is_tied(x: Array) -> bool:
    """Whether more than one row in twenty has a value that another row has too."""
    counts = np.unique(x, return_counts=True)[1]
    return bool(counts[counts > 1].sum() > _TIED * len(x))
