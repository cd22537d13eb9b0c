"""Threshold Optimizer: fairlearn's policy as arrays, equal rates on the held-out rows, no silent
answer for a new group.
"""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import BaseEstimator

from laws import RECIPE, group_rates, leaking, reach
from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Sample
from separatrix.methods._ruled import normalised
from separatrix.methods.threshold_optimizer import HELD_OUT, _split


class Base(BaseEstimator):
    """The networks of one lane as a scikit-learn classifier."""

    def __init__(self, networks):
        self.networks = networks

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        raise AssertionError

    def predict_proba(self, Xz):
        return normalised(self.networks.posteriors(Xz[:, :-1], Xz[:, -1].astype(int)))[0]


@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_policy_is_fairlearns_own(n_groups):
    sample = leaking(2000, 2, n_groups)
    fitted = methods.fit("threshold_optimizer", sample, [Lane(0.0)], recipe=RECIPE, use_sensitive=False)
    Xz = np.c_[sample.X, sample.z]
    held_out = _split(sample, Lane(0.0))[1]
    peer = ThresholdOptimizer(
        estimator=Base(fitted.base), constraints="equalized_odds", prefit=True, predict_method="predict_proba"
    ).fit(Xz[held_out], sample.y[held_out], sensitive_features=sample.z[held_out])
    expected = peer._pmf_predict(Xz, sensitive_features=sample.z)
    np.testing.assert_allclose(fitted.posteriors(sample.X, sample.z)[0], expected, atol=1e-12)


def test_error_rates_are_equal_on_the_held_out_rows():
    sample = leaking()
    fitted = methods.fit("threshold_optimizer", sample, [Lane(0.0)], recipe=RECIPE, use_sensitive=False)
    rows = _split(sample, Lane(0.0))[1]
    held_out = Sample(sample.X[rows], sample.y[rows], sample.z[rows])
    rates = group_rates(fitted.posteriors(held_out.X, held_out.z)[0], held_out)
    np.testing.assert_allclose(rates[:, 0], rates[:, 1], atol=1e-9)
    assert rates[1, 0] > rates[0, 0] + 0.2


@pytest.mark.slow
def test_it_cuts_the_violation_of_erm_by_four_fifths():
    sample = leaking()
    assert reach("threshold_optimizer", sample, [0.0]).v[0] < 0.2 * reach("erm", sample, [0.0]).v[0]


def test_every_cell_is_split_in_the_same_share():
    sample = leaking(1000)
    rows, held_out = _split(sample, Lane(0.0, np.arange(0, 1000, 2), 3))
    assert sorted([*rows, *held_out]) == list(range(0, 1000, 2))
    for y in (0, 1):
        for z in (0, 1):
            n, k = (((sample.y[part] == y) & (sample.z[part] == z)).sum() for part in (rows, held_out))
            assert abs(k - HELD_OUT * (n + k)) <= 1


def test_errors():
    sample = leaking(400, 2, 3)
    seen = np.flatnonzero(sample.z < 2)
    fitted = methods.fit("threshold_optimizer", sample, [Lane(0.0, seen)], recipe=RECIPE)
    with pytest.raises(InputError, match="2"):
        fitted.posteriors(sample.X, sample.z)
    with pytest.raises(InputError, match="needs the group of every row"):
        methods.fit("threshold_optimizer", sample, [Lane(0.0)], recipe=RECIPE, use_sensitive=False).posteriors(sample.X)
    one_label = Sample(sample.X, np.where(sample.z == 1, 0, sample.y), sample.z)
    with pytest.raises(InputError, match="need at least two rows of each label in each group; group 1 has"):
        methods.fit("threshold_optimizer", one_label, [Lane(0.0)], recipe=RECIPE)
    with pytest.raises(InputError, match="takes two labels; this sample has 3"):
        methods.fit("threshold_optimizer", leaking(300, 3, 2), [Lane(0.0)], recipe=RECIPE)
