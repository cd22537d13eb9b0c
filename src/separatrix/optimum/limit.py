r"""The limit: the best that any decision from a score can do within a budget, and its rule.

Two labels: exact, certified, any number of groups, any objective and budget (`roc.decisions`). A
rule is a randomised threshold per group; where the score is the true posterior P(Y=1|X,Z), no other
binary decision from (X,Z) does better. A prediction with more values than two can say more.

More labels, on the law of the posteriors: a convex dual under a violation (`multiclass.dual`),
column generation under an EO budget (`multiclass.column_generation`); certified for accuracy,
balanced accuracy and matrices of gains; for the utility the best rule found.

The limit is that of the law of the given rows. Scores fitted on the same rows flatter it: pass
held-out scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.engines import duckdb_is_here, is_parquet, scan
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import as_frame, names_of
from separatrix.columns.groups import as_groups
from separatrix.columns.histograms import score_histogram
from separatrix.columns.readers import Roles, find_files, is_large, whole_columns
from separatrix.columns.scores import binary_score, check_posteriors, check_weight
from separatrix.columns.values import as_levels, check_lengths, listed
from separatrix.core.measures import BUDGETS, Metric, budget_for
from separatrix.core.numbers import as_floats, one_number, whole_number
from separatrix.errors import InputError
from separatrix.optimum.law import LabelLaw, gains_of
from separatrix.optimum.multiclass.dual import LabelDual
from separatrix.optimum.objectives import Cost, objective_of
from separatrix.optimum.result import Limit, checked_level
from separatrix.optimum.roc.decisions import group_curves, histogram_curves
from separatrix.optimum.solvers import ColumnSolver, DualSolver, RocSolver, Solver

__all__ = ["limit"]

Array = NDArray[np.float64]
_POINTS_OF_MANY = 9  # of a curve for more than two labels: each is a search over all rows


def limit(
    y_true: Any,
    scores: Any = None,
    *,
    sensitive_features: Any,
    target: str | None = None,
    score: str | list[str] | None = None,
    sample_weight: Any = None,
    maximize: str | Cost | ArrayLike = "utility",
    budget: str | None = None,
    criterion: str = "separation",
    levels: ArrayLike | None = None,
    points: int = 41,
    tolerance: float | None = None,
    bins: int = 4096,
    span: tuple[float, float] | None = (0.0, 1.0),
) -> Limit:
    """The best decisions from a score, for every level of a budget.

    Args:
        y_true: labels; or a frame (pandas, polars, pyarrow, DuckDB, Dask, PySpark, …), a mapping of
            columns, or the path or pattern of CSV or Parquet files, with `target` and `score`.
        scores: held-out scores: one per row (n,) or posteriors (n, 2) for two labels, posteriors
            (n, K) for K labels, columns in the order of the sorted labels.
        sensitive_features: groups; several columns make their intersection. Names of columns where
            `target` is one.
        target, score: names of the columns of labels and of scores: one, or K posteriors.
        sample_weight: weights of the rows, or their column.
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
        bins, span: lazy frames and large files are counted by their engine, by bins of one score:
            the limit is that of the score rounded down. `span=None` for scores outside 0 to 1.

    Returns:
        The levels, and for each the best value, an upper bound and a rule. `upper` and `gap` are
        NaN for u of decisions among more than two labels.

    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    >>> scores = rng.normal(size=2000) + y * (1 + z)
    >>> best = limit(y, scores, sensitive_features=z, maximize="accuracy", budget="eo_gap")
    >>> bool(best.values[0] < best.values[-1]), bool(best.gap < 1e-6)
    (True, True)
    >>> best.rule(0.01).predict_proba([9.0, -9.0], sensitive_features=[0, 0])[:, 1]
    array([1., 0.])
    """
    kind = budget_for(criterion, budget)
    points = whole_number(points, "points", least=2)
    wanted = None if levels is None else _levels(levels, kind.name)
    if tolerance is not None and not (tolerance := one_number(tolerance, "tolerance")) > 0.0:
        raise InputError(f"`tolerance` must be above 0, got {tolerance}; None for the default.")
    if target is not None or score is not None:
        if scores is not None or target is None or score is None:
            raise InputError(
                "Pass arrays (`y_true`, `scores`), or a table with both `target=` and `score=`."
            )
        (outcome,) = names_of(target, "target")
        weights = None if sample_weight is None else names_of(sample_weight, "sample_weight")[0]
        roles = Roles.named(outcome, sensitive_features, score, weights, "score")
        counted = _counted(y_true, roles.predictions)
        if counted is not None:
            histogram = score_histogram(
                counted, y=outcome, z=roles.groups, score=roles.predictions[0], bins=bins,
                span=span, weight=weights,
            )  # fmt: skip
            if len(histogram.labels) != 2:
                raise InputError(
                    f"Column {target!r} holds {len(histogram.labels)} labels "
                    f"({listed(histogram.labels)}); a score needs two. For more, pass the columns "
                    "of their posteriors."
                )
            curves, mass = histogram_curves(histogram)
            binary = RocSolver(
                curves, mass, _named(maximize), kind.name, histogram.groups, tolerance
            )
            return Limit.of(binary, wanted, points, histogram.labels)
        y_true, scores, sensitive_features, sample_weight = whole_columns(y_true, roles)
        if len(roles.predictions) == 1:
            scores = as_numbers(scores, roles.predictions[0])
    elif scores is None:
        raise InputError(
            "`scores` is missing: pass one score per row, or a table with `target=` and `score=`."
        )
    y_codes, labels = as_levels(y_true, "y_true")
    z_codes, groups = as_groups(sensitive_features)
    if len(labels) < 2:
        found = f"a single label, {labels[0]!r}" if labels else "no rows"
        raise InputError(f"`y_true` holds {found}: nothing to predict.")
    two = len(labels) == 2
    s = binary_score(scores) if two else check_posteriors(scores, "scores")
    n = check_lengths({"scores": s, "y_true": y_codes, "sensitive_features": z_codes})
    weight = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    if two:
        curves, mass = group_curves(s, y_codes, z_codes, weight, len(groups))
        solver: Solver = RocSolver(curves, mass, _named(maximize), kind.name, groups, tolerance)
        return Limit.of(solver, wanted, points, labels)
    if s.shape[1] != len(labels):
        raise InputError(
            f"`scores` has {s.shape[1]} columns for {len(labels)} labels ({listed(labels)}): "
            "pass one per label."
        )
    solver = _of_many_labels(s, z_codes, weight, groups, maximize, kind)
    return Limit.of(solver, wanted, min(points, _POINTS_OF_MANY), labels)


def _of_many_labels(
    p: Array,
    z: NDArray[np.intp],
    weight: Array,
    groups: Any,
    maximize: Any,
    budget: Metric,
) -> Solver:
    k = p.shape[1]
    if not budget.many_labels:
        others = listed([name for name, other in BUDGETS.items() if other.many_labels])
        raise InputError(f"`budget={budget.name!r}` needs two labels; for {k} use {others}.")
    gains = gains_of(maximize, weight @ p / weight.sum())
    if budget.name == "violation":
        law = LabelLaw(p, z, weight, len(groups))
        return DualSolver(LabelDual(law, gains), groups, maximize)
    if gains is None:
        raise InputError(
            f"For {k} labels 'utility' goes with 'violation'; under {budget.name!r} maximise "
            "'accuracy', 'balanced_accuracy' or a matrix of gains."
        )
    law = LabelLaw(p, z, weight, len(groups), exact=True)
    return ColumnSolver(law, groups, maximize, budget.name)


def _counted(data: Any, score: list[str]) -> Any:
    """What an engine should count by bins of the score: a lazy frame, large files; else None."""
    if len(score) > 1:
        return None
    if isinstance(data, str | Path):
        files = find_files(data)
        here = duckdb_is_here() and (is_parquet(files[0]) or is_large(files))
        return scan(files) if here else None
    lazy = not isinstance(data, Mapping) and isinstance(as_frame(data, "data"), nw.LazyFrame)
    return data if lazy else None


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
