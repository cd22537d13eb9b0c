"""Promises: what unseen rows will show of a procedure, and rules that keep what was asked.

A procedure is run on every fold. The scores come fold by fold, from a nested split (`trace`) or out
of fold (estimators): a rule is fitted to `training(k)` and measured on `tested(k)`, whose rows no
part of it saw. The rule that ships is fitted to `training(None)`, all rows.

`tightened` sees to it that nothing ships whose promise is above its budget: a stricter rule, or a
refusal with the smallest budget that succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Levels
from separatrix.core import score_tables
from separatrix.core.measures import label_of, table_measures
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.errors import InfeasibleError
from separatrix.optimum.objectives import Cost
from separatrix.optimum.rules import PlainRule
from separatrix.procedure.procedures import Budgets, Procedure, Rows, Solver, decision_sums, refusal
from separatrix.report.table import Table
from separatrix.report.words import budget_text, constant_text
from separatrix.statistics.unseen import Promise, unseen

__all__ = ["Measured", "Promise", "PromiseTable", "Run"]
__all__ += ["hardly_decides", "is_constant", "mean_cost", "measures_for", "same_for_all", "tightened", "unseen_score"]

T = TypeVar("T")
Array = NDArray[np.float64]
Codes = NDArray[np.intp]


_TRIES = 6
_SAME = 1e-12  # rounding
_ALL, _NEARLY = 0.999, 0.99  # of the decisions: the same for everybody, and almost


class PromiseTable(Mapping[str, Promise]):
    """Promises by the name of their metric: a mapping that prints as a table, also in a notebook.

    >>> table = PromiseTable({"accuracy": Promise.normal(0.81, 0.01)})
    >>> table["accuracy"].value
    0.81
    >>> print(table)
    accuracy  0.8100 ± 0.01  (0.7904 to 0.8296)
    """

    def __init__(self, promises: Mapping[str, Promise]) -> None:
        self._promises = {name: promise.within(name) for name, promise in promises.items()}

    def __getitem__(self, metric: str) -> Promise:
        return self._promises[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._promises)

    def __len__(self) -> int:
        return len(self._promises)

    def __str__(self) -> str:
        width = max(map(len, map(label_of, self)), default=0)
        return "\n".join(
            f"{label_of(name):<{width}}  {promise}  ({promise.low:.4f} to {promise.high:.4f})"
            for name, promise in self.items()
        )

    def __repr__(self) -> str:
        return f"<PromiseTable: {', '.join(f'{name} {promise}' for name, promise in self.items())}>"

    def _repr_html_(self) -> str:
        rows = [
            (label_of(name), f"{value:.4f}", f"{error:.2g}", f"{low:.4f} to {high:.4f}")
            for name, (value, error, low, high) in self.items()
        ]
        return Table("", ("", "on unseen rows", "standard error", "95 %"), tuple(rows)).html()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: value, error, low and high of each metric."""
        return {name: promise._asdict() for name, promise in self.items()}


@dataclass(frozen=True, eq=False)
class Measured:
    """A procedure, what it is on all rows, and what it showed on the test rows of the folds.

    Args:
        procedure: what was run.
        rule: fitted to all rows: it ships.
        tables, squares: of each fold's test rows, as `statistics.unseen` takes them; the squares of
            a score are its rows' products Σ q qᵀ.
        groups: their names.
        eased: folds, which have fewer rows, in which a score's budget could not be promised and the
            smallest that could was taken instead.
        laws: of decisions, P(U = u | row) of the unseen rows, (n, K), in the order of the rows.
    """

    procedure: Procedure
    rule: Any
    tables: Array = field(repr=False)
    squares: Array = field(repr=False)
    groups: Levels
    eased: int = 0
    laws: Array | None = field(default=None, repr=False)

    @property
    def is_score(self) -> bool:
        """Whether it predicts levels of a score rather than labels."""
        return self.procedure.is_score

    @cached_property
    def promise(self) -> dict[str, Promise]:
        """What unseen rows will show of each metric."""
        if self.is_score:
            return unseen_score(self.tables, self.squares)
        measures = measures_for(self.procedure.maximize, self.groups)
        fixed = isinstance(self.rule, PlainRule)
        promises = unseen(self.tables, self.squares, measures, fixed=fixed)
        if self.procedure.promises and self.procedure.confidence is None:
            first = min(self.procedure.budgets)  # whose level the margin found
            promises[first] = promises[first].with_expected(self.rule.expected)
            if first == "impact_gap":
                promises["impact_ratio"] = promises[first].complement()
        return promises


