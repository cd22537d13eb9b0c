r"""The work of one stack: train it, evaluate it on the rows that did not train it.

Evaluation is as in the paper's section 4. For two labels the deterministic policy is
:math:`q_1(x) > t^*`, where :math:`t^*` maximises Accuracy − w · EO gap on the training rows.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from separatrix import datasets, methods
from separatrix.core.information import accuracy, eo_gap
from separatrix.core.ordered import BINS
from separatrix.core.score_gaps import largest_gap
from separatrix.core.score_tables import ScoreTable
from separatrix.errors import DataError
from separatrix.frontier.sweep.jobs import Stack
from separatrix.frontier.sweep.keys import ALL_ROWS
from separatrix.frontier.sweep.store import Record
from separatrix.nn.evaluation import auroc, hard, tables
from separatrix.nn.lanes import Lane, Sample

__all__ = ["Answer", "best_threshold", "evaluate", "score_view", "time_limit", "work"]

Array = NDArray[np.float64]
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
    data, rows = stack.source.load()
    if rows != first.fingerprint:
        raise DataError(
            f"The dataset {stack.source.name!r} on {platform.node()} is not the one that was asked "
            f"about: its rows have the fingerprint {rows}, expected {first.fingerprint}."
        )
    train, test = np.arange(len(data)), np.arange(0)  # of all rows: none is left to test
    if first.fold != ALL_ROWS:
        fold = datasets.folds(data.y, data.z, first.folds, first.seed)
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
            λ = stack.runs[i].trade_off  # the weight of the EO gap, as in the paper
            cuts[lane] = best_threshold(score, data.y[train], data.z[train], n_groups, λ)
    views: list[dict[str, Any]] = [{} for _ in good]
    if len(good) and len(test):
        ranking = None
        if job.method in _RANKED_BY_BASE:
            ranking = np.asarray(fitted.base.posteriors(X[test], data.z[test]))[good]
        views = evaluate(q[good], data.y[test], data.z[test], n_groups, cuts, ranking)
    for i, cut, view in zip(good.tolist(), cuts.tolist(), views, strict=True):
        records[i] = Record(stack.runs[i], "ok", threshold=cut, seconds=seconds, **view)
    if not job.keep:
        return Answer(tuple(records))
    return Answer(tuple(records), fitted.arrays(), q[:, : len(test)])


def evaluate(
    q: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int, cuts: ArrayLike,
    ranking: ArrayLike | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """What is recorded of every lane on rows that did not train it; see `Record`.

    Randomised policy: the posterior itself, as soft counts, with Σ q_u² for their sampling error.
    Deterministic: for two labels the decision q_1 > t*, for more the argmax. For two labels the
    posterior is also judged as a score, over all thresholds.

    Args:
        q: posteriors (M, n, K) of these rows.
        y, z: their codes.
        n_groups: number of groups.
        cuts: t* of each lane; not used for more than two labels, where the decision is the argmax.
        ranking: posteriors (M, n, K) of the score instead of `q`: those of the base model, where a
            method's own are decisions rather than scores.
    """
    posterior = np.asarray(q)
    k = posterior.shape[2]
    firm = decide(posterior, cuts) if k == 2 else hard(posterior)
    score = posterior if ranking is None else np.asarray(ranking)
    parts = {"soft": posterior, "hard": firm, "squares": np.square(posterior, dtype=np.float64)}
    found: dict[str, Any]
    found = {name: tables(part, y, z, k, n_groups) for name, part in parts.items()}
    found["auroc"] = auroc(score, y).tolist()
    if k == 2:
        views = [score_view(one, y, z, n_groups) for one in score[:, :, 1]]
        found["ordered"], found["score_gap"] = zip(*views, strict=True)
    return [dict(zip(found, lane, strict=True)) for lane in zip(*found.values(), strict=True)]


def score_view(score: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int) -> tuple[Array, float]:
    """A score over all thresholds: N[y, z, bin] in 20 quantile bins, and the largest EO gap.

    Equal scores share a bin, so a score of few values fills few of them.

    >>> score_view([0.1, 0.6, 0.4, 0.9], [0, 0, 1, 1], [0, 1, 0, 1], 2)[1]
    1.0
    """
    s = np.asarray(score, dtype=np.float64)
    label, group = (np.asarray(x, dtype=np.intp) for x in (y, z))
    table = ScoreTable.from_codes(s, label, group, (0, 1), tuple(range(n_groups)))
    counts = table.binned(BINS).counts
    ordered = np.zeros((2, n_groups, BINS))
    ordered[..., : counts.shape[-1]] = counts
    return ordered, largest_gap(table)[0]


def decide(q: ArrayLike, thresholds: ArrayLike) -> NDArray[np.float32]:
    """The decisions q[..., 1] > t of each lane, as one-hot posteriors (M, n, 2)."""
    cuts = np.asarray(thresholds, dtype=np.float64)[:, None]
    second = np.asarray(q)[:, :, 1].astype(np.float64) > cuts
    return np.stack([~second, second], axis=-1).astype(np.float32)


def best_threshold(
    score: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int, weight: float
) -> float:
    r"""t* for two labels: the exact maximiser of Accuracy − w · EO gap over all thresholds.

    .. math:: t^* = \arg\max_t\ \frac1n \#\{1\{s_i > t\} = y_i\}
        - \frac w2 \bigl[\mathrm{range}_z \mathrm{FPR}_z(t) + \mathrm{range}_z
          \mathrm{FNR}_z(t)\bigr]

    Every distinct decision is tried, from counts in one pass over the sorted scores. Thresholds lie
    half-way between neighbouring scores. The closest to 1/2, where the posterior itself decides, is
    taken among equally good ones.

    Args:
        score: posterior of label 1, (n,).
        y, z: codes.
        n_groups: number of groups.
        weight: w.

    >>> best_threshold([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1], [0, 1, 0, 1], 2, weight=1.0)
    0.4
    """
    s = np.asarray(score, dtype=np.float64)
    values, place = np.unique(s, return_inverse=True)
    counts = np.zeros((len(values), 2, n_groups))
    np.add.at(counts, (place, np.asarray(y, dtype=np.intp), np.asarray(z, dtype=np.intp)), 1.0)
    total = counts.sum(0)
    # row t: how many of each cell are above the t-th cut, from "everybody" to "nobody"
    above = np.concatenate([total[None], total - np.cumsum(counts, axis=0)])
    decisions = np.stack([total - above, above], axis=-1)
    value = accuracy(decisions) - weight * eo_gap(decisions)
    cuts = np.concatenate([[values[0] - 1.0], (values[:-1] + values[1:]) / 2, [values[-1] + 1.0]])
    best = np.flatnonzero(value >= value.max() - 1e-12)
    return float(cuts[best[np.argmin(np.abs(cuts[best] - 0.5))]])


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
