r"""Evidence against "v ≤ budget" that may be checked after every row without correction.

For independent rows given (y, z), with N the counts and M_y the bets (below),

.. math:: E = \sum_k ω_k \inf_{p \,:\, v(p) \le b} \prod_y M_{y,k}(p), \qquad \sum_k ω_k = 1,

is below a martingale that starts at one whenever the true rates obey v ≤ b: each infimum is at most
the value at the true rates. So P(E ever reaches 1/δ) ≤ δ (Ville). The composition p(y, z) in v is
that of the rows seen. At a given composition {v(p) ≤ b} is convex and log M_y is convex, so the
infimum is a convex programme. It is certified from below: E is never too large.

This holds for posteriors too: by the weighted mean inequality
:math:`\prod_u (q_u/p_u)^{x_u} \le \sum_u x_u q_u/p_u` for a posterior x, and the right side has
mean one.

*The bets.* For rates p inside the budget, rows of a label y are bet on a mixture of rates around p:

.. math:: M_y(p) = π_0
          + π_1 \prod_z \frac{\mathrm{DM}(N_{yz}; m p_{yz})}{\prod_u p_{yzu}^{N_{yzu}}}
          + π_2 \, \mathrm{mean}_θ \prod_z
            \frac{e^{θ_z N_{yzu}}}{(1 - p_{yzu} + p_{yzu} e^{θ_z})^{n_{yz}}}
          + π_3 \prod_z \frac{\mathrm{DM}(N_{yz}; ½)}{\prod_u p_{yzu}^{N_{yzu}}}

DM is the Dirichlet-multinomial likelihood: rates spread around p. A tilt θ moves one group against
the others at one prediction. Each term is a likelihood ratio (of a mixture) against p, so it has
mean one under p and its running value is a martingale. **Each term is log-convex in p**, with a
diagonal Hessian: a factor of DM is :math:`\prod_{i<N} (m + i/p)` and
:math:`\log(mp + i) - \log p` is convex; :math:`-\log(1 + p (e^θ - 1))` and :math:`-N \log p` are
convex. So is their mean, since a sum of log-convex functions is log-convex, and their product.

The size of the bets is that of a violation of k times the budget, for a few k.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, polygamma, rel_entr, xlogy

from separatrix.core.information import conditional_mutual_information, law
from separatrix.core.numerics import Array, Index, Mask, bisect, quotient
from separatrix.errors import InputError

_TIMES = (10.0, 4.0, 2.0)  # multiples of the budget that the bets are made for
_SHARES = (0.43, 0.33, 0.24)  # of the evidence
_NOTHING, _FAR = 0.20, 0.03  # π of no bet and of Dir(½)
_TILTED = {True: 0.45, False: 0.25}  # π of the tilts: with two groups they say all, else a part
_LEAST_BUDGET = 1e-3  # below it the bets grow no smaller
_STEEPEST = 3.0  # of a tilt, in log-odds
_MOST = 50_000  # numbers that the tilts of a table may need; larger tables have none
_GAP = 1e-3  # nats that a certificate may lose
_FLOOR = 1e-12  # of a rate
_LEAST = 1e-9  # a budget of zero is treated as this, which only lowers the evidence


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The bets, fixed before the first row: from the reference's counts and the budget.

    Args:
        shares: log share of the evidence of each size k.
        spread: m of each size.
        tilts: θ[k, y, t, z], and the prediction `tilted[t]` that each is about; may be none.
        tilted: predictions of the tilts.
    """

    shares: Array
    spread: Array
    tilts: Array
    tilted: Index

    @classmethod
    def from_reference(cls, reference: Array, budget: float) -> Alternatives:
        """The bets for a budget, around a reference table of counts N[y, z, u]."""
        n = np.asarray(reference, dtype=np.float64)
        size = np.sqrt(2.0 * max(budget, _LEAST_BUDGET)) * (np.sqrt(np.array(_TIMES)) - 1.0)
        spread = (n.shape[2] - 1) / size**2
        return cls(np.log(np.array(_SHARES)), spread, *_contrasts(n, size))

    def log_mixture(self, k: int, n: Array, p: Array) -> Array:
        """log M_y of size k, per label; leading axes are independent tables."""
        return _log_sum(self._terms(k, n, p))

    def _terms(self, k: int, n: Array, p: Array) -> Array:
        """log of the weighted terms of M_y, on a last axis."""
        m, mass = self.spread[k], n.sum(-1)
        log_p = -xlogy(n, p)
        around = (gammaln(m * p + n) - gammaln(m * p) + log_p).sum(-1)
        around = (around + gammaln(m) - gammaln(mass + m)).sum(-1)
        half = 0.5 * n.shape[-1]
        far = (gammaln(n + 0.5) - gammaln(0.5) + log_p).sum(-1)
        far = (far + gammaln(half) - gammaln(mass + half)).sum(-1)
        # not convex with a fraction of a row: left out, which only lowers the mean
        broken = ((n > 0) & (n < 1)).any((-2, -1))
        # π of no bet, around p, Dir(½) and the tilts
        tilted = _TILTED[self.tilts.shape[-1] == 2] if self.tilted.size else 0.0
        pi = _NOTHING, 1.0 - _NOTHING - _FAR - tilted, _FAR, tilted
        around = np.where(broken, -np.inf, around + np.log(pi[1]))
        terms = np.stack([np.full_like(far, np.log(pi[0])), around, far + np.log(pi[2])], -1)
        if not self.tilted.size:
            return terms
        theta = self.tilts[k]
        tilted_n, tilted_p = (np.moveaxis(x[..., self.tilted], -1, -2) for x in (n, p))
        won = theta * tilted_n - mass[..., None, :] * np.log1p(tilted_p * np.expm1(theta))
        return np.concatenate([terms, won.sum(-1) + np.log(pi[3] / len(self.tilted))], -1)

    def bet(self, k: int, n: Array, p: Array) -> tuple[Array, Array, Array]:
        """log M_y of size k for one table (y,), its gradient (y, z, u) and Hessian (y, zu, zu) in p."""
        terms = self._terms(k, n, p)
        value = _log_sum(terms)
        posterior = np.exp(terms - value[:, None])  # (y, term)
        m, mass = self.spread[k], n.sum(-1)
        seen = n / p
        shape = (*posterior.shape, *n.shape[1:])
        slope, bend = np.zeros(shape), np.zeros(shape)
        slope[:, 1] = m * (digamma(m * p + n) - digamma(m * p)) - seen
        bend[:, 1] = m**2 * (polygamma(1, m * p + n) - polygamma(1, m * p)) + seen / p
        slope[:, 2], bend[:, 2] = -seen, seen / p
        if self.tilted.size:
            t = np.arange(len(self.tilted))
            e = np.expm1(self.tilts[k])
            share = e / (1.0 + np.moveaxis(p[..., self.tilted], -1, -2) * e)
            slope[:, 3 + t, :, self.tilted] = np.moveaxis(-mass[:, None] * share, 1, 0)
            bend[:, 3 + t, :, self.tilted] = np.moveaxis(mass[:, None] * share**2, 1, 0)
        gradient = np.einsum("yk,ykzu->yzu", posterior, slope)
        flat = slope.reshape(*posterior.shape, -1)
        mean = gradient.reshape(len(n), -1)
        hessian = np.einsum("yk,yki,ykj->yij", posterior, flat, flat)
        hessian -= mean[:, :, None] * mean[:, None]
        index = np.arange(mean.shape[1])
        hessian[:, index, index] += np.einsum("yk,ykzu->yzu", posterior, bend).reshape(len(n), -1)
        return value, gradient, hessian


