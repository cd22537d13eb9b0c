"""The limit of a Parquet file of scores against the bare group-by of the same engine.

`python -m benchmarks.limit_files [ROWS]`, 20 million by default: seconds of CPU and the ratio.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from separatrix.optimum.limits import limit_frame

_WRITE = """
COPY (SELECT y, z, 1 / (1 + exp(-(2 * (y - 0.5) * (0.6 + 0.1 * z) + 3 * (random() - 0.5)))) AS score
      FROM (SELECT (random() < 0.3)::INT AS y, (random() * 9)::INT AS z FROM range({rows})))
TO '{path}' (FORMAT parquet)
"""
_BARE = "SELECT y, z, floor(score * 4096)::INT AS bin, count(*) FROM '{path}' GROUP BY ALL"
_ASKED = (("accuracy", "eo_gap"), ("accuracy", "violation"), ("utility", "violation"))


def timed(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, connection = Path(folder) / "scores.parquet", duckdb.connect()
        connection.execute("SET enable_progress_bar = false")
        connection.execute(_WRITE.format(rows=rows, path=path))
        bare = min(
            timed(lambda: connection.execute(_BARE.format(path=path)).fetchnumpy())
            for _ in range(3)
        )
        print(f"{rows:,} rows, bare group-by by label, group and bin: {bare:.2f} s of CPU")
        for maximize, budget in _ASKED:

            def work(maximize: str = maximize, budget: str = budget) -> None:
                frame = connection.read_parquet(str(path))
                limit_frame(
                    frame, y="y", z="z", score="score", maximize=maximize, budget=budget, points=15
                )

            whole = min(timed(work) for _ in range(2))
            print(
                f"limit, {maximize} within {budget}, 15 levels: {whole:.2f} s, "
                f"{whole / bare:.2f} times the bare group-by"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000)
