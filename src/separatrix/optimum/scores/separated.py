r"""SeparatedScore: a score that says about the group nothing beyond what the label says.

**Theorem.** Let Y have two labels, s be a score, Z the group, and T the smallest of the groups'
concave ROC curves (`lower_curve`). There is a random S = S(s, Z) with S ⟂ Z | Y whose ROC curve
is T, and S dominates every separated prediction U that rises with s: U has the law of a garbling of
S. So S has the largest AUROC, the largest I(U; Y) and, with the right threshold, the smallest
expected cost for any pair of costs, of all these predictions at once. Where s orders each group by
its likelihood ratio, as P(Y | X, Z) does, S dominates every separated prediction made from (s, Z).

*Proof.* U separated has one ROC curve R for all groups. In group z each threshold of U is a mixture
of thresholds of s, so R is below the group's hull C_z; with likelihood ratios any test of s is
(Neyman–Pearson). Hence R ≤ min C_z = T, and a smaller ROC curve is a garbling (Blackwell). That T
is reached is shown in `garbling`. Its kernel reaches it so that P(S ≥ level | s, z) rises
with s.

S needs a coin. Its mean given (s, Z) does not: but it is *not* separated, and may not replace S.

*Small groups.* The hull of a group with few rows fits the noise of its rows, and levels that are
separated on these rows are not on unseen ones. With ``borrow=True`` each group's curve is pulled
towards that of all groups (`borrowing`), by as many pseudo-rows of the pooled curve as the rows
themselves say: few where groups differ, many where they are alike and small. On simulated laws of
2, 6 and 10 groups and 1,000 to 20,000 rows, groups that are alike lose a fifth to a half of the
violation in the population and gain AUROC; groups that differ stay within a fifth of it, from
3,000 rows on within a twentieth. Hence `SeparatedScorer` borrows. `separate` does not unless it
is asked, since it promises exact separation on the law that it is given.

*The trade-off.* Scores between exact separation and the raw score have the best AUROC for a price
on the violation:

.. math:: \max_K \; J(K) = \mathrm{AUROC}(S) - β \, I(S; Z \mid Y)

over kernels K from the bins of each group's score (its hull edges) to common levels. The rates
R[z, y, i] = P(S = i | z, y) are linear in K, AUROC is bilinear in the pooled rates,

.. math:: \mathrm{AUROC} = \sum_i \bar R_{1i} \Bigl(\sum_{l<i} \bar R_{0l} +
          \tfrac12 \bar R_{0i}\Bigr)

and the violation is convex in R. J is climbed by mirror ascent: with w_j the mass of bin j,

.. math:: K_{ji} \leftarrow K_{ji} \exp\bigl(η\, w_j^{-1} \partial J / \partial K_{ji}\bigr) /
          \text{norm}, \qquad 1/η = β + 1 / (4 \sqrt{p_0 p_1})

Every step rises. The Bregman divergence of v is at most Σ_j w_j KL(K_j ‖ K'_j), since coarsening
lowers divergences, and by Pinsker's inequality the bilinear part bends at most 1/(4 √(p₀ p₁))
times as much. Extrapolated steps (Nesterov), with a restart where J falls, need a tenth of them.
J is not concave, so it is climbed from both ends: from exact separation, the optimum for β → ∞,
and from the likelihood ratio of (score, group), the optimum for β = 0. The best is kept, and the
two ends are themselves among the candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax, xlogy

from separatrix.columns.draws import UNSET, uniforms
from separatrix.columns.groups import as_groups, group_codes
from separatrix.columns.scores import binary_score, check_weight
from separatrix.columns.values import Levels, as_levels, check_lengths, listed
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.numbers import not_negative
from separatrix.core.numerics import Array, Index, best_partition, midpoints, padded
from separatrix.core.score_tables import area_slope
from separatrix.errors import InputError
from separatrix.optimum.borrowing import ScoreTable, group_curves_borrowing
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import group_curves
from separatrix.optimum.roc.regions import RocCurve, lower_curve
from separatrix.optimum.rules import Score
from separatrix.optimum.scores.garbling import rising_kernel
from separatrix.report.words import preformatted

_LEVELS = 40  # more do not change AUROC in the fourth digit
_SOFT = 0.3  # share of noise in a start: entries of zero would stay zero
_STEPS, _LOOK, _GAIN = 2_000, 50, 1e-5  # stop when 50 steps gain less; 1e-7 gains 1e-5 in all
_TINY = 1e-300


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
        >>> from separatrix.optimum.scores.separated import separate
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
    coins = ("kernels",)
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
        return np.asarray(np.concatenate(self.kernels)[self._bins(scores, sensitive_features)])

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
        kernel, bins = np.concatenate(self.kernels), self._bins(scores, sensitive_features)
        total = np.cumsum(kernel, axis=1)
        total /= total[:, -1:]  # exactly one from the last possible level on
        ladder = (total + 2.0 * np.arange(len(kernel))[:, None]).ravel()  # rising from row to row
        below_one = np.minimum(coin, 1.0 - 1e-9)  # stays below one when the row's offset is added
        # the first level whose cumulative probability is above the coin
        place = np.searchsorted(ladder, below_one + 2.0 * bins, side="right") - kernel.shape[1] * bins
        return np.asarray(self.levels[place])

    def threshold(self, cost: Cost) -> SeparatedDecision:
        """The separated decision with the smallest expected cost: S at least c_fp / (c_fp + c_fn).

        Args:
            cost: what a false positive and a false negative cost, the same in all groups.
        """
        ((fp, fn),) = cost.per_group(("all",)).tolist()
        return SeparatedDecision(self, int(np.searchsorted(self.levels, fp / (fp + fn))))

    def join(self, cuts: ArrayLike) -> SeparatedScore:
        """The score with neighbouring levels joined, cuts[i] … cuts[i+1] − 1 to its value i."""
        starts = np.asarray(cuts, dtype=np.intp)[:-1]
        kernels = tuple(np.add.reduceat(kernel, starts, axis=1) for kernel in self.kernels)
        table = np.add.reduceat(self.table, starts, axis=2)
        return SeparatedScore(self.labels, self.groups, self.thresholds, kernels, table)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`; thresholds and kernels padded to one array each."""
        # NaN marks bins that are not there
        thresholds, kernels = padded(self.thresholds, -np.inf), padded(self.kernels, np.nan)
        return {"thresholds": thresholds, "kernels": kernels, "table": self.table}

    @classmethod
    def from_arrays(cls, groups: Levels, arrays: Mapping[str, Any]) -> Self:
        """The inverse of `arrays`; the labels are called 0 and 1."""
        thresholds, kernels = np.asarray(arrays["thresholds"]), np.asarray(arrays["kernels"])
        there = ~np.isnan(kernels[:, :, 0])
        cuts, laws = ([row[bins] for row, bins in zip(rows, there, strict=True)] for rows in (thresholds, kernels))
        return cls((0, 1), groups, tuple(cuts), tuple(laws), np.asarray(arrays["table"]))

    def _bins(self, scores: ArrayLike, sensitive_features: Any) -> Index:
        """The bin of each row, counted through all groups."""
        s = binary_score(scores)
        codes = group_codes(sensitive_features, self.groups, len(s), "sensitive_features")
        bins, before = np.empty(len(s), dtype=np.intp), 0
        for k, cut in enumerate(self.thresholds):
            bins[codes == k] = before + np.searchsorted(-cut, -s[codes == k], side="left")
            before += len(cut)
        return bins

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


