"""Tracing a frontier, ours and the peers', each peer in an environment of its own, on the same rows
and the same five folds.

    python -m benchmarks.peers [--data adult-full ...] [--peer error-parity ...] [--quick]

What is there already is not traced again (`--fresh` does). It ends with the section of
peers.md, made of all that has been traced, and with all points in .bench/points.csv;
`--quick` (one fold, three points) only prints.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.peers import page
from benchmarks.peers.environments import python_of
from benchmarks.peers.measure import Traced, limit_of, read
from benchmarks.peers.roster import DATA, FINITE, OURS, PEERS, Peer
from separatrix import datasets
from separatrix.core.envelope import concave_envelope

ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def rows_of(name: str, folder: Path) -> Path:
    """The rows and folds of a dataset as one file that any environment can read."""
    file = folder / "rows" / f"{name}.npz"
    if not file.is_file():
        dataset, options, _ = DATA[name]
        data = datasets.load(dataset, **options)
        file.parent.mkdir(parents=True, exist_ok=True)
        X, fold = np.asarray(data.X, dtype=np.float32), datasets.folds(data.y, data.z)
        np.savez(file, X=X, y=data.y.astype(np.int64), z=data.z.astype(np.int64), fold=fold)
    return file


def result_of(data: str, series: str, folder: Path, quick: bool) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", series.lower()).strip("-")
    return folder / ("quick" if quick else "results") / data / f"{slug}.npz"


def trace(peer: Peer, series: str, data: str, folder: Path, quick: bool) -> bool:
    """Trace one series on one dataset in the peer's environment; whether it worked."""
    out = result_of(data, series, folder, quick)
    out.parent.mkdir(parents=True, exist_ok=True)
    python, environment = sys.executable, os.environ | ONE_CORE
    if peer.environment != OURS:
        python = str(python_of(peer.environment, folder / "environments").absolute())
        environment.pop("PYTHONPATH", None)
    print(f"{data}: {series}", flush=True)
    unfinished = out.with_suffix(".part.npz")
    command = [
        python,
        "-m",
        f"benchmarks.peers.{peer.module}",
        str(rows_of(data, folder).absolute()),
    ]
    command += [str(unfinished.absolute()), series, *(["--quick"] if quick else [])]
    if subprocess.run(command, cwd=ROOT, env=environment).returncode:
        return False
    unfinished.replace(out)
    return True


def section_of(data: str, paths: list[tuple[str, Traced]], folder: Path) -> page.Section:
    """The tables of a dataset; its limit is computed once and kept."""
    rows, kept = rows_of(data, folder), folder / "limits" / f"{data}.npz"
    finite = data in FINITE
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        found = limit_of(rows, finite)
        np.savez(kept, violation=found.violation, utility=found.utility)
    with np.load(kept) as curve:
        best = concave_envelope(curve["violation"], curve["utility"])
    return page.Section(data, DATA[data][2], paths, best, finite)


def collected(data: str, folder: Path, quick: bool) -> list[tuple[str, Traced]]:
    """Every series that has been traced on a dataset, with the peer that it is of."""
    found = []
    for name, peer in PEERS.items():
        for series in peer.series:
            file = result_of(data, series, folder, quick)
            if file.is_file():
                for decided in (False, True) if peer.soft else (False,):
                    found.append((name, read(file, rows_of(data, folder), series, decided)))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--peer", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--quick", action="store_true", help="one fold, three points, no page: does everything run?"
    )
    parser.add_argument("--fresh", action="store_true", help="trace again what is there")
    parser.add_argument(
        "--only-page", action="store_true", help="trace nothing, write the page from what is there"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".bench",
        help="environments and results, default .bench",
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "evidence")
    chosen = parser.parse_args(arguments)
    failed = []
    for data in () if chosen.only_page else chosen.data:
        for name in chosen.peer:
            for series in PEERS[name].series:
                there = result_of(data, series, chosen.folder, chosen.quick).is_file()
                if (chosen.fresh or not there) and not trace(
                    PEERS[name], series, data, chosen.folder, chosen.quick
                ):
                    failed.append(f"{series} on {data}")
    traced = {data: collected(data, chosen.folder, chosen.quick) for data in DATA}
    sections = [section_of(data, paths, chosen.folder) for data, paths in traced.items() if paths]
    for section in sections:
        for table in section.tables():
            print(table.text())
    if sections and not chosen.quick:
        (chosen.folder / "points.csv").write_text(page.points(sections).csv(), encoding="utf-8")
        print(page.write(sections, chosen.docs))
    if failed:
        sys.exit(f"failed: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
