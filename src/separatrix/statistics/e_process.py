r"""Evidence against "v ≤ budget" that may be checked after every row without correction.

For independent rows given (y, z), with N the counts and M_y the bets of `alternatives`,

.. math:: E = \sum_k ω_k \inf_{p \,:\, v(p) \le b} \prod_y M_{y,k}(p), \qquad \sum_k ω_k = 1,

is below a martingale that starts at one whenever the true rates obey v ≤ b: each infimum is at most
the value at the true rates. So P(E ever reaches 1/δ) ≤ δ (Ville). The composition p(y, z) in v is
that of the rows seen. At a given composition {v(p) ≤ b} is convex and log M_y is convex, so the
infimum is a convex programme. It is certified from below: E is never too large.

This holds for posteriors too: by the weighted mean inequality
:math:`\prod_u (q_u/p_u)^{x_u} \le \sum_u x_u q_u/p_u` for a posterior x, and the right side has
mean one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, rel_entr, xlogy

from separatrix.core.information import conditional_mutual_information, law
from separatrix.core.numerics import bisect
from separatrix.errors import InputError
from separatrix.statistics.alternatives import Alternatives

__all__ = [
    "ViolationEvidence",
    "evidence_ceiling",
    "log_e_process",
    "lower_bound",
    "rate_sequences",
]

Array = NDArray[np.float64]
_HALVINGS = 50
_GAP = 1e-3  # nats that a certificate may lose
_FLOOR = 1e-12  # of a rate
_LEAST = 1e-9  # a budget of zero is treated as this, which only lowers the evidence


def log_e_process(
    counts: ArrayLike,
    budget: float,
    alternatives: Alternatives | None = None,
    enough: float = np.inf,
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
    bets = alternatives or Alternatives.of(np.ones(n.shape), budget)
    budget = max(budget, _LEAST)
    start = _shrunk(n[None], budget)[0]
    ceilings = [s + bets.log_mixture(k, n, start).sum() for k, s in enumerate(bets.shares)]
    above = float(np.logaddexp.reduce(ceilings))
    if above < enough < np.inf or above <= 0.0:
        return above
    sure = np.full(len(ceilings), -np.inf)
    for k in np.argsort(ceilings)[::-1]:
        sure[k] = ceilings[k] = bets.shares[k] + _least(bets, int(k), n, budget, start)
        if (above := float(np.logaddexp.reduce(ceilings))) < enough < np.inf:
            return above
        if np.logaddexp.reduce(sure) >= enough:
            break
    return float(np.logaddexp.reduce(sure))


def evidence_ceiling(
    tables: Array, budget: float, alternatives: Alternatives, enough: float | Array = -np.inf
) -> Array:
    """Upper bounds on log E of several tables (s, y, z, u) at once, without an optimum.

    The value at any rates within the budget is above the infimum: here the observed rates, shrunk
    towards their label's until v = budget. Where the whole likelihood ratio at these rates is below
    `enough`, that is returned.
    """
    mass = tables.sum(-1, keepdims=True)
    p = _shrunk(tables, max(budget, _LEAST))
    observed = tables / np.where(mass > 0, mass, 1.0)
    ceiling = (mass * rel_entr(observed, p)).sum((1, 2, 3))
    open_ = np.flatnonzero(ceiling >= enough)
    if len(open_):
        sized = [
            share + alternatives.log_mixture(k, tables[open_], p[open_]).sum(-1)
            for k, share in enumerate(alternatives.shares)
        ]
        ceiling[open_] = np.logaddexp.reduce(sized, axis=0)
    return ceiling


class ViolationEvidence(NamedTuple):
    """The bets against v ≤ budget, as `gap_evidence.GapEvidence` has those against a gap."""

    budget: float
    bets: Alternatives

    def value(self, counts: ArrayLike) -> float:
        """v of counts (y, z, u)."""
        return float(conditional_mutual_information(counts))

    def ceiling(self, tables: Array, needed: float | Array = -np.inf) -> Array:
        """Upper bounds on log E of several tables."""
        return evidence_ceiling(tables, self.budget, self.bets, needed)

    def log_e(self, counts: ArrayLike, needed: float, exact: bool = True) -> float:
        """log E of one table, from below; or whether it reaches what is `needed`."""
        return log_e_process(counts, self.budget, self.bets, np.inf if exact else needed)


def lower_bound(
    counts: ArrayLike, confidence: float = 0.95, alternatives: Alternatives | None = None
) -> float:
    """The largest budget that the evidence refutes: v is above it, at all times at once.

    >>> N = np.array([[[800.0, 200], [200, 800]], [[500, 500], [500, 500]]])
    >>> 0.05 < lower_bound(N) < float(conditional_mutual_information(N))
    True
    """
    n, wanted = np.asarray(counts, dtype=np.float64), -np.log1p(-confidence)
    bets = alternatives or Alternatives.of(np.ones(n.shape), 0.005)
    high = float(conditional_mutual_information(n))
    if log_e_process(n, 0.0, bets, wanted) < wanted:
        return 0.0
    low = 0.0
    while high - low > 0.02 * high:
        middle = 0.5 * (low + high)
        refuted = log_e_process(n, middle, bets, wanted) >= wanted
        low, high = (middle, high) if refuted else (low, middle)
    return low


def rate_sequences(counts: ArrayLike, confidence: float | Array = 0.95) -> tuple[Array, Array]:
    """Intervals for all P(u | y, z) that hold together and at all times.

    Args:
        counts: array (…, y, z, u); leading axes are tables of their own.
        confidence: one number, or one for each table.

    Returns:
        Two arrays (…, y, z, u); [0, 1] in cells without rows.
    """
    n = np.asarray(counts, dtype=np.float64)
    mass = n.sum(-1, keepdims=True)
    free = 1 if n.shape[-1] == 2 else n.shape[-1]
    error = 1.0 - np.asarray(confidence)[..., None, None, None]
    limit = np.log(n.shape[-3] * n.shape[-2] * free / error)
    rest = mass - n
    both = np.stack([n, rest], -1)
    # Dir(½): the regret against the best fixed rate is within a constant of the least possible
    mixture = gammaln(both + 0.5).sum(-1) - 2 * gammaln(0.5) - gammaln(both.sum(-1) + 1.0)

    def inside(p: Array) -> NDArray[np.bool_]:
        return np.asarray(mixture - xlogy(n, p) - xlogy(rest, 1.0 - p) <= limit)

    centre = np.where(mass > 0, n / np.where(mass > 0, mass, 1.0), 0.5)
    low, high = (
        bisect(inside, centre, np.full_like(centre, end), _HALVINGS)[1] for end in (0.0, 1.0)
    )
    return low, high


def _least(bets: Alternatives, k: int, n: Array, budget: float, p: Array) -> float:
    r"""Lower bound on :math:`\inf_{v(p) \le b} \sum_y \log M_y(p)`, by weak duality.

    For every multiplier μ ≥ 0 of the constraint the least :math:`\sum_y [\log M_y + μ n_y v_y]
    - μ n b` is a lower bound. v at the minimiser falls with μ; the best μ makes it the budget.
    """
    best, total = -np.inf, n.sum()
    low, high, mu = 0.0, np.inf, 1.0
    for _ in range(40):
        point = _minimum(bets, k, n, mu, p)
        best = max(best, point.bound - mu * total * budget)
        p = point.rates
        excess = np.log(max(point.violation, 1e-300) / budget)
        if abs(excess) < 0.02 or high - low < 1e-3 * high:
            break
        low, high = (mu, high) if excess > 0 else (low, mu)
        guess = (1.0 + mu) * np.exp(0.5 * excess) - 1.0
        mu = guess if low < guess < high else (4.0 * mu if np.isinf(high) else 0.5 * (low + high))
    return best


class _Point(NamedTuple):
    bound: float
    violation: float
    rates: Array


def _minimum(bets: Alternatives, k: int, n: Array, mu: float, p: Array) -> _Point:
    """Newton's method for the least log M_y + μ n_y v_y of every label, with a certificate.

    A convex function is above its tangent, so the minimum is at least the value here less
    Σ_z max_u ⟨gradient, p − e_u⟩.
    """
    mass = n.sum(-1)
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
            trial = _moved(p, length[:, None, None] * step)
            lower = _value(bets, k, n, mu, trial) <= value + 1e-4 * length * descent + slack
            if lower.all():
                break
            length = np.where(lower, length, 0.5 * length)
        if not lower.any():
            break  # rounding: the certificate says by how much
        p = np.where(lower[:, None, None], trial, p)
    bound = float((value - gap).sum())
    return _Point(bound, float(conditional_mutual_information(mass[..., None] * p)), p)


def _moved(p: Array, step: Array) -> Array:
    """p + step to first order; positive, since an unseen prediction takes p to the boundary."""
    moved = np.maximum(p * np.exp(np.clip(step / p, -4.0, 4.0)), _FLOOR)
    return np.asarray(moved / moved.sum(-1, keepdims=True))


def _free(x: Array, axis: int) -> Array:
    """Derivatives in the free rates, where the last one is one minus the others."""
    last = np.take(x, [-1], axis)
    return np.take(x, range(x.shape[axis] - 1), axis) - last


def _value(bets: Alternatives, k: int, n: Array, mu: float, p: Array) -> Array:
    mass = n.sum(-1, keepdims=True)
    mean = _mean(mass, p)
    return bets.log_mixture(k, n, p) + mu * (mass * rel_entr(p, mean)).sum((1, 2))


def _lagrangian(
    bets: Alternatives, k: int, n: Array, mu: float, p: Array
) -> tuple[Array, Array, Array]:
    value, gradient, hessian = bets.bet(k, n, p)
    mass = n.sum(-1, keepdims=True)
    mean = _mean(mass, p)
    value = value + mu * (mass * rel_entr(p, mean)).sum((1, 2))
    gradient = gradient + mu * mass * np.log(p / mean)
    labels, groups, predictions = n.shape
    blocks = hessian.reshape(labels, groups, predictions, groups, predictions)
    own = np.zeros((labels, groups, groups, predictions))
    z, u = np.arange(groups), np.arange(predictions)
    own[:, z, z] = mass / p
    weight = np.maximum(mass.sum((1, 2)), 1.0)[:, None, None, None] * mean[:, :, None]
    own -= mass[:, :, None] * mass[:, None] / weight
    blocks[:, :, u, :, u] += mu * np.moveaxis(own, -1, 0)
    return value, gradient, hessian


def _mean(mass: Array, p: Array) -> Array:
    """P(u | y) of rates p, of the right shape; the mean of the rates for a label without rows."""
    of_label = mass.sum(1, keepdims=True)
    weighted = (mass * p).sum(1, keepdims=True) / np.where(of_label > 0, of_label, 1.0)
    return np.where(of_label > 0, weighted, p.mean(1, keepdims=True))


def _shrunk(tables: Array, budget: float) -> Array:
    """Positive rates with v ≤ budget: the observed ones, shrunk towards their label's."""
    mass = tables.sum(-1, keepdims=True)
    smooth = tables + 1e-3
    observed = smooth / smooth.sum(-1, keepdims=True)
    pooled = np.stack([_mean(m, p) for m, p in zip(mass, observed, strict=True)])
    away = np.ones(len(tables))
    p = observed
    for _ in range(20):
        v = conditional_mutual_information(mass * p)
        beyond = v > budget
        if not beyond.any():
            return p
        # v is close to quadratic in the distance from separation
        away = np.where(beyond, 0.9999 * away * np.sqrt(budget / np.maximum(v, budget)), away)
        p = pooled + away[:, None, None, None] * (observed - pooled)
    return pooled + np.zeros_like(observed)
