r"""Evidence against "the gap between groups is at most b" that may be checked after every row.

Let p be the rates of the positive decision given the label y and the group z. The null is that the
range of p over the groups, in the mean over the K labels, is at most b. A contrast c has, in each
label that it looks at, weights that sum to one over some groups and to minus one over others: one
group against the rest, or against another one. Under the null every contrast has
:math:`\sum c\,p \le Kb`. For tilts θ with the signs of c, fixed before the first row, N rows and S
positive ones in each cell,

.. math:: M_θ(p) = \prod_{y,z} \frac{e^{θS}}{(1 - p + p\,e^{θ})^{N}}, \qquad
          E = \sum_k w_k \inf_{p \in I,\; \sum c_k p \le Kb} M_{θ_k}(p), \qquad \sum_k w_k = 1,

where I is a confidence sequence of all rates with a tenth of the error δ.

*Validity.* With probability at least 1 − δ/10 the true rates are in I for ever. Then each infimum
is at most its value at the true rates, where M is a martingale that starts at one: given label and
group, the mean of e^{θu} / (1 − p + p e^θ) is one. So P(E ever reaches 1 / (0.9 δ)) ≤ δ (Ville).
The infimum needs no model of the common rate: each null has its own alternative.

*Power.* With π the cells' shares of the reference, θ ∝ c/π leaves the common rate of a contrast
where it is, and its size is that of a gap of so many budgets. M falls in p where c is negative and
rises where it is positive, and is log-convex, so the infimum is where
:math:`p = N/(μc) - 1/(e^θ - 1)`, cut to I, for the one μ at which the contrast is Kb.

For more than two predictions a contrast is of one prediction's rates: |p_a − p_c| is at most the
total variation that `eo_gap` takes. Posteriors count as fractions of rows, as in `e_process`:
e^{θx} ≤ 1 + x (e^θ − 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from separatrix.core.information import gaps_by_label
from separatrix.core.numerics import Array, Mask, bisect, quotient
from separatrix.statistics.e_process import rate_sequences

GAPS = {
    "eo_gap": "equalized-odds gap", "tpr_gap": "true-positive-rate gap",
    "fpr_gap": "false-positive-rate gap", "parity_gap": "parity gap",
}  # fmt: skip
_EXCESS = {0.4: 0.1, 1.3: 0.45, 4.0: 0.45}  # budgets that a gap is above its budget: their weights
_LEAST = 0.01  # a smaller budget bets on the gaps that this one would
_ALONE = 0.3  # of the weights: contrasts of one label
_ALIKE = 0.7  # of the others, for two labels: both labels have the same sign
_PAIRS = 66  # pairs of groups at most; more groups are only compared with the rest
_INTERVALS = 0.1  # share of the error
_STEEPEST = 3.0  # tilt


@dataclass(frozen=True, eq=False)
class GapEvidence:
    """The bets against one gap, fixed before the first row.

    Args:
        measure: one of `GAPS`.
        budget: the largest gap that is allowed.
        contrasts: c of each bet, (bets, cells); cells are (y, z, u), with the last u of two.
        tilts: θ of each bet, (bets, cells).
        weights: log w of each bet.
        allowed: what a contrast may be, K times the budget.

    >>> bets = GapEvidence.from_reference(np.full((2, 2, 2), 50.0), "eo_gap", 0.05)
    >>> N = np.array([[[80.0, 20], [20, 80]], [[50, 50], [50, 50]]])
    >>> bool(bets.log_e(N, 3.0) > 5), bool(bets.log_e(N / 40, 3.0) < 3), round(bets.value(N), 2)
    (True, True, 0.3)
    """

    measure: str
    budget: float
    contrasts: Array
    tilts: Array
    weights: Array
    allowed: float

    @classmethod
    def from_reference(cls, counts: ArrayLike, measure: str, budget: float) -> GapEvidence:
        """Bets for the rates and shares of a reference, counts (y, z, u)."""
        n = _cells(np.asarray(counts, dtype=np.float64), measure) + 0.5
        rows = n.sum(-1, keepdims=True)
        rates, share = n / rows, rows / rows.sum()
        few = slice(-1, None) if n.shape[-1] == 2 else slice(None)
        spread = (np.maximum(rates * (1.0 - rates), 0.01) / share)[..., few]  # of a rate, × rows
        contrasts, weights = _contrasts(share[..., 0], spread.shape[-1])
        # a gap that is `excess` above the budget moves each rate by θ times its variance
        excess = max(budget, _LEAST) * np.array(list(_EXCESS))
        size = len(n) * excess / np.einsum("kyzu,yzu->k", contrasts**2, spread)[:, None]
        tilts = size[..., None, None, None] * contrasts[:, None] / share
        bets = len(weights) * len(_EXCESS)
        return cls(
            measure,
            float(budget),
            np.repeat(contrasts, len(_EXCESS), 0).reshape(bets, -1),
            np.clip(tilts, -_STEEPEST, _STEEPEST).reshape(bets, -1),
            np.log(np.outer(weights, list(_EXCESS.values())).ravel()),
            len(n) * float(budget),
        )

    def value(self, counts: ArrayLike) -> float:
        """The gap that counts (y, z, u) show."""
        n = _cells(np.asarray(counts, dtype=np.float64), self.measure)
        return float(gaps_by_label(n).mean()) if n.sum() > 0 else 0.0

    def ceiling(self, tables: Array, needed: ArrayLike) -> Array:
        """Upper bounds on log E of several tables (s, y, z, u): its value at one null for each bet.

        That null is the observed rates, moved to the null by as little as their errors allow.
        """
        rows, positive, low, high = self._seen(tables, np.asarray(needed, dtype=np.float64))
        rates = positive / np.maximum(rows, 1e-300)
        noise = np.maximum(rates * (1.0 - rates), 1e-3) / np.maximum(rows, 1e-300)
        log_e = np.empty((len(tables), len(self.weights)))
        for s in range(len(tables)):
            move = self.contrasts * noise[s]
            beyond = np.maximum(self.contrasts @ rates[s] - self.allowed, 0.0)
            p = rates[s] - quotient(beyond, (self.contrasts * move).sum(1))[:, None] * move
            inside = (((p >= low[s]) & (p <= high[s])) | (self.contrasts == 0)).all(1)
            log_e[s] = np.where(inside, self._log_m(rows[s], positive[s], np.clip(p, 0.0, 1.0)), np.inf)
        return np.asarray(logsumexp(log_e + self.weights, axis=1) + np.log1p(-_INTERVALS))

    def log_e(self, counts: ArrayLike, needed: float, exact: bool = True) -> float:
        """log E of one table (y, z, u), from below, such that an alarm is where it is `needed`.

        Args:
            counts: of all rows of the test.
            needed: −log δ of the test; the intervals have a tenth of this error, and E as much
                less.
            exact: as `ViolationEvidence.log_e` has it; this one is always exact.
        """
        table = np.asarray(counts, dtype=np.float64)[None]
        rows, positive, low, high = (x[0] for x in self._seen(table, np.array([needed])))
        used = self.contrasts != 0
        c, slope = (np.where(used, x, 1.0) for x in (self.contrasts, np.expm1(self.tilts)))

        def null(log_mu: Array) -> Array:
            p = rows / (np.exp(log_mu)[:, None] * c) - 1.0 / slope
            return np.where(used, np.clip(p, low, high), 0.0)

        def beyond(log_mu: Array) -> Mask:
            return np.asarray((self.contrasts * null(log_mu)).sum(1) > self.allowed)

        # just beyond the null, which makes E smaller
        least_mu, _ = bisect(beyond, np.full(len(c), -10.0), np.full(len(c), 30.0), 36)
        log_m = self._log_m(rows, positive, null(least_mu))
        # where no rate in the intervals is in the null, these alone are the evidence
        least = np.where(self.contrasts > 0, self.contrasts * low, self.contrasts * high).sum(1)
        log_e = float(logsumexp(log_m + self.weights) + np.log1p(-_INTERVALS))
        return max(log_e, needed) if (least > self.allowed).any() else log_e

    def _log_m(self, rows: Array, positive: Array, p: Array) -> Array:
        """log M of each bet, (bets,), at its own null."""
        return np.asarray(self.tilts @ positive - (rows * np.log1p(p * np.expm1(self.tilts))).sum(1))

    def _seen(self, tables: Array, needed: Array) -> tuple[Array, Array, Array, Array]:
        """Rows, rows with the prediction, and the ends of the intervals, (s, cells) each."""
        n = _cells(tables, self.measure)
        few = slice(-1, None) if n.shape[-1] == 2 else slice(None)
        ends = rate_sequences(n, 1.0 - _INTERVALS * np.exp(-needed))
        rows = np.broadcast_to(n.sum(-1, keepdims=True), n.shape)
        rows, positive, low, high = (x[..., few].reshape(len(n), -1) for x in (rows, n, *ends))
        return rows, positive, low, high


def _contrasts(share: Array, predictions: int) -> tuple[Array, Array]:
    """Contrasts (k, y, z, u) and their weights (k,), for shares (y, z) of the reference."""
    labels, groups = share.shape
    rest, pairs = groups if groups > 2 else 0, list(combinations(np.eye(groups), 2))
    pairs = pairs if len(pairs) <= _PAIRS else []
    base = [np.broadcast_to(a - c, share.shape) for a, c in pairs]
    for member in np.eye(groups)[:rest][::-1]:
        others = share * (1.0 - member)
        base.insert(0, member - others / others.sum(1, keepdims=True))
    half = 0.5 if rest and pairs else 1.0
    each = np.r_[[half / max(rest, 1)] * rest, [half / max(len(pairs), 1)] * len(pairs)]
    signs, shares = zip(*_signs(labels, predictions), strict=True)  # (y, u) each
    contrasts = np.concatenate([np.array(base)[..., None] * sign[None, :, None, :] for sign in signs])
    return contrasts, np.concatenate([share * each for share in shares])


def _signs(labels: int, predictions: int) -> list[tuple[Array, float]]:
    """Which rates a contrast is of: signs (y, u), at most one prediction of each label."""
    alone = 1.0 if labels == 1 else _ALONE
    each = np.eye(labels * predictions).reshape(-1, labels, predictions)
    weighted = [(sign * rate, alone / (2 * len(each))) for rate in each for sign in (1.0, -1.0)]
    if labels == 2 and predictions == 1:
        for a, c in product((1.0, -1.0), repeat=2):
            share = _ALIKE if a == c else 1.0 - _ALIKE
            weighted.append((np.array([[a], [c]]), (1.0 - alone) * share / 2))
    elif labels > 1:  # a group's own label is recognised more often, or less
        weighted += [(sign * np.eye(labels, predictions), (1.0 - alone) / 2) for sign in (1.0, -1.0)]
    return weighted


def _cells(counts: Array, measure: str) -> Array:
    """The rows that a gap is about: labels (…, y, z, u), or one for all labels."""
    if measure == "parity_gap":
        return np.asarray(counts.sum(-3, keepdims=True))
    places = {"tpr_gap": [1], "fpr_gap": [0]}.get(measure)
    return counts if places is None else counts[..., places, :, :]
