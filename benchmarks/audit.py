"""The audit against its limits and against fairlearn: speed and memory as ratios in one run.

    python -m benchmarks.audit [--rows 10] [--parquet-rows 100]        (millions)

Every measurement runs in a process of its own, so that peak memory is that of the measured work alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def best(work: Callable[[], Any], repeats: int = 7) -> float:
    """Shortest time in seconds: the work without what else the machine did."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arrays(millions: int, dtype: str) -> dict[str, float]:
    import separatrix as sx

    rng, n = np.random.default_rng(0), millions * 1_000_000
    y, z, u = (rng.integers(0, k, n, dtype=dtype) for k in (2, 3, 2))
    sx.audit(y[:1_000], u[:1_000], sensitive_features=z[:1_000])
    before = peak()
    sx.audit(y, u, sensitive_features=z)
    overhead = peak() - before
    table = best(lambda: sx.CountTable.from_labels(y, z, u))
    whole = best(lambda: sx.audit(y, u, sensitive_features=z))
    fused = (y.astype(np.intp) * 3 + z) * 2 + u
    limit = best(lambda: np.bincount(fused, minlength=12))
    naive = best(lambda: np.bincount((y * 3 + z) * 2 + u, minlength=12))
    return {"bincount": limit, "fuse+bincount": naive, "table": table, "audit": whole, "overhead_mb": overhead}


def raw_duckdb(pattern: str) -> dict[str, float]:
    import duckdb

    query = f"SELECT y, z, u, count(*) FROM read_parquet('{pattern}') GROUP BY ALL"
    return {"seconds": best(lambda: duckdb.connect().execute(query).fetchall(), 3), "peak_mb": peak()}


def through_duckdb(pattern: str) -> dict[str, float]:
    import separatrix as sx

    return {"seconds": best(lambda: sx.audit_files(pattern, y="y", z="z", pred="u"), 3), "peak_mb": peak()}


def against_metric_frame() -> dict[str, float]:
    from fairlearn.metrics import MetricFrame, false_negative_rate, false_positive_rate

    import separatrix as sx

    rng, n = np.random.default_rng(0), 20_000
    y, z, u = rng.integers(0, 2, n), rng.choice(["a", "b", "c"], n), rng.integers(0, 2, n)
    ours = best(lambda: sx.audit(y, u, sensitive_features=z))
    theirs = best(
        lambda: (
            MetricFrame(
                metrics={"fpr": false_positive_rate, "fnr": false_negative_rate},
                y_true=y,
                y_pred=u,
                sensitive_features=z,
                n_boot=200,
                ci_quantiles=[0.025, 0.975],
                random_state=0,
            ).by_group_ci
        ),
        1,
    )
    return {"ours": ours, "fairlearn": theirs}


def importing() -> dict[str, float]:
    def once(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5)

    return {
        "separatrix": once("import separatrix"),
        "python": once("pass"),
        "with audit": once("import separatrix as s; s.audit"),
    }


def write_parquet(folder: str, millions: int) -> str:
    import duckdb

    for part in range(4):
        duckdb.execute(
            f"""COPY (SELECT (hash(i) % 2)::TINYINT y, ('g' || (hash(i + 1) % 3)) z, (hash(i + 2) % 2)::TINYINT u
            FROM range({part * millions * 250_000}, {(part + 1) * millions * 250_000}) t(i))
            TO '{folder}/part-{part}.parquet' (FORMAT parquet)"""
        )
    return f"{folder}/part-*.parquet"


def in_own_process(name: str, *arguments: Any) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.audit", "--only", json.dumps([name, *arguments])]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10, help="millions of rows in memory")
    parser.add_argument("--parquet-rows", type=int, default=100, help="millions of rows on disk")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        name, *arguments = json.loads(options.only)
        print(json.dumps(globals()[name](*arguments)))
        return
    print("| what | measured | to reach |\n|---|---|---|")
    for dtype in ("int64", "int32", "int8"):
        m = in_own_process("arrays", options.rows, dtype)
        print(
            f"| {options.rows} M rows {dtype}, table | {m['table'] / m['bincount']:.2f}× np.bincount of the fused code, "
            f"{m['table'] / m['fuse+bincount']:.2f}× fusing and np.bincount, {options.rows / m['table']:.0f} Mrow/s | ≤ 1.5× |"
        )
        print(
            f"| … whole audit | {m['audit'] / m['bincount']:.2f}×, {1e3 * m['audit']:.0f} ms, "
            f"{m['overhead_mb']:.0f} MB over the arrays | < 200 MB |"
        )
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_parquet(folder, options.parquet_rows)
        size = sum(p.stat().st_size for p in Path(folder).iterdir()) / 2**20
        raw, ours = in_own_process("raw_duckdb", pattern), in_own_process("through_duckdb", pattern)
    print(
        f"| {options.parquet_rows} M rows of Parquet ({size:.0f} MB) | {ours['seconds'] / raw['seconds']:.2f}× the raw GROUP BY, "
        f"{ours['seconds']:.1f} s, peak {ours['peak_mb']:.0f} MB (raw {raw['peak_mb']:.0f}) | ≤ 1.5×, < 1 GB |"
    )
    m = in_own_process("against_metric_frame")
    print(
        f"| full audit, 20,000 rows, 3 groups | {m['fairlearn'] / m['ours']:.0f}× faster than MetricFrame(n_boot=200): "
        f"{1e3 * m['ours']:.1f} ms against {m['fairlearn']:.1f} s | ≥ 100× |"
    )
    m = in_own_process("importing")
    print(
        f"| import separatrix | {m['separatrix'] - m['python']:.2f} s; first audit {m['with audit']:.2f} s in all | < 0.5 s |"
    )


if __name__ == "__main__":
    main()
