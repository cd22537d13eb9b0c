"""How often a certificate of `select` fails for what ships, and how low the certified budgets are.

    python -m benchmarks.simulations certificates [--repetitions 60] [--kept FILE] [--write]

Laws: normal columns with the groups apart, and the rows of a real table drawn with replacement,
whose population is the table itself. Each repetition draws rows, fits the base models of the nested
folds, makes the rules of `select` at its shares of the budget, bounds them, chooses one as `select`
does, and measures what would ship on the population. Failures of the choice: its v or EO gap in the
population is above the budget. Failures of the bounds: the worst share of the budget. The last
column is the median over repetitions. `WAYS` are the three ways to certify.
The table is in docs/reference/guarantees.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._measuring import Kept, publish
from separatrix import datasets
from separatrix.columns.counting import soft_sums
from separatrix.core.counts import CountTable
from separatrix.core.information import accuracy, conditional_mutual_information, eo_gap
from separatrix.crossfit.nested import assemble, fit_piece, plan_fits
from separatrix.frontier.operating_point import CERTIFIED
from separatrix.frontier.selection import passed, rules_of
from separatrix.procedure.procedures import Rows
from separatrix.procedure.request import Request
from separatrix.statistics.certificates import folds_eo_gap_bound, folds_violation_bound, violation_bound
from separatrix.statistics.gaps import eo_gap_bound

QUICK = ("--repetitions", "1", "--only", "normal, 2 groups, v", "--kept", os.devnull)
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]
FOLDS, BASE = 5, "base"
POPULATION = 60_000
TRUTH = {"violation": conditional_mutual_information, "eo_gap": eo_gap}
OF_ALL = {"violation": folds_violation_bound, "eo_gap": folds_eo_gap_bound}
OF_ONE = {"violation": violation_bound, "eo_gap": eo_gap_bound}
HEAD = ("distribution", "rows", "asked", "certified by", "certified", "choices that failed")
HEAD += ("bounds that failed", "bound of the strictest rule")
WAYS = {
    "large": "large-sample: every fold's rows, side by side",
    "finite": "finite-sample: the rows of fold 0",
    "added": "not offered: finite-sample, the folds' tables added up",
}


@dataclass(frozen=True)
class Law:
    """Rows to draw from, and the population that they stand for."""

    draw: Callable[[int, np.random.Generator], Sample]
    population: Sample


def normal(groups: int) -> Law:
    """Three normal columns; the groups differ in base rate, in mean and in how much is told."""

    def draw(n: int, rng: np.random.Generator) -> Sample:
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

    def draw(n: int, rng: np.random.Generator) -> Sample:
        picked = rng.integers(0, len(rows[1]), n)
        return rows[0][picked], rows[1][picked], rows[2][picked]

    return Law(draw, rows)


def traced(drawn: Sample, seed: int) -> tuple[Any, dict[tuple[int, ...], Any]]:
    """What `select` reads of a trace, and the models by the folds that they did not see."""
    X, y, z = drawn
    X = np.c_[X, np.eye(int(z.max()) + 1)[z]]  # the model sees the group
    fold = datasets.folds(y, z, FOLDS, seed)

    def train(part: np.ndarray, places: np.ndarray) -> LogisticRegression:
        return LogisticRegression(max_iter=200).fit(part, y[places])

    pieces = {
        fit: fit_piece(fit, X, fold, train, lambda model, part: model.predict_proba(part))
        for fit in plan_fits([BASE] * (FOLDS + 1))
    }
    models = {fit.without: model for fit, (_, model) in pieces.items()}
    nested = assemble(fold, [BASE] * (FOLDS + 1), pieces)
    codes = tuple(range(int(y.max()) + 1)), tuple(range(int(z.max()) + 1))
    table = Rows(y, z, *codes)
    rows = {"y": y, "z": z, "fold": fold}
    found = SimpleNamespace(scores=lambda _: nested, rows=rows, table=table, labels=codes[0], groups=codes[1])
    return found, models


def once(where: str, n: int, budgets: dict[str, float], seed: int) -> dict[str, dict[str, Any]]:
    """One repetition: for each of `WAYS` the bounds and the truths by share, and the choice."""
    law, (name,) = law_of(where), budgets
    frontier, models = traced(law.draw(n, np.random.default_rng(seed)), seed)
    out = {}
    for way, guarantee, model in (
        ("large", "large-sample", models[()]),
        ("finite", "finite-sample", models[(CERTIFIED,)]),
    ):
        question = Request("accuracy", budgets, confidence=0.95, guarantee=guarantee)
        offered = rules_of(frontier, question)
        rules = {rule.share: rule.measured for rule in offered}
        truth = truths(law, frontier, rules, model, name)
        tables = {rule.share: rule.held_out for rule in offered}
        if way == "large":
            bound = {share: OF_ALL[name](held) for share, held in tables.items()}
            added = {s: OF_ONE[name](CountTable.merge(held)) for s, held in tables.items()}
            out["added"] = {"truth": truth, "bound": added, "chosen": None}
        else:
            bound = {share: OF_ONE[name](held[0]) for share, held in tables.items()}
        good = passed(offered)
        best = max(good, key=lambda rule: accuracy(rule.measured.tables).mean(), default=None)
        chosen = None if best is None else best.share  # None: counted as not certified
        out[way] = {"truth": truth, "bound": bound, "chosen": chosen}
    return {way: out[way] for way in WAYS}


def truths(law: Law, frontier: Any, rules: dict[float, Any], model: Any, name: str) -> dict[float, float]:
    """The v or EO gap of each rule in the population."""
    X, y, z = law.population
    shape = len(frontier.labels), len(frontier.groups)
    X = np.c_[X, np.eye(shape[1])[z]]
    scores = model.predict_proba(X)
    return {
        share: float(TRUTH[name](soft_sums(one.procedure.law(one.rule, scores, z), y, z, shape)[0]))
        for share, one in rules.items()
    }


@cache
def law_of(name: str) -> Law:
    return table("adult") if name == "Adult" else normal(int(name))


SETTINGS: dict[str, tuple[str, int, dict[str, float]]] = {  # the law, the rows, the budget
    "normal, 2 groups, v": ("2", 2_000, {"violation": 0.01}),
    "normal, 2 groups, v, more rows": ("2", 8_000, {"violation": 0.003}),
    "normal, 2 groups, v, more rows, wider": ("2", 8_000, {"violation": 0.01}),
    "normal, 5 groups, v": ("5", 6_000, {"violation": 0.01}),
    "Adult, v": ("Adult", 4_000, {"violation": 0.006}),
    "Adult, v, more rows": ("Adult", 12_000, {"violation": 0.003}),
    "normal, 2 groups, EO gap": ("2", 4_000, {"eo_gap": 0.08}),
    "Adult, EO gap": ("Adult", 8_000, {"eo_gap": 0.08}),
}


def lines_of(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What the repetitions so far say."""
    lines = []
    for name, (_, n, budgets) in SETTINGS.items():
        (most,) = budgets.values()
        for way, words in WAYS.items():
            ones = [one["ways"][way] for one in found if one["law"] == name]
            if not ones:
                continue
            truth, bound = (np.array([list(one[kind].values()) for one in ones]) for kind in ("truth", "bound"))
            chosen = [one["truth"][str(one["chosen"])] for one in ones if one["chosen"] is not None]
            offered = way != "added"
            cells = f"{len(chosen)} of {len(ones)}", f"{sum(one > most for one in chosen)}"
            worst = f"{(truth > bound).mean(0).max():.3f}"
            lines.append(
                (name, f"{n:,}", f"{most:g}", words, *(cells if offered else ("", "")), worst,
                 f"{np.median(bound[:, 0]):.4f}")
            )  # fmt: skip
    return lines


def main(
    repetitions: int = 60,
    first: int = 0,
    only: Sequence[str] = tuple(SETTINGS),
    kept: Path = Path(".bench/certificates.jsonl"),
    write: bool = False,
) -> None:
    """Simulate what is not kept yet, and print or write the table."""
    file = Kept(kept)
    done = file.done("law", "seed")
    for seed in range(first, first + repetitions):
        for name in only:
            if (name, seed) not in done:
                file.add([{"law": name, "seed": seed, "ways": once(*SETTINGS[name], seed)}])
    publish("certificates", HEAD, lines_of(file.rows), write)
