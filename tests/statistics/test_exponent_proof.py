"""Each step of the proof of the exponent bound (docs/reference/guarantees.md), on random laws."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, xlogy
from scipy.stats import binom

from separatrix.core.information import conditional_mutual_information
from separatrix.statistics.exponent import Limits, curvature, extremes, fewest, ratio, spread

SEEDS = st.integers(0, 100_000)
PRICES = np.geomspace(2e-3, 500.0, 24)


def ell(c):
    return xlogy(c, c) - c + 1.0


def a_law(seed):
    """Shares w (y, z) and rates p (y, z, u), from nearly equal to far apart, and some λ."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers((1, 2, 2), (4, 5, 5)))
    w = rng.dirichlet(np.full(shape[0] * shape[1], 2.0)).reshape(shape[:2])
    p = rng.dirichlet(np.full(shape[2], rng.choice([0.5, 2.0, 20.0])), size=shape[:2])
    mix = rng.random() ** 3
    p = mix * p + (1 - mix) * p.mean(1, keepdims=True)
    return w, p, float(rng.choice(PRICES)), rng


def parts(w, p, price):
    """P(y, u), c, s, τ, and the best reference Q° (y, u) of step 2."""
    alpha, of_label = 1.0 / (1.0 + price), w.sum(1)
    inside = w / of_label[:, None]
    pooled = np.einsum("yz,yzu->yu", inside, p)
    c = p / pooled[:, None]
    s = np.einsum("yz,yzu->yu", inside, alpha * c + 1 - alpha - c**alpha)
    tau = np.einsum("yz,yzu->yu", inside, ell(c))
    return of_label[:, None] * pooled, c, s, tau, pooled * (1 - s) ** (1 + price)


def violation(w, p):
    return float(conditional_mutual_information(w[:, :, None] * p))


@given(SEEDS)
def test_step_2_no_other_rates_are_cheaper_than_the_dual_value(seed):
    """Σ w D(p′‖p) + λ v(p′) ≥ F for every p′: F bounds the exponent plus λ a."""
    w, p, price, rng = a_law(seed)
    mass, _, s, _, _ = parts(w, p, price)
    value = float((mass * (1 - (1 - s) ** (1 + price))).sum())
    for other in (p, p.mean(1, keepdims=True) + 0 * p, rng.dirichlet(np.ones(p.shape[2]), w.shape)):
        for mix in (0.1, 0.5, 0.9, 1.0):
            q = mix * other + (1 - mix) * p
            cost = float((w[:, :, None] * rel_entr(q, p)).sum()) + price * violation(w, q)
            assert cost >= value - 1e-9


@given(SEEDS)
def test_step_3_the_dual_value_is_at_least_mu_times_v(seed):
    w, p, price, _ = a_law(seed)
    mass, c, s, tau, _ = parts(w, p, price)
    assert np.isclose((mass * tau).sum(), violation(w, p), atol=1e-12)
    phi = float(ratio(np.array([max(c.max(), 1.001)]), np.array([price]))[0])
    assert (s >= phi * tau - 1e-12).all()
    most = max(float(tau.max()), 1e-300)
    mu = (1 - (1 - min(phi * most, 1.0)) ** (1 + price)) / most
    value = float((mass * (1 - (1 - s) ** (1 + price))).sum())
    assert value >= mu * violation(w, p) - 1e-9


@given(SEEDS)
def test_step_4_no_law_is_beyond_the_extremes_of_its_violation(seed):
    w, p, price, _ = a_law(seed)
    v = violation(w, p)
    mass, c, _, tau, _ = parts(w, p, price)
    label = w.sum(1)
    known = Limits((mass / label[:, None]).min(1), w.min(1), w.min(1) / label, label, 1_000 * label)
    high, low, most = extremes(max(v, 1e-12), known)
    assert c.max() <= high * (1 + 1e-6) + 1e-6
    assert c.min() >= low - 1e-6
    assert tau.max() <= most * (1 + 1e-6) + 1e-9


