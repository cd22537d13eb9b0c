"""The limit: the best that any decision from a score can do within a budget, and its rule.

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

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from separatrix.columns.counting import score_histogram
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import named_roles
from separatrix.columns.groups import as_groups, group_name
from separatrix.columns.readers import in_engine, whole_columns
from separatrix.columns.scores import binary_score, check_posteriors, check_weight
from separatrix.columns.values import Levels, as_levels, check_lengths, listed
from separatrix.core.envelope import Envelope, concave_envelope
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.measures import BUDGETS, CRITERIA, METRICS, budget_for, budget_named
from separatrix.core.numbers import as_floats, not_negative, one_number, whole_number
from separatrix.core.numerics import Array
from separatrix.errors import InputError
from separatrix.optimum.law import LabelLaw
from separatrix.optimum.multiclass.column_generation import ColumnSolver
from separatrix.optimum.multiclass.dual import LabelDual
from separatrix.optimum.objectives import Cost, objective_of
from separatrix.optimum.roc.decisions import RocSolver, group_curves, histogram_curves
from separatrix.optimum.rules import Rule, Solution, rising
from separatrix.report.figures import new_axes, root_scale
from separatrix.report.table import Table
from separatrix.report.words import WIDTH, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Each has the law's mass, P(Y=y, Z=z), the groups' names, what is maximised and bounded, the `strictest`
# level that it answers, `spaced` levels, and `solve(levels, start)` for rising ones. State is passed and
# returned: a solution's `start` is where the search for a near level may start, and nothing else is
# remembered that could change an answer by more than its tolerance.
Solver = RocSolver | ColumnSolver | LabelDual
_SHOWN = 9  # rows of the table
_ENGINE_BINS, _ENGINE_SPAN = 4096, (0.0, 1.0)
_POINTS_OF_MANY = 9  # of a curve for more than two labels: each is a search over all rows


@dataclass(frozen=True, eq=False)
class Limit:
    """The best decisions within each level of a budget.

    Args:
        levels: the budgets, rising.
        values: the objective of the best decision found within each; they rise.
        upper: a proven upper bound on the objective of any decision within that budget; NaN for the
            utility of decisions among more than two labels, found but not proven best.
        labels, groups: names of the axes.
        rates: P(U=u | Y=y, Z=z) of each decision, array (n, labels, groups, U).
        solver: what was solved.
    """

    levels: Array
    values: Array
    upper: Array
    labels: Levels
    groups: Levels
    rates: Array = field(repr=False)
    solver: Solver = field(repr=False)
    solutions: tuple[Solution, ...] = field(repr=False)

    @classmethod
    def from_solver(cls, solver: Solver, levels: Array | None, points: int, labels: Levels) -> Limit:
        """Solve for these levels, or for so many from the strictest to a slack budget."""
        if levels is None:
            levels = solver.spaced(points)
        for level in levels.tolist():
            _answerable(level, solver)
        solved = solver.solve(levels)
        values = np.array([solution.value for solution in solved])
        order, upper = rising(values, np.array([solution.upper for solution in solved]))
        best = tuple(solved[j]._replace(upper=float(e)) for j, e in zip(order, upper, strict=True))
        rates = np.stack([solution.rates for solution in best])
        return cls(levels, values[order], upper, labels, solver.groups, rates, solver, best)

    @property
    def maximize(self) -> Any:
        """What is maximised."""
        return self.solver.maximize

    @property
    def budget(self) -> str:
        """What is kept small."""
        return self.solver.budget

    @property
    def gap(self) -> float:
        """How far, at most, the curve is below the true limit; NaN if nothing is proven."""
        return float((self.upper - self.values).max())

    @property
    def tables(self) -> Array:
        """P(y, z, u) of each decision, array (n, labels, groups, U)."""
        return self.solver.mass[..., None] * self.rates

    @property
    def violation(self) -> Array:
        """v of the decisions."""
        return conditional_mutual_information(self.tables)

    @property
    def utility(self) -> Array:
        """u of the decisions."""
        maximised = isinstance(self.maximize, str) and self.maximize == "utility"
        return self.values if maximised else mutual_information(self.tables)

    def solution(self, level: float) -> Solution:
        """The best decisions within a level: those of the curve, or solved for it.

        The decisions of a stricter level of the curve serve too, so values rise between the levels
        as well.
        """
        e = _answerable(level, self.solver)
        place = int(np.searchsorted(self.levels, e))
        if place < len(self.levels) and self.levels[place] == e:
            return self.solutions[place]
        start = self.solutions[min(place, len(self.levels) - 1)].start
        (best,) = self.solver.solve(np.array([e]), start)
        upper = best.upper
        if place < len(self.levels):
            upper = min(upper, float(self.upper[place]))
        if place and self.values[place - 1] > best.value:
            best = self.solutions[place - 1]
        return best._replace(upper=max(upper, best.value))

    def rule(self, level: float) -> Rule:
        """The best rule within the budget `level`, solved for exactly that level."""
        return self.solution(level).rule()

    def envelope(self) -> Envelope:
        """What a public coin between two of the decisions reaches on average."""
        return concave_envelope(self.levels, self.values)

    def revealed(self, level: float) -> tuple[Rule, Rule, float]:
        """Two rules and the probability of the second: the point of `envelope()` at `level`."""
        mixture = self.envelope().mixture(not_negative(level, "level"))
        first, second = (self.solutions[i].rule() for i in (mixture.first, mixture.second))
        return first, second, mixture.weight

    def table(self) -> Table:
        """A few levels: the budget, the objective, and the groups' rates."""
        rows = np.unique(np.linspace(0, len(self.levels) - 1, _SHOWN).round().astype(int))
        budget, tables = budget_named(self.budget), self.tables[rows]
        columns = {f"{budget.label} at most": _digits(self.levels[rows], ".4g")}
        columns[self._objective()] = _digits(self.values[rows], ".4f")
        if not self._binary:
            columns["at most"] = ["not known" if np.isnan(x) else f"{x:.4f}" for x in self.upper[rows]]
        else:
            for name in ("accuracy", "utility"):
                columns.setdefault(METRICS[name].label, _digits(METRICS[name](tables), ".4f"))
            for name in (CRITERIA[budget.criterion].gap_name, "eo_gap", "violation"):
                if name != self.budget:
                    columns[BUDGETS[name].label] = _digits(BUDGETS[name](tables), ".4g")
            for y, label in enumerate(("FPR", "TPR")):
                rates = self.rates[rows][:, y, self.solver.mass[y] > 0, 1]
                columns[label] = [f"{min(x):.3f}-{max(x):.3f}" for x in rates.tolist()]
        return Table(self._title(), tuple(columns), tuple(zip(*columns.values(), strict=True)))

    def __str__(self) -> str:
        lines = replace(self.table(), title="").lines(WIDTH)
        return "\n".join([*wrapped(self._title()), lines])

    def _repr_html_(self) -> str:
        return self.table().html()

    def plot(self, ax: Axes | None = None) -> Axes:
        """The objective of the best decision against the budget; returns the axes."""
        ax = new_axes(5.0, 3.4) if ax is None else ax
        ax.plot(self.levels, self.values, color="#0072b2", label="best decision")
        ax.plot(self.levels, self.upper, color="#555555", lw=0.8, ls="--", label="upper bound")
        root_scale(ax)
        ax.set_xlabel(f"{budget_named(self.budget).label} at most")
        ax.set_ylabel(self._objective())
        ax.legend(frameon=False)
        return ax

    @property
    def _binary(self) -> bool:
        return len(self.labels) == 2

    def _objective(self) -> str:
        if not isinstance(self.maximize, str | Cost):
            return "gain"
        objective = objective_of(self.maximize)
        return f"-{objective.label}" if objective.lower_is_better else objective.label

    def _title(self) -> str:
        best, named = f"Best {self._objective()} of", listed(tuple(map(group_name, self.groups)))
        if not self._binary:
            return (
                f"{best} decisions for {len(self.labels)} labels, {len(self.groups)} groups "
                f"({named}), on the distribution of the posteriors"
            )
        return (
            f"{best} any binary decision, by {budget_named(self.budget).label}; "
            f"{len(self.groups)} groups ({named}), U = {self.labels[1]!r}, certified within "
            f"{self.gap:.1g}"
        )


