"""Sixteen distributions with known rates: eight that broke promises, eight that cost nothing.

A group z has a share, a base rate P(Y=1|z), a strength d and a rate η of labels that are flipped.
A feature x is N(±d/2, 1) given the label before the flip (Student's t where tails are heavy), and
the score is expit(slope · x + logit of the base rate), with one slope for all groups. So
P(score ≥ t | y, z) has a closed form, and the true rates of a fitted rule need no test rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm, t

from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.roc.regions import RocCurve, roc_curve

Array = NDArray[np.float64]
_ATOMS = 4000  # of the feature, where the population is discretised


@dataclass(frozen=True)
class Distribution:
    """A population of scores, labels and groups.

    Args:
        name: for the table.
        rows: how many a sample has.
        share: of each group.
        base: P(Y=1 | z) before labels are flipped; one number for all groups, or one of each.
        strength: d of each group; negative where the feature is reversed.
        flipped: η of each group.
        freedom: degrees of freedom of the feature's t distribution; infinite for the normal.
    """

    name: str
    rows: int
    share: tuple[float, ...]
    base: tuple[float, ...] | float
    strength: tuple[float, ...] | float
    flipped: tuple[float, ...] | float = 0.0
    freedom: float = np.inf

    def _per_group(self, value: tuple[float, ...] | float) -> Array:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), len(self.share))

    @cached_property
    def slope(self) -> float:
        """Of the score: the mean strength of the groups, as a model fitted to all would have."""
        return float(np.asarray(self.share) @ self._per_group(self.strength))

    @cached_property
    def mass(self) -> Array:
        """P(Y=y, Z=z), array (groups, 2), of the labels that are seen."""
        base, eta = self._per_group(self.base), self._per_group(self.flipped)
        positive = base * (1.0 - eta) + (1.0 - base) * eta
        return np.stack([1.0 - positive, positive], 1) * np.asarray(self.share)[:, None]

    def sample(self, seed: tuple[int, ...]) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Scores (n, 2), labels and groups."""
        rng = np.random.default_rng(seed)
        z = rng.choice(len(self.share), self.rows, p=self.share)
        base = self._per_group(self.base)[z]
        label = (rng.random(self.rows) < base).astype(np.intp)
        noise = rng.standard_normal(self.rows) if np.isinf(self.freedom) else rng.standard_t(self.freedom, self.rows)
        x = self._per_group(self.strength)[z] * (label - 0.5) + noise
        s = expit(self.slope * x + logit(base))
        y = np.where(rng.random(self.rows) < self._per_group(self.flipped)[z], 1 - label, label)
        return np.stack([1.0 - s, s], 1), y, z

    def rates(self, rule: Any) -> Array:
        """The true rates (groups, 2) of a threshold rule."""
        return np.array(
            [
                -np.diff(np.r_[levels, 0.0]) @ self._above(thresholds, z)
                for z, (thresholds, levels) in enumerate(zip(rule.thresholds, rule.levels, strict=True))
            ]
        )

    def _above(self, thresholds: Array, z: int) -> Array:
        """P(score ≥ threshold | y, z), array (thresholds, 2)."""
        base, eta = self._per_group(self.base)[z], self._per_group(self.flipped)[z]
        with np.errstate(divide="ignore"):
            cut = (logit(np.clip(thresholds, 0.0, 1.0)) - logit(base)) / self.slope
        kind = norm if np.isinf(self.freedom) else t(self.freedom)
        centre = self._per_group(self.strength)[z] * np.array([-0.5, 0.5])
        clean = kind.sf(cut[:, None] - centre)
        joint = np.array([[(1 - base) * (1 - eta), base * eta], [(1 - base) * eta, base * (1 - eta)]])
        return np.asarray(clean @ (joint / joint.sum(1, keepdims=True)).T)

    def accuracy(self, rates: Array) -> float:
        """Of decisions with these true rates (groups, 2)."""
        return float((self.mass * np.stack([1.0 - rates[:, 0], rates[:, 1]], 1)).sum())

    def oracle(self, gap: float) -> float:
        """The best accuracy of any rule on the score whose true EO gap is at most this."""
        best = RocSolver(self._curves, self.mass).curve(np.array([gap]))
        return float(best.values[0])

    @cached_property
    def _curves(self) -> tuple[RocCurve, ...]:
        kind = norm if np.isinf(self.freedom) else t(self.freedom)
        cuts = kind.isf((np.arange(_ATOMS) + 0.5) / _ATOMS)
        curves = []
        for z in range(len(self.share)):
            s = np.sort(np.r_[cuts - 1.0, cuts, cuts + 1.0])[::-1]
            s = expit(self.slope * s + logit(self._per_group(self.base)[z]))
            above = np.vstack([self._above(s, z), np.ones((1, 2))])
            weight = np.diff(above, axis=0, prepend=np.zeros((1, 2))) * self.mass[z]
            curves.append(roc_curve(np.r_[s, 0.0], weight[:, 1], weight[:, 0]))
        return tuple(curves)


_SHARES = (0.25, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.05)
_STRENGTHS = (1.8, 1.7, 1.6, 1.8, 1.5, 1.7, 1.4, 0.7)
ADVERSE = (
    Distribution("weak group", 3000, (0.5, 0.3, 0.2), 0.4, (2.0, 1.8, 0.4)),
    Distribution("reversed feature", 24000, (0.7, 0.3), (0.4, 0.5), (1.6, -0.6)),
    Distribution("1 % group that differs", 24000, (0.6, 0.39, 0.01), (0.4, 0.3, 0.5), (1.8, 1.7, 0.6)),
    Distribution("2 % of three, weak", 6000, (0.6, 0.38, 0.02), 0.35, (1.8, 1.5, 0.7)),
    Distribution("label 3 %, weak group", 12000, (0.6, 0.4), 0.03, (2.4, 1.0)),
    Distribution("8 groups, one weak", 6000, _SHARES, 0.4, _STRENGTHS),
    Distribution("heavy tails, weak group", 1500, (0.6, 0.4), 0.45, (2.5, 0.8), freedom=2.0),
    Distribution("label noise in one group", 600, (0.6, 0.4), 0.45, 2.0, (0.0, 0.25)),
)
BENIGN = (
    Distribution("two groups", 600, (0.55, 0.45), 0.45, 1.8),
    Distribution("base rates differ", 1500, (0.6, 0.4), (0.5, 0.25), 1.6),
    Distribution("1 % group", 24000, (0.6, 0.39, 0.01), 0.4, 1.7),
    Distribution("2 % of three", 6000, (0.6, 0.38, 0.02), 0.35, 1.7),
    Distribution("label 3 %", 12000, (0.6, 0.4), (0.03, 0.03), 2.0),
    Distribution("6 groups", 10000, (0.3, 0.2, 0.2, 0.1, 0.1, 0.1), (0.4, 0.3, 0.5, 0.35, 0.45, 0.4), 1.6),
    Distribution("heavy tails", 5000, (0.6, 0.4), (0.45, 0.35), 2.0, freedom=2.0),
    Distribution("label noise", 5000, (0.6, 0.4), (0.45, 0.3), (1.8, 1.5), 0.1),
)
DISTRIBUTIONS = {one.name: one for one in (*ADVERSE, *BENIGN)}
