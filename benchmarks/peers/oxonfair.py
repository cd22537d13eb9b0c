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

from benchmarks.peers.protocol import GAPS, Array, Fold, Predict, Series, main, mean_over


def trace(
    kind: str, objective: Any, gaps: tuple[float, ...], fold: Fold, quick: bool
) -> Iterator[tuple[str, Predict]]:
    """One grid search, then a walk along its frontier."""
    own, blind = fold.scored[kind], kind == "joint"
    columns = _guessed if blind else _columns
    data = {"data": columns(own.scores), "target": own.y, "groups": own.z}
    rule = FairPredictor(_first, data, **({"inferred_groups": _last} if blind else {}))
    for i, value in enumerate(gaps[::5] if quick else gaps):
        rule.fit(objective, gm.equalized_odds, value, recompute=i == 0)
        decide = partial(_decided, np.array(rule.offset), rule if blind else fold.test.z)
        yield f"equalized odds {value:g}", partial(mean_over, own.test, decide)


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


_OBJECTIVES = {
    "accuracy": gm.accuracy,
    "I(U;Y)": gm.GroupMetric(_information, "I(U;Y)"),
}
_KINDS = {"held out": "held out", "cross-fitted": "cross-fitted", "joint": "inferred groups"}
SERIES = {
    f"oxonfair, {objective}, {title}": Series(
        f"gm.equalized_odds at {len(GAPS)} values {GAPS[0]:g} … {GAPS[-1]:g}, its own grid, "
        f"objective {objective}{' (a custom metric)' if objective == 'I(U;Y)' else ''}",
        partial(trace, kind, metric, GAPS),
        trees=kind,
    )
    for objective, metric in _OBJECTIVES.items()
    for kind, title in _KINDS.items()
} | {
    "one budget": Series(
        "gm.equalized_odds 0.05, its own grid, objective accuracy",
        partial(trace, "held out", gm.accuracy, (0.05,)),
        trees="held out",
    )
}

if __name__ == "__main__":
    main(SERIES, "oxonfair")
