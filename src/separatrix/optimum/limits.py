r"""The limit: the best that any post-processing of a score can do, for every violation v, with the
channel that does it.

Two labels: exact, certified, any number of groups (`regions` has the argument and the geometry). A
post-processing is a randomised rule per group whose P(U=1) rises with the score; where the score is
the true posterior P(Y=1|X,Z), no other predictor of (X,Z) does better. Three curves:

- *hard*: one threshold per group, nothing random;
- *private*: each prediction may use its own coin, which nobody sees. This is `violation`,
  `utility`;
- *revealed*: a public coin chooses between two private rules, `envelope()`.

More labels: a softmax channel of the posterior per group (`channels.softmax`), optimised, not
certified.

The limit is that of the law of the given rows. Scores fitted on the same rows flatter it: pass
held-out scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from separatrix.columns.values import (
    Levels,
    check_lengths,
    check_levels,
    check_posteriors,
    check_weight,
    compact,
    listed,
)
from separatrix.core.envelope import Envelope, concave_envelope, pareto, staircase
from separatrix.errors import InputError
from separatrix.optimum.certified import CertifiedCurve, certified_curve, most_useful
from separatrix.optimum.decisions import group_curves, rule_of
from separatrix.optimum.geometry import Regions, RocCurve, rates_utility, rates_violation
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel, binary_score
from separatrix.optimum.softmax import SoftmaxPath, softmax_path

__all__ = ["BinaryLimit", "SoftmaxLimit", "limit"]

Array = NDArray[np.float64]
_EXACT_HARD = 1 << 20  # combinations of thresholds that are simply all tried


@dataclass(frozen=True, eq=False)
class BinaryLimit:
    """The limit for two labels.

    Args:
        violation, utility: the private curve, strictest first.
        upper: a proven upper bound on the utility of any rule with that violation.
        hard_violation, hard_utility: the best threshold rules, strictest first (a staircase).
        hard_exact: whether all combinations of thresholds were tried; otherwise the hard curve is
            the best found.
        labels, groups: the second label is U = 1.
    """

    violation: Array
    utility: Array
    upper: Array
    hard_violation: Array
    hard_utility: Array
    hard_exact: bool
    labels: Levels
    groups: Levels
    rates: Array = field(repr=False)
    curves: tuple[RocCurve, ...] = field(repr=False)
    regions: Regions = field(repr=False)
    tolerance: float = 5e-5

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit, in nats."""
        return float((self.upper - self.utility).max())

    def envelope(self) -> Envelope:
        """What revealed mixtures of private rules reach."""
        return concave_envelope(self.violation, self.utility)

    def solve(self, violation: float) -> CertifiedCurve:
        """The limit at one level, solved for it."""
        return certified_curve(self.regions, np.array([_level(violation)]), self.tolerance)

    def channel(self, violation: float) -> ThresholdChannel:
        """The best private rule whose violation is at most `violation`."""
        return rule_of(self.solve(violation).rates[0], self.curves, self.regions, self.groups)

    def revealed(self, violation: float) -> tuple[ThresholdChannel, ThresholdChannel, float]:
        """Two private rules and the probability of the second: the point of `envelope()` at
        `violation`.
        """
        mixture = self.envelope().mixture(_level(violation))
        first, second = (
            rule_of(self.rates[i], self.curves, self.regions, self.groups)
            for i in (mixture.first, mixture.second)
        )
        return first, second, mixture.weight

    def __str__(self) -> str:
        envelope, top = self.envelope(), self.violation[-1]
        levels = np.r_[0.0, [x for x in (1e-5, 1e-4, 1e-3, 5e-3, 1e-2, 2e-2, 5e-2) if x < top], top]
        private = np.interp(levels, self.violation, self.utility)
        hard = staircase(self.hard_violation, self.hard_utility, levels)
        rows = [
            f"{v:>10.2g} {h:>10.4f} {p:>10.4f} {r:>10.4f}"
            for v, h, p, r in np.column_stack([levels, hard, private, envelope.at(levels)]).tolist()
        ]
        return "\n".join(
            [
                f"Limit of {len(self.groups)} groups ({listed(self.groups)}), U = "
                f"{self.labels[1]!r}; nats, certified "
                f"within {self.gap:.1g}",
                f"{'v at most':>10} {'u hard':>10} {'u private':>10} {'u revealed':>10}",
                *rows,
            ]
        )


