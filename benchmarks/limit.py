"""The limit and the channel, measured: `python -m benchmarks.limit [speed|adult|acs ...]`, all
without arguments.

speed: the binary limit of 1 M scores and 10 groups, 200 levels; the same from a tenth of the rows.
adult: the limit of Adult's empirical law (paper features), and the channel's share of it on
held-out folds. acs:   the path of 21 β on ACS occupations (20 labels, 9 groups); needs
SEPARATRIX_DATA.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import separatrix as sx
from separatrix import methods
from separatrix.columns.counting import soft_counts
from separatrix.core.envelope import utility_fraction
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.methods import Lane, Sample


def speed() -> None:
    rng = np.random.default_rng(0)
    for n in (1_000_000, 100_000):
        z = rng.integers(0, 10, n)
        y = (rng.random(n) < 0.2 + 0.04 * z).astype(int)
        s = rng.normal(size=n) + y * (0.6 + 0.15 * z) + 0.1 * z
        start = time.process_time()
        best = sx.limit(y, s, sensitive_features=z, points=200)
        took = time.process_time() - start
        vertices = sum(len(c) for c in best.regions.chains)
        print(
            f"{n:>9,} rows, {vertices} hull vertices, {len(best.utility)} levels: {took:.2f} s of "
            f"CPU, gap {best.gap:.1e}"
        )


def adult() -> None:
    data = sx.datasets.load("adult", features="paper")
    X, y, z = np.asarray(data.X), data.y, data.z
    _, atom = np.unique(np.column_stack([X, z]), axis=0, return_inverse=True)
    law = np.bincount(atom, weights=y) / np.bincount(atom)
    best = sx.limit(y, law[atom], sensitive_features=z, points=200)
    print(best)
    for v in (0.0, 4e-5, 1.5e-4):
        solved = best.solve(v)
        print(f"v ≤ {v:.1e}: u {solved.utility[0]:.5f}, upper bound {solved.upper[0]:.5f}")
    fold = sx.datasets.folds(y, z)
    sample = Sample(X, y, z)
    grid = tuple(float(x) for x in np.linspace(0.0, 1.0, 41))
    lanes = [Lane(t, np.flatnonzero(fold != k), 0) for k in range(5) for t in grid]
    fitted = methods.fit("postprocessing", sample, lanes, progress=sys.stderr.isatty())
    print(
        "channel (41 λ) on held-out folds, share of the hypervolume of the limit of its own "
        "scores there"
    )
    points, pooled, shares = [], np.empty((len(y), 2)), []
    for k in range(5):
        test = fold == k
        q = fitted.posteriors(X[test], z[test])[k * len(grid) : (k + 1) * len(grid)]
        own = np.array([_point(one, y[test], z[test]) for one in q])
        points.append(own)
        pooled[test] = fitted.base.posteriors(X[test], z[test])[
            fitted.of_lane[k * len(grid)].ravel()
        ].mean(0)
        shares.append(
            utility_fraction(
                *own.T,
                sx.limit(y[test], pooled[test], sensitive_features=z[test], points=60).envelope(),
            )
        )
        print(f"  fold {k}, limit of its {test.sum():,} rows: {shares[-1]:.4f}")
    together = sx.limit(y, pooled, sensitive_features=z, points=60).envelope()
    print(
        f"  mean of these {np.mean(shares):.4f}; fold means against the limit of all held-out "
        f"rows together: ",
        end="",
    )
    print(f"{utility_fraction(*np.mean(points, axis=0).T, together):.4f}")


def _point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(y, q, sensitive_features=z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


if __name__ == "__main__":
    for name in sys.argv[1:] or ("speed", "adult"):
        {"speed": speed, "adult": adult}[name]()
