"""False alarms and rows to the alarm of a monitor of gaps, beside the betting monitor.

    python -m benchmarks.simulations monitor [--repetitions 100] [--part false start drift]

Two labels, budget 0.05 on the gap, both monitors at confidence 0.95. Rates of the positive decision
are 0.2 and 0.7 given the label; the first group's are higher by the gap. Groups have equal shares,
or the first has 1 %.

- false: the gap is at its budget for ever, 20,000 rows; "drift" moves all rates up and down by 0.1
  together, five times.
- start: the gap is 2 or 4 times the budget from the first row on.
- drift: the same with rates that move together, and with a gap that begins after 10,000 rows
  without one; rows are counted from there.

The betting monitor is that of Chugg, Cortes-Gomez, Wilder and Ramdas, "Auditing Fairness by
Betting" (NeurIPS 2023), written anew for the null of a gap of at most b: for each pair of groups
and each sign, wealth grows by 1 + λ (difference of means − b) whenever both groups have new rows,
with λ in [0, 1/2] by online Newton steps. The signs of a pair share its wealth, the pairs share the
error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import publish
from benchmarks.simulations.tables import count_table
from separatrix import CountTable, Monitor

Array = NDArray[np.float64]
QUICK = ("--repetitions", "1", "--part", "start", "--groups", "2", "--measures", "tpr_gap")
BUDGET, ERROR = 0.05, 0.05
LOOK = 20  # rows
BASE = np.array([0.2, 0.7])  # P(positive | label) of all other groups
_NEWTON = 2.0 / (2.0 - np.log(3.0))  # step of online Newton


@dataclass(frozen=True)
class Stream:
    """Where rows come from.

    Args:
        groups: how many.
        gap: of the first group to the others.
        smallest: share of the first group; None for equal shares.
        drift: how far all rates move, together.
        quiet: rows before the gap begins.
    """

    groups: int
    gap: float
    smallest: float | None = None
    drift: float = 0.0
    quiet: int = 0

    @property
    def shares(self) -> Array:
        """Of the groups."""
        if self.smallest is None:
            return np.full(self.groups, 1.0 / self.groups)
        rest = np.full(self.groups - 1, (1.0 - self.smallest) / (self.groups - 1))
        return np.r_[self.smallest, rest]

    def rows(self, rng: np.random.Generator, n: int) -> tuple[NDArray[np.intp], ...]:
        """Labels, groups and decisions of n rows, from the first."""
        y = rng.integers(0, 2, n)
        z = rng.choice(self.groups, n, p=self.shares)
        t = np.arange(n)
        rate = BASE[y] + self.drift * np.sin(2 * np.pi * t / 4_000)
        rate = rate + self.gap * ((z == 0) & (t >= self.quiet))
        return y, z, (rng.random(n) < rate).astype(np.intp)


def reference(stream: Stream) -> CountTable:
    """2,000 rows without a gap."""
    cells = 2_000 * np.outer([0.5, 0.5], stream.shares)
    counts = cells[..., None] * np.stack([1 - BASE, BASE], -1)[:, None]
    return count_table(counts)


def ours(stream: Stream, measure: str, rows: tuple[NDArray[np.intp], ...]) -> float:
    """Rows that the monitor saw when it raised its alarm."""
    budget = {f"max_{measure}": BUDGET}
    monitor = Monitor(reference(stream), confidence=1 - ERROR, **budget)  # type: ignore[arg-type]
    y, z, u = rows
    for a in range(0, len(y), LOOK):
        part = slice(a, a + LOOK)
        counts = np.zeros((2, stream.groups, 2))
        np.add.at(counts, (y[part], z[part], u[part]), 1.0)
        batch = replace(monitor.reference, counts=counts, rows=len(y[part]))
        if monitor.update_counts(batch) is not None:
            return float(monitor.rows)
    return np.inf


def betting(stream: Stream, measure: str, rows: tuple[NDArray[np.intp], ...]) -> float:
    """Rows that the betting monitor saw when a pair's wealth reached its share of the error."""
    a, c = np.triu_indices(stream.groups, 1)
    labels = {"eo_gap": (0, 1), "tpr_gap": (1,), "fpr_gap": (0,)}[measure]
    signs = np.array(list(product((1.0, -1.0), repeat=len(labels))))  # (signs, labels)
    sums, counts = np.zeros((2, len(a), len(labels), 2))  # (pairs, labels, side)
    wealth = np.zeros((len(a), len(signs)))  # logs
    bet, squares = np.zeros_like(wealth), np.ones_like(wealth)
    needed = np.log(len(a) / ERROR)
    for t, (y, z, u) in enumerate(zip(*(x.tolist() for x in rows), strict=True), 1):
        if y not in labels:
            continue
        place = labels.index(y)
        for side, own in enumerate((a == z, c == z)):
            sums[own, place, side] += u
            counts[own, place, side] += 1
        ready = np.flatnonzero(counts.min((1, 2)) > 0)
        if not len(ready):
            continue
        means = sums[ready] / counts[ready]
        payoff = (means[..., 0] - means[..., 1]) @ signs.T / len(labels) - BUDGET
        grown = 1.0 + bet[ready] * payoff
        wealth[ready] += np.log(grown)
        slope = payoff / grown
        squares[ready] += slope**2
        bet[ready] = np.clip(bet[ready] + _NEWTON * slope / squares[ready], 0.0, 0.5)
        sums[ready] = counts[ready] = 0.0
        if (np.logaddexp.reduce(wealth[ready], axis=1) - np.log(len(signs))).max() >= needed:
            return float(t)
    return np.inf


