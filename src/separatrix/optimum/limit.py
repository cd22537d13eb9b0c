"""The limit: the best that any decision from a score can do within a budget, and its rule.

Two labels: exact, certified, any number of groups, any objective and budget (`roc.decisions`). A
rule is a randomised threshold per group; where the score is the true posterior P(Y=1|X,Z), no other
binary decision from (X,Z) does better. A prediction with more values than two can say more.

More labels, on the law of the posteriors: a convex dual under a violation (`multiclass.dual`),
column generation under an EO budget (`multiclass.column_generation`); certified for accuracy,
balanced accuracy and matrices of gains; for the utility the best rule found.

The limit is that of the law of the given rows. Scores fitted on the same rows flatter it: pass
held-out scores.

*Solvers.* What finds the best rule at a level has one face. A solver is asked for rising levels and
gives one `Solution` each. State is passed and returned: a solution's `start` is where the search
for a near level may start, and nothing else is remembered that could change an answer by more than
its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.counting import score_histogram
from separatrix.columns.features import as_numbers
from separatrix.columns.frames import named_roles
from separatrix.columns.groups import as_groups, group_name
from separatrix.columns.readers import in_engine, whole_columns
from separatrix.columns.scores import binary_score, check_posteriors, check_weight
from separatrix.columns.values import Levels, as_levels, check_lengths, listed
from separatrix.core.envelope import Envelope, concave_envelope, rising
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.core.measures import BUDGETS, CRITERIA, Metric, budget_for, budget_named
from separatrix.core.numbers import as_floats, one_number, whole_number
from separatrix.errors import InputError
from separatrix.optimum.law import BlindLaw, LabelLaw, gains_of
from separatrix.optimum.multiclass.column_generation import ColumnPoint, Columns, best_blind
from separatrix.optimum.multiclass.dual import DualPoint, DualState, LabelDual
from separatrix.optimum.objectives import Cost, Value, objective_of
from separatrix.optimum.roc.decisions import (
    DecisionCurve,
    group_curves,
    histogram_curves,
    least_level,
    rule_of,
    solve,
)
from separatrix.optimum.roc.regions import RocCurve
from separatrix.optimum.rules import Rule
from separatrix.report.figures import new_axes, root_scale
from separatrix.report.words import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
_SHOWN = 9  # rows of the table
_POINTS_OF_MANY = 9  # of a curve for more than two labels: each is a search over all rows
_BOUND_GAP = (
    1e-6  # of the range of the gains, between the value and the bound of a mixture of columns
)
_STRICTEST = 1e-6  # nats: below, rounding decides the dual
_SLOW = 11  # points of a curve where each takes a third of a second
_NO_BUDGET = 1e-12  # a budget that the best decision uses less of than this is none


class Solution(NamedTuple):
    """The best decisions found for one level.

    Args:
        value: the objective.
        upper: a bound that no decision within the level exceeds; NaN where nothing is proven.
        rates: P(U=u | Y=y, Z=z), array (labels, groups, U).
        rule: makes the rule that has these rates.
        start: where the search for a near level may start.
    """

    value: float
    upper: float
    rates: Array
    rule: Callable[[], Rule]
    start: Any = None


class Solver(Protocol):
    """The best decisions of one law, for one objective and one budget.

    Args:
        mass: P(Y=y, Z=z), array (labels, groups).
        groups: their names.
        maximize, budget: as in `limit`.
        strictest: the smallest level that can be answered.
    """

    mass: Array
    groups: Levels
    maximize: Any
    budget: str
    strictest: float

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """One solution for each of rising levels."""

    def spaced(self, points: int) -> Array:
        """Levels from the strictest to what the best decision without a budget uses."""


class RocSolver:
    """Two labels and a score: randomised thresholds per group (`roc.decisions`).

    Args:
        curves: the groups' ROC curves.
        mass: P(Y=y, Z=z), array (groups, 2).
        maximize, budget, groups, tolerance: as in `limit`.
    """

    strictest = 0.0

    def __init__(
        self,
        curves: tuple[RocCurve, ...],
        mass: Array,
        maximize: str | Cost,
        budget: str,
        groups: Levels,
        tolerance: float | None = None,
    ) -> None:
        self.curves, self.mass, self.groups = curves, mass.T, groups
        self.maximize, self.budget, self.tolerance = maximize, budget, tolerance

    def curve(self, levels: Array) -> DecisionCurve:
        """The best rates (n, groups, 2) for rising levels."""
        return solve(
            self.curves, self.mass.T, maximize=self.maximize, budget=self.budget, levels=levels,
            groups=self.groups, tolerance=self.tolerance,
        )  # fmt: skip

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """As in `Solver`; no search starts from another."""
        curve = self.curve(levels)
        ones = np.swapaxes(curve.rates, 1, 2)  # (n, labels, groups)
        rates = np.stack([1.0 - ones, ones], axis=-1)
        return [
            Solution(float(value), float(upper), own, self._rule(x))
            for value, upper, own, x in zip(
                curve.values, curve.upper, rates, curve.rates, strict=True
            )
        ]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        # no rate differs by more than one, and v of two labels and decisions is at most log 2
        free = self.curve(np.ones(1))
        top = float(budget_named(self.budget).measure(free.rates[0], self.mass.T))
        least = least_level(self.curves, self.mass.T, self.budget)
        if self.maximize == "utility" and self.budget in ("independence", "predictive_gap"):
            points = min(points, _SLOW)
        wide = max(top - least, 0.0)
        steps = wide * np.linspace(0.0, 1.0, points) ** 2 if wide > _NO_BUDGET else np.zeros(1)
        return least + steps

    def _rule(self, rates: Array) -> Callable[[], Rule]:
        return lambda: rule_of(rates, self.curves, self.mass.T, self.groups)


class DualSolver:
    """More labels under a violation: a convex dual (`multiclass.dual`).

    Args:
        dual: of a law and an objective.
        groups: their names.
        maximize: as in `limit`.
    """

    budget, strictest = "violation", _STRICTEST

    def __init__(self, dual: LabelDual, groups: Levels, maximize: Any) -> None:
        self.dual, self.groups, self.maximize = dual, groups, maximize
        self.mass = dual.law.mass

    def solve(self, levels: Array, start: DualState | None = None) -> list[Solution]:
        """As in `Solver`: the loosest first, each the start of the next.

        The utility has many local optima. Where a level ends below a stricter one, it is searched
        once more from there.
        """
        found: list[DualPoint] = []
        for level in levels[::-1].tolist():
            found.append(self.dual.solve(level, found[-1].start if found else start))
        found.reverse()
        for j in range(1, len(found)):
            if found[j].value < found[j - 1].value:
                again = self.dual.solve(float(levels[j]), found[j - 1].start)
                found[j] = max(found[j], again, key=lambda point: point.value)
        return [self._solution(point) for point in found]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        top = max(self.dual.solve(np.inf).violation, 2 * _STRICTEST)
        return np.maximum(top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2, _STRICTEST)

    def _solution(self, point: DualPoint) -> Solution:
        rates = point.table / np.where(self.mass > 0, self.mass, 1.0)[..., None]
        return Solution(
            point.value, point.upper, rates, lambda: point.rule(self.groups), point.start
        )


class ColumnSolver:
    """Mixtures of decisions, with the group or of x alone: `multiclass.column_generation`.

    Args:
        law: of the posteriors, for more than two labels under an EO budget, or atoms x with
            q(y, z | x).
        groups, maximize, budget: as in `limit`.
    """

    strictest = 0.0

    def __init__(
        self, law: LabelLaw | BlindLaw, groups: Levels, maximize: Any, budget: str
    ) -> None:
        self.mass, self.groups, self.maximize, self.budget = law.mass, groups, maximize, budget
        self.columns = Columns(law, budget_named(budget))

    def solve(self, levels: Array, start: Any = None) -> list[Solution]:
        """As in `Solver`; the columns found so far serve every level."""
        found = [self._point(level) for level in levels[::-1].tolist()][::-1]
        return [Solution(p.value, p.upper, p.rates, self._rule(p)) for p in found]

    def spaced(self, points: int) -> Array:
        """As in `Solver`."""
        (free,) = self.solve(np.ones(1))
        top = float(budget_named(self.budget)(self.mass[..., None] * free.rates))
        return top * np.linspace(0.0, 1.0, points + 1)[1:] ** 2

    def _point(self, level: float) -> ColumnPoint:
        if isinstance(self.columns.law, BlindLaw):
            return best_blind(self.columns, self.maximize, level, self.groups)
        gains = gains_of(self.maximize, self.columns.law.prior)
        assert gains is not None
        each = np.broadcast_to(gains[:, None], (*self.mass.shape, len(gains)))
        return self.columns.best(each, level, _BOUND_GAP)

    def _rule(self, point: ColumnPoint) -> Callable[[], Rule]:
        if isinstance(self.columns.law, BlindLaw):
            return lambda: point.rule
        return lambda: point.group_rule(self.groups)


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
    def from_solver(
        cls, solver: Solver, levels: Array | None, points: int, labels: Levels
    ) -> Limit:
        """Solve for these levels, or for so many from the strictest to a slack budget."""
        if levels is None:
            levels = solver.spaced(points)
        for level in levels.tolist():
            _answerable(level, solver)
        found = solver.solve(levels)
        values = np.array([one.value for one in found])
        order, upper = rising(values, np.array([one.upper for one in found]))
        best = tuple(found[j]._replace(upper=float(e)) for j, e in zip(order, upper, strict=True))
        rates = np.stack([one.rates for one in best])
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
        if self._binary:
            return BUDGETS["violation"].measure(*self._two())
        return conditional_mutual_information(self.tables)

    @property
    def utility(self) -> Array:
        """u of the decisions."""
        if self._binary:
            rates, mass = self._two()
            return Value.from_objective("utility", mass, ())(rates)
        return mutual_information(self.tables)

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
        (found,) = self.solver.solve(np.array([e]), start)
        upper = found.upper
        if place < len(self.levels):
            upper = min(upper, float(self.upper[place]))
        if place and self.values[place - 1] > found.value:
            found = self.solutions[place - 1]
        return found._replace(upper=max(upper, found.value))

    def rule(self, level: float) -> Rule:
        """The best rule within the budget `level`, solved for exactly that level."""
        return self.solution(level).rule()

    def envelope(self) -> Envelope:
        """What a public coin between two of the decisions reaches on average."""
        return concave_envelope(self.levels, self.values)

    def revealed(self, level: float) -> tuple[Rule, Rule, float]:
        """Two rules and the probability of the second: the point of `envelope()` at `level`."""
        mixture = self.envelope().mixture(_checked_level(level, self.budget))
        first, second = (self.solutions[i].rule() for i in (mixture.first, mixture.second))
        return first, second, mixture.weight

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of a few levels: the budget, the objective, and the groups' rates."""
        rows = np.unique(np.linspace(0, len(self.levels) - 1, _SHOWN).round().astype(int))
        budget = budget_named(self.budget)
        columns = {f"{budget.label} at most": [f"{x:.4g}" for x in self.levels[rows]]}
        columns[self._objective()] = [f"{x:.4f}" for x in self.values[rows]]
        if not self._binary:
            columns["at most"] = [
                "not known" if np.isnan(x) else f"{x:.4f}" for x in self.upper[rows]
            ]
            return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]
        rates, mass = self._two()
        rates = rates[rows]
        for name, label in (("accuracy", "accuracy"), ("utility", "u")):
            columns.setdefault(
                label, [f"{x:.4f}" for x in Value.from_objective(name, mass, ())(rates)]
            )
        gap = CRITERIA[budget.criterion].gap_name
        for name in dict.fromkeys((gap, "eo_gap", "violation")):
            if name != self.budget:
                used = BUDGETS[name].measure(rates, mass)
                columns[BUDGETS[name].label] = [f"{x:.4g}" for x in used]
        for y, label in enumerate(("FPR", "TPR")):
            seen = rates[:, mass[:, y] > 0, y]
            columns[label] = [
                f"{low:.3f}-{high:.3f}" for low, high in zip(seen.min(1), seen.max(1), strict=True)
            ]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def __str__(self) -> str:
        header, rows = self.table()
        width = [max(map(len, column)) + 2 for column in zip(header, *rows, strict=True)]
        lines = [
            "".join(cell.rjust(w) for cell, w in zip(row, width, strict=True))
            for row in (header, *rows)
        ]
        return "\n".join([*wrapped(self._title()), *lines])

    def _repr_html_(self) -> str:
        header, rows = self.table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return f"<p>{escape(self._title())}</p><table><tr>{head}</tr>{body}</table>"

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
        return self.rates.shape[1:2] == self.rates.shape[-1:] == (2,)

    def _two(self) -> tuple[Array, Array]:
        """P(U=1 | y, z) (n, groups, 2) and P(y, z) (groups, 2) of binary decisions."""
        return np.swapaxes(self.rates[..., 1], 1, 2), self.solver.mass.T

    def _objective(self) -> str:
        known = self.maximize if not isinstance(self.maximize, str) else None
        if known is not None and not self._binary:
            return "gain"
        objective = objective_of(self.maximize)
        return f"-{objective.label}" if objective.lower_is_better else objective.label

    def _title(self) -> str:
        named = listed(tuple(map(group_name, self.groups)))
        if self._binary:
            return (
                f"Best {self._objective()} of any binary decision, by "
                f"{budget_named(self.budget).label}; {len(self.groups)} groups ({named}), "
                f"U = {self.labels[1]!r}, certified within {self.gap:.1g}"
            )
        return (
            f"Best {self._objective()} of decisions for {len(self.labels)} labels, "
            f"{len(self.groups)} groups ({named}), on the law of the posteriors"
        )


