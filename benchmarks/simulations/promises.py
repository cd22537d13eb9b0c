"""Are budgets kept in the population, and do the ranges of promises cover what it shows?

    python -m benchmarks.simulations promises [--samples 40] [--only NAME] [--seed S] [--write]

Each sample of a distribution (`distributions`) is asked for two budgets, as `FrontierClassifier`
asks: the rule that ships is fitted to all rows, its promise is measured on five folds, and a rule
whose promise is above its budget is tightened. The true gap and the true accuracy of what ships
have a closed form. Settings were chosen with the seed `DEVELOPMENT`; figures that are reported have
the seed `REPORT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import publish
from benchmarks.simulations.distributions import BENIGN, DISTRIBUTIONS, Distribution
from separatrix.crossfit.out_of_fold import NestedScores
from separatrix.procedure.candidates import candidates
from separatrix.procedure.procedures import Rows
from separatrix.procedure.promise import Promise, Run
from separatrix.procedure.request import Request

Array = NDArray[np.float64]
QUICK = ("--samples", "1", "--only", "two groups")
ASKED = (0.05, 0.1)
DEVELOPMENT, REPORT = 11, 2027
_FOLDS = 5
_ORACLE_ROWS = 5_000  # with fewer, an oracle's lead is the sampling error of the curves


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one question to one sample.

    Args:
        asked: the budget.
        rates: the true rates (groups, 2) of the rule that ships; None where it was refused.
        promise: of each metric, by name.
    """

    asked: float
    rates: Array | None
    promise: dict[str, Promise]

    @property
    def gap(self) -> float:
        """The true EO gap."""
        assert self.rates is not None
        return float(0.5 * np.ptp(self.rates, axis=0).sum())


def simulate(distribution: Distribution, repetitions: int, seed: int) -> list[Outcome]:
    """Ask for both budgets, on samples of a distribution."""
    outcomes = []
    groups = tuple(range(len(distribution.share)))
    for k in range(repetitions):
        scores, y, z = distribution.sample((seed, k))
        # by cell, as stratified folds are
        order = np.lexsort((np.random.default_rng(0).random(len(y)), y, z))
        fold = np.empty(len(y), dtype=np.intp)
        fold[order] = np.arange(len(y)) % _FOLDS
        rows = Rows(y, z, (0, 1), groups)
        held_out = NestedScores.from_out_of_fold(fold, scores)
        for asked in ASKED:
            request = Request.from_arguments(max_eo_gap=asked)
            (found,) = candidates(
                {"group rule": ""},
                lambda _, rule: Run(rule, held_out, rows).measured(),  # noqa: B023
                rows,
                request,
            )
            rates = distribution.rates(found.payload.rule.rule) if found.possible else None
            outcomes.append(Outcome(asked, rates, dict(found.promise)))
    return outcomes


def main(
    samples: int = 40, only: Sequence[str] = tuple(DISTRIBUTIONS), seed: int = REPORT, write: bool = False
) -> None:
    """Simulate, print the table, and write it if asked to."""
    lines = []
    for name in only:
        law = DISTRIBUTIONS[name]
        outcomes = simulate(law, samples, seed)
        lines.append(summary(law, outcomes))
        print(*lines[-1], sep=" | ", flush=True)
    publish("margins", HEAD, lines, write)


HEAD = [
    "distribution",
    "rows",
    *(f"true gap, asked {a:g}" for a in ASKED),
    *(f"refused at {a:g}" for a in ASKED),
    "accuracy below the oracle",
    "gap in its range",
    "error ÷ real error, gap",
    "accuracy in its range",
    "error ÷ real error, accuracy",
]


def summary(law: Distribution, outcomes: list[Outcome]) -> list[Any]:
    """One line of the table."""
    gaps, refused = [], []
    for asked in ASKED:
        of_budget = [one for one in outcomes if one.asked == asked]
        shipped = [one.gap for one in of_budget if one.rates is not None]
        refused.append(f"{len(of_budget) - len(shipped)} of {len(of_budget)}")
        error = np.std(shipped) / max(len(shipped), 1) ** 0.5 if shipped else np.nan
        gaps.append(f"{np.mean(shipped):.4f} ± {error:.4f}" if shipped else "–")
    lost = "–"
    if law in BENIGN and law.rows >= _ORACLE_ROWS:
        shipped_rules = [one for one in outcomes if one.rates is not None][:20]
        each = [law.oracle(one.gap) - law.accuracy(one.rates) for one in shipped_rules]
        lost = f"{np.mean(each):.4f}"
    return [law.name, f"{law.rows:,}", *gaps, *refused, lost, *_promises(law, outcomes)]


def _promises(law: Distribution, outcomes: list[Outcome]) -> list[str]:
    """Coverage, and the promised error over the real one, of the gap and of the accuracy."""
    rows: dict[str, list[tuple[bool, float, float]]] = {"eo_gap": [], "accuracy": []}
    for one in outcomes:
        if one.rates is None:
            continue
        for name, truth in (("eo_gap", one.gap), ("accuracy", law.accuracy(one.rates))):
            found = one.promise[name]
            inside = found.low - 1e-12 <= truth <= found.high + 1e-12
            rows[name].append((inside, found.error, found.value - truth))
    cells = []
    for each in rows.values():
        if not each:
            cells += ["–", "–"]
            continue
        inside_all, errors, misses = map(np.array, zip(*each, strict=True))
        cells.append(f"{inside_all.sum()} of {len(each)}")
        cells.append(f"{errors.mean():.4f} ÷ {np.sqrt(np.mean(misses**2)):.4f}")
    return cells
