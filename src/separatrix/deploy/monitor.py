"""Monitor: the audit of a stream, valid at any time, in constant memory.

A test that is repeated each night raises a false alarm sooner or later; the evidence used here
(`statistics.e_process`) may be checked after every batch. All rows since the start are one test.
Old rows would hide a change, so windows of growing length are tests of their own. All rows have
half of the error; the r-th window (r = 1, 2, …) of each length has the share
1 / (lengths · r (r + 1)) of the other half.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.groups import as_groups, from_plain, intersect, to_plain
from separatrix.columns.scores import posterior_matrix
from separatrix.columns.values import as_array, as_levels, check_lengths, listed
from separatrix.core.counts import CountTable
from separatrix.core.crosstab import crosstab
from separatrix.core.information import (
    check_confidence,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.core.numbers import one_number
from separatrix.deploy.alarms import Alarm, Report
from separatrix.errors import InputError
from separatrix.io import write_whole
from separatrix.statistics import inference
from separatrix.statistics.bounds import worst_violation
from separatrix.statistics.e_process import log_e_process, lower_bound, rate_sequences

__all__ = ["Monitor"]

Array = NDArray[np.float64]
# rows; a window closes at the first check at or beyond its length
_WINDOWS = tuple(1_000 * 4**j for j in range(7))
_FORMAT = 1
_AXES = ("labels", "groups", "predictions")


class _Audited(Protocol):
    @property
    def table(self) -> CountTable: ...


class Monitor:
    """Watch the predictions of a deployed model as their labels arrive.

    The guarantee: while P(u | y, z) keeps v ≤ budget, the probability that an alarm is *ever*
    raised is at most 1 − confidence, however often and whenever one looks. v is taken at the
    composition p(y, z) of the rows in the test. Rows are independent given (y, z); rows of one
    person that come again and again are not.

    Args:
        reference: the audit (or its `CountTable`) at selection, which `report` compares with. It
            fixes labels, groups and predictions: a test of a stream must know them beforehand.
        budget: the v that must not be exceeded, in nats.
        confidence: one minus the error of the alarm, and that of the interval.

    >>> import separatrix as sx
    >>> rng = np.random.default_rng(0)
    >>> y, z = rng.integers(0, 2, (2, 5_000))
    >>> monitor = Monitor(sx.audit(y, y, sensitive_features=z), budget=0.01)
    >>> mild, strong = (np.where(rng.random(5_000) < p, z, y) for p in (0.05, 0.3))
    >>> monitor.update(y, mild, sensitive_features=z)               # v = 0.0058, in the budget
    >>> monitor.update(y, strong, sensitive_features=z).rows        # v = 0.08
    10000
    """

    def __init__(
        self, reference: CountTable | _Audited, budget: float, confidence: float = 0.95
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
        self.reference, self.budget, self.confidence = table, float(budget), float(confidence)
        self.alarm: Alarm | None = None
        empty = np.zeros_like(table.counts)
        self._all = replace(table, counts=empty, rows=0, moments=None)
        self._windows = [_Window(length, empty) for length in _WINDOWS]

    @property
    def rows(self) -> int:
        """Rows seen."""
        return self._all.rows

    @property
    def table(self) -> CountTable:
        """The counts of all rows seen."""
        return self._all

    def update(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        sensitive_features: Any,
        branch: ArrayLike | None = None,
        check: bool = True,
    ) -> Alarm | None:
        """Add a batch; all of it or, where a value is unknown, nothing.

        Args:
            y_true, sensitive_features: labels and groups of the reference, as in `audit`.
            y_pred: decided labels (1-d), or posteriors (2-d) in the order of the reference.
            branch: the branch of a revealed mixture that was drawn for each row: the decision is
                the pair. The reference is then `Predictor.counts`, which counts such pairs.
            check: check the evidence. Workers may leave that to the merged monitor.

        Returns:
            The first alarm, once there is one; None before.
        """
        batch = self._counted(y_true, y_pred, sensitive_features, branch)
        return self.update_counts(batch, check=check)

    def update_counts(self, batch: CountTable, *, check: bool = True) -> Alarm | None:
        """`update` with rows counted elsewhere, such as `audit_frame(...).table`."""
        if batch.moments is not None and not np.allclose(batch.weight_squares, batch.counts.sum(2)):
            raise InputError(
                "The batch has weighted rows. The evidence of a stream is for rows of weight one."
            )
        for name in _AXES:
            _refuse_unknown(getattr(batch, name), getattr(self._all, name), name)
        empty = replace(self._all, counts=np.zeros_like(self._all.counts), rows=0)
        # the evidence of soft counts needs no second moments
        placed = replace(empty + batch, moments=None)
        self._all = self._all + placed
        for window in self._windows:
            window.add(placed)
        return self.check() if check else self.alarm

    def check(self) -> Alarm | None:
        """Compare the evidence with the alarm level, and close the windows that are full."""
        error = 1.0 - self.confidence
        if self.alarm is None and self.rows:
            tests = [(self._all.counts, self.rows, 0.5 * error)]
            open_windows = [w for w in self._windows if 0 < w.rows < self.rows]
            tests += [(w.counts, w.rows, 0.5 * error * w.share) for w in open_windows]
            for counts, rows, share in tests:
                needed = -np.log(share)
                evidence = log_e_process(counts, self.budget, needed)
                if evidence >= needed:
                    v = float(conditional_mutual_information(counts))
                    self.alarm = Alarm(self.rows, rows, v, float(evidence), float(needed))
                    break
        for window in self._windows:
            window.close_if_full()
        return self.alarm

    def report(self) -> Report:
        """The state of the stream now; safe to ask at any time."""
        counts, v0 = self._all.counts, float(conditional_mutual_information(self.reference.counts))
        common = (v0, self.budget, self.confidence, self.alarm)
        if not self.rows:
            nan = float("nan")
            return Report(0, nan, nan, nan, nan, (0.0, float("inf")), (nan, 0), *common)
        half = 0.5 * (1.0 + self.confidence)  # each end has half of the error
        upper = worst_violation(counts, *rate_sequences(counts, half))
        v = float(conditional_mutual_information(counts))
        filled = [(w.rows, w.counts) for w in self._windows if w.rows >= _WINDOWS[0]]
        recent_rows, recent = min(filled, key=lambda one: one[0]) if filled else (self.rows, counts)
        corrected, u = inference.corrected(self._all)[0], float(mutual_information(counts))
        interval = (lower_bound(counts, half), max(upper, v))
        of_recent = (float(conditional_mutual_information(recent)), recent_rows)
        gap = float(eo_gap(counts))
        return Report(self.rows, v, corrected, u, gap, interval, of_recent, *common)

    @staticmethod
    def merge(monitors: Sequence[Monitor]) -> Monitor:
        """One monitor of a stream that was dealt out to several workers.

        Its windows are the workers' current windows together. An alarm of a worker is kept. The
        error of the merged monitor is 1 − confidence if the workers did not check on their own
        (`update(..., check=False)`); W workers that did add their own, so give each the confidence
        1 − (1 − c) / W.
        """
        if not monitors:
            raise InputError("`monitors` is empty: pass at least one Monitor to merge.")
        first = monitors[0]
        merged = Monitor(first.reference, first.budget, first.confidence)
        for other in monitors:
            same = (
                np.array_equal(other.reference.counts, first.reference.counts)
                and other._axes == first._axes
                and (other.budget, other.confidence) == (first.budget, first.confidence)
            )
            if not same:
                raise InputError(
                    "Monitors can be merged only if reference, budget and confidence are the same."
                )
            counts, rows = merged._all.counts + other._all.counts, merged.rows + other.rows
            merged._all = replace(merged._all, counts=counts, rows=rows)
            for mine, theirs in zip(merged._windows, other._windows, strict=True):
                mine.counts, mine.rows = mine.counts + theirs.counts, mine.rows + theirs.rows
                mine.index = max(mine.index, theirs.index)
        merged.alarm = next((other.alarm for other in monitors if other.alarm is not None), None)
        return merged

    def to_json(self) -> str:
        """The whole state, for a file or a database column."""
        table = self.reference
        state: dict[str, Any] = {
            "format": _FORMAT, "budget": self.budget, "confidence": self.confidence,
            **{name: [to_plain(one) for one in getattr(table, name)] for name in _AXES},
            "reference": {"counts": table.counts.tolist(), "rows": table.rows},
            "all": {"counts": self._all.counts.tolist(), "rows": self.rows},
            "windows": [vars(w) | {"counts": w.counts.tolist()} for w in self._windows],
            "alarm": None if self.alarm is None else asdict(self.alarm),
        }  # fmt: skip
        return json.dumps(state)

    @staticmethod
    def from_json(text: str) -> Monitor:
        """The monitor that `to_json` described."""
        try:
            state = json.loads(text)
            if state["format"] != _FORMAT:
                raise InputError(
                    f"This monitor has format {state['format']!r}; this separatrix reads {_FORMAT}."
                )
            labels, groups, names = (tuple(map(from_plain, state[axis])) for axis in _AXES)
            shape = len(labels), len(groups), len(names)
            old, seen = state["reference"], state["all"]
            counts = _array(old["counts"], shape)
            reference = CountTable(counts, labels, groups, names, int(old["rows"]))
            monitor = Monitor(reference, float(state["budget"]), float(state["confidence"]))
            counts = _array(seen["counts"], shape)
            monitor._all = replace(monitor._all, counts=counts, rows=int(seen["rows"]))
            monitor._windows = []
            for w in state["windows"]:
                numbers = int(w["rows"]), int(w["index"])
                window = _Window(int(w["length"]), _array(w["counts"], shape), *numbers)
                monitor._windows.append(window)
            monitor.alarm = None if state["alarm"] is None else Alarm(**state["alarm"])
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"This is not the whole state of a Monitor ({type(error).__name__}: {error})."
            ) from error
        return monitor

    def save(self, path: str | Path) -> None:
        """Write the state to a file: all of it or nothing."""
        write_whole(Path(path), self.to_json(), parents=False)

    @staticmethod
    def load(path: str | Path) -> Monitor:
        """The monitor that was saved."""
        try:
            return Monitor.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{str(path)!r} cannot be read as the state of a Monitor: {error}."
            ) from error

    @property
    def _axes(self) -> tuple[Any, ...]:
        return self._all.labels, self._all.groups, self._all.predictions

    def _counted(self, y: Any, u: Any, z: Any, branch: ArrayLike | None) -> CountTable:
        table, prediction = self.reference, as_array(u, "y_pred")
        at_y = as_levels(y, "y_true").places(table.labels, "y_true")
        at_z = as_groups(z).places(table.groups, "sensitive_features")
        if prediction.ndim == 2:
            posterior = posterior_matrix(prediction, "y_pred")
            if posterior.shape[1] != len(table.predictions):
                raise InputError(
                    f"`y_pred` has {posterior.shape[1]} columns for the reference's "
                    f"{len(table.predictions)} predictions ({listed(table.predictions)})."
                )
            n = check_lengths({"y_true": at_y, "sensitive_features": at_z, "y_pred": posterior})
            shape = len(table.labels), len(table.groups)
            counts, _ = soft_sums(posterior, at_y, at_z, shape, name="y_pred", want_moments=False)
        else:
            decided = as_levels(u, "y_pred")
            if branch is not None:
                decided = intersect({"branch": as_levels(branch, "branch"), "y_pred": decided})
            at_u = decided.places(table.predictions, "y_pred")
            n = check_lengths({"y_true": at_y, "sensitive_features": at_z, "y_pred": at_u})
            counts = crosstab([at_y, at_z, at_u], table.counts.shape)
        return CountTable(counts, table.labels, table.groups, table.predictions, rows=n)


class _Window:
    """The current window of one length."""

    def __init__(self, length: int, counts: Array, rows: int = 0, index: int = 1) -> None:
        self.length, self.counts, self.rows, self.index = length, counts, rows, index

    @property
    def share(self) -> float:
        """Share of the windows' error; the shares of all windows ever sum to one."""
        return 1.0 / (len(_WINDOWS) * self.index * (self.index + 1))

    def add(self, batch: CountTable) -> None:
        self.counts, self.rows = self.counts + batch.counts, self.rows + batch.rows

    def close_if_full(self) -> None:
        if self.rows >= self.length:
            self.counts, self.rows, self.index = np.zeros_like(self.counts), 0, self.index + 1


def _refuse_unknown(levels: Sequence[Hashable], axis: Sequence[Hashable], name: str) -> None:
    unknown = [level for level in levels if level not in axis]
    if unknown:
        raise InputError(
            f"`{name}` holds {listed(unknown)}, which the reference does not know "
            f"({listed(axis)}). A new level needs a new reference and a new monitor."
        )


def _array(values: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"The counts of this monitor have bad values or shape {array.shape}, not {shape}."
        )
    return array
