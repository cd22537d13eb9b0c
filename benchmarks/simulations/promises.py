"""Are budgets kept in the population, and do the ranges of promises cover what it shows?

    python -m benchmarks.simulations promises [--samples 40] [--folds 12] [--only NAME] [--write]

Each sample of a distribution (`distributions`) is asked for two budgets. The rule that ships is
fitted to all rows; its true gap has a closed form. For the first `--folds` samples the same
procedure also runs on five outer folds, and the promise that `unseen` makes of their tables is
compared with the truth. Settings were chosen with the seeds of `DEVELOPMENT`; figures that are
reported have the seeds of `REPORT`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._measuring import DOCS, markdown, write_between_markers
from benchmarks.simulations.distributions import DISTRIBUTIONS, Distribution
from separatrix.columns.counting import soft_sums
from separatrix.core.measures import METRICS
from separatrix.errors import InfeasibleError
from separatrix.optimum.promised import Promises
from separatrix.statistics.unseen import unseen

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Procedure = Callable[[Array, Codes, Codes, int, float], Any]
QUICK = ("--samples", "1", "--folds", "0", "--only", "two groups")
ASKED = (0.05, 0.1)
DEVELOPMENT, REPORT = 11, 2027
_FOLDS = 5
_ORACLE_ROWS = 5_000  # with fewer, an oracle's lead is the sampling error of the curves


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of one question to one sample.

    Args:
        asked: the budget.
        refused: it could not be promised; nothing else is known then.
        rates: the true rates (groups, 2) of the rule that ships.
        tables, squares: of the outer folds, as `unseen` takes them; None where they did not run.
    """

    asked: float
    refused: bool
    rates: Array | None = None
    tables: Array | None = None
    squares: Array | None = None

    @property
    def gap(self) -> float:
        """The true EO gap."""
        assert self.rates is not None
        return float(0.5 * np.ptp(self.rates, axis=0).sum())


def group_rule(scores: Array, y: Codes, z: Codes, groups: int, asked: float) -> Any:
    """The procedure that ships: the best rule whose expected gap is what was asked."""
    return Promises(scores, y, z, np.ones(len(y)), tuple(range(groups))).rule(asked).rule


def simulate(
    distribution: Distribution,
    procedure: Procedure,
    repetitions: int,
    seed: int,
    folds: int = 0,
) -> list[Outcome]:
    """Ask a procedure for both budgets, on samples of a distribution.

    Args:
        distribution: where samples come from.
        procedure: rows, number of groups and budget → a threshold rule, or `InfeasibleError`.
        repetitions: how many samples.
        seed: of all of them.
        folds: in how many of them outer folds are measured too.
    """
    outcomes = []
    groups = len(distribution.share)
    for k in range(repetitions):
        scores, y, z = distribution.sample((seed, k))
        for asked in ASKED:
            try:
                rule = procedure(scores, y, z, groups, asked)
            except InfeasibleError:
                outcomes.append(Outcome(asked, refused=True))
                continue
            measured = (None, None)
            if k < folds:
                measured = _outer_folds(procedure, scores, y, z, groups, asked)
            outcomes.append(Outcome(asked, False, distribution.rates(rule), *measured))
    return outcomes


def _outer_folds(
    procedure: Procedure, scores: Array, y: Codes, z: Codes, groups: int, asked: float
) -> tuple[Array, Array]:
    """Tables and squares of the procedure on the test rows of every outer fold."""
    # by cell, as stratified folds are
    order = np.lexsort((np.random.default_rng(0).random(len(y)), y, z))
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % _FOLDS
    tables, squares = [], []
    for k in range(_FOLDS):
        train, test = fold != k, fold == k
        ask = partial(procedure, scores[train], y[train], z[train], groups)
        try:
            rule = ask(asked)
        except InfeasibleError as error:
            rule = ask(error.smallest["eo_gap"])
        q = rule.predict_proba(scores[test], sensitive_features=z[test])
        table, moments = soft_sums(q, y[test], z[test], (2, groups))
        assert moments is not None
        tables.append(table)
        squares.append(np.diagonal(moments, axis1=-2, axis2=-1))
    return np.array(tables), np.array(squares)


def main(arguments: list[str] | None = None) -> None:
    """Simulate, print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--folds", type=int, default=12, help="samples whose promise is measured")
    parser.add_argument("--only", nargs="*", default=[*DISTRIBUTIONS])
    parser.add_argument("--seed", type=int, default=REPORT)
    parser.add_argument("--write", action="store_true", help="write docs/evidence/margins.md")
    options = parser.parse_args(arguments)
    lines = []
    for name in options.only:
        law = DISTRIBUTIONS[name]
        outcomes = simulate(law, group_rule, options.samples, options.seed, options.folds)
        lines.append(summary(law, outcomes))
        print(*lines[-1], sep=" | ", flush=True)
    text = markdown(HEAD, lines) + (
        f"\n\n{options.samples} samples of each distribution, promises of {options.folds}; "
        f"seed {options.seed}."
    )
    print(text)
    if options.write:
        write_between_markers(DOCS / "evidence" / "margins.md", "simulations", text)


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
        shipped = [one.gap for one in of_budget if not one.refused]
        refused.append(f"{len(of_budget) - len(shipped)} of {len(of_budget)}")
        error = np.std(shipped) / max(len(shipped), 1) ** 0.5 if shipped else np.nan
        gaps.append(f"{np.mean(shipped):.4f} ± {error:.4f}" if shipped else "–")
    lost = "–"
    if not law.adverse and law.rows >= _ORACLE_ROWS:
        shipped_rules = [one for one in outcomes if one.rates is not None][:20]
        each = [law.oracle(one.gap) - law.accuracy(one.rates) for one in shipped_rules]
        lost = f"{np.mean(each):.4f}"
    return [law.name, f"{law.rows:,}", *gaps, *refused, lost, *_promises(law, outcomes)]


def _promises(law: Distribution, outcomes: list[Outcome]) -> list[str]:
    """Coverage, and the promised error over the real one, of the gap and of the accuracy."""
    rows: dict[str, list[tuple[bool, float, float]]] = {"eo_gap": [], "accuracy": []}
    measures: dict[str, Any] = {name: METRICS[name].of for name in rows}
    for one in outcomes:
        if one.tables is None or one.squares is None or one.rates is None:
            continue
        promised = unseen(one.tables, one.squares, measures)
        for name, truth in (("eo_gap", one.gap), ("accuracy", law.accuracy(one.rates))):
            found = promised[name]
            low, high = found.interval
            inside = low - 1e-12 <= truth <= high + 1e-12
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
