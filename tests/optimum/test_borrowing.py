"""Small groups borrow what the rows say they may."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from separatrix.optimum.borrowing import ScoreTable, group_curves_borrowing


def sample(n, shift, seed=0, share=(0.8, 0.2), strength=(2.0, 2.0)):
    """Two groups; in the second the log odds lie `shift` higher than its base rate says."""
    rng = np.random.default_rng(seed)
    z = rng.choice(2, n, p=share)
    base = np.array([0.3, 0.1])[z]
    y = (rng.random(n) < base).astype(int)
    d = np.array(strength)[z]
    x = rng.normal(size=n) * np.sqrt(d) + (y - 0.5) * d + np.log(base / (1 - base)) + shift * z
    return expit(x), y, z


def test_equal_odds_ratios_are_borrowed_and_unequal_ones_are_not():
    alike, unlike = (
        group_curves_borrowing(ScoreTable.from_rows(*sample(4_000, shift), np.ones(4_000))) for shift in (0.0, 1.5)
    )
    assert alike.borrowed.min() > 30  # although base rates, and with them scores, differ
    assert unlike.borrowed.max() < 15


def test_the_curve_is_the_weighted_mean_of_the_rows_and_the_shifted_pool():
    s, y, z = sample(1_500, 0.0)
    plain = group_curves_borrowing(ScoreTable.from_rows(s, y, z, np.ones(1_500)), borrow=False)
    pulled = group_curves_borrowing(ScoreTable.from_rows(s, y, z, np.ones(1_500)))
    n, m = pulled.rows[1], pulled.borrowed[1]
    np.testing.assert_array_equal(n, [((y == k) & (z == 1)).sum() for k in (0, 1)])
    odds = np.log((n[1] + 0.5) / (n[0] + 0.5)), None
    total = [np.log(((y[z == g] == 1).sum() + 0.5) / ((y[z == g] == 0).sum() + 0.5)) for g in (0, 1)]
    aligned = np.log(s / (1 - s)) - np.array(total)[z]
    for t in np.quantile(s[z == 1], [0.3, 0.6, 0.9]):
        cut = np.log(t / (1 - t)) - odds[0]
        for k in range(2):
            own = (s[(z == 1) & (y == k)] >= t).mean()
            pool = (aligned[y == k] >= cut).mean()
            expected = (n[k] * own + m[k] * pool) / (n[k] + m[k])
            i = np.flatnonzero(pulled.curves[1].thresholds >= t - 1e-12)[-1]
            assert pulled.curves[1].rates[i, k] == pytest.approx(expected, abs=0.006)  # 200 atoms
    assert (plain.borrowed == 0).all()


def test_pulled_curves_of_like_groups_are_closer_to_the_law():
    grid = np.array([0.05, 0.1, 0.2, 0.4])
    s, y, _ = sample(100_000, 0.0, 99, share=(0.0, 1.0))
    exact = np.stack([(s[y == k][:, None] >= grid).mean(0) for k in range(2)], axis=1)

    def error(borrow):
        off = []
        for seed in range(12):
            rows = sample(800, 0.0, seed, share=(0.9, 0.1))
            curve = group_curves_borrowing(ScoreTable.from_rows(*rows, np.ones(800)), borrow=borrow).curves[1]
            place = np.searchsorted(-curve.thresholds, -grid, side="right") - 1
            off.append(np.abs(curve.rates[place] - exact).mean())
        return np.mean(off)

    assert error(True) < 0.85 * error(False)


def test_a_weight_of_two_everywhere_changes_nothing():
    s, y, z = sample(900, 0.3)
    one, two = (group_curves_borrowing(ScoreTable.from_rows(s, y, z, np.full(900, w))) for w in (1.0, 2.0))
    np.testing.assert_allclose(one.borrowed, two.borrowed)
    for a, b in zip(one.curves, two.curves, strict=True):
        np.testing.assert_allclose(a.rates, b.rates, atol=1e-12)


def test_a_group_without_one_label_borrows_nothing():
    s, y, z = sample(500, 0.0)
    y = np.where(z == 1, 0, y)
    found = group_curves_borrowing(ScoreTable.from_rows(s, y, z, np.ones(500)))
    assert (found.borrowed == 0).all()
    assert found.rows[1, 1] == 0
