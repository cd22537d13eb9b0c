"""Aligned scores: maps that rise, few levels, less violation for more penalty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.core.conditional_cmi import rank_violation
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.scores.align import PENALTIES, AlignedScore, Numeric, RisingMaps, _cells, align, alignment_path


def rows(seed, n=4000, groups=2):
    """Each group's score is a rising function of its own of a separated one."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, groups, n)
    y = rng.normal(size=n) + z
    x = y + 0.8 * rng.normal(size=n)
    return y, (1 + 0.5 * z) * x + 0.1 * x**3 * (z == 0), z


def aged(seed, n=4000):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 80, n)
    y = rng.normal(size=n) + np.sin(age / 20)
    return y, y + 0.7 * rng.normal(size=n) + 0.03 * (age - 50), age


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 30.0]), st.integers(2, 20))
def test_maps_rise_and_levels_are_no_more_than_asked(seed, penalty, levels):
    y, s, z = rows(seed, 600, groups=3)
    found = align(y, s, sensitive_features=z, penalty=penalty, levels=levels)
    assert (np.diff(found.values, axis=1) >= 0).all()
    assert len(found.levels) <= levels
    assert (np.diff(found.levels) > 0).all()
    grid = np.linspace(s.min() - 1, s.max() + 1, 200)
    for group in range(3):
        assert (np.diff(found.transform(grid, sensitive_features=np.full(200, group))) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "continuous"])
def test_the_violation_falls_along_the_path_and_r2_is_its_price(kind):
    y, s, z = rows(0) if kind == "groups" else aged(0)
    y2, s2, z2 = rows(1, 20_000) if kind == "groups" else aged(1, 20_000)
    path = alignment_path(y, s, sensitive_features=z, sensitive=kind)
    assert [one.penalty for one in path] == list(PENALTIES)
    out = [one.transform(s2, sensitive_features=z2) for one in path]
    code = z2 if kind == "groups" else (z2 // 8).astype(int) - 2
    v = [rank_violation(y2, u, code, int(code.max()) + 1) for u in out]
    r2 = [1 - np.mean((y2 - u) ** 2) / y2.var() for u in out]
    assert v[-1] < 0.15 * v[0]
    assert v[0] > v[2] > v[4]
    assert r2[0] >= max(r2) - 0.002
    assert r2[-1] > 0.3


def test_the_gradient_of_the_programme_is_that_of_finite_differences():
    y, s, z = rows(2, 500)
    problem = RisingMaps(Numeric(y, s, z, (0, 1)))
    steps = problem.start() + 0.05
    at = np.array([-1.6, -0.8, 0.03, 0.9, 1.7])
    found = problem.loss(steps, 3.0, at)
    direction = np.random.default_rng(0).normal(size=steps.shape)
    ends = [problem.loss(steps + e * direction, 3.0, at).value for e in (-1e-7, 1e-7)]
    slope = (found.gradient * direction).sum()
    assert slope == pytest.approx((ends[1] - ends[0]) / 2e-7, rel=1e-4)


def test_at_no_penalty_it_is_least_squares_over_rising_maps():
    """No rising piecewise linear map with these knots has a smaller squared error."""
    from scipy.optimize import lsq_linear

    y, s, z = rows(3, 2000)
    problem = RisingMaps(Numeric(y, s, z, (0, 1)))
    steps = problem.descend(problem.start(), 0.0)
    sums = np.kron(np.eye(2), np.tril(np.ones((steps.shape[1],) * 2)))
    design = np.vstack([problem.basis @ sums * np.sqrt(problem.share)[:, None], np.sqrt(problem.pull) * sums])
    wanted = np.append(problem.target * np.sqrt(problem.share), np.sqrt(problem.pull) * problem.line)
    low = np.where(np.arange(steps.size) % steps.shape[1] == 0, -np.inf, 0.0)
    best = lsq_linear(design, wanted, (low, np.inf)).cost * 2
    assert problem.loss(steps, 0.0, np.array([])).value == pytest.approx(best, abs=1e-5)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.integers(1, 4))
def test_cells_have_the_least_squared_error_of_all(values, levels):
    from itertools import combinations

    u = np.array(values, dtype=float)
    cuts = _cells(u, np.ones(len(u)) / len(u), levels)
    distinct = np.unique(u)

    def within(edges):
        place = np.searchsorted(np.asarray(edges, dtype=float), u, side="right")
        return sum(np.sum((u[place == k] - u[place == k].mean()) ** 2) for k in np.unique(place))

    most = min(levels, len(distinct)) - 1
    assert len(cuts) <= most
    best = min(within(edges) for edges in combinations(distinct[1:], most))
    assert within(cuts) == pytest.approx(best, abs=1e-9)


