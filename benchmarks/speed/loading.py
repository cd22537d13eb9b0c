"""Time and memory of loading a dataset, each in a process of its own; a CSV beside pandas.

    python -m benchmarks.speed loading [NAME ...] [--write]

The second of two loads counts, so that no import is timed; the best of three processes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measuring import in_own_process, peak, publish

QUICK = ("adult", "compas")


def dataset(name: str, **options: Any) -> Any:
    from separatrix import datasets

    return datasets.load(name, **options).X


def csv_file() -> Path:
    """One million rows of text and numbers, 70 MB."""
    path = Path(tempfile.gettempdir()) / "separatrix-benchmark.csv"
    if not path.is_file():
        import pyarrow
        import pyarrow.csv

        rng, n = np.random.default_rng(0), 1_000_000
        table: dict[str, Any] = {f"x{i}": rng.normal(size=n).round(3) for i in range(7)}
        table |= {f"c{i}": np.array(list("abcd"))[rng.integers(0, 4, n)] for i in range(5)}
        table["sex"] = np.array(["f", "m"])[rng.integers(0, 2, n)]
        table["y"] = np.array(["no", "yes"])[rng.integers(0, 2, n)]
        pyarrow.csv.write_csv(pyarrow.table(table), path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)
    return path


def csv() -> Any:
    from separatrix import datasets

    return datasets.from_frame(csv_file(), target="y", sensitive="sex").X


def csv_with_pandas() -> Any:
    """pandas reads, scikit-learn scales and encodes: what one writes without this library."""
    import pandas
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_column_selector(dtype_include="number")
    encoder = OneHotEncoder(sparse_output=False, dtype=np.float32)
    encode = ColumnTransformer(
        [("number", StandardScaler(), numbers), ("category", encoder, make_column_selector(dtype_exclude="number"))]
    )
    return encode.fit_transform(pandas.read_csv(csv_file()).drop(columns=["y", "sex"]))


CASES: dict[str, Callable[[], Any]] = {
    **{name: partial(dataset, name) for name in ("adult", "compas", "bank", "acs_occupation", "acs_occupation_large")},
    "adult, all columns": partial(dataset, "adult", features="full"),
    "CSV, 1 M rows": csv,
    "CSV, 1 M rows, pandas": csv_with_pandas,
}


def once(case: str) -> dict[str, float]:
    """Seconds and peak MB of the second load, in this process."""
    CASES[case]()
    start = time.perf_counter()
    rows, columns = CASES[case]().shape
    took = time.perf_counter() - start
    return {"seconds": took, "mb": peak(), "rows": rows, "columns": columns}


def main(cases: Sequence[str] = tuple(CASES), /, write: bool = False) -> None:
    """The table of docs/evidence/datasets.md."""
    lines = []
    for case in cases:
        found = min((in_own_process(__name__, "once", case) for _ in range(3)),
                    key=lambda one: one["seconds"])  # fmt: skip
        shape = f"{found['rows']:,} × {found['columns']}"
        lines.append([case, shape, f"{found['seconds']:.2f}", f"{found['mb']:.0f}"])
    publish("loading", ["what", "X", "seconds", "peak MB"], lines, write)
