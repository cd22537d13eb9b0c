r"""SeparatedScore: a score that says about the group nothing beyond what the label says.

**Theorem.** Let Y have two labels, s be a score, Z the group, and T the smallest of the groups'
concave ROC curves (`lower_envelope`). There is a random S = S(s, Z) with S ⟂ Z | Y whose ROC curve
is T, and S dominates every separated prediction U that rises with s: U has the law of a garbling of
S. So S has the largest AUROC, the largest I(U; Y) and, with the right threshold, the smallest
expected cost for any pair of costs, of all these predictions at once. Where s orders each group by
its likelihood ratio, as P(Y | X, Z) does, S dominates every separated prediction made from (s, Z).

*Proof.* U separated has one ROC curve R for all groups. In group z each threshold of U is a mixture
of thresholds of s, so R is below the group's hull C_z; with likelihood ratios any test of s is
(Neyman–Pearson). Hence R ≤ min C_z = T, and a smaller ROC curve is a garbling (Blackwell). That T
is reached is shown in `lower_envelope`. `garbling` reaches it so that P(S ≥ level | s, z) rises
with s.

S needs a coin. Its mean given (s, Z) does not: but it is *not* separated, and may not replace S.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from separatrix.columns.draws import UNSET, uniforms
from separatrix.columns.groups import group_codes
from separatrix.columns.scores import binary_score
from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.numerics import best_partition
from separatrix.errors import InputError
from separatrix.optimum.rules import Score, zeros_and_ones
from separatrix.report.words import preformatted

__all__ = ["SeparatedDecision", "SeparatedScore", "best_cuts"]

Array = NDArray[np.float64]


class Costs(Protocol):
    """What a wrong decision costs, such as `separatrix.Cost`."""

    @property
    def false_positive(self) -> float: ...

    @property
    def false_negative(self) -> float: ...


@dataclass(frozen=True, eq=False)
class SeparatedScore(Score):
    """A random score per group: the score's bin, then a level drawn from the kernel's row.

    Args:
        labels, groups: the names; a level says how probable the second label is.
        thresholds: per group, falling: bin j holds the scores from thresholds[j] up to the one
            before. The last is −∞.
        kernels: per group an array (bins, m), P(level | bin).
        table: P(Y = y, Z = z, S = level) of the fitted law, array (2, groups, m).

    Attributes:
        levels: array (m,), rising: P(Y = second label | S = level) on the fitted law.

    Example:
        >>> from separatrix.optimum.scores.separate import separate
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.integers(0, 2, (2, 4000))
        >>> s = rng.normal(size=4000) + y * (1 + z) + z
        >>> S = separate(y, s, sensitive_features=z)
        >>> bool(S.violation < 1e-12), round(S.auroc, 2)
        (True, 0.73)
        >>> S.transform([3.0, -3.0], sensitive_features=[0, 0], random_state=0).round(2)
        array([0.9, 0. ])
    """

    kind: ClassVar[str] = "separated_score"
    labels: Levels
    groups: Levels
    thresholds: tuple[Array, ...] = field(repr=False)
    kernels: tuple[Array, ...] = field(repr=False)
    table: Array = field(repr=False)

    @property
    def levels(self) -> Array:
        mass = self.table.sum(1)
        return mass[1] / mass.sum(0)

    @property
    def rates(self) -> Array:
        """P(S = level | Y = y) of the fitted law, array (m, 2)."""
        mass = self.table.sum(1).T
        return mass / mass.sum(0)

    @property
    def roc(self) -> Array:
        """Corners of the ROC curve, (0, 0) to (1, 1): array (m + 1, 2), false positives first."""
        corners = np.concatenate([np.zeros((1, 2)), np.cumsum(self.rates[::-1], axis=0)])
        corners[-1] = 1.0
        return corners

    @property
    def auroc(self) -> float:
        """Area under `roc`."""
        x, y = self.roc.T
        return float(0.5 * (np.diff(x) * (y[1:] + y[:-1])).sum())

    @property
    def utility(self) -> float:
        """u = I(S; Y) in nats on the fitted law."""
        return float(mutual_information(self.table))

    @property
    def violation(self) -> float:
        """v = I(S; Z | Y) in nats on the fitted law: zero but for a penalty."""
        return float(conditional_mutual_information(self.table))

    @property
    def certain(self) -> bool:
        return all(map(zeros_and_ones, self.kernels))

    def check(self) -> None:
        """Levels are probabilities, rising; each row of a kernel is a law."""
        for kernel in self.kernels:
            if not np.isfinite(kernel).all() or (kernel < 0).any():
                raise ValueError("a kernel of its score holds no probabilities")
            if abs(kernel.sum(1) - 1.0).max() > 1e-6:
                raise ValueError("a kernel of its score does not sum to one")
        levels = np.asarray(self.levels)
        good = levels.ndim == 1 and len(levels) > 0 and (levels >= 0).all() and (levels <= 1).all()
        if not good or (np.diff(levels) < 0).any():
            raise ValueError("the levels of its score are no rising probabilities")

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """`level_proba`."""
        return self.level_proba(scores, sensitive_features=groups)

    def level_proba(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """P(S = level | score, group), array (n, m), the levels rising.

        Args:
            scores: array (n,), or posteriors (n, 2).
            sensitive_features: the group of each row; one that was not fitted is an error.
        """
        rows, bins = self._bins(scores, sensitive_features)
        q = np.empty((len(bins), self.kernels[0].shape[1]))
        for k, here in enumerate(rows):
            q[here] = self.kernels[k][bins[here]]
        return q

    def transform(
        self,
        scores: ArrayLike,
        *,
        sensitive_features: Any,
        random_state: int | None = None,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """Draw one level per row, array (n,).

        Args:
            scores, sensitive_features: as in `level_proba`.
            random_state: seed of the coins; None throws fresh ones at every call.
            ids, salt: one identity per row and a secret: then a person always gets the same coin.
        """
        seed = random_state if ids is None else UNSET
        n, model = len(binary_score(scores)), self.levels.tobytes()
        coin = uniforms(n, ("level",), random_state=seed, ids=ids, salt=salt, model=model)
        return self.drawn(scores, coin[:, 0], sensitive_features=sensitive_features)

    def drawn(self, scores: ArrayLike, coin: Array, *, sensitive_features: Any = None) -> Array:
        """The level of each row for given coins in [0, 1), array (n,)."""
        rows, bins = self._bins(scores, sensitive_features)
        place = np.empty(len(bins), dtype=np.intp)
        for k, here in enumerate(rows):
            place[here] = _draw(self.kernels[k], bins[here], coin[here])
        return np.asarray(self.levels[place])

    def threshold(self, cost: Costs) -> SeparatedDecision:
        """The separated decision with the smallest expected cost: S at least c_fp / (c_fp + c_fn).

        Args:
            cost: what a false positive and a false negative cost (`separatrix.Cost`).
        """
        fp, fn = float(cost.false_positive), float(cost.false_negative)
        if not (fp >= 0 and fn >= 0 and 0 < fp + fn < np.inf):
            raise InputError(
                f"`cost` needs two numbers that are not negative and not both zero, got "
                f"false_positive={fp}, false_negative={fn}."
            )
        return SeparatedDecision(self, int(np.searchsorted(self.levels, fp / (fp + fn))))

    def join(self, cuts: ArrayLike) -> SeparatedScore:
        """The score with neighbouring levels joined, cuts[i] … cuts[i+1] − 1 to its value i."""
        starts = np.asarray(cuts, dtype=np.intp)[:-1]
        kernels = tuple(np.add.reduceat(kernel, starts, axis=1) for kernel in self.kernels)
        table = np.add.reduceat(self.table, starts, axis=2)
        return SeparatedScore(self.labels, self.groups, self.thresholds, kernels, table)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`; thresholds and kernels padded to one array each."""
        most, m = max(map(len, self.kernels)), self.kernels[0].shape[1]
        thresholds = np.full((len(self.groups), most), -np.inf)
        kernels = np.full((len(self.groups), most, m), np.nan)  # NaN marks bins that are not there
        for k, (cut, kernel) in enumerate(zip(self.thresholds, self.kernels, strict=True)):
            thresholds[k, : len(cut)], kernels[k, : len(cut)] = cut, kernel
        return {"thresholds": thresholds, "kernels": kernels, "table": self.table}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Any]) -> Self:
        """The inverse of `arrays`; the labels are called 0 and 1."""
        thresholds, kernels = np.asarray(arrays["thresholds"]), np.asarray(arrays["kernels"])
        there = ~np.isnan(kernels[:, :, 0])
        return cls(
            (0, 1),
            groups,
            tuple(cut[mask] for cut, mask in zip(thresholds, there, strict=True)),
            tuple(kernel[mask] for kernel, mask in zip(kernels, there, strict=True)),
            np.asarray(arrays["table"]),
        )

    def _bins(
        self, scores: ArrayLike, sensitive_features: Any
    ) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
        """The rows of each group, and every row's bin."""
        s = binary_score(scores)
        codes = group_codes(sensitive_features, self.groups, len(s), "sensitive_features")
        rows, bins = [], np.empty(len(s), dtype=np.intp)
        for k, cut in enumerate(self.thresholds):
            here = np.flatnonzero(codes == k)
            bins[here] = np.searchsorted(-cut, -s[here], side="left")
            rows.append(here)
        return rows, bins

    def _repr_html_(self) -> str:
        return preformatted(self)

    def __str__(self) -> str:
        return (
            f"Separated score of {len(self.groups)} groups, {len(self.levels)} levels: "
            f"AUROC {self.auroc:.4f}, u {self.utility:.4f}, v {self.violation:.2g} nats"
        )


