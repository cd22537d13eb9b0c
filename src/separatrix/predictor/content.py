"""What a predictor decides with, as plain data and arrays: this is saved, and this is its hash.

`described` leaves out what does not decide anything: the card, the budgets, the versions. So the
hash, and with it every person's coins, stays the same when only these change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import InputError

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = ["CORE", "FORMAT", "canonical", "described", "finite", "model_hash", "plain"]

FORMAT = 2  # of a saved predictor
CORE = ("labels", "groups", "features", "reads", "preprocessing", "grouping", "components")
_COMPONENT = ("method", "trade_off", "policy", "lane", "threshold", "uses_groups")
Described = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def described(predictor: Predictor) -> Described:
    """Plain data, and the arrays by name."""
    arrays: dict[str, NDArray[Any]] = {}
    components = []
    branches = zip(predictor.components, predictor.weights, strict=True)
    for i, (component, weight) in enumerate(branches):
        for name, array in component.fitted.arrays().items():
            value = np.asarray(array)
            if value.dtype.kind not in "fiub":
                raise InputError(
                    f"The method {component.method!r} keeps {name!r} as {value.dtype}: only "
                    "numbers are saved."
                )
            arrays[f"component{i}.{name}"] = np.asarray(value, order="C")
        entry = {"kind": getattr(component.fitted, "kind", "method"), "weight": float(weight)}
        components.append({name: getattr(component, name) for name in _COMPONENT} | entry)
    prepared, grouping = predictor.preprocessing, predictor.grouping
    core = {
        "labels": [plain(label) for label in predictor.labels],
        "groups": [plain(group) for group in predictor.groups],
        "features": list(predictor.features),
        "reads": predictor.reads,
        "preprocessing": None if prepared is None else prepared.to_dict(),
        "grouping": None if grouping is None else grouping.to_dict(),
        "components": components,
    }
    return core, arrays


def model_hash(
    core: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], bases: Sequence[Sequence[str]]
) -> str:
    """SHA-256 of the plain data, of each array with its name, type and shape, and the kinds and
    digests of the bases.
    """
    whole = hashlib.sha256(canonical([core, bases]).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(canonical([name, array.dtype.str, list(arrays[name].shape)]).encode())
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
