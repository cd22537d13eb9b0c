"""The audit of numbers on laws whose v is known: how often the lower bound is above v, its share of
v, the level and power of the test, and the time.

    python -m benchmarks.simulations numbers [--repetitions 1000] [--write]

The tables are in docs/reference/continuous.md. The laws of `continuous_laws` were
written after every setting of the audit was fixed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma, ndtri
from scipy.stats import rankdata

import separatrix as sx
from benchmarks._measuring import machine, publish
from benchmarks.simulations.continuous_laws import LAWS, CopulaLaw, GroupLaw
from benchmarks.simulations.simulate import simulate

QUICK = ("--repetitions", "1")
ROWS, MANY, TIMED = 2_000, 100_000, 1_000_000
MANY_REPETITIONS = 5
CROSS_CHECKED = ("separated, R² .997", "shift", "wider group", "continuous Z, heavy tails")


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
    """The lower bound of v and whether it fails, whether the test rejects, v at the resolution."""
    y, u, z = rows
    a = sx.audit_regression(
        y, u, sensitive_features=z, random_state=0,
        numeric_target=drawn.law.target == "continuous",
        numeric_sensitive=drawn.law.sensitive == "continuous",
    )  # fmt: skip
    return {
        "lower": a.violation_lower,
        "fails": a.violation_lower > drawn.violation,
        "rejects": a.p_value < 0.05,
        "resolved": a.violation_at_resolution,
    }


def cross_checked(rows: tuple[np.ndarray, ...], drawn: Drawn) -> dict[str, float]:
    """Two estimators that promise nothing."""
    return {"ours": audited(rows, drawn)["resolved"], "knn": knn(*rows), "copula": gaussian(*rows)}


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


def knn(y: np.ndarray, u: np.ndarray, z: np.ndarray, k: int = 10) -> float:
    """I(U; Z | Y) by nearest neighbours in the maximum norm (Frenzel and Pompe)."""
    rng = np.random.default_rng(0)
    y, u, z = ((rankdata(x + 1e-9 * rng.random(len(x))) / len(x))[:, None] for x in (y, u, z))
    joint = np.hstack([y, u, z])
    reach = cKDTree(joint).query(joint, k + 1, p=np.inf)[0][:, -1] - 1e-12
    counts = [
        cKDTree(x).query_ball_point(x, reach, p=np.inf, return_length=True)
        for x in (np.hstack([y, u]), np.hstack([y, z]), y)
    ]
    inside = digamma(counts[0]) + digamma(counts[1]) - digamma(counts[2])
    return float(digamma(k) - inside.mean())


def gaussian(y: np.ndarray, u: np.ndarray, z: np.ndarray) -> float:
    """I(U; Z | Y) if normal scores were jointly normal."""
    scores = np.stack([ndtri((rankdata(x) - 0.5) / len(x)) for x in (y, u, z)])
    inverse = np.linalg.inv(np.corrcoef(scores))
    return float(-0.5 * np.log1p(-(inverse[1, 2] ** 2) / (inverse[1, 1] * inverse[2, 2])))


def timed() -> list[list[str]]:
    rng = np.random.default_rng(0)
    y, e, a = rng.normal(size=(3, TIMED))
    kinds = {"two groups": (a > 0).astype(int), "a continuous attribute": a}
    found = []
    for name, z in kinds.items():
        numeric = z.dtype.kind == "f"
        times = []
        for _ in range(3):
            start = time.process_time()
            sx.audit_regression(y, y + e + 0.3 * a, sensitive_features=z, numeric_sensitive=numeric)
            times.append(time.process_time() - start)
        found.append([name, f"{TIMED:,}", f"{min(times):.1f} s"])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate every law, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    lines, checks = [], []
    for place, law in enumerate(LAWS):
        lines.append(line(law, place, options.repetitions))
        print(" | ".join(lines[-1]), flush=True)
        if law.name in CROSS_CHECKED:
            means = simulate(Drawn(law, ROWS), cross_checked, min(20, options.repetitions))
            shown = (lines[-1][1], *(f"{values.mean():.4f}" for values in means.values()))
            checks.append([law.name, *shown])
    head = ["distribution", "v", "P(lower > v)", "P(p < .05)"]
    head += [f"lower / v, {n:,} rows" for n in (ROWS, MANY)]
    publish("numbers", head, lines, options.write)
    head = ["distribution", "v", "ours, at its resolution", "neighbours", "copula"]
    publish("numbers-checks", head, checks, options.write)
    if options.repetitions >= 20:
        print(machine("numpy", "scipy"))
        publish("numbers-time", ["attribute", "rows", "time"], timed(), options.write)
