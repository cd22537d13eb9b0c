r"""Noise-aware channels for two labels: the least expected violation on unseen rows at a given u.

An audit of n unseen rows sees v plus the sampling error of the rates r[y,z,u] = E[q_u | y, z]. A
second-order expansion of v in the rates gives its mean,

.. math:: v + \frac{1}{2} \Big(\frac{1}{n_{fit}} + \frac{1}{n}\Big)
          \sum_{y,z,u} (1 - p(z|y)) \frac{\mathrm{Var}(q_u | y, z)}{p(u|y)},

one share for the n_fit rows that the channel is fitted to, one for the rows of the audit. A hard
rule has the largest variance that its rates allow; softer decisions have less, and so a smaller
violation on unseen rows. Both are softmax(W_z p + b_z).

p is here the posterior that the same likelihoods have if both labels are equally common in the
group. A soft channel is q = c + ε h(x), with u and the error quadratic in h, and the
error counts the variance of h within each label alike, also of a rare one. So the best h is linear
in f_1 / (f_0 + f_1), which is that posterior; the plain one hardly moves where a label is rare (on
Bank it has half the utility at a small violation).

The rules of `cross_fitted` do not replace it. Where groups differ (three simulated laws, 2,000 and
10,000 rows) they mostly have less utility at the same violation on unseen rows, often half of it;
where groups are alike they have as much or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize

from separatrix.columns.values import Levels
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.numerics import Array, Index, bisect, effective_size
from separatrix.optimum.rules import SoftmaxChannel, balanced

_HARDEST = 512.0
_FIRM = 300.0  # cost of the squared log-distance from the wanted utility: a few per cent at most
_BINS = 2048  # of the score for two labels: a quarter of the width of the hardest channel's step
_SAME = 1e-9  # between two shares
_HALVINGS, _STEPS = 9, 200  # of the sharpness of a start, to a thirtieth of a power of two; of L-BFGS at most
_NOTHING = 1e-9  # nats
# soft to sharp, each the start of the next; fixed, so that no channel depends on the others asked
_LADDER = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)


def noise_aware_channels(
    p: Array,
    y: Index,
    z: Index,
    weight: Array,
    shares: Sequence[float],
    reference: float,
    groups: Levels,
    shrinkage: float = 300.0,
) -> list[SoftmaxChannel]:
    """One channel per share: utility share · `reference`, least violation on as many new rows.

    Args:
        p: posteriors (n, 2).
        y, z: codes of labels and groups, each from 0.
        weight: of each row.
        shares: of the reference; 0 is a constant, the law of the labels.
        reference: a utility in nats.
        groups: the groups, in the order of their codes.
        shrinkage: pull of each group's (W_z, b_z) to the mean over the groups, in units of rows
            where (W, b) has the size of its start: sharp and soft channels are pulled alike. Each
            group's law of the labels is pulled to that of all rows too.

    >>> from separatrix.columns.counting import soft_counts
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    >>> p = np.stack([1 - y, y], 1) * 0.4 + 0.6 * rng.dirichlet((1, 1), 4000)
    >>> half, none = noise_aware_channels(p, y, z, np.ones(4000), (0.5, 0.0), 0.2, (0, 1))
    >>> q = half.predict_proba(p, sensitive_features=z)
    >>> u = mutual_information(soft_counts(y, q, sensitive_features=z))
    >>> float(u.round(2)), none.predict_proba(p[:1], sensitive_features=z[:1]).round(1)
    (0.1, array([[0.5, 0.5]]))
    """
    prior = _prior(y, z, weight, (len(groups), p.shape[1]), shrinkage)
    problem = _Problem(balanced(p, prior[z]), y, z, weight, shrinkage)
    mix = np.tile(np.eye(problem.k), (problem.groups, 1, 1))
    return [SoftmaxChannel(groups, *problem.split(theta), mix, prior) for theta in problem.path(shares, reference)]


def _prior(y: Index, z: Index, w: Array, shape: tuple[int, int], rows: float) -> Array:
    """P(y | z) with so many more rows of the overall law in each group; no label has mass 0."""
    counts = np.zeros(shape)
    np.add.at(counts, (z, y), w * w.sum() / (w**2).sum())
    law = (counts.sum(0) + 1.0) / (counts.sum() + shape[1])
    return (counts + (rows + 1.0) * law) / (counts.sum(1, keepdims=True) + rows + 1.0)


def _binned(p: Array, w: Array, cell: Index) -> tuple[Array, Array, Index]:
    """Mean posterior, weight and cell of each bin of P(Y=1) in each cell."""
    code = cell * (_BINS + 1) + np.rint(p[:, 1] * _BINS).astype(np.intp)
    codes, place = np.unique(code, return_inverse=True)
    weight = np.bincount(place, w[:, 0])[:, None].astype(np.float64)
    sums = np.stack([np.bincount(place, w[:, 0] * column) for column in p.T], axis=1)
    return sums / weight, weight, codes // (_BINS + 1)


class _Problem:
    """The rows sorted by (group, label); u, v and sampling error of a channel, with gradients.

    For two labels, the rows of one group, label and bin of the score are merged into one.
    """

    def __init__(self, p: Array, y: Index, z: Index, weight: Array, shrinkage: float) -> None:
        self.k, self.groups = p.shape[1], int(z.max()) + 1
        seen = weight > 0
        p, y, z, weight = p[seen], y[seen], z[seen], weight[seen]
        self.n = effective_size(weight)
        cell = z.astype(np.intp) * self.k + y
        order = np.argsort(cell, kind="stable")
        p, weight, cell = p[order], (weight * self.n / weight.sum())[order, None], cell[order]
        if self.k == 2:
            p, weight, cell = _binned(p, weight, cell)
        self.p, self.w = np.ascontiguousarray(p), weight
        self.first = np.flatnonzero(np.diff(cell, prepend=-1))
        cells = cell[self.first]
        self.of_row = np.repeat(np.arange(len(cells)), np.diff(self.first, append=len(p)))
        self.y, self.z = cells % self.k, cells // self.k
        self.mass = np.add.reduceat(self.w, self.first, axis=0)  # (cells, 1), sums to n
        self.of_label = self._per_label(self.mass)
        self.rest = 1.0 - self.mass / self.of_label[self.y]  # 1 − p(z|y)
        self.scale, self.shrinkage = 2.0 / self.n, shrinkage / self.n
        ends = np.searchsorted(cell // self.k, np.arange(self.groups + 1)).tolist()
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.mean = (self.w * self.p).sum(0) / self.n

    def _per_label(self, values: Array) -> Array:
        out = np.zeros((self.k, values.shape[1]))
        np.add.at(out, self.y, values)
        return out

    def split(self, theta: Array) -> tuple[Array, Array]:
        """W and b of each group."""
        both = theta.reshape(self.groups, self.k, self.k + 1)
        return both[..., :-1], both[..., -1]

    def start(self, scale: float) -> Array:
        """softmax(scale · (p − mean of p)) in every group."""
        rule = scale * np.column_stack([np.eye(self.k), -self.mean])
        return np.tile(rule.ravel(), self.groups)

    def constant(self) -> Array:
        """The law of the labels, whatever the posterior."""
        law = np.log(np.maximum(self.of_label[:, 0] / self.n, 1e-12))
        return np.tile(np.column_stack([np.zeros((self.k, self.k)), law]).ravel(), self.groups)

    def measure(self, theta: Array) -> tuple[float, float, float]:
        """u, v and the mean of the sampling error, which adds to v."""
        return self._moments(theta)[:3]

    def _moments(self, theta: Array) -> tuple[float, float, float, Array, Array, Array, Array]:
        q = np.empty_like(self.p)
        for rows, weight, bias in zip(self.slices, *self.split(theta), strict=True):
            q[rows] = self.p[rows] @ weight.T + bias
        q -= q.max(1, keepdims=True)
        np.exp(q, out=q)
        q /= q.sum(1, keepdims=True)
        sums = np.add.reduceat(self.w * q, self.first, axis=0)
        rate = sums / self.mass
        common = np.maximum(self._per_label(sums) / np.maximum(self.of_label, 1e-300), 1e-9)
        squares = np.add.reduceat(self.w * q * q, self.first, axis=0) / self.mass
        spread = self._per_label(np.maximum((squares - rate**2) * self.rest, 0.0))
        law = np.zeros((self.k, self.groups, self.k))
        law[self.y, self.z] = sums / self.n
        error = 0.5 * self.scale * float((spread / common).sum())
        u, v = float(mutual_information(law)), float(conditional_mutual_information(law))
        return u, v, error, q, rate, common, spread

    def path(self, shares: Sequence[float], reference: float) -> list[Array]:
        """The channel of each share of the reference; a constant where that is nothing."""
        # a share next to a step of the ladder is that step
        ladder = {round(step, 9): step for step in _LADDER if step <= max(shares, default=0.0) + _SAME}
        thetas: dict[float, Array] = {}
        softer: Array | None = None
        for place, share in sorted(({round(share, 9): share for share in shares} | ladder).items()):
            if share * reference <= _NOTHING:
                thetas[place] = self.constant()
                continue
            thetas[place] = self.solve(share * reference, softer)
            softer = thetas[place] if place in ladder else softer
        return [thetas[round(share, 9)] for share in shares]

    def solve(self, utility: float, softer: Array | None) -> Array:
        """The channel of a utility with the least log of the expected violation.

        It starts at a softer channel, as a sharp one has almost no gradient, or, where there is
        none, at the sharpened posterior.
        """

        def too_soft(power: float) -> bool:
            return self.measure(self.start(2.0 ** float(power)))[0] < utility

        high = float(bisect(too_soft, -8.0, float(np.log2(_HARDEST)), _HALVINGS)[1])
        hold = self.shrinkage / 4.0**high  # a pull that is the same at any sharpness
        start = self.start(2.0**high) if softer is None else softer
        options = {"maxiter": _STEPS}
        return minimize(self._loss, start, (utility, hold), jac=True, method="L-BFGS-B", options=options).x

    def _loss(self, theta: Array, utility: float, hold: float) -> tuple[float, Array]:
        u, v, error, q, rate, common, spread = self._moments(theta)
        u, expected = max(u, 1e-12), max(v + error, 1e-12)
        distance = np.log(u / utility)
        of_u, of_v = -2.0 * _FIRM * distance / u, 1.0 / expected
        joint = common[self.y]
        marginal = np.log(np.maximum(self.of_label[:, 0] @ common / self.n, 1e-12))
        log_ratio = np.log(np.maximum(rate, 1e-12)) - np.log(joint)
        cell = of_u * (np.log(joint) - marginal) - of_v * log_ratio
        per_row = self.rest / (self.mass * joint)
        of_error = per_row * rate + 0.5 * (spread / common**2)[self.y] / self.of_label[self.y]
        cell = cell / self.n + of_v * self.scale * of_error
        up = cell[self.of_row] - (of_v * self.scale * per_row)[self.of_row] * q
        up = self.w * q * (up - (q * up).sum(1, keepdims=True))
        both = theta.reshape(self.groups, self.k, self.k + 1)
        gradient = [np.column_stack([up[rows].T @ self.p[rows], up[rows].sum(0)]) for rows in self.slices]
        away = both - both.mean(0)
        loss = float(np.log(expected)) + _FIRM * distance**2 + 0.5 * hold * float((away**2).sum())
        return loss, (hold * away - gradient).ravel()
