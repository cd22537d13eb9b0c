"""Rows needed: the audit of that many rows does what was asked."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information
from separatrix.errors import InputError
from separatrix.statistics.certificates import sample_size, violation_bound
from separatrix.statistics.shuffling import p_value


def drawn(law, n, draws):
    rng = np.random.default_rng(5)
    names = [tuple(range(k)) for k in law.shape]
    for counts in rng.multinomial(n, law.ravel(), size=draws).reshape(-1, *law.shape):
        yield CountTable(counts.astype(float), *names, rows=n)


@pytest.mark.slow
@pytest.mark.parametrize("composition", ["observed", "population"])
def test_this_many_rows_certify_the_budget(composition):
    n = sample_size(max_violation=0.01, groups=3, composition=composition, power=0.8)
    law = np.full((2, 3, 2), 1 / 12)
    kept = [violation_bound(t, composition=composition) <= 0.01 for t in drawn(law, n, 80)]
    assert 0.66 < np.mean(kept) < 0.95


@pytest.mark.slow
def test_this_many_rows_detect_the_gap():
    n = sample_size(eo_gap=0.1, power=0.8)
    rates = np.array([[0.45, 0.55], [0.45, 0.55]])
    law = 0.25 * np.stack([1 - rates, rates], -1)
    found = [p_value(t) <= 0.05 for t in drawn(law, n, 80)]
    assert 0.68 < np.mean(found) < 0.95
    v = float(conditional_mutual_information(law))
    assert sample_size(violation=v, power=0.8) == n


@pytest.mark.slow
def test_fewer_rows_for_less():
    few, many = (sample_size(max_violation=x) for x in (0.02, 0.01))
    assert few < many
    assert sample_size(max_violation=0.01, composition="observed") < many
    skewed = sample_size(max_violation=0.02, shares=[[0.49, 0.01], [0.49, 0.01]])
    assert skewed > few


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "Pass one of"),
        ({"violation": 0.1, "eo_gap": 0.1}, "violation, eo_gap"),
        ({"max_eo_gap": 2.0}, "got 2.0"),
        ({"violation": 0.01, "power": 80}, "power"),
        ({"violation": 0.01, "groups": 1}, "groups"),
        ({"violation": 0.01, "shares": [1, 2]}, "shares"),
        ({"violation": 1e-12}, "rows"),
    ],
)
def test_errors_say_what_to_pass(wrong, said):
    with pytest.raises(InputError, match=said):
        sample_size(**wrong)
