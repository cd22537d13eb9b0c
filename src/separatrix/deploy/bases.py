"""The kinds of fitted classifiers that a predictor may hold: ONE list, `BASES`.

A kind says how a classifier becomes bytes, how these are read without executing anything, and how
equal classifiers get one digest. A new kind is one more entry; its file is `base0.<ending>`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import numpy as np

from separatrix.errors import DataError
from separatrix.estimators.stored import is_ours, model_bytes, model_from_bytes

__all__ = ["BASES", "BaseKind", "kind_of"]


@dataclass(frozen=True)
class BaseKind:
    """One kind.

    Args:
        name: in the manifest, and the ending of its file.
        owns: whether a fitted classifier is of this kind.
        dump: its bytes.
        load: bytes, trusted types, the file's name for errors → the classifier.
        digest: bytes → a hash that equal classifiers share.
    """

    name: str
    owns: Callable[[Any], bool]
    dump: Callable[[Any], bytes]
    load: Callable[[bytes, Sequence[str], str], Any]
    digest: Callable[[bytes], str]


def kind_of(model: Any) -> BaseKind:
    """The first kind of the list that owns a classifier."""
    return next(kind for kind in BASES if kind.owns(model))


def _digest_of_content(content: bytes) -> str:
    """Of the arrays and values in a skops file; the rest is addresses in memory and the time."""
    try:
        with ZipFile(BytesIO(content)) as file:
            found = set(_values(json.loads(file.read("schema.json"))))
            for name in file.namelist():
                if name.endswith(".npy"):
                    array = np.load(BytesIO(file.read(name)), allow_pickle=False)
                    names = array.dtype.names  # the bytes between two fields are anything
                    for field in (None,) if names is None else names:
                        part = np.ascontiguousarray(array if field is None else array[field])
                        told = f"{field} {part.dtype.str} {array.shape} ".encode()
                        found.add(hashlib.sha256(told + part.tobytes()).hexdigest())
    except Exception as error:  # a damaged zip raises many kinds
        raise DataError(f"This is not a whole skops file ({type(error).__name__}).") from error
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()


def _values(node: Any) -> Iterator[str]:
    """What a skops schema holds in plain JSON: parameters, texts, numbers."""
    if isinstance(node, dict):
        if node.get("is_json"):
            yield str(node.get("content"))
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _values(one)


BASES = (
    # our own base models are plain arrays
    BaseKind(
        "safetensors", is_ours, model_bytes, model_from_bytes,
        lambda content: hashlib.sha256(content).hexdigest(),
    ),
    # the last one owns everything
    BaseKind(
        "skops", lambda model: True, model_bytes, model_from_bytes, _digest_of_content,
    ),
)  # fmt: skip
