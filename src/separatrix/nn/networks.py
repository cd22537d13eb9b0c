r"""Networks: M trained networks of one shape, as plain arrays. Predicting and judging M policies at
once from posteriors (M, n, K) needs numpy only.

Inputs are [Z|X] with Z one-hot, or X alone; X may come with ramps. Hidden layers are ReLU, the
output is a softmax.

Piecewise-linear inputs: a small network learns sharp bends in one input slowly, in age, or in a
capital gain that is zero for nine people of ten. Ramp r of column c is
:math:`\mathrm{clip}((x_c - a_r) / w_r, 0, 1)`, so a linear layer on a column's ramps is any curve
that is linear between its knots. Knots are quantiles of the training rows. A value that many people
share gets a knot, and so do its neighbours, so the curve may jump there. Labels are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.core import score_tables
from separatrix.errors import InputError
from separatrix.nn.lanes import known_groups

_CELLS = 1 << 22  # hidden activations at a time: 16 MB of float32
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
    >>> r = PiecewiseLinear.from_rows(income, np.arange(100), 2)
    >>> r.low.tolist(), r.encode(np.array([[0.0], [0.5], [5.0]])).tolist()
    ([0.0, 1.0, 5.0], [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [5.0, 1.0, 1.0, 0.0]])
    """

    column: NDArray[np.int64]
    low: NDArray[np.float32]
    width: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.column)

    @staticmethod
    def from_rows(X: NDArray[Any], rows: NDArray[np.integer[Any]], pieces: int) -> PiecewiseLinear:
        """About `pieces` ramps for each column of more than two values; none for embeddings.

        The knots come from the training rows alone.
        """
        if not pieces:
            return NO_PIECES
        some = np.sort(rows)[np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(np.intp)]
        columns = (np.asarray(X[some, c], dtype=np.float32) for c in range(X.shape[1]))
        knots = [_knots(column, pieces) for column in columns]
        if sum(len(places) > 0 for places in knots) > _COLUMNS:
            return NO_PIECES
        column = np.repeat(np.arange(len(knots)), [max(len(places) - 1, 0) for places in knots])
        low = np.concatenate([places[:-1] for places in knots])
        least = _JUMP * np.asarray(X[some], dtype=np.float64).std(0)[column]
        width = np.maximum(np.concatenate([np.diff(places) for places in knots]), least)
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
        factor = scale[self.column]
        low = (self.low * factor + mean[self.column]).astype(np.float32)
        return PiecewiseLinear(self.column, low, (self.width * factor).astype(np.float32))


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
    knots: NDArray[np.float32] = np.unique(np.concatenate([between, distinct[beside].ravel()]).astype(np.float32))
    return knots


