"""What a manifest may say, field by field: ONE list, `FIELDS`. Anything else is refused.

Each check raises `ValueError` with the rest of the sentence "manifest.json does not describe a
predictor: …".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from separatrix import methods
from separatrix.predictor.branch import READS, RULES

__all__ = ["FIELDS", "check", "parse"]

_HEX = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{8}")
_MODEL = re.compile(r"base\d{1,4}\.(safetensors|skops|joint)")
_DEEPEST = 100
Check = Callable[[Any], bool]


def parse(text: bytes) -> Any:
    """JSON, strictly: no NaN, no Infinity, no name twice, not nested without end."""
    try:
        value = json.loads(text, parse_constant=_constant, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it holds a name twice")
    return found


def _is(*kinds: type) -> Check:
    return lambda x: isinstance(x, kinds) and (bool in kinds or not isinstance(x, bool))


def _number(x: Any) -> bool:
    return _is(int, float)(x) and math.isfinite(x)


def _count(x: Any) -> bool:
    return _is(int)(x) and x >= 0


def _hash(x: Any) -> bool:
    return isinstance(x, str) and _HEX.fullmatch(x) is not None


def _level(x: Any, nested: bool = True) -> bool:
    if isinstance(x, list):
        return nested and len(x) > 0 and all(_level(one, nested=False) for one in x)
    return isinstance(x, str | bool) or _number(x)


def _levels(least: int) -> Check:
    def good(x: Any) -> bool:
        if not isinstance(x, list) or len(x) < least or not all(map(_level, x)):
            return False
        return len({json.dumps(one) for one in x}) == len(x)

    return good


def _list_of(one: Check) -> Check:
    return lambda x: isinstance(x, list) and all(map(one, x))


def _record(fields: Mapping[str, Check], more: Mapping[str, Check] | None = None) -> Check:
    """A record of these fields, and of `more` that it may lack."""
    known = {**fields, **(more or {})}

    def good(x: Any) -> bool:
        if not isinstance(x, dict) or not fields.keys() <= x.keys() <= known.keys():
            return False
        return not _wrong(x, {name: known[name] for name in x})

    return good


def _none_or(one: Check) -> Check:
    return lambda x: x is None or one(x)


def _map_of(one: Check) -> Check:
    return lambda x: isinstance(x, dict) and all(map(one, x.values()))


def _plain(x: Any, depth: int = 0) -> bool:
    if depth > _DEEPEST:
        return False
    if isinstance(x, dict):
        return all(_plain(one, depth + 1) for one in x.values())
    if isinstance(x, list):
        return all(_plain(one, depth + 1) for one in x)
    return x is None or isinstance(x, str | bool) or _number(x)


_BRANCH: dict[str, Check] = {
    "base": lambda x: isinstance(x, str) and _MODEL.fullmatch(x) is not None,
    "reads": lambda x: x in READS,
    "left_out": _list_of(_count),
    "method": lambda x: x == "" or x in methods.names(),
    "trade_off": _number,
    "lane": _count,
    "rule": lambda x: isinstance(x, str) and x in RULES,
    "weight": lambda x: _number(x) and 0.0 <= x <= 1.0,
}
_GROUPING: dict[str, Check] = {"columns": _list_of(_is(str)), "groups": _levels(0)}
_GROUPED: dict[str, Check] = {
    "edges": _map_of(lambda x: _list_of(_number)(x) and len(x) > 0 and x == sorted(set(x))),
    "missing": _is(bool),
}
_PREPARED: dict[str, Check] = {"version": _is(int), "features": _list_of(_map_of(_plain))}
_FILE: dict[str, Check] = {"bytes": _count, "sha256": _hash}

FIELDS: dict[str, Check] = {
    "format": _is(int),
    "labels": _levels(2),
    "groups": _levels(0),
    "features": _list_of(_is(str)),
    "preprocessing": _none_or(_record(_PREPARED)),
    "grouping": _none_or(_record(_GROUPING, _GROUPED)),
    "branches": lambda x: _list_of(_record(_BRANCH))(x) and len(x) > 0,
    "model": _hash,
    "key_id": _none_or(lambda x: isinstance(x, str) and _KEY.fullmatch(x) is not None),
    "about": lambda x: isinstance(x, dict) and _plain(x),
    "packages": _map_of(_is(str)),
    "files": _map_of(_record(_FILE)),
}


def check(manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest with a field too many, too few, or wrong."""
    if odd := sorted(set(manifest) ^ set(FIELDS)):
        raise ValueError(f"the field {odd[0]!r} is {'not known' if odd[0] in manifest else 'gone'}")
    if wrong := _wrong(manifest, FIELDS):
        raise ValueError(f"{wrong!r} is {_short(manifest[wrong])}")


def _wrong(record: Mapping[str, Any], fields: Mapping[str, Check]) -> str | None:
    return next((name for name, good in fields.items() if not good(record[name])), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