def _log_sum(terms: Array) -> Array:
    """log Σ exp over the last axis; the first term is finite."""
    top = terms.max(-1)
    return np.asarray(top + np.log(np.exp(terms - top[..., None]).sum(-1)))


def _contrasts(n: Array, size: Array) -> tuple[Array, Index]:
    """Tilts of one group against the others, at one prediction, of each size and sign."""
    labels, groups, predictions = n.shape
    pairs = list(product(range(1 if groups == 2 else groups), range(1 if predictions == 2 else 0, predictions)))
    if labels * 2 * len(pairs) * groups * predictions > _MOST or groups < 2:
        return np.zeros((len(size), labels, 0, groups)), np.zeros(0, dtype=np.intp)
    smooth = n + 0.5
    of_group = smooth.sum(2) / smooth.sum((1, 2))[:, None]
    pooled = smooth.sum(1) / smooth.sum((1, 2))[:, None]
    spread = np.sqrt(pooled * (1.0 - pooled))
    tilts = []
    for z, u in pairs:
        share = of_group[:, z : z + 1]
        steep = 1.0 / (spread[:, u : u + 1] * np.sqrt(share * (1.0 - share)))
        tilt = np.minimum(size[:, None, None] * steep, _STEEPEST) * (np.eye(groups)[z] - share)
        tilts += [tilt, -tilt]
    return np.stack(tilts, 2), np.repeat([u for _, u in pairs], 2)


