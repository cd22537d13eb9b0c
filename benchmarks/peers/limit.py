"""Exact limits of the laws of Adult and COMPAS, with and without the group.

    python -m benchmarks.peers limit [--shares] [--write]

The law is that of the rows with the paper's columns: a few dozen distinct ones. `--shares`: the
method `postprocessing` on Adult's held-out folds (41 λ), and its share of the limit's hypervolume.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import separatrix as sx
from benchmarks._measuring import publish
from separatrix import methods
from separatrix.core.envelope import utility_fraction
from separatrix.methods import Lane, Sample

QUICK: tuple[str, ...] = ("--data", "compas")
GAPS, NATS = (0.0, 0.01, 0.02, 0.05), (0.0, 1e-4, 1e-3, 1e-2)


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = sx.datasets.load(name)
    return np.asarray(data.X), data.y, data.z


def with_group(name: str) -> list[str]:
    """u of the limit at each v, and what bounds it."""
    X, y, z = rows_of(name)
    _, atom = np.unique(np.column_stack([X, z]), axis=0, return_inverse=True)
    law = np.bincount(atom.ravel(), weights=y) / np.bincount(atom.ravel())
    levels = [0.0, 4e-5, 1.5e-4, 0.01]
    best = sx.limit(y, law[atom.ravel()], sensitive_features=z, levels=levels)
    pairs = zip(best.values, best.upper, strict=True)
    return [name, *(f"{value:.4f} ≤ {upper:.4f}" for value, upper in pairs)]


def blind(name: str) -> list[str]:
    """I(X;Z|Y), then the best of all rules of X: accuracy within EO gaps, u within v, u of X."""
    X, y, z = rows_of(name)
    atom = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    p = np.zeros((atom.max() + 1, 2, int(z.max()) + 1))
    np.add.at(p, (atom, y, z), 1 / len(y))
    table = p.transpose(1, 2, 0)
    cells = [f"{float(sx.theory.conditional_mutual_information(table)):.4f}"]
    for maximize, budget, levels in (("accuracy", "eo_gap", GAPS), ("utility", "violation", NATS)):
        best = sx.theory.population.blind_limit(p, maximize, budget, list(levels))
        cells += [f"{value:.4f}" for value in best.values]
    return [name, *cells, f"{float(sx.theory.mutual_information(table)):.4f}"]


def share_of_limit() -> None:
    """How near the fold means of `postprocessing` come to the limit of the held-out rows."""
    X, y, z = rows_of("adult")
    fold, grid = sx.datasets.folds(y, z), np.linspace(0.0, 1.0, 41).tolist()
    lanes = [Lane(t, np.flatnonzero(fold != k), 0) for k in range(5) for t in grid]
    fitted = methods.fit("postprocessing", Sample(X, y, z), lanes)
    points, pooled = [], np.empty((len(y), 2))
    for k in range(5):
        test, own = fold == k, slice(k * len(grid), (k + 1) * len(grid))
        audits = [
            sx.audit(y[test], q, sensitive_features=z[test])
            for q in fitted.posteriors(X[test], z[test])[own]
        ]
        points.append([(a.violation, a.utility) for a in audits])
        base = fitted.base.posteriors(X[test], z[test])
        pooled[test] = base[fitted.of_lane[own.start].ravel()].mean(0)
        best = sx.limit(y[test], pooled[test], sensitive_features=z[test], points=60)
        print(f"fold {k}: {utility_fraction(*np.array(points[-1]).T, best.envelope()):.4f}")
    best = sx.limit(y, pooled, sensitive_features=z, points=60)
    share = utility_fraction(*np.mean(points, axis=0).T, best.envelope())
    print(f"fold means, limit of all held-out rows: {share:.4f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """The tables of docs/howto/limit.md and docs/evidence/blind.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["adult", "compas"])
    parser.add_argument("--shares", action="store_true", help="train networks: minutes")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    head = ["u ≤ bound", "v = 0", "≤ 4e-5", "≤ 1.5e-4", "≤ 0.01"]
    publish("limit", head, [with_group(name) for name in options.data], write=False)
    head = ["data", "I(X;Z|Y)", *(f"accuracy, EO ≤ {x:g}" for x in GAPS)]
    head += [*(f"u, v ≤ {x:g}" for x in NATS), "u of X, no budget"]
    publish("blind", head, [blind(name) for name in options.data], options.write)
    if options.shares:
        share_of_limit()
