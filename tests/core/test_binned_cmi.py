"""The soft-binned violation: counting, derivatives, data processing, and the paper's as a limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.core.binned_cmi import bins_below, centres, cmi_of_draws, cmi_of_scores, log_ratio
from separatrix.core.information import conditional_mutual_information, violation_gradient

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)


def people(seed: int, labels: int = 2, groups: int = 2, n: int = 60):
    """Scores, cells, the shape of the table and small whole weights."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, labels, n), rng.integers(0, groups, n)
    score = rng.normal(size=n) + y + 0.5 * z
    return score, y * groups + z, (labels, groups), rng.integers(1, 4, n).astype(float)


def counted(score, cell, shape, at, weight=None) -> float:
    """v of the table in which each row is spread over all hats, written out in full."""
    clipped = np.clip(score, at[0], at[-1])
    hats = np.stack([np.interp(clipped, at, one) for one in np.eye(len(at))], axis=1)
    table = np.zeros((shape[0] * shape[1], len(at)))
    np.add.at(table, cell, hats if weight is None else hats * weight[:, None])
    return float(conditional_mutual_information(table.reshape(*shape, len(at))))


@given(seeds, sizes, sizes, st.integers(2, 9), st.booleans())
def test_the_value_is_the_violation_of_the_counted_table(seed, labels, groups, bins, weighted):
    score, cell, shape, w = people(seed, labels, groups)
    weight = w if weighted else None
    at = centres(score, bins, weight)
    found = cmi_of_scores(score, cell, shape, at, weight).value
    assert found == pytest.approx(counted(score, cell, shape, at, weight), abs=1e-12)


@given(seeds, sizes)
def test_scores_on_the_centres_are_hard_bins(seed, groups):
    score, cell, shape, _ = people(seed, 2, groups)
    score = np.round(score)
    at = np.unique(score)
    table = np.zeros((shape[0] * groups, len(at)))
    np.add.at(table, (cell, np.searchsorted(at, score)), 1.0)
    expected = conditional_mutual_information(table.reshape(*shape, len(at)))
    assert cmi_of_scores(score, cell, shape, at).value == pytest.approx(float(expected), abs=1e-12)


@given(seeds, sizes, sizes, st.booleans())
def test_the_gradient_is_that_of_finite_differences(seed, labels, groups, weighted):
    score, cell, shape, w = people(seed, labels, groups)
    weight, at = w if weighted else None, np.linspace(-1.5, 2.5, 5)
    found = cmi_of_scores(score, cell, shape, at, weight).gradient
    step = 1e-6
    for row in range(0, 60, 7):
        if np.abs(score[row] - at).min() < 1e-3:  # the hats have a corner there
            continue
        moved = [score.copy(), score.copy()]
        moved[0][row] += step
        moved[1][row] -= step
        up, down = (counted(s, cell, shape, at, weight) for s in moved)
        assert found[row] == pytest.approx((up - down) / (2 * step), abs=2e-6)


@given(seeds, sizes, st.integers(2, 4), st.booleans())
def test_the_gradient_of_draws_is_that_of_finite_differences(seed, groups, labels, weighted):
    _, cell, shape, w = people(seed, labels, groups)
    weight = w if weighted else None
    logits = np.random.default_rng(seed).normal(size=(60, labels))

    def value(moved: np.ndarray) -> float:
        p = np.exp(moved) / np.exp(moved).sum(1, keepdims=True)
        return cmi_of_draws(p, cell, shape, weight).value

    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    found = cmi_of_draws(p, cell, shape, weight)
    table = np.zeros((shape[0] * groups, labels))
    np.add.at(table, cell, p if weight is None else p * weight[:, None])
    law = conditional_mutual_information(table.reshape(*shape, labels))
    assert found.value == pytest.approx(float(law), abs=1e-12)
    for row in range(0, 60, 11):
        change = np.zeros_like(logits)
        change[row, row % labels] = 1e-6
        slope = (value(logits + change) - value(logits - change)) / 2e-6
        assert found.gradient[row, row % labels] == pytest.approx(slope, abs=1e-7)


