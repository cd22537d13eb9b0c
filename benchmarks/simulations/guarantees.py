"""Every promise of an audit, its assumption, its simulated failure, and the rows that it needs.

    python -m benchmarks.simulations guarantees [--repetitions 400] [--write]

The table of docs/reference/guarantees.md. A failure rate is the worst over the laws of
`hard_laws`; rows needed are by `sample_size` with a power of one half, as medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from benchmarks._measuring import publish
from benchmarks.simulations.simulate import simulate
from benchmarks.simulations.tables import TableLaw, count_table, hard_laws
from separatrix import CountTable, sample_size
from separatrix.columns.counting import count_scores
from separatrix.core.information import eo_gap
from separatrix.statistics import certificates, inference
from separatrix.statistics.bounds import accuracy_interval, auroc_interval
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.exponent import normal_bound
from separatrix.statistics.gaps import eo_gap_bound, eo_gap_interval
from separatrix.statistics.inference import paired_change
from separatrix.statistics.shuffling import p_value

QUICK = ("--repetitions", "3", "--only-failures")
FINITE, LARGE = "finite-sample", "large-sample"
SHAPES, GROUPS = [(2, 2), (2, 5), (2, 9), (20, 9)], [(2, 2), (2, 5), (2, 9)]


def outside(interval: tuple[float, float], truth: float) -> bool:
    low, high = interval
    return not low <= truth + 1e-12 <= high + 2e-12


def violation_promises(table: CountTable, law: TableLaw) -> dict[str, float]:
    """Failures of the bounds and the interval of v."""
    error, truth = inference.noise(table), law.violation
    observed = violation_bound(table, composition="observed")
    found: dict[str, float] = {
        "observed": observed < law.violation_given(table) - 1e-9,
        "population": violation_bound(table) < truth - 1e-9,
        "normal": normal_bound(table, composition="population") < truth - 1e-9,
    }
    if error.has_upper_limit:
        found["limit"] = error.upper_limit() < truth
    if error.estimable:
        found["interval"] = outside(error.interval(), truth)
    return found


@dataclass(frozen=True)
class RateLaw:
    """Decisions with given rates (labels, groups); every cell has as many rows."""

    rates: Sequence[Sequence[float]]
    rows: int

    def sample(self, rng: np.random.Generator) -> CountTable:
        r = np.array(self.rates)
        cell = np.full(r.shape, self.rows // r.size)
        positive = rng.binomial(cell, r)
        return count_table(np.stack([cell - positive, positive], -1))

    @property
    def gap(self) -> float:
        r = np.array(self.rates)
        return float(eo_gap(np.stack([1 - r, r], -1)))


GAP_LAWS = {
    "2 groups": RateLaw([[0.5, 0.45], [0.5, 0.55]], 800),
    "2 groups, rates near 0 and 1": RateLaw([[0.02, 0.07], [0.98, 0.93]], 600),
    "2 groups, a rate of 0": RateLaw([[0.0, 0.05], [1.0, 0.95]], 300),
    "5 groups, one apart": RateLaw([[0.01] * 4 + [0.05], [0.9] + [0.99] * 4], 1_500),
    "9 groups, one apart": RateLaw([[0.5] * 8 + [0.55]] * 2, 3_000),
}


def gap_promises(table: CountTable, law: RateLaw) -> dict[str, float]:
    """Failures of the bounds and the interval of the EO gap."""
    return {
        "finite": eo_gap_bound(table) < law.gap,
        "large": eo_gap_bound(table, guarantee=LARGE) < law.gap,
        "interval": outside(eo_gap_interval(table, 0.95, 0), law.gap),
    }


class Separated:
    """400 rows of a score and two decisions, right in 85 % of the cases, that know no group."""

    rows = 400

    def sample(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        y, z = rng.integers(0, 2, (2, self.rows))
        u = np.where(rng.random(self.rows) < 0.85, y, 1 - y)
        other = np.where(rng.random(self.rows) < 0.85, y, 1 - y)
        b = np.where(rng.random(self.rows) < 0.7, u, other)
        return y, z, u, b, rng.normal(size=self.rows) + y


def other_promises(sample: tuple[np.ndarray, ...], law: Separated) -> dict[str, float]:
    """Accuracy, AUROC, the test of v = 0, and the change of v between two predictions."""
    y, z, u, b, score = sample
    area = auroc_interval(count_scores(y, score, sensitive_features=z), 0.95)
    joint = np.bincount(8 * y + 4 * z + 2 * u + b, minlength=16).reshape(2, 2, 2, 2).astype(float)
    table = count_table(joint.sum(3))
    return {
        "auroc": outside(area, float(norm.cdf(np.sqrt(0.5)))),
        "accuracy": outside(accuracy_interval(table), 0.85),
        "test": p_value(table, int(joint[0, 0, 0, 0])) <= 0.05,
        "paired": outside(paired_change(joint)[1], 0.0),
    }


def worst(found: dict[str, dict[str, np.ndarray]]) -> dict[str, str]:
    """Kind of promise → its largest failure rate, and the law that has it."""
    rates: dict[str, dict[str, float]] = {}
    for law, kinds in found.items():
        for kind, failed in kinds.items():
            known = failed[np.isfinite(failed)]
            if len(known) >= 0.2 * len(failed):  # a law that rarely has a limit says nothing of it
                rates.setdefault(kind, {})[law] = float(known.mean())
    top = {kind: max(own, key=own.__getitem__) for kind, own in rates.items()}
    return {
        kind: f"{rates[kind][law]:.3f}" + (f" ({law})" if law and rates[kind][law] > 0 else "")
        for kind, law in top.items()
    }


def needed(what: str, shapes: list[tuple[int, int]], **how: str) -> str:
    """Rows to certify, with a power of one half."""
    target = {"max_violation": 0.005} if what == "v" else {"max_eo_gap": 0.05}
    sizes = [
        sample_size(labels=y, groups=z, power=0.5, **target, **how)  # type: ignore[arg-type]
        for y, z in shapes
    ]
    return " / ".join(f"{n:,}" for n in sizes)


def needed_by_the_normal_form(shapes: list[tuple[int, int]]) -> str:
    """The same for `normal_bound`, which `sample_size` does not offer apart."""
    found = []
    for y, z in shapes:
        share = np.full((y, z), 1.0 / (y * z))

        def enough(n: int, share: np.ndarray = share, k: int = y) -> bool:
            drawn = certificates._drawn(np.repeat(share[:, :, None] / k, k, 2), n)
            return float(np.median([normal_bound(t, 0.95, "population") for t in drawn])) <= 0.005

        found.append(certificates._smallest(enough, "v ≤ 0.005"))
    return " / ".join(f"{n:,}" for n in found)


def promises(v: dict[str, str], gap: dict[str, str], other: dict[str, str]) -> list[Sequence[str]]:
    """The lines of the table."""
    independent, full = "rows independent, weight one", "every fitted count ≥ 5"
    filled = " / ".join(f"{int(inference.MIN_FITTED) * y * z * y:,}" for y, z in SHAPES)
    return [
        ("`violation_upper`, finite-sample, observed", f"{independent}; given labels and groups",
         "≤ .05", v["observed"], needed("v", SHAPES, guarantee=FINITE, composition="observed")),
        ("`violation_upper`, finite-sample, population", f"{independent}; every cell seen",
         "≤ .05", v["population"], needed("v", SHAPES, guarantee=FINITE, composition="population")),
        ("`violation_upper`, large-sample, cells filled",
         "normal approximation; every fitted count ≥ 1 (posteriors 5)",
         ".05", v["limit"], needed("v", SHAPES, guarantee=LARGE, composition="population")),
        ("`violation_upper`, large-sample, other cells", "normal approximation", "≤ .05",
         v["normal"], needed_by_the_normal_form(SHAPES)),
        ("`eo_gap_upper`, finite-sample", "rows independent; any composition", "≤ .05",
         gap["finite"], needed("gap", GROUPS, guarantee=FINITE)),
        ("`eo_gap_upper`, large-sample", "normal approximation", "≤ .05", gap["large"],
         needed("gap", GROUPS, guarantee=LARGE)),
        ("`violation_interval`", f"large samples; {full}", ".05", v["interval"],
         f"given from {filled} on"),
        ("`eo_gap_interval`", "large samples", "≤ .05", gap["interval"],
         "given always; simulated from 300 on"),
        ("`accuracy_interval`", independent, "≤ .05", other["accuracy"], "any"),
        ("`auroc_interval`", "large samples", ".05", other["auroc"],
         "given always; simulated at 400"),
        ("`p_value` ≤ .05 at v = 0", "groups exchangeable within labels", "≤ .05",
         other["test"], "any"),
        ("`compare` on the same rows, both v = 0", f"large samples; {full}", "≤ .05",
         other["paired"], f"given from {filled} on"),
    ]  # fmt: skip


def main(repetitions: int = 400, only_failures: bool = False, write: bool = False) -> None:
    """Simulate all promises, and print or write the table."""
    of_v = {n: simulate(law, violation_promises, repetitions) for n, law in hard_laws().items()}
    of_gap = {name: simulate(law, gap_promises, repetitions) for name, law in GAP_LAWS.items()}
    other = {"": simulate(Separated(), other_promises, repetitions)}
    failures = worst(of_v), worst(of_gap), worst(other)
    if only_failures:
        print(*failures, sep="\n")
        return
    head = ["promise", "assumption", "nominal failure", "simulated failure (worst distribution)"]
    publish("guarantees", [*head, "rows needed"], promises(*failures), write)
