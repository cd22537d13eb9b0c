r"""The choice among base models, for every outer fold and for all rows, by inner log-loss.

With M(i, j) the model that saw neither fold i nor fold j (`nested`), outer fold i judges a
candidate by its loss on the training rows,

.. math:: \ell_i = \frac{1}{n_i} \sum_{j \neq i} \sum_{r \in j} -\log M(i, j)(y_r \mid x_r),

which never looks at fold i; all rows judge by the mean of these. M(i, j) serves both folds, and
what was fitted to all rows on the way is not fitted again (`pieces`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from separatrix import datasets
from separatrix.crossfit.array_models import Network
from separatrix.crossfit.base_models import NAMES, base_model_named, posteriors
from separatrix.crossfit.nested import Fit, Piece
from separatrix.errors import InputError

__all__ = ["BaseChoice", "choose_bases"]

_ROWS = 6_000  # rows that the choice looks at
_SMALL = 1_500  # below so many rows no network
_FLOOR = 1e-6  # least probability in the log-loss: one wrong certainty must not decide


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
        own, *rest = sorted(self.log_loss, key=lambda n: (n != self.names[-1], self.log_loss[n]))
        others = ", ".join(f"{_words(name)} {self.log_loss[name]:.3f}" for name in rest)
        return (
            f"Base model: {_words(own)} (log-loss {self.log_loss[own]:.3f}"
            f"{'; ' if rest else ''}{others})."
        )


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
    rows = _Rows(matrix[some], codes[some], fold[some], len(classes))
    whole = len(some) == len(codes)
    loss: dict[str, NDArray[np.float64]] = {}
    pieces: dict[Fit, Piece] = {}
    for name in names:
        found = rows.pieces(name)
        loss[name] = rows.loss(found)
        if whole and name != "network":  # networks are scaled by all rows here
            pieces |= found
    judged = {name: [*own.sum(1), own.sum()] for name, own in loss.items()}
    best = tuple(min(names, key=lambda n: judged[n][k]) for k in range(rows.folds + 1))
    mean = {name: float(own.sum()) / rows.judging for name, own in loss.items()}
    return BaseChoice(best, mean, {fit: one for fit, one in pieces.items() if fit.base in best})


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the choice."""

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    fold: NDArray[np.intp]
    n_labels: int

    @property
    def folds(self) -> int:
        return int(self.fold.max()) + 1

    @property
    def judging(self) -> int:
        """How many losses are summed: every row judges once in each outer fold but its own."""
        return len(self.y) * (self.folds - 1)

    def pieces(self, name: str) -> dict[Fit, Piece]:
        """M(i, j) for every pair of folds, with the scores of the rows that it did not see."""
        fits = [Fit(name, pair) for pair in combinations(range(self.folds), 2)]
        seen = [np.flatnonzero(~np.isin(self.fold, fit.without)) for fit in fits]
        model: Any = base_model_named(name)
        known = all(len(np.unique(self.y[rows])) == self.n_labels for rows in seen)
        if isinstance(model, Network) and known:
            fitted: list[Any] = model.fit_folds(self.X, self.y, seen)
        else:
            fitted = [clone(model).fit(self.X[rows], self.y[rows]) for rows in seen]
        out = {}
        for fit, one in zip(fits, fitted, strict=True):
            unseen = self.X[np.isin(self.fold, fit.without)]
            out[fit] = posteriors(one, unseen, self.n_labels), one
        return out

    def loss(self, pieces: Mapping[Fit, Piece]) -> NDArray[np.float64]:
        """Summed log-loss (i, j) of the rows of fold j by M(i, j)."""
        total = np.zeros((self.folds, self.folds))
        for fit, (scores, _) in pieces.items():
            i, j = fit.without
            own = np.isin(self.fold, fit.without)
            each = -np.log(np.clip(scores[np.arange(own.sum()), self.y[own]], _FLOOR, 1.0))
            total[i, j] = each[self.fold[own] == j].sum()
            total[j, i] = each[self.fold[own] == i].sum()
        return total


def _sample(y: NDArray[Any], z: NDArray[Any], random_state: int) -> NDArray[np.intp]:
    """At most 6,000 rows, with the shares of each label and group."""
    if len(y) <= _ROWS:
        return np.arange(len(y))
    parts = datasets.folds(y, z, -(-len(y) // 100), random_state)  # about 100 rows each
    return np.flatnonzero(parts < _ROWS // 100)


def _words(name: str) -> str:
    return NAMES.get(name, name)
