"""The table of scores against scikit-learn, numpy and brute force over all thresholds."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from separatrix.columns.counting import count_scores
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.core.score_tables import ScoreHistogram, ScoreTable, gap_curve, largest_gap
from separatrix.errors import InputError


def people(seed: int, n: int = 900, groups: int = 3, ties: bool = False, weighted: bool = False):
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, n), rng.integers(0, groups, n)
    s = rng.normal(size=n) + y + 0.3 * z * (1 - y)
    return np.round(s, 1) if ties else s, y, z, rng.random(n) if weighted else None


CASES = [
    pytest.param(people(0), id="continuous"),
    pytest.param(people(1, ties=True), id="ties"),
    pytest.param(people(2, weighted=True), id="weights"),
    pytest.param(people(3, ties=True, weighted=True, groups=2), id="ties and weights"),
    pytest.param(people(4, n=4_200, groups=5), id="several coarse bins"),
    pytest.param(people(5, n=40, groups=6), id="cells without rows"),
]


def decided(s, y, z, w, threshold):
    counts = np.zeros((2, z.max() + 1, 2))
    np.add.at(counts, (y, z, (s > threshold).astype(int)), 1.0 if w is None else w)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("rows", CASES)
def test_the_largest_gap_is_that_of_brute_force_over_all_thresholds(rows, monkeypatch):
    s, y, z, w = rows
    gaps = [float(eo_gap(decided(s, y, z, w, t))) for t in np.unique(s)]
    for entries_in_a_bin in (16, 300, 2_048):
        monkeypatch.setattr("separatrix.core.score_tables._ROWS", entries_in_a_bin)
        gap, at = largest_gap(count_scores(y, s, sensitive_features=z, sample_weight=w))
        assert gap == pytest.approx(max(gaps), abs=1e-12)
        assert float(eo_gap(decided(s, y, z, w, at))) == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize("rows", CASES)
def test_a_radius_gives_the_largest_gap_that_rates_so_near_can_have(rows):
    s, y, z, w = rows
    groups = int(z.max()) + 1
    radius = np.random.default_rng(0).random((2, groups)) / 5
    mass = decided(s, y, z, w, 0).sum(2)
    largest = 0.0
    for t in np.unique(s)[:: max(len(np.unique(s)) // 300, 1)]:
        rate = decided(s, y, z, w, t)[..., 1] / np.where(mass > 0, mass, np.nan)
        high, low = np.minimum(rate + radius, 1), np.maximum(rate - radius, 0)
        pairs = high[:, :, None] - low[:, None, :]
        pairs[:, np.arange(groups), np.arange(groups)] = np.nan
        largest = max(largest, float(np.nanmax(pairs, axis=(1, 2)).mean()))
    bound, _ = largest_gap(count_scores(y, s, sensitive_features=z, sample_weight=w), radius)
    assert largest - 1e-12 <= bound <= largest + (0.0 if len(np.unique(s)) < 600 else 0.01) + 1e-12


@pytest.mark.parametrize("rows", CASES[:5])
def test_auroc_is_scikit_learns(rows):
    s, y, z, w = rows
    whole, by_group = count_scores(y, s, sensitive_features=z, sample_weight=w).auroc()
    assert whole == pytest.approx(roc_auc_score(y, s, sample_weight=w), abs=1e-12)
    for group, area in by_group.items():
        one = z == group
        weight = None if w is None else w[one]
        assert area == pytest.approx(roc_auc_score(y[one], s[one], sample_weight=weight), abs=1e-12)


@pytest.mark.parametrize("rows", [CASES[0], CASES[1], CASES[4]])
@pytest.mark.parametrize("bins", [2, 7, 20])
def test_bins_are_those_of_numpy_quantiles(rows, bins):
    s, y, z, _ = rows
    edges = np.unique(np.quantile(s, np.linspace(0, 1, bins + 1)[1:-1]))
    counts = np.zeros((2, z.max() + 1, bins))
    np.add.at(counts, (y, z, np.digitize(s, edges)), 1)
    used = counts[:, :, counts.sum((0, 1)) > 0]
    assert_allclose(count_scores(y, s, sensitive_features=z).binned(bins).counts, used)


def test_weights_that_count_rows_give_the_bins_of_the_repeated_rows():
    s, y, z, _ = people(6, n=400)
    times = np.random.default_rng(0).integers(1, 4, 400)
    weighted = count_scores(y, s, sensitive_features=z, sample_weight=times)
    again = [np.repeat(x, times) for x in (s, y, z)]
    repeated = count_scores(again[1], again[0], sensitive_features=again[2])
    a, b = weighted.binned(10).counts * times.max(), repeated.binned(10).counts
    assert np.abs(a - b).sum() <= 2 * 10 * times.max()  # at most one row moves at an edge
    assert largest_gap(weighted)[0] == pytest.approx(largest_gap(repeated)[0])
    assert weighted.auroc()[0] == pytest.approx(repeated.auroc()[0])


def test_rows_of_weight_zero_are_no_rows():
    s, y, z, w = people(7, weighted=True)
    keep = np.arange(len(s)) % 3 > 0
    some = count_scores(y, s, sensitive_features=z, sample_weight=np.where(keep, w, 0))
    rest = count_scores(y[keep], s[keep], sensitive_features=z[keep], sample_weight=w[keep])
    assert_allclose(some.binned(20).counts, rest.binned(20).counts)
    assert some.rows == rest.rows


@pytest.mark.parametrize("change", [np.exp, lambda s: s**3, lambda s: -1 / (s + 9), np.float32])
def test_only_the_order_of_the_scores_matters(change):
    s, y, z, _ = people(8)
    s = s.astype(np.float32).astype(float)
    a, b = (count_scores(y, s, sensitive_features=z), count_scores(y, change(s), sensitive_features=z))
    assert_allclose(a.binned(20).counts, b.binned(20).counts)
    assert largest_gap(a)[0] == largest_gap(b)[0]
    assert a.auroc() == b.auroc()


@pytest.mark.parametrize("ties", [False, True])
def test_tables_of_parts_add_up(ties):
    s, y, z, _ = people(9, ties=ties)
    y[:300], z[300:600] = 0, 1  # a part without a label and one without two of the groups
    whole = count_scores(y, s, sensitive_features=z)
    parts = [slice(0, 300), slice(300, 600), slice(600, None)]
    tables = [count_scores(y[p], s[p], sensitive_features=z[p]) for p in parts]
    added = reduce(ScoreTable.__add__, tables)
    assert_allclose(added.binned(20).counts, whole.binned(20).counts)
    assert largest_gap(added) == pytest.approx(largest_gap(whole))
    assert added.auroc()[1] == pytest.approx(whole.auroc()[1])
    assert added.rows == whole.rows


def test_a_histogram_is_the_score_rounded_down_to_its_bins():
    s, y, z, _ = people(10)
    s = 1 / (1 + np.exp(-s))
    edges = np.linspace(0, 1, 65)
    at = np.minimum((s * 64).astype(int), 63)
    counts = np.zeros((2, 3, 64))
    np.add.at(counts, (y, z, at), 1)
    histogram = ScoreTable.from_histogram(ScoreHistogram(counts, edges, (0, 1), (0, 1, 2), len(s)))
    rounded = count_scores(y, at, sensitive_features=z)
    assert_allclose(histogram.binned(20).counts, rounded.binned(20).counts)
    assert histogram.auroc() == rounded.auroc()
    gap, t = largest_gap(histogram)
    assert gap == pytest.approx(largest_gap(rounded)[0])
    assert float(eo_gap(decided(s, y, z, None, t))) == pytest.approx(gap)  # `S > t` in either


def test_inside_the_bins_of_a_histogram_the_gap_is_bounded():
    for seed in range(20):
        s, y, z, _ = people(seed, n=300)
        at = np.floor(s * 2).astype(int) + 20
        counts = np.zeros((2, 3, 60))
        np.add.at(counts, (y, z, at), 1)
        histogram = ScoreTable.from_histogram(ScoreHistogram(counts, np.arange(61) / 2 - 10, (0, 1), (0, 1, 2), len(s)))
        exact = largest_gap(count_scores(y, s, sensitive_features=z))[0]
        assert largest_gap(histogram)[0] <= exact + 1e-12
        assert largest_gap(histogram, np.zeros((2, 3)), inside=True)[0] >= exact - 1e-12


def test_a_constant_score_has_one_bin_no_gap_and_half_the_area():
    s, y, z, _ = people(11)
    table = count_scores(y, np.full(len(s), 0.3), sensitive_features=z)
    assert table.binned(20).counts.shape == (2, 3, 1)
    assert largest_gap(table) == (0.0, 0.3)
    assert table.auroc()[0] == 0.5
    assert conditional_mutual_information(table.binned(20).counts) == 0


def test_the_gap_curve_is_the_gap_of_each_decision():
    s, y, z, _ = people(12, ties=True)
    binned = count_scores(y, s, sensitive_features=z).binned(20)
    expected = [float(eo_gap(decided(s, y, z, None, t))) for t in binned.values]
    assert_allclose(gap_curve(binned.counts), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("score", "what"),
    [
        ([0.1, np.nan, 0.3], "1 missing value"),
        ([0.1, np.inf, 0.3], "infinite value in row 1"),
        (["a", "b", "c"], "must be numbers"),
        ([[0.1, 0.9]] * 3, r"score\[:, 1\]"),
        ([0.1, 0.2], "same number of rows"),
    ],
)
def test_a_bad_score_is_refused_with_what_to_pass(score, what):
    with pytest.raises(InputError, match=what):
        count_scores([0, 1, 0], score, sensitive_features=[0, 1, 1])
