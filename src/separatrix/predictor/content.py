"""What a predictor decides with, as plain data and bytes: this is saved, and this is its hash.

It leaves out what does not decide anything: the card, the budgets, the versions. So the hash, and
with it every person's coins, stays the same when only these change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError
from separatrix.predictor.stored import file_ending, model_bytes, model_digest

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = ["CORE", "FORMAT", "Content", "canonical", "finite", "plain"]

FORMAT = 3  # of a saved predictor
CORE = ("labels", "groups", "features", "preprocessing", "grouping", "branches")


class Content(NamedTuple):
    """Plain data, the arrays of the rules, and the files of the models.

    Args:
        core: the fields `CORE` of a manifest.
        arrays: by name, those of branch i as "branch<i>.<name>".
        models: the bytes of each branch's model, by the name of its file.
    """

    core: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    models: Mapping[str, bytes]

    @classmethod
    def from_predictor(cls, predictor: Predictor) -> Content:
        """What `Predictor.save` writes and `model_hash` hashes."""
        arrays: dict[str, NDArray[Any]] = {}
        models: dict[str, bytes] = {}
        branches = []
        for i, (branch, weight) in enumerate(
            zip(predictor.branches, predictor.weights, strict=True)
        ):
            for name, array in branch.rule.arrays().items():
                arrays[f"branch{i}.{name}"] = np.asarray(array, order="C")
            base = branch.base
            content = model_bytes(base.model, base.method)
            file = f"base{i}.{file_ending(content)}"
            models[file] = content
            branches.append(
                {
                    "base": file,
                    "reads": base.reads,
                    "left_out": list(base.left_out),
                    "method": base.method,
                    "trade_off": base.trade_off,
                    "lane": base.lane,
                    "rule": branch.rule.kind,
                    "weight": float(weight),
                }
            )
        prepared, grouping = predictor.preprocessing, predictor.grouping
        core = {
            "labels": [plain(label) for label in predictor.labels],
            "groups": [plain(group) for group in predictor.groups],
            "features": list(predictor.features),
            "preprocessing": None if prepared is None else prepared.to_dict(),
            "grouping": None if grouping is None else grouping.to_dict(),
            "branches": branches,
        }
        return cls(core, arrays, models)

    @property
    def hash(self) -> str:
        """SHA-256 of the plain data, of the models' digests, and of each array with its name, type
        and shape.
        """
        digests = {name: model_digest(content) for name, content in self.models.items()}
        whole = hashlib.sha256(canonical([self.core, digests]).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            shape = list(self.arrays[name].shape)
            whole.update(canonical([name, array.dtype.str, shape]).encode())
            whole.update(hashlib.sha256(array.tobytes()).digest())
        return whole.hexdigest()


def finite(value: Any) -> Any:
    """Plain data as strict JSON has it: a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    value = plain(value)
    if isinstance(value, list):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def canonical(value: Any) -> str:
    """One text for equal plain data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=plain)


def plain(value: Any) -> Any:
    """A level or a number as JSON has it; tuples become lists, `from_plain` restores them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    raise InputError(
        f"{value!r} of type {type(value).__name__} cannot be written as JSON. Use text or numbers."
    )
