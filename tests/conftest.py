"""Settings of the suite, and the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("separatrix", deadline=None, derandomize=True)
hypothesis.settings.load_profile("separatrix")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where there is one."""
    folder = os.environ.get("SEPARATRIX_DATA", "")
    if not os.path.isdir(folder):
        pytest.skip("SEPARATRIX_DATA is not set to a folder of data sets")
    return Path(folder)
