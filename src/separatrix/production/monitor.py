"""Monitor: the audit of a stream, valid at any time, in constant memory.

A test that is repeated each night raises a false alarm sooner or later; the evidence used here
(`statistics.gap_evidence` for gaps, `statistics.e_process` for v) may be checked after every batch.
All rows since the start are one test, and overlapping tests that started later see a change that
old rows would hide (`production.stream`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.groups import from_plain, to_plain
from separatrix.core.counts import CountTable, diagonal
from separatrix.core.information import check_confidence, conditional_mutual_information, eo_gap, mutual_information
from separatrix.core.numbers import not_negative
from separatrix.errors import InputError
from separatrix.io import as_path, write_whole
from separatrix.production.monitor_report import Alarm, Cell, Report, metrics, page
from separatrix.production.stream import Starts, counts_of, placed_counts, row_blocks
from separatrix.statistics import inference
from separatrix.statistics.bounds import worst_violation
from separatrix.statistics.e_process import Alternatives, ViolationEvidence, lower_bound, rate_sequences
from separatrix.statistics.gap_evidence import GAPS, GapEvidence

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

Array = NDArray[np.float64]
_FORMAT = 3
_MEASURES = (*GAPS, "violation")
_AXES = ("labels", "groups", "predictions")
_LOOK = 500  # rows between two looks inside one long batch
_SHORTEST = 1_000  # rows of the test that `Report.recent` is about
_HISTORY = 256  # points that the page draws at most


class _Audited(Protocol):
    @property
    def table(self) -> CountTable: ...


class Monitor:
    """Watch the predictions of a deployed model as their labels arrive.

    While P(u | y, z) is constant and keeps the budget, the probability of *ever* raising an alarm
    is at most 1 − confidence, however often you look. Rows are assumed independent given (y, z);
    rows of one person that come again and again are not. v is taken at
    the composition p(y, z) of the rows in the test; gaps of rates do not depend on it.

    Where the rates and the composition drift together, the pooled rows can show a v that no moment
    has (Simpson's paradox), and the alarm may be right about the pooled rows only. With `horizon`
    no test looks at more rows than that: the rates must be constant over such stretches only.

    A monitor may be updated from several threads.

    Args:
        reference: the audit (or its `CountTable`) at selection, which `report` compares with, or
            the shipped model. It fixes labels, groups and predictions: a test of a stream must
            know them beforehand.
        max_eo_gap, max_tpr_gap, max_fpr_gap, max_parity_gap, max_violation: the one budget that
            must not be exceeded; v is in nats. Default: the budget of the shipped model.
        confidence: one minus the error of the alarm, and that of the interval.
        horizon: the most rows of a test; None for no limit.

    >>> import separatrix as sx
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 5_000))
    >>> monitor = Monitor(sx.audit(y, y, sensitive_features=z), max_violation=0.01)
    >>> mild, strong = (np.where(rng.random(5_000) < p, z, y) for p in (0.05, 0.3))
    >>> monitor.update(y, mild, sensitive_features=z)               # v = 0.0058, in the budget
    >>> monitor.update(y, strong, sensitive_features=z).rows        # v = 0.08
    5500
    >>> monitor = Monitor(sx.audit(y, y, sensitive_features=z), max_eo_gap=0.05)
    >>> monitor.update(y, mild, sensitive_features=z)               # an EO gap of 0.05
    >>> monitor.update(y, strong, sensitive_features=z).measure     # an EO gap of 0.3
    'eo_gap'
    """

    def __init__(
        self,
        reference: CountTable | _Audited | Predictor,
        *,
        max_eo_gap: float | None = None,
        max_tpr_gap: float | None = None,
        max_fpr_gap: float | None = None,
        max_parity_gap: float | None = None,
        max_violation: float | None = None,
        confidence: float = 0.95,
        horizon: int | None = None,
    ) -> None:
        table = _reference(reference)
        check_confidence(confidence)
        measure, budget = _one_budget(
            {
                "eo_gap": max_eo_gap, "tpr_gap": max_tpr_gap, "fpr_gap": max_fpr_gap,
                "parity_gap": max_parity_gap, "violation": max_violation,
            },
            reference,
        )  # fmt: skip
        if horizon is not None and horizon < _SHORTEST:
            raise InputError(f"`horizon` is a number of rows, at least {_SHORTEST:,}, got {horizon}.")
        self.reference, self.confidence = table, float(confidence)
        self.measure, self.budget = measure, budget
        self.posteriors = table.moments is not None
        self.alarm: Alarm | None = None
        self.history: list[tuple[int, float, float]] = []
        self._starts = Starts.without_rows(table.counts.shape, horizon)
        self._bets = Alternatives.from_reference(table.counts, budget if measure == "violation" else 0.005)
        self._evidence: ViolationEvidence | GapEvidence = (
            ViolationEvidence(self.budget, self._bets)
            if measure == "violation"
            else GapEvidence.from_reference(table.counts, measure, self.budget)
        )
        if measure in ("tpr_gap", "fpr_gap") and len(table.labels) != 2:
            raise InputError(
                f"`max_{measure}` needs two labels, and the reference has {len(table.labels)}. Pass `max_eo_gap`."
            )
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
        self, y_true: Any, y_pred: Any, *, sensitive_features: Any, branch: ArrayLike | None = None, check: bool = True
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
        batch = self.reference, y_true, y_pred, sensitive_features, branch
        with self._lock:
            for n, counts in row_blocks(*batch, self._starts.until_next()):
                before = self._starts.clock
                self._starts.add(counts, n)
                if check and self._starts.clock // _LOOK > before // _LOOK:
                    self.check()
            return self.check() if check else self.alarm

    def update_counts(self, batch: CountTable, *, check: bool = True) -> Alarm | None:
        """`update` with rows counted elsewhere, such as `audit(...).table`."""
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
            for test in tests.order:
                counts, needed = tests.counts[test], float(tests.needed[test])
                evidence = self._evidence.log_e(counts, needed, exact=False)
                if evidence >= needed:
                    shown = self.measure, self._evidence.value(counts), float(evidence), needed, self._cell(counts)
                    self.alarm = Alarm(self.rows, int(tests.rows[test]), *shown)
                    break
            return self.alarm

    def report(self) -> Report:
        """The state of the stream now; safe to ask at any time."""
        with self._lock:
            before = self._evidence.value(self.reference.counts) if self.reference.rows > 0 else float("nan")
            settings = (self.rows, self.measure, self.budget, self.confidence, before)
            if not self.rows:
                return Report(*settings, alarm=self.alarm)
            table = self.table
            counts, half = table.counts, 0.5 * (1.0 + self.confidence)  # each end has half
            upper = worst_violation(counts, *rate_sequences(counts, half))
            v = float(conditional_mutual_information(counts))
            tests = self._tests(quick=False)
            closest = tests.counts[tests.order[0]]
            needed = float(tests.needed[tests.order[0]])
            return Report(
                *settings,
                value=self._evidence.value(counts),
                violation=v,
                violation_corrected=inference.noise(table).corrected,
                utility=float(mutual_information(counts)),
                eo_gap=float(eo_gap(counts)),
                interval=(lower_bound(counts, half, self._bets), max(upper, v)),
                recent=self._recent(),
                evidence=self._evidence.log_e(closest, needed),
                needed=needed,
                cell=self._cell(closest),
                alarm=self.alarm,
            )

    def metrics(self) -> str:
        """The state as text lines for Prometheus; label values are escaped.

        `separatrix_rows_total`, `separatrix_<measure>` and its budget, the evidence and what an
        alarm needs, `separatrix_alarm` (0 or 1), and the rate of each label, group and prediction.
        """
        return metrics(self)

    @staticmethod
    def merge(monitors: Sequence[Monitor]) -> Monitor:
        """One monitor of a stream that several workers share.

        A merged test has the rows of all workers since their own start of it (`production.stream`).
        An alarm of a worker is kept. The error of the merged monitor is 1 − confidence if the
        workers did not check on their own (`update(..., check=False)`); W workers that did add
        their own, so give each the confidence 1 − (1 − c) / W.
        """
        if not monitors or not all(isinstance(monitor, Monitor) for monitor in monitors):
            raise InputError("`monitors` is empty or holds something else: pass Monitors to merge.")
        first = monitors[0]
        for other in monitors:
            if different := first.difference(other):
                only = "only if reference, budget, confidence and horizon are the same"
                raise InputError(f"Monitors can be merged {only}: one has {different}.")
        merged = _monitor(first.reference, first.measure, first.budget, first.confidence, first.horizon)
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
            return json.dumps({
                "format": _FORMAT, "measure": self.measure, "budget": self.budget, "confidence": self.confidence,
                **{name: list(map(to_plain, getattr(table, name))) for name in _AXES},
                "reference": {"counts": table.counts.tolist(), "rows": table.rows},
                "posteriors": self.posteriors, "tests": self._starts.to_dict(), "history": self.history,
                "alarm": None if self.alarm is None else self.alarm.to_dict(),
            })  # fmt: skip

    @staticmethod
    def from_json(text: str) -> Monitor:
        """The monitor that `to_json` described."""
        try:
            state = json.loads(text)
            if state["format"] != _FORMAT:
                has = f"This monitor has format {state['format']!r}"
                raise InputError(f"{has}; this separatrix reads {_FORMAT}. Start a new one.")
            labels, groups, names = (tuple(map(from_plain, state[axis])) for axis in _AXES)
            shape = len(labels), len(groups), len(names)
            old, tests = state["reference"], state["tests"]
            counts = counts_of(old["counts"], shape)
            moments = diagonal(counts) if state["posteriors"] else None
            reference = CountTable(counts, labels, groups, names, int(old["rows"]), moments)
            budget, confidence = float(state["budget"]), float(state["confidence"])
            monitor = _monitor(reference, state["measure"], budget, confidence, tests["horizon"])
            monitor._starts = Starts.from_dict(tests, shape)
            monitor.history = [(int(a), float(b), float(c)) for a, b, c in state["history"]]
            alarm = state["alarm"]
            monitor.alarm = None if alarm is None else Alarm.from_dict(alarm)
        except InputError:
            raise
        except (LookupError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise InputError(f"This is not the whole state of a Monitor ({type(error).__name__}: {error}).") from error
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
            raise InputError(f"{str(path)!r} cannot be read as the state of a Monitor: {why}.") from error

    def to_html(self) -> str:
        """A whole page that opens offline."""
        return page(self)

    def difference(self, other: Monitor) -> str:
        """What this monitor has and another has not, in words; empty for two of one stream."""
        old, new = self.reference, other.reference
        same = all(getattr(old, axis) == getattr(new, axis) for axis in _AXES)
        if not same or not np.array_equal(old.counts, new.counts):
            return "another reference"
        ours, theirs = (
            {"budget": f"{m.measure} {m.budget:.9g}", "confidence": m.confidence, "horizon": m.horizon}
            for m in (self, other)
        )
        return next((f"the {what} {ours[what]}, not {theirs[what]}" for what in ours if ours[what] != theirs[what]), "")

    def _tests(self, quick: bool = True) -> _Tests:
        """The tests, and which of them may be beyond their level, the most likely first."""
        use = np.flatnonzero(self._starts.usable())
        counts, rows = self._starts.tables[use], self._starts.rows[use]
        needed = -np.log((1.0 - self.confidence) * self._starts.shares[use])
        maybe = np.arange(len(use))
        if quick and len(use) and self.measure != "parity_gap":
            # the likelihood ratio against separation, which keeps these budgets, is above E
            most = rows * conditional_mutual_information(counts)
            maybe = np.flatnonzero(most >= needed)
        if len(maybe):
            level = needed[maybe] if quick or self.measure != "violation" else -np.inf
            excess = self._evidence.ceiling(counts[maybe], level) - needed[maybe]
            order = np.argsort(-excess)
            maybe = maybe[order][excess[order] >= 0] if quick else maybe[order]
        return _Tests(counts, rows, needed, maybe)

    def _cell(self, counts: Array) -> Cell:
        return Cell.from_table(replace(self.reference, counts=counts), self.measure)

    def _recent(self) -> tuple[float, int]:
        """The measure of the shortest test with enough rows, and its rows."""
        rows = self._starts.rows
        enough = np.flatnonzero(rows >= _SHORTEST)
        shortest = int(enough[np.argmin(rows[enough])]) if len(enough) else 0
        return self._evidence.value(self._starts.tables[shortest]), int(rows[shortest])

    def _remember(self) -> None:
        if self.history and self.history[-1][0] == self.rows:
            return
        every = 1 if len(self.history) < 2 else self.history[-1][0] - self.history[-2][0]
        v = self._evidence.value(self._starts.tables[0])
        if len(self.history) >= _HISTORY:
            self.history = self.history[::2]
        elif self.history and self.rows - self.history[-1][0] < every // 2:
            return
        self.history.append((self.rows, v, self._recent()[0]))


def _reference(reference: Any) -> CountTable:
    """The table of an audit; that of a model has no rows, but labels and groups."""
    table = getattr(reference, "table", reference)
    if isinstance(table, CountTable):
        return table
    if not (hasattr(reference, "about") and hasattr(reference, "branches")):
        raise InputError(f"`reference` must be an Audit or a CountTable, or a model, got {type(reference).__name__}.")
    labels, groups = tuple(reference.labels), tuple(reference.groups)
    if reference.is_score or reference.is_value or not groups:
        raise InputError("A monitor watches decisions by group: this model makes none.")
    return CountTable(np.ones((len(labels), len(groups), len(labels))), labels, groups, labels, 0)


def _one_budget(asked: Mapping[str, float | None], reference: Any) -> tuple[str, float]:
    """The measure and the level of the one budget that was passed, or that a model has."""
    given = {name: level for name, level in asked.items() if level is not None}
    if not given:
        choice = dict(getattr(reference, "about", {}).get("choice", {}))
        held = {name: choice.get(f"max_{name}", choice.get("budgets", {}).get(name)) for name in _MEASURES}
        given = {name: level for name, level in held.items() if level is not None}
    if len(given) != 1:
        got = ", ".join(f"`max_{name}`" for name in given) or "none"
        *names, last = (f"`max_{name}`" for name in _MEASURES)
        raise InputError(f"A monitor has one budget, got {got}. Pass {', '.join(names)} or {last} (in nats).")
    ((measure, level),) = given.items()
    return measure, not_negative(level, f"max_{measure}")


def _monitor(table: CountTable, measure: str, budget: float, confidence: float, horizon: int | None) -> Monitor:
    return Monitor(table, confidence=confidence, horizon=horizon, **{f"max_{measure}": budget})


class _Tests(NamedTuple):
    counts: Array
    rows: NDArray[np.int64]
    needed: Array
    order: NDArray[np.intp]
