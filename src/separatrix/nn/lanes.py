"""The inputs of stacked training: rows, lanes, recipe.

A lane is one network: one (trade-off λ, training rows, seed). Lanes never mix. No torch needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.scores import check_weight
from separatrix.columns.values import check_lengths
from separatrix.core.numbers import one_of, whole_number
from separatrix.errors import InputError

Codes = NDArray[np.int64]


class Lane(NamedTuple):
    """One network of a stack.

    Args:
        trade_off: λ.
        rows: the rows of the sample that train it; None for all.
        seed: decides the initial weights and the shuffles. Lanes that differ in λ alone share both.
    """

    trade_off: float
    rows: NDArray[np.integer[Any]] | None = None
    seed: int = 0

    def indices(self, n: int) -> Codes:
        """`rows` as an array, of n rows in all."""
        return np.arange(n) if self.rows is None else np.asarray(self.rows, dtype=np.int64)


def alike(lanes: Sequence[Lane], by_seed: bool = True) -> list[list[int]]:
    """The places of lanes that differ in λ alone; without `by_seed`, in λ and seed."""
    groups: dict[tuple[int, bytes], list[int]] = {}
    for i, lane in enumerate(lanes):
        rows = b"" if lane.rows is None else np.asarray(lane.rows, dtype=np.int64).tobytes()
        groups.setdefault((lane.seed if by_seed else 0, rows), []).append(i)
    return list(groups.values())


class Sample:
    """Rows to learn from, as arrays: features, label codes, group codes.

    Args:
        X: (n, d) finite numbers; a memory-map stays on disk and is read batch by batch.
        y, z: codes 0 … n_labels − 1 and 0 … n_groups − 1.
        n_labels, n_groups: sizes; by default one more than the largest code.
        weight: one positive number per row, or None.

    >>> s = Sample([[0.0], [1.0]], [0, 1], [0, 0])
    >>> s.n_labels, s.n_groups, s.X.dtype
    (2, 1, dtype('float32'))
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        n_labels: int | None = None,
        n_groups: int | None = None,
        weight: ArrayLike | None = None,
    ) -> None:
        stored = isinstance(X, np.memmap)
        self.X = np.asanyarray(X) if stored else np.ascontiguousarray(X, dtype=np.float32)
        if self.X.ndim != 2:
            raise InputError(f"`X` must have one row per person and one column per feature, got shape {self.X.shape}.")
        if not stored and not (finite := np.isfinite(self.X).all(1)).all():
            raise InputError(f"`X` holds a value in row {finite.argmin():,} that is not finite. Impute or drop it.")
        self.y, k = _codes(y, "y", n_labels)
        self.z, self.n_groups = _codes(z, "z", n_groups)
        self.n_labels = max(k, 2)
        n = check_lengths({"X": self.X, "y": self.y, "z": self.z})
        self.weight = None if weight is None else check_weight(weight, n)

    def __len__(self) -> int:
        return len(self.y)

    def group_places(self) -> Codes:
        """The place of each group in order of occurrence: names of groups do not decide ties."""
        seen, first = np.unique(self.z, return_index=True)
        rest = np.setdiff1d(np.arange(self.n_groups), seen)
        return np.argsort(np.concatenate([seen[np.argsort(first)], rest]))


@dataclass(frozen=True)
class Recipe:
    """How a stack trains.

    Args:
        hidden: widths of the hidden layers.
        epochs: passes over a lane's rows; more of them if `min_steps` asks so.
        min_steps: least number of updates, for small data.
        batch: rows per update. None: all rows in every update.
        learning_rate: of Adam.
        cosine: let the learning rate fall to zero along a half cosine.
        exact: where few distinct rows occur, take all of them, weighted, in every update: exact
            full batches. The number of updates stays that of `batch`.
        running: decay of the running cell counts of the CMI gradient; 0 for the batch alone.
        patience: hold out a tenth of each lane's rows, stop a lane when (1−λ) CE + λ CMI there has
            not improved for so many epochs, and keep its best weights; None trains on all rows.
        piecewise_linear: pieces that each column of more than two values is cut into, beside the
            column itself; 0 for none. Embeddings (more than 64 such columns) have none.
        level: whose violation a penalty sees: that of a "draw" from the posterior (the paper's), or
            of the "score" in soft bins (`core.binned_cmi`), which holds at every threshold.
        bins: of the score; None: `bins_for` the rows of a batch, or of the running counts.
        penalty_scale: c of `raw_cmi`, which alone reads it; the paper gives none.
    """

    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 20
    min_steps: int = 540
    batch: int | None = 512
    learning_rate: float = 1e-3
    cosine: bool = False
    exact: bool = False
    running: float = 0.0
    patience: int | None = None
    piecewise_linear: int = 0
    level: str = "draw"
    bins: int | None = None
    penalty_scale: float = 1.0

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise InputError(f"`hidden` needs at least one positive width, got {self.hidden}.")
        whole_number(self.epochs, "epochs", least=1)
        whole_number(self.min_steps, "min_steps")
        for name, least in (("batch", 2), ("patience", 1), ("bins", 2)):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name, least)
        if self.piecewise_linear:
            whole_number(self.piecewise_linear, "piecewise_linear", least=2)
        if not 0.0 <= self.running < 1.0:
            raise InputError(f"`running` is a decay in [0, 1), got {self.running}.")
        one_of(self.level, "level", "draw", "score")
        for name in ("learning_rate", "penalty_scale"):
            if not getattr(self, name) > 0:
                raise InputError(f"`{name}` must be positive, got {getattr(self, name)}.")


@dataclass(frozen=True)
class Options:
    """The arguments of every method besides the rows and the lanes.

    Args:
        recipe: how networks are trained.
        use_sensitive: input [Z|X] (True) or X alone.
        device: a torch device.
        n_jobs: processes; each trains chunks of lanes with one thread.
        progress: show a progress bar.
    """

    recipe: Recipe = field(default_factory=Recipe)
    use_sensitive: bool = True
    device: str = "cpu"
    n_jobs: int = 1
    progress: bool = False


def known_groups(z: ArrayLike | None, n: int, n_groups: int) -> Codes:
    """Group codes of `n` rows for models that saw `n_groups` groups in training."""
    if z is None:
        raise InputError("These models were trained on [Z|X]: pass the group codes `z` as well.")
    groups, _ = _codes(z, "z", n_groups)
    if len(groups) != n:
        raise InputError(f"`z` must hold {n:,} group codes, got {len(groups):,}.")
    return groups


def _codes(values: ArrayLike, name: str, size: int | None) -> tuple[Codes, int]:
    codes = np.asarray(values)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iub"):
        raise InputError(f"`{name}` must be one column of integer codes, got {codes.dtype} and shape {codes.shape}.")
    codes = codes.astype(np.int64)
    low, high = (int(codes.min()), int(codes.max())) if codes.size else (0, -1)
    if low < 0 or (size is not None and high >= size):
        raise InputError(f"`{name}` holds the code {low if low < 0 else high}, outside 0 … {(size or 1) - 1}.")
    return codes, high + 1 if size is None else size
