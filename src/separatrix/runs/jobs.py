"""Jobs: a grid of questions cut into stacks, and the work of one stack.

A stack is one (dataset, method, inputs, recipe, fold, seed) with all its λ: they share rows,
batches and initial weights, so they train as one batched network. A stack says all that it needs,
so any process on any machine can work on it.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from separatrix import datasets, methods
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.nn.lanes import Lane, Recipe, Sample
from separatrix.runs.evaluation import evaluate, thresholds
from separatrix.runs.store import ALL_ROWS, Record, key_of

__all__ = ["Answer", "Job", "Source", "Stack", "grid", "work"]

FORMAT = 1  # of the numbers: a change of the evaluation that changes them raises it
_ALONE = threading.Lock()
# "For ranking metrics such as AUROC, we use the base model posterior score": appendix "Threshold
# Optimizer"
_RANKED_BY_BASE = ("threshold_optimizer",)


@dataclass(frozen=True, eq=False)
class Source:
    """Where a stack's rows come from: a registered dataset by name, or data at hand.

    Args:
        name: what the records call it.
        options: of `datasets.load`.
        data: the rows themselves, where they are no registered dataset.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Data | None = None

    def load(self, expected: str | None = None) -> Data:
        """The rows; a registered dataset is read once per process.

        Args:
            expected: fingerprint that the rows must have: another machine may hold another version
                of a dataset.
        """
        if self.data is not None:
            return self.data
        data, found = _load(self.name, tuple(sorted(self.options.items())))
        if expected not in (None, found):
            raise DataError(
                f"The dataset {self.name!r} on {platform.node()} is not the one that was asked "
                f"about: its rows have the "
                f"fingerprint {found}, expected {expected}."
            )
        return data

    def fingerprint(self) -> str:
        """Hash of the rows, see `fingerprint`."""
        if self.data is not None:
            return fingerprint(self.data)
        return _load(self.name, tuple(sorted(self.options.items())))[1]


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
                f"`inputs` must be 'xz' (group and features) or 'x' (features alone), got "
                f"{self.inputs!r}."
            )
        bad = [t for t in self.trade_offs or () if not 0 <= t < float("inf")]
        if bad or self.trade_offs == ():
            raise InputError(
                f"`trade_offs` must be finite and not negative, and at least one, got "
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
        fold: the test fold; −1 to train on all rows.
        seed: of the networks.
        questions: what is asked, one per λ.
        timeout: seconds until it is given up; None for never.
    """

    source: Source
    job: Job
    fold: int
    seed: int
    questions: tuple[Mapping[str, Any], ...]
    timeout: float | None = None

    @property
    def key(self) -> str:
        """Hash of its questions."""
        return key_of({"lanes": [key_of(q) for q in self.questions]})


@dataclass(frozen=True, eq=False)
class Answer:
    """What a stack found out.

    Args:
        records: one per question.
        arrays: of `Fitted.arrays`, if they were to be kept.
        held_out: posteriors (M, n, K) of the test rows, if they were to be kept.
    """

    records: tuple[Record, ...]
    arrays: Mapping[str, NDArray[Any]] | None = None
    held_out: NDArray[np.float32] | None = None


def grid(
    sources: Sequence[Source],
    jobs: Sequence[Job],
    *,
    folds: int = 5,
    seeds: Sequence[int] = (0,),
    split_seed: int = 0,
    weight: float | None = None,
    final: bool = False,
    timeout: float | None = None,
) -> list[Stack]:
    """The stacks of a whole grid: dataset × job × fold × seed, each with all its λ.

    Args:
        sources: datasets.
        jobs: methods. On a dataset with more labels or groups than a method takes, the method is
            left out.
        folds: cross-validation folds, stratified on (y, z).
        seeds: of the networks.
        split_seed: of the folds.
        weight: w of the threshold rule Accuracy − w · EO gap; None for w = λ as in the paper.
        final: also train the jobs that keep their models on all rows (fold −1).
        timeout: seconds for one stack.
    """
    stacks = []
    for source in sources:
        data = source.load()
        if not 2 <= folds <= len(data):  # here, once, and not in every stack
            raise InputError(
                f"`folds` must be between 2 and the {len(data):,} rows of {source.name}, got "
                f"{folds}."
            )
        common = {
            "dataset": source.name,
            "data": source.fingerprint(),
            "folds": folds,
            "split": split_seed,
            "weight": "trade_off" if weight is None else float(weight),
            "format": FORMAT,
        }
        for job in jobs:
            supports = methods.get(job.method).supports
            if (len(data.labels) > 2 and not supports.multiclass) or (
                len(data.groups) > 2 and not supports.multigroup
            ):
                continue
            asked = common | {
                "method": job.method,
                "inputs": job.inputs,
                "recipe": job.name,
                "details": _details(job),
            }
            for seed in seeds:
                for fold in [*range(folds), *([ALL_ROWS] if final and job.keep else [])]:
                    questions = tuple(
                        asked | {"trade_off": trade_off, "fold": fold, "seed": seed}
                        for trade_off in job.grid(source.name)
                    )
                    stacks.append(Stack(source, job, fold, seed, questions, timeout))
    return stacks


def _details(job: Job) -> dict[str, Any]:
    """The recipe as plain JSON, and the version of the package that reads it."""
    from separatrix import __version__

    recipe = {
        name: list(v) if isinstance(v, tuple) else v for name, v in asdict(job.made()).items()
    }
    return {"recipe": recipe, "version": __version__}


def fingerprint(data: Data) -> str:
    """Hash of the rows themselves, features, labels and groups; never of a path."""
    digest = hashlib.sha256()
    digest.update(repr((data.labels, data.groups, data.features)).encode())
    for array in (data.y.astype(np.int64), data.z.astype(np.int64), data.X):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        for start in range(0, len(array), 1 << 16):
            digest.update(np.ascontiguousarray(array[start : start + (1 << 16)]).data)
    return digest.hexdigest()[:32]


def work(stack: Stack) -> Answer:
    """Train and evaluate one stack, with one thread. What fails is a record that says so, not the
    end of the sweep.
    """
    started = time.perf_counter()
    try:
        # one stack at a time in a process: torch's number of threads, hence the last bits, is the
        # process's own
        with _ALONE, time_limit(stack.timeout), threadpool_limits(1):
            return _train(stack)
    except TimeoutError:
        status, message = "timeout", f"given up after {stack.timeout:g} s"
    except Exception as error:  # whatever a method raises is the answer to its own question
        status, message = "error", f"{type(error).__name__}: {error}"
    seconds = (time.perf_counter() - started) / len(stack.questions)
    return Answer(tuple(Record(q, status, message, seconds=seconds) for q in stack.questions))


def split(stack: Stack, data: Data) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of a stack; every row trains, and none tests, where the fold is −1."""
    if stack.fold == ALL_ROWS:
        return np.arange(len(data)), np.arange(0)
    question = stack.questions[0]
    fold = datasets.folds(data.y, data.z, question["folds"], question["split"])
    return np.flatnonzero(fold != stack.fold), np.flatnonzero(fold == stack.fold)


def _train(stack: Stack) -> Answer:
    data = stack.source.load(stack.questions[0]["data"])
    train, test = split(stack, data)
    X, _ = data.prepared(train)
    sample = Sample(X, data.y, data.z, len(data.labels), len(data.groups))
    lanes = [Lane(question["trade_off"], train, stack.seed) for question in stack.questions]
    started = time.perf_counter()
    fitted = methods.fit(
        stack.job.method,
        sample,
        lanes,
        recipe=stack.job.made(),
        use_sensitive=stack.job.inputs == "xz",
    )
    seconds = (time.perf_counter() - started) / len(lanes)
    shown = test if len(test) else train[:1]  # a method may refuse to predict no rows at all
    q = np.asarray(fitted.posteriors(X[shown], data.z[shown]))
    lost = [
        status != "ok" or not np.isfinite(lane).all()
        for status, lane in zip(fitted.status, q, strict=True)
    ]
    records = [
        Record(q, "diverged", "its posteriors are not finite", seconds=seconds)
        for q in stack.questions
    ]
    good = np.flatnonzero(~np.array(lost))
    if len(good):
        weights = [
            lane.trade_off if q["weight"] == "trade_off" else q["weight"]
            for lane, q in zip(lanes, stack.questions, strict=True)
        ]
        on_train, on_test = (data.y[train], data.z[train]), (data.y[test], data.z[test])
        cuts = np.full(len(good), np.nan)  # more than two labels: argmax
        if len(data.labels) == 2:
            q_train = fitted.posteriors(X[train], data.z[train])[good]
            cuts = thresholds(q_train, *on_train, len(data.groups), np.array(weights)[good])
        ranking = _ranking(stack.job.method, fitted, X[shown], data.z[shown], good)
        scores = (
            evaluate(q[good], *on_test, len(data.groups), cuts, ranking)
            if len(test)
            else [None] * len(good)
        )
        for i, cut, found in zip(good.tolist(), cuts.tolist(), scores, strict=True):
            soft, hard, area = (None, None, float("nan")) if found is None else found
            records[i] = Record(stack.questions[i], "ok", "", soft, hard, area, cut, seconds)
    return Answer(
        tuple(records),
        fitted.arrays() if stack.job.keep else None,
        q[:, : len(test)] if stack.job.keep else None,
    )


def _ranking(
    method: str, fitted: Any, X: NDArray[Any], z: NDArray[Any], lanes: NDArray[Any]
) -> NDArray[Any] | None:
    """The base model's posteriors, where the paper ranks by these; None where the method's own
    posteriors rank.
    """
    return np.asarray(fitted.base.posteriors(X, z))[lanes] if method in _RANKED_BY_BASE else None


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in this thread after so many seconds.

    An exception set from a timer thread works in any thread, where a signal works in the main
    thread only (Dask's workers compute in others). It arrives between two Python instructions, and
    a training step is a few milliseconds.
    """
    if seconds is None:
        yield
        return
    thread = ctypes.c_ulong(threading.get_ident())
    over, lock = False, threading.Lock()

    def fire() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeoutError))

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()
