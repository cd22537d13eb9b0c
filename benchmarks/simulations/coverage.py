"""Coverage of the interval of v, failures of its bound, bias before and after correction.

    python -m benchmarks.simulations coverage [--repetitions 1000] [--write]

Five random laws (`random_law`) for each v of a row; "not estimable" where most audits say so.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks._measuring import publish
from benchmarks.simulations.simulate import simulate
from benchmarks.simulations.tables import TableLaw, random_law
from separatrix import CountTable
from separatrix.statistics import bounds, inference

QUICK = ("--repetitions", "5", "--rows", "2000")
SHAPES = {"2×2×2": (2, 2, 2), "2×2×5": (2, 5, 2), "20×20×9": (20, 9, 20)}  # (y, z, u)
SIZES = (500, 2_000, 5_000, 20_000, 50_000)
VIOLATIONS = (0.0, 1e-4, 1e-3, 1e-2, 0.1)
LAWS = 5


def interval_and_bound(table: CountTable, law: TableLaw) -> dict[str, float]:
    """Whether both hold, and the two biases."""
    error = inference.noise(table)
    low, high = inference.interval(table)
    # the bound conditions on the composition of the sample
    missed = bounds.upper_bound(table) < law.violation_given(table) - 1e-12
    return {
        "covered": low <= law.violation + 1e-9 and law.violation <= high + 1e-9,
        "bound fails": missed,
        "bias": error.violation - law.violation,
        "bias corrected": error.violation - error.bias - law.violation,
        "estimable": error.estimable,
    }


def cell(name: str, rows: int, violation: float, repetitions: int) -> dict[str, np.ndarray]:
    """All repetitions of one shape, size and v."""
    rng = np.random.default_rng((len(name), rows, round(violation * 1e6)))
    each = max((repetitions // 5 if name == "20×20×9" else repetitions) // LAWS, 1)
    parts = [
        simulate(TableLaw(random_law(SHAPES[name], violation, rng), rows), interval_and_bound, each,
                 seed=(rows, k))
        for k in range(LAWS)
    ]  # fmt: skip
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def main(arguments: Sequence[str] | None = None) -> None:
    """The table of docs/evidence/coverage.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    lines, off, failed, bias = [], [], [], []
    for name in SHAPES:
        for rows in options.rows:
            found = [cell(name, rows, v, options.repetitions) for v in VIOLATIONS]
            estimable = np.mean([one["estimable"].mean() for one in found]) > 0.5
            shares = [one["covered"].mean() for one in found]
            off += [abs(share - 0.95) for share in shares] if estimable else []
            failed += [one["bound fails"].mean() for one in found]
            bias += [abs(one["bias corrected"].mean()) for one in found] if estimable else []
            note = "" if estimable else "not estimable"
            cells = (f"{share:.3f}" for share in shares)
            per_cell = rows / np.prod(SHAPES[name])
            lines.append([name, f"{rows:,}", f"{per_cell:.1f}", *cells, note])
            print(*lines[-1], sep=" | ", flush=True)
    head = ["K (Y×U×Z)", "n", "rows per cell", *(f"v = {v:g}" for v in VIOLATIONS), "note"]
    publish("coverage", head, lines, options.write)
    print(
        f"\nWhere estimable: largest distance from 0.95 {max(off):.3f}, mean {np.mean(off):.3f}; "
        f"largest bias after correction {max(bias):.5f}. The bound fails at most {max(failed):.3f}."
    )
