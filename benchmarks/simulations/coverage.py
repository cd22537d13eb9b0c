"""Coverage of the interval of v, and the bound and the floor of a score's largest gap.

    python -m benchmarks.simulations coverage [--repetitions 1000] [--write]

Interval: five random laws (`random_law`) for each v of a row; "not estimable" where most audits say
so. Scores: laws whose rates are known at every threshold, 3 in 10 of the repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks._measuring import publish
from benchmarks.simulations.simulate import simulate
from benchmarks.simulations.tables import TableLaw, random_law
from separatrix import CountTable
from separatrix.columns.counting import count_scores
from separatrix.core.score_tables import gap_curve, largest_gap
from separatrix.statistics import bounds, inference
from separatrix.statistics.bounds import gap_bound
from separatrix.statistics.shuffling import shuffled_tables

QUICK = ("--repetitions", "5", "--sizes", "2000", "--score-sizes", "1000")
SHAPES = {"2×2×2": (2, 2, 2), "2×2×5": (2, 5, 2), "20×20×9": (20, 9, 20)}  # (y, z, u)
SIZES = (500, 2_000, 5_000, 20_000, 50_000)
VIOLATIONS = (0.0, 1e-4, 1e-3, 1e-2, 0.1)
LAWS = 5


def interval_and_bound(table: CountTable, law: TableLaw) -> dict[str, float]:
    """Whether both hold, and the two biases."""
    error = inference.noise(table)
    low, high = error.interval()
    # the bound conditions on the composition of the sample
    missed = bounds.upper_bound(table) < law.violation_given(table) - 1e-12
    return {
        "covered": low <= law.violation + 1e-9 and law.violation <= high + 1e-9,
        "bound fails": missed,
        "bias corrected": error.violation - error.bias - law.violation,
        "estimable": error.estimable,
    }


def cell(name: str, rows: int, violation: float, repetitions: int) -> dict[str, np.ndarray]:
    """All repetitions of one shape, size and v."""
    rng = np.random.default_rng((len(name), rows, round(violation * 1e6)))
    each = max((repetitions // 5 if name == "20×20×9" else repetitions) // LAWS, 1)
    parts = [
        simulate(TableLaw(random_law(SHAPES[name], violation, rng), rows), interval_and_bound, each,
                 seed=(rows, k))
        for k in range(LAWS)
    ]  # fmt: skip
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


@dataclass(frozen=True)
class PowerScores:
    """Scores U^a with an exponent for each label and group: the rates are known at all thresholds.

    Args:
        rows: of a sample.
        groups: of growing size.
        apart: how far the exponents of the groups are apart; 0 is separation.
        weighted: rows have lognormal weights.
    """

    rows: int
    groups: int
    apart: float
    weighted: bool = False

    @cached_property
    def power(self) -> np.ndarray:
        return np.outer([1.0, 0.4], np.exp(np.linspace(-self.apart, self.apart, self.groups)))

    @cached_property
    def gap(self) -> float:
        """The largest gap of the population."""
        rates = 1 - np.linspace(0, 1, 20_001) ** (1 / self.power[..., None])
        return float(np.ptp(rates, axis=1).mean(0).max())

    def sample(self, rng: np.random.Generator) -> Any:
        share = np.arange(1, self.groups + 1) / np.arange(1, self.groups + 1).sum()
        y, z = ((rng.random(self.rows) < 0.3).astype(int), rng.choice(self.groups, self.rows, p=share))
        weight = rng.lognormal(0, 0.5, self.rows) if self.weighted else None
        score = rng.random(self.rows) ** self.power[y, z]
        return count_scores(y, score, sensitive_features=z, sample_weight=weight)


def bound_and_floor(table: Any, law: PowerScores) -> dict[str, float]:
    """The gap, its bound, and the gap of groups shuffled within labels."""
    mass, squares = table.totals
    effective = mass**2 / squares if law.weighted else None
    null = shuffled_tables(table.binned(1_024).counts, 5, 0, effective)
    bound = gap_bound(table)
    return {
        "gap": largest_gap(table)[0],
        "floor": gap_curve(null).max(-1).mean(),
        "bound": bound,
        "fails": bound < law.gap,
    }


def intervals(repetitions: int, sizes: Sequence[int], write: bool) -> None:
    """The interval of v and the bound."""
    lines, off, failed, bias = [], [], [], []
    for name in SHAPES:
        for rows in sizes:
            found = [cell(name, rows, v, repetitions) for v in VIOLATIONS]
            estimable = np.mean([one["estimable"].mean() for one in found]) > 0.5
            shares = [one["covered"].mean() for one in found]
            off += [abs(share - 0.95) for share in shares] if estimable else []
            failed += [one["bound fails"].mean() for one in found]
            bias += [abs(one["bias corrected"].mean()) for one in found] if estimable else []
            note = "" if estimable else "not estimable"
            cells = (f"{share:.3f}" for share in shares)
            per_cell = rows / np.prod(SHAPES[name])
            lines.append([name, f"{rows:,}", f"{per_cell:.1f}", *cells, note])
            print(*lines[-1], sep=" | ", flush=True)
    head = ["K (Y×U×Z)", "n", "rows per cell", *(f"v = {v:g}" for v in VIOLATIONS), "note"]
    publish("coverage", head, lines, write)
    print(
        f"\nWhere estimable: largest distance from 0.95 {max(off):.3f}, mean {np.mean(off):.3f}; "
        f"largest bias after correction {max(bias):.5f}. The bound fails at most {max(failed):.3f}."
    )


def scores(repetitions: int, sizes: Sequence[int], write: bool) -> None:
    """The largest gap over all thresholds."""
    lines = []
    weighted = [(5_000, True)] if 5_000 in sizes else []
    for groups in (2, 6):
        for rows, weights in [*((n, False) for n in sizes), *weighted]:
            for apart in (0.0, 0.3):
                law = PowerScores(rows, groups, apart, weights)
                found = simulate(law, bound_and_floor, repetitions, (rows, groups))
                means = [law.gap, *(values.mean() for values in found.values())]
                kind = "lognormal" if weights else "one"
                lines.append([groups, f"{rows:,}", kind, *(f"{x:.3f}" for x in means)])
    head = ["groups", "rows", "weights", "largest gap of the population", "`gap`, mean"]
    head += ["`gap_floor`", "`gap_upper`, mean", "bound fails"]
    publish("coverage-scores", head, lines, write)


def main(
    repetitions: int = 1_000,
    sizes: Sequence[int] = SIZES,
    score_sizes: Sequence[int] = (1_000, 5_000, 20_000),
    write: bool = False,
) -> None:
    """The tables of docs/evidence/coverage.md."""
    intervals(repetitions, sizes, write)
    scores(max(repetitions * 3 // 10, 1), score_sizes, write)
