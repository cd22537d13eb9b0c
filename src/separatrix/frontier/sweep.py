"""A sweep: a grid of trainings (dataset × method × λ × fold × seed), stored in one folder.

A stack is one (dataset, method, inputs, recipe, fold, seed) with all its λ: they share rows,
batches and initial weights, so they train as one batched network. A stack says all that it needs,
so any process on any machine can work on it. It is evaluated as in the paper's section 4.

`run` skips what is finished and works on the rest, locally or on Dask. Only its process writes. A
stack's models are renamed into place before its records are committed, so what the records call
finished is there. A kill at any moment loses at most the stacks in progress, and the next run does
them again. Two processes on one folder may do the same stack twice: both find the same numbers, and
the first record stays.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from separatrix import datasets, methods
from separatrix.core.information import accuracy, eo_gap
from separatrix.core.score_tables import BINS, ScoreTable, largest_gap
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError, require
from separatrix.frontier.store import ALL_ROWS, FINAL, Record, RunKey, Store, hash_of
from separatrix.io import in_processes
from separatrix.nn.lanes import Lane, Recipe, Sample
from separatrix.nn.networks import auroc, hard, tables

Array = NDArray[np.float64]
# where numbers are made
_CODE = ("methods", "nn", "optimum", "core", "frontier/store.py", "frontier/sweep.py")
BACKENDS = ("local", "dask")
_ALONE = threading.Lock()
# "For ranking metrics such as AUROC, we use the base model posterior score": appendix "Threshold
# Optimizer"
_RANKED_BY_BASE = ("threshold_optimizer",)


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

    def load(self) -> Data:
        """The rows; a registered dataset is read once per process."""
        return _load(self.name, tuple(sorted(self.options.items()))) if self.data is None else self.data


@lru_cache(maxsize=2)
def _load(name: str, options: tuple[tuple[str, Any], ...]) -> Data:
    return datasets.load(name, **dict(options))


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
        bad = [t for t in self.trade_offs or () if not 0 <= t < float("inf")]
        if bad or self.trade_offs == ():
            raise InputError(f"`trade_offs` must be finite and not negative, and at least one, got {bad or 'none'}.")

    def grid(self, dataset: str | None = None) -> tuple[float, ...]:
        """Its λ on a dataset."""
        if self.trade_offs is not None:
            return tuple(float(t) for t in self.trade_offs)
        return methods.get(self.method).grid(self.recipe, dataset)

    def made(self) -> Recipe:
        """Its recipe."""
        known = methods.get(self.method).recipes
        if self.recipe not in known:
            raise InputError(f"{self.method!r} has no recipe {self.recipe!r}; it has {', '.join(known)}.")
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
    sources: Sequence[Source], jobs: Sequence[Job], *, folds: int = 5, seed: int = 0, final: bool = False
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
        data = source.load()
        if not 2 <= folds <= len(data):  # here, once, and not in every stack
            raise InputError(f"`folds` must be between 2 and the {len(data):,} rows of {source.name}, got {folds}.")
        for job in jobs:
            if len(data.labels) > 2 and not methods.get(job.method).multiclass:
                continue
            first = RunKey(
                dataset=source.name,
                fingerprint=data.fingerprint,
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


@cache
def source_hash() -> str:
    """Hash of the code that makes numbers: of the text of every file in its rooms.

    A changed comment counts too: telling it from a change of numbers would be guessing.
    """
    root = files("separatrix")
    texts = {}
    waiting = [root.joinpath(room) for room in _CODE]
    while waiting:
        place = waiting.pop()
        if place.is_dir():
            waiting += place.iterdir()
        elif place.name.endswith(".py"):
            texts[str(place).removeprefix(str(root))] = place.read_text(encoding="utf-8")
    return hash_of(texts)


class Outcome(NamedTuple):
    """How a run ended: how many records it found finished, how many of each status it added."""

    skipped: int
    added: Mapping[str, int]


@dataclass(frozen=True)
class Execution:
    """Where and how the work is done; nothing in here changes a number.

    Args:
        n_jobs: local processes; −1 for all cores.
        backend: "local" or "dask".
        scheduler: address of the Dask scheduler, such as "tcp://host:8786".
        timeout: seconds after which a stack is given up; None for never.
        progress: what is being done, on stderr; by default if that is a terminal.
    """

    n_jobs: int = 1
    backend: str = "local"
    scheduler: str | None = None
    timeout: float | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise InputError(f"`backend` must be one of {', '.join(BACKENDS)}, got {self.backend!r}.")
        if (self.backend == "dask") != (self.scheduler is not None):
            raise InputError(
                "`scheduler` is the address of a Dask scheduler: pass it with backend='dask', and only then."
            )
        if self.n_jobs == 0 or self.n_jobs < -1:
            raise InputError(f"`n_jobs` must be a number of processes, or -1 for all cores, got {self.n_jobs}.")


HERE = Execution()


def run(
    stacks: Sequence[Stack], folder: str | Path, execution: Execution = HERE, done: Callable[[], None] = lambda: None
) -> Outcome:
    """Work on every run that has no final record yet.

    Args:
        stacks: from `grid`.
        folder: of the records; made if need be.
        execution: where and how.
        done: called after each stack, also of those that were finished before.

    Returns:
        Counts of what was skipped and added.
    """
    store = Store(folder)
    store.remove_stale()
    known = store.records()
    _check_protocol(stacks, known, store.folder)
    todo = _unfinished(stacks, {known_record.run.key for known_record in known if known_record.status in FINAL}, store)
    for source in {id(stack.source): stack.source for stack in stacks}.values():
        store.describe(source.name, source.load().describe())
    for _ in range(len(stacks) - len(todo)):
        done()
    added: Counter[str] = Counter()
    for answer in _answers(todo, execution):
        if answer.arrays is not None and answer.held_out is not None:
            # models first, then the records that say they are there
            store.add_models([r.run for r in answer.records], answer.arrays, answer.held_out)
        store.add(answer.records)
        added.update(record.status for record in answer.records)
        done()
    skipped = sum(len(s.runs) for s in stacks) - sum(len(s.runs) for s in todo)
    return Outcome(skipped, dict(added))


_SAID = {"fingerprint": "other rows", "details": "another recipe", "source": "other code"}


def _check_protocol(stacks: Sequence[Stack], records: Sequence[Record], folder: Path) -> None:
    """A folder holds one result per series: means over two protocols mean nothing."""
    known = {record.run.series: record.run for record in records}
    for stack in stacks:
        asked = stack.runs[0]
        there = known.get(asked.series, asked).protocol
        for name, value in asked.protocol.items():
            if there[name] != value:
                raise InputError(
                    f"{str(folder)!r} holds records of {asked.method!r} on {asked.dataset!r} with "
                    f"{_SAID.get(name) or f'{name} = {there[name]}'}. Pass another folder, or remove that one."
                )


def _unfinished(stacks: Sequence[Stack], done: set[str], store: Store) -> list[Stack]:
    """What is left to do, the models of all rows last."""
    todo = []
    for stack in stacks:
        missing = tuple(run for run in stack.runs if run.key not in done)
        if stack.job.keep:  # the file is of the whole stack
            missing = stack.runs if missing or not store.has_models(stack.runs) else ()
        if missing:
            todo.append(replace(stack, runs=missing))
    return sorted(todo, key=lambda stack: (stack.source.name, stack.runs[0].fold == ALL_ROWS))


def _answers(stacks: Sequence[Stack], how: Execution) -> Iterator[Answer]:
    """The answers of the stacks, as they come."""
    from joblib import Parallel, delayed

    # a user's own rows travel once: the stack goes without them, and they are an argument
    light = [replace(stack, source=replace(stack.source, data=None)) for stack in stacks]
    sources = [stack.source for stack in stacks]
    calls = (delayed(_work_on)(source, stack, how.timeout) for source, stack in zip(sources, light, strict=True))
    if how.scheduler is None:
        n_jobs = how.n_jobs if len(stacks) > 1 else 1
        with in_processes(calls, n_jobs, in_order=False) as answers:
            yield from answers
        return
    with _dask(how.scheduler, list({id(source): source for source in sources}.values())):
        yield from Parallel(return_as="generator_unordered", batch_size=1)(calls)


def _work_on(source: Source, stack: Stack, timeout: float | None) -> Answer:
    return work(replace(stack, source=source), timeout)


@contextmanager
def _dask(scheduler: str, sources: list[Source], patience: float = 20) -> Iterator[None]:
    """joblib on a Dask cluster whose workers all hold the sources, should one of them die."""
    from joblib import parallel_config

    distributed = require("distributed", "engines", "The Dask backend")
    try:
        client = distributed.Client(scheduler, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"No Dask scheduler answers at {scheduler!r}: {error}. Start one with `dask scheduler`."
        ) from error
    with client, parallel_config("dask", client=client, scatter=sources, retries=3):
        yield


class Answer(NamedTuple):
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
    data = stack.source.load()
    if data.fingerprint != first.fingerprint:
        raise DataError(
            f"The dataset {stack.source.name!r} on {platform.node()} is not the one that was asked "
            f"about: its rows have the fingerprint {data.fingerprint}, expected {first.fingerprint}."
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
    fitted: Any = methods.fit(job.method, sample, lanes, recipe=job.made(), use_sensitive=use_sensitive)
    seconds = (time.process_time() - started) / len(lanes)
    shown = test if len(test) else train[:1]  # a method may refuse to predict no rows at all
    q = np.asarray(fitted.posteriors(X[shown], data.z[shown]))
    lost = "diverged", "its posteriors are not finite"
    records = [Record(run, *lost, seconds=seconds) for run in stack.runs]
    lanes_of = zip(fitted.status, q, strict=True)
    good = np.flatnonzero([status == "ok" and np.isfinite(arrays_of_lane).all() for status, arrays_of_lane in lanes_of])
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
    columns: dict[str, Any]
    columns = {name: tables(probabilities, y, z, k, n_groups) for name, probabilities in parts.items()}
    columns["auroc"] = auroc(score, y).tolist()
    if k == 2:
        views = [score_view(lane_score, y, z, n_groups) for lane_score in score[:, :, 1]]
        columns["ordered"], columns["score_gap"] = zip(*views, strict=True)
    return [dict(zip(columns, lane, strict=True)) for lane in zip(*columns.values(), strict=True)]


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


def best_threshold(score: ArrayLike, y: ArrayLike, z: ArrayLike, n_groups: int, weight: float) -> float:
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
