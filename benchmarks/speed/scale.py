"""More processes and more machines: a sweep on Dask workers, audits of labels and of scores on Dask
and Spark.

    python -m benchmarks.speed scale [sweep] [labels] [scores] [--rows 40] [--write]

Wall time, workers already started and torch imported: a cluster lives longer than a job. Spark
needs Java 17; where pyspark is not installed beside separatrix it gets an environment of its own,
`.venv-spark`. Each part has its own table in docs/howto/scale.md. `--rows` in millions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from importlib.util import find_spec
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import DOCS, best, in_own_process, machine, publish
from benchmarks.speed.rows import write_parquet

QUICK = ("sweep", "--epochs", "1")
FILES = 8
PARTS = ("sweep", "labels", "scores")
HEAD = ("where", "wall time", "speed-up", "note")
Line = tuple[str, str, str, str]


@contextmanager
def dask(workers: int) -> Iterator[Any]:
    """A client of so many worker processes on this machine."""
    from distributed import Client, LocalCluster

    how = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=workers, **how) as cluster, Client(cluster) as client:
        yield client


def sweep(epochs: int) -> list[Line]:
    """The same ten stacks (10 folds, 11 λ each) in this process and on Dask workers."""
    from separatrix.frontier.sweep import Execution, Job, Source, grid, run

    job = Job("cmi", changes=(("epochs", epochs),))
    stacks = grid([Source("adult")], [job], folds=10)
    models = sum(len(stack.runs) for stack in stacks)

    def timed(workers: int) -> tuple[float, float]:
        """Wall seconds, and CPU seconds of the workers: what two free cores would share."""
        with tempfile.TemporaryDirectory() as folder:
            if not workers:
                start, cpu = time.perf_counter(), time.process_time()
                run(stacks, folder)
                return time.perf_counter() - start, time.process_time() - cpu
            with dask(workers) as client:
                client.run(_warm)
                start, cpu = time.perf_counter(), sum(client.run(time.process_time).values())
                where = Execution(backend="dask", scheduler=client.cluster.scheduler_address)
                run(stacks, folder, where)
                took = time.perf_counter() - start
                return took, sum(client.run(time.process_time).values()) - cpu

    _warm()
    found = {workers: timed(workers) for workers in (0, 1, 2)}
    names = (f"this process, {models} networks on Adult", "1 Dask worker", "2 Dask workers")
    return [
        (names[w], f"{wall:.1f} s", f"{found[1][0] / wall:.2f}×" if w else "",
         f"{cpu:.1f} s of CPU")
        for w, (wall, cpu) in found.items()
    ]  # fmt: skip


def _warm() -> None:
    import torch

    from separatrix import methods

    methods.get("cmi")
    torch.set_num_threads(1)


def audited(frame: Any, what: str) -> Any:
    """The audit of a frame of any engine, or of files."""
    import separatrix as sx

    columns = {"target": "y", "sensitive_features": "z"}
    if what == "labels":
        return sx.audit(frame, prediction="u", **columns)
    return sx.audit_score(frame, prediction="s", **columns)


def audit_on_dask(folder: str, workers: int, what: str) -> dict[str, float]:
    """The audit of a Dask frame, and one table per file, counted by DuckDB, which are added; with
    the bytes that moved.
    """
    import dask.dataframe as dd

    files = [str(path) for path in sorted(Path(folder).glob("*.parquet"))]
    with dask(workers) as client:
        frame = dd.read_parquet(files)

        def sent() -> int:
            moved = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
            return sum(moved.values())

        def as_tables() -> Any:
            return reduce(add, client.gather(client.map(_table_of, files, what=what, pure=False)))

        expected, merged, before = audited(frame, what), as_tables(), sent()
        if what == "labels":
            np.testing.assert_array_equal(expected.table.counts, merged.counts)
        else:
            np.testing.assert_allclose(expected.auroc, merged.auroc()[0], atol=1e-9)
        audited(frame, what)
        moved = sent() - before
        as_tables()
        return {
            "frame": best(lambda: audited(frame, what), 2),
            "tables": best(as_tables, 2),
            "frame_bytes": moved,
            "tables_bytes": sent() - before - moved,
            "violation": expected.violation,
        }


def _table_of(path: str, what: str) -> Any:
    from separatrix.auditing.tables import count_rows, count_score_rows
    from separatrix.columns.readers import scan

    if what == "labels":
        return count_rows(path, y="y", z="z", pred="u")
    return count_score_rows(scan([Path(path)]), y="y", z="z", score="s")


def audit_on_spark(folder: str, cores: int, what: str) -> dict[str, float]:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
    }
    spark = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
    try:
        frame = spark.read.parquet(folder)
        a = audited(frame, what)
        return {"seconds": best(lambda: audited(frame, what), 3), "violation": a.violation}
    finally:
        spark.stop()


def alone(folder: str, what: str) -> dict[str, float]:
    """One process that lets DuckDB read the files."""
    return {"seconds": best(lambda: audited(f"{folder}/*.parquet", what), 3)}


def audit(millions: int, what: str) -> list[Line]:
    """One process, Dask and Spark on the same Parquet files."""
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, millions * 1_000_000, FILES)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**20
        workers = [in_own_process(__name__, "audit_on_dask", folder, w, what) for w in (1, 2)]
        spark = partial(in_own_process, python=spark_environment())
        cores = [spark(__name__, "audit_on_spark", folder, c, what) for c in (1, 2)]
        duckdb = in_own_process(__name__, "alone", folder, what)["seconds"]
    violations = {m["violation"] for m in (*workers, *cores)}
    if max(violations) - min(violations) > 1e-12:
        raise ValueError(f"The engines disagree: {violations}.")
    about = f"{millions} M rows of {what}, {FILES} files, {size:.0f} MB"
    lines = [(f"DuckDB, one process, two threads; {about}", f"{duckdb:.2f} s", "", "")]
    for kind, name in {"tables": "one table per file, added", "frame": "audit of a frame"}.items():
        for count, own in enumerate(workers, 1):
            moved = f"{own[f'{kind}_bytes'] / 1e3:.1f} kB moved"
            gain = f"{workers[0][kind] / own[kind]:.2f}×"
            lines.append((f"{name}, Dask workers: {count}", f"{own[kind]:.2f} s", gain, moved))
    for count, own in enumerate(cores, 1):
        gain = f"{cores[0]['seconds'] / own['seconds']:.2f}×"
        lines.append((f"Spark, local[{count}]", f"{own['seconds']:.2f} s", gain, ""))
    return lines


def spark_environment() -> str:
    """A Python that has pyspark and separatrix: this one, or an environment of its own beside the
    repository's.
    """
    if find_spec("pyspark"):
        return sys.executable
    root = DOCS.parent
    python = root / ".venv-spark" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(root / ".venv-spark")], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-e", f"{root}[spark]"]
        subprocess.run([*install, "-c", str(root / "constraints.txt")], check=True)
    return str(python)


def main(parts: Sequence[str] = PARTS, /, rows: int = 40, epochs: int = 6, write: bool = False) -> None:
    """Measure the parts that were asked for."""
    for part in parts:
        print(f"{part}: load of the cores by other jobs {os.getloadavg()[0]:.1f}", flush=True)
        lines = sweep(epochs) if part == "sweep" else audit(rows, part)
        publish(f"scale-{part}", HEAD, lines, write)
    print(machine("dask", "torch", "duckdb"))