class Run:
    """A procedure on the rows of a table, for its budgets and for stricter ones.

    What they share, sorted rows, curves and resamples of every fold, is computed once. The margin
    is read off a grid below the first budget that is asked for: ask a new run for a larger one.

    Args:
        procedure: what to run.
        scores: of every fold, and of all rows.
        rows: labels, groups and weights.
    """

    def __init__(self, procedure: Procedure, scores: NestedScores, rows: Rows) -> None:
        self.procedure, self.scores, self.rows = procedure, scores, rows
        self._solvers: dict[int | None, Solver] = {}
        self._counts = rows.counts
        self._unseen: dict[int, tuple[Codes, Array, Rows, Array]] = {}

    def measured(self, budgets: Budgets | None = None) -> Measured:
        """Run on all rows, and with what was settled there on every fold.

        Args:
            budgets: instead of the procedure's own levels.

        Raises:
            InfeasibleError: all rows together cannot promise the budgets.
        """
        asked = self.procedure.budgets if budgets is None else budgets
        if not self.procedure.promises:
            return self._on_all(asked)
        return tightened(self._on_all, self._used, asked)

    def _used(self, measured: Measured) -> dict[str, float]:
        """What is promised of each budget; with a confidence, at least the margin's quantile."""
        used = {name: measured.promise[name].value for name in self.procedure.budgets}
        if self.procedure.confidence is not None:
            first = min(used)  # whose level the margin found
            used[first] = max(used[first], measured.rule.expected)
        return used

    def refuse_a_constant(self, rule: Any, question: object) -> None:
        """Refuse a rule that is the same for everybody, where a larger budget would decide.

        Under costs the best decision may be one label for all, whatever the budget.
        """
        label = is_constant(self.shipped(rule))
        if label is not None and (smallest := self.smallest_that_decides()):
            share = float(np.average(self.rows.y == label, weights=self.rows.weights))
            raise same_for_all(question, constant_text(self.rows.labels[label], share), share, smallest)

    def measured_fold(self, k: int) -> Measured:
        """Run on the training rows of fold k, whose rule ships, measured on its test rows."""
        fold = self._tested(k, self.procedure.budgets, None)
        return self._measured(fold.rule, [fold])

    def shipped(self, rule: Any) -> Array:
        """Counts (1, y, z, u) of a rule on the unseen scores of all rows."""
        law = self.procedure.law(rule, self.scores.training(None)[1], self.rows.z)
        return decision_sums(law, self.rows, self.rows.weights)[0][None]

    def smallest_that_decides(self) -> dict[str, float]:
        """Budgets, in the proportion asked for, that are promised and whose rule is not the same for everybody.

        None where none is known.
        """

        def scaled(factor: float) -> dict[str, float]:
            return {name: most * factor for name, most in self.procedure.budgets.items()}

        def decides(factor: float, promised: bool = False) -> bool:
            try:
                if promised:
                    asked: Any = replace(self.procedure, budgets=scaled(factor))  # type: ignore[type-var]
                    return is_constant(self.shipped(Run(asked, self.scores, self.rows).measured().rule)) is None
                return is_constant(self.shipped(self._solver(None)(scaled(factor), None))) is None
            except InfeasibleError:
                return False

        tried = pairwise((1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0))
        low, high = next((pair for pair in tried if decides(pair[1])), (0.0, 0.0))
        for _ in range(5):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if decides(middle) else (middle, high)
        # a promised rule is solved for less than the budget, so it may need more of it to decide
        enough = (high * more for more in (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0) if high)
        return next((scaled(factor) for factor in enough if decides(factor, promised=True)), {})

    def _on_all(self, budgets: Budgets) -> Measured:
        rule = self._solver(None)(budgets, None)
        return self._measured(rule, [self._tested(k, budgets, rule) for k in self.scores.folds])

    def _tested(self, k: int, budgets: Budgets, whole: Any) -> _Fold:
        solve = self._solver(k)
        try:
            rule, eased = solve(budgets, whole), 0
        except InfeasibleError as error:  # the smallest that so few rows can promise
            least = {name: error.smallest.get(name, 0.0) * (1 + 1e-9) for name in budgets}
            rule = solve({name: max(most, least[name]) for name, most in budgets.items()}, whole)
            eased = 1
        if k not in self._unseen:
            places, scores = self.scores.tested(k)
            self._unseen[k] = places, scores, self.rows[places], self._counts[places]
        places, scores, rows, counts = self._unseen[k]
        law = self.procedure.law(rule, scores, rows.z)
        return _Fold(rule, places, law, *_sums(law, rows, counts, self.procedure), eased)

    def _solver(self, k: int | None) -> Solver:
        k = k if self.procedure.is_fitted else None
        if k not in self._solvers:
            self._solvers[k] = self.procedure.solver(*_training(self.scores, self.rows, k))
        return self._solvers[k]

    def _measured(self, rule: Any, folds: Sequence[_Fold]) -> Measured:
        procedure, n = self.procedure, len(self.rows.y)
        width = max(fold.table.shape[-1] for fold in folds)
        axes = 2 if procedure.is_score else 1  # of levels, in the squares
        tables = np.stack([_padded(fold.table, width, 1) for fold in folds])
        squares = np.stack([_padded(fold.square, width, axes) for fold in folds])
        laws = None if procedure.is_score else folds[0].law
        if laws is not None and len(folds) > 1:  # of all rows
            laws = np.empty((n, laws.shape[1]))
            for fold in folds:
                laws[fold.places] = fold.law
        eased = sum(fold.eased for fold in folds)
        return Measured(procedure, rule, tables, squares, self.rows.groups, eased, laws)


