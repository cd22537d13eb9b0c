r"""Evidence against "the gap between groups is at most b" that may be checked after every row.

Let r be the rate of a prediction given the label y and the group z, and d_y the range of r over the
groups. The null is that the mean of d_y over the K labels is at most b. With m the mixture
likelihood of a cell's rows over rates drawn from priors that were fixed before the first row, and L
their likelihood,

.. math::
    E = \inf_{\sum_y d_y \le K b} \prod_y \Bigl( w_0 + \sum_{a < c} w_{ac}
        \frac{m_{ya}\, m_{yc}}{\sup_{|r_a - r_c| \le d_y} L_{ya}(r_a)\, L_{yc}(r_c)} \Bigr),
    \qquad w_0 + \sum_{a < c} w_{ac} = 1 .

*Validity.* Take any true rates within the null and their own d_y. Each supremum is then at least
the likelihood of the true rates, so each ratio is at most m m / (L L) at the truth. Given labels
and groups that is a non-negative martingale with mean one, for every pair: rows are independent and
m is a mixture of likelihoods. So is their average over the pairs, whatever rows the pairs share,
and so is the product over labels, which have no row in common. E is an infimum over a set that
holds the true d_y, hence below that martingale, and P(E ever reaches 1/δ) ≤ δ (Ville). Averaging
over the pairs costs log(pairs) nats once, where a test per pair would divide its error.

For more than two predictions each prediction is tested on its own: |r_a − r_c| is at most the total
variation that `eo_gap` takes. Posteriors count as fractions of rows, as in `e_process`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, logsumexp, xlogy

from separatrix.core.information import gaps_by_label

__all__ = ["GAPS", "GapEvidence"]

Array = NDArray[np.float64]
GAPS = {
    "eo_gap": "equalized-odds gap", "tpr_gap": "true-positive-rate gap",
    "fpr_gap": "false-positive-rate gap", "parity_gap": "parity gap",
}  # fmt: skip
_NONE = 0.25  # w_0: a label without evidence must not cost all that the others have
_SIZES = (32.0, 256.0)  # rows that the reference's rates are worth in a prior; beside Jeffreys'
_STEPS = 32  # of the budget per label, between which the infimum is bounded from below
_HALVINGS = 25


@dataclass(frozen=True, eq=False)
class GapEvidence:
    """The bets against one gap, fixed before the first row.

    Args:
        measure: one of `GAPS`.
        budget: the largest gap that is allowed.
        rates: of the reference, (y, z, u), where the bets expect the groups.

    >>> bets = GapEvidence.from_reference(np.full((2, 2, 2), 50.0), "eo_gap", 0.05)
    >>> N = np.array([[[80.0, 20], [20, 80]], [[50, 50], [50, 50]]])
    >>> bool(bets.log_e(N) > 5), bool(bets.log_e(N / 40) < 3), round(bets.value(N), 2)
    (True, True, 0.3)
    """

    measure: str
    budget: float
    rates: Array

    @classmethod
    def from_reference(cls, counts: ArrayLike, measure: str, budget: float) -> GapEvidence:
        """Bets around the rates of a reference, counts (y, z, u)."""
        n = _cells(np.asarray(counts, dtype=np.float64), measure)
        smooth = n + 0.5
        return cls(measure, float(budget), smooth / smooth.sum(-1, keepdims=True))

    def value(self, counts: ArrayLike) -> float:
        """The gap that counts (y, z, u) show."""
        n = _cells(np.asarray(counts, dtype=np.float64), self.measure)
        return float(gaps_by_label(n).mean()) if n.sum() > 0 else 0.0

    def ceiling(self, tables: Array, enough: Any = -np.inf) -> Array:
        """Upper bounds on log E of several tables (s, y, z, u): its value at one point."""
        n = _cells(tables, self.measure)
        each = np.full((*n.shape[:2], 1), min(self.budget, 1.0))
        return np.asarray(self._factors(n, each)[..., 0].sum(1))

    def log_e(self, counts: ArrayLike, enough: float = np.inf) -> float:
        """log E of one table (y, z, u), from below."""
        n = _cells(np.asarray(counts, dtype=np.float64), self.measure)[None]
        labels = n.shape[1]
        steps = _STEPS * labels
        unit = labels * self.budget / steps
        allowed = np.minimum(unit * np.arange(1, steps + 1), 1.0)
        factors = self._factors(n, np.tile(allowed, (1, labels, 1)))[0]
        # d_y in ((i − 1) unit, i unit] has at least the evidence of i, and takes i − 1 units
        total = factors[0]
        for more in factors[1:]:
            total = np.array([(total[: k + 1] + more[k::-1]).min() for k in range(steps)])
        return float(total[-1])

    def _factors(self, n: Array, allowed: Array) -> Array:
        """log of each label's factor, (s, y, d), for gaps d that are allowed, (s, y, d)."""
        rows = n.sum(-1, keepdims=True)
        few = [-1] if n.shape[-1] == 2 else list(range(n.shape[-1]))
        s, f = n[..., few], rows - n[..., few]
        mixture = _log_mixture(s, f, self.rates[..., few])
        a, c = np.triu_indices(n.shape[2], 1)
        if not len(a):
            return np.zeros(allowed.shape)
        pair = [x[..., None] for x in (s[:, :, a], f[:, :, a], s[:, :, c], f[:, :, c])]
        best = _log_supremum(pair[0], pair[1], pair[2], pair[3], allowed[:, :, None, None])
        ratio = (mixture[:, :, a] + mixture[:, :, c])[..., None] - best
        share = np.log((1.0 - _NONE) / (len(a) * len(few)))
        pairs = logsumexp(ratio, axis=(2, 3)) + share
        return np.asarray(np.logaddexp(pairs, np.log(_NONE)))


