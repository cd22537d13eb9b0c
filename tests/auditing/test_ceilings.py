"""Values that may not be exceeded."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix import audit
from separatrix.auditing.ceilings import DECISION_NAMES, SCORE_NAMES, exceeded, parse_ceilings, value_of
from separatrix.auditing.door import audit_score
from separatrix.errors import InputError


@pytest.fixture(scope="module")
def audits():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 800))
    s = rng.normal(size=800) + y + z
    return audit(y, (s > 1).astype(int), sensitive_features=z), audit_score(y, s, sensitive_features=z)


def test_every_name_can_be_exceeded_and_is_named(audits):
    for result, names in zip(audits, (DECISION_NAMES, SCORE_NAMES), strict=True):
        for name in names:
            value = value_of(result, name)
            assert exceeded(result, {name: value}) == ""
            assert exceeded(result, {name: value / 2}).startswith(f"{name} is ")
        assert exceeded(result, dict.fromkeys(names, -1.0)).count(" is ") == len(names)


def test_the_smallest_of_two_values_counts():
    assert parse_ceilings(["gap=0.2", "gap = 0.1"], SCORE_NAMES) == {"gap": 0.1}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("eo_gap=0.1", "There are violation, "),
        ("gap", "needs a number"),
        ("gap=x", "needs a number"),
        ("gap=nan", "needs a number"),
        ("", "knows no value ''"),
    ],
)
def test_a_bad_name_or_value_is_one_sentence(text, what):
    with pytest.raises(InputError, match=what):
        parse_ceilings([text], SCORE_NAMES)
