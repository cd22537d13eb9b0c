"""Hypothesis strategies that several rooms' tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def count_tables(draw: st.DrawFn, max_side: int = 4) -> np.ndarray:
    """Tables N[y, z, u] with a positive total; hard, fractional or tiny counts, empty cells
    included.
    """
    shape = tuple(draw(st.integers(1, max_side)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["hard", "soft", "tiny"]))
    table = rng.poisson(draw(st.sampled_from([0.5, 3.0, 50.0])), shape).astype(float)
    if kind != "hard":
        table = rng.gamma(0.5, 1.0, shape) * (1e-6 if kind == "tiny" else 1.0)
    table *= rng.random(shape) < draw(st.sampled_from([0.5, 0.9, 1.0]))
    table.flat[draw(st.integers(0, table.size - 1))] += 1.0
    return table


@st.composite
def channels(draw: st.DrawFn, n_in: int) -> np.ndarray:
    """Stochastic matrices (n_in, n_out)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.dirichlet(np.full(draw(st.integers(1, 4)), 0.5), size=n_in)
