r"""Scores between exact separation and the raw score: the best AUROC for a price on the violation.

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

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from separatrix.optimum.scores.separated import SeparatedScore, best_cuts

__all__ = ["relaxed_score"]

Array = NDArray[np.float64]
_LEVELS = 40  # more do not change AUROC in the fourth digit
_SOFT = 0.3  # share of noise in a start: entries of zero would stay zero
_STEPS, _LOOK, _GAIN = 2_000, 50, 1e-5  # stop when 50 steps gain less; 1e-7 gains 1e-5 in all
_TINY = 1e-300


def relaxed_score(
    exact: SeparatedScore, steps: Sequence[Array], mass: Array, penalty: float
) -> SeparatedScore:
    """The best score found for one β.

    Args:
        exact: the universal separated score.
        steps: per group the edges of its hull, array (bins, 2): P(bin | Y = y).
        mass: P(Y=y, Z=z), array (groups, 2).
        penalty: β.
    """
    problem = _Problem(steps, mass, penalty)
    starts = [_from_exact(exact, problem), _from_ratio(problem, _SOFT)]
    ends = [_padded(exact.kernels, problem), _from_ratio(problem)]
    climbed = [problem.climb(start) for start in starts]
    best = max((*ends, *climbed), key=lambda kernel: problem.slope(kernel)[0])
    return _score(exact, problem, best)


class _Problem:
    """J and its gradient; groups padded with bins of no mass to one array."""

    def __init__(self, steps: Sequence[Array], mass: Array, penalty: float) -> None:
        self.bins = [len(step) for step in steps]
        self.edges = np.zeros((len(steps), max(self.bins), 2))
        for z, step in enumerate(steps):
            self.edges[z, : len(step)] = step
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
        below = np.cumsum(mean[0]) - 0.5 * mean[0]
        above = 1.0 - np.cumsum(mean[1]) + 0.5 * mean[1]
        ratio = np.log(np.maximum(rates, _TINY)) - np.log(np.maximum(mean, _TINY))
        price = self.penalty * self.mass[:, :, None] * ratio
        value = float(mean[1] @ below - (price * rates).sum())
        return value, np.matmul(
            self.edges, self.share[:, :, None] * np.stack([above, below]) - price
        )

    def climb(self, start: Array) -> Array:
        """Accelerated mirror ascent from a kernel."""
        now = before = np.log(np.maximum(start, _TINY))
        run, last, marks = 0, -np.inf, [-np.inf]
        for t in range(_STEPS):
            ahead = now + run / (run + 3.0) * (now - before)
            kernel = _softmax(ahead)
            value, slope = self.slope(kernel)
            if value < last and run:
                before, run, last = now, 0, -np.inf
                continue
            logits = ahead + self.step * slope
            now, before = np.maximum(logits - logits.max(-1, keepdims=True), -60.0), now
            run, last = run + 1, value
            if t % _LOOK == _LOOK - 1:
                if value - marks[-1] < _GAIN:
                    break
                marks.append(value)
        return _softmax(now)


def _softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _padded(kernels: Sequence[Array], problem: _Problem) -> Array:
    m = kernels[0].shape[1]
    result = np.full((*problem.edges.shape[:2], m), 1.0 / m)
    for z, kernel in enumerate(kernels):
        result[z, : len(kernel)] = kernel
    return result


def _from_exact(exact: SeparatedScore, problem: _Problem) -> Array:
    """The universal separated score with at most 40 levels, softened evenly: v stays zero."""
    cuts = best_cuts(exact.roc, problem.mass.sum(0), _LEVELS)
    joined = exact.join(len(exact.levels) - cuts[::-1])
    law = joined.table.sum((0, 1))
    return (1.0 - _SOFT) * _padded(joined.kernels, problem) + _SOFT * law


def _from_ratio(problem: _Problem, soft: float = 0.0) -> Array:
    """The bins of all groups sorted by likelihood ratio: a level each, or soft and 40 levels."""
    joint = problem.edges * problem.mass[:, None, :]
    total = joint.sum(-1).ravel()
    order = np.argsort(joint[:, :, 1].ravel() / np.maximum(total, _TINY), kind="stable")
    levels = _LEVELS if soft else len(total)
    middle = (np.cumsum(total[order]) - 0.5 * total[order]) / total.sum()
    level = np.empty(len(total), dtype=np.intp)
    level[order] = np.minimum(levels * middle, levels - 1) if soft else np.arange(levels)
    start = np.full((len(total), levels), soft / levels)
    start[np.arange(len(total)), level] += 1.0 - soft
    return start.reshape(*problem.edges.shape[:2], levels)


def _score(exact: SeparatedScore, problem: _Problem, kernel: Array) -> SeparatedScore:
    """Levels in the order of their posterior, which can only raise AUROC; empty ones dropped."""
    pooled = np.einsum("zyi,zy->yi", problem.rates(kernel), problem.mass)
    kept = np.flatnonzero(pooled.sum(0) > 1e-9)
    kept = kept[np.argsort(pooled[1, kept] / pooled[:, kept].sum(0), kind="stable")]
    kernel = np.maximum(kernel[:, :, kept], _TINY)
    kernel = kernel / kernel.sum(-1, keepdims=True)
    table = problem.rates(kernel).transpose(1, 0, 2) * problem.mass.T[:, :, None]
    kernels = tuple(kernel[z, :k] for z, k in enumerate(problem.bins))
    return SeparatedScore(exact.labels, exact.groups, exact.thresholds, kernels, table)