def best_cuts(vertices: Array, prior: Array, k: int) -> Index:
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


def separate(
    y_true: ArrayLike,
    scores: ArrayLike,
    *,
    sensitive_features: Any,
    sample_weight: ArrayLike | None = None,
    penalty: float | None = None,
    levels: int | None = None,
    borrow: bool = False,
) -> SeparatedScore:
    r"""The best score that is independent of the group given the label, made from a given score.

    Without a penalty it is the universal separated score (the module has the theorem): exactly
    separated on the given rows, and the best separated score for every aim at once. The higher the
    score, the higher the levels that are drawn, in the sense of P(S ≥ level | score, group). With
    ``penalty=β`` it maximises AUROC − β I(S; Z | Y) instead: more AUROC for some violation.

    A group without rows of one of the labels has no ROC curve. It takes no part in the minimum,
    and its levels are drawn, whatever the score, from the law that they have for its one label.

    Args:
        y_true: labels, two values; S says how probable the second (in sorted order) is.
        scores: any score (n,), higher for the second label, or posteriors (n, 2). Take scores of
            rows that the model did not see in training: others flatter S.
        sensitive_features: the group of each row, of one or several columns; any number of groups.
        sample_weight: weight of each row.
        penalty: β ≥ 0, or None for exact separation.
        levels: at most this many values: the best such score at v = 0. Not with a penalty.
        borrow: pull the curves of small groups towards the pooled one; the scores must then be
            probabilities, and S is exactly separated on the law of the pulled curves.

    Returns:
        A `SeparatedScore`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y = rng.integers(0, 2, (2, 4000))
        >>> s = rng.normal(size=4000) + y * (1 + z)
        >>> S = separate(y, s, sensitive_features=z)
        >>> q = S.level_proba(s, sensitive_features=z)
        >>> gap = q[(y == 1) & (z == 1)].mean(0) - q[(y == 1) & (z == 0)].mean(0)
        >>> bool(abs(gap).max() < 1e-12)
        True

    References:
        Blackwell, D. (1953). Equivalent comparisons of experiments. Annals of Mathematical
        Statistics 24, 265–272.
    """
    if levels is not None and (levels != int(levels) or levels < 1 or penalty is not None):
        raise InputError(
            "`levels` is a whole number of values, at least 1, and goes without a penalty; got "
            f"levels={levels}, penalty={penalty}."
        )
    penalties = [] if penalty is None else [not_negative(penalty, "penalty")]
    rows = _checked(y_true, scores, sensitive_features, sample_weight)
    exact, relaxed = separation_path(*rows, borrow=borrow, penalties=penalties)
    if levels is None:
        return relaxed[0] if relaxed else exact
    cuts = best_cuts(exact.roc, exact.table.sum((1, 2)), int(levels))
    return exact.join(len(exact.levels) - cuts[::-1])


