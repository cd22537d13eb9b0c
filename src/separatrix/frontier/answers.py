"""Answers: what could be shipped, as a trace measured it and as terminal, report and CSV show it.

`answers.json` lies beside the records of a trace. A folder of `separatrix benchmark` has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from separatrix.errors import DataError
from separatrix.io import write_whole

__all__ = ["ANSWERS", "BASE", "KINDS", "Answer", "read_answers", "write_answers"]

ANSWERS = "answers.json"
BASE = "base model"  # the recipe of its records
KINDS = {
    "choice": "what ships for the budget of the trace",
    "plain": "the base model as it is",
    "drawn": "the base model's posterior, drawn from",
    "decisions": "the best decisions around the base model within a budget",
    "score": "the best score around the base model within a budget",
    "trained": "one point of a trained path",
    "chosen": "the trained point that a budget chooses",
    "constant": "the most frequent label, always",
    "criterion": "the best decisions within one criterion's gap, to compare the criteria",
}


@dataclass(frozen=True)
class Answer:
    """One thing that could be shipped.

    Args:
        kind: one of `KINDS`.
        name: in words.
        maximize: the aim, where there is one.
        budgets: what to ask `select` for.
        blind: without the group at decision time.
        promise: estimate and standard error on unseen rows, by metric. A score's EO gap is the
            largest over all thresholds.
        floor: the EO gap that as many rows show where there is none; NaN where it has no meaning.
        rates: P(U = second label | y, z) for two labels, else P(U = y | y, z); None without rows.
        roc: of a score, per group: corners (false-positive rate, true-positive rate).
        point: method, inputs, trade_off and policy of its records, where it has some.
        always: the label that everybody gets, where there is one.
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
    point: Mapping[str, Any] = field(default_factory=dict)
    always: str | None = None
    note: str = ""

    def value(self, metric: str) -> float | None:
        """The promised value, where there is one."""
        return self.promise[metric][0] if metric in self.promise else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        floor = None if np.isnan(self.floor) else self.floor
        promise = {name: list(x) for name, x in self.promise.items() if np.isfinite(x[0])}
        return asdict(self) | {"floor": floor, "promise": promise}


def read_answers(folder: Path) -> list[Answer]:
    """The answers of a trace; none where there is no such file."""
    path = folder / ANSWERS
    if not path.is_file():
        return []
    try:
        return [_answer(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}. Trace the data again.") from error


def write_answers(folder: Path, answers: Sequence[Answer]) -> None:
    """Write them whole."""
    plain = [answer.to_dict() for answer in answers]
    write_whole(folder / ANSWERS, json.dumps(plain, indent=1, allow_nan=False))


def _answer(read: dict[str, Any]) -> Answer:
    floor = float("nan") if read["floor"] is None else float(read["floor"])
    promise = {name: (float(x[0]), float(x[1])) for name, x in read["promise"].items()}
    return Answer(**(read | {"floor": floor, "promise": promise}))
