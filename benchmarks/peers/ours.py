"""separatrix on the same rows: rules and scores around the same trees, and boosting with the
penalty, with the group and without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import separatrix as sx
from benchmarks.peers.measure import REFUSED
from benchmarks.peers.protocol import COSTS, GAPS, NATS, Array, Fold, Predict, Scored, Series, main, mean_over
from benchmarks.peers.rows import booster
from separatrix import methods
from separatrix.methods import Lane, Sample
from separatrix.optimum.scores.blind_scores import blind_scores
from separatrix.optimum.scores.separated import SeparatedScore, separate

PENALTIES = (None, 3.0, 1.5, 0.8, 0.4, 0.2)
BLIND_PENALTIES = (0.3, 3.0, 30.0)
MODES = ("as it comes", "whole budget")
GOALS: dict[str, tuple[str | sx.Cost, str, tuple[float, ...]]] = {
    "accuracy": ("accuracy", "eo_gap", GAPS),
    "cost": (sx.Cost(*COSTS), "eo_gap", GAPS),
    "utility": ("utility", "violation", NATS),
}


def asked(blind: bool, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """`FrontierClassifier`, fitted once and asked for every goal, budget and mode.

    Where a budget is refused, the smallest that the refusal names is asked for, and a point says
    so.
    """
    train, test = fold.blind_rows if blind else (fold.train.with_group, fold.test.with_group)
    model = sx.FrontierClassifier(booster(), max_eo_gap=1.0, blind=blind, random_state=fold.seed)
    model.fit(train, fold.train.y, sensitive_features=fold.train.z)
    for goal, (maximize, budget, levels) in GOALS.items():
        for level in levels[::2] if quick else levels:
            first = _within(model, budget, level, maximize=maximize)
            whole = _within(model, budget, level, maximize=maximize, use_whole_budget=True)
            for mode, (found, refused) in zip(MODES, (first, whole), strict=True):
                name = f"{mode}, {goal}, {level:g}"
                yield name, partial(_decisions, found, test, fold.test.z)
                yield REFUSED + name, partial(np.full, len(test), float(refused))


def _within(model: Any, budget: str, level: float, **how: Any) -> tuple[Any, bool]:
    """The classifier within a budget; where it is refused, within the smallest that is not."""
    for times in range(4):
        try:
            return model.with_budget(**how, **{f"max_{budget}": level}), times > 0
        except sx.InfeasibleError as error:
            level = error.smallest[budget] * (1 + 1e-6)
    raise RuntimeError(f"the smallest {budget} that a refusal names was refused, four times")


def _decisions(model: Any, X: Any, z: Any) -> Array:
    return np.asarray(model.predict_proba(X, z)[:, 1])


def _rest(own: Scored) -> tuple[Any, Any, Array]:
    return own.y, own.z, np.ones(len(own.y))


def scores(fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """What `SeparatedScorer` fits, for each penalty."""
    own = fold.scored["cross-fitted"]
    for penalty in PENALTIES[::3] if quick else PENALTIES:
        found = separate(own.y, own.scores, sensitive_features=own.z, penalty=penalty, borrow=True)
        what = "separated" if penalty is None else f"β {penalty:g}"
        yield what, partial(_drawn, found, own.test, fold.test.z)


def blind_score_path(fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """What `SeparatedScorer(blind=True)` fits, for each penalty."""
    own = fold.scored["joint"]
    betas = BLIND_PENALTIES[::3] if quick else BLIND_PENALTIES
    for beta, score in zip(betas, blind_scores(own.scores, *_rest(own), betas), strict=True):
        yield f"β {beta:g}", partial(mean_over, own.test, score.transform)


def _drawn(score: SeparatedScore, members: Array, z: Any) -> Array:
    """One draw for every test row, by one of the members, drawn too."""
    rng = np.random.default_rng(0)
    row = np.arange(len(z))
    own = members[rng.integers(len(members), size=len(z)), row]
    return score.transform(own, sensitive_features=z, random_state=1)


def plain(kind: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """The trees themselves: of q(y, z | x) the posterior of the label."""
    members = fold.scored[kind].test
    own = members[:, :, 1].sum(-1) if members.ndim == 4 else members
    yield "plain", partial(np.mean, own, axis=0)


def boosting(recipe: str, use_sensitive: bool, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """`cmi_boosting`, its whole grid of λ at once."""
    train, test = (fold.train.X, fold.test.X) if use_sensitive else fold.blind_rows
    groups = int(fold.train.z.max()) + 1
    grid = methods.get("cmi_boosting").grid()
    grid = grid[::5] if quick else grid
    sample = Sample(train, fold.train.y, fold.train.z, 2, groups)
    fitted = methods.fit("cmi_boosting", sample, [Lane(t) for t in grid], recipe=recipe, use_sensitive=use_sensitive)
    for i, trade_off in enumerate(grid):
        yield f"λ {trade_off:g}", partial(_lane, fitted, i, test, fold.test.z)


def _lane(fitted: Any, i: int, X: Any, z: Any) -> Array:
    return np.asarray(fitted[[i]].posteriors(X, z)[0, :, 1])


_ASKED = {
    f"FrontierClassifier{'(blind)' if blind else ''}": Series(
        f"accuracy at {len(GAPS)} EO gaps, costs 1 and 5 at the same, u at {len(NATS)} violations; "
        "as it comes, and with use_whole_budget",
        partial(asked, blind),
    )
    for blind in (False, True)
}
_BOOSTING = {
    f"cmi_boosting, {recipe}, {'[Z|X]' if sees else 'X alone'}": Series(
        f"penalty of the {recipe}, its own grid of λ; three folds, five of small tables",
        partial(boosting, name, sees),
        folds=3,
    )
    for sees in (True, False)
    for recipe, name in (("draw", "default"), ("score", "score"))
}
SERIES = {
    "trees, [Z|X]": Series("as they come", partial(plain, "cross-fitted"), "cross-fitted"),
    "trees, X alone": Series("as they come", partial(plain, "joint"), "joint"),
    **_ASKED,
    "SeparatedScorer": Series(f"exact and β {', '.join(f'{b:g}' for b in PENALTIES if b)}", scores, "cross-fitted"),
    "SeparatedScorer(blind)": Series(
        f"β {', '.join(f'{b:g}' for b in BLIND_PENALTIES)}; q(y, z | x) of the same trees", blind_score_path, "joint"
    ),
    **_BOOSTING,
}

PACKAGE = "separatrix"

if __name__ == "__main__":
    main(SERIES, PACKAGE)