def _digits(values: Array, form: str) -> list[str]:
    return [format(x, form) for x in values.tolist()]


def _answerable(level: float, solver: Solver) -> float:
    """A level that the solver can answer."""
    x = not_negative(level, "level")
    if x < solver.strictest:
        raise InputError(
            f"For more than two labels the budget on v must be at least {solver.strictest:g} nats, "
            f"got {level:g}: below that, rounding decides."
        )
    return x


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
    bins: int = _ENGINE_BINS,
    span: tuple[float, float] | None = _ENGINE_SPAN,
) -> Limit:
    """The best decisions that a score allows, for every budget, with a proven upper bound.

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
        budget: what to bound; None for the first of the criterion below. All but "violation",
            "eo_gap" and "eo_max" need two labels.
        criterion: "separation" ("violation", "eo_gap", "eo_max", "fpr_gap"), "independence"
            ("independence", "parity_gap"), "sufficiency" ("predictive_gap") or "equal_opportunity"
            ("tpr_gap").
        levels: budgets to solve for. By default `points` of them, from zero to what the best
            decision without any budget uses, closer together where the budget is small.
        tolerance: where the search for an upper bound may stop; 5e-5 nats for u under v, else 1e-6.
        bins, span: only for lazy frames and files, which an engine may count by bins of one score:
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
    wanted = None if levels is None else _levels(levels)
    if tolerance is not None and not (tolerance := one_number(tolerance, "tolerance")) > 0.0:
        raise InputError(f"`tolerance` must be above 0, got {tolerance}; None for the default.")
    names = target, score, sensitive_features, sample_weight
    roles = named_roles(y_true, scores, *names, array="scores", word="score")
    single = roles is not None and len(roles.predictions) == 1
    counted = in_engine(y_true, eager=False) if single else None
    if counted is None and not isinstance(y_true, str | Path):
        for name, value, usual in (("bins", bins, _ENGINE_BINS), ("span", span, _ENGINE_SPAN)):
            if value != usual:
                raise InputError(
                    f"`{name}` is for lazy frames and files: here every score counts as it is. Leave it out, "
                    f"got {value!r}."
                )
    if roles is not None:
        if counted is not None:
            histogram = score_histogram(
                counted, y=roles.target, z=roles.groups, score=roles.predictions[0], bins=bins,
                span=span, weight=roles.weight,
            )  # fmt: skip
            if len(histogram.labels) != 2:
                raise InputError(
                    f"Column {target!r} holds {len(histogram.labels)} labels "
                    f"({listed(histogram.labels)}); a score needs two. For more, pass the columns "
                    "of their posteriors."
                )
            solver: Solver = RocSolver(*histogram_curves(histogram), maximize, kind.name, histogram.groups, tolerance)
            return Limit.from_solver(solver, wanted, points, histogram.labels)
        y_true, scores, sensitive_features, sample_weight = whole_columns(y_true, roles)
        if single:
            scores = as_numbers(scores, roles.predictions[0])
    y_codes, labels = as_levels(y_true, "y_true")
    z_codes, groups = as_groups(sensitive_features)
    if len(labels) < 2:
        held = f"a single label, {labels[0]!r}" if labels else "no rows"
        raise InputError(f"`y_true` holds {held}: nothing to predict.")
    two = len(labels) == 2
    s = binary_score(scores) if two else check_posteriors(scores, "scores")
    n = check_lengths({"scores": s, "y_true": y_codes, "sensitive_features": z_codes})
    weight = np.ones(n) if sample_weight is None else check_weight(sample_weight, n)
    if two:
        curves, mass = group_curves(s, y_codes, z_codes, weight, len(groups))
        solver = RocSolver(curves, mass, maximize, kind.name, groups, tolerance)
        return Limit.from_solver(solver, wanted, points, labels)
    if s.shape[1] != len(labels):
        raise InputError(
            f"`scores` has {s.shape[1]} columns for {len(labels)} labels ({listed(labels)}): pass one per label."
        )
    if not kind.many_labels:
        others = listed([name for name, other in BUDGETS.items() if other.many_labels])
        raise InputError(f"`budget={kind.name!r}` needs two labels; for more use {others}.")
    if kind.name == "violation":
        solver = LabelDual(LabelLaw(s, z_codes, weight, len(groups)), maximize, groups)
    else:
        law = LabelLaw(s, z_codes, weight, len(groups), exact=True)
        solver = ColumnSolver(law, groups, maximize, kind.name)
    return Limit.from_solver(solver, wanted, min(points, _POINTS_OF_MANY), labels)


def _levels(levels: ArrayLike) -> Array:
    """Rising budgets, none negative."""
    wanted = np.unique(np.atleast_1d(as_floats(levels, "levels")))
    if not len(wanted):
        raise InputError("`levels` is empty: pass at least one budget, or None for a curve.")
    for level in wanted:
        not_negative(level, "levels")
    return wanted