def same_for_all(question: object, only: str, share: float, smallest: Budgets, otherwise: str = "") -> InfeasibleError:
    """The refusal of a decision that is the same for everybody.

    Args:
        question: what was asked for.
        only, share: what the decision is, and how often it is right.
        smallest: the smallest budgets that decide, where they are known.
        otherwise: what else to do than to ask for a larger budget.
    """
    from_here = f" The smallest that decides is {budget_text(smallest)}." if smallest else ""
    return InfeasibleError(
        f"{question}: the best decision is {only}. Ask for a larger budget{otherwise}.{from_here}",
        dict(smallest),
        share,
    )


def is_constant(tables: Array) -> int | None:
    """The code of the label that everybody gets, from tables (folds, y, z, u); None if decided.

    >>> is_constant(np.array([[[[5.0, 0.0]], [[3.0, 0.0]]]]))
    0
    """
    share = tables.sum((0, 1, 2)) / tables.sum()
    return int(share.argmax()) if share.max() > _ALL else None


def hardly_decides(given: Array, rows: Array, labels: Levels) -> str:
    """That nearly everybody gets one label, from how many get and how many have each; "" where that is not so.

    >>> hardly_decides(np.array([996.0, 4.0]), np.array([900.0, 100.0]), ("no", "yes"))
    "It hardly decides: 99.6% of all get 'no', and always 'no' is right for 90.0%."
    """
    often = int(given.argmax())
    if (share := given[often] / given.sum()) <= _NEARLY:
        return ""
    name, right = repr(str(labels[often])), rows[often] / rows.sum()
    return f"It hardly decides: {share:.1%} of all get {name}, and always {name} is right for {right:.1%}."


class _Fold(NamedTuple):
    """What the rule of a fold says of the fold's rows, and what they add up to."""

    rule: Any
    places: Codes
    law: Array
    table: Array
    square: Array
    eased: int


def _training(scores: NestedScores, rows: Rows, k: int | None) -> tuple[Array, Rows]:
    """What the rule of fold k is fitted to; with k None all rows.

    Where all rows of a group are in one fold, its rule knows the group by a row of no weight.
    """
    places, training_scores = scores.training(k)
    train = rows[places]
    absent = np.flatnonzero(np.bincount(train.z, minlength=len(rows.groups)) == 0)
    if k is None or not len(absent):
        return training_scores, train
    tested, theirs = scores.tested(k)
    first = np.array([np.flatnonzero(rows.z[tested] == group)[0] for group in absent])
    weight = np.concatenate([train.weights, np.zeros(len(first))])
    both = rows[np.concatenate([places, tested[first]])]
    return np.concatenate([training_scores, theirs[first]]), replace(both, weight=weight)


