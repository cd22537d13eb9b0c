"""Adversarial: h says nothing of Z any more; that is independence, not separation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from laws import RECIPE, dependent, leaking, reach
from separatrix import methods
from separatrix.methods import Lane


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3)], ids=str)
def test_a_strong_rival_cuts_the_violation_by_four_fifths_and_keeps_utility(sizes):
    reached = reach("adversarial", leaking(3000, *sizes), [0.0, 30.0])
    assert reached.v[0] > 0.03
    assert reached.v[1] < 0.2 * reached.v[0]
    assert reached.u[1] > 0.25 * reached.u[0]


@pytest.mark.nightly
def test_a_fresh_discriminator_falls_to_chance_on_h():
    sample = leaking()
    networks = methods.fit("adversarial", sample, [Lane(0.0), Lane(30.0)], recipe=RECIPE, use_sensitive=False)
    half = len(sample) // 2
    accuracy = []
    for lane in range(2):
        h = np.asarray(sample.X)
        for weight, bias in zip(networks.weights[:-1], networks.biases[:-1], strict=True):
            h = np.maximum(h @ weight[lane] + bias[lane], 0)
        probe = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(h[:half], sample.z[:half])
        accuracy.append(probe.score(h[half:], sample.z[half:]))
    assert accuracy[0] > 0.8
    assert accuracy[1] < 0.6


@pytest.mark.slow
def test_it_pays_for_independence_where_separation_is_free():
    """X ⟂ Z | Y, so ERM on X is separated already; hiding Z in h hides Y. `fr_train` has nothing to
    hide.
    """
    sample = dependent()
    hidden, conditional = (reach(name, sample, [0.0, 30.0]) for name in ("adversarial", "fr_train"))
    assert hidden.v[0] < 0.003
    assert hidden.u[1] < 0.5 * hidden.u[0]
    assert conditional.u[1] > 0.9 * conditional.u[0]


def test_a_lane_that_diverges_is_recorded_and_the_others_do_not_notice():
    sample = leaking(600)
    together = methods.fit("adversarial", sample, [Lane(1.0), Lane(1e300)], recipe=RECIPE)
    alone = methods.fit("adversarial", sample, [Lane(1.0)], recipe=RECIPE)
    assert together.status == ("ok", "diverged")
    q = together.posteriors(sample.X, sample.z)
    assert np.isnan(q[1]).all()
    np.testing.assert_allclose(q[0], alone.posteriors(sample.X, sample.z)[0], atol=1e-4)
