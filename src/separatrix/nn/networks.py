"""Networks: M trained networks of one shape, as plain arrays. Prediction needs numpy only.

Inputs are [Z|X] with Z one-hot, or X alone; X may come with ramps (`piecewise_linear`). Hidden
layers are ReLU, the output is a softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError
from separatrix.nn.lanes import known_groups
from separatrix.nn.piecewise_linear import NO_PIECES, PiecewiseLinear

__all__ = ["Networks"]

_CELLS = 1 << 22  # hidden activations at a time: 16 MB of float32


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

    def __getitem__(self, lanes: slice | list[int] | NDArray[np.integer[Any]]) -> Networks:
        """The networks of some lanes."""
        index = np.arange(len(self))[lanes]
        return Networks(
            tuple(w[index] for w in self.weights),
            tuple(b[index] for b in self.biases),
            self.n_groups,
            tuple(self.status[i] for i in index),
            self.losses[index],
            self.piecewise_linear,
        )

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[np.float32]:
        """P(U = u | x, z) of every network, array (M, n, K). NaN for a lane that diverged."""
        features = X if isinstance(X, np.memmap) else np.asarray(X, dtype=np.float32)
        width = self.weights[0].shape[1] - self.n_groups - len(self.piecewise_linear)
        if features.ndim != 2 or features.shape[1] != width:
            raise InputError(
                f"`X` must have the {width} columns of training, got shape {features.shape}."
            )
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
        own = first[:, g:end] / scale[None, :, None]
        weight = np.concatenate([first[:, :g], own, first[:, end:]], axis=1).astype(np.float32)
        bias = (self.biases[0] - np.einsum("d,mdh->mh", mean, own)).astype(np.float32)
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
            PiecewiseLinear(*(arrays[f"piece_{name}"] for name in _PIECES))
            if "piece_column" in arrays
            else NO_PIECES,
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
