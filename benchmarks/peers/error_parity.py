"""error-parity: the linear programme of Hardt et al. relaxed, `RelaxedThresholdOptimizer` (Cruz and
Hardt, 2024).

Its optimiser is handed the scores themselves, so that it need not compute them again for every
tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from error_parity import RelaxedThresholdOptimizer
from error_parity.classifiers import BinaryClassifier, BinaryClassifierAtROCDiagonal, RandomizedClassifier
from numpy.typing import NDArray

from benchmarks.peers.protocol import COSTS, GAPS, Array, Fold, Predict, Series, main, mean_over


def trace(fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One linear programme per costs and tolerance."""
    own = fold.scored["cross-fitted"]
    rate = float(own.y.mean())
    balanced = 1 / (1 - rate), 1 / rate
    for goal, costs in (("accuracy", (1.0, 1.0)), ("cost", COSTS), ("balanced", balanced)):
        for gap in GAPS[::2] if quick else GAPS:
            rule = RelaxedThresholdOptimizer(
                predictor=np.ravel,
                constraint="equalized_odds",
                tolerance=gap,
                false_pos_cost=costs[0],
                false_neg_cost=costs[1],
            )
            rule.fit(X=own.scores[:, None], y=own.y, group=own.z)
            decide = partial(decided, rule._realized_classifier.group_to_clf, fold.test.z)
            yield f"{goal}, {gap:g}", partial(mean_over, own.test, decide)


def decided(rules: dict[int, Any], z: NDArray[Any], scores: Array) -> Array:
    """The probabilities that its randomised classifiers draw from."""
    q = np.empty(len(scores))
    for group, rule in rules.items():
        q[z == group] = _probability(rule, scores[z == group])
    return q


def _probability(rule: Any, s: Array) -> Array:
    if isinstance(rule, BinaryClassifier):
        return np.asarray(s >= rule.threshold, dtype=float)
    if isinstance(rule, BinaryClassifierAtROCDiagonal):
        return np.full(len(s), rule.target_fpr)
    if isinstance(rule, RandomizedClassifier):
        return sum(p * _probability(c, s) for p, c in zip(rule.probabilities, rule.classifiers, strict=True))
    # a point inside the ROC region mixes in a coin, a closure over its probability of a one
    cells = (cell.cell_contents for cell in rule.__closure__)
    names = dict(zip(rule.__code__.co_freevars, cells, strict=True))
    return np.full(len(s), float(names["fpr_rand"]))


SERIES = {
    "error-parity": Series(
        f"equalized_odds, {len(GAPS)} tolerances {GAPS[0]:g} … {GAPS[-1]:g}, costs 1 and 1, "
        "1 and 5, 1/P(Y=0) and 1/P(Y=1)",
        trace,
        trees="cross-fitted",
    )
}

PACKAGE = "error-parity"

if __name__ == "__main__":
    main(SERIES, PACKAGE)
