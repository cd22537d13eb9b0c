r"""Nested cross-fitting: honest scores for a procedure on every outer fold, and on all rows.

A procedure is base model → rule. The rule is fitted to scores of rows that their model did not see,
and the procedure is measured on rows that it did not see at all. Both come from one split of the
rows into F folds. With M(i, j) the model that saw neither fold i nor fold j, M(i) the one that did
not see fold i, and M() the one that saw all rows,

- outer fold i: a training row of fold j is scored by M(i, j), a test row by M(i);
- all rows, which is what ships: a row of fold j is scored by M(j), a new row by M().

M(i, j) serves outer fold i and outer fold j, so F (F − 1) / 2 + F + 1 fits are enough: 16 for five
folds, where nested cross-validation that splits the rows anew in every outer fold takes 31.

*The choice among base models*, for every outer fold and for all rows, is by inner log-loss. Outer
fold i judges a candidate by its loss on the training rows,

.. math:: \ell_i = \frac{1}{n_i} \sum_{j \neq i} \sum_{r \in j} -\log M(i, j)(y_r \mid x_r),

which never looks at fold i; all rows judge by the mean of these. What was fitted to all rows on the
way is not fitted again (`pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from separatrix import datasets
from separatrix.crossfit.array_models import Network
from separatrix.crossfit.base_models import NAMES, base_model_named, posteriors
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.errors import InputError

Array = NDArray[np.float64]
Folds = NDArray[np.intp]
Piece = tuple[Array, Any]  # the scores of the rows of the left-out folds, in order; the model
_ROWS = 6_000  # rows that the choice looks at
_SMALL = 1_500  # below so many rows no network
_FLOOR = 1e-6  # least probability in the log-loss: one wrong certainty must not decide


@dataclass(frozen=True)
class Fit:
    """One fit: the base model by its name, and the folds that it does not see."""

    base: str
    without: tuple[int, ...]


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
    fit: Fit, X: Any, fold: Folds, train: Callable[[Any, NDArray[np.intp]], Any], score: Callable[[Any, Any], Array]
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


@dataclass(frozen=True, eq=False)
class BaseChoice:
    """The base models with the smallest inner log-loss.

    Args:
        names: "trees", "logistic" or "network" for each outer fold, and last for all rows.
        log_loss: mean inner log-loss of every candidate, as all rows judge it.
        pieces: what was fitted to all rows on the way.
    """

    names: tuple[str, ...]
    log_loss: Mapping[str, float]
    pieces: Mapping[Fit, Piece] = field(repr=False)

    def __str__(self) -> str:
        first, *rest = sorted(self.log_loss, key=lambda n: (n != self.names[-1], self.log_loss[n]))
        losses = [f"log-loss {self.log_loss[first]:.3f}"]
        losses += [f"{NAMES.get(name, name)} {self.log_loss[name]:.3f}" for name in rest]
        others = f"; {', '.join(losses[1:])}" if rest else ""
        return f"Base model: {NAMES.get(first, first)} ({losses[0]}{others})."


def choose_bases(
    X: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    fold: NDArray[np.intp],
    *,
    candidates: Sequence[str] | None = None,
    random_state: int = 0,
) -> BaseChoice:
    """The best of boosted trees, logistic regression and the network, on at most 6,000 rows.

    Args:
        X: the prepared matrix.
        y, z: labels and codes of the groups.
        fold: the outer fold of each row, at least three.
        candidates: names to choose from; by default trees, logistic and, where torch is installed
            and there are at least 1,500 rows, network.
        random_state: seed of the sample.

    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    >>> y = (X[:, 0] + X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    >>> print(choose_bases(X, y, z, np.arange(300) % 5, candidates=["trees", "logistic"]))
    Base model: logistic regression (log-loss 0.578; boosted trees 0.592).
    """
    matrix, groups = np.asarray(X, dtype=np.float32), np.asarray(z)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    names = list(NAMES) if candidates is None else list(candidates)
    if candidates is None and (len(codes) < _SMALL or find_spec("torch") is None):
        names.remove("network")
    if not names:
        raise InputError("`candidates` is empty: name at least one base model.")
    some = _sample(codes, groups, random_state)
    rows, labels, folds = matrix[some], codes[some], fold[some]
    loss: dict[str, NDArray[np.float64]] = {}
    pieces: dict[Fit, Piece] = {}
    for name in names:
        fitted = _pairs(name, rows, labels, folds, len(classes))
        loss[name] = _losses(fitted, labels, folds)
        if len(some) == len(codes) and name != "network":  # networks are scaled by all rows here
            pieces |= fitted
    judged = {name: [*each.sum(1), each.sum()] for name, each in loss.items()}
    count = int(folds.max()) + 1
    best = tuple(min(names, key=lambda n: judged[n][k]) for k in range(count + 1))
    judging = len(labels) * (count - 1)  # every row judges in each outer fold but its own
    mean = {name: float(each.sum()) / judging for name, each in loss.items()}
    return BaseChoice(best, mean, {fit: piece for fit, piece in pieces.items() if fit.base in best})


def _pairs(name: str, X: Any, y: Folds, fold: Folds, n_labels: int) -> dict[Fit, Piece]:
    """M(i, j) for every pair of folds, with the scores of the rows that it did not see."""
    fits = [Fit(name, pair) for pair in combinations(range(int(fold.max()) + 1), 2)]
    seen = [np.flatnonzero(~np.isin(fold, fit.without)) for fit in fits]
    model: Any = base_model_named(name)
    if isinstance(model, Network) and all(len(np.unique(y[rows])) == n_labels for rows in seen):
        fitted: list[Any] = model.fit_folds(X, y, seen)
    else:
        fitted = [clone(model).fit(X[rows], y[rows]) for rows in seen]
    return {
        fit: (posteriors(fitted_model, X[np.isin(fold, fit.without)], n_labels), fitted_model)
        for fit, fitted_model in zip(fits, fitted, strict=True)
    }


def _losses(pieces: Mapping[Fit, Piece], y: Folds, fold: Folds) -> Array:
    """Summed log-loss (i, j) of the rows of fold j by M(i, j)."""
    total = np.zeros((int(fold.max()) + 1,) * 2)
    for fit, (scores, _) in pieces.items():
        i, j = fit.without
        unseen = np.isin(fold, fit.without)
        each = -np.log(np.clip(scores[np.arange(unseen.sum()), y[unseen]], _FLOOR, 1.0))
        total[i, j] = each[fold[unseen] == j].sum()
        total[j, i] = each[fold[unseen] == i].sum()
    return total


def _sample(y: NDArray[Any], z: NDArray[Any], random_state: int) -> NDArray[np.intp]:
    """At most 6,000 rows, with the shares of each label and group."""
    if len(y) <= _ROWS:
        return np.arange(len(y))
    parts = datasets.folds(y, z, -(-len(y) // 100), random_state)  # about 100 rows each
    return np.flatnonzero(parts < _ROWS // 100)
