"""The noise floor of v: what groups that mean nothing would show."""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx
from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.information import conditional_mutual_information
from separatrix.statistics.shuffling import violation_floor


@pytest.mark.parametrize("softness", [0.0, 0.6])
def test_the_floor_is_the_mean_of_audits_with_groups_that_mean_nothing(softness):
    """Simulated: fresh groups, decisions that know the label only."""
    rng = np.random.default_rng(0)
    seen, floors = [], []
    for _ in range(40):
        y, z = rng.integers(0, 4, 1_500), rng.choice(3, 1_500, p=[0.7, 0.2, 0.1])
        u = np.where(rng.random(1_500) < 0.5, y, rng.integers(0, 4, 1_500))
        q = softness / 4 + (1 - softness) * np.eye(4)[u]
        table = count_posteriors(y, q, sensitive_features=z)
        if not softness:
            table = count_labels(y, u, sensitive_features=z)
        seen.append(float(conditional_mutual_information(table.counts)))
        floors.append(violation_floor(table))
    assert np.mean(floors) == pytest.approx(np.mean(seen), rel=0.1)


def test_an_audit_of_many_labels_prints_it_and_one_of_two_does_not():
    rng = np.random.default_rng(0)
    y, z, u = rng.integers(0, 3, (3, 600))
    a = sx.audit(y, u, sensitive_features=z)
    assert "a violation of this size is noise" in str(a)
    assert a.violation_floor == pytest.approx(a.violation, rel=0.8)
    two = sx.audit(y > 0, u > 0, sensitive_features=z)
    assert "a violation of this size is noise" not in str(two)