def log_e_process(
    counts: ArrayLike, budget: float, alternatives: Alternatives | None = None, enough: float = np.inf
) -> float:
    """log E against v ≤ budget: from below, or, where it is below `enough`, from above.

    Args:
        counts: N[y, z, u] of rows of weight one.
        budget: in nats.
        alternatives: the bets, fixed before the first row; by default for balanced groups.
        enough: whether E reaches this is all that matters, which saves most of the optimum.

    >>> N = np.array([[[80.0, 20], [20, 80]], [[50, 50], [50, 50]]])
    >>> bool(log_e_process(N, 0.01) > 5), bool(log_e_process(N, 0.2) < 0)
    (True, True)
    """
    n = np.asarray(counts, dtype=np.float64)
    law(n)
    if budget < 0:
        raise InputError(f"A budget on v is not negative, got {budget}.")
    bets = alternatives or Alternatives.from_reference(np.ones(n.shape), budget)
    budget = max(budget, _LEAST)
    start = _shrunk(n[None], budget)[0]
    ceilings = np.array([share + bets.log_mixture(k, n, start).sum() for k, share in enumerate(bets.shares)])
    if (above := float(np.logaddexp.reduce(ceilings))) < enough < np.inf or above <= 0.0:
        return above
    sure = np.full(len(ceilings), -np.inf)
    for k in np.argsort(ceilings)[::-1]:
        sure[k] = ceilings[k] = bets.shares[k] + _least(bets, int(k), n, budget, start)
        if (above := float(np.logaddexp.reduce(ceilings))) < enough < np.inf:
            return above
        if np.logaddexp.reduce(sure) >= enough:
            break
    return float(np.logaddexp.reduce(sure))


class ViolationEvidence(NamedTuple):
    """The bets against v ≤ budget, as `gap_evidence.GapEvidence` has those against a gap."""

    budget: float
    bets: Alternatives

    def value(self, counts: ArrayLike) -> float:
        """v of counts (y, z, u)."""
        return float(conditional_mutual_information(counts))

    def ceiling(self, tables: Array, needed: float | Array = -np.inf) -> Array:
        """Upper bounds on log E of several tables (s, y, z, u) at once, without an optimum.

        The value at any rates within the budget is above the infimum: here the observed rates,
        shrunk towards their label's until v = budget. Where the whole likelihood ratio at these
        rates is below what is `needed`, that is returned.
        """
        mass = tables.sum(-1, keepdims=True)
        p = _shrunk(tables, max(self.budget, _LEAST))
        ceiling = (mass * rel_entr(quotient(tables, mass), p)).sum((1, 2, 3))
        open_ = np.flatnonzero(ceiling >= needed)
        if len(open_):
            shares, mixture = self.bets.shares, self.bets.log_mixture
            sized = [share + mixture(k, tables[open_], p[open_]).sum(-1) for k, share in enumerate(shares)]
            ceiling[open_] = np.logaddexp.reduce(sized, axis=0)
        return np.asarray(ceiling)

    def log_e(self, counts: ArrayLike, needed: float, exact: bool = True) -> float:
        """log E of one table, from below; or whether it reaches what is `needed`."""
        return log_e_process(counts, self.budget, self.bets, np.inf if exact else needed)


