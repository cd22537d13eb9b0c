r"""Nested cross-fitting: honest scores for a procedure on every outer fold, and on all rows.

A procedure is base model → rule. The rule is fitted to scores of rows that their model did not see,
and the procedure is measured on rows that it did not see at all. Both come from one split of the
rows into F folds. With M(i, j) the model that saw neither fold i nor fold j, M(i) the one that did
not see fold i, and M() the one that saw all rows,

- outer fold i: a training row of fold j is scored by M(i, j), a test row by M(i);
- all rows, which is what ships: a row of fold j is scored by M(j), a new row by M().

M(i, j) serves outer fold i and outer fold j, so F (F − 1) / 2 + F + 1 fits are enough: 16 for five
folds, where nested cross-validation that splits the rows anew in every outer fold takes 31.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

__all__ = ["Fit", "NestedScores", "Piece", "assemble", "fit_piece", "plan_fits"]

Array = NDArray[np.float64]
Folds = NDArray[np.intp]
Piece = tuple[Array, Any]  # the scores of the rows of the left-out folds, in order; the model


@dataclass(frozen=True)
class Fit:
    """One fit: the base model by its name, and the folds that it does not see."""

    base: str
    without: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NestedScores:
    """What every model says about rows that it did not see.

    Args:
        fold: of each row, (n,).
        inner: (n, F, C). [r, i] is the score of r as a training row of outer fold i; [r, fold(r)]
            is its score as a test row.
        honest: (n, C), the scores of the procedure on all rows, by M(fold(r)). The same as those
            of the test rows, unless the choice of base models differs between folds.
        bases: the name of the base model of each outer fold, and last of all rows.
    """

    fold: Folds
    inner: Array = field(repr=False)
    honest: Array = field(repr=False)
    bases: tuple[str, ...]

    @property
    def folds(self) -> range:
        """The outer folds."""
        return range(self.inner.shape[1])

    def training(self, k: int | None) -> tuple[NDArray[np.intp], Array]:
        """Rows and honest scores (m, C) that the rule of outer fold k is fitted to; None: all."""
        if k is None:
            return np.arange(len(self.fold)), self.honest
        rows = np.flatnonzero(self.fold != k)
        return rows, self.inner[rows, k]

    def tested(self, k: int) -> tuple[NDArray[np.intp], Array]:
        """Rows of outer fold k and their scores (m, C) by the model that did not see them."""
        rows = np.flatnonzero(self.fold == k)
        return rows, self.inner[rows, k]


def plan_fits(bases: Sequence[str]) -> list[Fit]:
    """The fits that `assemble` needs.

    Args:
        bases: the base of each outer fold, and last of all rows.

    >>> len(plan_fits(["trees"] * 6)), len(plan_fits(["trees"] * 5 + ["logistic"]))
    (16, 21)
    """
    *of_fold, of_all = bases
    folds = range(len(of_fold))
    whole = [Fit(of_all, ()), *(Fit(of_all, (j,)) for j in folds)]
    outer = [Fit(of_fold[i], _without(i, j)) for i in folds for j in folds]
    return list(dict.fromkeys([*whole, *outer]))


def fit_piece(
    fit: Fit,
    X: Any,
    fold: Folds,
    train: Callable[[Any, NDArray[np.intp]], Any],
    score: Callable[[Any, Any], Array],
) -> Piece:
    """Fit one model and score the rows that it did not see.

    Args:
        fit: which.
        X: rows as the model takes them.
        fold: of each row.
        train: (rows of X, their places) → the fitted model.
        score: (model, rows of X) → scores (m, C).
    """
    left_out = np.isin(fold, fit.without)
    seen, unseen = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    model = train(_safe_indexing(X, seen), seen)
    if not len(unseen):
        return np.zeros((0, 0)), model
    return score(model, _safe_indexing(X, unseen)), model


def assemble(fold: Folds, bases: Sequence[str], pieces: Mapping[Fit, Piece]) -> NestedScores:
    """The scores of all fits as one object."""
    *of_fold, of_all = bases
    folds = range(len(of_fold))
    width = max(scores.shape[1] for scores, _ in pieces.values())
    inner, honest = np.full((len(fold), len(folds), width), np.nan), np.empty((len(fold), width))
    for j in folds:
        honest[fold == j] = pieces[Fit(of_all, (j,))][0]
        for i in folds:
            fit = Fit(of_fold[i], _without(i, j))
            place = fold[np.isin(fold, fit.without)]
            inner[fold == j, i] = pieces[fit][0][place == j]
    return NestedScores(fold, inner, honest, tuple(bases))


def _without(i: int, j: int) -> tuple[int, ...]:
    """The folds that M(i, j) did not see; M(i, i) is M(i)."""
    return tuple(sorted({i, j}))