def _checked_level(level: float, budget: str) -> float:
    """A budget as a number: finite and not negative."""
    x = one_number(level, "level")
    if not 0.0 <= x < np.inf:
        raise InputError(
            f"The {budget} is an upper limit: it cannot be negative or infinite, got {level}."
        )
    return x


def _answerable(level: float, solver: Solver) -> float:
    """A level that the solver can answer."""
    x = _checked_level(level, solver.budget)
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
    bins: int = 4096,
    span: tuple[float, float] | None = (0.0, 1.0),
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
    names = target, score, sensitive_features, sample_weight
    roles = named_roles(y_true, scores, *names, array="scores", word="score")
    if roles is not None:
        single = len(roles.predictions) == 1
        counted = in_engine(y_true, eager=False) if single else None
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
            curves, mass = histogram_curves(histogram)
            binary = RocSolver(
                curves, mass, _named(maximize), kind.name, histogram.groups, tolerance
            )
            return Limit.from_solver(binary, wanted, points, histogram.labels)
        y_true, scores, sensitive_features, sample_weight = whole_columns(y_true, roles)
        if single:
            scores = as_numbers(scores, roles.predictions[0])
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
        return Limit.from_solver(solver, wanted, points, labels)
    if s.shape[1] != len(labels):
        raise InputError(
            f"`scores` has {s.shape[1]} columns for {len(labels)} labels ({listed(labels)}): "
            "pass one per label."
        )
    solver = _of_many_labels(s, z_codes, weight, groups, maximize, kind)
    return Limit.from_solver(solver, wanted, min(points, _POINTS_OF_MANY), labels)


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
        _checked_level(level, budget)
    return wanted
