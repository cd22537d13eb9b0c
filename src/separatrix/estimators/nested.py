r"""Nested cross-fitting: honest scores for a procedure on every outer fold, and on all rows.

A procedure is base model → rule. The rule is fitted to scores of rows that their model did not see,
and the procedure is measured on rows that it did not see at all. Both come from one deal of the
rows into F folds. With M(i, j) the model that saw neither fold i nor fold j,

- outer fold i: a training row of fold j is scored by M(i, j), a test row by each of the F − 1
  models M(i, j), j ≠ i, whose mean is the prediction;
- all rows, which is what ships: a row of fold j is scored by M(j), and a new row by each M(j).

M(i, j) serves outer fold i and outer fold j, so F (F − 1) / 2 + F fits are enough: 15 for five
folds, where nested cross-validation that deals the rows anew in every outer fold takes 30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
            is its score as a row of the procedure on all rows.
        outer: (n, F, C). [r, j], j ≠ fold(r), is the score of r as a test row by the model that
            saw neither its fold nor fold j; [r, fold(r)] is NaN.
        bases: the name of the base model of each outer fold, and last of all rows.
    """

    fold: Folds
    inner: Array = field(repr=False)
    outer: Array = field(repr=False)
    bases: tuple[str, ...]

    @property
    def folds(self) -> range:
        """The outer folds."""
        return range(self.inner.shape[1])

    @property
    def honest(self) -> Array:
        """The score (n, C) of every row by the model that did not see its fold."""
        return self.inner[np.arange(len(self.fold)), self.fold]

    def training(self, k: int | None) -> tuple[NDArray[np.intp], Array]:
        """Rows and honest scores (m, C) that the rule of outer fold k is fitted to; None: all."""
        if k is None:
            return np.arange(len(self.fold)), self.honest
        rows = np.flatnonzero(self.fold != k)
        return rows, self.inner[rows, k]

    def tested(self, k: int) -> tuple[NDArray[np.intp], Array]:
        """Rows of outer fold k and their scores by each member, (F − 1, m, C)."""
        rows = np.flatnonzero(self.fold == k)
        others = [j for j in self.folds if j != k]
        return rows, np.moveaxis(self.outer[rows][:, others], 1, 0)


def plan_fits(bases: Sequence[str]) -> list[Fit]:
    """The fits that `assemble` needs.

    Args:
        bases: the base of each outer fold, and last of all rows.

    >>> len(plan_fits(["trees"] * 6)), len(plan_fits(["trees"] * 5 + ["logistic"]))
    (15, 15)
    """
    *of_fold, of_all = bases
    folds = range(len(of_fold))
    pairs = [Fit(of_fold[i], tuple(sorted((i, j)))) for i in folds for j in folds if i != j]
    return list(dict.fromkeys([*(Fit(of_all, (j,)) for j in folds), *pairs]))


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
    return score(model, _safe_indexing(X, unseen)), model


def assemble(fold: Folds, bases: Sequence[str], pieces: Mapping[Fit, Piece]) -> NestedScores:
    """The scores of all fits as one object."""
    n, folds = len(fold), len(bases) - 1
    width = next(iter(pieces.values()))[0].shape[1]
    inner, outer = (np.full((n, folds, width), np.nan) for _ in range(2))
    for j in range(folds):
        inner[fold == j, j] = pieces[Fit(bases[-1], (j,))][0]
    for i, j, pair in _pairs(fold, bases):
        scores = pieces[pair][0]
        place = fold[np.isin(fold, pair.without)]
        inner[fold == j, i] = scores[place == j]
        outer[fold == i, j] = scores[place == i]
    return NestedScores(fold, inner, outer, tuple(bases))


def _pairs(fold: Folds, bases: Sequence[str]) -> Iterator[tuple[int, int, Fit]]:
    """Outer fold i, another fold j, and the fit that saw neither."""
    folds = range(len(bases) - 1)
    for i in folds:
        for j in folds:
            if i != j:
                yield i, j, Fit(bases[i], tuple(sorted((i, j))))
