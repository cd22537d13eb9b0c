"""Jobs: a grid of runs, cut into stacks.

A stack is one (dataset, method, inputs, recipe, fold, seed) with all its λ: they share rows,
batches and initial weights, so they train as one batched network. A stack says all that it needs,
so any process on any machine can work on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from separatrix import datasets, methods
from separatrix.datasets import Data
from separatrix.errors import InputError
from separatrix.frontier.sweep.keys import ALL_ROWS, RunKey, source_hash
from separatrix.nn.lanes import Recipe

__all__ = ["Job", "Source", "Stack", "fingerprint", "grid"]


@dataclass(frozen=True, eq=False)
class Source:
    """Where a stack's rows come from: a registered dataset by name, or data in memory.

    Args:
        name: what the records call it.
        options: of `datasets.load`.
        data: the rows themselves, where they are no registered dataset.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Data | None = None

    def load(self) -> tuple[Data, str]:
        """The rows and their `fingerprint`; a registered dataset is read once per process."""
        if self.data is not None:
            return self.data, fingerprint(self.data)
        return _load(self.name, tuple(sorted(self.options.items())))


@lru_cache(maxsize=2)
def _load(name: str, options: tuple[tuple[str, Any], ...]) -> tuple[Data, str]:
    data = datasets.load(name, **dict(options))
    return data, fingerprint(data)


@dataclass(frozen=True)
class Job:
    """What to run on a dataset: one method with its grid.

    Args:
        method: a name of `methods.names()`.
        trade_offs: λ; None for the method's own grid.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the name of a recipe of the method.
        changes: fields of the recipe to change, such as ``(("batch", 1024),)``.
        keep: keep the models and the posteriors of the test rows on disk.
    """

    method: str
    trade_offs: tuple[float, ...] | None = None
    inputs: str = "xz"
    recipe: str = "default"
    changes: tuple[tuple[str, Any], ...] = ()
    keep: bool = False

    def __post_init__(self) -> None:
        if self.inputs not in ("xz", "x"):
            raise InputError(
                "`inputs` must be 'xz' (group and features) or 'x' (features alone), got "
                f"{self.inputs!r}."
            )
        bad = [t for t in self.trade_offs or () if not 0 <= t < float("inf")]
        if bad or self.trade_offs == ():
            raise InputError(
                "`trade_offs` must be finite and not negative, and at least one, got "
                f"{bad or 'none'}."
            )

    def grid(self, dataset: str | None = None) -> tuple[float, ...]:
        """Its λ on a dataset."""
        if self.trade_offs is not None:
            return tuple(float(t) for t in self.trade_offs)
        return methods.get(self.method).grid(self.recipe, dataset)

    def made(self) -> Recipe:
        """Its recipe."""
        known = methods.get(self.method).recipes
        if self.recipe not in known:
            raise InputError(
                f"{self.method!r} has no recipe {self.recipe!r}; it has {', '.join(known)}."
            )
        return replace(known[self.recipe], **dict(self.changes))

    @property
    def name(self) -> str:
        """The recipe's name with its changes, such as "default, batch=1024"."""
        return ", ".join([self.recipe, *(f"{name}={value}" for name, value in self.changes)])


@dataclass(frozen=True, eq=False)
class Stack:
    """One unit of work.

    Args:
        source: where the rows are.
        job: method, inputs, recipe.
        runs: what to run, one per λ.
    """

    source: Source
    job: Job
    runs: tuple[RunKey, ...]


def grid(
    sources: Sequence[Source],
    jobs: Sequence[Job],
    *,
    folds: int = 5,
    seed: int = 0,
    final: bool = False,
) -> list[Stack]:
    """The stacks of a whole grid: dataset × job × fold, each with all its λ.

    Args:
        sources: datasets.
        jobs: methods; left out on a dataset with more labels or groups than they take.
        folds: cross-validation folds, stratified on (y, z).
        seed: of the folds and the networks.
        final: also train the jobs that keep their models on all rows (fold −1).
    """
    stacks = []
    for source in sources:
        data, rows = source.load()
        if not 2 <= folds <= len(data):  # here, once, and not in every stack
            raise InputError(
                f"`folds` must be between 2 and the {len(data):,} rows of {source.name}, got "
                f"{folds}."
            )
        for job in jobs:
            if len(data.labels) > 2 and not methods.get(job.method).multiclass:
                continue
            first = RunKey(
                dataset=source.name,
                fingerprint=rows,
                folds=folds,
                method=job.method,
                inputs=job.inputs,
                recipe=job.name,
                details=_details(job),
                trade_off=0.0,
                fold=0,
                seed=seed,
                source=source_hash(),
            )
            for fold in [*range(folds), *([ALL_ROWS] if final and job.keep else [])]:
                λs = job.grid(source.name)
                runs = tuple(replace(first, trade_off=λ, fold=fold) for λ in λs)
                stacks.append(Stack(source, job, runs))
    return stacks


def _details(job: Job) -> dict[str, Any]:
    """The recipe as plain JSON."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(job.made()).items()}


def fingerprint(data: Data) -> str:
    """Hash of the rows themselves, features, labels and groups; never of a path."""
    digest = hashlib.sha256()
    digest.update(repr((data.labels, data.groups, data.features)).encode())
    for array in (data.y.astype(np.int64), data.z.astype(np.int64), data.X):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        for start in range(0, len(array), 1 << 16):
            digest.update(np.ascontiguousarray(array[start : start + (1 << 16)]).data)
    return digest.hexdigest()[:32]
