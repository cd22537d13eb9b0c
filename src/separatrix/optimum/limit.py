r"""The limit: the best that any binary decision from a score can do within a budget, and its rule.

Two labels: exact, certified, any number of groups, any objective and budget (`decisions`). A rule
is a randomised threshold per group; where the score is the true posterior P(Y=1|X,Z), no other
binary decision from (X,Z) does better. A prediction with more values than two can say more.

More labels: a convex dual on the law of the posteriors (`dual`), certified for accuracy, balanced
accuracy and matrices of gains; for the utility the best rule found.

The limit is that of the law of the given rows. Scores fitted on the same rows flatter it: pass
held-out scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.groups import as_groups
from separatrix.columns.histograms import ScoreHistogram, score_histogram
from separatrix.columns.scores import binary_score, check_posteriors, check_weight
from separatrix.columns.values import Levels, as_levels, check_lengths, listed
from separatrix.core.numbers import as_floats
from separatrix.errors import InputError
from separatrix.optimum.experimental.free_alphabet import MOST_LABELS, FreeAlphabet
from separatrix.optimum.label_limit import LabelLimit, Solver, label_limit
from separatrix.optimum.multiclass.dual import LabelDual
from separatrix.optimum.multiclass.label_columns import EoColumns
from separatrix.optimum.multiclass.label_law import LabelLaw, gains_of
from separatrix.optimum.objectives import Cost, budget_for, budget_named, objective_of
from separatrix.optimum.roc.decision_limit import DecisionLimit, checked_level
from separatrix.optimum.roc.decisions import group_curves, least_level, solve
from separatrix.optimum.roc.regions import RocCurve, roc_curve

__all__ = ["limit", "limit_frame"]

Array = NDArray[np.float64]
_SLOW = 11  # points of a curve where each takes a third of a second
_FEWEST = 1e-12  # a budget that the free optimum does not use is no budget


def limit(
    y_true: Any,
    scores: Any,
    *,
    sensitive_features: Any,
    sample_weight: ArrayLike | None = None,
    maximize: str | Cost | ArrayLike = "utility",
    budget: str | None = None,
    criterion: str = "separation",
    levels: ArrayLike | None = None,
    points: int = 41,
    tolerance: float | None = None,
    alphabet: str = "labels",
) -> DecisionLimit | LabelLimit:
    """The best decisions from a score, for every level of a budget.

    Args:
        y_true: labels.
        scores: held-out scores: one per row (n,) or posteriors (n, 2) for two labels, posteriors
            (n, K) for K labels, columns in the order of the sorted labels.
        sensitive_features: groups; several columns make their intersection.
        sample_weight: weights of the rows.
        maximize: "utility", "accuracy", "balanced_accuracy" or `Cost(...)`; for more than two
            labels also a matrix of gains [label, decision].
        budget: what is kept small; None for the first of its criterion below. All but "violation",
            "eo_gap" and "eo_max" need two labels.
        criterion: "separation" ("violation", "eo_gap", "eo_max", "fpr_gap"), "independence"
            ("independence", "parity_gap"), "sufficiency" ("predictive_gap") or "equal_opportunity"
            ("tpr_gap").
        levels: budgets to solve for. By default `points` of them, from zero to what the best
            decision without any budget uses, closer together where the budget is small.
        tolerance: where the search for an upper bound may stop; 5e-5 nats for u under v, else 1e-6.
        alphabet: "labels": decisions, one of the labels. "free": predictions with any values, for
            "utility" under "violation", posteriors and at most three labels; certified.

    Returns:
        `DecisionLimit` for two labels, `LabelLimit` for more and for a free alphabet. Both have
        `levels`, `values`, `upper`, `gap` and `rule(level)`; `upper` and `gap` are NaN for u of
        decisions among more than two labels.

    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    >>> scores = rng.normal(size=2000) + y * (1 + z)
    >>> best = limit(y, scores, sensitive_features=z, maximize="accuracy", budget="eo_gap")
    >>> bool(best.values[0] < best.values[-1]), bool(best.gap < 1e-6)
    (True, True)
    >>> best.rule(0.01).predict_proba([9.0, -9.0], sensitive_features=[0, 0])[:, 1]
    array([1., 0.])
    """
    (y_codes, labels), (z_codes, groups) = (
        as_levels(y_true, "y_true"),
        as_groups(sensitive_features),
    )
    if len(labels) < 2:
        found = f"a single label, {labels[0]!r}" if labels else "no rows"
        raise InputError(f"`y_true` holds {found}: nothing to predict.")
    kind = budget_for(criterion, budget)
    budget = kind.name
    if points < 2:
        raise InputError(f"`points` must be at least 2, got {points}.")
    wanted = None if levels is None else _levels(levels, budget)
    if alphabet not in ("labels", "free"):
        raise InputError(f"`alphabet` must be 'labels' or 'free', got {alphabet!r}.")
    free = alphabet == "free"
    informative = isinstance(maximize, str) and maximize == "utility" and budget == "violation"
    if free and not informative:
        raise InputError("`alphabet='free'` is for maximize='utility' and budget='violation'.")
    if free and len(labels) > MOST_LABELS:
        raise InputError(
            f"There is no bound on u for {len(labels)} labels: `alphabet='free'` takes at most "
            f"{MOST_LABELS}."
        )
    if len(labels) == 2 and not free:
        s = binary_score(scores)
        n = check_lengths({"scores": s, "y_true": y_codes, "sensitive_features": z_codes})
        w = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
        curves, mass = group_curves(s, y_codes, z_codes, w, len(groups))
        _check_labels(mass)
        return decision_limit(
            curves, mass, labels, groups, _named(maximize), budget, wanted, points, tolerance
        )
    if budget not in ("violation", "eo_gap", "eo_max"):
        raise InputError(
            f"`budget={budget!r}` needs two labels; for {len(labels)} use 'violation', 'eo_gap' or "
            "'eo_max'."
        )
    p = check_posteriors(scores, "scores")
    n = check_lengths({"scores": p, "y_true": y_codes, "sensitive_features": z_codes})
    if p.shape[1] != len(labels):
        raise InputError(
            f"`scores` has {p.shape[1]} columns for {len(labels)} labels ({listed(labels)}): "
            "pass one per label."
        )
    weight = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    if budget == "violation":
        law = LabelLaw(p, z_codes, weight, len(groups))
        gains = gains_of(maximize, law.prior)
        dual: Solver = FreeAlphabet(law) if free else LabelDual(law, gains)
    else:
        gains = gains_of(maximize, weight @ p / weight.sum())
        if gains is None:
            raise InputError(
                f"For {len(labels)} labels 'utility' goes with 'violation'; under {budget!r} "
                "maximise 'accuracy', 'balanced_accuracy' or a matrix of gains."
            )
        dual = EoColumns(p, z_codes, weight, len(groups), gains, budget == "eo_max")
    return label_limit(dual, wanted, min(points, 9), labels, groups, budget)


def limit_frame(
    frame: Any,
    *,
    y: str,
    z: str | Sequence[str],
    score: str,
    weight: str | None = None,
    maximize: str | Cost = "utility",
    budget: str | None = None,
    criterion: str = "separation",
    levels: ArrayLike | None = None,
    points: int = 41,
    tolerance: float | None = None,
    bins: int = 4096,
    span: tuple[float, float] | None = (0.0, 1.0),
) -> DecisionLimit:
    """`limit` for two labels on a table: pandas, polars, pyarrow, DuckDB, Dask, PySpark, …

    The engine counts labels, groups and bins of the score in one group-by (`score_histogram`); the
    limit is that of the score rounded down to its bin, and the rules' thresholds are edges of bins.

    Args:
        frame: anything narwhals takes; lazy and distributed frames stay where they are.
        y, z, score, weight: names of columns; several for z make the intersection of groups.
        bins, span: of the score; `span=None` for scores that are not between 0 and 1.

    The other arguments are those of `limit`.

    >>> import polars as pl
    >>> s = [0.1, 0.6, 0.5, 0.9] * 2
    >>> t = pl.DataFrame({"y": [0, 0, 1, 1] * 2, "z": ["a"] * 4 + ["b"] * 4, "s": s})
    >>> best = limit_frame(t, y="y", z="z", score="s", maximize="accuracy", budget="eo_gap")
    >>> best.values.tolist()
    [0.75]
    """
    histogram = score_histogram(frame, y=y, z=z, score=score, bins=bins, weight=weight, span=span)
    if len(histogram.labels) != 2:
        raise InputError(
            f"Column {y!r} holds {len(histogram.labels)} labels ({listed(histogram.labels)}); a "
            "score needs two. For more, pass posteriors to `limit`."
        )
    curves, mass = histogram_curves(histogram)
    budget = budget_for(criterion, budget).name
    wanted = None if levels is None else _levels(levels, budget)
    return decision_limit(
        curves, mass, histogram.labels, histogram.groups, _named(maximize), budget, wanted, points,
        tolerance,
    )  # fmt: skip


def histogram_curves(histogram: ScoreHistogram) -> tuple[tuple[RocCurve, ...], Array]:
    """The groups' ROC curves of a score histogram, and P(Y=y, Z=z) (groups, 2)."""
    negative, positive = histogram.counts
    lower = histogram.edges[:-1]
    curves = []
    for z in range(len(histogram.groups)):
        seen = (positive[z] + negative[z]) > 0
        curves.append(roc_curve(lower[seen], positive[z, seen], negative[z, seen]))
    mass = histogram.counts.sum(-1).T
    _check_labels(mass)
    return tuple(curves), mass / mass.sum()


