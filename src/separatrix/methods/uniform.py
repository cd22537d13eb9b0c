"""Uniform: every label with probability 1/K, for any row: v = u = 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.methods import PAPER, Lane, Method, Options, Sample


@dataclass(frozen=True)
class Uniform:
    """The constant posterior 1/K of each lane."""

    n_labels: int
    status: tuple[str, ...]

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[np.float32]:
        """1/K for each lane, row and label, (M, n, K)."""
        shape = (len(self.status), len(np.asarray(X)), self.n_labels)
        return np.full(shape, 1 / self.n_labels, dtype=np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The number of labels and of lanes."""
        return {"n_labels": np.array(self.n_labels), "lanes": np.array(len(self.status))}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Uniform:
        """What `arrays` described."""
        return Uniform(int(arrays["n_labels"]), ("ok",) * int(arrays["lanes"]))


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> Uniform:
    """Nothing to train; λ, rows and seeds play no part."""
    return Uniform(sample.n_labels, ("ok",) * len(lanes))


METHOD = Method(
    label="Uniform random",
    colour="#bbbbbb",
    reference="the paper, table “ACSOccupation compact operating-point summary”",
    trade_offs=(0.0,),
    fit=fit,
    restore=Uniform.restore,
    recipes={"default": PAPER},
)