NO_PIECES = PiecewiseLinear(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, eq=False)
class Networks:
    """M networks that share their inputs.

    Args:
        weights: one array (M, in, out) per layer.
        biases: one array (M, out) per layer.
        n_groups: number of one-hot group columns in front of X; 0 if the networks see X alone.
        status: "ok" or "diverged", per lane.
        losses: (M, epochs) mean training loss, NaN after a lane stopped.
        piecewise_linear: the ramps, inputs beside the columns of X.
    """

    kind: ClassVar[str] = "networks"  # in a saved predictor: needs numpy only, no method's file
    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]
    n_groups: int
    status: tuple[str, ...]
    losses: NDArray[np.float64]
    piecewise_linear: PiecewiseLinear = NO_PIECES

    def __len__(self) -> int:
        return len(self.status)

    @property
    def width(self) -> int:
        """How many columns X has."""
        return self.weights[0].shape[1] - self.n_groups - len(self.piecewise_linear)

    def __getitem__(self, lanes: slice | list[int] | NDArray[np.integer[Any]]) -> Networks:
        """The networks of some lanes."""
        index = np.arange(len(self))[lanes]
        return replace(
            self,
            weights=tuple(w[index] for w in self.weights),
            biases=tuple(b[index] for b in self.biases),
            status=tuple(self.status[i] for i in index),
            losses=self.losses[index],
        )

    @staticmethod
    def constant(logits: ArrayLike, widths: Sequence[int], n_groups: int) -> Networks:
        """Networks whose output is the softmax of constants (M, K); layers from input to output."""
        last = np.asarray(logits, dtype=np.float32)
        m = len(last)
        weights = tuple(np.zeros((m, a, b), dtype=np.float32) for a, b in pairwise(widths))
        biases = (*(np.zeros((m, b), dtype=np.float32) for b in widths[1:-1]), last)
        return Networks(weights, biases, n_groups, ("ok",) * m, np.zeros((m, 0)))

    @staticmethod
    def joined(stacks: Sequence[Networks]) -> Networks:
        """The networks of several stacks as one."""
        weights = tuple(map(np.concatenate, zip(*(stack.weights for stack in stacks), strict=True)))
        biases = tuple(map(np.concatenate, zip(*(stack.biases for stack in stacks), strict=True)))
        epochs = max(stack.losses.shape[1] for stack in stacks)
        missing = [(0, epochs - stack.losses.shape[1]) for stack in stacks]
        padded = [np.pad(s.losses, ((0, 0), m), constant_values=np.nan) for s, m in zip(stacks, missing, strict=True)]
        status = tuple(status for stack in stacks for status in stack.status)
        return replace(stacks[0], weights=weights, biases=biases, status=status, losses=np.concatenate(padded))

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[np.float32]:
        """P(U = u | x, z) of every network, array (M, n, K). NaN for a lane that diverged."""
        features = X if isinstance(X, np.memmap) else np.asarray(X, dtype=np.float32)
        if features.ndim != 2 or features.shape[1] != self.width:
            raise InputError(f"`X` must have the {self.width} columns of training, got shape {features.shape}.")
        n = len(features)
        groups = known_groups(z, n, self.n_groups) if self.n_groups else np.zeros(n, dtype=np.int64)
        m, out = len(self), self.weights[-1].shape[2]
        q = np.empty((m, n, out), dtype=np.float32)
        widest = max(m * max(w.shape[2] for w in self.weights), self.weights[0].shape[1])
        step = max(1, _CELLS // widest)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            q[:, rows] = self._forward(self.piecewise_linear.encode(features[rows]), groups[rows])
        return q

    def unscaled(self, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> Networks:
        """The same networks for raw x, where these expect (x − mean) / scale."""
        first, g = self.weights[0].astype(np.float64), self.n_groups
        end = g + len(scale)  # the ramps follow
        of_x = first[:, g:end] / scale[None, :, None]
        weight = np.concatenate([first[:, :g], of_x, first[:, end:]], axis=1).astype(np.float32)
        bias = (self.biases[0] - np.einsum("d,mdh->mh", mean, of_x)).astype(np.float32)
        return replace(
            self,
            weights=(weight, *self.weights[1:]),
            biases=(bias, *self.biases[1:]),
            piecewise_linear=self.piecewise_linear.unscaled(mean, scale),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Weights, biases and status as arrays with names, for a file format of your choice."""
        named: dict[str, NDArray[Any]] = {f"weight_{i}": w for i, w in enumerate(self.weights)}
        named |= {f"bias_{i}": b for i, b in enumerate(self.biases)}
        named |= {f"piece_{name}": getattr(self.piecewise_linear, name) for name in _PIECES}
        codes = np.array([_STATUS.index(s) for s in self.status])
        return named | {"n_groups": np.array(self.n_groups), "status": codes, "losses": self.losses}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Networks:
        """The networks that `arrays` described."""
        depth = sum(name.startswith("weight_") for name in arrays)
        return Networks(
            tuple(arrays[f"weight_{i}"] for i in range(depth)),
            tuple(arrays[f"bias_{i}"] for i in range(depth)),
            int(arrays["n_groups"]),
            tuple(_STATUS[int(code)] for code in arrays["status"]),
            arrays["losses"],
            PiecewiseLinear(*(arrays[f"piece_{name}"] for name in _PIECES)),
        )

    def _forward(self, x: NDArray[np.float32], groups: NDArray[np.int64]) -> NDArray[np.float32]:
        h = np.matmul(x, self.weights[0][:, self.n_groups :]) + self.biases[0][:, None]
        if self.n_groups:
            # a one-hot row times the weights is a row of the weights
            h += self.weights[0][:, groups]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            np.maximum(h, 0.0, out=h)
            h = np.matmul(h, weight) + bias[:, None]
        h -= h.max(-1, keepdims=True)
        np.exp(h, out=h)
        h /= h.sum(-1, keepdims=True)
        return h


_STATUS = ("ok", "diverged")
_PIECES = ("column", "low", "width")


def tables(q: ArrayLike, y: ArrayLike, z: ArrayLike, n_labels: int, n_groups: int) -> NDArray[np.float64]:
    """Soft counts N[y, z, u] of every lane, (M, n_labels, n_groups, K).

    Args:
        q: posteriors (M, n, K).
        y, z: codes (n,).

    >>> tables([[[0.9, 0.1], [0.4, 0.6]]], [0, 1], [0, 0], 2, 1)[0, :, 0]
    array([[0.9, 0.1],
           [0.4, 0.6]])
    """
    posterior = np.asarray(q)
    m, _, k = posterior.shape
    cell = np.asarray(y, dtype=np.int64) * n_groups + np.asarray(z, dtype=np.int64)
    counts = [[np.bincount(cell, column, n_labels * n_groups) for column in lane.T] for lane in posterior]
    table = np.array(counts).reshape(m, k, n_labels, n_groups)
    return np.moveaxis(table, 1, 3)


def hard(q: ArrayLike) -> NDArray[np.float32]:
    """The deterministic policy argmax q as one-hot posteriors, for `tables`."""
    return np.eye(np.shape(q)[-1], dtype=np.float32)[np.argmax(q, axis=-1)]


def auroc(q: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    r"""Exact area under the ROC curve of every lane, (M,): ties count one half.

    For two labels the score is the second label's posterior. For more it is the mean over labels of
    one against the rest ("macro"); a label in no row or in all rows takes no part. NaN for a lane
    with NaN.

    >>> auroc([[[0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]], [0, 1, 0])
    array([0.75])
    """
    posterior, labels = np.asarray(q), np.asarray(y)
    k = posterior.shape[2]
    scored = [label for label in range(1 if k == 2 else 0, k) if 0 < (labels == label).sum() < len(labels)]
    if not scored:
        raise InputError("The area under the ROC curve needs rows of at least two labels.")
    area = np.full(len(posterior), np.nan)
    for lane in np.flatnonzero(~np.isnan(posterior).any((1, 2))):
        levels = (np.unique(posterior[lane, :, label], return_inverse=True)[1] for label in scored)
        area[lane] = np.mean([score_tables.auroc(s, labels == label) for s, label in zip(levels, scored, strict=True)])
    return area