@dataclass(frozen=True, eq=False)
class SoftmaxLimit:
    """The limit for more than two labels, as far as the softmax channels found reach.

    Args:
        violation, utility: the private curve, strictest first.
        labels, groups: the names of the axes.
    """

    violation: Array
    utility: Array
    labels: Levels
    groups: Levels
    path: SoftmaxPath = field(repr=False)
    order: NDArray[np.intp] = field(repr=False)

    def envelope(self) -> Envelope:
        """What revealed mixtures of the channels reach."""
        return concave_envelope(self.violation, self.utility)

    def channel(self, violation: float) -> SoftmaxChannel:
        """The best of the channels whose violation is at most `violation`."""
        v = _level(violation)
        fits = np.flatnonzero(self.violation <= v)
        if not len(fits):
            raise InputError(
                f"No channel has a violation of at most {v:.3g}: the strictest has "
                f"{self.violation[0]:.3g}."
            )
        return self._at(int(fits[-1]))

    def revealed(self, violation: float) -> tuple[SoftmaxChannel, SoftmaxChannel, float]:
        """Two channels and the probability of the second: the point of `envelope()` at
        `violation`.
        """
        mixture = self.envelope().mixture(_level(violation))
        return self._at(mixture.first), self._at(mixture.second), mixture.weight

    def _at(self, point: int) -> SoftmaxChannel:
        step = self.order[point]
        return SoftmaxChannel(
            self.groups, self.path.weight[step], self.path.bias[step], self.path.mix[step]
        )

    def __str__(self) -> str:
        rows = [f"{v:>10.2g} {u:>10.4f}" for v, u in zip(self.violation, self.utility, strict=True)]
        head = f"Channels of {len(self.groups)} groups ({listed(self.groups)}), {len(self.labels)} labels; nats"
        return "\n".join([head, f"{'v':>10} {'u private':>10}", *rows])


def limit(
    scores: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    points: int = 200,
    tolerance: float = 5e-5,
    random_state: int = 0,
) -> BinaryLimit | SoftmaxLimit:
    r"""The best utility that post-processing a score can have at every violation.

    Args:
        scores: one score per row, or posteriors (n, K) with the columns in sorted-label order. Two
            labels: any score.
        y, z: labels and groups.
        sample_weight: weight of each row.
        points: how many levels of v; they are spaced like squares, since u moves like √v near
            separation.
        tolerance: two labels: the certified distance from the optimum, in nats.
        random_state: more than two labels: seed of the starts.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.integers(0, 2, 4000); y = rng.integers(0, 2, 4000)
        >>> best = limit(rng.normal(size=4000) + y * (1 + z), y, z, points=20)
        >>> bool(best.gap < 1e-4), best.channel(0.001).predict_proba([9.0, -9.0], [0, 0])[:, 1]
        (True, array([1., 0.]))
    """
    (y_codes, labels), (z_codes, groups) = compact(y, "y"), compact(z, "z")
    check_levels(labels, "y")
    check_levels(groups, "z")
    if len(labels) < 2:
        raise InputError(f"`y` holds a single label, {labels[0]!r}: there is nothing to predict.")
    if points < 2:
        raise InputError(f"`points` must be at least 2, got {points}.")
    if len(labels) > 2:
        p = check_posteriors(scores, "scores")
        check_lengths({"scores": p, "y": y_codes, "z": z_codes})
        if p.shape[1] != len(labels):
            raise InputError(
                f"`scores` has {p.shape[1]} columns for {len(labels)} labels ({listed(labels)}): "
                f"pass one per label."
            )
        weight = None if sample_weight is None else check_weight(sample_weight, len(p))
        path = softmax_path(p, y_codes, z_codes, sample_weight=weight, random_state=random_state)
        order = pareto(path.violation, path.utility)
        return SoftmaxLimit(path.violation[order], path.utility[order], labels, groups, path, order)
    s = binary_score(scores)
    n = check_lengths({"scores": s, "y": y_codes, "z": z_codes})
    w = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    curves, mass = group_curves(s, y_codes, z_codes, w, len(groups))
    if mass.sum(0).min() <= 0:
        raise InputError("One of the two labels has no weight: there is nothing to predict.")
    return binary_limit(curves, mass, labels, groups, points, tolerance)


