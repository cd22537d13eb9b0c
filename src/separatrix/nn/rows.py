"""The batches of a stack: each lane's own rows in its own order; or few distinct rows with weights.

Two ways to the same update. *Rows*: gather the batch. *Distinct*: where few distinct (x, z, y)
occur, as with binned features, every batch is the same small set of rows with the counts of this
batch as weights; the network then sees each distinct input once, however often it occurs. Losses,
norms and gradients are equal (a row of weight w is w rows).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from separatrix.core.binned_cmi import bins_for
from separatrix.nn.lanes import Lane, Options, Recipe, Sample, alike
from separatrix.nn.networks import NO_PIECES, PiecewiseLinear

# bytes of X that are copied to the device; more stay where they are and are read batch by batch
_IN_MEMORY = 1 << 28
_PROBE = 4_096  # rows that are looked at before all rows are

Index = NDArray[np.int64]


@dataclass(eq=False)
class Rows:
    """One batch for M lanes; the lane axis has length 1 where all lanes see the same rows.

    Args:
        x: network inputs (G, R, d_in).
        spread: which of the R inputs each row of the loss has; None if they are the same rows.
        y, z: codes (G, B).
        weight: (G, B), or None for all ones.
    """

    x: Tensor
    spread: Tensor | None
    y: Tensor
    z: Tensor
    weight: Tensor | None


class Feed:
    """Batches for lanes of the same number of steps per epoch: iterate `epoch()` once per epoch."""

    def __init__(
        self,
        sample: Sample,
        lanes: list[Lane],
        options: Options,
        piecewise_linear: PiecewiseLinear = NO_PIECES,
        merge: bool = True,
    ) -> None:
        self.device = options.device
        if len(alike(lanes)) == 1:
            lanes = lanes[:1]
        self.rows = [lane.indices(len(sample)) for lane in lanes]
        self.random = [np.random.default_rng([lane.seed, 1]) for lane in lanes]
        self.sizes = np.array([len(rows) for rows in self.rows])
        self.weight: NDArray[np.float32] | None = None
        if sample.weight is not None:
            self.weight = (sample.weight / sample.weight.mean()).astype(np.float32)
        self.sample, self.piecewise_linear = sample, piecewise_linear
        self.blind = sample.n_groups if options.use_sensitive else 0
        recipe, longest = options.recipe, int(self.sizes.max())
        self.width = recipe.batch or longest
        self.steps = -(-longest // self.width)
        self.merged = None
        if merge:  # a batch of distinct rows is worth it, or n/16 for full batches
            limit = max(self.width, len(sample) // 16) if recipe.exact else self.width
            self.merged = distinct_rows(sample, self.blind > 0, limit)
        self.exact = recipe.exact and self.merged is not None
        self.bins = self._bins(recipe)
        if self.merged is not None:
            inputs, self.spread, y, z, self.code = self.merged
            self.x = self._inputs(sample.X[inputs], sample.z[inputs])[None]
            self.y, self.z = self._tensor(y)[None], self._tensor(z)[None]
            self.index = self._tensor(self.spread)
        elif 4 * len(sample) * self.inputs <= _IN_MEMORY:
            self.x = self._inputs(sample.X, sample.z)
            self.y, self.z = self._tensor(sample.y), self._tensor(sample.z)

    @property
    def inputs(self) -> int:
        """Width of the network's input."""
        return self.blind + int(self.sample.X.shape[1]) + len(self.piecewise_linear)

    def cells(self) -> Tensor:
        """Training counts (G, Y, Z) of each lane's rows."""
        shape = (self.sample.n_labels, self.sample.n_groups)
        tables = np.zeros((len(self.rows), *shape))
        for table, rows in zip(tables, self.rows, strict=True):
            weight = 1.0 if self.weight is None else self.weight[rows]
            np.add.at(table, (self.sample.y[rows], self.sample.z[rows]), weight)
        return self._tensor(tables.astype(np.float32))

    def epoch(self) -> Iterator[Rows]:
        """One pass over each lane's rows, shuffled."""
        order = self.rows
        if not self.exact:
            order = [random.permutation(rows) for random, rows in zip(self.random, order, strict=True)]
        if self.merged is None:
            for step in range(self.steps):
                yield self._gather(order, step)
            return
        parts = 1 if self.exact else self.steps  # exact: each step has all rows
        counts = np.stack([self._count(rows, parts) for rows in order], 1)
        for step in range(self.steps):
            yield Rows(self.x, self.index, self.y, self.z, self._tensor(counts[step % parts]))

    def _gather(self, order: list[Index], step: int) -> Rows:
        start = step * self.width
        length = int(min(self.width, self.sizes.max() - start))
        picked = np.zeros((len(order), length), dtype=np.int64)
        weight = np.zeros((len(order), length), dtype=np.float32)
        for lane, rows in enumerate(order):
            batch = rows[start : start + length]
            picked[lane, : len(batch)] = batch
            weight[lane, : len(batch)] = 1.0 if self.weight is None else self.weight[batch]
        w = None if self.weight is None and weight.all() else self._tensor(weight)
        if hasattr(self, "x"):
            index = self._tensor(picked).reshape(-1)
            x = self.x.index_select(0, index)
            y, z = (codes.index_select(0, index).view(picked.shape) for codes in (self.y, self.z))
        else:
            flat = picked.reshape(-1)
            x = self._inputs(np.asarray(self.sample.X[flat]), self.sample.z[flat])
            y, z = self._tensor(self.sample.y[picked]), self._tensor(self.sample.z[picked])
        return Rows(x.view(*picked.shape, -1), None, y, z, w)

    def _count(self, rows: Index, steps: int) -> NDArray[np.float32]:
        """How often each distinct row occurs in each step, (steps, distinct)."""
        size = len(self.spread)
        step = np.arange(len(rows)) // self.width if steps > 1 else 0
        weight = None if self.weight is None else self.weight[rows]
        counts = np.bincount(step * size + self.code[rows], weight, steps * size)
        return counts.reshape(steps, size).astype(np.float32)

    def _bins(self, recipe: Recipe) -> int:
        """Soft bins of the score, from the rows that a table of counts holds; 0 for draws."""
        if recipe.level == "draw":
            return 0
        n = len(self.sample)
        rows = n if self.exact else min(self.width / (1.0 - recipe.running), n)
        return recipe.bins or bins_for(rows, self.sample.n_labels * self.sample.n_groups)

    def _inputs(self, X: NDArray[Any], z: NDArray[np.int64]) -> Tensor:
        """[Z|X] with Z one-hot, or X alone; X with its ramps."""
        inputs = np.zeros((len(X), self.inputs), dtype=np.float32)
        inputs[:, self.blind :] = self.piecewise_linear.encode(X)
        if self.blind:
            inputs[np.arange(len(X)), z] = 1.0
        return self._tensor(inputs)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


