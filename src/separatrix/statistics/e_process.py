r"""Evidence against "v ≤ budget" that may be checked after every row without correction.

For independent rows given (y, z), with N the counts and Dir(½) a mixing law per cell (y, z),

.. math:: E = \frac{\prod_{yz} \int \prod_u q_u^{N_{yzu}} \, \mathrm{Dir}(dq)}
              {\sup_{p \,:\, v(p) \le b} \prod_{yzu} p_{yzu}^{N_{yzu}}}

is below a martingale that starts at one whenever the true rates obey v ≤ b, so that P(E ever
reaches 1/δ) ≤ δ (Ville). This holds for soft counts too: by the weighted mean inequality
:math:`\prod_u (q_u/p_u)^{x_u} \le \sum_u x_u q_u/p_u` for a posterior x, and the right side has
mean one. The composition p(y, z) in v is that of the rows seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, rel_entr, wrightomega, xlogy

from separatrix.core.information import conditional_mutual_information, law
from separatrix.errors import InputError

__all__ = ["least_divergence", "log_e_process", "lower_bound", "rate_sequences"]

Array = NDArray[np.float64]
# Jeffreys: the regret against the best fixed rates is within a constant of the least possible
_PRIOR = 0.5
_HALVINGS = 50


def log_e_process(counts: ArrayLike, budget: float, enough: float = np.inf) -> float:
    """log E against v ≤ budget; inexact (too large) only where it is below `enough`.

    Args:
        counts: N[y, z, u] of rows of weight one.
        budget: in nats.
        enough: values below it need not be exact, which saves the costly optimum.

    >>> N = np.array([[[80.0, 20], [20, 80]], [[50, 50], [50, 50]]])
    >>> bool(log_e_process(N, 0.01) > 5), bool(log_e_process(N, 0.2) < 0)
    (True, True)
    """
    n = np.asarray(counts, dtype=np.float64)
    regret = _regret(n)
    if float(conditional_mutual_information(n)) <= budget:
        return -regret
    if np.isfinite(enough):
        above = _divergence_of_shrunk(n, budget) - regret
        if above < enough:
            return above
    return least_divergence(n, budget) - regret


def lower_bound(counts: ArrayLike, confidence: float = 0.95) -> float:
    """The largest budget that the evidence refutes: v is above it, at all times at once.

    >>> N = np.array([[[800.0, 200], [200, 800]], [[500, 500], [500, 500]]])
    >>> 0.05 < lower_bound(N) < float(conditional_mutual_information(N))
    True
    """
    n, wanted = np.asarray(counts, dtype=np.float64), -np.log1p(-confidence)
    high = float(conditional_mutual_information(n))
    if log_e_process(n, 0.0, wanted) < wanted:
        return 0.0
    low = 0.0
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_e_process(n, middle, wanted) >= wanted else (low, middle)
    return low


def rate_sequences(counts: ArrayLike, confidence: float = 0.95) -> tuple[Array, Array]:
    """Intervals for all P(u | y, z) that hold together and at all times.

    Returns:
        Two arrays (y, z, u); [0, 1] in cells without rows.
    """
    n = np.asarray(counts, dtype=np.float64)
    mass = n.sum(-1, keepdims=True)
    free = 1 if n.shape[-1] == 2 else n.shape[-1]
    limit = np.log(n.shape[0] * n.shape[1] * free / (1.0 - confidence))
    rest = mass - n
    mixture = _log_mixture(np.stack([n, rest], -1))

    def outside(p: Array) -> NDArray[np.bool_]:
        return mixture - xlogy(n, p) - xlogy(rest, 1.0 - p) > limit

    centre = np.where(mass > 0, n / np.where(mass > 0, mass, 1.0), 0.5)
    ends = []
    for end in (0.0, 1.0):
        good, bad = centre.copy(), np.full_like(centre, end)
        for _ in range(_HALVINGS):
            middle = 0.5 * (good + bad)
            wrong = outside(middle)
            good, bad = np.where(wrong, good, middle), np.where(wrong, middle, bad)
        ends.append(bad)
    return ends[0], ends[1]


def least_divergence(counts: ArrayLike, budget: float) -> float:
    r"""How far the observed rates are from the nearest ones that obey the budget, from below.

    .. math:: \min_{p : v(p) \le b} \sum_{yz} N_{yz} D_{\mathrm{KL}}(\hat p_{yz} \| p_{yz})

    The problem is convex. By weak duality every multiplier μ of the constraint gives a lower bound,
    and for given μ alternating minimisation over the rates p and the references Q_y certifies its
    own distance from the optimum. So the answer is never too large, wherever the iterations stop.
    """
    n = np.asarray(counts, dtype=np.float64)
    law(n)
    if budget < 0:
        raise InputError(f"A budget on v is not negative, got {budget}.")
    v, total = float(conditional_mutual_information(n)), n.sum()
    if v <= budget:
        return 0.0
    if budget == 0:
        return float(total * v)  # the nearest law under separation has the label's own rates
    best, reference = 0.0, _pooled(n)
    low, high = 0.0, np.inf
    mu = max(np.sqrt(v / budget) - 1.0, 1e-6)  # exact where v is quadratic
    for _ in range(40):
        value, violation, reference = _dual(n, mu, budget, reference)
        best = max(best, value)
        if abs(violation - budget) <= 1e-6 * budget:
            break
        low, high = (mu, high) if violation > budget else (low, mu)
        guess = (1.0 + mu) * np.sqrt(violation / budget) - 1.0
        mu = guess if low < guess < high else (2.0 * mu if np.isinf(high) else 0.5 * (low + high))
    return best


class _Dual(NamedTuple):
    value: float
    violation: float
    reference: Array


def _dual(n: Array, mu: float, budget: float, reference: Array) -> _Dual:
    """Lower bound on min over p, Q of Σ N [D(p̂‖p) + μ (D(p‖Q) − b)], with v and Q there."""
    mass = n.sum(-1)
    observed = n / np.where(mass > 0, mass, 1.0)[..., None]
    q = reference
    for _ in range(500):
        p = _nearest(observed, q, mu)
        weighted = (mass[..., None] * p).sum(1)
        ratio = np.divide(weighted, q, out=np.zeros_like(q), where=q > 0)
        gap = mu * float((ratio.max(-1) - mass.sum(-1)).sum())
        value = mass * (rel_entr(observed, p).sum(-1) + mu * rel_entr(p, q[:, None]).sum(-1))
        bound = float(value.sum()) - mu * budget * n.sum() - gap
        of_label = mass.sum(-1)[:, None]
        q = np.divide(weighted, of_label, out=q.copy(), where=of_label > 0)
        if gap <= 1e-7 * max(float(value.sum()), 1.0):
            break
    return _Dual(bound, float(conditional_mutual_information(mass[..., None] * p)), q)


def _nearest(observed: Array, q: Array, mu: float) -> Array:
    r"""The p that minimises D(p̂‖p) + μ D(p‖Q) in each cell.

    .. math:: p = \hat p / (μ ω(\log(\hat p / μ Q) + c))

    ω is Wright's omega and c makes p sum to one. log Σ p is convex and falling in c, so Newton's
    method converges.
    """
    seen = observed > 0
    q = np.broadcast_to(q[:, None], observed.shape)
    usable = seen & (q > 0)
    level = np.log(np.where(usable, observed, 1.0) / (mu * np.where(usable, q, 1.0)))
    c = np.full((*observed.shape[:2], 1), 1.0 / mu)
    p = observed
    for _ in range(60):
        omega = wrightomega(np.where(usable, level + c, 0.0)).real
        p = np.where(usable, observed / (mu * omega), np.where(seen, observed, q * np.exp(-c)))
        total = p.sum(-1, keepdims=True)
        slope = (p / np.where(usable, 1.0 + omega, 1.0)).sum(-1, keepdims=True) / total
        step = np.log(total) / slope
        c = c + step
        if np.abs(step).max() < 1e-13 * max(1.0, float(np.abs(c).max())):
            break
    return p / p.sum(-1, keepdims=True)


def _divergence_of_shrunk(n: Array, budget: float) -> float:
    """Upper bound on `least_divergence`: rates shrunk towards their label's until v = budget."""
    mass = n.sum(-1, keepdims=True)
    observed = n / np.where(mass > 0, mass, 1.0)
    pooled = _pooled(n)[:, None]
    away, p = 1.0, observed
    for _ in range(20):
        v = float(conditional_mutual_information(mass * p))
        if v <= budget:
            break
        # v is close to quadratic in the distance from separation
        away *= 0.9999 * np.sqrt(budget / v)
        p = pooled + away * (observed - pooled)
    else:
        return np.inf
    return float((mass * rel_entr(observed, p)).sum())


def _pooled(n: Array) -> Array:
    """P(u | y), uniform for a label without rows."""
    of_label = n.sum((1, 2))[:, None]
    rates = n.sum(1) / np.where(of_label > 0, of_label, 1.0)
    return np.where(of_label > 0, rates, 1.0 / n.shape[-1])


def _regret(n: Array) -> float:
    """Cost of mixing over all rates against the best ones, summed over cells; not negative."""
    mass = n.sum(-1, keepdims=True)
    best = xlogy(n, n / np.where(mass > 0, mass, 1.0)).sum(-1)
    return float((best - _log_mixture(n)).sum())


def _log_mixture(n: Array) -> Array:
    """log ∫ Π q_u^N_u Dir(½)(dq) over the last axis."""
    k = n.shape[-1]
    up = gammaln(n + _PRIOR).sum(-1) - k * gammaln(_PRIOR)
    return up + gammaln(k * _PRIOR) - gammaln(n.sum(-1) + k * _PRIOR)