def decision_limit(
    curves: tuple[RocCurve, ...],
    mass: Array,
    labels: Levels,
    groups: Levels,
    maximize: str | Cost = "utility",
    budget: str = "violation",
    levels: Array | None = None,
    points: int = 41,
    tolerance: float | None = None,
) -> DecisionLimit:
    """The limit of given ROC curves; the arguments are those of `limit`."""
    if levels is None:
        free = solve(
            curves, mass, maximize=maximize, budget=budget, levels=np.ones(1), groups=groups,
            tolerance=tolerance,
        )  # fmt: skip
        # no rate differs by more than one, and v of two labels and decisions is at most log 2
        top = float(budget_named(budget).measure(free.rates[0], mass))
        least = least_level(curves, mass, budget)
        if maximize == "utility" and budget in ("independence", "predictive_gap"):
            points = min(points, _SLOW)
        wide = max(top - least, 0.0)
        levels = least + (
            wide * np.linspace(0.0, 1.0, points) ** 2 if wide > _FEWEST else np.zeros(1)
        )
    found = solve(
        curves, mass, maximize=maximize, budget=budget, levels=levels, groups=groups,
        tolerance=tolerance,
    )  # fmt: skip
    return DecisionLimit(
        found.levels, found.values, found.upper, maximize, budget, labels, groups, found.rates,
        curves, mass, tolerance,
    )  # fmt: skip


def _named(maximize: Any) -> str | Cost:
    if not isinstance(maximize, str | Cost):
        raise InputError(
            "`maximize` must be a name or Cost(false_positive=, false_negative=) for two labels, "
            f"got {type(maximize).__name__}."
        )
    objective_of(maximize)
    return maximize


def _levels(levels: ArrayLike, budget: str) -> Array:
    """Rising budgets, none negative."""
    wanted = np.unique(np.atleast_1d(as_floats(levels, "levels")))
    if not len(wanted):
        raise InputError("`levels` is empty: pass at least one budget, or None for a curve.")
    for level in wanted:
        checked_level(level, budget)
    return wanted


def _check_labels(mass: Array) -> None:
    if mass.sum(0).min() <= 0:
        raise InputError("One of the two labels has no weight: there is nothing to predict.")
