"""The one table of docs/reference/guarantees.md: promises and their simulated failure.

    python -m benchmarks.guarantees [--repetitions 400] [--out docs/reference/guarantees.md]

Writes the table between its two marks in the page. Every failure rate is the worst over the laws
listed in `LAWS`; rows needed are by `sample_size` with a power of one half, as medians.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.coverage import law as random_law
from separatrix.columns.counting import count_scores
from separatrix.core.counts import CountTable
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.io import write_whole
from separatrix.statistics import inference, planning
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.exponent import normal_bound
from separatrix.statistics.gaps import eo_gap_bound, eo_gap_interval
from separatrix.statistics.paired import paired_change
from separatrix.statistics.planning import sample_size
from separatrix.statistics.proportions import accuracy_interval, auroc_interval

Array = np.ndarray
MARKS = "<!-- table by benchmarks/guarantees.py -->", "<!-- end of the table -->"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "guarantees.md"


def small_group() -> Array:
    """Two labels; a group of one percent that gets the same prediction nine times of ten."""
    w = np.array([[0.495, 0.005], [0.495, 0.005]])
    rates = np.array([[0.5, 0.9], [0.5, 0.9]])
    return w[:, :, None] * np.stack([1 - rates, rates], -1)


def copies(share: float) -> Array:
    """The prediction is the group, of which one has this share."""
    p = np.zeros((2, 2, 2))
    p[:, 0, 0], p[:, 1, 1] = 0.5 * (1 - share), 0.5 * share
    return p


def with_zeros() -> Array:
    """Four labels and predictions, three groups; most predictions never occur with a label."""
    p = np.zeros((4, 3, 4))
    for y in range(4):
        for z, wrong in enumerate((0.02, 0.05, 0.0)):
            p[y, z, y], p[y, z, (y + 1) % 4] = 1 - wrong, wrong
    return p / p.sum()


def sparse() -> Array:
    """Eight labels and predictions, six groups; three rates in ten are exactly zero."""
    rng, shape = np.random.default_rng(1), (8, 6, 8)
    share = rng.dirichlet(np.full(48, 5.0)).reshape(shape[:2])
    rates = rng.dirichlet(np.ones(8), size=8)[:, None] * (rng.random(shape) > 0.3)
    rates[..., 0] += 1e-3  # no cell is all empty
    return share[:, :, None] * rates / rates.sum(-1, keepdims=True)


def laws() -> dict[str, tuple[Array, int]]:
    """Name: the law and the rows drawn."""
    rng = np.random.default_rng(0)
    return {
        "2×2, v = .005": (random_law((2, 2, 2), 0.005, rng), 1_500),
        "2×5, v = .005": (random_law((2, 5, 2), 0.005, rng), 3_000),
        "2×9, v = .005": (random_law((2, 9, 2), 0.005, rng), 4_500),
        "4×3×4, v = .02": (random_law((4, 3, 4), 0.02, rng), 3_000),
        "2×2, v = .1": (random_law((2, 2, 2), 0.1, rng), 600),
        "a group of 1 %": (small_group(), 2_000),
        "U = Z, 1 %": (copies(0.01), 2_000),
        "U = Z, 30 %": (copies(0.3), 500),
        "structural zeros": (with_zeros(), 1_000),
        "8×6×8, many zeros": (sparse(), 20_000),
        "20×9×20, v = .005": (random_law((20, 9, 20), 0.005, rng), 16_200),
    }


def tables(p: Array, n: int, repetitions: int, seed: int) -> Iterator[CountTable]:
    rng = np.random.default_rng(seed)
    y, z, u = (tuple(range(k)) for k in p.shape)
    for counts in rng.multinomial(n, p.ravel(), size=repetitions).reshape(-1, *p.shape):
        yield CountTable(counts.astype(float), y, z, u, rows=n)


def given(p: Array, table: CountTable) -> float:
    """v of the law at the composition of the table."""
    mass = p.sum(2, keepdims=True)
    rates = p / np.where(mass > 0, mass, 1.0)
    return float(conditional_mutual_information(table.counts.sum(2, keepdims=True) * rates))


def worst(rates: dict[str, float]) -> str:
    name = max(rates, key=rates.__getitem__)
    return f"{rates[name]:.3f}" + (f" ({name})" if rates[name] > 0 else "")


def violation_failures(repetitions: int) -> dict[str, str]:
    """Worst failure rates of the bounds and the interval of v."""
    kinds: dict[str, dict[str, list[bool]]] = {}
    for seed, (name, (p, n)) in enumerate(laws().items()):
        truth = float(conditional_mutual_information(p))
        for table in tables(p, n, repetitions, seed):
            error = inference.noise(table)
            found = {
                "observed": violation_bound(table, composition="observed") < given(p, table) - 1e-9,
                "population": violation_bound(table) < truth - 1e-9,
                "normal": normal_bound(table, composition="population") < truth - 1e-9,
            }
            if inference.has_limit(table, error):
                found["limit"] = inference.upper_limit(table, 0.95, error) < truth
            if error.estimable:
                low, high = inference.interval(table, 0.95, error)
                found["interval"] = not low <= truth + 1e-12 <= high + 1e-12
            for kind, failed in found.items():
                kinds.setdefault(kind, {}).setdefault(name, []).append(failed)
    least = 0.2 * repetitions  # a law that is rarely estimable says nothing about the limit
    return {
        kind: worst({law: float(np.mean(x)) for law, x in of_law.items() if len(x) >= least})
        for kind, of_law in kinds.items()
    }


def gap_failures(repetitions: int) -> dict[str, str]:
    """Worst failure rates of the bounds and the interval of the gap."""
    cases = {
        "2 groups": ([[0.5, 0.45], [0.5, 0.55]], 800),
        "2 groups, rates near 0 and 1": ([[0.02, 0.07], [0.98, 0.93]], 600),
        "2 groups, a rate of 0": ([[0.0, 0.05], [1.0, 0.95]], 300),
        "5 groups, one apart": ([[0.01] * 4 + [0.05], [0.9] + [0.99] * 4], 1_500),
        "9 groups, one apart": ([[0.5] * 8 + [0.55]] * 2, 3_000),
    }
    rng = np.random.default_rng(0)
    kinds: dict[str, dict[str, float]] = {"finite": {}, "large": {}, "interval": {}}
    for name, (rates, n) in cases.items():
        r = np.array(rates)
        truth, rows = float(eo_gap(np.stack([1 - r, r], -1))), np.full(r.shape, n // r.size)
        failed = np.zeros(3)
        for i in range(repetitions):
            k = rng.binomial(rows, r)
            counts = np.stack([rows - k, k], -1).astype(float)
            table = CountTable(counts, (0, 1), tuple(range(r.shape[1])), (0, 1), int(rows.sum()))
            low, high = eo_gap_interval(table, 0.95, i)
            failed += [
                eo_gap_bound(table) < truth,
                eo_gap_bound(table, guarantee="large-sample") < truth,
                not low <= truth <= high,
            ]
        for kind, x in zip(kinds, failed / repetitions, strict=True):
            kinds[kind][name] = float(x)
    return {kind: worst(x) for kind, x in kinds.items()}


def other_failures(repetitions: int) -> dict[str, str]:
    """Accuracy, AUROC, the test of v = 0, and the change of v between two predictions."""
    from scipy.stats import norm

    rng, n = np.random.default_rng(0), 400
    failed = np.zeros(4)
    for i in range(repetitions):
        y, z = rng.integers(0, 2, (2, n))
        low, high = auroc_interval(
            count_scores(y, rng.normal(size=n) + y, sensitive_features=z), 0.95
        )
        failed[0] += not low <= norm.cdf(np.sqrt(0.5)) <= high
        u = np.where(rng.random(n) < 0.85, y, 1 - y)
        b = np.where(rng.random(n) < 0.7, u, np.where(rng.random(n) < 0.85, y, 1 - y))
        code = 8 * y + 4 * z + 2 * u + b
        joint = np.bincount(code, minlength=16).reshape(2, 2, 2, 2).astype(float)
        table = CountTable(joint.sum(3), (0, 1), (0, 1), (0, 1), n)
        low, high = accuracy_interval(table)
        failed[1] += not low <= 0.85 <= high
        failed[2] += inference.p_value(table, i) <= 0.05
        low, high = paired_change(joint)[1]
        failed[3] += not low <= 0.0 <= high
    names = "auroc", "accuracy", "test", "paired"
    return {name: f"{x / repetitions:.3f}" for name, x in zip(names, failed, strict=True)}


def needed(what: str, shapes: list[tuple[int, int]], **how: str) -> str:
    """Rows to certify, with a power of one half."""
    target = {"max_violation": 0.005} if what == "v" else {"max_eo_gap": 0.05}
    found: list[int] = [
        sample_size(labels=y, groups=z, power=0.5, **target, **how)
        for y, z in shapes  # type: ignore[arg-type]
    ]
    return " / ".join(f"{n:,}" for n in found)


def needed_by_the_normal_form(shapes: list[tuple[int, int]]) -> str:
    """The same for `normal_bound`, which `sample_size` does not offer apart."""
    found = []
    for y, z in shapes:
        share = np.full((y, z), 1.0 / (y * z))

        def enough(n: int, share: Array = share, k: int = y) -> bool:
            drawn = planning._drawn(share, k, n)
            return float(np.median([normal_bound(t, 0.95, "population") for t in drawn])) <= 0.005

        found.append(planning._smallest(enough, "v ≤ 0.005"))
    return " / ".join(f"{n:,}" for n in found)


def filled(shapes: list[tuple[int, int]]) -> str:
    """Rows at which every fitted count is large enough for an interval, shares even."""
    return " / ".join(f"{int(inference.MIN_FITTED) * y * z * y:,}" for y, z in shapes)


def table(repetitions: int, say: Callable[[str], None] = print) -> str:
    """The table as Markdown."""
    v, gap, other = (f(repetitions) for f in (violation_failures, gap_failures, other_failures))
    say("simulated")
    shapes, groups = [(2, 2), (2, 5), (2, 9), (20, 9)], [(2, 2), (2, 5), (2, 9)]
    finite, large = "finite-sample", "large-sample"
    independent = "rows independent, weight one"
    full = "every fitted count ≥ 5"
    counted = "normal approximation; every fitted count ≥ 1 (posteriors 5)"
    lines = [
        ("`violation_upper`, finite-sample, observed", f"{independent}; given labels and groups",
         "≤ .05", v["observed"], needed("v", shapes, guarantee=finite, composition="observed")),
        ("`violation_upper`, finite-sample, population", f"{independent}; every cell seen",
         "≤ .05", v["population"], needed("v", shapes, guarantee=finite, composition="population")),
        ("`violation_upper`, large-sample, cells filled", counted,
         ".05", v["limit"], needed("v", shapes, guarantee=large, composition="population")),
        ("`violation_upper`, large-sample, other cells", "normal approximation", "≤ .05",
         v["normal"], needed_by_the_normal_form(shapes)),
        ("`eo_gap_upper`, finite-sample", "rows independent; any composition", "≤ .05",
         gap["finite"], needed("gap", groups, guarantee=finite)),
        ("`eo_gap_upper`, large-sample", "normal approximation", "≤ .05", gap["large"],
         needed("gap", groups, guarantee=large)),
        ("`violation_interval`", f"large samples; {full}", ".05", v["interval"],
         f"given from {filled(shapes)} on"),
        ("`eo_gap_interval`", "large samples", "≤ .05", gap["interval"],
         "given always; simulated from 300 on"),
        ("`accuracy_interval`", independent, "≤ .05", other["accuracy"], "any"),
        ("`auroc_interval`", "large samples", ".05", other["auroc"],
         "given always; simulated at 400"),
        ("`p_value` ≤ .05 at v = 0", "groups exchangeable within labels", "≤ .05",
         other["test"], "any"),
        ("`compare` on the same rows, both v = 0", f"large samples; {full}", "≤ .05",
         other["paired"],         f"given from {filled(shapes)} on"),
    ]  # fmt: skip
    head = (
        "promise",
        "assumption",
        "nominal failure",
        "simulated failure (worst law)",
        "rows needed",
    )
    rows = ["| " + " | ".join(line) + " |" for line in (head, ("---",) * 5, *lines)]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--out", type=Path, default=PAGE)
    args = parser.parse_args()
    found = table(args.repetitions)
    page = args.out.read_text(encoding="utf-8")
    before, rest = page.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    note = f"{args.repetitions} samples of each law."
    write_whole(args.out, f"{before}{MARKS[0]}\n{found}\n\n{note}\n{MARKS[1]}{after}")
    print(found)


if __name__ == "__main__":
    main()