def binary_limit(
    curves: tuple[RocCurve, ...],
    mass: Array,
    labels: Levels,
    groups: Levels,
    points: int,
    tolerance: float,
) -> BinaryLimit:
    """The limit of given ROC curves, a group without weight left out of the optimisation."""
    regions = Regions([curve.rates[curve.hull] for curve in curves], mass)
    free = most_useful(regions)
    top = float(rates_violation(free, regions.mass))
    levels = top * np.linspace(0.0, 1.0, points) ** 2 if top > 1e-12 else np.zeros(1)
    curve = certified_curve(regions, levels, tolerance)
    hard_v, hard_u, exact = _hard(curve, curves, regions)
    return BinaryLimit(
        curve.level,
        curve.utility,
        curve.upper,
        hard_v,
        hard_u,
        exact,
        labels,
        groups,
        curve.rates,
        curves,
        regions,
        tolerance,
    )


def _hard(
    curve: CertifiedCurve, curves: tuple[RocCurve, ...], regions: Regions
) -> tuple[Array, Array, bool]:
    """(v, u) of the best threshold rules: all of them where they are few, else ascent from the
    private curve's rates.
    """
    mass = regions.mass
    active = [z for z in range(len(curves)) if mass[z].min() > 0]
    choices = [curves[z].rates for z in active]
    if np.prod([len(c) for c in choices], dtype=float) * max(len(active), 1) <= _EXACT_HARD and len(
        active
    ) == len(curves):
        grid = np.stack(
            np.meshgrid(*(np.arange(len(c)) for c in choices), indexing="ij"), axis=-1
        ).reshape(-1, len(choices))
        x = np.stack([c[grid[:, k]] for k, c in enumerate(choices)], axis=1)
        v, u = rates_violation(x, mass), rates_utility(regions.mean(x), regions.prior)
        front = pareto(v, u)
        return v[front], u[front], True
    return *_hard_ascent(curve, regions), False


def _hard_ascent(curve: CertifiedCurve, regions: Regions, sweeps: int = 3) -> tuple[Array, Array]:
    """Coordinate ascent over hull vertices, one group at a time, from the rates of every private
    point.

    It climbs u minus a penalty on the violation above the level, first weak, then strong. Every
    rule tried counts, so the result is a staircase of achieved points.
    """
    n, mass, prior = len(curve.level), regions.mass, regions.prior
    level, rows = curve.level[:, None], np.arange(n)
    price = (
        np.maximum(np.gradient(curve.utility, curve.level), 1e-6)[:, None]
        if n > 1
        else np.ones((1, 1))
    )
    x = np.empty_like(curve.rates)
    for z, chain in enumerate(regions.chains):
        x[:, z] = chain[np.abs(chain[None] - curve.rates[:, z, None]).sum(-1).argmin(1)]
    best, at = np.zeros(n), np.zeros(n)  # a constant is always there
    mean, noise = regions.mean(x), (mass * _h(x)).sum((1, 2))
    for strength in (1.0, 5.0, 50.0, 5.0, 50.0, 1000.0):
        for z in np.tile(np.arange(len(regions.chains)), sweeps).tolist():
            chain = regions.chains[z]
            m = np.clip(mean[:, None] + regions.share[z] * (chain[None] - x[:, z, None]), 0.0, 1.0)
            rest = (
                noise[:, None]
                - (mass[z] * _h(x[:, z])).sum(-1)[:, None]
                + (mass[z] * _h(chain)).sum(-1)
            )
            u = rates_utility(m, prior)
            v = np.maximum(_h(m) @ prior - rest, 0.0)
            fits = np.where(v <= level, u, -1.0)
            top = fits.argmax(1)
            better = fits[rows, top] > best
            best, at = np.where(better, fits[rows, top], best), np.where(better, v[rows, top], at)
            pick = (u - strength * price * np.maximum(v - level, 0.0)).argmax(1)
            mean, noise, x[:, z] = m[rows, pick], rest[rows, pick], chain[pick]
    front = pareto(at, best)
    return at[front], best[front]


def _h(x: Array) -> Array:
    return entr(x) + entr(1.0 - x)


def _level(violation: float) -> float:
    v = float(violation)
    if not v >= 0.0:
        raise InputError(
            f"`violation` is an upper limit on v in nats and cannot be negative, got {violation}."
        )
    return v
