"""Two predictions of the same rows: the interval holds and is narrower than a union."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix import audit, compare
from separatrix.core.information import conditional_mutual_information


def rows(rng, n, copies, agree):
    """Predictions that copy the group for some rows; b differs from a in a few rows."""
    y, z = rng.integers(0, 2, n), rng.integers(0, 2, n)
    flip = rng.random(n) < 0.2
    a = np.where(rng.random(n) < copies, z, y ^ flip)
    return y, z, a, np.where(rng.random(n) < agree, a, y ^ (rng.random(n) < 0.2))


@pytest.mark.slow
@pytest.mark.parametrize(("copies", "agree"), [(0.0, 0.9), (0.0, 0.0), (0.2, 0.9), (0.2, 0.5)])
def test_the_interval_covers_the_change(copies, agree):
    rng, big = np.random.default_rng(0), np.random.default_rng(1)
    y, z, a, b = rows(big, 2_000_000, copies, agree)
    truth = 0.0
    for u, sign in ((a, 1.0), (b, -1.0)):
        counts = np.bincount(4 * y + 2 * z + u, minlength=8).reshape(2, 2, 2)
        truth += sign * float(conditional_mutual_information(counts))
    covered = 0
    for _ in range(120):
        y, z, a, b = rows(rng, 800, copies, agree)
        low, high = compare(a, b, y_true=y, sensitive_features=z).interval
        covered += low <= truth <= high
    assert covered / 120 >= 0.9


def test_it_is_narrower_than_a_union_and_zero_for_the_same():
    rng = np.random.default_rng(0)
    y, z, a, b = rows(rng, 3_000, 0.2, 0.9)
    paired = compare(a, b, y_true=y, sensitive_features=z)
    union = compare(audit(y, a, sensitive_features=z), audit(y, b, sensitive_features=z))
    assert np.ptp(paired.interval) < 0.5 * np.ptp(union.interval)
    assert paired.change == pytest.approx(union.change)
    same = compare(a, a, y_true=y, sensitive_features=z)
    assert same.interval == pytest.approx((0.0, 0.0), abs=1e-9)


def test_small_cells_get_the_union():
    rng = np.random.default_rng(0)
    y, z, a, b = rows(rng, 60, 0.2, 0.9)
    audits = [audit(y, u, sensitive_features=z) for u in (a, b)]
    assert not all(one.estimable for one in audits)
    assert compare(a, b, y_true=y, sensitive_features=z) == compare(*audits)
