r"""Scores between exact separation and the raw score: the best AUROC for a price on the violation.

.. math:: \max_K \; \mathrm{AUROC}(S) - β \, I(S; Z \mid Y)

over kernels K from the bins of each group's score (its hull edges) to common levels. The rates
R[z, y, i] = P(S = i | z, y) are linear in K. AUROC is bilinear in the pooled rates,

.. math:: \mathrm{AUROC} = \sum_i \bar R_{1i} \Bigl(\sum_{l<i} \bar R_{0l} + \tfrac12 \bar R_{0i}\Bigr)

and the violation is convex in R. The aim is not concave, so it is climbed (L-BFGS, K a softmax)
from both ends: from exact separation, the optimum for β → ∞, with β falling, and from the
likelihood ratio of (score, group), the optimum for β = 0, with β rising. The better one is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from separatrix.optimum.score_levels import best_cuts
from separatrix.optimum.separated import SeparatedScore

__all__ = ["relaxed_scores"]

Array = NDArray[np.float64]
_LEVELS = 40  # more do not change AUROC in the fourth digit
_SOFT = 0.02  # share of noise in a start: a softmax cannot leave a kernel of zeros and ones
_TINY = 1e-300


def relaxed_scores(
    exact: SeparatedScore, steps: Sequence[Array], mass: Array, penalties: Sequence[float]
) -> list[SeparatedScore]:
    """The best scores found for several β, in the order of `penalties`.

    Args:
        exact: the universal separated score.
        steps: per group the edges of its hull, array (bins, 2): P(bin | Y = y).
        mass: P(Y=y, Z=z), array (groups, 2).
        penalties: the β, in nats: what AUROC is given for.
    """
    problem = _Problem(steps, mass)
    falling = np.argsort(-np.asarray(penalties), kind="stable").tolist()
    ends = ((_from_exact(exact, problem), falling), (_from_ratio(problem), falling[::-1]))
    best = [(np.inf, np.empty(0))] * len(penalties)
    for kernel, order in ends:
        logits = np.log(np.maximum(kernel, 1e-12))
        for i in order:
            loss, logits = problem.climb(logits, penalties[i])
            if loss < best[i][0]:
                best[i] = (loss, softmax(logits, axis=-1))
    return [_score(exact, problem, kernel) for _, kernel in best]


class _Problem:
    """The aim and its gradient; groups padded with bins of no mass to one array."""

    def __init__(self, steps: Sequence[Array], mass: Array) -> None:
        self.bins = [len(step) for step in steps]
        self.edges = np.zeros((len(steps), max(self.bins), 2))
        for z, step in enumerate(steps):
            self.edges[z, : len(step)] = step
        self.mass, self.share = mass, mass / mass.sum(0)

    def rates(self, kernel: Array) -> Array:
        """R[z, y, i]."""
        return np.matmul(self.edges.transpose(0, 2, 1), kernel)

    def climb(self, logits: Array, penalty: float) -> tuple[float, Array]:
        """β I(S; Z | Y) − AUROC at its minimum near `logits`, and the logits there."""

        def loss(flat: Array) -> tuple[float, Array]:
            kernel = softmax(flat.reshape(logits.shape), axis=-1)
            rates = self.rates(kernel)
            mean = np.einsum("zyi,zy->yi", rates, self.share)
            below = np.cumsum(mean[0]) - 0.5 * mean[0]
            above = 1.0 - np.cumsum(mean[1]) + 0.5 * mean[1]
            ratio = np.log(np.maximum(rates, _TINY)) - np.log(np.maximum(mean, _TINY))
            price = penalty * self.mass[:, :, None] * ratio
            value = float((price * rates).sum() - mean[1] @ below)
            slope = price - self.share[:, :, None] * np.stack([above, below])
            inner = np.matmul(self.edges, slope)
            inner -= (kernel * inner).sum(-1, keepdims=True)
            return value, (kernel * inner).ravel()

        options = {"maxiter": 400, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-8}
        found = minimize(loss, logits.ravel(), jac=True, method="L-BFGS-B", options=options)
        return float(found.fun), np.asarray(found.x).reshape(logits.shape)


def _from_exact(exact: SeparatedScore, problem: _Problem) -> Array:
    """The kernel of the universal separated score with at most 40 levels, softened evenly."""
    cuts = best_cuts(exact.roc, problem.mass.sum(0), _LEVELS)
    joined = exact.join(len(exact.levels) - cuts[::-1])
    law = joined.table.sum((0, 1))
    start = np.tile(law, (*problem.edges.shape[:2], 1))
    for z, kernel in enumerate(joined.kernels):
        start[z, : len(kernel)] = (1.0 - _SOFT) * kernel + _SOFT * law  # the same law: v stays zero
    return start


def _from_ratio(problem: _Problem) -> Array:
    """The kernel that sorts the bins of all groups by likelihood ratio, into equal levels."""
    joint = problem.edges * problem.mass[:, None, :]
    total = joint.sum(-1).ravel()
    posterior = joint[:, :, 1].ravel() / np.maximum(total, _TINY)
    order = np.argsort(posterior, kind="stable")
    levels = min(_LEVELS, int((total > 0).sum()))
    middle = np.empty(len(total))
    middle[order] = np.cumsum(total[order]) - 0.5 * total[order]
    level = np.minimum((levels * middle).astype(np.intp), levels - 1)
    start = np.full((len(total), levels), _SOFT / levels)
    start[np.arange(len(total)), level] += 1.0 - _SOFT
    return start.reshape(*problem.edges.shape[:2], levels)


def _score(exact: SeparatedScore, problem: _Problem, kernel: Array) -> SeparatedScore:
    """Levels in the order of their posterior, which can only raise AUROC; empty ones dropped."""
    table = problem.rates(kernel).transpose(1, 0, 2) * problem.mass.T[:, :, None]
    pooled = table.sum(1)
    kept = np.flatnonzero(pooled.sum(0) > 1e-9)
    kept = kept[np.argsort(pooled[1, kept] / pooled[:, kept].sum(0), kind="stable")]
    kernel = kernel[:, :, kept] / kernel[:, :, kept].sum(-1, keepdims=True)
    kernels = tuple(kernel[z, :k] for z, k in enumerate(problem.bins))
    table = problem.rates(kernel).transpose(1, 0, 2) * problem.mass.T[:, :, None]
    return SeparatedScore(exact.labels, exact.groups, exact.thresholds, kernels, table)
