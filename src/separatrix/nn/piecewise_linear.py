r"""PiecewiseLinear: what a column says, piece by piece, beside the column itself.

A network of a few thin layers bends slowly in any one input: age, or a capital gain that is zero
for nine people of ten. Ramp r of column c is :math:`\mathrm{clip}((x_c - a_r) / w_r, 0, 1)`, so a
linear layer on a column's piecewise_linear is any curve that is linear between its knots. Knots are
the quantiles of the training rows; a value that many people share has a knot of its own, and the
values next to it have, which lets the curve jump there. No label is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_PIECES", "PiecewiseLinear"]

_ROWS = 100_000  # rows that the quantiles are taken from, at most
# standard deviations: the width of a piece at least, so that a column may be scaled in single
# precision
_JUMP = 1e-3
# with more columns than that of many values the rows are embeddings: no column means anything by
# itself
_COLUMNS = 64


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """R piecewise_linear; arrays of length R.

    Args:
        column: the column that each looks at.
        low: where it starts to rise from 0.
        width: how far it is from there to 1.

    >>> income = np.r_[np.zeros(90), 1:11][:, None]
    >>> r = PiecewiseLinear.of(income, np.arange(100), 2)
    >>> r.low.tolist(), r.encode(np.array([[0.0], [0.5], [7.0]], dtype=np.float32)).tolist()
    ([0.0, 1.0, 5.0], [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [7.0, 1.0, 1.0,
    0.4000000059604645]])
    """

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.column)

    @staticmethod
    def of(X: NDArray[Any], rows: NDArray[np.integer[Any]], pieces: int) -> PiecewiseLinear:
        """About `pieces` piecewise_linear for each column of more than two values, from the
        training rows alone; none for embeddings.
        """
        if not pieces:
            return NO_PIECES
        some = np.sort(rows)[np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.intp)]
        knots = [
            _knots(np.asarray(X[some, c], dtype=np.float32), pieces) for c in range(X.shape[1])
        ]
        if sum(len(own) > 0 for own in knots) > _COLUMNS:
            return NO_PIECES
        column = np.repeat(np.arange(len(knots)), [max(len(own) - 1, 0) for own in knots])
        low = np.concatenate([own[:-1] for own in knots])
        least = _JUMP * np.asarray(X[some], dtype=np.float64).std(0)[column]
        width = np.maximum(np.concatenate([np.diff(own) for own in knots]), least)
        return PiecewiseLinear(column, low, width.astype(np.float32))

    def encode(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """[x | piecewise_linear], (n, d + R)."""
        plain = np.asarray(x, dtype=np.float32)
        if not len(self):
            return plain
        return np.concatenate(
            [plain, np.clip((plain[:, self.column] - self.low) / self.width, 0.0, 1.0)], axis=1
        )

    def unscaled(self, mean: NDArray[Any], scale: NDArray[Any]) -> PiecewiseLinear:
        """The same piecewise_linear of x, where these are of (x − mean) / scale."""
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
