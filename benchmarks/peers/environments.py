"""A virtual environment for each peer that does not go with ours, made once: pip by name, with the
versions that were measured.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# torch first and alone: as a bare dependency it would bring gigabytes of CUDA
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fairret": (("torch==2.13.0",), ("fairret==0.1.3",)),
    # its solver, ECOS, is no longer part of later cvxpy: named here so that it is installed in any
    # case
    "error-parity": (("error-parity==0.3.12", "ecos", "numpy<2", "scikit-learn==1.9.1"),),
    "oxonfair": (("oxonfair==0.3", "scikit-learn==1.9.1"),),
}


def python_of(name: str, folder: Path) -> Path:
    """The interpreter of an environment; makes the environment where it is not there yet or asks
    for other versions.
    """
    place = folder / name
    python, ready = place / "bin" / "python", place / "ready"
    wanted = repr(REQUIREMENTS[name])
    if ready.is_file() and ready.read_text() == wanted:
        return python
    print(f"environment {name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    for packages in REQUIREMENTS[name]:
        quiet = ("--quiet", "--quiet", "--disable-pip-version-check")
        subprocess.run([str(python), "-m", "pip", "install", *quiet, *packages], check=True)
    ready.write_text(wanted)
    return python
