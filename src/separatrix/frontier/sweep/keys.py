"""RunKey: all that decides the result of one run, and its hash.

Two runs with equal keys give equal numbers, so a result is used again exactly where the key is the
same. That includes the code: `source_hash` covers every file of the rooms where numbers are made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["ALL_ROWS", "FORMAT", "PointKey", "RunKey", "hash_of", "source_hash"]

ALL_ROWS = -1  # the fold of a model that was trained on every row
FORMAT = 4  # of records: a change of their fields or of the evaluation raises it
_ROOMS = ("methods", "nn", "optimum", "core", "frontier/sweep")


class PointKey(NamedTuple):
    """One point of a frontier, the same in records, tables, promise, selection and card.

    Args:
        method: its file in `methods/`.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the recipe's name with its changes.
        trade_off: λ; of a rule around the base model, its budget.
        policy: "randomized" or "deterministic".
    """

    method: str
    inputs: str
    recipe: str
    trade_off: float
    policy: str

    def asked_by(self, name: str) -> bool:
        """Whether "METHOD" or "METHOD:RECIPE" names it.

        >>> key = PointKey("cmi", "xz", "score", 0.5, "randomized")
        >>> key.asked_by("cmi"), key.asked_by("cmi:score"), key.asked_by("cmi:default")
        (True, True, False)
        """
        return name in (self.method, f"{self.method}:{self.recipe}")


@dataclass(frozen=True)
class RunKey:
    """One trained policy: what it was trained on, how, and by which code.

    Args:
        dataset: the name of the data.
        fingerprint: hash of the rows.
        folds: of the cross-validation.
        method: its file in `methods/`.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the recipe's name with its changes.
        details: the recipe's fields, as plain JSON.
        trade_off: λ.
        fold: the test fold, or `ALL_ROWS`.
        seed: of the folds and the networks.
        source: hash of the code, see `source_hash`.
        format: of the records.
    """

    dataset: str
    fingerprint: str
    folds: int
    method: str
    inputs: str
    recipe: str
    details: Mapping[str, Any]
    trade_off: float
    fold: int
    seed: int
    source: str
    format: int = FORMAT

    @property
    def key(self) -> str:
        """Hash of its JSON."""
        return hash_of(asdict(self))

    @property
    def series(self) -> tuple[str, str, str, str]:
        """The path that it is a point of: (dataset, method, inputs, recipe)."""
        return self.dataset, self.method, self.inputs, self.recipe

    @property
    def protocol(self) -> dict[str, Any]:
        """What all records of one series in one folder share, by the name of the field."""
        shared = ("fingerprint", "folds", "seed", "details", "source", "format")
        return {name: getattr(self, name) for name in shared}


def hash_of(plain: Any) -> str:
    """Hash of plain data: of its JSON with sorted names.

    >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def source_hash() -> str:
    """Hash of the code that makes numbers: of the text of every file in its rooms.

    A changed comment counts too: telling it from a change of numbers would be guessing.
    """
    root = files("separatrix")
    texts = {}
    waiting = [root.joinpath(room) for room in _ROOMS]
    while waiting:
        place = waiting.pop()
        if place.is_dir():
            waiting += place.iterdir()
        elif place.name.endswith(".py"):
            texts[str(place).removeprefix(str(root))] = place.read_text(encoding="utf-8")
    return hash_of(texts)