Merged = tuple[Index, Index, NDArray[np.int64], NDArray[np.int64], Index]


def distinct_rows(sample: Sample, use_sensitive: bool, limit: int) -> Merged | None:
    """The distinct (x, z, y), or None if there are more than `limit`.

    Returns:
        Rows of the sample that show each distinct input; for each distinct (x, z, y) the place of
        its input, its label and its group; and the code of every row.
    """
    probe = np.linspace(0, len(sample) - 1, min(_PROBE, len(sample))).astype(np.int64)
    if len(np.unique(np.asarray(sample.X[probe]), axis=0)) > limit or sample.X.nbytes > _IN_MEMORY:
        return None
    X = np.asarray(sample.X)
    direction = np.random.default_rng(0).normal(size=X.shape[1])
    # Equal rows have equal projections. A matrix product would sum in an order that depends on the
    # row's place. That equal projections are equal rows is checked below.
    parts = [(X[a : a + 65_536] * direction).sum(1) for a in range(0, len(X), 65_536)]
    _, first, same_x = np.unique(np.concatenate(parts), return_index=True, return_inverse=True)
    if len(first) > limit or not np.array_equal(X[first[same_x]], X):
        return None
    key = same_x * sample.n_groups + sample.z if use_sensitive else same_x
    _, inputs, input_of = np.unique(key, return_index=True, return_inverse=True)
    full = (input_of * sample.n_groups + sample.z) * sample.n_labels + sample.y
    _, shown, code = np.unique(full, return_index=True, return_inverse=True)
    if len(shown) > limit:
        return None
    return inputs, input_of[shown], sample.y[shown], sample.z[shown], code
