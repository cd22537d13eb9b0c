"""PiecewiseLinear: a linear layer on them is any piecewise-linear curve, and a network keeps them
wherever it goes.
"""

from dataclasses import replace

import numpy as np
import pytest

from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import NO_PIECES, Networks, PiecewiseLinear

RECIPE = Recipe(hidden=(8,), epochs=3, min_steps=60, batch=128, learning_rate=1e-2, piecewise_linear=6)


@pytest.fixture
def column():
    """A number that half of all rows share, and a smooth rest."""
    rng = np.random.default_rng(3)
    return np.where(rng.random(2_000) < 0.5, 1.0, rng.normal(size=2_000)).astype(np.float32)


@pytest.fixture
def sample(column):
    rng = np.random.default_rng(4)
    X = np.column_stack([column, rng.integers(0, 2, 2_000)])
    z = rng.integers(0, 2, 2_000)
    y = (rng.random(2_000) < np.where(column == 1.0, 0.9, 0.2 + 0.1 * z)).astype(int)
    return Sample(X, y, z)


def test_a_linear_layer_on_the_ramps_is_any_curve_between_the_knots(column):
    piecewise_linear = PiecewiseLinear.from_rows(column[:, None], np.arange(len(column)), 8)
    knots = np.r_[piecewise_linear.low, piecewise_linear.low[-1] + piecewise_linear.width[-1]].astype(np.float64)
    heights = np.random.default_rng(0).normal(size=len(knots))
    x = np.linspace(knots[0], knots[-1], 501)
    rising = piecewise_linear.encode(x[:, None])[:, 1:].astype(np.float64) @ np.diff(heights) + heights[0]
    assert rising == pytest.approx(np.interp(x, knots, heights), abs=1e-4)


def test_a_value_that_many_share_can_jump(column):
    piecewise_linear = PiecewiseLinear.from_rows(column[:, None], np.arange(len(column)), 8)
    (at,) = np.flatnonzero(piecewise_linear.low == 1.0)
    assert piecewise_linear.low[at] + piecewise_linear.width[at] == pytest.approx(column[column > 1.0].min())
    assert piecewise_linear.low[at - 1] == column[column < 1.0].max()


def test_only_the_training_rows_count(column):
    changed = column.copy()
    changed[1_000:] += 100.0
    a, b = (PiecewiseLinear.from_rows(x[:, None], np.arange(1_000), 8) for x in (column, changed))
    assert np.array_equal(a.low, b.low)
    assert np.array_equal(a.width, b.width)


def test_two_values_need_no_ramp_and_embeddings_get_none():
    rng = np.random.default_rng(0)
    assert not len(PiecewiseLinear.from_rows(rng.integers(0, 2, (100, 3)), np.arange(100), 8))
    assert not len(PiecewiseLinear.from_rows(rng.normal(size=(100, 65)), np.arange(100), 8))
    assert len(PiecewiseLinear.from_rows(rng.normal(size=(100, 64)), np.arange(100), 8))
    assert not len(PiecewiseLinear.from_rows(rng.normal(size=(100, 2)), np.arange(100), 0))


def test_ramps_of_scaled_columns_are_ramps_of_the_columns(column):
    mean, scale = np.array([5.0]), np.array([3.0])
    scaled = PiecewiseLinear.from_rows(column[:, None], np.arange(len(column)), 8)
    x = column[:, None] * scale + mean
    piecewise_linear, same = (scaled.encode(column[:, None])[:, 1:], scaled.unscaled(mean, scale).encode(x)[:, 1:])
    assert same == pytest.approx(piecewise_linear, abs=1e-3)  # x ≈ 8 in single precision over the least width, 3e-3


@pytest.mark.slow
def test_networks_learn_the_jump_that_plain_ones_miss(sample):
    long = replace(RECIPE, epochs=20)
    policies = {
        piecewise_linear: methods.fit(
            "erm", sample, [Lane(0.0)], recipe=replace(long, piecewise_linear=piecewise_linear)
        )
        for piecewise_linear in (0, 6)
    }
    x = np.array([[1.0, 0.0], [0.9, 0.0]], dtype=np.float32)
    jump = {
        piecewise_linear: np.ptp(p.posteriors(x, np.zeros(2, dtype=int))[0, :, 1])
        for piecewise_linear, p in policies.items()
    }
    assert jump[6] > 0.3 > jump[0]


def test_rows_read_batch_by_batch_train_the_same_networks(sample, monkeypatch):
    fits = []
    for limit in (1 << 28, 0):
        monkeypatch.setattr("separatrix.nn.rows._IN_MEMORY", limit)
        fits.append(methods.fit("cmi", sample, [Lane(0.3)], recipe=RECIPE))
    assert np.array_equal(fits[0].weights[0], fits[1].weights[0])


def test_networks_are_saved_and_cut_with_their_ramps(sample):
    networks = methods.fit("cmi", sample, [Lane(0.0), Lane(0.5)], recipe=RECIPE)
    q = networks.posteriors(sample.X, sample.z)
    assert np.array_equal(Networks.restore(networks.arrays()).posteriors(sample.X, sample.z), q)
    assert np.array_equal(networks[[1]].posteriors(sample.X, sample.z), q[1:])
    assert networks.piecewise_linear is not NO_PIECES


def test_bad_numbers_of_pieces_are_refused():
    with pytest.raises(InputError, match="got 1"):
        Recipe(piecewise_linear=1)


def test_expgrad_says_that_it_has_none(sample):
    pytest.importorskip("fairlearn")
    with pytest.raises(InputError, match="piecewise_linear=0"):
        methods.fit("exponentiated_gradient", sample, [Lane(0.05)], recipe=RECIPE)
