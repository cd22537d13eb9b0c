"""Noise-aware channels: the expected violation is what unseen rows show, and nothing of the same
utility shows less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

from separatrix import limit
from separatrix.columns.counting import soft_counts
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.optimum.roc.noise_aware import _Problem, noise_aware_channels
from separatrix.optimum.rules import SoftmaxChannel, balanced


def rows(n: int, rng: np.random.Generator, labels: int = 2, groups: int = 2) -> tuple[np.ndarray, ...]:
    """Posteriors that lean on the group, their labels and groups."""
    z = rng.integers(0, groups, n)
    y = rng.integers(0, labels, n)
    x = rng.normal(size=(n, labels)) + np.eye(labels)[y] * (0.8 + 0.6 * z[:, None]) + 0.5 * z[:, None]
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True), y, z


def point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(y, q, sensitive_features=z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


def channels(p, y, z, shares, groups, *, reference=None, weight=None, **more):
    """By default shares of the utility of the label with the most p − mean of p."""
    weight = np.ones(len(p)) if weight is None else weight
    if reference is None:
        mean = np.average(p, axis=0, weights=weight)
        table = soft_counts(y, softmax(512.0 * (p - mean), axis=1), sensitive_features=z, sample_weight=weight)
        reference = float(mutual_information(table))
    return noise_aware_channels(p, y, z, weight, shares, reference, groups, **more)


def measured(channel: SoftmaxChannel, p: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, float]:
    """u, v and the sampling error of a noise-aware channel of two labels on the rows that it was
    fitted to.
    """
    assert channel.prior is not None
    theta = np.concatenate([channel.weight, channel.bias[..., None]], axis=2).ravel()
    return _Problem(balanced(p, channel.prior[z]), y, z, np.ones(len(p)), 1.0).measure(theta)


@pytest.mark.parametrize(("labels", "groups"), [(2, 2), (3, 4)])
def test_gradient(labels: int, groups: int) -> None:
    rng = np.random.default_rng(labels)
    problem = _Problem(*rows(400, rng, labels, groups), rng.random(400) + 0.2, 3.0)
    theta = rng.normal(size=groups * labels * (labels + 1))
    numeric = approx_fprime(theta, lambda t: problem._loss(t, 0.05, 0.01)[0], 1e-6)
    assert problem._loss(theta, 0.05, 0.01)[1] == pytest.approx(numeric, rel=1e-3, abs=2e-4)


@pytest.mark.slow
def test_soft_and_sharp_channels_are_pulled_together_alike() -> None:
    """What the groups differ by, beside what they have in common, falls with the shrinkage at any
    utility.
    """
    p, y, z = rows(4_000, np.random.default_rng(5), 2, 3)

    def apart(shrinkage: float) -> np.ndarray:
        found = channels(p, y, z, (0.7, 0.1, 0.02), (0, 1, 2), shrinkage=shrinkage)
        common = [channel.weight.mean(0) for channel in found]
        return np.array([np.linalg.norm(c.weight - m) / np.linalg.norm(m) for c, m in zip(found, common, strict=True)])

    loose, firm, tight = apart(1.0), apart(1e5), apart(1e6)
    assert np.all(firm < 0.9 * loose)
    assert np.all(tight < 0.1 * loose)


def rare(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Posteriors of a label that one row in twenty has, alike in both groups; the densities of the
    seven values of x.
    """
    density = rng.dirichlet(np.full(7, 1.5), 2)
    z, y = rng.integers(0, 2, n), (rng.random(n) < 0.05).astype(int)
    x = np.array([rng.choice(7, p=density[label]) for label in y])
    posterior = 0.05 * density[1] / (0.05 * density[1] + 0.95 * density[0])
    return np.stack([1 - posterior, posterior], axis=1)[x], y, z, x, density


