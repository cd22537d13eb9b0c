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

from separatrix.errors import DataError, MissingExtraError

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


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtraError(
            "A scikit-learn base needs skops: pip install 'separatrix[deploy]'."
        ) from error
    return skops.io


def _from_skops(content: bytes, trusted: Sequence[str], source: str) -> Any:
    skops = _skops()
    try:
        unknown = [one for one in skops.get_untrusted_types(data=content) if one not in trusted]
        if unknown:
            raise DataError(
                f"{source} holds types that are not trusted: {', '.join(unknown[:5])}. Nothing was "
                "loaded. If you know them, pass load(folder, trusted=[...])."
            )
        return skops.loads(content, trusted=list(trusted))
    except DataError:
        raise
    except Exception as error:  # whatever a damaged file makes skops raise, it is one sentence here
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{source} is not a whole skops file ({told}).") from error


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
    # the last one owns everything
    BaseKind(
        "skops", lambda model: True, lambda model: bytes(_skops().dumps(model)), _from_skops,
        _digest_of_content,
    ),
)  # fmt: skip
