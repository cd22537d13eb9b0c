"""oxonfair: a grid search over one threshold per group, `FairPredictor` (Delaney et al., 2024).

Its documented ways to a frontier: one `fit` computes it, then `fit(..., value, recompute=False)`
moves along it. Without a predictor it works on a copy of the scores it is given; a predictor's own
array it would change in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from oxonfair import FairPredictor
from oxonfair import group_metrics as gm

from benchmarks.peers import base
from benchmarks.peers.protocol import Predict, Rows, Series, main

VALUES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3)


def trace(kind: str, objective: Any, train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One grid search, then a walk along its frontier."""
    score, held, scores = base.scored(kind, train)
    data = {"data": _columns(scores), "target": held.y, "groups": held.z}
    rule = FairPredictor(None, data)
    for i, value in enumerate(VALUES[::5] if quick else VALUES):
        rule.fit(objective, gm.equalized_odds, value, recompute=i == 0)
        yield f"equalized odds {value:g}", partial(_policy, np.array(rule.offset), score)


def _policy(offset: NDArray[np.float64], score: base.Score, rows: Rows) -> NDArray[np.float64]:
    """What `FairPredictor.predict` answers with this offset: groups are in the order of their
    codes.
    """
    p = _columns(score(rows))
    p[:, 1] += offset[rows.z]
    return p.argmax(1).astype(float)


def _columns(scores: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([1.0 - scores, scores], axis=1)


def _information(TP: Any, FP: Any, FN: Any, TN: Any) -> Any:
    """I(U;Y) from the cells of the confusion matrix: a custom metric, as its documentation shows
    how to write.
    """
    cells = np.stack(np.broadcast_arrays(TP, FP, FN, TN)).astype(float)
    p = cells / cells.sum(0)
    tp, fp, fn, tn = p
    return _entropy(tp + fn, fp + tn) + _entropy(tp + fp, fn + tn) - _entropy(tp, fp, fn, tn)


def _entropy(*parts: Any) -> Any:
    return -sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0) for p in parts)


_OBJECTIVES = {
    "accuracy": gm.accuracy,
    "MCC": gm.mcc,
    "I(U;Y)": gm.GroupMetric(_information, "I(U;Y)"),
}
_PATH = f"gm.equalized_odds at {len(VALUES)} values 0 … 0.3, its own grid"


def _series(kind: str, objective: str) -> Series:
    custom = " (a custom metric)" if objective == "I(U;Y)" else ""
    settings = f"objective {objective}{custom}, {_PATH}; {base.SETTINGS[kind]} {base.SPLIT}"
    return Series(settings, partial(trace, kind, _OBJECTIVES[objective]))


SERIES = {
    "oxonfair, trees, accuracy": _series("trees", "accuracy"),
    "oxonfair, trees, MCC": _series("trees", "MCC"),
    "oxonfair, trees, I(U;Y)": _series("trees", "I(U;Y)"),
    "oxonfair, MLP, I(U;Y)": _series("MLP", "I(U;Y)"),
}

if __name__ == "__main__":
    main(SERIES, "oxonfair")