def separation_path(
    y: Index, s: Array, z: Index, w: Array, labels: Levels, groups: Levels, *, borrow: bool, penalties: Sequence[float]
) -> tuple[SeparatedScore, list[SeparatedScore]]:
    """The exact score and one for each penalty, from codes."""
    if borrow:
        if not (s.min() >= 0 and s.max() <= 1):
            raise InputError(
                f"`borrow` compares odds and needs probabilities, got scores from {s.min():.4g} to "
                f"{s.max():.4g}. Pass probabilities, or borrow=False."
            )
        curves, mass, *_ = group_curves_borrowing(ScoreTable.from_rows(s, y, z, w))
    else:
        curves, mass = group_curves(s, y, z, w, len(groups))
    # the edges of each hull, P(bin | Y = y); a group without one of the labels has one bin
    steps = [np.diff(curve.rates[curve.hull], axis=0) if _whole(curve) else np.ones((1, 2)) for curve in curves]
    chains = [curve.rates[curve.hull] for curve in curves if _whole(curve)]
    free = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # no group has both labels: S may say Y
    edges = np.diff(lower_curve(chains or [free]), axis=0)
    thresholds, kernels = [], []
    table = np.zeros((2, len(curves), len(edges)))
    for k, (curve, step) in enumerate(zip(curves, steps, strict=True)):
        if _whole(curve):
            kernel = rising_kernel(step, edges)[:, ::-1]  # levels rise, the edges' slopes fall
            cuts = np.r_[curve.thresholds[curve.hull[1:-1]], -np.inf]
        else:
            kernel, cuts = edges[None, ::-1, int(mass[k, 1] > 0)], np.array([-np.inf])
        thresholds.append(cuts)
        kernels.append(np.ascontiguousarray(kernel))
        table[:, k] = (step * mass[k]).T @ kernel
    exact = SeparatedScore(labels, groups, tuple(thresholds), tuple(kernels), table)
    return exact, [relaxed_score(exact, steps, mass, penalty) for penalty in penalties]


def raw_score(y: Index, s: Array, z: Index, w: Array, labels: Levels, groups: Levels) -> SeparatedScore:
    """The score as it is, in the bins of its hull over all groups: no coin, no separation."""
    (curve,), _ = group_curves(s, y, np.zeros_like(z), w, 1)
    cuts = np.r_[curve.thresholds[curve.hull[1:-1]], -np.inf]
    level = len(cuts) - 1 - np.searchsorted(-cuts, -s, side="left")
    table = np.zeros((2, len(groups), len(cuts)))
    np.add.at(table, (y, z, level), w / w.sum())
    kernel = np.eye(len(cuts))[:, ::-1]  # levels rise, thresholds fall
    return SeparatedScore(labels, groups, (cuts,) * len(groups), (kernel,) * len(groups), table)


def _whole(curve: RocCurve) -> bool:
    """Whether the group has both labels; otherwise its curve is the whole square."""
    return bool(np.isfinite(curve.thresholds[1]))


def _checked(
    y_true: ArrayLike, scores: ArrayLike, z: Any, sample_weight: ArrayLike | None
) -> tuple[Index, Array, Index, Array, Levels, Levels]:
    """Index of labels and groups, scores, weights, and the names; both labels have weight."""
    (y_codes, labels), (z_codes, groups) = as_levels(y_true, "y_true"), as_groups(z)
    s = binary_score(scores)
    n = check_lengths({"y_true": y_codes, "scores": s, "sensitive_features": z_codes})
    w = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    if len(labels) != 2:
        raise InputError(
            f"A separated score is for two labels; `y_true` has {len(labels)} ({listed(labels)}). "
            "With more labels separate the score of one label against the rest."
        )
    if np.bincount(y_codes, w, minlength=2).min() <= 0:
        raise InputError("One of the two labels has no weight: there is nothing to predict.")
    return y_codes.astype(np.intp), s, z_codes.astype(np.intp), w, labels, groups


