"""Strategies and data that several rooms' tests share."""

from __future__ import annotations

import os

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

hypothesis.settings.register_profile("separatrix", deadline=None, derandomize=True)
hypothesis.settings.load_profile("separatrix")


@st.composite
def count_tables(draw: st.DrawFn, max_side: int = 4, sparse: bool = True) -> np.ndarray:
    """Tables N[y, z, u] with a positive total; hard or fractional counts, empty cells included."""
    shape = tuple(draw(st.integers(1, max_side)) for _ in range(3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["hard", "soft", "tiny"]))
    table = rng.poisson(draw(st.sampled_from([0.5, 3.0, 50.0])), shape).astype(float)
    if kind != "hard":
        table = rng.gamma(0.5, 1.0, shape) * (1e-6 if kind == "tiny" else 1.0)
    if sparse:
        table *= rng.random(shape) < draw(st.sampled_from([0.5, 0.9, 1.0]))
    table.flat[draw(st.integers(0, table.size - 1))] += 1.0
    return table


@pytest.fixture(scope="session")
def rng() -> np.random.Generator:
    return np.random.default_rng(20_261_115)


@pytest.fixture(scope="session")
def data_folder() -> str:
    """The folder of real data sets, where there is one."""
    folder = os.environ.get("SEPARATRIX_DATA", "")
    if not os.path.isdir(folder):
        pytest.skip("SEPARATRIX_DATA is not set to a folder of data sets")
    return folder
