"""The audit against its limits and against its peers: speed and memory as ratios in one run.

    python -m benchmarks.speed audit [memory] [scores] [peers] [files] [start] [--rows 10 100]
    [--parquet-rows 10 100] [--write]

Every measurement runs in a process of its own, so that peak memory is that of the measured work
alone. The shortest of several repetitions counts, for us and for the peers. Rows in millions.
`--write` stores the tables of docs/evidence/performance.md; parts not asked for keep theirs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import best, in_own_process, machine, peak, publish
from benchmarks.speed.rows import write_parquet

QUICK = ("memory", "start", "--rows", "1")
PARTS = ("memory", "scores", "peers", "files", "start")
LEVELS = (2, 3, 2)  # labels, groups, predictions


def columns(millions: float, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, k, int(millions * 1e6), dtype=dtype) for k in LEVELS]


def arrays(millions: int, dtype: str) -> dict[str, float]:
    """Seconds of the audit and of its parts; `reading` is one pass over the three columns on two
    threads; the engines only count.
    """
    from concurrent.futures import ThreadPoolExecutor

    import duckdb
    import polars as pl
    import pyarrow as pa

    import separatrix as sx
    from separatrix.columns.counting import count_labels

    y, z, u = columns(millions, dtype)
    sx.audit(y[:1_000], u[:1_000], sensitive_features=z[:1_000])
    before = peak()
    sx.audit(y, u, sensitive_features=z)
    overhead = peak() - before
    repeats = max(300 // millions, 12)  # short, and many: one of them finds both cores free
    halves = [column[part] for column in (y, z, u) for part in (slice(len(y) // 2), slice(len(y) // 2, None))]
    with ThreadPoolExecutor(2) as pool:
        reading = best(lambda: list(pool.map(np.bitwise_or.reduce, halves)), repeats)
    frame, connection = pl.DataFrame({"y": y, "z": z, "u": u}), duckdb.connect()
    connection.register("rows", pa.table({"y": y, "z": z, "u": u}))
    query = "SELECT y, z, u, count(*) FROM rows GROUP BY ALL"
    start, times = time.process_time(), 5
    for _ in range(times):
        count_labels(y, u, sensitive_features=z)
    return {
        "cpu": (time.process_time() - start) / times,
        "reading": reading,
        "table": best(lambda: count_labels(y, u, sensitive_features=z), repeats),
        "audit": best(lambda: sx.audit(y, u, sensitive_features=z), repeats),
        "numpy": best(lambda: np.bincount((y.astype(np.intp) * 3 + z) * 2 + u, minlength=12), 6),
        "overhead": overhead,
        "polars": best(lambda: frame.group_by("y", "z", "u").len(), 6),
        "duckdb": best(lambda: connection.execute(query).fetchall(), 6),
    }


def posteriors(millions: int) -> dict[str, float]:
    import separatrix as sx

    y, z, _ = columns(millions, "int64")
    p = np.random.default_rng(1).random(len(y))
    q = np.column_stack([1.0 - p, p])
    return {"audit": best(lambda: sx.audit(y, q, sensitive_features=z), 3), "peak": peak()}


def scikit_learn(millions: int) -> dict[str, float]:
    """v = Σ_y P(y) · I(U; Z | Y = y) and u from `mutual_info_score`, against our whole audit on the
    same rows.
    """
    from sklearn.metrics import mutual_info_score

    import separatrix as sx

    y, z, u = columns(millions, "int64")

    def theirs() -> tuple[float, float]:
        v = sum((y == label).mean() * mutual_info_score(u[y == label], z[y == label]) for label in (0, 1))
        return float(v), float(mutual_info_score(y, u))

    ours = sx.audit(y, u, sensitive_features=z)
    np.testing.assert_allclose(theirs(), (ours.violation, ours.utility), rtol=1e-4, atol=1e-9)
    return {"ours": best(lambda: sx.audit(y, u, sensitive_features=z)), "theirs": best(theirs, 2)}


def metric_frame(rows: int, bootstraps: int, kind: str) -> dict[str, float]:
    """Rates per group from fairlearn, with intervals where `bootstraps` is not 0, against our whole
    audit.
    """
    from fairlearn.metrics import MetricFrame, false_negative_rate, false_positive_rate

    import separatrix as sx

    y, z, u = columns(rows / 1e6, "int64")
    z = np.array(["a", "b", "c"])[z] if kind == "strings" else z
    resampled = {"n_boot": bootstraps, "ci_quantiles": [0.025, 0.975], "random_state": 0} if bootstraps else {}

    def theirs() -> Any:
        metrics = {"fpr": false_positive_rate, "fnr": false_negative_rate}
        frame = MetricFrame(metrics=metrics, y_true=y, y_pred=u, sensitive_features=z, **resampled)
        return frame.by_group_ci if bootstraps else frame.by_group

    return {"ours": best(lambda: sx.audit(y, u, sensitive_features=z)), "theirs": best(theirs, 1)}


def parquet(pattern: str, engine: str) -> dict[str, float]:
    if engine == "separatrix":
        import separatrix as sx

        seconds = best(lambda: sx.audit(pattern, target="y", sensitive_features="z", prediction="u"), 3)
    elif engine == "duckdb":
        import duckdb

        query = f"SELECT y, z, u, count(*) FROM read_parquet('{pattern}') GROUP BY ALL"
        seconds = best(lambda: duckdb.connect().execute(query).fetchall(), 3)
    else:
        import polars as pl

        grouped = pl.scan_parquet(pattern).group_by("y", "z", "u").len()
        seconds = best(lambda: grouped.collect(engine="streaming"), 3)
    return {"seconds": seconds, "peak": peak()}


def importing() -> dict[str, float]:
    def once(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5)

    return {
        "python": once("pass"),
        "separatrix": once("import separatrix"),
        "audit": once("import separatrix as s; s.audit([0, 1, 1], [0, 1, 0], sensitive_features=[0, 1, 1])"),
    }


def in_memory(sizes: list[int], write: bool) -> None:
    rows = []
    for millions in sizes:
        for dtype in ("int64", "int32", "int8"):
            m = in_own_process(__name__, "arrays", millions, dtype)
            rows.append(
                (
                    f"{millions} M", dtype, f"{millions / m['audit']:.0f}",
                    f"{millions / m['table']:.0f}", f"{1e3 * m['cpu'] / millions:.1f} ns",
                    f"{m['table'] / m['reading']:.1f}×", f"{m['overhead']:.0f} MB",
                    f"{m['numpy'] / m['audit']:.1f}×", f"{m['polars'] / m['audit']:.1f}×",
                    f"{m['duckdb'] / m['audit']:.1f}×",
                )
            )  # fmt: skip
    head = (
        "rows", "codes", "whole audit, Mrow/s", "table only, Mrow/s", "CPU time a row",
        "table against one read of the columns", "memory over the arrays",
        "faster than numpy", "than polars", "than DuckDB",
    )  # fmt: skip
    publish("audit-memory", head, rows, write)


def against_peers(rows: int, write: bool) -> None:
    lines = []
    m = in_own_process(__name__, "scikit_learn", rows)
    lines.append(
        (f"scikit-learn: v and u by mutual_info_score, {rows} M rows", f"{m['theirs']:.2f} s",
         f"{1e3 * m['ours']:.0f} ms", f"{m['theirs'] / m['ours']:.0f}×", "≥ 50×")
    )  # fmt: skip
    cases = ((2_000_000, 0, "integers", "≥ 1000×"), (2_000_000, 0, "strings", ""), (20_000, 200, "strings", ""))
    for n, bootstraps, kind, goal in cases:
        m = in_own_process(__name__, "metric_frame", n, bootstraps, kind)
        what = f"with intervals, n_boot={bootstraps}" if bootstraps else "rates without intervals"
        lines.append(
            (f"fairlearn MetricFrame: {what}, {n:,} rows, groups as {kind}", f"{m['theirs']:.2f} s",
             f"{1e3 * m['ours']:.1f} ms", f"{m['theirs'] / m['ours']:.0f}×", goal)
        )  # fmt: skip
    head = ("peer", "its time", "our whole audit", "ratio", "goal")
    publish("audit-peers", head, lines, write)


def from_files(sizes: list[int], write: bool) -> None:
    lines = []
    for millions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            pattern = write_parquet(folder, millions * 1_000_000, 4)
            size = sum(p.stat().st_size for p in Path(folder).iterdir()) / 2**20
            m = {e: in_own_process(__name__, "parquet", pattern, e) for e in ("separatrix", "duckdb", "polars")}
        ours, peers = m["separatrix"], (m["duckdb"], m["polars"])
        lines.append(
            (f"{millions} M ({size:.0f} MB)", f"{ours['seconds']:.2f} s",
             f"{millions / ours['seconds']:.0f}", f"{ours['peak']:.0f} MB",
             *(f"{one['seconds']:.2f} s, {one['peak']:.0f} MB" for one in peers))
        )  # fmt: skip
    head = ("rows", "audit of files", "Mrow/s", "peak memory", "bare DuckDB GROUP BY")
    publish("audit-files", (*head, "bare polars group_by (streaming)"), lines, write)


def about_scores(millions: int) -> None:
    m = in_own_process(__name__, "posteriors", millions)
    print(
        f"Scores instead of labels, {millions} M rows: {millions / m['audit']:.0f} Mrow/s, peak "
        f"{m['peak']:.0f} MB with the columns."
    )


def starting() -> None:
    m = in_own_process(__name__, "importing")
    print(
        f"Start-up: `import separatrix` {m['separatrix'] - m['python']:.2f} s, a first audit in a "
        f"new process "
        f"{m['audit']:.2f} s, Python itself {m['python']:.2f} s of that."
    )


def main(
    parts: Sequence[str] = PARTS,
    /,
    rows: Sequence[int] = (10, 100),
    parquet_rows: Sequence[int] = (10, 100),
    write: bool = False,
) -> None:
    """Measure the parts that were asked for."""
    work = {
        "memory": lambda: in_memory(rows, write),
        "scores": lambda: about_scores(rows[0]),
        "peers": lambda: against_peers(rows[0], write),
        "files": lambda: from_files(parquet_rows, write),
        "start": starting,
    }
    for name in parts:
        work[name]()
    print(machine("numpy", "duckdb", "polars", "scikit-learn", "fairlearn"))
