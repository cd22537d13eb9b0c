"""Steady channels: the expected violation is what unseen rows show, and nothing of the same utility shows less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from separatrix import limit
from separatrix.channels import SoftmaxChannel, steady_channels
from separatrix.channels.steady import _Problem
from separatrix.counts import soft_counts
from separatrix.information import conditional_mutual_information, mutual_information


def rows(n: int, rng: np.random.Generator, labels: int = 2, groups: int = 2) -> tuple[np.ndarray, ...]:
    """Posteriors that lean on the group, their labels and groups."""
    z = rng.integers(0, groups, n)
    y = rng.integers(0, labels, n)
    x = rng.normal(size=(n, labels)) + np.eye(labels)[y] * (0.8 + 0.6 * z[:, None]) + 0.5 * z[:, None]
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True), y, z


def point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(q, y, z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


@pytest.mark.parametrize(("labels", "groups"), [(2, 2), (3, 4)])
def test_gradient(labels: int, groups: int) -> None:
    rng = np.random.default_rng(labels)
    problem = _Problem(*rows(400, rng, labels, groups), rng.random(400) + 0.2, 3.0)
    theta = rng.normal(size=groups * labels * (labels + 1))
    numeric = approx_fprime(theta, lambda t: problem._loss(t, 0.05, 0.01)[0], 1e-6)
    assert problem._loss(theta, 0.05, 0.01)[1] == pytest.approx(numeric, rel=1e-3, abs=2e-4)


def test_soft_and_sharp_channels_are_pulled_together_alike() -> None:
    """What the groups differ by, beside what they have in common, falls with the shrinkage at any utility."""
    p, y, z = rows(4_000, np.random.default_rng(5), 3, 3)

    def apart(shrinkage: float) -> np.ndarray:
        found = steady_channels(p, y, z, (0.7, 0.1, 0.02), (0, 1, 2), shrinkage=shrinkage)
        common = [channel.weight.mean(0) for channel in found]
        return np.array([np.linalg.norm(c.weight - m) / np.linalg.norm(m) for c, m in zip(found, common, strict=True)])

    loose, firm, tight = apart(1.0), apart(1e4), apart(1e5)
    assert np.all(firm < 0.9 * loose)
    assert np.all(tight < 0.1 * loose)


@pytest.mark.slow
def test_an_audit_of_n_rows_sees_v_and_the_sampling_error() -> None:
    """A channel fixed beforehand: only the auditing rows are random, so half of the two shares of the error counts."""
    rng = np.random.default_rng(3)
    problem = _Problem(*rows(60_000, rng, 3, 2), None, 1.0)
    theta = problem.start(3.0)
    weight, bias = problem.split(theta)
    channel = SoftmaxChannel((0, 1), weight, bias, np.tile(np.eye(3), (2, 1, 1)))
    _, v, error = problem.measure(theta)
    n = 1500
    audits = []
    for _ in range(400):
        p, y, z = rows(n, rng, 3, 2)
        audits.append(point(channel.predict_proba(p, z), y, z)[0])
    expected = v + 0.5 * error * 60_000 / n
    assert expected > 1.02 * v  # there is something to see
    assert np.mean(audits) == pytest.approx(expected, abs=3.5 * np.std(audits) / 20)


@pytest.mark.parametrize("labels", [2, 4])
def test_it_has_the_utility_that_was_asked_for_and_no_more_violation_than_that_needs(labels: int) -> None:
    p, y, z = rows(6000, np.random.default_rng(labels), labels)
    hard = point(np.eye(labels)[(p - p.mean(0)).argmax(1)], y, z)
    much, little = steady_channels(p, y, z, (0.7, 0.3), (0, 1))
    v, u = point(much.predict_proba(p, z), y, z)
    assert u == pytest.approx(0.7 * hard[1], rel=0.03)
    assert v < 0.2 * hard[0]  # the weaker group cannot follow so far without any
    v, u = point(little.predict_proba(p, z), y, z)
    assert u == pytest.approx(0.3 * hard[1], rel=0.03)
    assert v < 1e-5


@pytest.mark.slow
def test_unseen_rows_show_what_was_expected_and_less_than_of_the_exact_rule_thinned_to_the_same_utility() -> None:
    rng = np.random.default_rng(0)
    ours, thinned, expected = [], [], []
    for _ in range(80):
        p, y, z = rows(2000, rng)
        best = limit(p, y, z, points=2)
        (steady,) = steady_channels(p, y, z, (0.7,), (0, 1), reference=float(best.utility[0]))
        _, v, error = _Problem(p, y, z, None, 1.0).measure(
            np.concatenate([steady.weight, steady.bias[..., None]], axis=2).ravel()
        )
        expected.append(v + error)
        fresh, y2, z2 = rows(2000, rng)
        q = best.channel(0.0).predict_proba(fresh, z2)
        points = np.array([point(t * q + (1 - t) * q.mean(0), y2, z2) for t in np.linspace(0.0, 1.0, 41)])
        v, u = point(steady.predict_proba(fresh, z2), y2, z2)
        ours.append(v)
        thinned.append(np.interp(u, points[:, 1], points[:, 0]))
    assert np.mean(ours) == pytest.approx(np.mean(expected), abs=3.5 * np.std(ours) / np.sqrt(80))
    assert np.mean(ours) < 0.9 * np.mean(thinned)


def test_share_zero_is_the_law_of_the_labels() -> None:
    p, y, z = rows(500, np.random.default_rng(1), 3)
    (channel,) = steady_channels(p, y, z, (0.0,), (0, 1))
    assert channel.predict_proba(p, z) == pytest.approx(np.tile(np.bincount(y) / 500, (500, 1)))
