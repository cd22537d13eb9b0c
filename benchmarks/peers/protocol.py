"""What every series does alike, ours and the peers': read the rows, trace each fold, keep what the
test rows get, and the time.

A module has `SERIES`: name → `Series(settings, trace)`. `trace(fold, quick)` fits to the training
rows and yields one (point, predict) after another; `predict()` gives the test rows' P(U=1), or
their scores where the series is one of scores. Only the time inside `trace` counts, and that of the
trees whose scores it was given; predictions do not. Standard library and numpy only: it runs in
environments that have neither separatrix nor torch.

    python -m benchmarks.peers.<module> ROWS.npz OUT.npz SERIES [--quick] [--folds 1]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Predict = Callable[[], Array]
SMALL = 10_000  # rows
# What each path of decisions is asked for: bounds of the EO gap and of v; costs of the two errors
GAPS = (0.02, 0.05, 0.1)
NATS = (1e-3, 0.01)
COSTS = (1.0, 5.0)


class Rows(NamedTuple):
    """Features X, labels y, groups z."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    z: NDArray[np.int64]

    def take(self, rows: NDArray[Any]) -> Rows:
        return Rows(self.X[rows], self.y[rows], self.z[rows])

    @property
    def with_group(self) -> NDArray[np.float32]:
        """[Z | X]: one 0/1 column for each group before the features."""
        each = np.eye(int(self.z.max()) + 1, dtype=np.float32)[self.z]
        return np.column_stack([each, self.X]).astype(np.float32)


class Scored(NamedTuple):
    """Scores of trees for rules: of training rows that they did not see, and of the test rows.

    Args:
        y, z: labels and groups of the rows that the rule is fitted to.
        scores: P(Y=1 | x, z) of these; for "joint" q(y, z | x), (n, 2, groups).
        test: the same of the test rows, one array for each member of the cross-fitting; what is
            decided is the mean over the members.
    """

    y: NDArray[np.int64]
    z: NDArray[np.int64]
    scores: Array
    test: Array


class Fold(NamedTuple):
    """Training and test rows, the columns that say nothing of the group by name, the scores.

    Args:
        seed: of the folds of the cross-fitting.
    """

    train: Rows
    test: Rows
    blind: NDArray[np.intp]
    scored: Mapping[str, Scored]
    seed: int

    @property
    def blind_rows(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features of the training and of the test rows for models without the group."""
        return self.train.X[:, self.blind], self.test.X[:, self.blind]


@dataclass(frozen=True)
class Series:
    """One line of the tables.

    Args:
        settings: what was set, for the reader.
        trace: trace(fold, quick) → (point, predict), …
        trees: which of the shared scores it stands on; their time is added to its own.
        folds: how many of the five folds are traced on large tables; fewer only where five would
            take too long. Small tables (`SMALL`) have all five.
    """

    settings: str
    trace: Callable[[Fold, bool], Iterator[tuple[str, Predict]]]
    trees: str = ""
    folds: int = 5


def folds_of(file: Path, count: int) -> Iterator[tuple[Fold, NDArray[np.bool_], Mapping[str, Any]]]:
    """The folds of a file of rows, the test rows of each, and the seconds that its trees took."""
    with np.load(file) as data:
        seed = int(data["seed"])
        rows, fold, blind = Rows(data["X"], data["y"], data["z"]), data["fold"], data["blind"]
        kinds = sorted({key.rsplit(" ", 2)[0] for key in data.files if key.endswith(" rows")})
        for k in range(count):
            test, scored, cpu = fold == k, {}, {}
            for kind in kinds:
                own = data[f"{kind} {k} rows"]
                seen = rows.y[own], rows.z[own]
                found = (data[f"{kind} {k} {part}"].astype(float) for part in ("scores", "test"))
                scored[kind] = Scored(*seen, *found)
                cpu[kind] = float(data[f"{kind} {k} cpu"])
            yield Fold(rows.take(~test), rows.take(test), blind, scored, seed), test, cpu


def main(series: Mapping[str, Series], package: str) -> None:
    """Trace one series of this module and write what it found: the command line of a peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("series", choices=series)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folds", type=int, default=0, help="so many of them")
    chosen = parser.parse_args()
    run(series[chosen.series], package, chosen.rows, chosen.out, chosen.quick, chosen.folds)


def run(one: Series, package: str, rows: Path, out: Path, quick: bool, folds: int = 0) -> None:
    """Trace one series and write what it found."""
    with np.load(rows) as data:
        all_of_them = 5 if len(data["fold"]) <= SMALL else one.folds
    folds = folds or (2 if quick else all_of_them)
    found: dict[str, NDArray[np.float32]] = {}
    cpu: list[float] = []
    for fold, test, trees in folds_of(rows, folds):
        cpu.append(trees[one.trees] if one.trees else 0.0)
        points = one.trace(fold, quick)
        while True:
            start = time.process_time()
            point = next(points, None)
            cpu[-1] += time.process_time() - start
            if point is None:
                break
            q = np.asarray(point[1](), dtype=np.float64)
            if q.shape != fold.test.y.shape:
                sys.exit(f"{one.settings}: {point[0]} gave {q.shape} for {fold.test.y.shape}")
            found.setdefault(point[0], np.full(len(test), np.nan, dtype=np.float32))[test] = q
        print(f"    {len(found)} points, {cpu[-1]:.1f} s", file=sys.stderr, flush=True)
    about = {"settings": one.settings, "version": f"{package} {version(package)}", "folds": folds, "cpu": cpu}
    q = np.stack(list(found.values()))
    np.savez_compressed(out, q=q, points=np.array(list(found)), about=np.array(json.dumps(about)))


def mean_over(members: Array, decide: Callable[[Array], Array]) -> Array:
    """What is decided when one of the members is drawn at random."""
    return np.asarray(np.mean([decide(s) for s in members], axis=0))
