"""All policies measured alike: (v, u) of the soft counts on test folds, envelope, hypervolume,
operating points.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.base import fitted, score_of
from benchmarks.peers.protocol import Rows
from separatrix.core import information
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.nn.evaluation import auroc, tables
from separatrix.optimum.limits import limit

Array = NDArray[np.float64]


def limit_of(rows: Path, finite: bool) -> Envelope:
    """The exact limit: of the law of the rows where features are few, else of boosted trees'
    held-out score.

    Args:
        rows: exported rows.
        finite: few distinct (x, z): the best score is P(Y=1 | x, z) itself, and no predictor of
            these rows beats its limit. Otherwise the limit is that of post-processing this one
            score.
    """
    with np.load(rows) as data:
        all_rows, fold = Rows(data["X"], data["y"], data["z"]), data["fold"]
    score = np.empty(len(fold))
    if finite:
        _, atom = np.unique(all_rows.inputs, axis=0, return_inverse=True)
        score = (np.bincount(atom, weights=all_rows.y) / np.bincount(atom))[atom]
    else:
        for k in range(int(fold.max()) + 1):
            train, test = all_rows.take(fold != k), all_rows.take(fold == k)
            score[fold == k] = score_of(fitted("trees", train))(test)
    return limit(all_rows.y, score, sensitive_features=all_rows.z, points=200).envelope()


@dataclass(frozen=True, eq=False)
class Traced:
    """What one series reached.

    Args:
        name: of the series.
        points: what each point was asked for.
        violation, utility: (points, folds), on the rows of each test fold.
        gap, accuracy: (points,), EO gap and accuracy of the test rows of all folds together: the
            gap of one fold is mostly noise below 0.02.
        area: (points,), AUROC of P(U=1 | x, z), mean over folds.
        about: settings, version, times, memory.
    """

    name: str
    points: tuple[str, ...]
    violation: Array
    utility: Array
    gap: Array
    accuracy: Array
    area: Array
    about: dict[str, Any]

    def envelope(self, fold: int | None = None) -> Envelope:
        """Of the fold means, or of one fold; the constant predictor (0, 0) is everybody's."""
        v, u = (x.mean(1) if fold is None else x[:, fold] for x in (self.violation, self.utility))
        return concave_envelope(np.r_[v, 0.0], np.r_[u, 0.0])

    @property
    def cpu(self) -> float:
        """Seconds of CPU time for the path of one fold, mean over folds."""
        return float(np.mean(self.about["cpu_seconds"]))

    def best(self, metric: str, budget: float) -> float | None:
        """The largest accuracy or AUROC among the points whose EO gap is within the budget."""
        fits = self.gap <= budget
        return float(getattr(self, metric)[fits].max()) if fits.any() else None


def read(file: Path, rows: Path, name: str, decided: bool = False) -> Traced:
    """A series' posteriors, measured; `decided`: the decisions at 1/2 in the place of draws from
    the posterior.
    """
    with np.load(file) as found, np.load(rows) as data:
        q, points, about = (
            found["q"].astype(np.float64),
            found["points"],
            json.loads(str(found["about"])),
        )
        y, z, fold = data["y"], data["z"], data["fold"]
    rows_of = [fold == k for k in range(about["folds"])]
    diverged = np.isnan(q[:, np.any(rows_of, axis=0)]).any(
        1
    )  # the mean of the other folds would be of other rows
    q, points = q[~diverged], points[~diverged]
    if not len(q):
        raise ValueError(f"{file}: every point diverged.")
    policy = (q > 0.5).astype(np.float64) if decided else q
    both = np.stack([1.0 - policy, policy], axis=2)
    by_fold = np.stack([tables(both[:, test], y[test], z[test], 2, 2) for test in rows_of], axis=1)
    together = by_fold.sum(1)
    area = np.mean(
        [auroc(np.stack([1.0 - q[:, test], q[:, test]], axis=2), y[test]) for test in rows_of],
        axis=0,
    )
    return Traced(
        f"{name}, decided at 1/2" if decided else name,
        tuple(points.tolist()),
        information.conditional_mutual_information(by_fold),
        information.mutual_information(by_fold),
        information.eo_gap(together),
        information.accuracy(together),
        area,
        about | {"lost": int(diverged.sum())},
    )
