"""The audit against its limits and against its peers: speed and memory as ratios in one run.

    python -m benchmarks.speed audit [memory] [scores] [peers] [files] [start] [--rows 10 100]
    [--parquet-rows 10 100] [--write]

Every measurement runs in a process of its own, so that peak memory is that of the measured work
alone. The shortest of several repetitions counts, for us and for the peers. Rows in millions.
`--write` stores the tables of docs/evidence/performance.md; parts not asked for keep theirs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import best, in_own_process, machine, peak, publish

QUICK = ("memory", "start", "--rows", "1")
LEVELS = (2, 3, 2)  # labels, groups, predictions


def columns(millions: float, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, k, int(millions * 1e6), dtype=dtype) for k in LEVELS]


def arrays(millions: int, dtype: str) -> dict[str, float]:
    """Seconds of the audit and of its parts; `reading` is one pass over the three columns on two
    threads.
    """
    from concurrent.futures import ThreadPoolExecutor

    import separatrix as sx
    from separatrix.columns.counting import count_labels

    y, z, u = columns(millions, dtype)
    sx.audit(y[:1_000], u[:1_000], sensitive_features=z[:1_000])
    before = peak()
    sx.audit(y, u, sensitive_features=z)
    overhead = peak() - before
    repeats = max(300 // millions, 12)  # short, and many: one of them finds both cores free
    halves = [
        column[part]
        for column in (y, z, u)
        for part in (slice(len(y) // 2), slice(len(y) // 2, None))
    ]
    with ThreadPoolExecutor(2) as pool:
        reading = best(lambda: list(pool.map(np.bitwise_or.reduce, halves)), repeats)
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
    }


def engines_in_memory(millions: int, dtype: str) -> dict[str, float]:
    """The bare group-by of two engines on the same columns: only counts, none of the audit's
    numbers.
    """
    import duckdb
    import polars as pl
    import pyarrow as pa

    y, z, u = columns(millions, dtype)
    frame = pl.DataFrame({"y": y, "z": z, "u": u})
    connection = duckdb.connect()
    connection.register("rows", pa.table({"y": y, "z": z, "u": u}))
    query = "SELECT y, z, u, count(*) FROM rows GROUP BY ALL"
    return {
        "polars": best(lambda: frame.group_by("y", "z", "u").len(), 6),
        "duckdb": best(lambda: connection.execute(query).fetchall(), 6),
    }


def posteriors(millions: int) -> dict[str, float]:
    import separatrix as sx

    y, z, _ = columns(millions, "int64")
    p = np.random.default_rng(1).random(len(y))
    q = np.column_stack([1.0 - p, p])
    return {"audit": best(lambda: sx.audit(y, q, sensitive_features=z), 3), "peak": peak()}


def every_threshold(millions: float, groups: int) -> dict[str, float]:
    """The whole audit of a score, against one sort of the scores and against scikit-learn's AUROC
    of all rows and of each group, which is a part of it.
    """
    from sklearn.metrics import roc_auc_score

    from separatrix.auditing.door import audit_score

    rng = np.random.default_rng(0)
    n = int(millions * 1e6)
    y, z = rng.integers(0, 2, n), rng.integers(0, groups, n)
    s = rng.normal(size=n) + y + 0.1 * z / groups

    def areas() -> list[float]:
        parts = [z == group for group in range(groups)]
        return [roc_auc_score(y, s), *(roc_auc_score(y[p], s[p]) for p in parts)]

    ours = audit_score(y, s, sensitive_features=z)
    np.testing.assert_allclose(areas(), [ours.auroc, *ours.auroc_by_group.values()], rtol=1e-9)
    return {
        "audit": best(lambda: audit_score(y, s, sensitive_features=z), 3),
        "sort": best(lambda: np.argsort(s), 3),
        "areas": best(areas, 2),
    }


def scores_in_parquet(pattern: str, engine: str) -> dict[str, float]:
    """The audit of a score in files, against the bare group-by of its histogram."""
    if engine == "separatrix":
        from separatrix.auditing.door import audit_score

        seconds = best(
            lambda: audit_score(pattern, target="y", sensitive_features="z", prediction="s"), 3
        )
    else:
        import duckdb

        query = f"""SELECT y, z, floor(s * 16384) b, count(*) FROM read_parquet('{pattern}')
            GROUP BY ALL"""
        seconds = best(lambda: duckdb.connect().execute(query).fetchnumpy(), 3)
    return {"seconds": seconds, "peak": peak()}


def scikit_learn(millions: int) -> dict[str, float]:
    """v = Σ_y P(y) · I(U; Z | Y = y) and u from `mutual_info_score`, against our whole audit on the
    same rows.
    """
    from sklearn.metrics import mutual_info_score

    import separatrix as sx

    y, z, u = columns(millions, "int64")

    def theirs() -> tuple[float, float]:
        v = sum(
            (y == label).mean() * mutual_info_score(u[y == label], z[y == label])
            for label in (0, 1)
        )
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
    resampled = (
        {"n_boot": bootstraps, "ci_quantiles": [0.025, 0.975], "random_state": 0}
        if bootstraps
        else {}
    )

    def theirs() -> Any:
        metrics = {"fpr": false_positive_rate, "fnr": false_negative_rate}
        frame = MetricFrame(metrics=metrics, y_true=y, y_pred=u, sensitive_features=z, **resampled)
        return frame.by_group_ci if bootstraps else frame.by_group

    return {"ours": best(lambda: sx.audit(y, u, sensitive_features=z)), "theirs": best(theirs, 1)}


def write_parquet(folder: str, millions: int) -> str:
    import duckdb

    for part in range(4):
        duckdb.execute(
            f"""COPY (SELECT (hash(i) % 2)::TINYINT y, ('g' || (hash(i + 1) % 3)) z,
            (hash(i + 2) % 2)::TINYINT u, (hash(i + 3) % 1000003) / 1000003.0 s
            FROM range({part * millions * 250_000}, {(part + 1) * millions * 250_000}) t(i))
            TO '{folder}/part-{part}.parquet' (FORMAT parquet)"""
        )
    return f"{folder}/part-*.parquet"


def parquet(pattern: str, engine: str) -> dict[str, float]:
    if engine == "separatrix":
        import separatrix as sx

        seconds = best(
            lambda: sx.audit(pattern, target="y", sensitive_features="z", prediction="u"), 3
        )
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
        "audit": once(
            "import separatrix as s; s.audit([0, 1, 1], [0, 1, 0], sensitive_features=[0, 1, 1])"
        ),
    }


def in_memory(sizes: list[int], write: bool) -> None:
    rows = []
    for millions in sizes:
        for dtype in ("int64", "int32", "int8"):
            m = in_own_process(__name__, "arrays", millions, dtype)
            e = in_own_process(__name__, "engines_in_memory", millions, dtype)
            rows.append(
                (
                    f"{millions} M", dtype, f"{millions / m['audit']:.0f}",
                    f"{millions / m['table']:.0f}", f"{1e3 * m['cpu'] / millions:.1f} ns",
                    f"{m['table'] / m['reading']:.1f}×", f"{m['overhead']:.0f} MB",
                    f"{m['numpy'] / m['audit']:.1f}×", f"{e['polars'] / m['audit']:.1f}×",
                    f"{e['duckdb'] / m['audit']:.1f}×",
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
    cases = (
        (2_000_000, 0, "integers", "≥ 1000×"),
        (2_000_000, 0, "strings", ""),
        (20_000, 200, "strings", ""),
    )
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
            pattern = write_parquet(folder, millions)
            size = sum(p.stat().st_size for p in Path(folder).iterdir()) / 2**20
            m = {
                e: in_own_process(__name__, "parquet", pattern, e)
                for e in ("separatrix", "duckdb", "polars")
            }
        ours, peers = m["separatrix"], (m["duckdb"], m["polars"])
        lines.append(
            (f"{millions} M ({size:.0f} MB)", f"{ours['seconds']:.2f} s",
             f"{millions / ours['seconds']:.0f}", f"{ours['peak']:.0f} MB",
             *(f"{one['seconds']:.2f} s, {one['peak']:.0f} MB" for one in peers))
        )  # fmt: skip
    head = ("rows", "audit of files", "Mrow/s", "peak memory", "bare DuckDB GROUP BY")
    publish("audit-files", (*head, "bare polars group_by (streaming)"), lines, write)


def about_scores(millions: int, on_disk: int) -> None:
    m = in_own_process(__name__, "posteriors", millions)
    lines = [
        f"Scores instead of labels, {millions} M rows: {millions / m['audit']:.0f} Mrow/s, peak "
        f"{m['peak']:.0f} MB with the columns.",
    ]
    for groups in (2, 10):
        m = in_own_process(__name__, "every_threshold", millions, groups)
        lines.append(
            f"`audit_score` (every threshold), {millions} M rows, {groups} groups: "
            f"{m['audit']:.1f} s, {m['audit'] / m['sort']:.1f} × one sort of the scores and "
            f"{m['areas'] / m['audit']:.1f} × faster than scikit-learn's AUROC of all rows and of "
            "each group, which is a part of it."
        )
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_parquet(folder, on_disk)
        ours, bare = (
            in_own_process(__name__, "scores_in_parquet", pattern, e)
            for e in ("separatrix", "duckdb")
        )
    lines.append(
        f"`audit_score` of files, {on_disk} M rows of Parquet: {ours['seconds']:.1f} s, "
        f"{ours['seconds'] / bare['seconds']:.1f} × the bare DuckDB group-by of it, peak "
        f"{ours['peak']:.0f} MB."
    )
    print(*lines, sep="\n")


def starting() -> None:
    m = in_own_process(__name__, "importing")
    print(
        f"Start-up: `import separatrix` {m['separatrix'] - m['python']:.2f} s, a first audit in a "
        f"new process "
        f"{m['audit']:.2f} s, Python itself {m['python']:.2f} s of that."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("memory", "scores", "peers", "files", "start")
    parser.add_argument("parts", nargs="*", default=names, metavar="part")
    parser.add_argument("--rows", type=int, nargs="+", default=[10, 100], help="millions, memory")
    parser.add_argument("--parquet-rows", type=int, nargs="+", default=[10, 100], help="on disk")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    work = {
        "memory": lambda: in_memory(options.rows, options.write),
        "scores": lambda: about_scores(options.rows[0], options.parquet_rows[0]),
        "peers": lambda: against_peers(options.rows[0], options.write),
        "files": lambda: from_files(options.parquet_rows, options.write),
        "start": starting,
    }
    for name in options.parts:
        work[name]()
    print(machine("numpy", "duckdb", "polars", "scikit-learn", "fairlearn"))
