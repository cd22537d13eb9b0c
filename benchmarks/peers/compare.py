"""Ours and the peers on the same rows, folds and trees, in three planes, with and without the
group; each peer in an environment of its own.

    python -m benchmarks.peers compare [--data compas ...] [--package oxonfair ...] [--seeds ...]
    python -m benchmarks.peers compare --only-page
    python -m benchmarks.peers compare --print --data compas --seeds 2104 ...

What is there already is not traced again, so several may run side by side, each with its own
`--data`. `--only-page` writes the tables and the picture of peers.md, made of all that has been
traced. `--print` prints the short tables of other data or seeds, of packages that have
been traced there. `--quick`: two folds and few points, does everything run?
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.environments import python_of
from benchmarks.peers.roster import COLOURS, LINES, OURS, SEEDS, Line, result_of
from benchmarks.peers.rows import DATA, rows_of

QUICK = ("--quick", "--data", "compas", "--seeds", "2101", "--package", "separatrix")
QUICK += ("ThresholdOptimizer", "trees as they are")
ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--package", nargs="+", choices=COLOURS, default=list(COLOURS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--only", default="", help="series whose name begins so")
    parser.add_argument("--quick", action="store_true", help="does everything run?")
    parser.add_argument("--only-page", action="store_true", help="trace nothing")
    parser.add_argument("--print", action="store_true", help="short tables of these seeds")
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench" / "peers")
    chosen = parser.parse_args(arguments)
    failed = []
    for seed in () if chosen.only_page or chosen.print else chosen.seeds:
        for data in chosen.data:
            for line in LINES:
                wanted = line.package in chosen.package and line.name.startswith(chosen.only)
                known = SEEDS[: line.repeats] if line.repeats < len(SEEDS) else chosen.seeds
                if not wanted or seed not in known:
                    continue
                if not trace(line, data, seed, chosen.folder, chosen.quick):
                    failed.append(f"{line.name} on {data}")
    if chosen.only_page or chosen.print:
        from benchmarks.peers import page

        if chosen.only_page:
            page.write(chosen.folder)
        for plane in page.PLANES if chosen.print else ():
            table = page.short_table(chosen.folder, plane, False, chosen.data, chosen.seeds)
            page.publish(plane, *table, write=False)
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")
