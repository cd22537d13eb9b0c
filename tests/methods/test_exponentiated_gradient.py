"""Exponentiated Gradient: its constraint holds on the training rows, and ε is a path."""

from __future__ import annotations

import numpy as np
import pytest

from laws import group_rates, leaking
from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.methods._ruled import RuledNetworks

RECIPE = Recipe(hidden=(16,), epochs=6, min_steps=0, batch=256, learning_rate=2e-2, cosine=True)
EPSILONS = (0.01, 0.1)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return leaking(1500)


@pytest.fixture(scope="module")
def fitted(sample: Sample) -> RuledNetworks:
    lanes = [Lane(epsilon) for epsilon in EPSILONS]
    return methods.fit("exponentiated_gradient", sample, lanes, recipe=RECIPE, use_sensitive=False)


@pytest.mark.slow
def test_the_constraint_holds_on_the_training_rows(sample, fitted):
    """|P(U=1 | y, z) − P(U=1 | y)| ≤ ε, up to the gap at which fairlearn stops (below one over the
    root of n here).
    """
    erm = methods.fit("erm", sample, [Lane(0.0)], recipe=RECIPE, use_sensitive=False).posteriors(sample.X)
    erm_rates = group_rates((erm[0] > 0.5).astype(float), sample)
    assert np.ptp(erm_rates, axis=1).max() > 0.15
    for epsilon, q in zip(EPSILONS, fitted.posteriors(sample.X, sample.z), strict=True):
        rates = group_rates(q, sample)
        overall = np.array([q[sample.y == y, 1].mean() for y in (0, 1)])
        assert np.abs(rates - overall[:, None]).max() <= epsilon + 1 / np.sqrt(len(sample))


@pytest.mark.slow
def test_a_larger_epsilon_is_more_accurate(sample, fitted):
    right = fitted.posteriors(sample.X, sample.z)[:, np.arange(len(sample)), sample.y].mean(1)
    assert right[1] > right[0]


@pytest.mark.slow
def test_the_policy_mixes_hard_decisions_with_the_weights(sample, fitted):
    q = fitted.posteriors(sample.X, sample.z)
    for lane in range(2):
        mine = np.flatnonzero(fitted.lane == lane)
        assert fitted.share[mine].sum() == pytest.approx(1)
        decisions = fitted.base[mine].posteriors(sample.X).argmax(2)
        np.testing.assert_allclose(q[lane, :, 1], fitted.share[mine] @ decisions, atol=1e-12)


@pytest.mark.parametrize(
    ("sample", "lane", "message"),
    [
        (leaking(200), Lane(0.0), r"fairlearn's ε > 0.*got 0.0"),
        (leaking(200, 3), Lane(0.1), r"takes two labels; this sample has 3"),
        (Sample([[0.0], [1.0]], [0, 1], [0, 1], weight=[1.0, 2.0]), Lane(0.1), r"takes no sample weights"),
    ],
    ids=["epsilon", "labels", "weight"],
)
def test_errors(sample, lane, message):
    with pytest.raises(InputError, match=message):
        methods.fit("exponentiated_gradient", sample, [lane], recipe=RECIPE)
