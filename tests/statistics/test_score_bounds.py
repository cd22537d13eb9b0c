"""The bound over all thresholds fails no more often than it says; shuffling is a floor."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.columns.counting import count_scores
from separatrix.core.information import conditional_mutual_information
from separatrix.core.score_tables import gap_curve, largest_gap
from separatrix.statistics.bounds import gap_bound, mean_radius, rate_radius, shared_budget
from separatrix.statistics.shuffling import shuffled_tables

CELLS = np.array([[40, 300], [15, 120]])  # rows of each label and group


def farthest(rng, n: int, weight: np.ndarray | None, times: int) -> np.ndarray:
    """sup |F̂ − F| of n uniform scores, many times."""
    s = rng.random((times, n))
    order = np.argsort(s, axis=1)
    w = np.full(n, 1.0) if weight is None else weight
    below = np.cumsum(w[order], axis=1) / w.sum()
    s = np.take_along_axis(s, order, 1)
    before = np.concatenate([np.zeros((times, 1)), below[:, :-1]], axis=1)
    return np.maximum(np.abs(below - s), np.abs(before - s)).max(1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_all_rates_are_within_the_radius_as_often_as_promised(weighted, confidence):
    rng, times = np.random.default_rng(0), 1_500
    weight = [rng.lognormal(0, 1, n) if weighted else None for n in CELLS.flat]
    cells = zip(CELLS.flat, weight, strict=True)
    inverse = np.array([1 / n if w is None else (w * w).sum() / w.sum() ** 2 for n, w in cells])
    radius = rate_radius(inverse, int(CELLS.sum()) if weighted else 0, confidence)
    outside = np.zeros(times, dtype=bool)
    for n, w, one in zip(CELLS.flat, weight, radius, strict=True):
        outside |= farthest(rng, int(n), w, times) > one
    error = 1 - confidence
    assert outside.mean() <= error + 2.6 * np.sqrt(error * confidence / times)
    if not weighted:
        assert outside.mean() >= error / 4  # and it is no wider than need be


@pytest.mark.parametrize("weighted", [False, True])
def test_the_cells_keep_their_shared_budget_as_often_as_promised(weighted):
    rng, times, spent = np.random.default_rng(5), 1_500, np.zeros(1_500)
    for n in CELLS.flat:
        w = rng.lognormal(0, 1, n) if weighted else np.ones(n)
        one = (w * w).sum() / w.sum() ** 2
        over = farthest(rng, int(n), w, times) - mean_radius(one, weighted * int(CELLS.sum()))
        spent += 2 * np.maximum(over, 0) ** 2 / one
    for error in (0.05, 0.3):
        fails = (spent > shared_budget(CELLS.size, error, weighted)).mean()
        assert fails <= error
        if not weighted:
            assert (spent > shared_budget(CELLS.size, error, weighted) / 2).mean() > error


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_the_gap_bound_is_the_worst_gap_of_rates_within_the_budget(groups):
    """Spending the budget on any cells never reaches beyond the bound, whichever way it takes."""
    rng = np.random.default_rng(groups)
    y, z = rng.integers(0, 2, 3_000), rng.integers(0, groups, 3_000)
    table = count_scores(y, rng.normal(size=3_000) + y + 0.2 * z, sensitive_features=z)
    gap, bound = largest_gap(table)[0], gap_bound(table)
    n = np.sort(table.totals[0], axis=1)[:, -2:]
    budget = shared_budget(2 * groups, 0.05, False)
    assert bound >= gap + min(np.sqrt(budget * (1 / n).sum() / 8), 0.1)
    assert bound <= largest_gap(table, rate_radius(1 / table.totals[0], 0, 0.95))[0] + 1e-9


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gap_bound_covers_the_largest_gap_of_the_population(weighted):
    """Scores are U^a in one group and U^b in the other: the true rates are known at every t."""
    power, t = np.array([[1.0, 2.0], [0.5, 1.2]]), np.linspace(0, 1, 4_001)
    rates = 1 - t ** (1 / power[..., None])
    truth = np.abs(rates[:, 0] - rates[:, 1]).mean(0).max()
    rng, times, fails, bounds = np.random.default_rng(1), 300, 0, []
    y, z = (np.repeat([0, 0, 1, 1], CELLS.flat), np.repeat([0, 1, 0, 1], CELLS.flat))
    weight = rng.lognormal(0, 0.7, len(y)) if weighted else None
    for _ in range(times):
        s = rng.random(len(y)) ** power[y, z]
        bounds.append(gap_bound(count_scores(y, s, sensitive_features=z, sample_weight=weight), 0.8))
        fails += bounds[-1] < truth
    assert fails / times <= 0.2 + 2.6 * np.sqrt(0.16 / times)
    assert np.mean(bounds) < 1  # it says something


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_under_separation_the_floor_is_what_is_seen(weighted):
    """The mean of the plug-in v and of the largest gap over samples is the mean of their floors."""
    rng, seen, floor = np.random.default_rng(2), [], []
    n = 400
    for seed in range(150):
        y, z = rng.integers(0, 2, n), rng.choice(3, n, p=[0.2, 0.3, 0.5])
        weight = rng.uniform(0.3, 1, n) if weighted else None
        table = count_scores(y, rng.normal(size=n) + y, sensitive_features=z, sample_weight=weight)
        few, many = table.binned(5), table.binned(400)
        mass, squares = table.totals
        effective = mass**2 / squares if weighted else None
        null = shuffled_tables(few.counts, 10, seed, effective)
        null_gap = gap_curve(shuffled_tables(many.counts, 10, seed, effective)).max(-1)
        seen.append([conditional_mutual_information(few.counts), largest_gap(table)[0]])
        floor.append([conditional_mutual_information(null).mean(), null_gap.mean()])
    off = np.array(seen) - np.array(floor)
    error = off.std(0) / np.sqrt(len(off))
    # effective rows stand for weighted ones: right up to a twentieth
    assert (np.abs(off.mean(0)) < 3 * error + 0.05 * weighted * np.mean(floor, 0)).all()


def test_shuffled_tables_are_those_of_shuffled_rows():
    rng = np.random.default_rng(3)
    y, z = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    s = rng.normal(size=300) + y + z
    drawn = shuffled_tables(count_scores(y, s, sensitive_features=z).binned(6).counts, 2_000)
    rows = []
    for _ in range(600):
        mixed = z.copy()
        for label in (0, 1):
            mixed[y == label] = rng.permutation(z[y == label])
        rows.append(count_scores(y, s, sensitive_features=mixed).binned(6).counts)
    a, b = conditional_mutual_information(drawn), conditional_mutual_information(np.array(rows))
    assert abs(a.mean() - b.mean()) < 4 * np.hypot(a.std() / 2_000**0.5, b.std() / 600**0.5)
    np.testing.assert_array_equal(drawn.sum(2), np.broadcast_to(rows[0].sum(1), (2_000, 2, 6)))


def test_large_labels_are_drawn_by_multinomials_with_the_same_floor(monkeypatch):
    counts = np.random.default_rng(4).integers(20, 60, (2, 3, 8)).astype(float)
    exact = conditional_mutual_information(shuffled_tables(counts, 1_500))
    monkeypatch.setattr("separatrix.statistics.shuffling._EXACT_ROWS", 10)
    drawn = conditional_mutual_information(shuffled_tables(counts, 1_500))
    assert drawn.mean() == pytest.approx(exact.mean(), rel=0.05)
