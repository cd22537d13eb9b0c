"""The kinds of fitted classifiers that a predictor may hold: ONE list, `BASES`.

A kind says how a classifier becomes bytes, how these are read without executing anything, and how
equal classifiers get one digest. A new kind is one more entry; its file is `base0.<ending>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from separatrix.crossfit.base_models import to_arrays
from separatrix.crossfit.joint import JointModel
from separatrix.errors import DataError
from separatrix.predictor import skops_file
from separatrix.predictor.stored import joint_parts, model_bytes, model_from_bytes

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


def _digest_of_skops(content: bytes) -> str:
    """Of the tree in a skops file, with the path, type and slot of every value."""
    try:
        return skops_file.digest(content)
    except Exception as error:  # a damaged zip raises many kinds
        raise DataError(f"This is not a whole skops file ({type(error).__name__}).") from error


def _digest_of_joint(content: bytes) -> str:
    parts = joint_parts(content)
    if parts is None:
        raise DataError("This is not a whole joint model.")
    about, *models = parts
    each = [_digest_of_skops(m) if skops_file.is_archive(m) else _sha256(m) for m in models]
    return _sha256("\n".join([_sha256(about), *each]).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


BASES = (
    # our own base models are plain arrays
    BaseKind(
        "safetensors", lambda model: to_arrays(model) is not None, model_bytes, model_from_bytes,
        _sha256,
    ),
    # label and group from the features alone: two models in one
    BaseKind(
        "joint", lambda model: isinstance(model, JointModel), model_bytes, model_from_bytes,
        _digest_of_joint,
    ),
    # the last one owns everything
    BaseKind("skops", lambda model: True, model_bytes, model_from_bytes, _digest_of_skops),
)  # fmt: skip
