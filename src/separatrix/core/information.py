r"""Shannon quantities of a finite joint law, read off an array of counts N[y, z, u].

Counts may be hard (integers), soft (sums of posteriors) or weighted; only their ratios matter,
except where `n` is asked for. Units are nats and 0 log 0 = 0. Leading axes are independent tables:
a stack of tables is one call. Sampling errors are in `statistics.inference`. Notation: y label,
z group, u prediction.

A binary decision is also known by its rates x[z, y] = P(U=1 | Y=y, Z=z) and the mass P(Y=y, Z=z),
arrays (..., groups, 2); `rates_utility`, `rates_violation` and `selection_rates` take these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, kl_div, xlogy

from separatrix.core.numbers import as_floats, one_number
from separatrix.core.numerics import Array, quotient
from separatrix.errors import InputError


def entropy(counts: ArrayLike, axes: int = 1) -> Array:
    r"""Entropy of the law on the last `axes` axes.

    .. math:: H = -\sum_i p_i \log p_i

    >>> round(float(entropy([1, 1])), 4)
    0.6931
    """
    p = np.asarray(counts, dtype=np.float64)
    last = tuple(range(-axes, 0))
    p = p / p.sum(axis=last, keepdims=True)
    return np.asarray(-xlogy(p, p).sum(axis=last))


def mutual_information(counts: ArrayLike) -> Array:
    r"""Utility u: what the prediction says about the label.

    .. math:: u = I(U; Y) = \sum_{y,u} p(y,u) \log \frac{p(y,u)}{p(y)\,p(u)}

    Args:
        counts: array (..., y, z, u), leading axes independent. The group axis is summed out.

    >>> N = np.zeros((2, 1, 2)); N[0, 0, 0] = N[1, 0, 1] = 5      # the prediction copies the label
    >>> round(float(mutual_information(N)), 4)
    0.6931
    """
    p = law(counts).sum(-2)
    return _divergence(p, p.sum(-1, keepdims=True) * p.sum(-2, keepdims=True)).sum((-2, -1))


def conditional_mutual_information(counts: ArrayLike) -> Array:
    r"""Separation violation v: what the prediction says about the group once the label is known.

    .. math:: v = I(U; Z \mid Y)
                = \sum_{y,z} p(y,z)\, D_{\mathrm{KL}}\bigl(P(U \mid y,z) \,\|\, P(U \mid y)\bigr)

    Zero exactly under separation (Proposition "CMI characterizes separation").

    Args:
        counts: array (..., y, z, u); leading axes are independent tables.

    >>> N = np.zeros((1, 2, 2)); N[0, 0, 0] = N[0, 1, 1] = 5      # the prediction copies the group
    >>> round(float(conditional_mutual_information(N)), 4)
    0.6931
    """
    return violation_by_cell(counts).sum((-2, -1))


def violation_by_cell(counts: ArrayLike) -> Array:
    r"""The share of v that each cell (y, z) causes; the shares are non-negative and sum to v.

    .. math:: v_{yz} = p(y,z)\, D_{\mathrm{KL}}\bigl(P(U \mid y,z) \,\|\, P(U \mid y)\bigr)

    Returns:
        Array (..., y, z).
    """
    p = law(counts)
    return _divergence(p, _under_separation(p)).sum(-1)


def violation_gradient(counts: ArrayLike) -> Array:
    r"""Derivative of n·v with respect to the counts: the pointwise conditional mutual information.

    .. math:: g[y,z,u] = \log N_{yzu} - \log N_{y \cdot u} - \log N_{yz\cdot} + \log N_{y\cdot\cdot}

    Its mean under the law is v and its variance drives the sampling error of v. Empty cells get 0.
    """
    p = law(counts)
    q = _under_separation(p)
    seen = p > 0
    return np.log(np.where(seen, p, 1.0)) - np.log(np.where(seen, q, 1.0))


def conditional_entropy(counts: ArrayLike) -> Array:
    r"""H(Z | Y), the largest violation possible for these shares of labels and groups."""
    p = law(counts).sum(-1)
    return entropy(p, 2) - entropy(p.sum(-1), 1)


def violation_ceiling(counts: ArrayLike) -> Array:
    """The largest v possible for these labels and groups and this number of predictions."""
    p = law(counts)
    return np.minimum(conditional_entropy(p), np.log(p.shape[-1]))


def auditor_bound(violation: ArrayLike) -> Array:
    r"""The most that any bounded auditor can see: :math:`\sqrt{2 v}`.

    Theorem "CMI controls average conditional dependence": for h(U) and g(Z) centred given Y, the
    mean of :math:`|E[\langle h(U), g(Z)\rangle \mid Y]|` is at most
    :math:`\|h\|_\infty \|g\|_\infty \sqrt{2 v}`.

    The norms are suprema. No such bound holds for correlations, where functions are divided by
    their standard deviations: with Z = U and P(U = 0) = ε the indicator of U = 0 has correlation 1
    with that of Z = 0, while I(U; Z) falls to 0 with ε (Example "Why not correlation?").

    >>> float(auditor_bound(0.02))
    0.2
    """
    return np.sqrt(2.0 * np.maximum(np.asarray(violation, dtype=np.float64), 0.0))


def miller_madow(counts: ArrayLike) -> Array:
    r"""Leading bias of the plug-in v: Miller–Madow per label, over the groups and predictions seen.

    .. math:: \frac{1}{2n} \sum_y \bigl(\#\{zu\} - \#\{u\} - \#\{z\} + 1\bigr)

    Where all cells have rows it is K_Y (K_U − 1)(K_Z − 1) / 2n (Proposition "Bias and concentration
    of hard-count plug-in CMI"). For well-filled cells only: at 20 × 9 × 20 cells and n = 515 it
    exceeds log 9, the largest v.

    Args:
        counts: hard, unweighted counts (..., y, z, u): their total is n.
    """
    law(counts)
    seen = np.asarray(counts, dtype=np.float64)
    n = seen.sum((-3, -2, -1))
    cells = (seen > 0).sum((-3, -2, -1))
    predictions = (seen.sum(-2) > 0).sum((-2, -1))
    groups = (seen.sum(-1) > 0).sum((-2, -1))
    labels = (seen.sum((-2, -1)) > 0).sum(-1)
    return (cells - predictions - groups + labels) / (2.0 * n)


def conditional_rates(counts: ArrayLike) -> Array:
    r"""P(u | y, z); NaN in cells (y, z) without a row, where the rate is not defined.

    Returns:
        Array (..., y, z, u).
    """
    p = law(counts)
    mass = p.sum(-1, keepdims=True)
    return np.divide(p, mass, out=np.full_like(p, np.nan), where=mass > 0)


def eo_gap(counts: ArrayLike) -> Array:
    r"""Equalized-odds gap: the largest distance between two groups' rates, averaged over labels.

    .. math:: \frac{1}{K_Y} \sum_y \max_{z, z'}
              \mathrm{TV}\bigl(P(U \mid y, z), P(U \mid y, z')\bigr)

    For two labels this is the paper's metric, half the sum of the range of the false-positive rate
    and the range of the false-negative rate over the groups. For more labels it is our extension:
    total variation is the largest difference in the rate of any *set* of predictions. Cells (y, z)
    without rows and labels without rows take no part.

    >>> float(eo_gap([[[8, 2], [6, 4]], [[3, 7], [1, 9]]]))       # FPR 0.2, 0.4; FNR 0.3, 0.1
    0.2
    """
    return gaps_by_label(counts).sum(-1) / (np.asarray(counts).sum((-2, -1)) > 0).sum(-1)


def gaps_by_label(counts: ArrayLike) -> Array:
    """The largest total variation between two groups for each label, array (..., y).

    Cells (y, z) without rows take no part: 0 for a label with less than two groups.
    """
    p = law(counts)
    rates = conditional_rates(p)
    per_label = np.zeros(p.shape[:-2])
    for apart in range(1, p.shape[-2]):  # all pairs of groups, without an array of them
        distance = 0.5 * np.abs(rates[..., apart:, :] - rates[..., :-apart, :]).sum(-1)
        per_label = np.maximum(per_label, np.where(np.isnan(distance), 0.0, distance).max(-1))
    return per_label


def accuracy(counts: ArrayLike) -> Array:
    """Share of rows predicted right; the expected share for soft counts.

    The prediction axis must list the labels in the order of the label axis.
    """
    p = law(counts).sum(-2)
    if p.shape[-2] != p.shape[-1]:
        raise InputError(f"accuracy needs as many predictions as labels, got {p.shape[-1]} and {p.shape[-2]}.")
    return np.trace(p, axis1=-2, axis2=-1)


def balanced_accuracy(counts: ArrayLike) -> Array:
    """The mean over labels of the share that is predicted right; labels without rows do not count.

    >>> float(balanced_accuracy([[[90, 0]], [[5, 5]]]))
    0.75
    """
    p = law(counts).sum(-2)
    rows = p.sum(-1)
    right = np.diagonal(p, axis1=-2, axis2=-1)
    return quotient(right, rows).sum(-1) / (rows > 0).sum(-1)


def law(counts: ArrayLike) -> Array:
    """The joint law of a table of counts: checked, float64, each table summing to one."""
    p = as_floats(counts, "counts")
    if p.ndim < 3:
        raise InputError(
            f"`counts` needs the axes (label, group, prediction), got shape {p.shape}. "
            "`theory.soft_counts(y, q, sensitive_features=z)` makes such an array from posteriors."
        )
    if not np.isfinite(p).all() or (p < 0).any():
        worst = p[~np.isfinite(p) | (p < 0)].flat[0]
        raise InputError(f"`counts` must be finite and not negative, got {worst}.")
    with np.errstate(over="ignore"):
        total = p.sum((-3, -2, -1), keepdims=True)
    if not np.isfinite(total).all():
        raise InputError("`counts` sums to more than a number can hold. Divide them first.")
    if p.size == 0 or (total <= 0).any():
        raise InputError(f"`counts` holds no rows: a table of shape {p.shape} sums to zero. Pass rows to count.")
    return p / total


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1), most often a percentage."""
    if not 0.0 < one_number(confidence, "confidence") < 1.0:
        raise InputError(f"`confidence` must lie strictly between 0 and 1, got {confidence}. For 95 % pass 0.95.")


def _under_separation(p: Array) -> Array:
    """The law with the same (y, z) and (y, u) margins in which U ⟂ Z | Y."""
    of_label = p.sum((-2, -1), keepdims=True)
    q = quotient(p.sum(-1, keepdims=True), of_label) * p.sum(-2, keepdims=True)
    # only an underflow of p² (weights 1e-154 apart) can make q vanish
    return np.where((q == 0) & (p > 0), p, q)


def _divergence(p: Array, q: Array) -> Array:
    """p log(p/q) − p + q, elementwise: never negative, and sums to the divergence of two laws."""
    q = np.where((q == 0) & (p > 0), p, q)  # a product of two laws below 1e-154 underflows
    return np.maximum(kl_div(p, q), 0.0)


def rates_utility(mean: Array, prior: Array) -> Array:
    """u of the overall rates x̄ (..., 2): convex in x̄, rising in x̄₁ and falling in x̄₀ above the
    diagonal.
    """
    # a sum of shares may round to just above one, where the entropy is not defined
    mean = np.clip(mean, 0.0, 1.0)
    entropy_of_all = _binary_entropy(np.minimum(mean @ prior, 1.0))
    return np.maximum(entropy_of_all - _binary_entropy(mean) @ prior, 0.0)


def rates_violation(x: Array, mass: Array) -> Array:
    """v of the rates x (..., groups, 2): convex in x."""
    mean = (x * mass).sum(-2, keepdims=True) / mass.sum(-2, keepdims=True)
    apart = relative_entropy(x, mean) + relative_entropy(1.0 - x, 1.0 - mean)
    return np.maximum((mass * apart).sum((-2, -1)), 0.0)


def selection_rates(x: Array, mass: Array) -> Array:
    """P(U=1 | z) of the rates x (..., groups, 2) where P(Y=y, Z=z) is `mass`: (..., groups, 1)."""
    weight = mass.sum(-1, keepdims=True)
    return np.asarray((x * mass).sum(-1, keepdims=True) / np.where(weight > 0, weight, 1.0))


def relative_entropy(x: Array, m: Array) -> Array:
    """x log(x/m) − x + m, with 0 log 0 = 0 and without cancellation for x close to m."""
    ratio = np.divide(x, m, out=np.ones_like(x), where=m > 0)
    with np.errstate(divide="ignore"):
        logarithm = np.where(ratio > 0.5, np.log1p(quotient(x - m, m)), np.log(ratio))
    return np.where(x > 0, x * np.where(x > 0, logarithm, 0.0), 0.0) - x + m


def _binary_entropy(x: Array) -> Array:
    return entr(x) + entr(1.0 - x)
