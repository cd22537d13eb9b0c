"""The limit and the channel, measured: `python -m benchmarks.limit [speed|adult|acs ...]`, all without arguments.

speed: the binary limit of 1 M scores and 10 groups, 200 levels; the same from a tenth of the rows.
adult: the limit of Adult's empirical law (paper features), and the channel's share of it on held-out folds.
acs:   the path of 21 β on ACS occupations (20 labels, 9 groups); needs SEPARATRIX_DATA.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

import separatrix as sx
from separatrix.channels import SoftmaxChannel, softmax_path
from separatrix.counts import soft_counts
from separatrix.envelope import share
from separatrix.information import conditional_mutual_information, mutual_information
from separatrix.limits import threshold_channel


def speed() -> None:
    rng = np.random.default_rng(0)
    for n in (1_000_000, 100_000):
        z = rng.integers(0, 10, n)
        y = (rng.random(n) < 0.2 + 0.04 * z).astype(int)
        s = rng.normal(size=n) + y * (0.6 + 0.15 * z) + 0.1 * z
        start = time.process_time()
        best = sx.limit(s, y, z)
        took = time.process_time() - start
        vertices = sum(len(c) for c in best.regions.chains)
        print(
            f"{n:>9,} rows, {vertices} hull vertices, {len(best.utility)} levels: {took:.2f} s of CPU, gap {best.gap:.1e}"
        )


def adult() -> None:
    data = sx.datasets.load("adult", features="paper")
    X, y, z = np.asarray(data.X), data.y, data.z
    _, atom = np.unique(np.column_stack([X, z]), axis=0, return_inverse=True)
    law = np.bincount(atom, weights=y) / np.bincount(atom)
    best = sx.limit(law[atom], y, z)
    print(best)
    for v in (0.0, 4e-5, 1.5e-4):
        solved = best.solve(v)
        print(f"v ≤ {v:.1e}: u {solved.utility[0]:.5f}, upper bound {solved.upper[0]:.5f}")
    fold = sx.datasets.folds(y, z)
    inputs = np.column_stack([z, X])
    shares = []
    for k in range(5):
        train, test = fold != k, fold == k
        model = HistGradientBoostingClassifier(max_iter=40, random_state=0)
        scores = cross_val_predict(model, inputs[train], y[train], cv=5, method="predict_proba")[:, 1]
        unseen = model.fit(inputs[train], y[train]).predict_proba(inputs[test])[:, 1]
        ours = sx.limit(scores, y[train], z[train], points=40)
        points = []
        for rates in ours.rates:
            channel = threshold_channel(rates, ours.curves, ours.regions, ours.groups)
            points.append(_point(channel.predict_proba(unseen, z[test]), y[test], z[test]))
        v, u = np.array(points).T
        shares.append(share(v, u, sx.limit(unseen, y[test], z[test], points=60).envelope()))
        print(f"fold {k}: share of the held-out limit's hypervolume {shares[-1]:.4f}")
    print(f"mean {np.mean(shares):.4f}")


def acs() -> None:
    data = sx.datasets.load("acs_occupation_large")
    X, y, z = np.asarray(data.X), data.y, data.z
    inputs = np.column_stack([X, np.eye(len(data.groups))[z]]).astype(np.float32)
    half = sx.datasets.folds(y, z, 2) == 0
    model = HistGradientBoostingClassifier(max_iter=25, learning_rate=0.2, max_leaf_nodes=15, early_stopping=False)
    p = model.fit(inputs[half], y[half]).predict_proba(inputs)
    p /= p.sum(1, keepdims=True)
    start = time.process_time()
    softmax_path(p, y, z)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    took = time.process_time() - start
    print(f"{len(y):,} rows × 20 × 9, 21 β: {took:.1f} s of CPU (two threads), peak of the process {peak:.2f} GB")
    rest = np.flatnonzero(~half)
    fit, test = rest[::2], rest[1::2]
    path = softmax_path(p[fit], y[fit], z[fit])
    v, u = _point(p[test], y[test], z[test])
    print(f"unseen rows: soft posterior v {v:.4f} u {u:.4f}")
    for beta, *parts in zip(path.beta, path.weight, path.bias, path.mix, strict=True):
        v, u = _point(SoftmaxChannel(tuple(range(9)), *parts).predict_proba(p[test], z[test]), y[test], z[test])
        print(f"unseen rows: β {beta:8.3g}  v {v:.4f} u {u:.4f}")


def _point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(q, y, z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


if __name__ == "__main__":
    for name in sys.argv[1:] or ("speed", "adult", "acs"):
        {"speed": speed, "adult": adult, "acs": acs}[name]()
