"""separatrix's own methods on the same rows: `cmi`, `mi_objective`, `postprocessing`, and the
channel around the peers' boosted trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.model_selection import StratifiedKFold

from benchmarks.peers import base
from benchmarks.peers.protocol import Predict, Rows, Series, main
from separatrix import methods
from separatrix.methods import Lane, Sample
from separatrix.optimum.certified import certified_curve
from separatrix.optimum.decisions import rule_of
from separatrix.optimum.limits import limit
from separatrix.optimum.rules import ThresholdChannel

GRIDS = {
    "cmi": (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0),
    "mi_objective": (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7),
    "postprocessing": (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.2, 1.5),
}
ROOTS = (
    0.0,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.7,
    1.0,
)  # √(v / v of the most useful rule)


def trace(name: str, train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """The whole grid as one stack."""
    grid = GRIDS[name][::5] if quick else GRIDS[name]
    fitted = methods.fit(
        name, Sample(train.X, train.y, train.z), [Lane(trade_off) for trade_off in grid]
    )
    for i, trade_off in enumerate(grid):
        yield f"λ {trade_off:g}", partial(_lane, fitted, i)


def _lane(fitted: Any, i: int, rows: Rows) -> NDArray[Any]:
    return fitted.posteriors(rows.X, rows.z)[i, :, 1]


def crossed_trees(train: Rows) -> tuple[list[base.Score], NDArray[np.float64]]:
    """Five scorers, each without a fifth of the rows, and the score that each row has of the one
    that has not seen it.
    """
    scorers, scores = [], np.empty(len(train.y))
    for fit, rest in StratifiedKFold(5, shuffle=True, random_state=0).split(train.X, train.y):
        scorers.append(base.score_of(base.fitted("trees", train.take(fit))))
        scores[rest] = scorers[-1](train.take(rest))
    return scorers, scores


def plane_on_trees(train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """`mi_objective` with the trees' score as one more column."""
    scorers, scores = crossed_trees(train)
    wider = Sample(_with_score(train, scores), train.y, train.z)
    grid = GRIDS["mi_objective"][::5] if quick else GRIDS["mi_objective"]
    fitted = methods.fit("mi_objective", wider, [Lane(trade_off) for trade_off in grid])

    def policy(i: int, rows: Rows) -> NDArray[Any]:
        one = [
            fitted[[i]].posteriors(_with_score(rows, scorer(rows)), rows.z)[0, :, 1]
            for scorer in scorers
        ]
        return np.mean(one, axis=0)

    for i, trade_off in enumerate(grid):
        yield f"λ {trade_off:g}", partial(policy, i)


def _with_score(rows: Rows, score: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.column_stack([rows.X, logit(np.clip(score, 1e-6, 1.0 - 1e-6))]).astype(np.float32)


def channel(crossed: bool, train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """The certified rules of a score's limit at rising levels of v: what `FrontierClassifier` does,
    for a whole path.
    """
    if crossed:
        held = train
        scorers, scores = crossed_trees(train)
    else:
        scorer, held, scores = base.scored("trees", train)
        scorers = [scorer]
    best = limit(held.y, scores, sensitive_features=held.z, points=2, tolerance=1e-4)
    roots = np.array(ROOTS[::5] if quick else ROOTS)
    curve = certified_curve(best.regions, best.violation[-1] * roots**2, tolerance=1e-4)
    for root, rates in zip(roots, curve.rates, strict=True):
        rule = rule_of(rates, best.curves, best.regions, best.groups)
        yield f"√v {root:g}", partial(_policy, rule, scorers)


def _policy(rule: ThresholdChannel, scorers: list[base.Score], rows: Rows) -> NDArray[Any]:
    return np.mean([rule.predict_proba(scorer(rows), sensitive_features=rows.z)[:, 1] for scorer in scorers], axis=0)


def _grid(name: str) -> str:
    return f"recipe default, λ {', '.join(f'{t:g}' for t in GRIDS[name])}"


SERIES = {
    "cmi": Series(_grid("cmi"), partial(trace, "cmi")),
    "mi_objective": Series(_grid("mi_objective"), partial(trace, "mi_objective")),
    "mi_objective, trees": Series(
        f"{_grid('mi_objective')}; one more column: the score of {base.SETTINGS['trees']}, "
        f"five-fold cross-fitted, at a prediction "
        "that of one of the five drawn at random",
        plane_on_trees,
    ),
    "postprocessing": Series(_grid("postprocessing"), partial(trace, "postprocessing")),
    "postprocessing, trees": Series(
        f"{base.SETTINGS['trees']}, five-fold cross-fitted, one of the five drawn at random; "
        f"{len(ROOTS)} levels of v",
        partial(channel, True),
    ),
    "postprocessing, trees held out": Series(
        f"{len(ROOTS)} levels of v; {base.SETTINGS['trees']} {base.SPLIT}", partial(channel, False)
    ),
}

if __name__ == "__main__":
    main(SERIES, "separatrix")
