r"""Upper bound on v from the exponent of a low plug-in value: any number of labels and predictions.

The plug-in v̂ is small by luck with a probability that falls exponentially in the rows, at a rate
that does not depend on the number of cells. Write w for the shares of the cells (y, z), p for the
true rates P(u | y, z) and n for the rows. For fixed w the set {p : v(p) ≤ a} is convex, so by
Csiszár's (1984) form of Sanov's theorem

.. math:: P(\hat v \le a) \le
          \exp\Bigl(-n \min_{v(p') \le a} \sum_{yz} w_{yz} D(p'_{yz} \| p_{yz})\Bigr)

for every n. `rate` bounds the minimum from below over all p with v(p) ≥ ε. Near separation it is
(√ε − √a)², so that √v ≤ √v̂ + √(log(1/δ)/n). The derivation is in docs/reference/guarantees.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw, ndtri, rel_entr, xlogy

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information
from separatrix.core.numerics import Array, Mask, bisect
from separatrix.statistics.bounds import chernoff_end
from separatrix.statistics.inference import ceiling

_PRICES = np.geomspace(2e-3, 500.0, 96)  # λ: each gives a valid rate, the best one counts
_SMALL = 0.01  # a bound below this comes from many rows: the second one is not tried
_STEPS = 24  # values of ε that are tried first
_NEAR = 1.0 + 1e-3  # closer to one the ratio of two small numbers is rounding
_LIMITS_SHARE = 0.02  # of the error, for the limits of rates and shares (Berger and Boos, 1994)
_REFERENCE_SHARE = 0.02  # of the error, for the pooled rates at the observed composition
_SHARES_SHARE = 0.05  # of the error, for the second bound for the population, by limits of shares


@dataclass(frozen=True)
class Limits:
    """Lower limits of what the rate depends on, one number per label that can violate separation.

    Args:
        rate: of the rarest prediction, P(u | y).
        cell: of the smallest cell's share, P(y, z).
        share: of the smallest group in the label, P(z | y).
        label: of the label's share, P(y).
        rows: rows with the label; for the population the fewest that its share makes likely.
    """

    rate: Array
    cell: Array
    share: Array
    label: Array
    rows: Array


def exponent_bound(table: CountTable, confidence: float = 0.95, composition: str = "observed") -> float:
    """Finite-sample upper bound on v for rows of weight one; at most log of the
    predictions or of the groups.

    Args:
        table: hard labels or posteriors. A posterior is less spread out than a draw from it, so the
            bound holds for it by Jensen's inequality.
        confidence: the bound fails with probability at most 1 − confidence.
        composition: "observed": v with the observed shares of the cells (y, z). "population": v
            with the shares that the rows were drawn from; costs a few more rows.

    >>> from separatrix.columns.counting import count_labels
    >>> y, z, u = np.random.default_rng(0).integers(0, 2, (3, 20_000))    # truth: v = 0
    >>> t = count_labels(y, u, sensitive_features=z)
    >>> 0.0 < exponent_bound(t) < exponent_bound(t, composition="population") < 1e-3
    True
    """
    error = 1.0 - confidence
    known = limits(table, _LIMITS_SHARE * error, composition)
    left = 1.0 - _LIMITS_SHARE
    if composition == "observed":
        return smallest_refuted(table, known, -np.log(left * error), None)
    left -= _REFERENCE_SHARE + _SHARES_SHARE
    reference = float(np.log(2.0 / (_REFERENCE_SHARE * error)))
    bound = smallest_refuted(table, known, -np.log(left * error), reference)
    return bound if bound < _SMALL else min(bound, _carried_over(table, _SHARES_SHARE * error))


def _carried_over(table: CountTable, error: float) -> float:
    r"""Bound for the population's composition from the one for the observed composition.

    With Q the pooled rates at the observed shares ŵ and k = D(p_yz‖Q_y),
    :math:`v \le \sum w k` and :math:`\sum \hat w k \le B`. The largest sum under upper limits of
    the population's shares w, with each k at most its largest value, is found greedily. For small
    tables; with many rows `rate` is far better.
    """
    known, total = limits(table, 0.1 * error), table.counts.sum()
    left = smallest_refuted(table, known, -np.log(0.4 * error), None)
    mass = table.counts.sum(2)
    mass = mass[(mass > 0).sum(1) > 1]  # as in `limit`
    cells = mass > 0
    share = mass[cells] / total
    budget = np.log(max(len(share), 1) / (0.5 * error)) / total
    high = 1.0 - chernoff_end(1.0 - share, np.full_like(share, budget), 0.0)
    of_label = mass / np.maximum(mass.sum(1, keepdims=True), 1e-300)
    most = -np.log(np.maximum(of_label, known.rate[:, None])[cells])
    bound = 0.0
    for i in np.argsort(share / high):
        k = min(left / share[i], most[i])
        bound += high[i] * k
        left = max(left - share[i] * k, 0.0)
    return float(min(bound, ceiling(table)))


def normal_bound(table: CountTable, confidence: float = 0.95, composition: str = "observed") -> float:
    r"""The normal form of `exponent_bound`: a large-sample bound, whatever the size of the cells.

    A convex set at a distance d standard errors has a normal probability of at most Φ(−d), and the
    exponent is d²/2; so log(1/δ) is replaced by z²/2 with the normal quantile z, and the limits of
    the rates by their estimates. Near separation :math:`\sqrt v \le \sqrt{\hat v} + z/\sqrt{2n}`.
    Weighted rows count as their effective number.
    """
    known = limits(table, None, composition)
    reference = 0.0 if composition == "population" else None
    return smallest_refuted(table, known, 0.5 * float(ndtri(confidence)) ** 2, reference)


def smallest_refuted(table: CountTable, known: Limits, needed: float, reference: float | None) -> float:
    """The smallest ε for which n times the rate exceeds `needed`, from above.

    A bound that refutes ε refutes every larger v too, also where the bound on the rate is poor.
    """
    violation, top = float(conditional_mutual_information(table.counts)), ceiling(table)
    if not len(known.rate):
        return 0.0
    n = table.effective_size

    def refuted(epsilon: float) -> bool:
        return n * rate(violation, epsilon, n, known, reference) > needed

    start = 0.99 * (np.sqrt(violation) + np.sqrt(needed / n)) ** 2  # no rate is better than this
    steps: list[float] = np.geomspace(start, top, _STEPS).tolist() if start < top else []
    high = next((step for step in steps if refuted(step)), top)
    low = high * (start / top) ** (1.0 / (_STEPS - 1)) if start < high < top else violation
    low = high if high == top else max(low, violation)
    return float(bisect(refuted, high, low, close=1e-4)[0])


def rate(observed: float, epsilon: float, n: float, known: Limits, reference: float | None = None) -> float:
    r"""Lower bound on the exponent of P(v̂ ≤ a) for any law with v ≥ ε, per row.

    .. math:: \max_λ \bigl(-λ a + μ(λ)\, ε\bigr), \qquad
              μ(λ) = \frac{1 - (1 - φ τ)^{1+λ}}{τ}, \qquad
              φ = \frac{α c + 1 - α - c^α}{c \log c - c + 1}, \quad α = \frac{1}{1+λ}

    c is the largest ratio P(u | y, z) / P(u | y) and τ the largest part of v per P(y, u) that a law
    with v = ε can have.

    Args:
        observed: a, the plug-in v̂.
        epsilon: ε.
        n: rows.
        known: lower limits of rates and shares.
        reference: None for the observed composition. For the population's: log(2/δ) of the error δ
            with which the pooled rates at the observed composition may be off.
    """
    c, least, tau = extremes(epsilon, known)
    if reference is None:
        phi = ratio(np.full_like(_PRICES, c), _PRICES)
        mu = (1.0 - (1.0 - np.minimum(phi * tau, 1.0)) ** (1.0 + _PRICES)) / tau
        return float((mu * epsilon - _PRICES * observed).max())
    # the mean over the compositions that may be seen
    alpha = 1.0 / (1.0 + _PRICES)
    base = 1.0 - (1.0 - alpha) * tau
    usable = base > 1e-3
    # the best reference is below P(u | y) by this factor at most
    lower = np.where(usable, base, 1.0) ** (1.0 + _PRICES)
    usable &= lower > 1e-6
    lower = np.where(usable, lower, 1.0)
    c_most, level = c / lower, epsilon * (1.0 + 0.5 * _PRICES**2 * tau / lower)
    k = np.minimum(np.log(c_most), level / max(float(known.cell.min()), 1e-300))
    gain = epsilon * -np.expm1(-(1.0 + _PRICES) * ratio(c_most, _PRICES) * k) / k
    # the pooled rates at the composition seen differ from those of the population
    bound = spread(least, c_most, _PRICES)
    variance = bound * level / max(float(known.label.min()), 1e-12)
    step = np.sqrt(bound * k / max(float(known.rows.min()), 1e-12)) * reference / 3.0
    away = step + np.sqrt(step**2 + 2.0 * variance * reference)  # Bernstein in a Hilbert space
    rest = curvature(c_most**alpha, _PRICES) * away**2 / n
    return float(np.where(usable, gain - _PRICES * observed - rest, -np.inf).max())


def limits(table: CountTable, error: float | None, composition: str = "observed") -> Limits:
    """Lower limits that hold together up to the error; None for the estimates themselves.

    Chernoff's bound n D(estimate‖limit) = log(m/δ), shared by m limits: it holds for sums of
    independent variables in [0, 1], so for pooled rates at a fixed composition and for posteriors.
    """
    counts = table.counts
    mass = counts.sum(2)
    several = (mass > 0).sum(1) > 1  # a label seen with one group only has no violation
    counts, mass = counts[several], mass[several]
    total, of_label = table.counts.sum(), mass.sum(1)
    scale = table.effective_size / total  # effective rows per unit of weight
    smallest = np.where(mass > 0, mass, np.inf).min(1, initial=np.inf)
    rate_ = counts.sum(1).min(1, initial=np.inf) / of_label
    cell, share, label = smallest / total, smallest / of_label, of_label / total
    rows = of_label * scale
    if error is not None:
        population = composition == "population"
        m = len(counts) * (counts.shape[2] + 2 * population) + 2 * population * int((mass > 0).sum())
        budget = float(np.log(max(m, 1) / error))
        rate_ = chernoff_end(rate_, budget / rows, 0.0)
        if population:
            of_all = np.full_like(label, budget / (total * scale))
            cell, share = chernoff_end(cell, of_all, 0.0), chernoff_end(share, budget / rows, 0.0)
            label = chernoff_end(label, of_all, 0.0)
            rows = total * scale * fewest(label, of_all)
    return Limits(rate_, cell, share, label, rows)


def extremes(epsilon: float, known: Limits) -> tuple[float, float, float]:
    """Largest and smallest ratio c and largest τ at v = ε."""
    tiny = 1e-300
    widest = 1.0 / np.maximum(np.maximum(known.rate, known.share), 1e-12)
    # w Q (c log c − c + 1) ≤ ε
    reach = np.minimum(epsilon / np.maximum(known.cell * known.rate, tiny), 1e9)
    c = np.minimum(np.exp(1.0 + lambertw((reach - 1.0) / np.e).real), widest)
    some = reach < 1.0
    below = lambertw((np.where(some, reach, 0.5) - 1.0) / np.e, -1).real
    least = np.where(some, np.exp(1.0 + below), 0.0)
    tau = np.minimum(np.log(widest), epsilon / np.maximum(known.label * known.rate, tiny))
    low = min(float(least.min()), 1.0 / _NEAR)
    return max(float(c.max()), _NEAR), low, max(float(tau.max()), tiny)


def ratio(c: Array, prices: Array) -> Array:
    """φ(c) for each λ; it falls with c."""
    alpha = 1.0 / (1.0 + prices)
    return (alpha * c + 1.0 - alpha - c**alpha) / (xlogy(c, c) - c + 1.0)


def curvature(most: Array, prices: Array) -> Array:
    """C with x^{1+λ} − (1+λ)x + λ ≤ C (x − 1)² for 0 ≤ x ≤ most, for each λ."""
    x = np.maximum(most, _NEAR)
    above = (x ** (1.0 + prices) - (1.0 + prices) * x + prices) / (x - 1.0) ** 2
    return np.where(prices <= 1.0, prices, np.maximum(above, 0.5 * prices * (1.0 + prices)))


def spread(least: float, most: Array, prices: Array) -> Array:
    """B with (c^α − 1)² ≤ B (c log c − c + 1) for least ≤ c ≤ most, for each λ."""
    alpha = 1.0 / (1.0 + prices)

    def slope(c: Array) -> Array:
        return 2.0 * alpha * c ** (alpha - 1.0) * (c**alpha - 1.0) / np.log(c)

    low = (least**alpha - 1.0) ** 2 / (xlogy(least, least) - least + 1.0)
    steep = np.minimum(2.0, slope(np.full_like(alpha, least))) if least > 1e-12 else 2.0
    return np.maximum(np.where(alpha <= 0.5, low, steep), slope(most))


def fewest(share: Array, budget: Array) -> Array:
    """The smallest x with D(x‖share) ≤ budget: a mean of rows is below it with e^{−n budget}."""

    def inside(x: Array) -> Mask:
        return np.asarray(rel_entr(x, share) + rel_entr(1.0 - x, 1.0 - share) <= budget)

    return bisect(inside, share, np.zeros_like(share), 50)[1]