def _sums(law: Array, rows: Rows, counts: Array, procedure: Procedure) -> tuple[Array, Array]:
    """Expected counts N[y, z, u], and the same of squared probabilities or of products."""
    if not procedure.is_score:
        return decision_sums(law, rows, counts)
    table, moments = soft_sums(law, rows.y, rows.z, rows.cells)
    assert moments is not None
    return rows.share * table, rows.share * moments


def measures_for(maximize: Any, groups: Levels) -> dict[str, Any]:
    """The metrics of tables (..., y, z, u), and the mean cost where costs are maximised."""
    measures: dict[str, Any] = {**table_measures()}
    if isinstance(maximize, Cost):
        measures["cost"] = partial(mean_cost, maximize.per_group(groups))
    return measures


def mean_cost(costs: Array, tables: Array) -> Array:
    """Expected cost per row of tables (..., 2, z, 2), with costs (z, 2) of both errors."""
    errors = np.stack([tables[..., 0, :, 1], tables[..., 1, :, 0]], axis=-1)
    return np.asarray((errors * costs).sum((-2, -1)) / tables.sum((-3, -2, -1)))


def unseen_score(tables: Array, moments: Array) -> dict[str, Promise]:
    """What unseen rows will show of a score: AUROC, and EO gap and violation in 20 bins.

    A row's levels are neighbours and its expected counts have less noise than drawn levels, so the
    products of its probabilities are needed. The error of AUROC is that of its 20 bins.

    Args:
        tables: of its levels, (F, 2, z, level).
        moments: Σ q qᵀ of the same rows, (F, 2, z, level, level).
    """
    promises = unseen(*score_tables.in_bins(tables, moments), {"auroc": score_tables.area, **score_tables.IN_BINS})
    area = Promise.normal(float(score_tables.area(tables).mean()), promises["auroc"].error)
    return promises | {"auroc": area}


def _padded(table: Array, width: int, axes: int) -> Array:
    """With empty levels below the others on the last axes, so that folds have the same number."""
    more = [(0, 0)] * (table.ndim - axes) + [(width - table.shape[-1], 0)] * axes
    return np.pad(table, more)


def tightened(
    solve: Callable[[Mapping[str, float]], T], used: Callable[[T], Mapping[str, float]], asked: Mapping[str, float]
) -> T:
    """The first of ever stricter rules whose promise is within what was asked.

    Args:
        solve: budgets → a rule that is expected to keep them; `InfeasibleError` names the smallest.
        used: what a rule promises of each budget.
        asked: the budgets.

    Raises:
        InfeasibleError: not even the strictest rule; asking for what it names succeeds.

    >>> def used(b): return {"eo_gap": b["eo_gap"] + 0.01}      # promises .01 more than it was for
    >>> round(tightened(lambda b: b, used, {"eo_gap": 0.05})["eo_gap"], 3) <= 0.04
    True
    """
    levels = dict(asked)
    for _ in range(_TRIES):
        try:
            solution = solve(levels)
        except InfeasibleError:
            break
        over = {name: used(solution)[name] - most for name, most in asked.items()}
        if max(over.values()) <= _SAME:
            return solution
        # a promise falls about as fast as the budget, and now and then a little less
        levels = {name: max(most - 1.25 * max(over[name], 0.0), 0.0) for name, most in levels.items()}
    else:
        levels = dict.fromkeys(asked, 0.0)
    solution = _strictest(solve, levels)
    shown = used(solution)
    if all(shown[name] <= most + _SAME for name, most in asked.items()):
        return solution
    raise refusal(asked, {name: max(shown[name], most) for name, most in asked.items()})


def _strictest(solve: Callable[[Mapping[str, float]], T], levels: Mapping[str, float]) -> T:
    """The rule of the smallest budgets that can be solved for."""
    for _ in levels:  # a refusal may name another of several budgets
        try:
            return solve(levels)
        except InfeasibleError as error:
            least = error.smallest
            levels = {name: max(most, least.get(name, 0.0)) for name, most in levels.items()}
    return solve(levels)
