r"""Evaluation as in the paper's section 4: both policies of each lane on its test rows.

Randomised: the posterior itself, as soft counts. Deterministic: for two labels the decision
:math:`q_1(x) > t^*`, where :math:`t^*` maximises Accuracy − w · EO gap on the training rows; for
more labels the argmax.

For two labels the posterior is also judged as a score, over all thresholds: its table in 20
quantile bins and its largest EO gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.core.information import accuracy, eo_gap
from separatrix.core.ordered import BINS
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable
from separatrix.nn.evaluation import auroc, hard, tables

__all__ = ["Scores", "best_threshold", "decide", "evaluate", "score_view"]

Array = NDArray[np.float64]


class Scores(NamedTuple):
    """What is kept of one lane; the metrics follow from the tables.

    Args:
        soft, hard: N[y, z, u] of the randomised and the deterministic policy.
        squares: Σ q_u² of each cell, which the sampling error of `soft` needs.
        auroc: of the score.
        ordered: N[y, z, bin] of the score in 20 quantile bins; None for more than two labels.
        score_gap: the largest EO gap of the score over all thresholds; NaN for more labels.
    """

    soft: Array
    hard: Array
    squares: Array
    auroc: float
    ordered: Array | None
    score_gap: float


def evaluate(
    q: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    n_groups: int,
    cuts: ArrayLike,
    ranking: ArrayLike | None = None,
) -> list[Scores]:
    """Tables of both policies and AUROC of every lane on rows that did not train it.

    Args:
        q: posteriors (M, n, K) of these rows.
        y, z: their codes.
        n_groups: number of groups.
        cuts: t* of each lane; not used for more than two labels, where the decision is the argmax.
        ranking: posteriors (M, n, K) of the score instead of `q`: those of the base model, where a
            method's own are decisions rather than scores.
    """
    posterior = np.asarray(q)
    k = posterior.shape[2]
    firm = decide(posterior, cuts) if k == 2 else hard(posterior)
    every = posterior, firm, np.square(posterior, dtype=np.float64)
    counted = (tables(p, y, z, k, n_groups) for p in every)
    score = posterior if ranking is None else np.asarray(ranking)
    area = auroc(score, y)
    views: list[tuple[Array | None, float]] = [(None, float("nan"))] * len(score)
    if k == 2:
        views = [score_view(one, y, z, n_groups) for one in score[:, :, 1]]
    lanes = zip(*counted, area.tolist(), views, strict=True)
    return [Scores(*lane, *view) for *lane, view in lanes]


def score_view(score: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int) -> tuple[Array, float]:
    """A score over all thresholds: N[y, z, bin] in 20 quantile bins, and the largest EO gap.

    Equal scores share a bin, so a score of few values fills few of them.

    >>> score_view([0.1, 0.6, 0.4, 0.9], [0, 0, 1, 1], [0, 1, 0, 1], 2)[1]
    1.0
    """
    s = np.asarray(score, dtype=np.float64)
    label, group = (np.asarray(x, dtype=np.intp) for x in (y, z))
    table = ScoreTable.from_codes(s, label, group, (0, 1), tuple(range(n_groups)))
    found = table.binned(BINS).counts
    ordered = np.zeros((2, n_groups, BINS))
    ordered[..., : found.shape[-1]] = found
    return ordered, largest_gap(table)[0]


def decide(q: ArrayLike, thresholds: ArrayLike) -> NDArray[np.float32]:
    """The decisions q[..., 1] > t of each lane, as one-hot posteriors (M, n, 2)."""
    cuts = np.asarray(thresholds, dtype=np.float64)[:, None]
    second = np.asarray(q)[:, :, 1].astype(np.float64) > cuts
    return np.stack([~second, second], axis=-1).astype(np.float32)


def best_threshold(
    score: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int, weight: float
) -> float:
    r"""t* for two labels: the exact maximiser of Accuracy − w · EO gap over all thresholds.

    .. math:: t^* = \arg\max_t\ \frac1n \#\{1\{s_i > t\} = y_i\}
        - \frac w2 \bigl[\mathrm{range}_z \mathrm{FPR}_z(t) + \mathrm{range}_z
          \mathrm{FNR}_z(t)\bigr]

    Every distinct decision is tried, from counts in one pass over the sorted scores. Thresholds lie
    half-way between neighbouring scores. The closest to 1/2, where the posterior itself decides, is
    taken among equally good ones.

    Args:
        score: posterior of label 1, (n,).
        y, z: codes.
        n_groups: number of groups.
        weight: w.

    >>> best_threshold([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1], [0, 1, 0, 1], 2, weight=1.0)
    0.4
    """
    s = np.asarray(score, dtype=np.float64)
    values, place = np.unique(s, return_inverse=True)
    counts = np.zeros((len(values), 2, n_groups))
    np.add.at(counts, (place, np.asarray(y, dtype=np.intp), np.asarray(z, dtype=np.intp)), 1.0)
    total = counts.sum(0)
    # row t: how many of each cell are above the t-th cut, from "everybody" to "nobody"
    above = np.concatenate([total[None], total - np.cumsum(counts, axis=0)])
    decisions = np.stack([total - above, above], axis=-1)
    value = accuracy(decisions) - weight * eo_gap(decisions)
    cuts = np.concatenate([[values[0] - 1.0], (values[:-1] + values[1:]) / 2, [values[-1] + 1.0]])
    best = np.flatnonzero(value >= value.max() - 1e-12)
    return float(cuts[best[np.argmin(np.abs(cuts[best] - 0.5))]])
