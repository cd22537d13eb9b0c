r"""Piecewise-linear inputs: ramps of a column beside the column itself.

A small network learns sharp bends in one input slowly: in age, or in a capital gain that is zero
for nine people of ten. Ramp r of column c is :math:`\mathrm{clip}((x_c - a_r) / w_r, 0, 1)`, so a
linear layer on a column's ramps is any curve that is linear between its knots. Knots are quantiles
of the training rows. A value that many people share gets a knot, and so do its neighbours, so the
curve may jump there. Labels are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_PIECES", "PiecewiseLinear"]

_ROWS = 100_000  # rows that the quantiles are taken from, at most
_JUMP = 1e-3  # least width of a piece, in standard deviations: float32 resolves it
_COLUMNS = 64  # more columns of many values than this are an embedding and get no ramps


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """R ramps, each rising from 0 to 1 over one piece of one column; arrays of length R.

    Args:
        column: the column that each looks at.
        low: where it starts to rise from 0.
        width: how far it is from there to 1.

    >>> income = np.r_[np.zeros(90), 1:11][:, None]
    >>> r = PiecewiseLinear.of(income, np.arange(100), 2)
    >>> r.low.tolist(), r.encode(np.array([[0.0], [0.5], [5.0]])).tolist()
    ([0.0, 1.0, 5.0], [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [5.0, 1.0, 1.0, 0.0]])
    """

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.column)

    @staticmethod
    def of(X: NDArray[Any], rows: NDArray[np.integer[Any]], pieces: int) -> PiecewiseLinear:
        """About `pieces` ramps for each column of more than two values; none for embeddings.

        The knots come from the training rows alone.
        """
        if not pieces:
            return NO_PIECES
        some = np.sort(rows)[np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.intp)]
        columns = (np.asarray(X[some, c], dtype=np.float32) for c in range(X.shape[1]))
        knots = [_knots(column, pieces) for column in columns]
        if sum(len(own) > 0 for own in knots) > _COLUMNS:
            return NO_PIECES
        column = np.repeat(np.arange(len(knots)), [max(len(own) - 1, 0) for own in knots])
        low = np.concatenate([own[:-1] for own in knots])
        least = _JUMP * np.asarray(X[some], dtype=np.float64).std(0)[column]
        width = np.maximum(np.concatenate([np.diff(own) for own in knots]), least)
        return PiecewiseLinear(column, low, width.astype(np.float32))

    def encode(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The columns, then the ramps, (n, d + R)."""
        plain = np.asarray(x, dtype=np.float32)
        if not len(self):
            return plain
        ramps = np.clip((plain[:, self.column] - self.low) / self.width, 0.0, 1.0)
        return np.concatenate([plain, ramps], axis=1)

    def unscaled(self, mean: NDArray[Any], scale: NDArray[Any]) -> PiecewiseLinear:
        """The same ramps for raw x, where these expect (x − mean) / scale."""
        own = scale[self.column]
        low = (self.low * own + mean[self.column]).astype(np.float32)
        return PiecewiseLinear(self.column, low, (self.width * own).astype(np.float32))


def _knots(values: NDArray[np.float32], pieces: int) -> NDArray[np.float32]:
    """Knots of one column, rising; none where it has two values or fewer."""
    distinct, count = np.unique(values, return_counts=True)
    if len(distinct) < 3:
        return distinct[:0]
    shared = np.flatnonzero(count > len(values) / pieces)
    rest = np.delete(distinct, shared).repeat(np.delete(count, shared))
    levels = np.linspace(0.0, 1.0, pieces + 1)
    between = np.quantile(rest, levels, method="inverted_cdf") if len(rest) else rest
    beside = np.clip(shared[:, None] + [-1, 0, 1], 0, len(distinct) - 1)
    knots: NDArray[np.float32] = np.unique(
        np.concatenate([between, distinct[beside].ravel()]).astype(np.float32)
    )
    return knots


NO_PIECES = PiecewiseLinear(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
)
