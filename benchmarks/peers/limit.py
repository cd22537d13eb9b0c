"""Exact limits of the laws of Adult and COMPAS, with and without the group.

    python -m benchmarks.peers limit [--write]

The law is that of the rows with the paper's columns: a few dozen distinct ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import separatrix as sx
from benchmarks._measuring import publish

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


def main(data: Sequence[str] = ("adult", "compas"), write: bool = False) -> None:
    """The tables of docs/howto/limit.md and docs/evidence/blind.md."""
    head = ["u ≤ bound", "v = 0", "≤ 4e-5", "≤ 1.5e-4", "≤ 0.01"]
    publish("limit", head, [with_group(name) for name in data], write=False)
    head = ["data", "I(X;Z|Y)", *(f"accuracy, EO ≤ {x:g}" for x in GAPS)]
    head += [*(f"u, v ≤ {x:g}" for x in NATS), "u of X, no budget"]
    publish("blind", head, [blind(name) for name in data], write)