def lower_bound(counts: ArrayLike, confidence: float = 0.95, alternatives: Alternatives | None = None) -> float:
    """The largest budget that the evidence refutes: v is above it, at all times at once.

    >>> N = np.array([[[800.0, 200], [200, 800]], [[500, 500], [500, 500]]])
    >>> 0.05 < lower_bound(N) < float(conditional_mutual_information(N))
    True
    """
    n, wanted = np.asarray(counts, dtype=np.float64), -np.log1p(-confidence)
    bets = alternatives or Alternatives.from_reference(np.ones(n.shape), 0.005)

    def refuted(budget: float) -> bool:
        return log_e_process(n, budget, bets, wanted) >= wanted

    return float(bisect(refuted, 0.0, conditional_mutual_information(n), close=0.02)[0]) if refuted(0.0) else 0.0


def rate_sequences(counts: ArrayLike, confidence: float | Array = 0.95) -> tuple[Array, Array]:
    """Intervals for all P(u | y, z) that hold together and at all times.

    Args:
        counts: array (…, y, z, u); leading axes are tables of their own.
        confidence: one number, or one for each table.

    Returns:
        Two arrays (…, y, z, u); [0, 1] in cells without rows.
    """
    n = np.asarray(counts, dtype=np.float64)
    mass, free = n.sum(-1, keepdims=True), 1 if n.shape[-1] == 2 else n.shape[-1]
    error = 1.0 - np.asarray(confidence)[..., None, None, None]
    limit = np.log(n.shape[-3] * n.shape[-2] * free / error)
    rest = mass - n
    both = np.stack([n, rest], -1)
    # Dir(½): the regret against the best fixed rate is within a constant of the least possible
    mixture = gammaln(both + 0.5).sum(-1) - 2 * gammaln(0.5) - gammaln(both.sum(-1) + 1.0)

    def inside(p: Array) -> Mask:
        return np.asarray(mixture - xlogy(n, p) - xlogy(rest, 1.0 - p) <= limit)

    centre = np.where(mass > 0, quotient(n, mass), 0.5)
    low, high = (bisect(inside, centre, np.full_like(centre, end), 50)[1] for end in (0.0, 1.0))
    return low, high


def _least(bets: Alternatives, k: int, n: Array, budget: float, p: Array) -> float:
    r"""Lower bound on :math:`\inf_{v(p) \le b} \sum_y \log M_y(p)`, by weak duality.

    For every multiplier μ ≥ 0 of the constraint the least :math:`\sum_y [\log M_y + μ n_y v_y]
    - μ n b` is a lower bound. v at the minimiser falls with μ; the best μ makes it the budget.
    """
    best, total = -np.inf, n.sum()
    low, high, mu = 0.0, np.inf, 1.0
    for _ in range(40):
        bound, p = _minimum(bets, k, n, mu, p)
        best = max(best, bound - mu * total * budget)
        violation = float(conditional_mutual_information(n.sum(-1, keepdims=True) * p))
        excess = np.log(max(violation, 1e-300) / budget)
        if abs(excess) < 0.02 or high - low < 1e-3 * high:
            break
        low, high = (mu, high) if excess > 0 else (low, mu)
        guess = (1.0 + mu) * np.exp(0.5 * excess) - 1.0
        mu = guess if low < guess < high else (4.0 * mu if np.isinf(high) else 0.5 * (low + high))
    return best


