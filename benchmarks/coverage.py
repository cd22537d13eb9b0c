"""Empirical coverage of the interval for v, failure rate of the finite-sample bound, and bias
before and after correction.

    python -m benchmarks.coverage [--repetitions 1000]

Prints a Markdown table. Laws are random: five for each row of the table, with cell shares from a
Dirichlet law, scaled to the stated v. "fitted" is the smallest fitted count of a cell (y, z, u);
below 5 is what an audit calls not estimable.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from joblib import Parallel, delayed

from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information
from separatrix.statistics import bounds, inference

SHAPES = {
    "2×2×2": (2, 2, 2),
    "2×2×5": (2, 5, 2),
    "20×20×9": (20, 9, 20),
}  # labels × predictions × groups, as (y, z, u)
SIZES = (500, 2_000, 5_000, 20_000, 50_000)
VIOLATIONS = (0.0, 1e-4, 1e-3, 1e-2, 0.1)
LAWS = 5


def law(shape: tuple[int, int, int], violation: float, rng: np.random.Generator) -> np.ndarray:
    """A random law with exactly this violation."""
    p_yz = rng.dirichlet(np.full(shape[0] * shape[1], 5.0)).reshape(shape[:2])
    base, tilt = (
        rng.dirichlet(np.full(shape[2], 5.0), size=shape[0])[:, None],
        rng.normal(size=shape),
    )

    def at(size: float) -> np.ndarray:
        rates = base * np.exp(size * tilt)
        return p_yz[:, :, None] * rates / rates.sum(-1, keepdims=True)

    low, high = 0.0, 6.0
    if conditional_mutual_information(at(high)) < violation:
        return law(shape, violation, rng)  # these tilts hardly differ between groups: draw others
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high)
            if conditional_mutual_information(at(middle)) < violation
            else (low, middle)
        )
    return at(high if violation else 0.0)


def row(name: str, n: int, violation: float, repetitions: int, seed: int) -> dict[str, object]:
    """One line of the table."""
    shape, rng = SHAPES[name], np.random.default_rng(seed)
    repetitions = repetitions if name != "20×20×9" else max(repetitions // 5, LAWS)
    covered, failed, plug_in, corrected, fitted = [], [], [], [], []
    for _ in range(LAWS):
        p = law(shape, violation, rng)
        for counts in rng.multinomial(n, p.ravel(), size=repetitions // LAWS).reshape(-1, *shape):
            table = CountTable(counts.astype(float), *(tuple(range(k)) for k in shape), rows=n)
            error = inference.noise(table)
            low, high = inference.interval(table)
            given = (
                counts.sum(2, keepdims=True) * p / p.sum(2, keepdims=True)
            )  # the bound conditions on the composition
            covered.append(low <= violation + 1e-12 and violation <= high)
            failed.append(bounds.upper_bound(table) < conditional_mutual_information(given) - 1e-12)
            plug_in.append(error.violation - violation)
            corrected.append(error.violation - error.bias - violation)
            fitted.append(error.fitted)
    return {
        "K (Y×U×Z)": name,
        "n": f"{n:,}",
        "v": f"{violation:g}",
        "fitted": f"{np.mean(fitted):.1f}",
        "coverage": f"{np.mean(covered):.3f} ± {np.sqrt(0.05 * 0.95 / len(covered)):.3f}",
        "bound fails": f"{np.mean(failed):.3f}",
        "bias plug-in": f"{np.mean(plug_in):+.5f}",
        "bias corrected": f"{np.mean(corrected):+.5f}",
        "estimable": "yes" if np.mean(fitted) >= inference.MIN_FITTED else "no",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=1_000)
    repetitions = parser.parse_args().repetitions
    grid = list(itertools.product(SHAPES, SIZES, VIOLATIONS))
    rows = Parallel(n_jobs=2)(
        delayed(row)(*point, repetitions, seed) for seed, point in enumerate(grid)
    )
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for one in rows:
        print("| " + " | ".join(map(str, one.values())) + " |")
    off = [
        abs(float(str(one["coverage"]).split()[0]) - 0.95)
        for one in rows
        if one["estimable"] == "yes"
    ]
    print(
        f"\nWhere estimable: {len(off)} rows, largest distance from 0.95: {max(off):.3f}, mean "
        f"{np.mean(off):.3f}."
    )


if __name__ == "__main__":
    main()
