"""FR-Train: the posterior says nothing of Z once Y is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from laws import leaking, reach


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3)], ids=str)
def test_a_strong_rival_cuts_the_violation_by_four_fifths_and_keeps_utility(sizes):
    reached = reach("fr_train", leaking(3000, *sizes), [0.0, 10.0])
    assert reached.v[0] > 0.03
    assert reached.v[1] < 0.2 * reached.v[0]
    assert reached.u[1] > 0.25 * reached.u[0]


@pytest.mark.nightly
def test_a_fresh_discriminator_falls_to_chance_on_posterior_and_label():
    sample = leaking()
    reached = reach("fr_train", sample, [0.0, 10.0])
    half = len(sample) // 2
    accuracy = []
    for q in reached.q:
        seen = np.c_[q, sample.y]
        probe = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(seen[:half], sample.z[:half])
        accuracy.append(probe.score(seen[half:], sample.z[half:]))
    assert accuracy[0] > 0.7
    assert accuracy[1] < 0.6
