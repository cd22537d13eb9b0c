"""oxonfair: a grid search over one threshold per group, `FairPredictor` (Delaney et al., 2024).

Its documented ways to a frontier: one `fit` computes it, then `fit(..., value, recompute=False)`
moves along it. Without the group at decision time it takes a model of the group (`inferred_groups`)
and has a threshold for each guess, and one for rows where the guess is unsure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from oxonfair import FairPredictor
from oxonfair import group_metrics as gm

from benchmarks.peers.protocol import COSTS, GAPS, Array, Fold, Predict, Series, main, mean_over


def trace(kind: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One grid search per objective, then a walk along its frontier."""
    own, blind = fold.scored[kind], kind == "joint"
    columns = _guessed if blind else _columns
    data = {"data": columns(own.scores), "target": own.y, "groups": own.z}
    for goal, objective in OBJECTIVES.items():
        rule = FairPredictor(_first, data, **({"inferred_groups": _last} if blind else {}))
        for i, value in enumerate(GAPS[::2] if quick else GAPS):
            rule.fit(objective, gm.equalized_odds, value, recompute=i == 0)
            decide = partial(_decided, np.array(rule.offset), rule if blind else fold.test.z)
            yield f"{goal}, {value:g}", partial(mean_over, own.test, decide)


def _decided(offset: Array, groups: Any, scores: Array) -> Array:
    """What `FairPredictor.predict` answers with this offset; groups are in the order of codes."""
    if isinstance(groups, FairPredictor):
        p = _guessed(scores)
        groups, p = groups.infered_to_hard(_last(p)), _first(p)
    else:
        p = _columns(scores)
    p[:, 1] += offset[groups]
    return p.argmax(1).astype(float)


def _columns(scores: NDArray[Any]) -> Array:
    return np.stack([1.0 - scores, scores], axis=1)


def _guessed(joint: NDArray[Any]) -> Array:
    """P(Y | x) beside P(Z | x), of q(y, z | x)."""
    return np.column_stack([joint.sum(2), joint.sum(1)])


def _first(data: Array) -> Array:
    return data[:, :2].copy()  # it changes what a predictor returns in place


def _last(data: Array) -> Array:
    return data[:, 2:].copy()


def _information(TP: Any, FP: Any, FN: Any, TN: Any) -> Any:
    """I(U;Y) from the cells of the confusion matrix: a custom metric, as its documentation shows
    how to write.
    """
    cells = np.stack(np.broadcast_arrays(TP, FP, FN, TN)).astype(float)
    tp, fp, fn, tn = cells / cells.sum(0)
    return _entropy(tp + fn, fp + tn) + _entropy(tp + fp, fn + tn) - _entropy(tp, fp, fn, tn)


def _entropy(*parts: Any) -> Any:
    return -sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0) for p in parts)


def _cost(TP: Any, FP: Any, FN: Any, TN: Any) -> Any:
    """Less is better, and it maximises."""
    return -(COSTS[0] * FP + COSTS[1] * FN) / (TP + FP + FN + TN)


OBJECTIVES = {
    "accuracy": gm.accuracy,
    "cost": gm.GroupMetric(_cost, "cost"),
    "I(U;Y)": gm.GroupMetric(_information, "I(U;Y)"),
}
SERIES = {
    title: Series(
        f"gm.equalized_odds at {len(GAPS)} values {GAPS[0]:g} … {GAPS[-1]:g}, its own grid; "
        f"accuracy, costs 1 and 5, and I(U;Y), the last two custom metrics",
        partial(trace, kind),
        trees=kind,
    )
    for title, kind in (("oxonfair", "cross-fitted"), ("oxonfair, inferred groups", "joint"))
}

PACKAGE = "oxonfair"

if __name__ == "__main__":
    main(SERIES, PACKAGE)
