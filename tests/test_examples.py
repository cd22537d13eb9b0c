"""Every script in examples/ runs to its end, with warnings as errors where they are ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "examples"
NEEDS = {
    "skorch_net": "skorch",
    "metric_frame": "fairlearn",
    "pytorch_loop": "torch",
    "deploy": "torch",
    "gradient_boosting": "fairlearn",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "demo")
)
def test_the_example_runs(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
