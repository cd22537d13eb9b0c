r"""The path of channels softmax(W_z p + b_z) C_z of a posterior p that maximise u − βv.

The best rules are mixtures of rules argmax_k Σ_y W[z,k,y] p_y(x), which softmax(W_z p + b_z)
contains (W → ∞). Separation also needs randomness that does not depend on how sure the rule is: the
stochastic matrix C_z says P(U=u | the rule says k). With S[y,z,k] the counts of the rule, N = S C
and the derivative of u − βv is

.. math:: G[y,z,u] = \log\frac{p(u|y)}{p(u)} - β \log\frac{p(u|y,z)}{p(u|y)},

so an evaluation is two passes over the rows, in chunks that stay in the cache, on `threads`
threads; C is cheap, since it needs only the small tables. The last channel of the path separates
exactly: with the rules fixed, v = 0 is a linear constraint on C, and a linear programme gives the
best C for the utility's tangent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.sparse import coo_array, vstack

from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError

__all__ = ["BETAS", "SoftmaxPath", "softmax_path"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]
BETAS: tuple[float, ...] = (0.0, *(float(b) for b in np.geomspace(0.03, 300.0, 19)), float("inf"))
_CHUNK = 8_192  # rows at a time: chunk × K floats stay in the second-level cache
_PATIENCE = 20.0  # seconds for one linear programme
_COARSE = 40_000  # rows of the sample on which each β is first solved


class SoftmaxPath(NamedTuple):
    """A channel per β, and its (v, u) on the rows.

    Args:
        weight, bias, mix: W (β, groups, U, labels), b (β, groups, U), C (β, groups, U, U).
    """

    beta: Array
    weight: Array
    bias: Array
    mix: Array
    violation: Array
    utility: Array


def softmax_path(
    p: Array,
    y: NDArray[Any],
    z: NDArray[Any],
    *,
    betas: Sequence[float] = BETAS,
    sample_weight: Array | None = None,
    steps: int = 10,
    shrinkage: float = 1.0,
    threads: int = 2,
    random_state: int = 0,
    on_step: Callable[[int, int], None] | None = None,
) -> SoftmaxPath:
    r"""Channels from the most informative one (β = 0) to exact separation (β = ∞).

    Args:
        p: posteriors (n, K).
        y, z: codes of labels and groups, each from 0.
        betas: increasing; infinity stands for v = 0.
        sample_weight: weight per row.
        steps: L-BFGS steps per β on all rows, after the previous β and a sample of the rows.
        shrinkage: pull of each group's (W_z, b_z) to the mean over the groups, in units of rows; it
            keeps groups of a few rows from fitting noise.
        threads: evaluations run on this many threads.
        on_step: called with the number of finished β and of all.

    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> seen = (y + (rng.random(3000) < 0.2 * z)) % 3
    >>> p = rng.dirichlet(np.ones(3), 3000) * 0.5 + 0.5 * np.eye(3)[seen]
    >>> path = softmax_path(p, y, z, betas=(0.0, 1.0, float("inf")))
    >>> bool(path.violation[-1] < 1e-6), bool(path.utility[0] > path.utility[-1] > 0.1)
    (True, True)
    """
    beta = np.asarray(betas, dtype=np.float64)
    finite = beta[np.isfinite(beta)]
    rising = beta.ndim == 1 and len(beta) and (beta >= 0).all() and (np.diff(finite) > 0).all()
    if not rising:
        raise InputError(f"`betas` must be increasing and not negative, got {list(betas)[:5]}.")
    with ThreadPoolExecutor(threads) as pool:
        rows = _Rows(p, y, z, sample_weight, shrinkage, pool)
        coarse, sample = rows, _sample(rows, random_state)
        if sample is not None:
            some, weights = sample
            coarse = _Rows(p[some], y[some], z[some], weights, shrinkage, pool)
        start = rows.climb(coarse.climb(coarse.tempered(coarse.identity()), 0.0, 80), 0.0, steps)
        separated = rows.separate(start)
        found: list[Array] = []
        theta = separated
        for k, b in enumerate(finite[::-1].tolist()):
            if coarse is not rows:
                theta = coarse.climb(coarse.mixed(theta, b), b, 2 * steps)
            theta = rows.mixed(rows.climb(rows.mixed(theta, b), b, steps), b)
            other = rows.mixed(start, b)  # small β: the rule without constraint, only C adapted
            theta = max((theta, other), key=lambda t: rows.gain(t, b))
            found.insert(0, theta)
            if on_step is not None:
                on_step(k + 1, len(beta))
        found += [separated] * int(np.isinf(beta).sum())
        tables = [rows.table(t) for t in found]
    weight, bias, mix = zip(*(rows.split(t) for t in found), strict=True)
    v = np.array([float(conditional_mutual_information(t)) for t in tables])
    u = np.array([float(mutual_information(t)) for t in tables])
    return SoftmaxPath(beta, np.array(weight), np.array(bias), np.array(mix), v, u)


class _Rows:
    """The rows sorted by (group, label), and u − βv of a channel on them with its gradient."""

    def __init__(
        self,
        p: Array,
        y: NDArray[Any],
        z: NDArray[Any],
        w: Array | None,
        shrinkage: float,
        pool: ThreadPoolExecutor,
    ) -> None:
        self.pool, self.k, self.groups = pool, p.shape[1], int(z.max()) + 1
        cell = z.astype(np.intp) * self.k + y
        order = np.argsort(cell, kind="stable")
        self.p: Single = np.ascontiguousarray(p[order], dtype=np.float32)
        self.w: Single | None = None if w is None else w[order].astype(np.float32)
        self.order = order
        shape, size = (self.groups, self.k), self.groups * self.k
        cells = np.bincount(cell, minlength=size)
        self.mass = np.bincount(cell, weights=w, minlength=size).reshape(shape)
        self.total = float(self.mass.sum())
        self.shrinkage = shrinkage / self.total
        self.cell = cell[order]
        ends = np.cumsum(cells.reshape(shape).sum(1))
        starts = np.r_[0, ends[:-1]]
        self.chunks = [
            (g, a, min(a + _CHUNK, int(stop)))
            for g, (start, stop) in enumerate(zip(starts, ends, strict=True))
            for a in range(int(start), int(stop), _CHUNK)
        ]
        self.q: Single = np.empty((len(order), self.k), dtype=np.float32)

    def identity(self) -> Array:
        """Follow the largest posterior, in every group: where each path begins."""
        theta = np.zeros((self.groups, self.k, 2 * self.k + 1))
        theta[:, :, : self.k] = 20.0 * np.eye(self.k)
        theta[:, :, self.k + 1 :] = 6.0 * np.eye(self.k)
        return theta.ravel()

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """W, b and C of a parameter vector."""
        parts = theta.reshape(self.groups, self.k, 2 * self.k + 1)
        weight, bias = parts[:, :, : self.k].copy(), parts[:, :, self.k].copy()
        mix = np.exp(parts[:, :, self.k + 1 :] - parts[:, :, self.k + 1 :].max(2, keepdims=True))
        return weight, bias, mix / mix.sum(2, keepdims=True)

    def counts(self, theta: Array) -> Array:
        """Counts S[z, y, k] of the rule before C, in double precision."""
        weight, bias, _ = self.split(theta)

        def part(chunk: tuple[int, int, int]) -> Array:
            g, a, b = chunk
            q = _softmax(self.p[a:b].astype(np.float64) @ weight[g].T + bias[g])
            return self._cell_sums(q if self.w is None else q * self.w[a:b, None], a, b)

        out = np.zeros((self.groups, self.k, self.k))
        for (g, _, _), sums in zip(self.chunks, self.pool.map(part, self.chunks), strict=True):
            out[g] += sums
        return out

    def table(self, theta: Array) -> Array:
        """Counts N[y, z, u] of the channel."""
        return (self.counts(theta) @ self.split(theta)[2]).transpose(1, 0, 2)

    def gain(self, theta: Array, beta: float) -> float:
        law = self.table(theta)
        return float(mutual_information(law) - beta * conditional_mutual_information(law))

    def mixed(self, theta: Array, beta: float, steps: int = 200) -> Array:
        """The same rules with the best C that L-BFGS finds for β, from the tables alone."""
        counts = self.counts(theta) / self.total
        parts = theta.reshape(self.groups, self.k, -1).copy()
        # away from the corners, where a softmax has no gradient
        soft = 0.98 * self.split(theta)[2] + 0.02 / self.k

        def loss(free: Array) -> tuple[float, Array]:
            mix = _softmax(free.reshape(-1, self.k)).reshape(soft.shape)
            law = (counts @ mix).transpose(1, 0, 2)
            ascent = counts.transpose(0, 2, 1) @ _gradient(law, beta).transpose(1, 0, 2)
            ascent = mix * (ascent - (mix * ascent).sum(2, keepdims=True))
            value = float(mutual_information(law) - beta * conditional_mutual_information(law))
            return -value / (1.0 + beta), -ascent.ravel() / (1.0 + beta)

        options = {"maxiter": steps, "ftol": 1e-12, "gtol": 1e-9}
        result = minimize(loss, np.log(soft).ravel(), jac=True, method="L-BFGS-B", options=options)
        parts[:, :, self.k + 1 :] = result.x.reshape(soft.shape)
        return parts.ravel()

    def tempered(self, theta: Array, certainty: float = 0.9) -> Array:
        """The same channel, softened until the mean of max_u q is at most `certainty`."""
        softer = np.r_[np.full(self.k + 1, 0.8), np.ones(self.k)]  # of W and b, not of C
        for _ in range(40):  # hard rules have no gradient
            self._loss(theta, 0.0)
            if float(self.q.max(1).mean(dtype=np.float64)) <= certainty:
                break
            theta = theta.reshape(self.groups, self.k, -1) * softer
        return theta.ravel()

    def climb(self, theta: Array, beta: float, steps: int) -> Array:
        """L-BFGS on (u − βv)/(1 + β)."""
        how: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": steps}}
        return np.asarray(minimize(self._loss, theta, args=(beta,), **how).x)

    def _loss(self, theta: Array, beta: float) -> tuple[float, Array]:
        weight, bias, mix = self.split(theta)
        weight, bias = weight.astype(np.float32), bias.astype(np.float32)
        ones = np.ones(self.k, dtype=np.float32)

        def forward(chunk: tuple[int, int, int]) -> Array:
            g, a, b = chunk
            q = self.q[a:b]
            np.matmul(self.p[a:b], weight[g].T, out=q)
            q += bias[g]
            q -= q.max(1, keepdims=True)
            np.exp(q, out=q)
            q /= (q @ ones)[:, None]  # numpy's sums along so short an axis are much slower
            return self._cell_sums(q if self.w is None else q * self.w[a:b, None], a, b)

        counts = np.zeros((self.groups, self.k, self.k))  # z, y, u
        for (g, _, _), sums in zip(self.chunks, self.pool.map(forward, self.chunks), strict=True):
            counts[g] += sums
        law = (counts @ mix).transpose(1, 0, 2) / self.total
        value = float(mutual_information(law) - beta * conditional_mutual_information(law))
        ascent = _gradient(law, beta).transpose(1, 0, 2)  # z, y, u
        slope = (ascent @ mix.transpose(0, 2, 1)).reshape(-1, self.k).astype(np.float32)
        of_mix = counts.transpose(0, 2, 1) @ ascent
        of_mix = mix * (of_mix - (mix * of_mix).sum(2, keepdims=True))

        def backward(chunk: tuple[int, int, int]) -> Array:
            _, a, b = chunk
            q, up = self.q[a:b], slope[self.cell[a:b]]
            up -= np.einsum("ij,ij->i", q, up)[:, None]
            up *= q
            if self.w is not None:
                up *= self.w[a:b, None]
            both = np.concatenate([up.T @ self.p[a:b], up.sum(0)[:, None]], axis=1)
            return both.astype(np.float64)

        gradient = np.concatenate([np.zeros((self.groups, self.k, self.k + 1)), of_mix], axis=2)
        for (g, _, _), part in zip(self.chunks, self.pool.map(backward, self.chunks), strict=True):
            gradient[g, :, : self.k + 1] += part
        both = theta.reshape(gradient.shape)
        away = both - both.mean(0)
        loss = -value / (1.0 + beta) + 0.5 * self.shrinkage * float((away**2).sum())
        return loss, (-gradient / self.total / (1.0 + beta) + self.shrinkage * away).ravel()

    def _cell_sums(self, q: NDArray[Any], a: int, b: int) -> Array:
        """Sums of the rows a … b of one group by label, array (label, u)."""
        label = self.cell[a:b] % self.k
        first = np.flatnonzero(np.r_[True, label[1:] != label[:-1]])
        out = np.zeros((self.k, self.k))
        out[label[first]] = np.add.reduceat(q, first, axis=0)
        return out

    def separate(self, theta: Array) -> Array:
        r"""The rules of θ with the matrices C that give v = 0 and a large u.

        M[y,u] = Σ_k P(k|y,z) C_z[k,u] for all z and all cells that occur, C_z stochastic: linear in
        (C, M). u is convex in M, so maximising its tangent (a linear programme) increases u:
        repeat from the result.
        """
        counts = self.counts(theta)
        rate = counts / np.maximum(self.mass, 1e-300)[:, :, None]
        # coefficients of 1e-12 beside 1 stop the solver, and are far below what v can show
        rate[rate < 1e-9] = 0.0
        rate /= np.maximum(rate.sum(2, keepdims=True), 1e-300)
        prior = self.mass.sum(0) / self.total
        mix = self.split(theta)[2]
        common = (counts @ mix).sum(0) / np.maximum(self.mass.sum(0), 1e-300)[:, None]
        best, best_utility = np.broadcast_to(prior, mix.shape), 0.0  # a constant has v = 0
        # the first tangent is taken near independence: at M₀ itself log 0 would dominate
        for kept in (0.1, 0.95):
            of_u = prior @ common
            near = kept * common + (1.0 - kept) * of_u
            tangent = prior[:, None] * (np.log(near + 1e-12) - np.log(of_u + 1e-12))
            solved = _best_mix(rate, self.mass > 0, tangent)
            if solved is None:
                break
            mix, common = solved
            utility = float(mutual_information((prior[:, None] * common)[:, None]))
            if utility > best_utility:
                best, best_utility = mix, utility
        parts = theta.reshape(self.groups, self.k, -1).copy()
        parts[:, :, self.k + 1 :] = np.log(np.maximum(best, 1e-300))
        return parts.ravel()


def _best_mix(
    rate: Array, present: NDArray[np.bool_], tangent: Array
) -> tuple[Array, Array] | None:
    """max Σ tangent·M with rate_z C_z = M in the cells present: C (groups, K, K) and M (K, K).

    C_z is stochastic. None where the solver failed or did not finish in time: degenerate programmes
    of 4,000 variables can take many minutes.
    """
    groups, k, _ = rate.shape
    n_mix = groups * k * k
    cell_z, cell_y = np.nonzero(present)
    rows = np.arange(len(cell_z) * k)  # one equation per cell (z, y) and prediction u
    z, y, u = np.repeat(cell_z, k), np.repeat(cell_y, k), np.tile(np.arange(k), len(cell_z))
    columns = z[:, None] * k * k + np.arange(k) * k + u[:, None]
    values = np.r_[rate[z, y].ravel(), -np.ones(len(rows))]
    places = np.r_[np.repeat(rows, k), rows], np.r_[columns.ravel(), n_mix + y * k + u]
    match = coo_array((values, places), shape=(len(rows), n_mix + k * k))
    places = np.repeat(np.arange(groups * k), k), np.arange(n_mix)
    simplex = coo_array((np.ones(n_mix), places), shape=(groups * k, n_mix + k * k))
    result = linprog(
        np.r_[np.zeros(n_mix), -tangent.ravel()],
        A_eq=vstack([match, simplex]).tocsr(),
        b_eq=np.r_[np.zeros(len(rows)), np.ones(groups * k)],
        bounds=(0.0, 1.0),
        # the simplex stalls for minutes on 20 × 20 × 9 of these degenerate equations
        method="highs-ipm",
        options={"time_limit": _PATIENCE},
    )
    if result.x is None:
        late = f"took longer than {_PATIENCE:.0f} s"
        reason = late if result.status == 1 else f"failed, {result.message.strip()}"
        warnings.warn(
            f"The linear programme of exact separation for {k} labels and {groups} groups "
            f"{reason}: the channel of v = 0 is the best found before, or a constant.",
            stacklevel=2,
        )
        return None
    mix = np.maximum(result.x[:n_mix].reshape(groups, k, k), 0.0)
    mix /= mix.sum(2, keepdims=True)
    common = np.maximum(result.x[n_mix:].reshape(k, k), 0.0)
    return mix, common / common.sum(1, keepdims=True)


def _gradient(law: Array, beta: float) -> Array:
    """Derivative of u − βv at the law p[y,z,u]: 0 in empty cells, finite for empty predictions."""
    tiny = 1e-12
    of_yz, of_yu = law.sum(2, keepdims=True), law.sum(1, keepdims=True)
    of_y, of_u = law.sum((1, 2), keepdims=True), law.sum((0, 1), keepdims=True)
    rate = np.log(np.maximum(law / np.maximum(of_yz, 1e-300), tiny))
    common = np.log(np.maximum(of_yu / np.maximum(of_y, 1e-300), tiny))
    value = common - np.log(np.maximum(of_u, tiny)) - beta * (rate - common)
    return np.where(of_yz > 0, value, 0.0)


def _sample(rows: _Rows, random_state: int) -> tuple[NDArray[np.intp], Array] | None:
    """Rows and weights of the coarse problem: a share of each large cell, all of the small ones."""
    n = len(rows.order)
    if n < 2 * _COARSE:
        return None
    size = np.bincount(rows.cell, minlength=rows.groups * rows.k)
    take = np.minimum(size, np.maximum(size * _COARSE // n, 50))
    rng = np.random.default_rng(random_state)
    rank = np.empty(n, dtype=np.intp)
    shuffled = np.lexsort((rng.random(n), rows.cell))
    rank[shuffled] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    chosen = np.flatnonzero(rank < take[rows.cell])
    weight = (size / np.maximum(take, 1))[rows.cell[chosen]]
    if rows.w is not None:
        weight = weight * rows.w[chosen]
    return rows.order[chosen], weight


def _softmax(logits: Array) -> Array:
    q = np.exp(logits - logits.max(1, keepdims=True))
    return q / q.sum(1, keepdims=True)
