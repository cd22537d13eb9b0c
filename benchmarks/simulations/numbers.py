"""The audit of numbers on laws whose v is known: how often the lower bound is above v, its share of
v, the level and power of the test.

    python -m benchmarks.simulations numbers [--repetitions 1000] [--write]

The table is in docs/reference/continuous.md. The laws of `continuous_laws` were
written after every setting of the audit was fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import separatrix as sx
from benchmarks._measuring import publish
from benchmarks.simulations.continuous_laws import LAWS, CopulaLaw, GroupLaw
from benchmarks.simulations.simulate import simulate

QUICK = ("--repetitions", "1")
ROWS, MANY = 2_000, 100_000
MANY_REPETITIONS = 5


@dataclass(frozen=True)
class Drawn:
    """A law, and how many rows of it are drawn."""

    law: GroupLaw | CopulaLaw
    rows: int

    @cached_property
    def violation(self) -> float:
        v = self.law.violation()
        return 0.0 if v < 1e-9 else v  # rounding of the quadrature

    def sample(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        return self.law.sample(self.rows, rng)


def audited(rows: tuple[np.ndarray, ...], drawn: Drawn) -> dict[str, float]:
    """The lower bound of v and whether it fails, whether the test rejects."""
    y, u, z = rows
    a = sx.audit_regression(
        y, u, sensitive_features=z, random_state=0,
        numeric_target=drawn.law.target == "continuous",
        numeric_sensitive=drawn.law.sensitive == "continuous",
    )  # fmt: skip
    return {"lower": a.violation_lower, "fails": a.violation_lower > drawn.violation, "rejects": a.p_value < 0.05}


def line(law: GroupLaw | CopulaLaw, place: int, repetitions: int) -> list[str]:
    """One line of the table."""
    few, many = Drawn(law, ROWS), Drawn(law, MANY)
    found = simulate(few, audited, repetitions, (place,))
    shares = ["", ""]
    if few.violation and repetitions >= 20:
        more = simulate(many, audited, MANY_REPETITIONS, (place,))
        shares = [f"{one['lower'].mean() / few.violation:.3f}" for one in (found, more)]
    failed, rejected = found["fails"].mean(), found["rejects"].mean()
    return [law.name, f"{few.violation:.4f}", f"{failed:.3f}", f"{rejected:.3f}", *shares]


def main(repetitions: int = 1_000, write: bool = False) -> None:
    """Simulate every law, and print or write the table."""
    lines = []
    for place, law in enumerate(LAWS):
        lines.append(line(law, place, repetitions))
        print(" | ".join(lines[-1]), flush=True)
    head = ["distribution", "v", "P(lower > v)", "P(p < .05)"]
    head += [f"lower / v, {n:,} rows" for n in (ROWS, MANY)]
    publish("numbers", head, lines, write)
