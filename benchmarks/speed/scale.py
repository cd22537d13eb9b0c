"""More processes and more machines: a sweep on Dask workers, audits of labels and of scores on Dask
and Spark, training on two ranks.

    python -m benchmarks.speed scale [sweep] [audit] [scores] [ranks] [--rows 40] [--write]

Wall time, workers already started and torch imported: a cluster lives longer than a job. Spark
needs Java 17; where pyspark is not installed beside separatrix it gets an environment of its own,
`.venv-spark`. `--write` stores the table of docs/howto/scale.md and the numbers behind it in
docs/evidence/performance/scale.json; parts that are not asked for keep theirs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial, reduce
from importlib.util import find_spec
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import DOCS, best, in_own_process, load, machine, publish
from benchmarks.speed.ranks import ranks

QUICK = ("ranks",)
FILES = 8
PARTS = ("sweep", "audit", "scores", "ranks")


def sweep() -> dict[str, Any]:
    """The same ten stacks (5 folds × 2 seeds, 11 λ each) in this process and on Dask workers."""
    from separatrix.frontier.sweep.jobs import Job, Source, grid
    from separatrix.frontier.sweep.runner import Execution, run

    stacks = grid([Source("adult")], [Job("cmi", changes=(("epochs", 6),))], folds=5, seeds=(0, 1))
    models = sum(len(stack.runs) for stack in stacks)

    def timed(workers: int) -> tuple[float, float]:
        """Wall seconds, and CPU seconds of the workers: what two free cores would divide between
        them.
        """
        from distributed import Client, LocalCluster

        with tempfile.TemporaryDirectory() as folder:
            if not workers:
                start, cpu = time.perf_counter(), time.process_time()
                run(stacks, folder)
                return time.perf_counter() - start, time.process_time() - cpu
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                client.run(_warm)
                start, cpu = time.perf_counter(), sum(client.run(time.process_time).values())
                run(
                    stacks,
                    folder,
                    Execution(backend="dask", scheduler=cluster.scheduler_address),
                )
                return time.perf_counter() - start, sum(
                    client.run(time.process_time).values()
                ) - cpu

    _warm()
    seconds, cpu = {}, {}
    for workers in (0, 1, 2):
        seconds[str(workers)], cpu[str(workers)] = timed(workers)
    return {"seconds": seconds, "cpu": cpu, "models": models, "stacks": len(stacks), "epochs": 6}


def _warm() -> None:
    import torch

    from separatrix import methods

    methods.get("cmi")
    torch.set_num_threads(1)


def write_parts(folder: str, millions: int, what: str) -> None:
    """Random labels, groups and either decisions u or scores s, in `FILES` Parquet files."""
    import duckdb

    share = millions * 1_000_000 // FILES
    last = {"labels": "(hash(i + 2) % 2)::TINYINT u", "scores": "(hash(i + 2) % 1000000) / 1e6 s"}
    for part in range(FILES):
        duckdb.execute(
            f"""COPY (SELECT (hash(i) % 2)::TINYINT y, ('g' || (hash(i + 1) % 3)) z,
            {last[what]} FROM range({part * share}, {(part + 1) * share}) t(i))
            TO '{folder}/part-{part}.parquet' (FORMAT parquet)"""
        )


def audited(frame: Any, what: str) -> Any:
    """The audit of a frame of any engine."""
    import separatrix as sx

    if what == "labels":
        return sx.audit(frame, target="y", sensitive_features="z", prediction="u")
    return sx.audit_score(frame, target="y", sensitive_features="z", prediction="s")


def audit_on_dask(folder: str, workers: int, what: str) -> dict[str, float]:
    """The audit of a Dask frame, and one table per file, counted by DuckDB, which are added; with
    the bytes that moved.
    """
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    files = [str(path) for path in sorted(Path(folder).glob("*.parquet"))]
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        frame = dd.read_parquet(files)

        def sent() -> int:
            return sum(
                client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values()
            )

        def as_frame() -> Any:
            return audited(frame, what)

        def as_tables() -> Any:
            tables = client.gather(client.map(_table_of, files, what=what, pure=False))
            return reduce(add, tables)

        expected, merged, before = as_frame(), as_tables(), sent()
        if what == "labels":
            np.testing.assert_array_equal(expected.table.counts, merged.counts)
        else:
            np.testing.assert_allclose(expected.auroc, merged.auroc()[0], atol=1e-9)
        as_frame()
        moved = sent() - before
        as_tables()
        return {
            "frame": best(as_frame, 2),
            "tables": best(as_tables, 2),
            "frame_bytes": moved,
            "tables_bytes": sent() - before - moved,
            "violation": expected.violation,
        }


def _table_of(path: str, what: str) -> Any:
    from separatrix.auditing.tables import count_rows, count_score_rows
    from separatrix.columns.engines import scan

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
        seconds = best(lambda: audited(frame, what), 3)
    finally:
        spark.stop()
    return {"seconds": seconds, "violation": a.violation}


def alone(folder: str, what: str) -> dict[str, float]:
    """One process that lets DuckDB read the files."""
    import separatrix as sx

    columns: dict[str, Any] = {"target": "y", "sensitive_features": "z"}
    if what == "labels":
        whole = partial(sx.audit, f"{folder}/*.parquet", prediction="u", **columns)
    else:
        whole = partial(sx.audit_score, f"{folder}/*.parquet", prediction="s", **columns)
    return {"seconds": best(whole, 3)}


def audit(millions: int, spark_python: str, what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_parts(folder, millions, what)
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**20
        dask = {str(w): in_own_process(__name__, "audit_on_dask", folder, w, what) for w in (1, 2)}
        spark = {
            str(c): in_own_process(__name__, "audit_on_spark", folder, c, what, python=spark_python)
            for c in (1, 2)
        }
        duckdb = in_own_process(__name__, "alone", folder, what)
    violations = {m["violation"] for m in (*dask.values(), *spark.values())}
    if max(violations) - min(violations) > 1e-12:
        raise ValueError(f"The engines disagree: {violations}.")
    return {
        "millions": millions,
        "mb": size,
        "dask": dask,
        "spark": spark,
        "duckdb": duckdb["seconds"],
    }


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


def lines_of(m: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table of docs/howto/scale.md."""
    s, r = m["sweep"], m["ranks"]
    what = f"sweep: {s['models']} networks on Adult, {s['stacks']} stacks"
    where = {"0": "this process, no Dask", "1": "1 Dask worker", "2": "2 Dask workers"}
    lines = [
        (
            what if w == "0" else "",
            where[w],
            f"{s['seconds'][w]:.1f} s ({s['cpu'][w]:.1f} s of CPU)",
            "" if w == "0" else f"{s['seconds']['1'] / s['seconds'][w]:.2f}×",
        )
        for w in where
    ]
    lines += _audit_lines(m["audit"], "labels", "`audit`")
    lines += _audit_lines(m["scores"], "scores", "`audit_score`") if "scores" in m else []
    what = f"training: {r['1']['parameters']:,} parameters, batch {r['batch']:,}"
    lines.append((what, "1 process", f"{1e3 * r['1']['step']:.0f} ms a step", ""))
    lines.append(
        ("", "2 processes, gloo, half a batch each", f"{1e3 * r['2']['step']:.0f} ms a step",
         f"{r['1']['step'] / r['2']['step']:.2f}×; in float64 the last layer differs by "
         f"{r['difference']:.0e} after 20 steps")
    )  # fmt: skip
    return lines


