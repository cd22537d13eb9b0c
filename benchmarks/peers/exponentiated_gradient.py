"""fairlearn's ExponentiatedGradient: a random choice between weighted classifiers, around the same
trees, with and without the group among their features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient

from benchmarks.peers.protocol import Array, Fold, Predict, Series, main
from benchmarks.peers.rows import booster

BOUNDS, ROUNDS = (0.01, 0.05), 20


def trace(blind: bool, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One reduction per bound on the difference of error rates."""
    train, test = fold.blind_rows if blind else (fold.train.with_group, fold.test.with_group)
    for bound in BOUNDS:
        mixture = ExponentiatedGradient(
            booster(),
            EqualizedOdds(difference_bound=bound),
            max_iter=2 if quick else ROUNDS,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Setting a")  # fairlearn 0.15 on pandas 3
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            mixture.fit(train, fold.train.y, sensitive_features=fold.train.z)
        yield f"difference_bound {bound:g}", partial(_decided, mixture, test)


def _decided(mixture: ExponentiatedGradient, X: Any) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.clip(mixture._pmf_predict(X)[:, 1], 0.0, 1.0)


SERIES = {
    f"ExponentiatedGradient, {'X alone' if blind else '[Z|X]'}": Series(
        f"EqualizedOdds(difference_bound) at {', '.join(map(str, BOUNDS))}, {ROUNDS} rounds around "
        "the same trees; two folds, five of small tables: it trains trees in every round",
        partial(trace, blind),
        folds=2,
    )
    for blind in (False, True)
}

if __name__ == "__main__":
    main(SERIES, "fairlearn")
