"""The score that every post-processor starts from: scikit-learn's boosted trees, with a held-out part for the thresholds.

error-parity and oxonfair show their examples with boosted trees, and both advise rows that the model has not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.peers.protocol import Rows, hold_out

SETTINGS = "HistGradientBoostingClassifier(random_state=0) on 70 % of the training rows, thresholds on the other 30 %"
Score = Callable[[Rows], NDArray[Any]]


def boosted() -> HistGradientBoostingClassifier:
    """scikit-learn's own settings."""
    return HistGradientBoostingClassifier(random_state=0)


def scored(train: Rows) -> tuple[Score, Rows, NDArray[np.float64]]:
    """A fitted score, the held-out rows, and their scores."""
    part, held = hold_out(train)
    model = boosted().fit(part.inputs, part.y)

    def score(rows: Rows) -> NDArray[Any]:
        return model.predict_proba(rows.inputs)[:, 1]

    return score, held, score(held)