def _audit_lines(a: dict[str, Any], what: str, call: str) -> list[tuple[str, ...]]:
    head = f"audit of {what}: {a['millions']} M rows, {FILES} Parquet files, {a['mb']:.0f} MB"
    lines = [(head, "DuckDB, one process, two threads", f"{a['duckdb']:.2f} s", "")]
    kinds = {"tables": "one table per file, added", "frame": f"{call} of a Dask frame"}
    for kind, name in kinds.items():
        for w, own in a["dask"].items():
            gain = f"{a['dask']['1'][kind] / own[kind]:.2f}×"
            moved = f"{own[f'{kind}_bytes'] / 1e3:.1f} kB moved"
            where = f"{name}, {w} Dask worker{'s' * (w == '2')}"
            lines.append(("", where, f"{own[kind]:.2f} s", f"{gain}; {moved}"))
    for c, own in a["spark"].items():
        gain = f"{a['spark']['1']['seconds'] / own['seconds']:.2f}×"
        lines.append(("", f"{call} on Spark, local[{c}]", f"{own['seconds']:.2f} s", gain))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="part")
    parser.add_argument("--rows", type=int, default=40, help="millions of rows of the audit")
    parser.add_argument("--spark-python", help="a Python with pyspark and separatrix")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    numbers = DOCS / "evidence" / "performance" / "scale.json"
    measured = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {}
    for part in options.parts:
        before = load()
        if part in ("audit", "scores"):
            python = options.spark_python or spark_environment()
            what = "labels" if part == "audit" else part
            measured[part] = audit(options.rows, python, what)
        else:
            measured[part] = {"sweep": sweep, "ranks": ranks}[part]()
        measured[part]["load"] = before
        print(json.dumps({part: measured[part]}), file=sys.stderr, flush=True)
    if options.write:
        numbers.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
        head = ("work", "where", "wall time", "speed-up")
        publish("scale", head, lines_of(measured), write=True)
        loads = ", ".join(f"{part} {measured[part]['load']:.1f}" for part in PARTS)
        print(machine("dask", "torch", "duckdb"), f"Load when each part began: {loads}.")