@given(seeds, sizes, st.booleans())
def test_two_centres_and_the_sigmoid_are_the_paper_s_draw(seed, groups, weighted):
    """K = 2 at 0 and 1: value and derivative at the logit are those of the drawn posterior."""
    score, cell, shape, w = people(seed, 2, groups)
    weight, p = w if weighted else None, 1.0 / (1.0 + np.exp(-score))
    binned = cmi_of_scores(p, cell, shape, np.array([0.0, 1.0]), weight)
    drawn = cmi_of_draws(np.stack([1.0 - p, p], axis=1), cell, shape, weight)
    assert binned.value == pytest.approx(drawn.value, abs=1e-12)
    np.testing.assert_allclose(binned.gradient * p * (1 - p), drawn.gradient[:, 1], atol=1e-12)
    alone = cmi_of_draws(p, cell, shape, weight)  # one logit instead of two
    assert alone.value == pytest.approx(drawn.value, abs=1e-12)
    np.testing.assert_allclose(alone.gradient, drawn.gradient[:, 1], atol=1e-12)


@given(seeds, sizes, st.integers(2, 6), st.integers(1, 6))
def test_more_centres_see_no_less(seed, groups, bins, more):
    """Data processing: a hat is a mixture of the hats of a finer grid, and the score sees most."""
    score, cell, shape, _ = people(seed, 2, groups)
    coarse = centres(score, bins)
    extra = np.random.default_rng(seed).uniform(coarse[0], coarse[-1], more)
    fine = np.unique(np.concatenate([coarse, extra]))
    values = [cmi_of_scores(score, cell, shape, at).value for at in (coarse, fine, np.unique(score))]
    assert values[0] <= values[1] + 1e-12
    assert values[0] <= values[2] + 1e-12


@given(seeds, st.integers(2, 8))
def test_a_monotone_map_moves_rows_within_their_bins_only(seed, bins):
    score, cell, shape, _ = people(seed)
    at = centres(score, bins)
    mapped, at_mapped = np.exp(score) + score**3, centres(np.exp(score) + score**3, bins)
    np.testing.assert_allclose(at_mapped, np.exp(at) + at**3)
    inner = ~np.isin(score, at)
    a, b = bins_below(score[inner], at), bins_below(mapped[inner], at_mapped)
    np.testing.assert_array_equal(a, b)
    bent = np.interp(score, at, at_mapped)  # linear between the centres: nothing changes
    values = (cmi_of_scores(score, cell, shape, at), cmi_of_scores(bent, cell, shape, at_mapped))
    assert values[0].value == pytest.approx(values[1].value, abs=1e-12)


@given(seeds, st.integers(2, 8))
def test_weights_are_repetitions(seed, bins):
    score, cell, shape, w = people(seed)
    times = w.astype(int)
    many, cells = np.repeat(score, times), np.repeat(cell, times)
    at = centres(score, bins, w)
    np.testing.assert_array_equal(at, centres(many, bins))
    one = cmi_of_scores(score, cell, shape, at, w)
    other = cmi_of_scores(many, cells, shape, at)
    assert one.value == pytest.approx(other.value, abs=1e-12)
    np.testing.assert_allclose(np.repeat(one.gradient / w, times), other.gradient, atol=1e-12)


@given(seeds)
def test_the_ratio_is_the_derivative_of_the_counts_and_finite_in_empty_cells(seed):
    rng = np.random.default_rng(seed)
    table = rng.poisson(2.0, (2, 3, 4)) * (rng.random((2, 3, 4)) < 0.8) + 0.0
    table[0, 0, 0] += 1.0
    found = log_ratio(table)
    assert np.isfinite(found).all()
    seen = table > 0
    np.testing.assert_allclose(found[seen], violation_gradient(table)[seen], atol=1e-12)


def test_beyond_the_outer_centres_nothing_moves():
    score, cell, shape, _ = people(0)
    found = cmi_of_scores(score, cell, shape, np.array([-0.5, 0.5]))
    outside = (score < -0.5) | (score > 0.5)
    assert outside.any()
    assert (found.gradient[outside] == 0).all()
    assert (found.gradient[~outside] != 0).any()


def test_one_level_has_no_violation():
    score, cell, shape, _ = people(0)
    found = cmi_of_scores(np.zeros_like(score), cell, shape, centres(np.zeros(60), 16))
    assert found.value == 0
    assert not found.gradient.any()
