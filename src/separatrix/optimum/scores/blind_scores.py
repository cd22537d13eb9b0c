r"""A score of x alone that says little about the group beyond the label: AUROC − β I(S; Z | Y).

.. math:: r(x) = \sum_z P(z \mid x) \, m_z\bigl(P(Y{=}1 \mid x, z)\bigr), \qquad
          S = P(Y{=}1 \mid r(x))

with a piecewise linear m_z per group. Equal m_z(s) = s are the plain score; where x gives the group
away these are a map per group, as in the score that sees it. r is linear in the values of m_z at
the knots, so few numbers are learned. The rows of each label and group are spread over bins of r
with soft edges; AUROC and the violation are functions of that table (as in `separated`), counted
with the rows' own labels and groups, and their slope in r is exact: L-BFGS climbs, then the bins
are laid anew. A path over rising β starts each from the last. No coin is needed to score a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from separatrix.core.numerics import Array, Index, weighted_quantiles
from separatrix.core.score_tables import area_slope
from separatrix.errors import InputError
from separatrix.optimum.rules import Score, check_joint

# chosen with a look at one fold of Adult, so Adult's first fold cannot report these scores
_KNOTS = 20  # of each m_z, at quantiles of P(Y=1 | x)
_BINS = 24
_SOFT = 0.5  # width of an edge, in widths of its bins
# bins laid anew, steps of L-BFGS between; more run into flat corners that the next β cannot leave
_ROUNDS, _STEPS = 3, 40
_ROWS = 15_000  # rows that climb; all rows calibrate
_CELLS = 200  # of the calibration
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class BlindScore(Score):
    """A score of q(y, z | x); the same row always has the same score.

    Args:
        knots: where the m_z bend, array (k,).
        values: m_z at the knots, array (groups, k).
        place, level: P(Y = second label | r) as points of a rising line, arrays (c,).
        penalty: β.
    """

    kind: ClassVar[str] = "blind_score"
    coins = ()
    uses_groups: ClassVar[bool] = False
    knots: Array = field(repr=False)
    values: Array = field(repr=False)
    place: Array = field(repr=False)
    level: Array = field(repr=False)
    penalty: float = 0.0

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """P(Y | S), array (n, 2)."""
        s = self.transform(scores)
        return np.stack([1.0 - s, s], axis=1)

    def drawn(self, scores: ArrayLike, coin: Array, *, sensitive_features: Any = None) -> Array:
        """`transform`; neither coin nor group is looked at."""
        return self.transform(scores)

    def transform(self, q: ArrayLike) -> Array:
        """The score of each row, array (n,): P(Y = second label | S), from q (n, 2, groups)."""
        joint = check_joint(q, (2, len(self.values)))
        r = _features(joint, self.knots) @ self.values.ravel()
        return np.asarray(np.interp(r, self.place, self.level))


def blind_scores(
    q: ArrayLike, y: Index, z: Index, weight: Array, penalties: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
) -> list[BlindScore]:
    """The best scores found for rising β, each climbed from the last.

    Args:
        q: q(y, z | x), array (n, 2, groups), of rows that trained nothing.
        y, z: codes of labels and groups.
        weight: weight of each row.
        penalties: the β.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 4000))
    >>> x = rng.normal(size=(4000, 2)) + np.stack([2 * y, y + 2 * z], 1)     # x[1] tells the group
    >>> means = np.array([[[0, 0], [0, 2]], [[2, 1], [2, 3]]])
    >>> q = np.exp(-0.5 * ((x[:, None, None] - means) ** 2).sum(-1))
    >>> q /= q.sum((1, 2), keepdims=True)
    >>> score, = blind_scores(q, y, z, np.ones(4000), penalties=[10.0])
    >>> score.transform(q[:3]).shape
    (3,)
    """
    joint = check_joint(q)
    if joint.shape[1] != 2:
        raise InputError(f"A score is for two labels, `q` has {joint.shape[1]}.")
    if not penalties or min(penalties) < 0:
        raise InputError(f"`penalties` are numbers of at least 0, got {list(penalties)}.")
    groups, cell = joint.shape[2], y * joint.shape[2] + z
    plain = joint[:, 1].sum(1)
    knots = np.unique(weighted_quantiles(plain, weight, np.linspace(0.0, 1.0, _KNOTS)))
    knots[0], knots[-1] = 0.0, 1.0
    features = _features(joint, knots)
    few = np.random.default_rng(0).permutation(len(plain))[:_ROWS]
    climb = _Climb(features[few], cell[few], weight[few], 2 * groups)
    theta, scores = np.tile(knots, groups), []
    for penalty in sorted(penalties):
        theta = climb.run(theta, float(penalty))
        line = _calibrated(features @ theta, y, weight)
        scores.append(BlindScore(knots, theta.reshape(groups, -1), *line, float(penalty)))
    return scores


class _Climb:
    """AUROC − β v of the binned r, and its slope in the values at the knots."""

    def __init__(self, features: Array, cell: Index, weight: Array, cells: int) -> None:
        self.features, self.cell, self.cells = features, cell, cells
        self.weight = weight / weight.sum()
        self._sums = np.zeros((cells, len(cell)))
        self._sums[cell, np.arange(len(cell))] = self.weight
        self.mass = np.bincount(cell, self.weight, cells)
        self.prior = self.mass.reshape(2, -1).sum(1)

    def run(self, theta: Array, penalty: float) -> Array:
        """The values after climbing for one β."""
        for _ in range(_ROUNDS):
            r = self.features @ theta
            theta = (theta - r.mean()) / max(float(r.std()), 1e-9)  # features sum to one
            r = self.features @ theta
            edges = weighted_quantiles(r, self.weight, np.arange(1, _BINS) / _BINS)
            edges = edges + 1e-6 * np.arange(len(edges))
            width = np.diff(np.r_[2 * edges[0] - edges[1], edges, 2 * edges[-1] - edges[-2]])
            soft = _SOFT * np.maximum(np.minimum(width[1:], width[:-1]), 1e-3)
            args, options = (edges, soft, penalty), {"maxiter": _STEPS}
            theta = minimize(self._value, theta, args, jac=True, method="L-BFGS-B", options=options).x
        return theta

    def _value(self, theta: Array, edges: Array, soft: Array, penalty: float) -> tuple[float, Array]:
        """Minus the objective, and its slope."""
        r = self.features @ theta
        above_edge = expit((r[:, None] - edges) / soft)
        over = self._sums @ above_edge
        full = np.hstack([self.mass[:, None], over, np.zeros((self.cells, 1))])
        table = np.maximum(full[:, :-1] - full[:, 1:], 0.0)  # P(y, z, bin)
        half = self.cells // 2
        pooled = table.reshape(2, half, -1).sum(1) / self.prior[:, None]
        to_pooled, occurs = area_slope(pooled), self.mass > 0
        rates = table / np.where(occurs, self.mass, 1.0)[:, None]
        ratio = np.log(np.maximum(rates, _TINY) / np.maximum(np.repeat(pooled, half, 0), _TINY))
        ratio[~occurs] = 0.0
        gain = np.repeat(to_pooled / self.prior[:, None], half, 0) - penalty * ratio
        value = float(pooled[1] @ to_pooled[1] - penalty * (table * ratio).sum())
        step = np.diff(gain, axis=1)[self.cell] * above_edge * (1.0 - above_edge) / soft
        return -value, -((self.weight * step.sum(1)) @ self.features)


def _features(joint: Array, knots: Array) -> Array:
    """P(z | x) times the hat functions of P(Y=1 | x, z): array (n, groups · knots)."""
    of_z = joint.sum(1)
    s = joint[:, 1] / np.maximum(of_z, _TINY)
    place = np.clip(np.searchsorted(knots, s, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((s - knots[place]) / (knots[place + 1] - knots[place]), 0.0, 1.0)
    hats = np.zeros((*of_z.shape, len(knots)))
    np.put_along_axis(hats, place[..., None], ((1.0 - share) * of_z)[..., None], -1)
    np.put_along_axis(hats, place[..., None] + 1, (share * of_z)[..., None], -1)
    return hats.reshape(len(joint), -1)


def _calibrated(r: Array, y: Index, weight: Array) -> tuple[Array, Array]:
    """P(Y=1 | r) as a rising line: means of cells of equal weight, pooled where they fall."""
    order = np.argsort(r, kind="stable")
    r, y, w = r[order], y[order], weight[order]
    cell = np.minimum((np.cumsum(w) / weight.sum() * _CELLS).astype(np.intp), _CELLS - 1)
    sums = np.stack([np.bincount(cell, weights, _CELLS) for weights in (w, w * y, w * r)])
    total, yes, place = sums[:, sums[0] > 0]
    yes, place = yes / total, place / total
    rising = isotonic_regression(yes, weights=total).x
    first = np.r_[True, np.diff(place) > 0]
    return place[first], np.asarray(rising)[first]
