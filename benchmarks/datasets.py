"""Time and memory of loading, beside pandas and scikit-learn doing the same; each measurement in a
process of its own.

python -m benchmarks.datasets            every dataset that is here
python -m benchmarks.datasets celeba     also CelebA's size: a made-up embedding of 202,599 × 512
(415 MB on disk)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 202_599


def peak_memory() -> float:
    """Megabytes that this process itself has held; a parent's size at the fork does not count."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def ours(name: str, **options: Any) -> Callable[[], tuple[int, ...]]:
    def run() -> tuple[int, ...]:
        from separatrix import datasets

        return datasets.load(name, **options).X.shape

    return run


def theirs(columns: Callable[[], Any]) -> Callable[[], tuple[int, ...]]:
    """pandas reads, scikit-learn scales and encodes: what one writes without this library."""

    def run() -> tuple[int, ...]:
        from sklearn.compose import ColumnTransformer, make_column_selector
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        frame = columns()
        encode = ColumnTransformer(
            [
                ("number", StandardScaler(), make_column_selector(dtype_include="number")),
                (
                    "category",
                    OneHotEncoder(sparse_output=False, dtype=np.float32),
                    make_column_selector(dtype_exclude="number"),
                ),
            ]
        )
        return encode.fit_transform(frame).astype(np.float32).shape

    return run


def adult_frame() -> Any:
    from io import BytesIO

    import pandas

    from separatrix.datasets import _files, adult

    content = BytesIO(_files.read(adult._FILE).content)
    frame = pandas.read_csv(content, header=None, names=adult._COLUMNS, skipinitialspace=True)
    return frame.drop(columns=["sex", "income"])


def bank_frame() -> Any:
    from io import BytesIO

    import pandas

    from separatrix.datasets import _files, bank

    return pandas.read_csv(BytesIO(_files.read(bank._FILE).content), sep=";").drop(columns="y")


def acs_frame() -> Any:
    import pandas

    from separatrix.datasets import _acs, _files

    wanted = ["AGEP", "COW", "SCHL", "MAR", "RELP", "SEX", "WKHP", "POBP"]
    frame = pandas.read_parquet(_files.find(_acs.INCOME), columns=[*wanted, "OCCP"])
    frame = frame[frame["OCCP"].isin(frame["OCCP"].value_counts().index[:20])][wanted]
    for name, edges in {
        "AGEP": range(20, 80, 10),
        "SCHL": (16, 18, 20, 21, 22, 23),
        "WKHP": (20, 35, 40, 41, 50),
    }.items():
        frame[name] = np.searchsorted(list(edges), frame[name], "right")
    frame["POBP"] = frame["POBP"] < 60
    return frame.astype(str)


def table_file() -> Path:
    """One million rows of text and numbers, 70 MB."""
    path = Path(tempfile.gettempdir()) / "separatrix-benchmark.csv"
    if not path.is_file():
        import pyarrow
        import pyarrow.csv

        rng, n = np.random.default_rng(0), 1_000_000
        table: dict[str, Any] = {f"x{i}": rng.normal(size=n).round(3) for i in range(7)}
        table |= {f"c{i}": np.array(list("abcd"))[rng.integers(0, 4, n)] for i in range(5)}
        table |= {
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "y": np.array(["no", "yes"])[rng.integers(0, 2, n)],
        }
        part = path.with_suffix(".part")
        pyarrow.csv.write_csv(pyarrow.table(table), part)
        part.replace(path)
    return path


def our_table() -> tuple[int, ...]:
    from separatrix import datasets

    return datasets.from_file(table_file(), target="y", sensitive="sex").X.shape


def their_table() -> Any:
    import pandas

    return pandas.read_csv(table_file()).drop(columns=["y", "sex"])


def celeba() -> tuple[int, ...]:
    from separatrix import datasets

    return datasets.load(
        "celeba", folder=celeba_folder(), embeddings=celeba_folder() / "made.npy"
    ).X.shape


def celeba_folder() -> Path:
    """The official text files and an embedding, made up, at full size; 415 MB."""
    root = Path(tempfile.gettempdir()) / "separatrix-benchmark-celeba"
    if (root / "made.npy").is_file():
        return root
    root.mkdir(exist_ok=True)
    names = [f"{index + 1:06d}.jpg" for index in range(ROWS)]
    signs = np.random.default_rng(0).choice(["-1", " 1"], (ROWS, 40))
    header = " ".join(["Male", "Smiling", *(f"a{index}" for index in range(38))])
    rows = [f"{name} {' '.join(row)}" for name, row in zip(names, signs, strict=True)]
    (root / "list_attr_celeba.txt").write_text("\n".join([str(ROWS), header, *rows]))
    (root / "list_eval_partition.txt").write_text("\n".join(f"{name} 0" for name in names))
    made = np.lib.format.open_memmap(root / "part.npy", "w+", np.float32, (ROWS, 512))
    for start in range(0, ROWS, 8_192):
        made[start : start + 8_192] = 0.5
    made.flush()
    (root / "part.npy").replace(root / "made.npy")
    return root


CASES: dict[str, Callable[[], tuple[int, ...]]] = {
    "adult paper": ours("adult"),
    "adult full": ours("adult", features="full"),
    "adult full, peer": theirs(adult_frame),
    "compas paper": ours("compas"),
    "compas full": ours("compas", features="full"),
    "bank": ours("bank"),
    "bank, peer": theirs(bank_frame),
    "acs_occupation": ours("acs_occupation"),
    "acs_occupation_large": ours("acs_occupation_large"),
    "acs_occupation_large, peer": theirs(acs_frame),
    "acs_occupation_large employment": ours("acs_occupation_large", columns="employment"),
    "CSV file, 1 M rows": our_table,
    "CSV file, 1 M rows, peer": theirs(their_table),
    "celeba": celeba,
}


def measure(case: str) -> tuple[float, float, str]:
    """Seconds, peak megabytes and shape, in a fresh process; the second of two runs, so that no
    import is timed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.datasets", "--run", case], capture_output=True, text=True
    )
    if done.returncode:
        return float("nan"), float("nan"), done.stderr.strip().splitlines()[-1][:60]
    seconds, memory, shape = done.stdout.strip().split("|")
    return float(seconds), float(memory), shape


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--run"]:
        CASES[arguments[1]]()
        begin = time.perf_counter()
        shape = CASES[arguments[1]]()
        sizes = " × ".join(f"{size:,}" for size in shape)
        print(f"{time.perf_counter() - begin}|{peak_memory()}|{sizes}")
        return
    table_file()
    if "celeba" in arguments:
        celeba_folder()
    print(f"{'what':34} {'seconds':>8} {'MB':>6}  {'of the peer':>11}  X")
    chosen = [case for case in CASES if case != "celeba" or "celeba" in arguments]
    best: dict[str, tuple[float, float, str]] = {}
    for case in chosen:
        best[case] = min((measure(case) for _ in range(3)), key=lambda result: result[0])
    for case, (seconds, memory, shape) in best.items():
        peer = best.get(f"{case}, peer")
        ratio = f"{seconds / peer[0]:.2f}" if peer else ""
        print(f"{case:34} {seconds:8.2f} {memory:6.0f}  {ratio:>11}  {shape}")


if __name__ == "__main__":
    main(sys.argv[1:])
