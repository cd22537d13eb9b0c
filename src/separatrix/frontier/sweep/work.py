"""The work of one stack: train it, evaluate it on the rows that did not train it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from separatrix import datasets, methods
from separatrix.datasets import Data
from separatrix.frontier.sweep.evaluation import evaluate, thresholds
from separatrix.frontier.sweep.jobs import Stack
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import Record
from separatrix.nn.lanes import Lane, Sample

__all__ = ["Answer", "forget", "time_limit", "work"]

_ALONE = threading.Lock()
_PREPARED: dict[tuple[Any, ...], NDArray[np.float32]] = {}
# "For ranking metrics such as AUROC, we use the base model posterior score": appendix "Threshold
# Optimizer"
_RANKED_BY_BASE = ("threshold_optimizer",)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a stack found out.

    Args:
        records: one per run.
        arrays: of `Fitted.arrays`, if they were to be kept.
        held_out: posteriors (M, n, K) of the test rows, if they were to be kept.
    """

    records: tuple[Record, ...]
    arrays: Mapping[str, NDArray[Any]] | None = None
    held_out: NDArray[np.float32] | None = None


def work(stack: Stack, timeout: float | None = None) -> Answer:
    """Train and evaluate one stack with one thread; a failure becomes a record, the sweep goes on.

    Args:
        stack: the unit of work.
        timeout: seconds until it is given up; None for never.
    """
    started = time.process_time()
    try:
        # one stack at a time in a process: torch's number of threads, hence the last bits, is the
        # process's own
        with _ALONE, time_limit(timeout), threadpool_limits(1):
            return _train(stack)
    except TimeoutError:
        status, message = "timeout", f"given up after {timeout:g} s"
    except Exception as error:  # whatever a method raises is the result of its own runs
        status, message = "error", f"{type(error).__name__}: {error}"
    seconds = (time.process_time() - started) / len(stack.runs)
    return Answer(tuple(Record(run, status, message, seconds=seconds) for run in stack.runs))


def split(stack: Stack, data: Data) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and test rows of a stack; with fold −1 every row trains and none tests."""
    if stack.fold == ALL_ROWS:
        return np.arange(len(data)), np.arange(0)
    fold = datasets.folds(data.y, data.z, stack.runs[0].folds, stack.runs[0].split_seed)
    return np.flatnonzero(fold != stack.fold), np.flatnonzero(fold == stack.fold)


def _train(stack: Stack) -> Answer:
    data = stack.source.load(stack.runs[0].fingerprint)
    train, test = split(stack, data)
    X = _prepared(stack, data, train)
    sample = Sample(X, data.y, data.z, len(data.labels), len(data.groups))
    lanes = [Lane(run.trade_off, train, stack.seed) for run in stack.runs]
    started = time.process_time()  # CPU: one thread works here, and the machine may be shared
    job, use_sensitive = stack.job, stack.job.inputs == "xz"
    fitted = methods.fit(job.method, sample, lanes, recipe=job.made(), use_sensitive=use_sensitive)
    seconds = (time.process_time() - started) / len(lanes)
    shown = test if len(test) else train[:1]  # a method may refuse to predict no rows at all
    q = np.asarray(fitted.posteriors(X[shown], data.z[shown]))
    lost = "diverged", "its posteriors are not finite"
    records = [Record(run, *lost, seconds=seconds) for run in stack.runs]
    lanes_of = zip(fitted.status, q, strict=True)
    good = np.flatnonzero([status == "ok" and np.isfinite(one).all() for status, one in lanes_of])
    if len(good):
        weights = [run.trade_off if run.weight is None else run.weight for run in stack.runs]
        on_train, on_test = (data.y[train], data.z[train]), (data.y[test], data.z[test])
        cuts = np.full(len(good), np.nan)  # more than two labels: argmax
        if len(data.labels) == 2:
            q_train = fitted.posteriors(X[train], data.z[train])[good]
            cuts = thresholds(q_train, *on_train, len(data.groups), np.array(weights)[good])
        ranking = _ranking(job.method, fitted, X[shown], data.z[shown], good)
        scores: list[dict[str, Any]] = [{} for _ in good]
        if len(test):
            views = evaluate(q[good], *on_test, len(data.groups), cuts, ranking)
            scores = [view._asdict() for view in views]
        for i, cut, found in zip(good.tolist(), cuts.tolist(), scores, strict=True):
            run = stack.runs[i]
            records[i] = Record(run, "ok", threshold=cut, seconds=seconds, **found)
    if not job.keep:
        return Answer(tuple(records))
    return Answer(tuple(records), fitted.arrays(), q[:, : len(test)])


def _prepared(stack: Stack, data: Data, train: NDArray[np.intp]) -> NDArray[np.float32]:
    """The matrix of a fold; kept for the stacks of the same fold, which follow each other."""
    run = stack.runs[0]
    key = (run.fingerprint, run.folds, run.split_seed, stack.fold)
    if key not in _PREPARED:
        forget()  # before the next one is made: there is never more than one
        _PREPARED[key] = data.prepared(train)[0]
    return _PREPARED[key]


def forget() -> None:
    """Give the memory of the last prepared matrix back."""
    _PREPARED.clear()


def _ranking(
    method: str, fitted: Any, X: NDArray[Any], z: NDArray[Any], lanes: NDArray[Any]
) -> NDArray[Any] | None:
    """The base model's posteriors where the paper ranks by them; None for the method's own."""
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
