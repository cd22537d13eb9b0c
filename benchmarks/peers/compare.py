"""Ours and the peers on the same rows, folds and trees, in three planes, with and without the
group; each peer in an environment of its own.

    python -m benchmarks.peers compare [--data compas ...] [--package oxonfair ...] [--seeds ...]
    python -m benchmarks.peers compare --only-page
    python -m benchmarks.peers compare --show --data compas --seeds 2104 ...

What is there already is not traced again, so several may run side by side, each with its own
`--data`. `--only-page` writes the tables and the picture of peers.md, made of all that has been
traced. `--show` prints the short tables of other data or seeds, of packages that have
been traced there. `--quick`: two folds and few points, does everything run?
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.peers.roster import COLOURS, LINES, OURS, SEEDS, Line, result_of
from benchmarks.peers.rows import DATA, rows_of

QUICK = ("--quick", "--data", "compas", "--seeds", "2101", "--package", "separatrix")
QUICK += ("ThresholdOptimizer", "trees as they are")
ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
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


def trace(line: Line, data: str, seed: int, folder: Path, quick: bool) -> bool:
    """Trace one series on one dataset in its environment; whether it worked."""
    out = result_of(data, seed, line, folder / "quick" if quick else folder)
    if out.is_file():
        return True
    print(f"{data}, {seed}: {line.name}", flush=True)
    rows = rows_of(data, seed, folder, joint=seed == SEEDS[0])
    return trace_rows(line, rows, out, folder, *(["--quick"] if quick else []))


def trace_rows(line: Line, rows: Path, out: Path, folder: Path, *options: str) -> bool:
    """Trace one series on a file of rows in its environment; whether it worked."""
    out.parent.mkdir(parents=True, exist_ok=True)
    python, environment = sys.executable, os.environ | ONE_CORE
    if line.environment != OURS:
        python = str(python_of(line.environment, folder / "environments").absolute())
        environment.pop("PYTHONPATH", None)
    part = out.with_suffix(".part.npz")
    command = [python, "-m", f"benchmarks.peers.{line.module}", str(rows.absolute())]
    command += [str(part.absolute()), line.name, *options]
    if subprocess.run(command, cwd=ROOT, env=environment).returncode:
        return False
    part.replace(out)
    return True


def main(
    data: Sequence[str] = tuple(DATA),
    package: Sequence[str] = tuple(COLOURS),
    seeds: Sequence[int] = SEEDS,
    only: str = "",
    quick: bool = False,
    only_page: bool = False,
    show: bool = False,
    folder: Path = ROOT / ".bench" / "peers",
) -> None:
    failed = []
    for seed in () if only_page or show else seeds:
        for name, line in product(data, LINES):
            wanted = line.package in package and line.name.startswith(only)
            known = SEEDS[: line.repeats] if line.repeats < len(SEEDS) else seeds
            if wanted and seed in known and not trace(line, name, seed, folder, quick):
                failed.append(f"{line.name} on {name}")
    if only_page or show:
        from benchmarks.peers import page

        if only_page:
            page.write(folder)
        for plane in page.PLANES if show else ():
            table = page.short_table(folder, plane, False, data, seeds)
            page.publish(plane, *table, write=False)
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")