def _minimum(bets: Alternatives, k: int, n: Array, mu: float, p: Array) -> tuple[float, Array]:
    """Newton's method for the least log M_y + μ n_y v_y of every label, with a certificate; the rates.

    A convex function is above its tangent, so the minimum is at least the value here less
    Σ_z max_u ⟨gradient, p − e_u⟩.
    """
    labels, groups, predictions = n.shape
    for _ in range(60):
        value, gradient, hessian = _lagrangian(bets, k, n, mu, p)
        gap = ((p * gradient).sum(-1) - gradient.min(-1)).sum(-1)
        if gap.sum() <= _GAP:
            break
        blocks = hessian.reshape(labels, groups, predictions, groups, predictions)
        reduced = _free(_free(blocks, 4), 2).reshape(labels, groups * (predictions - 1), -1)
        slope = _free(gradient, 2).reshape(labels, -1)
        index = np.arange(slope.shape[1])
        # cells without rows have no curvature
        reduced[:, index, index] += 1e-9 * np.abs(reduced[:, index, index]) + 1e-9
        step = -np.linalg.solve(reduced, slope[..., None])[..., 0].reshape(labels, groups, -1)
        step = np.concatenate([step, -step.sum(-1, keepdims=True)], -1)
        descent, slack = (gradient * step).sum((1, 2)), 1e-13 * np.abs(value)
        length = np.ones(labels)
        for _ in range(20):
            # p + step to first order; positive, since an unseen prediction takes p to the boundary
            moved = np.maximum(p * np.exp(np.clip(length[:, None, None] * step / p, -4.0, 4.0)), _FLOOR)
            trial = moved / moved.sum(-1, keepdims=True)
            lower = _value(bets, k, n, mu, trial) <= value + 1e-4 * length * descent + slack
            if lower.all():
                break
            length = np.where(lower, length, 0.5 * length)
        if not lower.any():
            break  # rounding: the certificate says by how much
        p = np.where(lower[:, None, None], trial, p)
    return float((value - gap).sum()), p


def _free(x: Array, axis: int) -> Array:
    """Derivatives in the free rates, where the last one is one minus the others."""
    last = np.take(x, [-1], axis)
    return np.take(x, range(x.shape[axis] - 1), axis) - last


def _value(bets: Alternatives, k: int, n: Array, mu: float, p: Array) -> Array:
    mass = n.sum(-1, keepdims=True)
    return bets.log_mixture(k, n, p) + mu * (mass * rel_entr(p, _mean(mass, p))).sum((1, 2))


def _lagrangian(bets: Alternatives, k: int, n: Array, mu: float, p: Array) -> tuple[Array, Array, Array]:
    value, gradient, hessian = bets.bet(k, n, p)
    mass = n.sum(-1, keepdims=True)
    mean = _mean(mass, p)
    value = value + mu * (mass * rel_entr(p, mean)).sum((1, 2))
    gradient = gradient + mu * mass * np.log(p / mean)
    labels, groups, predictions = n.shape
    blocks = hessian.reshape(labels, groups, predictions, groups, predictions)
    of_v = np.zeros((labels, groups, groups, predictions))
    z, u = np.arange(groups), np.arange(predictions)
    of_v[:, z, z] = mass / p
    weight = np.maximum(mass.sum((1, 2)), 1.0)[:, None, None, None] * mean[:, :, None]
    of_v -= mass[:, :, None] * mass[:, None] / weight
    blocks[:, :, u, :, u] += mu * np.moveaxis(of_v, -1, 0)
    return value, gradient, hessian


def _mean(mass: Array, p: Array) -> Array:
    """P(u | y) of rates p, of the right shape; the mean of the rates for a label without rows."""
    of_label = mass.sum(-2, keepdims=True)
    return np.where(of_label > 0, quotient((mass * p).sum(-2, keepdims=True), of_label), p.mean(-2, keepdims=True))


def _shrunk(tables: Array, budget: float) -> Array:
    """Positive rates with v ≤ budget: the observed ones, shrunk towards their label's."""
    mass = tables.sum(-1, keepdims=True)
    smooth = tables + 1e-3
    observed = smooth / smooth.sum(-1, keepdims=True)
    pooled, away, p = _mean(mass, observed), np.ones(len(tables)), observed
    for _ in range(20):
        v = conditional_mutual_information(mass * p)
        beyond = v > budget
        if not beyond.any():
            return p
        # v is close to quadratic in the distance from separation
        away = np.where(beyond, 0.9999 * away * np.sqrt(budget / np.maximum(v, budget)), away)
        p = pooled + away[:, None, None, None] * (observed - pooled)
    return pooled + np.zeros_like(observed)