def _cells(counts: Array, measure: str) -> Array:
    """The rows that a gap is about: labels (…, y, z, u), or one for all labels."""
    if measure == "parity_gap":
        return np.asarray(counts.sum(-3, keepdims=True))
    places = {"tpr_gap": [1], "fpr_gap": [0]}.get(measure)
    return counts if places is None else counts[..., places, :, :]


def _log_mixture(s: Array, f: Array, rates: Array) -> Array:
    """log m of s rows with and f rows without the prediction, over three priors in equal parts."""
    logs = [betaln(s + 0.5, f + 0.5) - betaln(0.5, 0.5)]
    for size in _SIZES:
        a, b = 0.5 + size * rates, 0.5 + size * (1.0 - rates)
        logs.append(betaln(s + a, f + b) - betaln(a, b))
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(logs)))


def _log_supremum(s1: Array, f1: Array, s2: Array, f2: Array, gap: Array) -> Array:
    """The largest log likelihood of two cells whose rates are at most `gap` apart."""
    r1, r2 = (s / np.maximum(s + f, 1e-300) for s, f in ((s1, f1), (s2, f2)))
    swap = r1 < r2
    s1, s2 = np.where(swap, s2, s1), np.where(swap, s1, s2)
    f1, f2 = np.where(swap, f2, f1), np.where(swap, f1, f2)
    high, low = np.maximum(r1, r2), np.minimum(r1, r2)
    empty = (s1 + f1 == 0) | (s2 + f2 == 0)  # a cell without rows takes any rate
    apart = (high - low > gap) & ~empty
    # where the gap binds, the lower rate lies between its own and the other's less the gap
    left, right = np.broadcast_arrays(low, np.maximum(high - gap, low))
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            p = 0.5 * (left + right)
            slope = s1 / (p + gap) - f1 / (1.0 - p - gap) + s2 / p - f2 / (1.0 - p)
            left, right = np.where(slope > 0, p, left), np.where(slope > 0, right, p)
    p = 0.5 * (left + right)
    lower, upper = np.where(apart, p, low), np.where(apart, p + gap, high)
    return np.asarray(_log_likelihood(s1, f1, upper) + _log_likelihood(s2, f2, lower))


def _log_likelihood(s: Array, f: Array, rate: Array) -> Array:
    return np.asarray(xlogy(s, rate) + xlogy(f, np.maximum(1.0 - rate, 0.0)))
