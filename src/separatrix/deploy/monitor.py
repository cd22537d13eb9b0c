"""Monitor: the audit of a stream, valid at any time, in constant memory.

A test that is repeated each night raises a false alarm sooner or later; the evidence used here
(`statistics.e_process`) may be checked after every batch. All rows since the start are one test,
and overlapping tests that started later see a change that old rows would hide (`deploy.starts`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.groups import from_plain, to_plain
from separatrix.core.counts import CountTable
from separatrix.core.information import (
    check_confidence,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.core.numbers import one_number
from separatrix.deploy.alarms import Alarm, Cell, Report
from separatrix.deploy.ordered_rows import coded_rows, placed_counts
from separatrix.deploy.starts import SPACING, Starts
from separatrix.errors import InputError
from separatrix.io import as_path, write_whole
from separatrix.statistics import inference
from separatrix.statistics.alternatives import Alternatives
from separatrix.statistics.bounds import worst_violation
from separatrix.statistics.e_process import (
    evidence_ceiling,
    log_e_process,
    lower_bound,
    rate_sequences,
)

__all__ = ["Monitor"]

Array = NDArray[np.float64]
_FORMAT = 2
_AXES = ("labels", "groups", "predictions")
_LOOK = 500  # rows between two looks inside one long batch
_SHORTEST = 1_000  # rows of the test that `Report.recent` is about
_HISTORY = 256  # points that the page draws at most


class _Audited(Protocol):
    @property
    def table(self) -> CountTable: ...


class Monitor:
    """Watch the predictions of a deployed model as their labels arrive.

    The guarantee: while P(u | y, z) is constant and keeps v ≤ budget, the probability that an alarm
    is *ever* raised is at most 1 − confidence, however often and whenever one looks. v is taken at
    the composition p(y, z) of the rows in the test. Rows are independent given (y, z); rows of one
    person that come again and again are not.

    Where the rates and the composition drift together, the pooled rows can show a v that no moment
    has (Simpson's paradox), and the alarm may be right about the pooled rows only. With `horizon`
    no test looks at more rows than that: the rates must be constant over such stretches only.

    A monitor may be updated from several threads.

    Args:
        reference: the audit (or its `CountTable`) at selection, which `report` compares with. It
            fixes labels, groups and predictions: a test of a stream must know them beforehand.
        budget: the v that must not be exceeded, in nats.
        confidence: one minus the error of the alarm, and that of the interval.
        horizon: the most rows of a test; None for no limit.

    >>> import separatrix as sx
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 5_000))
    >>> monitor = Monitor(sx.audit(y, y, sensitive_features=z), budget=0.01)
    >>> mild, strong = (np.where(rng.random(5_000) < p, z, y) for p in (0.05, 0.3))
    >>> monitor.update(y, mild, sensitive_features=z)               # v = 0.0058, in the budget
    >>> monitor.update(y, strong, sensitive_features=z).rows        # v = 0.08
    5500
    """

    def __init__(
        self,
        reference: CountTable | _Audited,
        budget: float,
        confidence: float = 0.95,
        *,
        horizon: int | None = None,
    ) -> None:
        table = getattr(reference, "table", reference)
        if not isinstance(table, CountTable):
            raise InputError(
                "`reference` must be an Audit or a CountTable of the model at selection, got "
                f"{type(reference).__name__}."
            )
        check_confidence(confidence)
        if not 0 <= one_number(budget, "budget") < np.inf:
            raise InputError(f"`budget` is a violation in nats and not negative, got {budget}.")
        if horizon is not None and horizon < _SHORTEST:
            raise InputError(
                f"`horizon` is a number of rows, at least {_SHORTEST:,}, got {horizon}."
            )
        self.reference, self.budget, self.confidence = table, float(budget), float(confidence)
        self.posteriors = table.moments is not None
        self.alarm: Alarm | None = None
        self.history: list[tuple[int, float, float]] = []
        self._starts = Starts.of(table.counts.shape, horizon)
        self._bets = Alternatives.of(table.counts, self.budget)
        self._lock = threading.RLock()

    @property
    def rows(self) -> int:
        """Rows seen."""
        return int(self._starts.rows[0])

    @property
    def horizon(self) -> int | None:
        """The most rows of a test."""
        return self._starts.horizon

    @property
    def table(self) -> CountTable:
        """The counts of all rows seen."""
        with self._lock:
            counts, rows = self._starts.tables[0].copy(), self.rows
        return replace(self.reference, counts=counts, rows=rows, moments=None)

    def update(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        branch: ArrayLike | None = None,
        check: bool = True,
    ) -> Alarm | None:
        """Add a batch in the order of its rows; all of it or, where a value is unknown, nothing.

        Args:
            y_true, sensitive_features: labels and groups of the reference, as in `audit`.
            y_pred: decided labels (1-d), or posteriors (2-d) in the order of the reference.
            branch: the branch of a revealed mixture that was drawn for each row: the decision is
                the pair. The reference is then `Predictor.counts`, which counts such pairs.
            check: check the evidence. Workers may leave that to the merged monitor.

        Returns:
            The first alarm, once there is one; None before.
        """
        rows = coded_rows(self.reference, y_true, y_pred, sensitive_features, branch)
        with self._lock:
            for n, counts in rows.blocks(self._starts.until_next(), SPACING):
                before = self._starts.clock
                self._starts.add(counts, n)
                if check and self._starts.clock // _LOOK > before // _LOOK:
                    self.check()
            return self.check() if check else self.alarm

    def update_counts(self, batch: CountTable, *, check: bool = True) -> Alarm | None:
        """`update` with rows counted elsewhere, such as `audit_frame(...).table`."""
        counts = placed_counts(self.reference, batch)
        with self._lock:
            self._starts.add(counts, batch.rows)
            return self.check() if check else self.alarm

    def check(self) -> Alarm | None:
        """Compare the evidence of every test with its alarm level."""
        with self._lock:
            if self.rows:
                self._remember()
            if self.alarm is not None or not self.rows:
                return self.alarm
            tests = self._tests()
            for at in tests.order:
                needed = float(tests.needed[at])
                evidence = log_e_process(tests.counts[at], self.budget, self._bets, needed)
                if evidence >= needed:
                    counts, rows = tests.counts[at], int(tests.rows[at])
                    v = float(conditional_mutual_information(counts))
                    cell = Cell.of(replace(self.reference, counts=counts))
                    self.alarm = Alarm(self.rows, rows, v, float(evidence), needed, cell)
                    break
            return self.alarm

    def report(self) -> Report:
        """The state of the stream now; safe to ask at any time."""
        with self._lock:
            v0 = float(conditional_mutual_information(self.reference.counts))
            common = (v0, self.budget, self.confidence)
            if not self.rows:
                nan, none = float("nan"), (0.0, float("inf"))
                empty = (0, nan, nan, nan, nan, none, (nan, 0))
                return Report(*empty, *common, nan, nan, None, self.alarm)
            table = self.table
            counts, half = table.counts, 0.5 * (1.0 + self.confidence)  # each end has half
            upper = worst_violation(counts, *rate_sequences(counts, half))
            v = float(conditional_mutual_information(counts))
            interval = (lower_bound(counts, half, self._bets), max(upper, v))
            tests = self._tests(quick=False)
            at = int(tests.order[0])
            evidence = log_e_process(tests.counts[at], self.budget, self._bets)
            corrected, u = inference.corrected(table)[0], float(mutual_information(counts))
            measured = (self.rows, v, corrected, u, float(eo_gap(counts)), interval, self._recent())
            cell = Cell.of(replace(table, counts=tests.counts[at]))
            return Report(*measured, *common, evidence, float(tests.needed[at]), cell, self.alarm)

    @staticmethod
    def merge(monitors: Sequence[Monitor]) -> Monitor:
        """One monitor of a stream that was dealt out to several workers.

        A merged test has the rows of all workers since their own start of it (`deploy.starts`). An
        alarm of a worker is kept. The error of the merged monitor is 1 − confidence if the workers
        did not check on their own (`update(..., check=False)`); W workers that did add their own,
        so give each the confidence 1 − (1 − c) / W.
        """
        if not monitors or not all(isinstance(one, Monitor) for one in monitors):
            raise InputError("`monitors` is empty or holds something else: pass Monitors to merge.")
        first = monitors[0]
        for other in monitors:
            same = (
                np.array_equal(other.reference.counts, first.reference.counts)
                and other._settings == first._settings
            )
            if not same:
                raise InputError(
                    "Monitors can be merged only if reference, budget, confidence and horizon are "
                    "the same."
                )
        merged = first._empty()
        parts = []
        for other in monitors:
            with other._lock:
                parts.append(replace(other._starts))
                merged.alarm = merged.alarm or other.alarm
        merged._starts = Starts.merge(parts)
        return merged

    def to_json(self) -> str:
        """The whole state, for a file or a database column."""
        with self._lock:
            table = self.reference
            state: dict[str, Any] = {
                "format": _FORMAT, "budget": self.budget, "confidence": self.confidence,
                **{name: [to_plain(one) for one in getattr(table, name)] for name in _AXES},
                "reference": {"counts": table.counts.tolist(), "rows": table.rows},
                "posteriors": self.posteriors,
                "tests": self._starts.to_dict(),
                "history": self.history,
                "alarm": None if self.alarm is None else self.alarm.to_dict(),
            }  # fmt: skip
            return json.dumps(state)

    @staticmethod
    def from_json(text: str) -> Monitor:
        """The monitor that `to_json` described."""
        try:
            state = json.loads(text)
            if state["format"] != _FORMAT:
                raise InputError(
                    f"This monitor has format {state['format']!r}; this separatrix reads "
                    f"{_FORMAT}. Start a new one."
                )
            labels, groups, names = (tuple(map(from_plain, state[axis])) for axis in _AXES)
            shape = len(labels), len(groups), len(names)
            old, tests = state["reference"], state["tests"]
            counts = _array(old["counts"], shape)
            reference = CountTable(counts, labels, groups, names, int(old["rows"]))
            settings = float(state["budget"]), float(state["confidence"])
            monitor = Monitor(reference, *settings, horizon=tests["horizon"])
            monitor.posteriors = bool(state["posteriors"])
            s = len(tests["rows"])
            rows, level, index = (_whole(tests[name], s) for name in ("rows", "level", "index"))
            if level[0] != -1 or not Starts.named(level, index) or int(tests["clock"]) < 0:
                raise ValueError("tests that no monitor has")
            tables = _array(tests["tables"], (s, *shape))
            monitor._starts = Starts(
                tables, rows, level, index, int(tests["clock"]), tests["horizon"]
            )
            monitor.history = [(int(a), float(b), float(c)) for a, b, c in state["history"]]
            alarm = state["alarm"]
            monitor.alarm = None if alarm is None else Alarm.from_dict(alarm)
        except InputError:
            raise
        except (LookupError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise InputError(
                f"This is not the whole state of a Monitor ({type(error).__name__}: {error})."
            ) from error
        return monitor

    def save(self, path: str | Path) -> None:
        """Write the state to a file: all of it or nothing."""
        write_whole(as_path(path, "path"), self.to_json(), parents=False)

    @staticmethod
    def load(path: str | Path) -> Monitor:
        """The monitor that was saved."""
        try:
            return Monitor.from_json(as_path(path, "path").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, InputError) as error:
            why = str(error).rstrip(".")
            raise InputError(
                f"{str(path)!r} cannot be read as the state of a Monitor: {why}. Pass a file that "
                "`Monitor.save` or `separatrix monitor` wrote."
            ) from error

    def to_html(self) -> str:
        """A whole page that opens offline."""
        from separatrix.deploy.monitor_view import page

        return page(self)

    @property
    def _settings(self) -> tuple[Any, ...]:
        axes = tuple(getattr(self.reference, name) for name in _AXES)
        return axes, self.budget, self.confidence, self.horizon

    def _empty(self) -> Monitor:
        """A monitor with the same settings, without rows."""
        new = Monitor(self.reference, self.budget, self.confidence, horizon=self.horizon)
        new.posteriors = self.posteriors
        return new

    def _tests(self, quick: bool = True) -> _Tests:
        """The tests, and which of them may be beyond their level, the most likely first."""
        use = np.flatnonzero(self._starts.usable())
        counts, rows = self._starts.tables[use], self._starts.rows[use]
        needed = -np.log((1.0 - self.confidence) * self._starts.shares[use])
        # the likelihood ratio against separation, which keeps every budget, is above E
        most = rows * conditional_mutual_information(counts) if len(use) else np.zeros(0)
        maybe = np.flatnonzero(most >= needed) if quick else np.arange(len(use))
        if len(maybe):
            level = needed[maybe] if quick else -np.inf
            ceiling = evidence_ceiling(counts[maybe], self.budget, self._bets, level)
            excess = ceiling - needed[maybe]
            order = np.argsort(-excess)
            maybe = maybe[order][excess[order] >= 0] if quick else maybe[order]
        return _Tests(counts, rows, needed, maybe)

    def _recent(self) -> tuple[float, int]:
        """v of the shortest test with enough rows, and its rows."""
        rows = self._starts.rows
        enough = np.flatnonzero(rows >= _SHORTEST)
        at = int(enough[np.argmin(rows[enough])]) if len(enough) else 0
        return float(conditional_mutual_information(self._starts.tables[at])), int(rows[at])

    def _remember(self) -> None:
        if self.history and self.history[-1][0] == self.rows:
            return
        every = 1 if len(self.history) < 2 else self.history[-1][0] - self.history[-2][0]
        v = float(conditional_mutual_information(self._starts.tables[0]))
        if len(self.history) >= _HISTORY:
            self.history = self.history[::2]
        elif self.history and self.rows - self.history[-1][0] < every // 2:
            return
        self.history.append((self.rows, v, self._recent()[0]))


class _Tests(NamedTuple):
    counts: Array
    rows: NDArray[np.int64]
    needed: Array
    order: NDArray[np.intp]


def _array(values: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"The counts of this monitor have bad values or shape {array.shape}, not {shape}."
        )
    return array


def _whole(values: Any, count: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype.kind != "i" or (array < -1).any():
        raise InputError("The tests of this monitor have bad numbers of rows or names.")
    return array.astype(np.int64)