@dataclass(frozen=True, eq=False)
class SeparatedDecision:
    """U = second label where S is at least level number `first`. Decisions of one S are nested."""

    score: SeparatedScore
    first: int

    def predict_proba(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """Probabilities of the two decisions, array (n, 2)."""
        q = self.score.level_proba(scores, sensitive_features=sensitive_features)
        yes = np.clip(q[:, self.first :].sum(1), 0.0, 1.0)
        return np.stack([1.0 - yes, yes], axis=1)

    @property
    def rates(self) -> Array:
        """P(U = second label | Y) of the fitted law: false- and true-positive rate."""
        return np.asarray(self.score.rates[self.first :].sum(0))


def _draw(kernel: Array, bins: NDArray[np.intp], coin: Array) -> NDArray[np.intp]:
    """A level for each bin and coin: the first whose cumulative probability is above the coin."""
    m = kernel.shape[1]
    total = np.cumsum(kernel, axis=1)
    total /= total[:, -1:]  # exactly one from the last possible level on
    ladder = (total + 2.0 * np.arange(len(kernel))[:, None]).ravel()  # rising from row to row
    below_one = np.minimum(coin, 1.0 - 1e-9)  # stays below one when the row's offset is added
    return np.searchsorted(ladder, below_one + 2.0 * bins, side="right") - m * bins


def best_cuts(vertices: Array, prior: Array, k: int) -> NDArray[np.intp]:
    r"""Which vertices of T to keep for the largest utility with k values.

    A separated score with k values has a concave ROC curve of k edges below T. Its utility

    .. math:: u = \sum_{i=1}^k f(Δ_i), \qquad f(a, b) = \sum_y w_y \log \frac{w_y}{p_y (w_0 + w_1)},
              \quad w = (p_0 a, p_1 b)

    rises with the curve, so the best one has its corners on T. f is convex and homogeneous. So u is
    convex in the place of a corner on an edge of T, and the corner may as well be at an end of that
    edge. The best score therefore joins neighbouring values of the universal separated score.

    Args:
        vertices: array (m + 1, 2), the vertices of T from (0, 0) to (1, 1).
        prior: P(Y = 0), P(Y = 1).
        k: the number of values; at least m keeps all of them.

    Returns:
        Rising indices of the min(k, m) + 1 vertices kept, the first and the last among them.

    Example:
        >>> T = np.array([[0, 0], [0, 0.5], [0.01, 0.52], [0.5, 1], [1, 1]])
        >>> best_cuts(T, np.array([0.5, 0.5]), 3).tolist()
        [0, 1, 3, 4]
    """
    last = len(vertices) - 1
    if k >= last:
        return np.arange(last + 1)
    w = (vertices[None] - vertices[:, None]) * prior  # [i, j]: from vertex i to vertex j
    w = np.maximum(w, 0.0)
    gain = xlogy(w, w).sum(-1) - xlogy(w.sum(-1), w.sum(-1)) - w @ np.log(prior)
    gain[np.tril_indices(last + 1)] = -np.inf
    return best_partition(gain, k)
