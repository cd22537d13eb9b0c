"""How often a certificate of `select` fails for what ships, and how low the certified budgets are.

    python -m benchmarks.certifying [--repetitions 60] [--seed 0] [--out FILE]

Laws: normal columns with the groups apart, and the rows of a real table drawn with replacement,
whose population is the table itself. Each repetition draws rows, fits the base models of the nested
folds, makes the rules of `select` at its shares of the budget, bounds them, chooses one as `select`
does, and measures what would ship on the population. Prints a Markdown table: failures of the
choice (its v or EO gap in the population is above the budget) and of the single bounds (the worst
share of the budget), and the bound of the strictest rule, as medians over repetitions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from separatrix import datasets
from separatrix.columns.counting import soft_sums
from separatrix.core.information import conditional_mutual_information, eo_gap
from separatrix.deploy import choosing
from separatrix.deploy.certifying import rules_of
from separatrix.deploy.questions import Question
from separatrix.errors import InfeasibleError
from separatrix.estimators.nested import assemble, fit_piece, plan_fits
from separatrix.io import write_whole
from separatrix.statistics.certificates import violation_bound
from separatrix.statistics.folds import folds_eo_gap_bound, folds_violation_bound
from separatrix.statistics.gaps import eo_gap_bound

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
FOLDS, BASE = 5, "base"
POPULATION = 60_000
TRUTH = {"violation": conditional_mutual_information, "eo_gap": eo_gap}
BOUND = {"violation": folds_violation_bound, "eo_gap": folds_eo_gap_bound}
ONE_FOLD = {
    "violation": lambda table: violation_bound(table, guarantee="large-sample"),
    "eo_gap": lambda table: eo_gap_bound(table, guarantee="large-sample"),
}


@dataclass(frozen=True)
class Law:
    """Rows to draw from, and the population that they stand for."""

    draw: Callable[[int, np.random.Generator], Rows]
    population: Rows


def normal(groups: int) -> Law:
    """Three normal columns; the groups differ in base rate, in mean and in how much is told."""

    def draw(n: int, rng: np.random.Generator) -> Rows:
        share = 1.0 / np.arange(1, groups + 1)
        z = rng.choice(groups, n, p=share / share.sum())
        y = (rng.random(n) < 0.5 - 0.2 * z / groups).astype(np.intp)
        X = rng.normal(size=(n, 3))
        X[:, 0] += y * (1.0 + 0.5 * z / groups) + 0.8 * z / groups
        X[:, 1] += 0.7 * y
        return X, y, z

    return Law(draw, draw(POPULATION, np.random.default_rng(12_345)))


def table(name: str) -> Law:
    """A real table as a law."""
    data = datasets.load(name)
    rows = np.asarray(data.X), np.asarray(data.y), np.asarray(data.z)

    def draw(n: int, rng: np.random.Generator) -> Rows:
        picked = rng.integers(0, len(rows[1]), n)
        return rows[0][picked], rows[1][picked], rows[2][picked]

    return Law(draw, rows)


def traced(rows: Rows, seed: int) -> tuple[Any, list[Any]]:
    """What `select` reads of a trace, and the members that ship."""
    X, y, z = rows
    X = np.c_[X, np.eye(int(z.max()) + 1)[z]]  # the model sees the group
    fold = datasets.folds(y, z, FOLDS, seed)

    def train(part: np.ndarray, places: np.ndarray) -> LogisticRegression:
        return LogisticRegression(max_iter=200).fit(part, y[places])

    pieces = {
        fit: fit_piece(fit, X, fold, train, lambda model, part: model.predict_proba(part))
        for fit in plan_fits([BASE] * (FOLDS + 1))
    }
    members = [model for fit, (_, model) in pieces.items() if len(fit.without) == 1]
    nested = assemble(fold, [BASE] * (FOLDS + 1), pieces)
    codes = tuple(range(int(y.max()) + 1)), tuple(range(int(z.max()) + 1))
    found = SimpleNamespace(
        nested=nested, rows={"y": y, "z": z, "fold": fold}, labels=codes[0], groups=codes[1]
    )
    return found, members


def once(law: Law, n: int, budgets: dict[str, float], seed: int) -> dict[str, Any]:
    """One repetition."""
    frontier, members = traced(law.draw(n, np.random.default_rng(seed)), seed)
    (name,) = budgets
    question = Question("accuracy", budgets, confidence=0.95, guarantee="large-sample")
    candidates, rules = rules_of(frontier, question)
    X, y, z = law.population
    X = np.c_[X, np.eye(len(frontier.groups))[z]]
    scores = np.stack([model.predict_proba(X) for model in members])
    truth, bound, one = {}, {}, {}
    for candidate in candidates:
        share = candidate.trade_off
        found = rules[share]
        q = found.procedure.law(found.rule, scores, z)
        shape = len(frontier.labels), len(frontier.groups)
        truth[share] = float(TRUTH[name](soft_sums(q, y, z, shape)[0]))
        bound[share] = BOUND[name](candidate.held_out)
        one[share] = ONE_FOLD[name](candidate.held_out[0])
    out = {
        "missed": {share: truth[share] > bound[share] for share in truth},
        "smallest": bound[0.0],
        "one fold": one[0.0],
        "chosen": None,
    }
    try:
        chosen = choosing.select(
            candidates, confidence=0.95, option="single", maximize="accuracy",
            guarantee="large-sample", **{f"max_{name}": budgets[name]},
        ).chosen  # fmt: skip
        out["chosen"] = truth[chosen.components[0].trade_off] > budgets[name]
    except InfeasibleError:
        pass
    return out


@cache
def settings() -> dict[str, tuple[Law, int, dict[str, float]]]:
    """Name: the law, the rows, the budget."""
    two, five, adult = normal(2), normal(5), table("adult")
    return {
        "normal, 2 groups, v": (two, 2_000, {"violation": 0.01}),
        "normal, 2 groups, v, more rows": (two, 8_000, {"violation": 0.003}),
        "normal, 5 groups, v": (five, 6_000, {"violation": 0.01}),
        "Adult, v": (adult, 4_000, {"violation": 0.006}),
        "Adult, v, more rows": (adult, 12_000, {"violation": 0.003}),
        "normal, 2 groups, EO gap": (two, 4_000, {"eo_gap": 0.08}),
        "Adult, EO gap": (adult, 8_000, {"eo_gap": 0.08}),
    }


def table_of(found: dict[str, list[dict[str, Any]]]) -> str:
    """What the repetitions so far say, as Markdown."""
    lines: list[tuple[str, ...]] = [
        ("law", "rows", "asked", "certified", "choices that failed", "bounds that failed",
         "bound of the strictest rule: all rows", "fold 0 alone"),
        ("---",) * 8,
    ]  # fmt: skip
    for name, (_, n, budgets) in settings().items():
        ones = found[name]
        chosen = [one["chosen"] for one in ones if one["chosen"] is not None]
        worst = max(
            float(np.mean([one["missed"][share] for one in ones])) for share in ones[0]["missed"]
        )
        smallest, alone = (np.median([one[k] for one in ones]) for k in ("smallest", "one fold"))
        lines.append(
            (name, f"{n:,}", f"{next(iter(budgets.values())):g}", f"{len(chosen)} of {len(ones)}",
             f"{sum(chosen)}", f"{worst:.3f}", f"{smallest:.4f}", f"{alone:.4f}")
        )  # fmt: skip
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="written after every repetition")
    args = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in settings()}
    for seed in range(args.seed, args.seed + args.repetitions):
        for name, (law, n, budgets) in settings().items():
            found[name].append(once(law, n, budgets, seed))
        if args.out is not None:
            write_whole(args.out, table_of(found))
    print(table_of(found))


if __name__ == "__main__":
    main()
