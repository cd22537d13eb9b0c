"""separatrix on the same rows: rules and scores around the same trees, and boosting with the
penalty, with the group and without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers.protocol import GAPS, Array, Fold, Predict, Scored, Series, main, mean_over
from separatrix import methods
from separatrix.errors import InfeasibleError
from separatrix.methods import Lane, Sample
from separatrix.optimum.promised import BlindPromises, Promises
from separatrix.optimum.scores.blind_scores import blind_scores
from separatrix.optimum.scores.separated import SeparatedScore, separate

NATS = (0.0, 1e-5, 1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 7e-3, 0.01, 0.02, 0.04)
BLIND_GAPS, BLIND_NATS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2), (1e-4, 1e-3, 0.01, 0.03)
PENALTIES = (None, 3.0, 1.5, 0.8, 0.4, 0.2)
BLIND_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
QUESTIONS = {"accuracy": ("eo_gap", GAPS), "utility": ("violation", NATS)}
BLIND_QUESTIONS = {"accuracy": ("eo_gap", BLIND_GAPS), "utility": ("violation", BLIND_NATS)}


def rules(kind: str, maximize: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """What `FrontierClassifier` fits, with its margin and, as the peers do, without one."""
    own, (budget, levels) = fold.scored[kind], QUESTIONS[maximize]
    both = np.stack([1.0 - own.scores, own.scores], axis=1)
    best = Promises(both, *_rest(own), maximize=maximize, budget=budget)
    for name, rule in _asked(best, budget, levels[::5] if quick else levels):
        yield name, partial(mean_over, own.test, partial(_of, rule, fold.test.z))


def blind_rules(maximize: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """The same without the group: mixtures of half-spaces of q(y, z | x)."""
    own, (budget, levels) = fold.scored["joint"], BLIND_QUESTIONS[maximize]
    best = BlindPromises(own.scores, *_rest(own), maximize=maximize, budget=budget)
    for name, rule in _asked(best, budget, levels[::3] if quick else levels):
        yield name, partial(mean_over, own.test, partial(_of_joint, rule))


def _rest(own: Scored) -> tuple[Any, Any, Array, tuple[int, ...]]:
    return own.y, own.z, np.ones(len(own.y)), tuple(range(int(own.z.max()) + 1))


def _asked(
    best: Promises | BlindPromises, budget: str, levels: Sequence[float]
) -> Iterator[tuple[str, Any]]:
    """Rules that promise each level; where that is refused, the smallest that can be promised. And
    rules that keep it on the rows that they are fitted to.
    """
    for level in levels:
        try:
            found = best.rule(level)
        except InfeasibleError as error:
            found = best.rule(error.smallest[budget])
        yield f"{budget} {level:g}, promised", found.rule
        yield f"{budget} {level:g}, on the rows", best.rule(level, margin=0.0).rule


def _of(rule: Any, z: Any, scores: Array) -> Array:
    return np.asarray(rule.predict_proba(scores, sensitive_features=z)[:, 1])


def _of_joint(rule: Any, q: Array) -> Array:
    return np.asarray(rule.predict_proba(q)[:, 1])


def scores(kind: str, fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """What `SeparatedScorer` fits, for each penalty."""
    own = fold.scored[kind]
    for penalty in PENALTIES[::3] if quick else PENALTIES:
        found = separate(own.y, own.scores, sensitive_features=own.z, penalty=penalty, borrow=True)
        what = "separated" if penalty is None else f"β {penalty:g}"
        yield what, partial(_drawn, found, own.test, fold.test.z)


def blind_score_path(fold: Fold, quick: bool) -> Iterator[tuple[str, Predict]]:
    """What `SeparatedScorer(blind=True)` fits, for each penalty."""
    own = fold.scored["joint"]
    betas = BLIND_PENALTIES[::3] if quick else BLIND_PENALTIES
    for beta, score in zip(betas, blind_scores(own.scores, *_rest(own)[:3], betas), strict=True):
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


def boosting(
    recipe: str, use_sensitive: bool, fold: Fold, quick: bool
) -> Iterator[tuple[str, Predict]]:
    """`cmi_boosting`, its whole grid of λ at once."""
    train, test = (fold.train.X, fold.test.X) if use_sensitive else fold.blind_rows
    groups = int(fold.train.z.max()) + 1
    grid = methods.get("cmi_boosting").grid()
    grid = grid[::5] if quick else grid
    sample = Sample(train, fold.train.y, fold.train.z, 2, groups)
    fitted = methods.fit(
        "cmi_boosting", sample, [Lane(t) for t in grid], recipe=recipe, use_sensitive=use_sensitive
    )
    for i, trade_off in enumerate(grid):
        yield f"λ {trade_off:g}", partial(_lane, fitted, i, test, fold.test.z)


def _lane(fitted: Any, i: int, X: Any, z: Any) -> Array:
    return np.asarray(fitted[[i]].posteriors(X, z)[0, :, 1])


_RULES = {
    f"FrontierClassifier, {maximize}, {kind}": Series(
        f"{len(levels)} levels of {budget}, margin computed and 0",
        partial(rules, kind, maximize),
        kind,
    )
    for maximize, (budget, levels) in QUESTIONS.items()
    for kind in ("held out", "cross-fitted")
}
_BLIND = {
    f"FrontierClassifier(blind), {maximize}": Series(
        f"{len(levels)} levels of {budget}, margin computed and 0; q(y, z | x) of the same trees",
        partial(blind_rules, maximize),
        "joint",
        folds=5 if maximize == "accuracy" else 3,
    )
    for maximize, (budget, levels) in BLIND_QUESTIONS.items()
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
    **_RULES,
    **_BLIND,
    "SeparatedScorer, cross-fitted": Series(
        f"exact and β {', '.join(f'{b:g}' for b in PENALTIES if b)}",
        partial(scores, "cross-fitted"),
        "cross-fitted",
    ),
    "SeparatedScorer(blind)": Series(
        f"β {', '.join(f'{b:g}' for b in BLIND_PENALTIES)}; q(y, z | x) of the same trees",
        blind_score_path,
        "joint",
    ),
    **_BOOSTING,
}

if __name__ == "__main__":
    main(SERIES, "separatrix")
