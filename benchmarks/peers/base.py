"""The scores that the post-processors start from: boosted trees, or a network, with held-out rows
for the thresholds.

error-parity and oxonfair show their examples with boosted trees, and both advise rows that the
model has not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.peers.protocol import Rows, hold_out

Score = Callable[[Rows], NDArray[Any]]
SETTINGS = {
    "trees": "HistGradientBoostingClassifier(random_state=0)",
    "MLP": "MLPClassifier 64 × 64, batches of 512, learning rate 0.003, 10 epochs",
}
SPLIT = "on 70 % of the training rows, thresholds on the other 30 %"


def fitted(kind: str, rows: Rows) -> Any:
    """scikit-learn's boosted trees as they come, or a network of the size of ours."""
    if kind == "trees":
        return HistGradientBoostingClassifier(random_state=0).fit(rows.inputs, rows.y)
    network = MLPClassifier(
        (64, 64), batch_size=512, learning_rate_init=3e-3, max_iter=10, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten epochs are meant
        return network.fit(rows.inputs, rows.y)


def score_of(model: Any) -> Score:
    """P(Y=1 | x, z) of a fitted model."""

    def score(rows: Rows) -> NDArray[Any]:
        return np.asarray(model.predict_proba(rows.inputs)[:, 1], dtype=np.float64)

    return score


def scored(kind: str, train: Rows) -> tuple[Score, Rows, NDArray[np.float64]]:
    """A fitted score, the held-out rows, and their scores."""
    part, held = hold_out(train)
    score = score_of(fitted(kind, part))
    return score, held, score(held)
