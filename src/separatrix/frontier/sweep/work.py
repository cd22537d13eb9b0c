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
from separatrix.frontier.sweep.evaluation import best_threshold, evaluate
from separatrix.frontier.sweep.jobs import Stack
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import Record
from separatrix.nn.lanes import Lane, Sample

__all__ = ["Answer", "time_limit", "work"]

_ALONE = threading.Lock()
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


def _train(stack: Stack) -> Answer:
    job, first = stack.job, stack.runs[0]
    data = stack.source.load(first.fingerprint)
    train, test = np.arange(len(data)), np.arange(0)  # of all rows: none is left to test
    if first.fold != ALL_ROWS:
        fold = datasets.folds(data.y, data.z, first.folds, first.split_seed)
        train, test = np.flatnonzero(fold != first.fold), np.flatnonzero(fold == first.fold)
    X, n_groups = data.prepared(train)[0], len(data.groups)
    sample = Sample(X, data.y, data.z, len(data.labels), n_groups)
    lanes = [Lane(run.trade_off, train, first.seed) for run in stack.runs]
    started = time.process_time()  # CPU: one thread works here, and the machine may be shared
    use_sensitive = job.inputs == "xz"
    fitted: Any = methods.fit(
        job.method, sample, lanes, recipe=job.made(), use_sensitive=use_sensitive
    )
    seconds = (time.process_time() - started) / len(lanes)
    shown = test if len(test) else train[:1]  # a method may refuse to predict no rows at all
    q = np.asarray(fitted.posteriors(X[shown], data.z[shown]))
    lost = "diverged", "its posteriors are not finite"
    records = [Record(run, *lost, seconds=seconds) for run in stack.runs]
    lanes_of = zip(fitted.status, q, strict=True)
    good = np.flatnonzero([status == "ok" and np.isfinite(one).all() for status, one in lanes_of])
    cuts = np.full(len(good), np.nan)  # more than two labels: argmax
    if len(good) and len(data.labels) == 2:
        scores = fitted.posteriors(X[train], data.z[train])[good][:, :, 1]
        for lane, (i, score) in enumerate(zip(good.tolist(), scores, strict=True)):
            run = stack.runs[i]
            weight = run.trade_off if run.weight is None else run.weight
            cuts[lane] = best_threshold(score, data.y[train], data.z[train], n_groups, weight)
    views: list[dict[str, Any]] = [{} for _ in good]
    if len(good) and len(test):
        ranking = None
        if job.method in _RANKED_BY_BASE:
            ranking = np.asarray(fitted.base.posteriors(X[test], data.z[test]))[good]
        found = evaluate(q[good], data.y[test], data.z[test], n_groups, cuts, ranking)
        views = [view._asdict() for view in found]
    for i, cut, view in zip(good.tolist(), cuts.tolist(), views, strict=True):
        records[i] = Record(stack.runs[i], "ok", threshold=cut, seconds=seconds, **view)
    if not job.keep:
        return Answer(tuple(records))
    return Answer(tuple(records), fitted.arrays(), q[:, : len(test)])


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