def test_the_map_changes_smoothly_with_a_numeric_attribute():
    """Between two knots of the attribute the output is linear in it, so close people are close."""
    y, s, age = aged(4)
    found = align(y, s, sensitive_features=age, sensitive="continuous", penalty=3.0)
    a, b = found.attribute_knots[3:5]
    score = np.full(3, 0.5)
    left, middle, right = found.aligned(score, np.array([a, 0.5 * (a + b), b]))
    assert middle == pytest.approx(0.5 * (left + right), abs=1e-12)
    ages = np.linspace(18, 80, 500)
    assert np.abs(np.diff(found.aligned(np.full(500, 0.5), ages))).max() < 0.1


@pytest.mark.slow
def test_two_labels_with_a_numeric_attribute():
    rng = np.random.default_rng(5)
    age = rng.uniform(18, 80, 8000)
    y = (rng.normal(size=8000) + age / 30 > 1.6).astype(int)
    s = y + rng.normal(size=8000) + age / 30
    words = np.array(["no", "yes"])[y]
    raw, found = (align(words, s, sensitive_features=age, sensitive="continuous", penalty=p) for p in (0, 30))
    assert raw.violation > 0.02
    assert found.violation < 0.005
    assert 0 <= found.levels[0] < found.levels[-1] <= 1


@pytest.mark.slow
def test_a_budget_is_kept_on_unseen_rows():
    y, s, z = rows(6, 2000)
    y2, s2, z2 = rows(7, 40_000)
    found = align(y, s, sensitive_features=z, max_violation=0.01, cv=2)
    assert 0.0 < found.penalty < PENALTIES[-1]
    v = rank_violation(y2, found.transform(s2, sensitive_features=z2), z2, 2)
    assert v < 0.015


@pytest.mark.slow
def test_a_budget_that_rows_cannot_keep_is_refused_with_the_least():
    rng = np.random.default_rng(8)
    y, z = rng.normal(size=1000), rng.integers(0, 2, 1000)
    s = y + np.where(z == 1, 0.1, 1.0) * rng.normal(size=1000)  # no map makes a score noisier
    with pytest.raises(InfeasibleError, match="no rising map is expected") as told:
        align(y, s, sensitive_features=z, max_violation=1e-9, cv=2)
    assert told.value.smallest["violation"] > 0.01


def test_few_rows_of_a_group_follow_the_line_of_all():
    y, s, z = rows(9, 3000)
    y, s, z = np.append(y, [6.0]), np.append(s, [0.0]), np.append(z, [2])
    found = align(y, s, sensitive_features=z, penalty=0.0)
    assert np.abs(found.transform([-1.0, 0.0], sensitive_features=[2, 2])).max() < 3.0


def test_arrays_make_it_again():
    y, s, z = rows(10, 800)
    found = align(y, s, sensitive_features=z, penalty=1.0)
    again = AlignedScore.from_arrays(found.groups, found.arrays())
    a, b = (one.transform(s, sensitive_features=z) for one in (found, again))
    assert (a == b).all()


def test_weights_are_repetitions():
    y, s, z = rows(11, 800)
    w = np.random.default_rng(0).integers(0, 3, 800)
    found = align(y, s, sensitive_features=z, penalty=0.0, sample_weight=w)
    twice = align(*(np.repeat(x, w) for x in (y, s)), sensitive_features=np.repeat(z, w), penalty=0)
    assert found.r2 == pytest.approx(twice.r2, abs=0.01)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"levels": 1}, "`levels` must be a whole number from 2 on, got 1"),
        ({"penalty": -1.0}, "`penalty` must be finite and not negative, got -1"),
        ({"penalty": 1.0, "max_violation": 0.1}, "Pass `penalty` or `max_violation`, not both"),
        ({"sensitive": "age"}, "`sensitive` must be one of groups, continuous, got 'age'"),
        ({"y_true": np.ones(200)}, "`y_true` is the same in all 200 rows"),
        ({"y_true": ["a", "b", "c", "c"] * 50}, "`y_true` must be numbers, or two labels"),
        ({"sensitive_features": [0, 1]}, "sensitive_features"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    y, s, z = rows(12, 200)
    given_ = {"y_true": y, "scores": s, "sensitive_features": z, **change}
    with pytest.raises(InputError, match=sentence):
        align(**given_)


def test_an_unseen_group_is_refused():
    y, s, z = rows(13, 400)
    found = align(y, s, sensitive_features=z, penalty=0.0)
    with pytest.raises(InputError, match="holds 7, which is not one of 0, 1"):
        found.transform([0.0], sensitive_features=[7])
