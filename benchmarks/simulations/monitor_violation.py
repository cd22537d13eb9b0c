"""False alarms and delay of a monitor of v.

    python -m benchmarks.simulations monitor_violation [--repetitions 300] [--part false ...]

Budget 0.005 nats. Laws are random (`tables.random_law`).

- false: streams of 50,000 rows whose v is exactly the budget for ever (the hardest case), looked at
  after every 500 rows, at confidence 0.95 and at 0.5; alarms of the test of all rows and of the
  overlapping tests apart. Beside it a fixed-sample test that is repeated at each look: the lower
  end of the asymptotic one-sided 95 % interval.
- start: rows to the alarm where v is a multiple of the budget from the first row on.
- change: 50,000 quiet rows at a tenth of the budget, then another law with a multiple of it; rows
  from the change to the alarm, for one monitor and for four workers merged at every look.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks._measuring import publish
from benchmarks.simulations.tables import TableLaw, count_table
from benchmarks.simulations.tables import random_law as law
from separatrix import CountTable, Monitor
from separatrix.statistics import inference
from separatrix.theory import conditional_mutual_information

QUICK = ("--repetitions", "1", "--part", "start", "--shape", "2×2×2")
SHAPES = {"2×2×2": (2, 2, 2), "2×5×2": (2, 5, 2), "5×4×5": (5, 4, 5)}  # labels × groups × predictions
BUDGET, BATCH, ROWS, CHANGE, WORKERS = 0.005, 500, 50_000, 50_000, 4
LOOKS = {10.0: 20, 4.0: 100, 2.0: 500}  # rows between two looks, by v / budget


def reference(p: np.ndarray) -> CountTable:
    """10,000 rows with the margins of p, under separation."""
    share = p.sum(-1, keepdims=True)
    return count_table(1e4 * share * p.sum(1, keepdims=True) / share.sum(1, keepdims=True))


def false_alarms(shape: tuple[int, int, int], repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Shares of streams with an alarm, by the test that raised it."""
    found = dict.fromkeys(("95 all", "95 later", "50 all", "50 later", "repeated"), 0)
    for _ in range(repetitions):
        p = law(shape, BUDGET, rng)
        monitors = {c: Monitor(reference(p), max_violation=BUDGET, confidence=c / 100) for c in (95, 50)}
        total, naive = np.zeros(shape), False
        for _ in range(ROWS // BATCH):
            rows = TableLaw(p, BATCH).sample(rng)
            total += rows.counts
            for monitor in monitors.values():
                monitor.update_counts(rows)
            if not naive and conditional_mutual_information(total) > BUDGET:
                naive = inference.noise(count_table(total)).interval(0.90)[0] > BUDGET
        for c, monitor in monitors.items():
            if monitor.alarm is not None:
                which = "all" if monitor.alarm.window == monitor.alarm.rows else "later"
                found[f"{c} {which}"] += 1
        found["repeated"] += naive
    return {name: count / repetitions for name, count in found.items()}


def from_the_start(shape: tuple[int, int, int], times: float, repetitions: int, rng: np.random.Generator) -> np.ndarray:
    """Rows to the alarm; infinite if there was none within 200,000."""
    found = []
    for _ in range(repetitions):
        p = law(shape, times * BUDGET, rng)
        monitor = Monitor(reference(p), max_violation=BUDGET)
        while monitor.alarm is None and monitor.rows < 200_000:
            monitor.update_counts(TableLaw(p, LOOKS[times]).sample(rng))
        found.append(monitor.rows if monitor.alarm else np.inf)
    return np.array(found)


def after_a_change(
    shape: tuple[int, int, int], times: float, repetitions: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows from the change to the alarm: one monitor, and merged workers."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(repetitions):
        before, after = law(shape, 0.1 * BUDGET, rng), law(shape, times * BUDGET, rng)
        one = Monitor(reference(before), max_violation=BUDGET)
        workers = [Monitor(reference(before), max_violation=BUDGET) for _ in range(WORKERS)]
        merged, rows = None, 0
        while (one.alarm is None or merged is None) and rows < CHANGE + 300_000:
            for worker in workers:
                part = TableLaw(before if rows < CHANGE else after, BATCH // WORKERS).sample(rng)
                worker.update_counts(part, check=False)
                one.update_counts(part, check=False)
            rows += BATCH
            one.check()
            if merged is None and Monitor.merge(workers).check():
                merged = rows
        found[0].append(one.alarm.rows - CHANGE if one.alarm else np.inf)
        found[1].append(merged - CHANGE if merged else np.inf)
    return np.array(found[0]), np.array(found[1])


def quantiles(found: np.ndarray) -> list[str]:
    return [f"{x:,.0f}" for x in np.quantile(found, [0.5, 0.9], method="higher")]


def main(
    repetitions: int = 300, part: Sequence[str] = ("false", "start", "change"), shape: Sequence[str] = tuple(SHAPES)
) -> None:
    """Print the tables of v in docs/howto/monitor.md."""
    rng, few = np.random.default_rng(0), max(repetitions // 5, 10)
    cases = [(name, times) for name in shape for times in LOOKS]
    late = ["median", "90 %"]
    if "false" in part:
        lines = []
        for name in shape:
            found = false_alarms(SHAPES[name], repetitions, rng)
            lines.append([name, *(f"{share:.3f}" for share in found.values())])
        head = ["Y×Z×U", "nominal 0.05: all rows", "later tests", "nominal 0.5: all rows"]
        head += ["later tests", "fixed-sample test repeated"]
        publish(f"false alarms, {repetitions} streams", head, lines, write=False)
    if "start" in part:
        lines = [
            [name, f"{times:g}", *quantiles(from_the_start(SHAPES[name], times, few, rng))] for name, times in cases
        ]
        publish("rows to the alarm", ["Y×Z×U", "v / budget", *late], lines, write=False)
    if "change" in part:
        lines = []
        for name, times in cases:
            one, merged = after_a_change(SHAPES[name], times, few, rng)
            lines.append([name, f"{times:g}", *quantiles(one), *quantiles(merged)])
        head = ["Y×Z×U", "v / budget after", *late, "4 workers: median", "90 %"]
        publish("rows from the change to the alarm", head, lines, write=False)
