"""What users may ask for."""

import numpy as np
import pytest

import separatrix as sx
from separatrix.errors import InputError


def test_an_impact_ratio_is_a_minimum():
    """The four-fifths rule is kept and promised; `limit` names the budget that it has instead."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 2_000)
    y = (rng.random(2_000) < 0.3 + 0.4 * z).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=2_000) + 2.0 * (y - 0.5) + z - 0.5)))
    model = sx.FrontierClassifier("precomputed", budgets={"impact_ratio": 0.8}, random_state=0)
    model.fit(np.column_stack([1 - p, p]), y, sensitive_features=z)
    promise = model.promise_["impact_ratio"]
    assert model.choice_ == "group rule"
    assert promise.low < 0.8 <= promise.value < promise.high
    with pytest.raises(InputError, match="impact_gap"):
        sx.limit(y, p, sensitive_features=z, budget="impact_ratio")
