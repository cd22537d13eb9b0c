"""Uniform: the corner (0, 0)."""

from __future__ import annotations

import numpy as np

from laws import leaking, reach


def test_no_violation_no_utility():
    reached = reach("uniform", leaking(500, 3, 3), [0.0, 0.7])
    np.testing.assert_allclose(reached.v, 0, atol=1e-12)
    np.testing.assert_allclose(reached.u, 0, atol=1e-12)
    np.testing.assert_allclose(reached.q, 1 / 3, rtol=1e-6)
