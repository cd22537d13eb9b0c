"""Points on the frontier of a product of ROC regions, against a root finder of scipy's."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logit

from separatrix.optimum.roc.regions import _root_on_edge


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_the_maximiser_on_an_edge_is_where_the_slope_vanishes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 20
    start = rng.uniform(0.0, 0.6, (n, 2)) * rng.integers(0, 2, (n, 1))
    edge = (1.0 - start) * rng.uniform(1e-4, 1.0, (n, 2)) ** np.where(rng.random((n, 1)) < 0.3, 0.0, 1.0)
    pull, xi = rng.uniform(0.01, 1.0, (n, 2)) * edge, rng.normal(0.0, 8.0, (n, 2))

    def slope(i: int, position: float) -> float:
        return float((pull[i] * (xi[i] - logit(np.clip(start[i] + position * edge[i], 1e-300, 1 - 2.0**-53)))).sum())

    for i, found in enumerate(_root_on_edge(start, edge, pull, xi).tolist()):
        if slope(i, 0.0) <= 0 or slope(i, 1.0) >= 0:
            assert found == (0.0 if slope(i, 0.0) <= 0 else 1.0)
        else:
            assert found == pytest.approx(brentq(partial(slope, i), 0.0, 1.0, xtol=1e-15), rel=1e-7, abs=1e-12)
