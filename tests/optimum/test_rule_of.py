"""A rule has the rates that it was made for."""

from __future__ import annotations

import numpy as np

from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.roc.regions import roc_curve


def test_every_point_of_the_region_is_reached_also_along_the_first_edge():
    """Points on the first edge are a ray from (0, 0); rounding once made them a rule for nobody."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = 60
        score, y = rng.random(n), rng.integers(0, 2, n)
        y[:2] = 0, 1
        curve = roc_curve(score, (y == 1) * 1.0, (y == 0) * 1.0)
        chain = curve.rates[curve.hull]
        edge = int(rng.integers(0, min(len(chain) - 1, 3)))
        at = rng.random()
        point = rng.choice([1.0, 0.6]) * ((1 - at) * chain[edge] + at * chain[edge + 1])
        mass = np.array([[(y == 0).mean(), (y == 1).mean()]])
        rule = RocSolver((curve,), mass, groups=("a",)).rule(point[None])
        q = rule.predict_proba(score, sensitive_features=np.full(n, "a"))[:, 1]
        np.testing.assert_allclose([q[y == 0].mean(), q[y == 1].mean()], point, atol=1e-9)