def cell(stream: Stream, measure: str, most: int, repetitions: int) -> Iterator[Array]:
    """Rows to the alarm of both monitors, (repetitions,) each; infinite where there was none."""
    found = []
    for k in range(repetitions):
        rows = stream.rows(np.random.default_rng((stream.groups, k)), most)
        found.append([ours(stream, measure, rows), betting(stream, measure, rows)])
    yield from np.array(found).T - stream.quiet


DRIFTS: dict[str, dict[str, float]] = {"rates move": {"drift": 0.1}, "after 10,000": {"quiet": 10_000}}


def main(
    repetitions: int = 100,
    part: Sequence[str] = ("false", "start", "drift"),
    groups: Sequence[int] = (2, 5, 9),
    measures: Sequence[str] = ("tpr_gap", "eo_gap"),
) -> None:
    """Print the tables of docs/howto/monitor.md."""
    streams = [(str(g), Stream(g, 0.0)) for g in groups]
    streams.append(("2, one of 1 %", Stream(2, 0.0, smallest=0.01)))
    false, delays = [], []
    for measure, (name, quiet) in product(measures, streams):
        rare = quiet.smallest is not None
        for told, drift in (("constant", 0.0), ("drift", 0.1)) if "false" in part else ():
            at_budget = replace(quiet, gap=BUDGET, drift=drift)
            found = cell(at_budget, measure, 20_000, repetitions)
            alarms = (f"{np.isfinite(x).mean():.3f}" for x in found)
            false.append([measure, name, told, *alarms])
        kinds = {"constant": {}} if "start" in part else {}
        kinds |= DRIFTS if "drift" in part else {}
        for (told, more), times in product(kinds.items(), (4,) if rare else (2, 4)):
            after = replace(quiet, gap=times * BUDGET, **more)
            most = after.quiet + (60_000 if times == 2 or rare else 20_000)
            found = cell(after, measure, most, repetitions)
            late = np.quantile(list(found), [0.5, 0.9], axis=1, method="inverted_cdf").ravel()
            shown = [*(f"{x:,.0f}" for x in late), f"{late[0] / late[1]:.2f}"]
            delays.append([measure, name, f"{told}, {times} ×", *shown])
    head = ["gap", "groups", "stream"]
    publish("false alarms", [*head, "ours", "betting"], false, write=False)
    head += ["median, ours", "median, betting", "90 %, ours", "90 %, betting", "ratio"]
    publish("rows to the alarm", head, delays, write=False)
