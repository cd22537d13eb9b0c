"""RunKey: all that decides the result of one run, and its hash.

Two runs with equal keys give equal numbers, so a result is used again exactly where the key is the
same. That includes the code: `source_hash` covers the method's own file and every file of the
project that it reaches by imports in the rooms where numbers are made (`methods`, `nn`, `optimum`,
`core`), with `nn.stack`, which trains the losses. It is a hash of the text: a changed comment
counts too, because telling it from a change of numbers would be guessing.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from separatrix.errors import DataError

__all__ = ["ALL_ROWS", "FORMAT", "PointKey", "RunKey", "hash_of", "source_hash"]

ALL_ROWS = -1  # the fold of a model that was trained on every row
FORMAT = 2  # of keys and numbers: a change of the evaluation that changes them raises it
_ROOMS = ("methods", "nn", "optimum", "core")


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
        folds, split_seed: of the cross-validation.
        weight: w in the threshold rule Accuracy − w · EO gap; None for w = λ.
        method: its file in `methods/`.
        inputs: "xz" for [Z|X], "x" for X alone.
        recipe: the recipe's name with its changes.
        details: the recipe's fields, as plain JSON.
        trade_off: λ.
        fold: the test fold, or `ALL_ROWS`.
        seed: of the networks.
        source: hash of the code, see `source_hash`.
        version: of the package.
        format: of the numbers.
    """

    dataset: str
    fingerprint: str
    folds: int
    split_seed: int
    weight: float | None
    method: str
    inputs: str
    recipe: str
    details: Mapping[str, Any]
    trade_off: float
    fold: int
    seed: int
    source: str
    version: str
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
        shared = ("fingerprint", "folds", "split_seed", "weight", "details", "source", "version")
        return {name: getattr(self, name) for name in (*shared, "format")}

    def to_json(self) -> str:
        """Plain text with sorted names."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RunKey:
        """The inverse of `to_json`."""
        try:
            found = json.loads(text)
            if set(found) != {one.name for one in fields(cls)}:
                raise ValueError("other fields than a run has")
            return cls(**found)
        except (TypeError, ValueError) as error:
            raise DataError(f"{text[:60]!r} is not the key of a run: {error}.") from error


def hash_of(plain: Any) -> str:
    """Hash of plain data: of its JSON with sorted names.

    >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def source_hash(method: str) -> str:
    """Hash of a method's code: of its file and of those that it imports, directly or not.

    >>> source_hash("cmi") == source_hash("erm")
    False
    """
    waiting, seen = [f"methods/{method}.py", "nn/stack.py"], {}
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen[path] = read_source(path)
            waiting += _imported(seen[path])
    return hash_of(seen)


def read_source(path: str) -> str:
    """The text of a file of the package."""
    return files("separatrix").joinpath(*path.split("/")).read_text(encoding="utf-8")


@cache
def _imported(source: str) -> tuple[str, ...]:
    """The files of our rooms that a source imports anywhere, also inside its functions.

    The rooms' own `__init__` is not among them: it is the registry, and makes no number.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        elif isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        for name in names:
            package, *rest = name.split(".")
            if package == "separatrix" and len(rest) >= 2 and rest[0] in _ROOMS:
                path = "/".join(rest) + ".py"
                if files("separatrix").joinpath(*path.split("/")).is_file():
                    found.append(path)
    return tuple(found)
