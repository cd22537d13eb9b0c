"""fairlearn's ExponentiatedGradient: a random choice between weighted classifiers, with logistic
regression and with an MLP.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from benchmarks.peers.protocol import Predict, Rows, Series, main

BOUNDS = (0.005, 0.02, 0.05, 0.1, 0.2)
MLP_BOUNDS = (0.01, 0.05)
MLP_ROUNDS = 8


def trace(
    make: Callable[[], Any], bounds: tuple[float, ...], rounds: int, train: Rows, quick: bool
) -> Iterator[tuple[str, Predict]]:
    """One reduction per bound on the difference of error rates."""
    X = train.inputs.astype(np.float64)
    for bound in bounds[:: max(1, len(bounds) // 2)] if quick else bounds:
        mixture = ExponentiatedGradient(
            make(), EqualizedOdds(difference_bound=bound), max_iter=rounds
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # five epochs are meant
            warnings.filterwarnings("ignore", message="Setting a")  # fairlearn 0.15 on pandas 3
            mixture.fit(X, train.y, sensitive_features=train.z)
        yield f"difference_bound {bound:g}", partial(_policy, mixture)


def _policy(mixture: ExponentiatedGradient, rows: Rows) -> NDArray[Any]:
    return np.clip(mixture._pmf_predict(rows.inputs.astype(np.float64))[:, 1], 0.0, 1.0)


def _logistic() -> LogisticRegression:
    return LogisticRegression(max_iter=300)


def _network() -> MLPClassifier:
    return MLPClassifier(
        (64, 64), batch_size=512, learning_rate_init=3e-3, max_iter=5, random_state=0
    )


SERIES = {
    "fairlearn ExpGrad, logistic": Series(
        f"LogisticRegression(max_iter=300), EqualizedOdds(difference_bound) at {len(BOUNDS)} "
        f"values 0.005 … 0.2, 50 rounds",
        partial(trace, _logistic, BOUNDS, 50),
    ),
    "fairlearn ExpGrad, MLP": Series(
        f"MLPClassifier 64 × 64, 5 epochs; difference_bound {', '.join(map(str, MLP_BOUNDS))} and "
        f"{MLP_ROUNDS} rounds, "
        "two folds: more would take longer than all others together",
        partial(trace, _network, MLP_BOUNDS, MLP_ROUNDS),
        folds=2,
    ),
}

if __name__ == "__main__":
    main(SERIES, "fairlearn")
