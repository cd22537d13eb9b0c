"""oxonfair: a grid search over one threshold per group, `FairPredictor` (Delaney et al., 2024).

Its documented ways to a frontier: one `fit` computes it, then `fit(..., value, recompute=False)` moves along it. Without a
predictor it works on a copy of the scores it is given; a predictor's own array it would change in place.
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

VALUES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)


def trace(objective: Any, train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One grid search, then a walk along its frontier."""
    score, held, scores = base.scored(train)
    data = {"data": _columns(scores), "target": held.y, "groups": held.z}
    rule = FairPredictor(None, data)
    for i, value in enumerate(VALUES[::5] if quick else VALUES):
        rule.fit(objective, gm.equalized_odds, value, recompute=i == 0)
        yield f"equalized odds {value:g}", partial(_policy, np.array(rule.offset), score)


def _policy(offset: NDArray[np.float64], score: base.Score, rows: Rows) -> NDArray[np.float64]:
    """What `FairPredictor.predict` answers with this offset: groups are in the order of their codes."""
    p = _columns(score(rows))
    p[:, 1] += offset[rows.z]
    return p.argmax(1).astype(float)


def _columns(scores: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([1.0 - scores, scores], axis=1)


def _information(TP: Any, FP: Any, FN: Any, TN: Any) -> Any:
    """I(U;Y) from the cells of the confusion matrix: a custom metric, as its documentation shows how to write."""
    cells = np.stack(np.broadcast_arrays(TP, FP, FN, TN)).astype(float)
    p = cells / cells.sum(0)
    tp, fp, fn, tn = p
    return _entropy(tp + fn, fp + tn) + _entropy(tp + fp, fn + tn) - _entropy(tp, fp, fn, tn)


def _entropy(*parts: Any) -> Any:
    return -sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0) for p in parts)


_PATH = f"gm.equalized_odds at {len(VALUES)} values 0 … 0.3, its own grid; {base.SETTINGS}"
SERIES = {
    "oxonfair": Series(f"gm.accuracy, {_PATH}", partial(trace, gm.accuracy)),
    "oxonfair, MCC": Series(f"gm.mcc, {_PATH}", partial(trace, gm.mcc)),
    "oxonfair, custom I(U;Y)": Series(
        f"gm.GroupMetric of I(U;Y), {_PATH}", partial(trace, gm.GroupMetric(_information, "I(U;Y)"))
    ),
}

if __name__ == "__main__":
    main(SERIES, "oxonfair")