def relaxed_score(exact: SeparatedScore, steps: Sequence[Array], mass: Array, penalty: float) -> SeparatedScore:
    """The best score found for one β.

    Args:
        exact: the universal separated score.
        steps: per group the edges of its hull, array (bins, 2): P(bin | Y = y).
        mass: P(Y=y, Z=z), array (groups, 2).
        penalty: β.
    """
    problem = _Problem(steps, mass, penalty)
    # the exact score with at most 40 levels, softened evenly: v stays zero
    cuts = best_cuts(exact.roc, mass.sum(0), _LEVELS)
    joined = exact.join(len(exact.levels) - cuts[::-1])
    law = joined.table.sum((0, 1))
    softened = (1.0 - _SOFT) * padded(joined.kernels, 1.0 / len(law)) + _SOFT * law
    ends = [padded(exact.kernels, 1.0 / len(exact.levels)), problem.by_ratio()]
    climbed = [problem.climb(start) for start in (softened, problem.by_ratio(_SOFT))]
    kernel = max((*ends, *climbed), key=lambda kernel: problem.slope(kernel)[0])
    # levels in the order of their posterior, which can only raise AUROC; empty ones dropped
    pooled = np.einsum("zyi,zy->yi", problem.rates(kernel), mass)
    levels = np.flatnonzero(pooled.sum(0) > 1e-9)
    levels = levels[np.argsort(pooled[1, levels] / pooled[:, levels].sum(0), kind="stable")]
    kernel = np.maximum(kernel[:, :, levels], _TINY)
    kernel = kernel / kernel.sum(-1, keepdims=True)
    table = problem.rates(kernel).transpose(1, 0, 2) * mass.T[:, :, None]
    kernels = tuple(kernel[z, : len(step)] for z, step in enumerate(steps))
    return SeparatedScore(exact.labels, exact.groups, exact.thresholds, kernels, table)


class _Problem:
    """J and its gradient; groups padded with bins of no mass to one array."""

    def __init__(self, steps: Sequence[Array], mass: Array, penalty: float) -> None:
        self.edges = padded(steps, 0.0)
        self.mass, self.share, self.penalty = mass, mass / mass.sum(0), penalty
        weight = (self.edges * mass[:, None]).sum(-1, keepdims=True)
        bend = penalty + 0.25 / np.sqrt(mass.sum(0).prod())
        self.step = 1.0 / (np.where(weight > 0, weight, 1.0) * bend)

    def rates(self, kernel: Array) -> Array:
        """R[z, y, i]."""
        return np.matmul(self.edges.transpose(0, 2, 1), kernel)

    def slope(self, kernel: Array) -> tuple[float, Array]:
        """J and ∂J/∂K."""
        rates = self.rates(kernel)
        mean = np.einsum("zyi,zy->yi", rates, self.share)
        to_mean = area_slope(mean)
        ratio = np.log(np.maximum(rates, _TINY)) - np.log(np.maximum(mean, _TINY))
        price = self.penalty * self.mass[:, :, None] * ratio
        value = float(mean[1] @ to_mean[1] - (price * rates).sum())
        return value, np.matmul(self.edges, self.share[:, :, None] * to_mean - price)

    def climb(self, start: Array) -> Array:
        """Accelerated mirror ascent from a kernel."""
        now = before = np.log(np.maximum(start, _TINY))
        run, last, marks = 0, -np.inf, [-np.inf]
        for t in range(_STEPS):
            ahead = now + run / (run + 3.0) * (now - before)
            kernel = softmax(ahead, axis=-1)
            value, slope = self.slope(kernel)
            if value < last and run:  # the extrapolation overshot: restart it from here
                before, run, last = now, 0, -np.inf
                continue
            logits = ahead + self.step * slope
            now, before = np.maximum(logits - logits.max(-1, keepdims=True), -60.0), now
            run, last = run + 1, value
            if t % _LOOK == _LOOK - 1:
                if value - marks[-1] < _GAIN:
                    break
                marks.append(value)
        return np.asarray(softmax(now, axis=-1))

    def by_ratio(self, soft: float = 0.0) -> Array:
        """The kernel of the bins of all groups sorted by likelihood ratio: a level each, or soft and 40 levels."""
        joint = self.edges * self.mass[:, None, :]
        total = joint.sum(-1).ravel()
        order = np.argsort(joint[:, :, 1].ravel() / np.maximum(total, _TINY), kind="stable")
        levels = _LEVELS if soft else len(total)
        level = np.empty(len(total), dtype=np.intp)
        middle = midpoints(total[order]) / total.sum()
        level[order] = np.minimum(levels * middle, levels - 1) if soft else np.arange(levels)
        start = np.full((len(total), levels), soft / levels)
        start[np.arange(len(total)), level] += 1.0 - soft
        return start.reshape(*self.edges.shape[:2], levels)
