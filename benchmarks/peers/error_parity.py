"""error-parity: the linear programme of Hardt et al. relaxed, `RelaxedThresholdOptimizer` (Cruz and
Hardt, 2024).

Its optimiser is handed the held-out scores themselves, so that it need not compute them again for
every tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from error_parity import RelaxedThresholdOptimizer
from error_parity.classifiers import (
    BinaryClassifier,
    BinaryClassifierAtROCDiagonal,
    RandomizedClassifier,
)
from numpy.typing import NDArray

from benchmarks.peers import base
from benchmarks.peers.protocol import Predict, Rows, Series, main

TOLERANCES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3)


def trace(kind: str, balanced: bool, train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One linear programme per tolerance."""
    score, held, scores = base.scored(kind, train)
    rate = float(held.y.mean())
    costs = (1 / (1 - rate), 1 / rate) if balanced else (1.0, 1.0)
    for tolerance in TOLERANCES[::5] if quick else TOLERANCES:
        rule = RelaxedThresholdOptimizer(
            predictor=np.ravel,
            constraint="equalized_odds",
            tolerance=tolerance,
            false_pos_cost=costs[0],
            false_neg_cost=costs[1],
        )
        rule.fit(X=scores[:, None], y=held.y, group=held.z)
        yield (
            f"tolerance {tolerance:g}",
            partial(_policy, rule._realized_classifier.group_to_clf, score),
        )


def _policy(rules: dict[int, Any], score: base.Score, rows: Rows) -> NDArray[np.float64]:
    """The probabilities that its randomised classifiers draw from."""
    s, q = score(rows), np.empty(len(rows.y))
    for group, rule in rules.items():
        mine = rows.z == group
        q[mine] = _probability(rule, s[mine])
    return q


def _probability(rule: Any, s: NDArray[Any]) -> NDArray[np.float64]:
    if isinstance(rule, BinaryClassifier):
        return np.asarray(s >= rule.threshold, dtype=float)
    if isinstance(rule, BinaryClassifierAtROCDiagonal):
        return np.full(len(s), rule.target_fpr)
    if isinstance(rule, RandomizedClassifier):
        return sum(
            p * _probability(c, s)
            for p, c in zip(rule.probabilities, rule.classifiers, strict=True)
        )
    # a point inside the ROC region mixes in a coin, a closure over its probability of a one
    names = dict(
        zip(
            rule.__code__.co_freevars,
            (cell.cell_contents for cell in rule.__closure__),
            strict=True,
        )
    )
    return np.full(len(s), float(names["fpr_rand"]))


_COSTS = {False: "costs 1 and 1 (accuracy)", True: "costs 1/P(Y=0) and 1/P(Y=1)"}
_PATH = f"equalized_odds, {len(TOLERANCES)} tolerances 0 … 0.3"


def _series(kind: str, balanced: bool) -> Series:
    return Series(
        f"{_COSTS[balanced]}, {_PATH}; {base.SETTINGS[kind]} {base.SPLIT}",
        partial(trace, kind, balanced),
    )


SERIES = {
    "error-parity, trees": _series("trees", False),
    "error-parity, trees, balanced costs": _series("trees", True),
    "error-parity, MLP, balanced costs": _series("MLP", True),
}

if __name__ == "__main__":
    main(SERIES, "error-parity")
