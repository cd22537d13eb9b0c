"""False alarms and delay of `sx.Monitor`, by simulation.

    python -m benchmarks.monitor [--repetitions 500]

False alarms: streams whose v is exactly the budget for ever (the hardest case), looked at after
every batch of 1,000 rows. Beside it, what repeating a fixed-sample test each time does: the lower
end of the asymptotic 95 % interval. Delay: 50,000 quiet rows at a tenth of the budget, then a new
law with a multiple of the budget; rows until the alarm. Budget 0.005 nats, confidence 0.95. Prints
Markdown tables.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

from benchmarks.coverage import law
from separatrix import CountTable, Monitor, conditional_mutual_information
from separatrix.statistics import inference

SHAPES = {
    "2×2×2": (2, 2, 2),
    "2×5×2": (2, 5, 2),
    "5×4×5": (5, 4, 5),
}  # labels × groups × predictions
BUDGET, BATCH, ROWS, CHANGE = 0.005, 1_000, 50_000, 50_000


def table(counts: np.ndarray) -> CountTable:
    y, z, u = (tuple(range(k)) for k in counts.shape)
    return CountTable(counts.astype(float), y, z, u, rows=max(int(counts.sum()), 1))


def batches(p: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    return rng.multinomial(BATCH, p.ravel(), size=rows // BATCH).reshape(-1, *p.shape)


def false_alarms(
    shape: tuple[int, int, int], repetitions: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Shares of streams with an alarm: ours, and of the repeated fixed-sample test."""
    ours = repeated = 0
    for _ in range(repetitions):
        p = law(shape, BUDGET, rng)
        monitor, total, naive = Monitor(table(p), BUDGET), np.zeros(shape), False
        for batch in batches(p, ROWS, rng):
            total += batch
            monitor.update_counts(table(batch))
            if not naive and conditional_mutual_information(total) > BUDGET:
                naive = inference.interval(table(total), 0.90)[0] > BUDGET  # one-sided 95 %
        ours += monitor.alarm is not None
        repeated += naive
    return ours / repetitions, repeated / repetitions


def delays(
    shape: tuple[int, int, int], times: float, repetitions: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows from the change to the alarm; infinite if there was none within a million."""
    found = []
    for _ in range(repetitions):
        before, after = law(shape, 0.1 * BUDGET, rng), law(shape, times * BUDGET, rng)
        monitor = Monitor(table(before), BUDGET)
        for batch in batches(before, CHANGE, rng):
            monitor.update_counts(table(batch))
        while monitor.alarm is None and monitor.rows < 1_000_000:
            monitor.update_counts(table(batches(after, BATCH, rng)[0]))
        found.append(monitor.rows - CHANGE if monitor.alarm else np.inf)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=500)
    repetitions = parser.parse_args().repetitions
    rng = np.random.default_rng(0)
    print(f"{repetitions} streams of {ROWS:,} rows, nominal rate 0.05\n")
    print("| Y×Z×U | false alarms | fixed-sample test repeated |\n|---|---|---|")
    for name in track(SHAPES, "false alarms", transient=True):
        ours, repeated = false_alarms(SHAPES[name], repetitions, rng)
        print(f"| {name} | {ours:.3f} | {repeated:.3f} |")
    few = max(repetitions // 10, 10)
    print(f"\n{few} streams each; rows from the change to the alarm\n")
    print("| Y×Z×U | v / budget after | median | 90 % |\n|---|---|---|---|")
    for name, times in track(
        [(n, t) for n in SHAPES for t in (2.0, 4.0, 10.0)], "delay", transient=True
    ):
        found = delays(SHAPES[name], times, few, rng)
        middle, late = np.quantile(found, [0.5, 0.9], method="higher")
        print(f"| {name} | {times:g} | {middle:,.0f} | {late:,.0f} |")


if __name__ == "__main__":
    main()