@given(SEEDS)
def test_population_the_observed_value_is_the_linear_one_less_the_rest(seed):
    """F(ŵ) = Σ ŵ ξ − R with R = Σ ŵ_y Q° r(x), exactly; and R ≤ C Σ ŵ_y Q° (x − 1)²."""
    w, p, price, rng = a_law(seed)
    alpha = 1.0 / (1.0 + price)
    best = parts(w, p, price)[4]
    seen = rng.multinomial(60, w.ravel()).reshape(w.shape) / 60.0
    seen = np.where(seen.sum(1, keepdims=True) > 0, seen, w)  # a label without rows adds nothing
    seen /= seen.sum()
    mass, _, s, _, _ = parts(seen, p, price)
    value = float((mass * (1 - (1 - s) ** (1 + price))).sum())
    ratio_ = p / best[:, None]
    g = alpha * ratio_ + 1 - alpha - ratio_**alpha
    xi = (1 + price) * (best[:, None] * g).sum(2)
    inside = seen / seen.sum(1, keepdims=True)
    x = np.einsum("yz,yzu->yu", inside, ratio_**alpha)
    weight = seen.sum(1)[:, None] * best
    rest = float((weight * (x ** (1 + price) - (1 + price) * x + price)).sum())
    scale = 1e-9 * (1 + abs(rest) + float((seen * xi).sum()))
    assert abs(value - (float((seen * xi).sum()) - rest)) <= 1e-7 * (1 + abs(rest))
    bend = float(curvature(np.array([float(x.max())]), np.array([price]))[0])
    assert rest <= bend * float((weight * (x - 1) ** 2).sum()) * (1 + 1e-6) + scale


@given(SEEDS)
def test_population_the_reference_costs_little(seed):
    """With l = (1 − (1 − α) τ)^{1+λ}: Q° ≥ l P, v ≤ Σ w k ≤ v (1 + λ² τ / (2 l)), and
    ξ ≥ (1 + λ) φ k.
    """
    w, p, price, _ = a_law(seed)
    alpha = 1.0 / (1.0 + price)
    mass, _, _, tau, best = parts(w, p, price)
    kept = 1 - (1 - alpha) * tau.max()
    if kept < 1e-3 or kept ** (1 + price) < 1e-6:
        return  # such a λ is not used
    least, v = kept ** (1 + price), violation(w, p)
    pooled = mass / w.sum(1, keepdims=True)
    assert (best >= least * pooled * (1 - 1e-9)).all()
    c = p / best[:, None]
    k = (best[:, None] * ell(c)).sum(2)
    total = float((w * k).sum())
    assert v - 1e-12 <= total <= v * (1 + 0.5 * price**2 * tau.max() / least) + 1e-12
    xi = (1 + price) * (best[:, None] * (alpha * c + 1 - alpha - c**alpha)).sum(2)
    phi = float(ratio(np.array([max(c.max(), 1.001)]), np.array([price]))[0])
    assert (xi >= (1 + price) * phi * k - 1e-9).all()


@given(st.floats(0.0, 0.999), st.floats(1.001, 1e4))
def test_population_squares_are_bounded_by_the_divergence(low, high):
    """(c^α − 1)² ≤ B (c log c − c + 1) between the extremes of c, for every λ."""
    c = np.geomspace(max(low, 1e-9), high, 200)
    c = c[np.abs(c - 1) > 1e-3]
    found = (c[:, None] ** (1 / (1 + PRICES)) - 1) ** 2 / ell(c)[:, None]
    most = spread(low, np.full_like(PRICES, high), PRICES)
    assert (found.max(0) <= most * (1 + 1e-6)).all()


@given(st.integers(20, 2_000), st.floats(0.02, 0.98), st.floats(0.5, 8.0))
def test_fewer_rows_of_a_label_than_the_limit_says_are_rare(n, share, budget):
    """The bound may not use the number of rows that a label happens to have: its smallest likely
    number follows from the share, and fails with probability e^{-budget} at most.
    """
    least = float(fewest(np.array([share]), np.array([budget / n]))[0])
    assert 0.0 <= least <= share
    assert binom.cdf(np.ceil(n * least - 1e-9) - 1, n, share) <= np.exp(-budget) + 1e-12
