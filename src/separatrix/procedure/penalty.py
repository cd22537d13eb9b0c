r"""The penalty of a separated score: the highest AUROC whose violation these rows cannot tell.

Exact separation gives AUROC away for a violation that no sample of this size could see, and its own
fit has a noise of that size. Candidates are the raw score, scores with a penalty β, and the exact
one. Each is fitted to four fifths of the rows and seen on the fifth, five times: counts
N[y, z, bin] of the level in 20 bins by its rank. Two statistics,

.. math:: v = I(S; Z \mid Y), \qquad
          g = \max_t \tfrac12 \sum_y \operatorname{range}_z P(S \ge t \mid y, z),

are compared with those of groups that are shuffled within the labels of each fold, once of the
pooled counts and once as means over folds: the noise of a fit cancels in pooled counts. A gamma law
with the mean and the variance of the shuffles gives the p-value. The candidate with the highest
AUROC among those with all four p ≥ .3 is taken; if there is none, the one with the largest smallest
p. The raw score has no noise of a fit: it needs p ≥ .4 in the pooled counts, which see most. Where
some group has fewer than 25 rows of a label, nothing can be told and the exact score is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import gamma

from separatrix.columns.values import Coded, Levels
from separatrix.core.information import conditional_mutual_information
from separatrix.core.score_gaps import area, gap_curve
from separatrix.optimum.scores.separated import raw_score, separation_path

__all__ = ["RAW", "PenaltyChoice", "choose_penalty"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
RAW = "raw"
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0)
_FOLDS, _BINS, _SHUFFLES = 5, 20, 60
_FEWEST = 25  # rows of a cell: with fewer nothing can be told
_TOLD, _RAW_TOLD = 0.3, 0.4  # p-values below which a violation counts as seen


class PenaltyChoice(NamedTuple):
    """The penalty that was chosen, and what the others would have been.

    Args:
        penalty: β, "raw" for the score as it is, None for exact separation.
        candidates: by rising AUROC, (penalty, cross-validated AUROC, smallest p-value).
        chance_gap: the largest gap of so many rows that a score without any violation stays below
            in 95 % of samples: no smaller gap can be told from none. NaN where nothing was tried.
    """

    penalty: float | str | None
    candidates: tuple[tuple[float | str | None, float, float], ...]
    chance_gap: float


def choose_penalty(
    scores: Array, y: Codes, z: Codes, weight: Array, groups: Levels, random_state: int = 0
) -> PenaltyChoice:
    """The penalty with the highest AUROC whose violation these rows cannot tell from none.

    Args:
        scores: P(Y=1 | x) of rows that trained nothing.
        y, z: codes of labels (0, 1) and groups.
        weight: of each row.
        groups: their names.
        random_state: seed of folds and shuffles.

    >>> rng = np.random.default_rng(1)
    >>> y, z = rng.integers(0, 2, (2, 2000))
    >>> alike = 1 / (1 + np.exp(-rng.normal(size=2000) - 2 * y + 1))
    >>> choose_penalty(alike, y, z, np.ones(2000), (0, 1)).penalty
    'raw'
    >>> shifted = 1 / (1 + np.exp(-rng.normal(size=2000) - 2 * y + 1 - z))
    >>> choose_penalty(shifted, y, z, np.ones(2000), (0, 1)).penalty != 'raw'
    True
    """
    if np.bincount(2 * z + y, minlength=2 * len(groups)).min() < _FEWEST:
        return PenaltyChoice(None, (), np.nan)
    rng = np.random.default_rng(random_state)
    # dealt out by cell, so that every fold has rows of each
    order = np.lexsort((rng.random(len(y)), y, z))
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % _FOLDS
    names: list[float | str | None] = [RAW, *_PENALTIES, None]
    laws = np.zeros((len(names), len(y), _BINS))
    aurocs = np.zeros((_FOLDS, len(names)))
    for k in range(_FOLDS):
        train, test = fold != k, fold == k
        rows = y[train], scores[train], z[train], weight[train], (0, 1), groups
        exact, relaxed = separation_path(*rows, borrow=True, penalties=_PENALTIES)
        for i, score in enumerate([raw_score(*rows), *relaxed, exact]):
            q = score.level_proba(scores[test], sensitive_features=Coded(z[test], groups))
            law = q * weight[test][:, None]
            sides = np.stack([law[y[test] == label].sum(0) for label in (0, 1)])
            aurocs[k, i] = float(area(sides[:, None]))
            laws[i, test] = law @ _bins(sides.sum(0))
    seen, shuffled = _statistics(laws, y, z, fold, len(groups), rng)
    each = _p_values(seen, shuffled)
    p = np.r_[each[0, :2].min(), each[1:].min(-1)]  # of the raw score, the first, pooled counts
    mean = aurocs.mean(0)
    needed = np.array([_RAW_TOLD if name == RAW else _TOLD for name in names])
    kept = np.flatnonzero(p >= needed)
    chosen = int(kept[mean[kept].argmax()]) if len(kept) else int((p / needed).argmax())
    table = sorted(zip(names, mean.tolist(), p.tolist(), strict=True), key=lambda one: one[1])
    chance = float(np.quantile(shuffled[:, chosen, 1], 0.95))
    return PenaltyChoice(names[chosen], tuple(table), chance)


def _bins(mass: Array) -> Array:
    """Level → one of 20 bins by the middle of its rank, as zeros and ones (levels, 20)."""
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return np.eye(_BINS)[np.minimum((middle * _BINS).astype(np.intp), _BINS - 1)]


def _statistics(
    laws: Array, y: Codes, z: Codes, fold: Codes, groups: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Pooled v and g and their means over folds, (candidates, 4); and the same of shuffles."""
    strata = [np.flatnonzero((fold == k) & (y == label)) for k in range(_FOLDS) for label in (0, 1)]
    # candidates side by side: one product of matrices counts them all
    flat = [np.moveaxis(laws[:, rows], 1, 0).reshape(len(rows), -1) for rows in strata]
    found = []
    for draw in range(_SHUFFLES + 1):
        tables = np.empty((_FOLDS, 2, groups, len(laws), _BINS))
        for s, rows in enumerate(strata):
            own = z[rows] if draw == 0 else rng.permutation(z[rows])
            counts = np.eye(groups)[own].T @ flat[s]
            tables[s // 2, s % 2] = counts.reshape(groups, len(laws), _BINS)
        by_fold = np.moveaxis(tables, -2, 1)  # (fold, candidate, y, z, bin)
        pooled = by_fold.sum(0)
        each = [conditional_mutual_information(by_fold).mean(0), gap_curve(by_fold).max(-1).mean(0)]
        whole = [conditional_mutual_information(pooled), gap_curve(pooled).max(-1)]
        found.append(np.stack([*whole, *each], -1))
    return found[0], np.array(found[1:])


def _p_values(seen: Array, shuffled: Array) -> Array:
    mean, variance = shuffled.mean(0), np.maximum(shuffled.var(0, ddof=1), 1e-300)
    return np.asarray(gamma.sf(seen, mean**2 / variance, scale=variance / mean))