def test_the_best_soft_channel_is_linear_in_the_balanced_posterior() -> None:
    """Most (E₁h − E₀h)² for the sum of both variances: solved as a linear system over the values of
    x.
    """
    for seed in range(20):
        *_, density = rare(1, np.random.default_rng(seed))
        spread = sum(np.diag(f) - np.outer(f, f) for f in density)
        best = np.linalg.pinv(spread) @ (density[1] - density[0])
        posterior = density.T * (0.95, 0.05)
        posterior /= posterior.sum(1, keepdims=True)
        ours = balanced(posterior, np.array([0.95, 0.05]))[:, 1]
        assert abs(np.corrcoef(best, ours)[0, 1]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_a_rare_label_costs_a_soft_channel_nothing(seed: int) -> None:
    """Utility over expected violation is what c + εh(x) can have at best; the plain posterior as h
    is far from it.
    """
    p, y, z, x, _ = rare(30_000, np.random.default_rng(seed))
    (channel,) = channels(p, y, z, (0.05,), (0, 1))
    rates = np.stack([np.bincount(x[y == label], minlength=7) / (y == label).sum() for label in (0, 1)])
    spread = sum(np.diag(f) - np.outer(f, f) for f in rates)

    def ratio(h: np.ndarray) -> float:
        """u over the error: ½ p(0) p(1) (E₁h − E₀h)² over ½ (2/n) (Var₀ + Var₁), both over c (1 −
        c).
        """
        return float(y.mean() * (1 - y.mean()) * ((rates[1] - rates[0]) @ h) ** 2 / (h @ spread @ h) * len(y) / 2)

    best = ratio(np.linalg.pinv(spread) @ (rates[1] - rates[0]))
    u, v, error = measured(channel, p, y, z)
    assert u / (v + error) > 0.97 * best
    assert ratio(np.array([p[x == value, 1].mean() for value in range(7)])) < 0.85 * best


@pytest.mark.slow
def test_a_channel_does_not_depend_on_which_others_are_asked_for() -> None:
    p, y, z = rows(3000, np.random.default_rng(7))
    together = channels(p, y, z, (0.9, 0.4, 0.1), (0, 1))
    for share, one in zip((0.9, 0.4, 0.1), together, strict=True):
        (alone,) = channels(p, y, z, (share,), (0, 1))
        assert np.array_equal(alone.weight, one.weight)
        assert np.array_equal(alone.bias, one.bias)


def test_rows_in_one_bin_stand_for_each_other() -> None:
    """u, v and error of the binned rows are those of the rows."""
    rng = np.random.default_rng(8)
    p, y, z = rows(20_000, rng)
    w = rng.random(20_000) + 0.5
    problem = _Problem(p, y, z, w, 1.0)
    assert len(problem.p) < 8_000
    for scale in (0.5, 5.0, 100.0):
        weight, bias = problem.split(problem.start(scale))
        q = SoftmaxChannel((0, 1), weight, bias, np.tile(np.eye(2), (2, 1, 1))).predict_proba(p, sensitive_features=z)
        table = soft_counts(y, q, sensitive_features=z, sample_weight=w)
        u, v, error = problem.measure(problem.start(scale))
        assert u == pytest.approx(float(mutual_information(table)), rel=1e-3)
        assert v == pytest.approx(float(conditional_mutual_information(table)), rel=1e-3)
        mass, rate = table.sum(2, keepdims=True), table / table.sum(2, keepdims=True)
        squares = (
            soft_counts(y, np.stack([q[:, 0] ** 2, 1 - q[:, 0] ** 2], 1), sensitive_features=z, sample_weight=w)[
                ..., :1
            ]
            / mass
        )
        spread = squares - rate[..., :1] ** 2  # of either label: q and 1 − q vary alike
        alone = (1 - mass / mass.sum(1, keepdims=True)) * spread / (table.sum(1) / mass.sum(1))[:, None]
        assert error == pytest.approx(float(alone.sum()) * (w**2).sum() / w.sum() ** 2, rel=1e-3)


def test_no_utility_to_share_is_a_constant() -> None:
    """Scores that say nothing, as of a base that diverged: the limit has no utility at v = 0."""
    _, y, z = rows(400, np.random.default_rng(10))
    for channel in channels(np.full((400, 2), 0.5), y, z, (0.9, 0.02), (0, 1), reference=0.0):
        q = channel.predict_proba(np.full((400, 2), 0.5), sensitive_features=z)
        assert q == pytest.approx(np.tile(np.bincount(y) / 400, (400, 1)))


def test_rows_of_weight_zero_are_no_rows() -> None:
    p, y, z = rows(2000, np.random.default_rng(11))
    w = np.r_[np.ones(1500), np.zeros(500)]
    (weighted,) = channels(p, y, z, (0.5,), (0, 1), weight=w)
    (fewer,) = channels(p[:1500], y[:1500], z[:1500], (0.5,), (0, 1), weight=w[:1500])
    assert weighted.predict_proba(p, sensitive_features=z) == pytest.approx(
        fewer.predict_proba(p, sensitive_features=z), abs=1e-9
    )


def test_saved_and_restored_with_and_without_its_law_of_the_labels() -> None:
    p, y, z = rows(500, np.random.default_rng(9))
    (channel,) = channels(p, y, z, (0.5,), (0, 1))
    again = SoftmaxChannel.from_arrays((0, 1), channel.arrays())
    assert np.array_equal(again.predict_proba(p, sensitive_features=z), channel.predict_proba(p, sensitive_features=z))
    plain = replace(channel, prior=None)
    assert "prior" not in plain.arrays()  # as channels were saved before
    assert SoftmaxChannel.from_arrays((0, 1), plain.arrays()).prior is None


@pytest.mark.slow
def test_an_audit_of_n_rows_sees_v_and_the_sampling_error() -> None:
    """A channel fixed beforehand: only the auditing rows are random, so half of the two shares of
    the error counts.
    """
    rng = np.random.default_rng(3)
    problem = _Problem(*rows(60_000, rng, 3, 2), np.ones(60_000), 1.0)
    theta = problem.start(3.0)
    weight, bias = problem.split(theta)
    channel = SoftmaxChannel((0, 1), weight, bias, np.tile(np.eye(3), (2, 1, 1)))
    _, v, error = problem.measure(theta)
    n = 1500
    audits = []
    for _ in range(400):
        p, y, z = rows(n, rng, 3, 2)
        audits.append(point(channel.predict_proba(p, sensitive_features=z), y, z)[0])
    expected = v + 0.5 * error * 60_000 / n
    assert expected > 1.02 * v  # there is something to see
    assert np.mean(audits) == pytest.approx(expected, abs=3.5 * np.std(audits) / 20)


@pytest.mark.slow
def test_it_has_the_utility_that_was_asked_for_and_no_more_violation_than_that_needs() -> None:
    p, y, z = rows(6000, np.random.default_rng(2))
    hard = point(np.eye(2)[(p - p.mean(0)).argmax(1)], y, z)
    much, little = channels(p, y, z, (0.7, 0.3), (0, 1))
    v, u = point(much.predict_proba(p, sensitive_features=z), y, z)
    assert u == pytest.approx(0.7 * hard[1], rel=0.03)
    assert v < 0.2 * hard[0]  # the weaker group cannot follow so far without any
    v, u = point(little.predict_proba(p, sensitive_features=z), y, z)
    assert u == pytest.approx(0.3 * hard[1], rel=0.03)
    assert v < 1e-5


@pytest.mark.nightly
def test_unseen_rows_show_what_was_expected_and_less_than_the_exact_rule_thinned() -> None:
    rng = np.random.default_rng(0)
    ours, thinned, expected = [], [], []
    for _ in range(40):
        p, y, z = rows(2000, rng)
        best = limit(y, p, sensitive_features=z, points=2)
        (softer,) = channels(p, y, z, (0.7,), (0, 1), reference=float(best.utility[0]))
        _, v, error = measured(softer, p, y, z)
        expected.append(v + error)
        fresh, y2, z2 = rows(2000, rng)
        q = best.rule(0.0).predict_proba(fresh, sensitive_features=z2)
        points = np.array([point(t * q + (1 - t) * q.mean(0), y2, z2) for t in np.linspace(0.0, 1.0, 41)])
        v, u = point(softer.predict_proba(fresh, sensitive_features=z2), y2, z2)
        ours.append(v)
        thinned.append(np.interp(u, points[:, 1], points[:, 0]))
    assert np.mean(ours) == pytest.approx(np.mean(expected), abs=3.5 * np.std(ours) / np.sqrt(40))
    assert np.mean(ours) < 0.9 * np.mean(thinned)


def test_share_zero_is_the_law_of_the_labels() -> None:
    p, y, z = rows(500, np.random.default_rng(1), 3)
    (channel,) = channels(p, y, z, (0.0,), (0, 1))
    assert channel.predict_proba(p, sensitive_features=z) == pytest.approx(np.tile(np.bincount(y) / 500, (500, 1)))
