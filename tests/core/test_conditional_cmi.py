"""v of a numeric output given a numeric outcome: its gradient, its invariances, its zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from separatrix.core import binned_cmi
from separatrix.core.binned_cmi import cmi_of_scores
from separatrix.core.conditional_cmi import ConditionalCMI, rank_violation
from separatrix.core.information import conditional_mutual_information

AT = np.array([-1.7, -0.9, -0.2, 0.45, 1.1, 1.9])  # no row is exactly on one of them


def some(seed, n=600, groups=3):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, groups, n)
    y = rng.normal(size=n) + z
    return y, y + 0.5 * (1 + z) * rng.normal(size=n), z, rng.random(n) + 0.1


@given(st.integers(0, 10**6), st.booleans())
@example(1206, True)  # a cell of a third of a millionth
def test_the_gradient_is_that_of_finite_differences(seed, weighted):
    """Through the bins, the spread and the line of every block; cells of less than a millionth of
    the rows, whose slope has a floor (`log_ratio`), count as they are here.
    """
    y, u, z, w = some(seed)
    v = ConditionalCMI.from_outcome(y, z, 3, w if weighted else None)
    direction, step = np.random.default_rng(seed + 1).normal(size=len(u)), 1e-7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binned_cmi, "EMPTY", 1e-15)
        slope = (v(u + step * direction, AT).value - v(u - step * direction, AT).value) / (2 * step)
        assert v(u, AT).gradient @ direction == pytest.approx(slope, abs=2e-5)


def test_shifts_and_scales_of_the_output_change_nothing():
    y, u, z, w = some(0)
    v = ConditionalCMI.from_outcome(y, z, 3, w)
    assert v(40.0 - 3.0 + 7.0 * u, AT).value == pytest.approx(v(u, AT).value, abs=1e-12)
    slope = v(u, AT).gradient  # so the gradient has no part along them
    assert slope.sum() == pytest.approx(0.0, abs=1e-12)
    assert slope @ u == pytest.approx(0.0, abs=1e-12)


def test_rows_of_weight_two_are_rows_that_occur_twice():
    _, u, z, _ = some(1)
    rng = np.random.default_rng(1)
    y, w = rng.integers(0, 3, 600).astype(float), rng.integers(1, 3, 600)
    twice = [np.repeat(x, w) for x in (y, u, z)]
    weighted = ConditionalCMI.from_outcome(y, z, 3, w.astype(float))(u, AT)
    repeated = ConditionalCMI.from_outcome(twice[0], twice[2], 3)(twice[1], AT)
    assert weighted.value == pytest.approx(repeated.value, abs=1e-12)
    assert weighted.gradient == pytest.approx(np.bincount(np.repeat(np.arange(600), w), repeated.gradient))


def test_for_two_labels_it_is_the_violation_of_the_standardised_score():
    """Atoms of the outcome are blocks and bands of their own."""
    rng = np.random.default_rng(2)
    y, z = rng.integers(0, 2, (2, 4000))
    u = rng.normal(size=4000) + y * (1 + z)
    t = np.empty(4000)
    for label in (0, 1):
        own = u[y == label]
        t[y == label] = (own - own.mean()) / own.std()
    found = ConditionalCMI.from_outcome(y.astype(float), z, 2)(u, AT)
    assert found.value == pytest.approx(cmi_of_scores(t, 2 * y + z, (2, 2), AT).value, abs=1e-12)


def test_bins_of_the_outcome_alone_would_invent_a_violation():
    """U = Y + noise is separated although Z shifts Y: plain bands of Y say otherwise."""
    rng = np.random.default_rng(3)
    n = 20_000
    z = rng.integers(0, 2, n)
    y = rng.normal(size=n) + 2 * z
    u = y + 0.3 * rng.normal(size=n)
    v = ConditionalCMI.from_outcome(y, z, 2)
    assert v(u, v.centres(u, 8)).value < 0.002
    band, plain = (np.searchsorted(np.quantile(x, [0.33, 0.67]), x) for x in (y, u))
    table = np.zeros((3, 2, 3))
    np.add.at(table, (band, z, plain), 1)
    assert conditional_mutual_information(table) > 0.005


@pytest.mark.parametrize("shape", ["location", "scale"])
def test_a_violation_of_location_or_scale_is_seen(shape):
    rng = np.random.default_rng(4)
    z, y, e = rng.integers(0, 2, 20_000), *rng.normal(size=(2, 20_000))
    u = y + e + 0.5 * z if shape == "location" else y + (1 + z) * e
    v = ConditionalCMI.from_outcome(y, z, 2)
    assert v(u, v.centres(u, 8)).value > 0.015
    assert rank_violation(y, u, z, 2) > 0.015


def test_an_output_that_is_a_function_of_the_outcome_has_no_violation_and_no_slope():
    y, _, z, _ = some(5)
    v = ConditionalCMI.from_outcome(y, z, 3)
    for u in (2.0 * y + 1.0, np.zeros(len(y))):
        found = v(u, AT)
        assert found.value < 0.02
        assert np.isfinite(found.gradient).all()


def test_the_rank_violation_is_unbiased_under_separation():
    """Mean of 40 samples within three standard errors of zero, also for outputs at 16 levels."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 2, 2_000)
        y = rng.normal(size=2_000) + 0.5 * z
        u = np.round(y + rng.normal(size=2_000), 0)
        found.append(rank_violation(y, u, z, 2))
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(40) + 5e-4
