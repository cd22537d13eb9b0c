"""Answers: what could be shipped, measured once at the end of a trace and kept in `answers.json`.

The terminal's table, the report and `frontier.csv` read this list; `select` solves anew for exactly
what is asked. The measured rules also become records, points of the frontier beside the trained.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import __version__
from separatrix.auditing.result import Audit
from separatrix.core import ordered
from separatrix.core.information import conditional_rates
from separatrix.deploy.asking import solved
from separatrix.deploy.frontiers import held_out_audit
from separatrix.deploy.words import budget_text, majority
from separatrix.errors import InfeasibleError
from separatrix.estimators.measuring import Measured
from separatrix.estimators.procedures import Decisions, Plain, Posterior, Scoring
from separatrix.io import write_whole
from separatrix.optimum.limits import limit
from separatrix.runs.keys import RunKey, hash_of
from separatrix.runs.store import Record, ReferenceCurve, Store
from separatrix.runs.traced import Traced
from separatrix.statistics.unseen import noise_floor

__all__ = ["ANSWERS", "Answer", "read_answers", "write_answers"]

ANSWERS = "answers.json"
EO_GAPS = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
_SHARES = (0.5, 0.1, 0.02)  # of the plain model's v
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """One thing that could be shipped.

    Args:
        kind: "plain", "decisions", "score" or "constant".
        name: in words.
        maximize: the aim, where there is one.
        budgets: what was asked for.
        blind: without the group at decision time.
        promise: estimate and standard error on unseen rows, by metric. A score's EO gap is the
            largest over all thresholds.
        floor: the EO gap that as many rows show where there is none.
        rates: P(U = second label | y, z) for two labels, else P(U = y | y, z).
        roc: of a score, per group: corners (false-positive rate, true-positive rate).
        note: what must be said.
    """

    kind: str
    name: str
    maximize: str = ""
    budgets: Mapping[str, float] = field(default_factory=dict)
    blind: bool = False
    promise: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    floor: float = float("nan")
    rates: list[list[float | None]] = field(default_factory=list)
    roc: list[list[list[float]]] = field(default_factory=list)
    note: str = ""


def read_answers(frontier: Traced) -> list[Answer]:
    """The answers of a trace."""
    path = frontier.folder / ANSWERS
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [Answer(**one) for one in found]


def write_answers(frontier: Traced) -> None:
    """Measure the usual questions; write answers, records and the limit."""
    answers: list[Answer] = []
    with Store(frontier.folder) as store:
        for blind in (False, True) if frontier.blind else (False,):
            for answer, found in _measured(frontier, blind):
                answers.append(answer)
                store.add(_records(frontier, answer, found))
        answers.append(_constant(frontier))
        key = str(frontier.manifest["fingerprint"])
        if not store.curves(key):
            y, z, q = frontier.rows["y"], frontier.rows["z"], frontier.nested.honest
            curve = limit(y, q, sensitive_features=z, points=200)
            name = frontier.name
            store.add_curve(ReferenceCurve(name, "limit", curve.violation, curve.utility), key)
    text = json.dumps([asdict(answer) for answer in answers], indent=1)
    write_whole(frontier.folder / ANSWERS, text.replace("NaN", "null"))


def _measured(frontier: Traced, blind: bool) -> Iterator[tuple[Answer, Measured]]:
    two = len(frontier.labels) == 2
    plain = solved(frontier, Plain(blind=blind), blind)
    more: dict[str, Any] = {}
    if two:
        score = solved(frontier, Plain(score=True, blind=blind), blind)
        more = {"auroc": score.promise["auroc"]}
    known = " without the group" if blind else ""
    yield _answer("plain", f"plain model{known}", plain, frontier, more), plain
    gap, v = plain.promise["eo_gap"].value, plain.promise["violation"].value
    asked: list[tuple[str, str, float]] = []
    if two:
        asked += [("accuracy", "eo_gap", level) for level in EO_GAPS if level < gap]
    asked += [("utility", "violation", float(f"{share * v:.1g}")) for share in _SHARES]
    for aim, budget, level in asked:
        run = Decisions(aim, {budget: level}, blind=blind)
        try:
            found = solved(frontier, run, blind)
        except InfeasibleError:
            continue  # the smallest budget that succeeds is among those above, or nothing is
        name = f"{budget_text({budget: level})}{known}"
        yield _answer("decisions", name, found, frontier, maximize=aim), found
    if two and not blind:
        found = solved(frontier, Scoring(exact=True, blind=blind), blind)
        yield _answer("score", f"separated score{known}", found, frontier), found


def _answer(
    kind: str,
    name: str,
    found: Measured,
    frontier: Traced,
    more: Mapping[str, Any] | None = None,
    maximize: str = "",
) -> Answer:
    both = {**found.promise, **(more or {})}
    promise = {name: (float(x[0]), float(x[1])) for name, x in both.items()}
    budgets = dict(found.procedure.budgets)
    blind = bool(getattr(found.procedure, "blind", False))
    floor = noise_floor(found.tables, found.squares)
    note = f"{found.eased} folds could not promise it" if found.eased else ""
    if found.is_score:
        roc = [_corners(found.tables.sum(0)[:, z]) for z in range(len(frontier.groups))]
        return Answer(kind, name, "auroc", budgets, blind, promise, floor, roc=roc, note=note)
    rates = conditional_rates(found.tables.sum(0))
    two = rates.shape[-1] == 2
    shown = rates[..., 1] if two else np.einsum("yzy->yz", rates)
    plain = [[None if np.isnan(r) else float(r) for r in row] for row in shown]
    label = found.constant
    if label is not None:
        note = f"always {str(frontier.labels[label])!r}"
    return Answer(kind, name, maximize, budgets, blind, promise, floor, plain, note=note)


def _corners(table: Array) -> list[list[float]]:
    """The ROC curve of one group from counts (2, level), at most 50 corners."""
    mass = table.sum(1, keepdims=True)
    if (mass <= 0).any():
        return []
    coarse = ordered.merged(table, table.sum(0), 50)
    tail = np.cumsum((coarse / mass)[:, ::-1], axis=1).T
    return [[0.0, 0.0], *np.clip(tail, 0.0, 1.0).round(5).tolist()]


def _constant(frontier: Traced) -> Answer:
    """Always the most frequent label."""
    cells = np.zeros((len(frontier.labels), len(frontier.groups)))
    np.add.at(cells, (frontier.rows["y"], frontier.rows["z"]), 1.0)
    label, share = majority(cells[..., None], frontier.labels)
    zero = (0.0, 0.0)
    error = float(np.sqrt(share * (1 - share) / cells.sum()))
    promise = {"accuracy": (share, error), "eo_gap": zero, "violation": zero, "utility": zero}
    promise["auroc"] = (0.5, 0.0)
    return Answer("constant", f"always {label!r}", promise=promise)


def _records(frontier: Traced, answer: Answer, found: Measured) -> list[Record]:
    """The folds of a measured rule as records; of a score none."""
    if found.is_score:
        return []
    m = frontier.manifest
    method, recipe, level = "erm", "default", 0.0
    if answer.kind == "decisions":
        (budget, level), *_ = answer.budgets.items()
        method, recipe = "postprocessing", f"{answer.maximize} within {budget}"
    first: dict[str, Any] = {
        "dataset": frontier.name, "fingerprint": m["fingerprint"], "folds": m["folds"],
        "split_seed": m["seed"], "weight": None, "method": method,
        "inputs": "x" if answer.blind else "xz", "recipe": recipe,
        "details": {"bases": m["base"]["bases"]}, "trade_off": float(level), "seed": m["seed"],
        "source": hash_of(["rule around a base model"]), "version": __version__,
    }  # fmt: skip
    area = answer.promise.get("auroc", (float("nan"),))[0]
    drawn: Any = found.tables
    hard: Any = [None] * len(drawn)
    if answer.kind == "plain":  # decided, and drawn from its posterior as the paper does
        drawn, hard = solved(frontier, Posterior(answer.blind), answer.blind).tables, drawn
    return [
        Record(RunKey(fold=k, **first), "ok", soft=one, hard=two, auroc=area)
        for k, (one, two) in enumerate(zip(drawn, hard, strict=True))
    ]


def plain_audit(frontier: Traced) -> Audit | None:
    """The audit of the plain model's decisions on rows that it did not see."""
    found = solved(frontier, Plain())
    return held_out_audit(frontier, found.tables, found.squares)
