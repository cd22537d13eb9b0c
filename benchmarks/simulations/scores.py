"""The largest gap over all thresholds, where it is known: its bound and its floor.

python -m benchmarks.simulations scores [--repetitions 300] [--write]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks._measuring import publish
from benchmarks.simulations.simulate import simulate
from separatrix.columns.counting import count_scores
from separatrix.core.score_gaps import gap_curve, largest_gap
from separatrix.statistics.bounds import gap_bound
from separatrix.statistics.shuffling import shuffled_tables

QUICK = ("--repetitions", "2", "--rows", "1000")
SIZES = (1_000, 5_000, 20_000)


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
        y, z = (
            (rng.random(self.rows) < 0.3).astype(int),
            rng.choice(self.groups, self.rows, p=share),
        )
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


def main(arguments: Sequence[str] | None = None) -> None:
    """The second table of docs/evidence/coverage.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    lines = []
    for groups in (2, 6):
        for rows in options.rows:
            for apart in (0.0, 0.3):
                for weighted in (False, True) if rows == 5_000 else (False,):
                    law = PowerScores(rows, groups, apart, weighted)
                    found = simulate(law, bound_and_floor, options.repetitions, (rows, groups))
                    means = [law.gap, *(values.mean() for values in found.values())]
                    kind = "lognormal" if weighted else "one"
                    lines.append([groups, f"{rows:,}", kind, *(f"{x:.3f}" for x in means)])
    head = ["groups", "rows", "weights", "largest gap of the population", "`gap`, mean"]
    head += ["`gap_floor`", "`gap_upper`, mean", "bound fails"]
    publish("coverage-scores", head, lines, options.write)
