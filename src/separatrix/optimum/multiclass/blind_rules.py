r"""Decisions that never see the group: a coin between linear functions of q(y, z | x).

.. math:: P(U = u \mid x) = \sum_m c_m \, 1\bigl\{ u = \arg\max_{u'} \langle W_{m u'}, q(x)
          \rangle \bigr\}, \qquad q(x)[y, z] = P(Y = y, Z = z \mid x)

For two labels that is a mixture of half-spaces 1{w·q(x) > 0}, w = W_1 − W_0. The group is used when
q is learned, and is not asked for when a row is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError

__all__ = ["BlindRule", "check_joint"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BlindRule:
    """One of several decisions argmax_u ⟨W_u, q(x)⟩, drawn with the given weights.

    Args:
        weights: how often each decision is drawn, array (m,).
        columns: W of each, array (m, U, labels, groups).
    """

    weights: Array
    columns: Array

    def predict_proba(self, q: ArrayLike) -> Array:
        """P(U = u | x), array (n, U), from q(y, z | x) alone, array (n, labels, groups).

        >>> first = np.array([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])    # P(y | x)
        >>> rule = BlindRule(np.array([0.75, 0.25]), np.stack([first, -first]))
        >>> rule.predict_proba([[[0.2, 0.1], [0.3, 0.4]]])
        array([[0.25, 0.75]])
        """
        joint = check_joint(q, self.columns.shape[2:])
        flat = joint.reshape(len(joint), -1)
        law = np.zeros((len(flat), self.columns.shape[1]))
        rows = np.arange(len(flat))
        for share, own in zip(self.weights, self.columns, strict=True):
            law[rows, (flat @ own.reshape(len(own), -1).T).argmax(1)] += share
        return law / law.sum(1, keepdims=True)

    def arrays(self) -> dict[str, Array]:
        """Its numbers, for `from_arrays`."""
        return {"weights": self.weights, "columns": self.columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> BlindRule:
        """The inverse of `arrays`."""
        return cls(
            np.asarray(arrays["weights"], dtype=np.float64),
            np.asarray(arrays["columns"], dtype=np.float64),
        )

    def __repr__(self) -> str:
        m, u, y, z = self.columns.shape
        return f"<BlindRule: {u} decisions from q of {y} labels × {z} groups, a coin between {m}>"


def check_joint(q: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
    """q(y, z | x) as an array (n, labels, groups): not negative, each row summing to one."""
    try:
        joint = np.asarray(q, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`q` must be probabilities (rows, labels, groups): {error}.") from error
    if joint.ndim != 3 or (shape is not None and joint.shape[1:] != tuple(shape)):
        wanted = "(rows, labels, groups)" if shape is None else f"(rows, {shape[0]}, {shape[1]})"
        raise InputError(f"`q` must have the shape {wanted}, got {joint.shape}.")
    total = joint.sum((1, 2))
    if not np.isfinite(total).all() or (joint < 0).any() or (np.abs(total - 1.0) > 1e-4).any():
        raise InputError(
            "Each row of `q` must be a law over labels and groups: no missing values, none "
            "negative, the sum 1."
        )
    return joint
