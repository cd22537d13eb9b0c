"""Measured: a procedure run on every outer fold, and what unseen rows will show of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.values import Levels
from separatrix.core import ordered
from separatrix.core.measures import table_measures
from separatrix.crossfit.nested import NestedScores
from separatrix.errors import InfeasibleError
from separatrix.optimum.objectives import Cost
from separatrix.optimum.plain import PlainRule
from separatrix.procedure.promise import tightened
from separatrix.procedure.rule_fits import Budgets, Procedure, raised
from separatrix.procedure.score_fits import Scoring
from separatrix.statistics.unseen import Promise, unseen

__all__ = ["Measured", "mean_cost", "measured", "measured_fold", "unseen_score"]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Measured:
    """A procedure, what it is on all rows, and what it showed on the test rows of outer folds.

    Args:
        procedure: what was run.
        rule: fitted to all rows: it ships.
        tables, squares: of each fold's test rows, as `statistics.unseen` takes them; the squares of
            a score are its rows' products Σ q qᵀ.
        groups: their names.
        eased: outer folds, of four fifths of the rows, in which a score's budget could not be
            promised and the smallest that could was taken instead.
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
        return isinstance(self.procedure, Scoring) or getattr(self.procedure, "score", False)

    @cached_property
    def promise(self) -> dict[str, Promise]:
        """What unseen rows will show of each metric."""
        if self.is_score:
            return unseen_score(self.tables, self.squares)
        measures: dict[str, Any] = {**table_measures()}
        aim = getattr(self.procedure, "maximize", None)
        if isinstance(aim, Cost):
            measures["cost"] = partial(mean_cost, aim.per_group(self.groups))
        fixed = isinstance(self.rule, PlainRule)
        found = unseen(self.tables, self.squares, measures, fixed=fixed)
        if self.procedure.promises:
            first = min(self.procedure.budgets)  # whose level the margin found
            found[first] = found[first].with_expected(self.rule.expected)
        return found

    @property
    def constant(self) -> int | None:
        """The label that every row gets, if there is one."""
        share = self.tables.sum((0, 1, 2)) / self.tables.sum()
        return int(share.argmax()) if share.max() > 1.0 - 1e-9 else None


def unseen_score(tables: Array, moments: Array) -> dict[str, Promise]:
    """What unseen rows will show of a score: AUROC, and EO gap and violation in 20 bins.

    A row's levels are neighbours and its expected counts have less noise than drawn levels, so the
    products of its probabilities are needed. The error of AUROC is that of its 20 bins.

    Args:
        tables: of its levels, (F, 2, z, level).
        moments: Σ q qᵀ of the same rows, (F, 2, z, level, level).
    """
    found = unseen(*ordered.in_bins(tables, moments), {**ordered.AREA, **ordered.IN_BINS})
    area = Promise.normal(float(ordered.area(tables).mean()), found["auroc"].error)
    return found | {"auroc": area}


def measured(
    procedure: Procedure, nested: NestedScores, y: Codes, z: Codes, labels: Levels, groups: Levels
) -> Measured:
    """Run a procedure on all rows, and with what it settled there on every outer fold.

    Raises:
        InfeasibleError: all rows together cannot promise the budget.
    """
    rows, scores = nested.training(None)
    fit = procedure.solver(scores, y[rows], z[rows], groups)

    def run(budgets: Budgets) -> Measured:
        return _on_folds(procedure, budgets, fit(budgets), nested, y, z, labels, groups)

    if not procedure.promises:
        return run(procedure.budgets)

    def used(found: Measured) -> dict[str, float]:
        return {name: found.promise[name].value for name in procedure.budgets}

    return tightened(run, used, procedure.budgets)


def _on_folds(
    procedure: Procedure,
    budgets: Budgets,
    rule: Any,
    nested: NestedScores,
    y: Codes,
    z: Codes,
    labels: Levels,
    groups: Levels,
) -> Measured:
    own = procedure.settled(rule).within(budgets)
    folds = [measured_fold(own, nested, k, y, z, labels, groups) for k in nested.folds]
    width = max(one.tables.shape[-1] for one in folds)
    tables = np.concatenate([_padded(one.tables, width, 1) for one in folds])
    axes = folds[0].squares.ndim - 3  # of levels: one, or two of a score
    squares = np.concatenate([_padded(one.squares, width, axes) for one in folds])
    eased = sum(one.eased for one in folds)
    laws = None
    if not folds[0].is_score:
        laws = np.empty((len(y), len(labels)))
        for k, one in enumerate(folds):
            laws[nested.tested(k)[0]] = one.laws
    return Measured(procedure, rule, tables, squares, groups, eased, laws)


def measured_fold(
    procedure: Procedure,
    nested: NestedScores,
    k: int,
    y: Codes,
    z: Codes,
    labels: Levels,
    groups: Levels,
) -> Measured:
    """Run a procedure on the training rows of outer fold k and measure it on its test rows.

    Where the fold's rows are too few to promise a score's budget, the smallest that they can is
    taken.
    """
    train, own = nested.training(k)
    run, eased = procedure, 0
    try:
        rule = run.fit(own, y[train], z[train], groups)
    except InfeasibleError as error:
        run, eased = procedure.within(raised(procedure.budgets, error.smallest)), 1
        rule = run.fit(own, y[train], z[train], groups)
    test, scores = nested.tested(k)
    law = run.law(rule, scores, z[test])
    table, moments = soft_sums(law, y[test], z[test], (len(labels), len(groups)))
    assert moments is not None
    table, moments = nested.share * table, nested.share * moments  # a person counts once
    found = Measured(procedure, rule, table[None], moments[None], groups, eased)
    if found.is_score:
        return found
    return replace(found, squares=np.diagonal(moments, axis1=-2, axis2=-1)[None], laws=law)


def mean_cost(costs: Array, tables: Array) -> Array:
    """Expected cost per row of tables (..., 2, z, 2), with costs (z, 2) of both errors."""
    errors = np.stack([tables[..., 0, :, 1], tables[..., 1, :, 0]], axis=-1)
    return np.asarray((errors * costs).sum((-2, -1)) / tables.sum((-3, -2, -1)))


def _padded(table: Array, width: int, axes: int) -> Array:
    """With empty levels below the others on the last axes, so that folds have the same number."""
    more = [(0, 0)] * (table.ndim - axes) + [(width - table.shape[-1], 0)] * axes
    return np.pad(table, more)
