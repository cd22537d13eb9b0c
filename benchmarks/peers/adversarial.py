"""fairlearn's AdversarialFairnessClassifier with the torch backend: a predictor against an
adversary that sees (score, y).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from fairlearn.adversarial import AdversarialFairnessClassifier
from numpy.typing import NDArray

from benchmarks.peers.protocol import Predict, Rows, Series, main

ALPHAS = (0.03, 0.1, 0.3, 1.0, 10.0)  # α = 0 is not plain training here: the projection stays
EPOCHS = 20


def trace(train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One pair of networks per α."""
    torch.set_num_threads(1)
    X = train.inputs
    for alpha in ALPHAS[::2] if quick else ALPHAS:
        model = AdversarialFairnessClassifier(
            backend="torch",
            predictor_model=[64, "relu", 64, "relu"],
            adversary_model=[32, "leaky_relu"],
            constraints="equalized_odds",
            alpha=alpha,
            epochs=EPOCHS,
            batch_size=512,
            learning_rate=1e-3,
            shuffle=True,
            random_state=0,
        )
        try:
            model.fit(X, train.y, sensitive_features=train.z)
        except RuntimeError as error:
            if "between 0 and 1" not in str(error):
                raise
            yield (
                f"alpha {alpha:g}",
                _lost,
            )  # it met a NaN: a point that diverged, not a program that failed
        else:
            yield f"alpha {alpha:g}", partial(_policy, model)


def _lost(rows: Rows) -> NDArray[Any]:
    return np.full(len(rows.y), np.nan)


def _policy(model: AdversarialFairnessClassifier, rows: Rows) -> NDArray[Any]:
    return np.ravel(
        model._raw_predict(rows.inputs)
    )  # the predictor ends in a sigmoid; `predict` cuts it at 1/2


SERIES = {
    "fairlearn Adversarial": Series(
        f"predictor [64, relu, 64, relu], adversary [32, leaky_relu], equalized_odds, "
        f"{len(ALPHAS)} alphas 0.03 … 10, "
        f"{EPOCHS} epochs, batches of 512, learning rate 0.001; two folds",
        trace,
        folds=2,
    )
}

if __name__ == "__main__":
    main(SERIES, "fairlearn")
