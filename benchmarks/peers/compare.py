"""Ours and the peers on the same rows, folds and trees, in four planes, with and without the group;
each peer in an environment of its own.

    python -m benchmarks.peers compare [--data compas ...] [--package oxonfair ...] [--seeds ...]
    python -m benchmarks.peers compare --only-page

The tables of peers.md (`rows.DATA`) and those of unseen.md (`rows.UNSEEN`). What is there already
is not traced again, so several may run side by side, each with its own `--data`. `--only-page`
writes the tables and the pictures of both pages, made of all that has been traced. `--quick`: two
folds and few points, does everything run?
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import product
from pathlib import Path

from benchmarks.peers import protocol
from benchmarks.peers.roster import COLOURS, LINES, OURS, SEEDS, Line, result_of
from benchmarks.peers.rows import FOLDER, TITLES, rows_of

QUICK = ("--quick", "--data", "compas", "--seeds", "4102", "--package", "separatrix")
QUICK += ("ThresholdOptimizer", "trees as they are")
PATIENCE, MEMORY = 1_800, 8 * 2**30  # seconds and bytes that a peer may take
ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# torch first and alone: as a bare dependency it would bring gigabytes of CUDA
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fairret": (("torch==2.13.0",), ("fairret==0.1.3",)),
    # its solver, ECOS, is no longer part of later cvxpy: named here so that it is installed in any
    # case
    "error-parity": (("error-parity==0.3.12", "ecos", "numpy<2", "scikit-learn==1.9.1"),),
    "oxonfair": (("oxonfair==0.3", "scikit-learn==1.9.1"),),
    "mifpo": (("dccp==1.0.5", "cvxpy==1.6.5", "matplotlib"),),  # later ones return another type
    # fairgbm calls scikit-learn by a name that 1.8 dropped
    "aequitas": (
        ("torch==2.13.0",),
        ("aequitas==1.1.0", "fairgbm==0.9.14", "fairlearn==0.12.0", "hydra-core", "hyperparameter-tuning==0.3.2"),
        ("lightgbm==4.6.0", "scikit-learn==1.7.2", "pandas<3", "pyarrow", "tqdm", "--editable", str(ROOT)),
    ),
    "abcfair": (
        ("torch==2.13.0",),
        ("fairret==0.1.3", "torchmetrics", "seaborn", "tqdm", "error-parity==0.3.12", "ecos"),
        ("lightgbm==4.7.0", "scikit-learn==1.9.1", "pandas<3", "pyarrow", "--editable", str(ROOT)),
        ("cvxpy==1.7.3",),  # error-parity asks for one that numpy 2 does not load
    ),
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
    return trace_rows(line, rows, out, folder, quick)


def trace_rows(line: Line, rows: Path, out: Path, folder: Path, quick: bool = False, folds: int = 0) -> bool:
    """Trace one series on a file of rows, a peer in its environment; whether it worked."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part.npz")
    if line.environment == OURS:
        module = import_module(f"benchmarks.peers.{line.module}")
        protocol.run(module.SERIES[line.name], module.PACKAGE, rows, part, quick, folds)
    else:
        python = str(python_of(line.environment, folder / "environments").absolute())
        command = [python, "-m", f"benchmarks.peers.{line.module}", str(rows.absolute())]
        command += [str(part.absolute()), line.name, "--folds", str(folds)]
        command += ["--quick"] if quick else []
        environment = os.environ | ONE_CORE
        environment.pop("PYTHONPATH", None)
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, timeout=PATIENCE, preexec_fn=_limit_memory)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            return False
    part.replace(out)
    return True


def _limit_memory() -> None:
    """A grid over the thresholds of many groups asks for more than there is."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main(
    data: Sequence[str] = tuple(TITLES),
    package: Sequence[str] = tuple(COLOURS),
    seeds: Sequence[int] = SEEDS,
    quick: bool = False,
    only_page: bool = False,
    folder: Path = FOLDER,
) -> None:
    """Trace what is not there yet; with `only_page` write what is."""
    if only_page:
        from benchmarks.peers import page

        page.write(folder)
        return
    failed = []
    for seed, name, line in product(seeds, data, LINES):
        wanted = line.package in package and (line.repeats > 1 or seed == SEEDS[0])
        if wanted and not trace(line, name, seed, folder, quick):
            failed.append(f"{line.name} on {name}")
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")
